// Comparison and verdict: correct outputs pass, and all others fail, however
// their faults hide.
#include "harness/judging/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "harness/results/result_file.h"
#include "reference/base/work.h"
#include "tests/right_answer.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Case CaseOf(const std::string& id) { return MakeCase(ParseCaseId(id)); }

// One problem with its right answer in place, to be corrupted.
class Judging : public testing::Test {
 protected:
  Judging()
      : one_(CaseOf("toeplitz_1d:n=64,e=5,heads=2,scalar=float32,seed=3")),
        problem_(ProblemOf(one_)),
        trial_(problem_, GenerateInputs(one_, problem_), one_.seed) {
    right_ = RightAnswer(problem_, trial_.answer());
    trial_.SetOutputs(right_);
  }
  Verdict Judge() { return trial_.JudgeOutputs(definition_); }
  Verdict Judge(const Outputs& outputs) {
    trial_.SetOutputs(outputs);
    return Judge();
  }

  // Returns units of a bound that is this fraction of the largest value.
  double UnitsOf(double part) {
    return part * trial_.answer().outputs[0].largest /
           Info(Scalar::kFloat32).unit_roundoff;
  }

  const Implementation definition_;  // no bound of its own
  const Case one_;
  const Problem problem_;
  Trial trial_;
  Outputs right_;
};

TEST_F(Judging, TheRightAnswerPasses) {
  const Verdict verdict = Judge();
  EXPECT_TRUE(verdict.passed()) << verdict.reason;
  EXPECT_EQ(verdict.comparison.elements, 2 * 64 * 5);
  EXPECT_TRUE(verdict.comparison.all_rows);
}

// With a bias this large the tolerance exceeds every value. A row that is not
// written would still be rejected, which is no evidence that the check can
// fail.
TEST(Verdicts, AToleranceAboveEveryValueIsMistrusted) {
  const Case test_case =
      CaseOf("softmax_attention:n=12,d=8,e=8,with=bias,scalar=float32,seed=3");
  const Problem problem = ProblemOf(test_case);
  Inputs inputs = GenerateInputs(test_case, problem);
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == "bias") std::ranges::fill(tensor.values, 1e30);
  Trial trial(problem, inputs, test_case.seed);
  trial.SetOutputs({std::vector<double>(12 * 8, 0.5)});
  const Verdict verdict = trial.JudgeOutputs(Implementation());
  EXPECT_EQ(verdict.outcome, Outcome::kMistrusted) << verdict.reason;
  EXPECT_EQ(verdict.cause, Reason::kBlindToEverything);
}

TEST_F(Judging, NanAndInfinityFailWhereverTheyAre) {
  for (double value : {std::nan(""), kInfinity, -kInfinity})
    for (size_t at : {size_t{0}, size_t{100}, right_[0].size() - 1}) {
      trial_.SetOutputs(right_);
      // SetOutputs leaves a NaN unchanged, so it is written directly.
      static_cast<float*>(trial_.arrays().outputs[0].data)[at] =
          static_cast<float>(value);
      const Verdict verdict = Judge();
      EXPECT_EQ(verdict.outcome, Outcome::kFailed) << value << " at " << at;
      EXPECT_EQ(verdict.comparison.not_finite, 1);
      EXPECT_EQ(verdict.comparison.untouched, 0);
    }
}

TEST_F(Judging, OneUntouchedElementFailsAndAllAreMistrusted) {
  Outputs outputs = right_;
  outputs[0][77] = std::nan("");
  const Verdict verdict = Judge(outputs);
  EXPECT_EQ(verdict.outcome, Outcome::kFailed);
  EXPECT_EQ(verdict.comparison.untouched, 1);
  std::ranges::fill(outputs[0], std::nan(""));
  EXPECT_EQ(Judge(outputs).outcome, Outcome::kMistrusted);
}

TEST_F(Judging, AZeroReferenceIsMistrusted) {
  Answer zero = trial_.answer();
  std::ranges::fill(zero.outputs[0].value, 0.0L);
  trial_.set_answer(zero);
  Outputs outputs = right_;
  std::ranges::fill(outputs[0], 0);
  EXPECT_EQ(Judge(outputs).outcome, Outcome::kMistrusted);
  EXPECT_FALSE(Judge(right_).passed());
}

TEST_F(Judging, AnEmptySelectionIsMistrusted) {
  Answer none = trial_.answer();
  none.outputs[0].selection.rows.clear();
  none.outputs[0].value.clear();
  none.outputs[0].units.clear();
  trial_.set_answer(none);
  EXPECT_EQ(Judge().outcome, Outcome::kMistrusted);
  none.outputs.clear();
  trial_.set_answer(none);
  EXPECT_EQ(Judge().outcome, Outcome::kMistrusted);
}

TEST_F(Judging, ABrokenGuardFails) {
  const GuardedMemory memory(40, true);
  EXPECT_TRUE(Judge().passed());
  auto* bytes = static_cast<unsigned char*>(memory.data());
  for (int64_t at : {int64_t{-1}, int64_t{40}, int64_t{-64}, int64_t{103}}) {
    const unsigned char before = bytes[at];
    bytes[at] ^= 1;
    EXPECT_EQ(Judge().outcome, Outcome::kFailed) << at;
    bytes[at] = before;
  }
  EXPECT_TRUE(Judge().passed());
}

// A bound that is NaN must not let anything pass, whichever element it belongs
// to.
TEST_F(Judging, ANanBoundAllowsNothing) {
  for (size_t at : {size_t{0}, size_t{50}}) {
    Answer answer = trial_.answer();
    answer.outputs[0].units[at] = std::nan("");
    trial_.set_answer(answer);
    EXPECT_EQ(Judge().outcome, Outcome::kFailed) << at;
    trial_.set_answer(ComputeAnswer(problem_, trial_.inputs(), 3));
  }
}

// Gate 1 cannot fail where even the plain program has no finite bound. The
// verdict is then neither passed nor failed, and the reason says where.
TEST_F(Judging, AnElementWithoutAnyBoundIsMistrusted) {
  for (size_t at : {size_t{0}, size_t{52}}) {
    Answer answer = trial_.answer();
    answer.outputs[0].units[at] = kInfinity;
    trial_.set_answer(answer);
    Outputs outputs = right_;
    for (double value : {right_[0][at], right_[0][at] + 1e6}) {
      outputs[0][at] = value;
      const Verdict verdict = Judge(outputs);
      EXPECT_EQ(verdict.outcome, Outcome::kMistrusted) << verdict.reason;
      EXPECT_EQ(verdict.comparison.without_digits, 1);
      const std::string where = fmt::format(
          "1 of 640 elements in float32 (first at out head 0 row "
          "{} column {})",
          at / 5, at % 5);
      EXPECT_NE(verdict.reason.find(where), std::string::npos)
          << verdict.reason;
      // The numbers in the record are those of the other elements.
      const Json check = ToJson(CheckOf(verdict));
      EXPECT_EQ(check["verdict"], "mistrusted");
      EXPECT_LE(check["error"].get<double>(), 1);
      EXPECT_TRUE(check["bound"].is_number());
    }
    trial_.set_answer(ComputeAnswer(problem_, trial_.inputs(), 3));
  }
}

// The other elements are judged nevertheless.
TEST_F(Judging, OtherElementsAreJudgedBesideUnboundedOnes) {
  Answer answer = trial_.answer();
  answer.outputs[0].units[52] = kInfinity;
  trial_.set_answer(answer);
  Outputs outputs = right_;
  outputs[0][53] *= 1.5;
  const Verdict beyond = Judge(outputs);
  EXPECT_EQ(beyond.outcome, Outcome::kFailed);
  EXPECT_NE(beyond.reason.find("row 10 column 3"), std::string::npos)
      << beyond.reason;
  // NaN and elements that were never written are refused even where nothing is
  // promised.
  trial_.SetOutputs(right_);
  static_cast<float*>(trial_.arrays().outputs[0].data)[52] =
      std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Judge().outcome, Outcome::kFailed);
  std::ranges::fill(outputs[0], std::nan(""));
  EXPECT_EQ(Judge(outputs).reason, "nothing was written to the output");
}

TEST_F(Judging, UnboundedErrorsAreNullInAFile) {
  Answer answer = trial_.answer();
  std::ranges::fill(answer.outputs[0].units, kInfinity);
  trial_.set_answer(answer);
  const Verdict verdict = Judge();
  EXPECT_EQ(verdict.outcome, Outcome::kMistrusted);
  EXPECT_EQ(verdict.comparison.judged(), 0);
  const Json check = ToJson(CheckOf(verdict));
  for (const char* name : {"error", "bound", "error_ratio"})
    EXPECT_TRUE(check[name].is_null()) << name;
  EXPECT_TRUE(check["max_error"].is_number());
}

// An algorithm without a bound where the plain program has one has failed; a
// finite bound of its own is enforced where the plain program has none.
TEST_F(Judging, AnAlgorithmsBoundIsComparedWithThePlainBound) {
  double own = kInfinity;
  const double most = UnitsOf(0.0005);
  Implementation norm_wise;
  norm_wise.id = "norm_wise";
  norm_wise.norm_bound = [&](const Problem&, const Inputs&) {
    return [&](const RowId& id, std::span<double> units) {
      std::ranges::fill(units, most);
      if (id.head == 0 && id.row == 10) units[2] = own;
    };
  };
  const Verdict lost = trial_.JudgeOutputs(norm_wise);
  EXPECT_EQ(lost.outcome, Outcome::kFailed);
  EXPECT_NE(lost.reason.find("but a plain program's is finite, for 1 of 640"),
            std::string::npos)
      << lost.reason;
  Answer answer = trial_.answer();
  answer.outputs[0].units[52] = kInfinity;
  trial_.set_answer(answer);
  EXPECT_EQ(trial_.JudgeOutputs(norm_wise).outcome, Outcome::kMistrusted);
  own = most;
  norm_wise.id = "bounded";
  EXPECT_TRUE(trial_.JudgeOutputs(norm_wise).passed());
  Outputs outputs = right_;
  outputs[0][52] += 1e6;
  trial_.SetOutputs(outputs);
  EXPECT_EQ(trial_.JudgeOutputs(norm_wise).outcome, Outcome::kFailed);
}

// A bound that is wider than the plain one lets more products underflow, but
// only as many as there are outputs: where the plain bound is next to nothing,
// the ratio of the two is beyond any number of products.
TEST_F(Judging, AWiderBoundLetsUnderflowNoMoreProductsThanThereAre) {
  Implementation norm_wise;
  norm_wise.id = "norm_wise";
  norm_wise.norm_bound = [&](const Problem&, const Inputs&) {
    return [&](const RowId&, std::span<double> units) {
      std::ranges::fill(units, UnitsOf(0.0005));
    };
  };
  Answer answer = trial_.answer();
  answer.outputs[0].units[52] = 1e-300;
  trial_.set_answer(answer);
  EXPECT_TRUE(trial_.JudgeOutputs(norm_wise).passed());
  Outputs outputs = right_;
  outputs[0][52] += 1e6;
  trial_.SetOutputs(outputs);
  EXPECT_EQ(trial_.JudgeOutputs(norm_wise).outcome, Outcome::kFailed);
}

// The signed features of trf cancel where rows are long. Here those of head 0
// are short and those of head 1 long, whose errors must not be the baseline for
// head 0. The error that is allowed in addition to the plain program's is part
// of the tolerance: the distance of a mistake is counted in tolerances, not in
// the plain program's errors.
TEST(Verdict, DistancesCountAnErrorThatIsAllowed) {
  Comparison comparison;
  comparison.elements = 1;
  const double plain = 1e-6, given = 0.015;
  comparison.yardsticks = {{.error = 0.25, .given = given, .plain = plain}};
  EXPECT_DOUBLE_EQ(DistanceOf(comparison, false), 0.25 / (8 * plain + given));
  EXPECT_DOUBLE_EQ(DecidingGateOf(comparison, false).tolerance,
                   8 * plain + given);
  comparison.yardsticks = {{.error = 16 * plain, .plain = plain}};
  EXPECT_DOUBLE_EQ(DistanceOf(comparison, false), 2);
}

TEST(Verdicts, ACancellingNormaliserIsMistrustedAndNoBaseline) {
  const Case test_case = CaseOf(
      "linear_attention:n=48,e=5,heads=2,feature_map=trf,scale=1,"
      "scalar=float32,seed=3");
  const Problem problem = ProblemOf(test_case);
  Inputs inputs = GenerateInputs(test_case, problem);
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == "q" || tensor.name == "k")
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] *=
            i < static_cast<size_t>(tensor.SliceSize()) ? 1.0 / 64 : 64;
  Trial trial(problem, std::move(inputs), test_case.seed);
  const OutputAnswer& out = trial.answer().outputs[0];
  EXPECT_LT(out.plain_error, 1e-4);
  EXPECT_LT(out.largest, 10);
  int judged = 0;
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    const Verdict verdict = Verify(*implementation, trial, {});
    EXPECT_EQ(verdict.outcome, Outcome::kMistrusted)
        << implementation->id << " " << verdict.reason;
    EXPECT_EQ(verdict.comparison.without_digits, 48 * 5);
    EXPECT_NE(verdict.reason.find("no tolerance can be derived for"),
              std::string::npos);
    ++judged;
  }
  EXPECT_GE(judged, 2);
}

TEST_F(Judging, AnInfiniteAnswerAcceptsNothing) {
  for (long double value : {static_cast<long double>(std::nan("")),
                            static_cast<long double>(kInfinity)}) {
    Answer answer = trial_.answer();
    answer.outputs[0].value[7] = value;
    trial_.set_answer(answer);
    EXPECT_EQ(Judge().outcome, Outcome::kFailed);
  }
}

// Tests the baseline alone: an error within the worst-case bound that is many
// times that of the plain program fails, unless the bound is norm-wise.
TEST_F(Judging, GateTwoAppliesUnlessTheBoundIsNormWise) {
  Answer loose = trial_.answer();
  for (double& units : loose.outputs[0].units) units *= 1e6;
  trial_.set_answer(loose);
  Outputs outputs = right_;
  const double largest = trial_.answer().outputs[0].largest;
  const auto middling = std::ranges::find_if(outputs[0], [&](double value) {
    return value > 0.2 * largest && value < 0.4 * largest;
  });
  *middling *= 1.001;
  EXPECT_EQ(Judge(outputs).outcome, Outcome::kFailed);
  Implementation norm_wise;
  norm_wise.id = "norm_wise";
  norm_wise.norm_bound = [most = UnitsOf(0.0005)](const Problem&,
                                                  const Inputs&) {
    return [most](const RowId&, std::span<double> units) {
      std::ranges::fill(units, most);
    };
  };
  const Verdict verdict = trial_.JudgeOutputs(norm_wise);
  EXPECT_TRUE(verdict.passed()) << verdict.reason;
  EXPECT_NE(verdict.gates, "");
}

// A tolerance that would have accepted a wrong answer accepts no right one
// either: the verdict names the answer that it could not distinguish. If gate 2
// applies as well, it keeps wrong answers out.
TEST_F(Judging, AMarginBelowOneIsMistrusted) {
  EXPECT_GT(Judge().margin.value, 10);
  Outputs outputs = right_;
  outputs[0][5] += 100 * trial_.answer().outputs[0].plain_error;
  trial_.SetOutputs(outputs);
  const auto judge = [&](double part) {
    Implementation norm_wise;
    norm_wise.id = fmt::format("norm_wise {}", part);
    norm_wise.norm_bound = [most = UnitsOf(part)](const Problem&,
                                                  const Inputs&) {
      return [most](const RowId&, std::span<double> units) {
        std::ranges::fill(units, most);
      };
    };
    return trial_.JudgeOutputs(norm_wise);
  };
  const Verdict narrow = judge(0.0005);
  EXPECT_TRUE(narrow.passed()) << narrow.reason;
  EXPECT_EQ(narrow.margin.nearest, "scaled by 1.001");
  EXPECT_NEAR(narrow.margin.value, 2, 0.01);
  const Verdict wide = judge(0.002);
  EXPECT_EQ(wide.outcome, Outcome::kMistrusted);
  EXPECT_NE(wide.reason.find("cannot tell \"scaled by 1.001\" from the right"),
            std::string::npos)
      << wide.reason;
  EXPECT_NEAR(wide.margin.value, 0.5, 0.01);
  const Json check = ToJson(CheckOf(wide));
  EXPECT_NEAR(check["margin"].get<double>(), 0.5, 0.01);
  EXPECT_EQ(check["nearest"], "scaled by 1.001");
  trial_.SetOutputs(right_);
  EXPECT_TRUE(judge(0.002).passed());
  // An output beyond the bound has failed nevertheless.
  outputs[0][5] += trial_.answer().outputs[0].largest;
  trial_.SetOutputs(outputs);
  EXPECT_EQ(judge(0.003).outcome, Outcome::kFailed);
}

TEST(Verdicts, WithoutWrongAnswersNothingPasses) {
  Comparison comparison;
  comparison.rows = comparison.elements = 4;
  comparison.zero_reference = false;
  comparison.yardsticks = {{1}};
  EXPECT_EQ(Judge(comparison, {50, "all zero", 7}, false, 0).outcome,
            Outcome::kPassed);
  EXPECT_EQ(Judge(comparison, {}, false, 0).outcome, Outcome::kMistrusted);
  EXPECT_EQ(Judge(comparison, {std::nan(""), "", 7}, false, 0).outcome,
            Outcome::kMistrusted);
}

TEST(Verdicts, GateTwoIsEightTimesThePlainError) {
  const auto outcome = [](double over_plain, double over_bound) {
    Comparison comparison;
    comparison.rows = 40;
    comparison.elements = 400;
    comparison.zero_reference = false;
    comparison.max_over_bound = over_bound;
    comparison.over_plain = over_plain;
    comparison.yardsticks = {{1, 1, 0, 1}, {over_plain, over_plain, 0, 1}};
    return Judge(comparison, {50, "all zero", 7}, false, 0).outcome;
  };
  EXPECT_EQ(outcome(7.9, 0.9), Outcome::kPassed);
  EXPECT_EQ(outcome(8.1, 0.01), Outcome::kFailed);
  EXPECT_EQ(outcome(1, 1.1), Outcome::kFailed);
}

// The largest error of a single row may be tiny by chance, which is no measure
// for other programs. Recomputed with random rounding it is not: over many
// draws it stays near the usual error.
TEST(Answers, ThePlainErrorOfFewRowsIsTypical) {
  constexpr int kDraws = 300;
  const auto over_median = [](int64_t rows, auto error_of) {
    std::vector<double> errors;
    for (int seed = 1; seed <= kDraws; ++seed) {
      const Case test_case = CaseOf(fmt::format(
          "softmax_attention:n_q={},n_k=40,d=8,e=1,seed={}", rows, seed));
      const Problem problem = ProblemOf(test_case);
      const Inputs inputs = GenerateInputs(test_case, problem);
      errors.push_back(error_of(problem, inputs));
    }
    std::ranges::sort(errors);
    return errors[2] / errors[kDraws / 2];
  };
  const auto judged = [](const Problem& problem, const Inputs& inputs) {
    return ComputeAnswer(problem, inputs, 1).outputs[0].plain_error;
  };
  const auto of_one_run = [](const Problem& problem, const Inputs& inputs) {
    float plain = 0;
    double right = 0;
    problem.op->ReferenceFloat(problem, inputs)->Row({}, &plain, nullptr);
    problem.op->ReferenceDouble(problem, inputs)->Row({}, &right, nullptr);
    return std::abs(plain - right);
  };
  EXPECT_LT(over_median(1, of_one_run), 0.05);
  EXPECT_GT(over_median(1, judged), 0.3);
  EXPECT_GT(over_median(3, judged), 0.3);
}

// Features of keys are computed once for all rows, but their rounding errors
// must not be those of a single draw: here two keys compete by exponents of
// 8e4.
TEST(Answers, SharedFeaturesAreRoundedAtRandomToo) {
  const Case test_case = CaseOf(
      "linear_attention:n_q=1,n_k=48,d=16,e=19,f=16,feature_map=prf,causal=0,"
      "query_offset=47,input=offset,scalar=float64");
  const Problem problem = ProblemOf(test_case);
  const Inputs inputs = GenerateInputs(test_case, problem);
  const OutputAnswer answer = ComputeAnswer(problem, inputs, 1).outputs[0];
  std::vector<double> plain(static_cast<size_t>(answer.width));
  problem.op->ReferenceDouble(problem, inputs)->Row({}, plain.data(), nullptr);
  double of_one_run = 0;
  for (size_t c = 0; c < plain.size(); ++c)
    of_one_run = std::max(
        of_one_run, static_cast<double>(std::abs(plain[c] - answer.value[c])));
  EXPECT_GT(answer.plain_error, 20 * of_one_run);
}

// No program can return a value that its type cannot represent; that does not
// count as passed.
TEST(Answers, NumbersBeyondTheTypeAreSkipped) {
  for (const auto& [scalar, expected] :
       {std::pair{"float32", Outcome::kSkipped},
        {"float64", Outcome::kPassed}}) {
    const Case test_case = CaseOf(fmt::format(
        "linear_attention:n=9,d=8,e=8,feature_map=identity,normalized=0,"
        "input=huge,scalar={}",
        scalar));
    const Problem problem = ProblemOf(test_case);
    Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
    EXPECT_EQ(
        Verify(*ImplementationsOf(*test_case.op).front(), trial, {}).outcome,
        expected)
        << scalar;
  }
  Answer nan;
  nan.outputs.emplace_back().value = {std::nanl("")};
  const Problem product =
      ProblemOf(MakeCase(ParseCaseId("toeplitz_1d:n=1,e=1,scalar=float32")));
  EXPECT_TRUE(FitsType(product, nan));
  // Only the logarithm of an empty sum is -inf.
  Answer infinite;
  infinite.outputs.emplace_back().value = {
      -std::numeric_limits<long double>::infinity()};
  EXPECT_FALSE(FitsType(product, infinite));
}

// Implementations that sum over the features are allowed the roundings of these
// sums, even if there are fewer keys than features.
TEST(Answers, RoundingsIncludeSumsOverFeatures) {
  const auto roundings = [](const std::string& id) {
    const Case test_case = CaseOf(id);
    const Problem problem = ProblemOf(test_case);
    return ComputeAnswer(problem, GenerateInputs(test_case, problem), 1)
        .outputs[0]
        .roundings;
  };
  EXPECT_EQ(roundings("softmax_attention:n=9,d=100,e=2"), 2);
  EXPECT_EQ(roundings("linear_attention:n=9,d=2,e=2,feature_map=elu1"), 2);
  EXPECT_EQ(roundings("linear_attention:n=9,d=5,e=2,feature_map=dpfp,nu=40"),
            20);
}

// Rows beyond kAllRows are sampled; the edges are always included.
TEST(Selection, LargeProblemsCompareEdgesAndASample) {
  for (int64_t n : {4097, 16384, 99999, 100000, 1 << 20}) {
    const Problem problem =
        ProblemOf(CaseOf(fmt::format("toeplitz_1d:n={},e=2", n)));
    const RowSelection selection = SelectRows(problem, 0, 1);
    EXPECT_FALSE(selection.all);
    EXPECT_GE(selection.rows.size(), static_cast<size_t>(kSampledRows)) << n;
    std::set<int64_t> rows;
    for (const RowId& id : selection.rows) {
      EXPECT_TRUE(id.row >= 0 && id.row < n) << id.row << " of " << n;
      EXPECT_TRUE(rows.insert(id.row).second) << id.row << " twice";
    }
    for (int64_t row : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64},
                        int64_t{2047}, int64_t{2048}, n / 2, n - 2, n - 1})
      EXPECT_TRUE(rows.contains(row)) << row << " of " << n;
  }
}

// A limit of work makes the sample smaller, down to a few rows with both ends.
TEST(Selection, IsSmallerIfRowsAreExpensive) {
  const Problem problem = ProblemOf(CaseOf("toeplitz_1d:n=4000,e=64,heads=2"));
  const double row_work = WorkOfRow(problem, 0);
  const auto chosen = [&](double rows) {
    return SelectRows(problem, 0, 1, rows * row_work);
  };
  EXPECT_TRUE(chosen(kNoLimit).all);
  EXPECT_TRUE(chosen(8000).all);
  EXPECT_FALSE(chosen(7990).all);
  EXPECT_EQ(chosen(7990).rows.size(), 2 * static_cast<size_t>(kSampledRows));
  EXPECT_EQ(chosen(200).rows.size(), 200u);
  // Neighbours in the middle are kept wherever rows are left out.
  for (const int64_t rows : {200, 40})
    for (const int64_t head : {0, 1})
      for (const int64_t row : {1999, 2000, 2001})
        EXPECT_TRUE(std::ranges::any_of(
            chosen(static_cast<double>(rows)).rows,
            [&](const RowId& id) { return id.head == head && id.row == row; }))
            << rows << " " << head << " " << row;
  const RowSelection fewest = chosen(1);
  EXPECT_EQ(fewest.rows.size(), static_cast<size_t>(kFewestSampledRows));
  for (const int64_t head : {0, 1})
    for (const int64_t end : {int64_t{0}, problem.queries - 1})
      EXPECT_TRUE(std::ranges::any_of(
          fewest.rows,
          [&](const RowId& id) { return id.head == head && id.row == end; }))
          << head << " " << end;
}

}  // namespace
}  // namespace subquad
