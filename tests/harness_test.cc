// The harness tested: comparer, verdicts, floors, memory counter, sampler,
// generator, ids, threads and the registry, each with something that must be
// caught or recovered.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "harness/floors.h"
#include "harness/generate.h"
#include "harness/memory_counter.h"
#include "harness/npy.h"
#include "harness/registry.h"
#include "harness/result_file.h"
#include "harness/sampler.h"
#include "harness/verification.h"
#include "harness/wrong_answers.h"
#include "optimized/thread_pool.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- comparison and verdict -------------------------------------------------

Case CaseOf(const std::string& id) { return MakeCase(ParseCaseId(id)); }

// One problem with its right answer in place, to be spoilt.
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

TEST_F(Judging, NanAndInfinityFailWhereverTheyAre) {
  for (double value : {std::nan(""), kInfinity, -kInfinity})
    for (size_t at : {size_t{0}, size_t{100}, right_[0].size() - 1}) {
      trial_.SetOutputs(right_);
      // SetOutputs leaves a NaN untouched, so it is written by hand.
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
  const Verdict one = Judge(outputs);
  EXPECT_EQ(one.outcome, Outcome::kFailed);
  EXPECT_EQ(one.comparison.untouched, 1);
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

// A bound that is no number must not let anything through, whichever element it
// belongs to.
TEST_F(Judging, ABoundThatIsNoNumberAllowsNothing) {
  for (size_t at : {size_t{0}, size_t{50}}) {
    Answer answer = trial_.answer();
    answer.outputs[0].units[at] = std::nan("");
    trial_.set_answer(answer);
    EXPECT_EQ(Judge().outcome, Outcome::kFailed) << at;
    trial_.set_answer(ComputeAnswer(problem_, trial_.inputs(), 3));
  }
}

// Where even the plain program has no finite bound, gate 1 could not have
// failed. That is neither passed nor failed, and the reason says where.
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
          "1 of 640 elements in float32, first at out head 0 row "
          "{} column {}",
          at / 5, at % 5);
      EXPECT_NE(verdict.reason.find(where), std::string::npos)
          << verdict.reason;
      // The numbers are those of the other elements.
      const Json check = Json::parse(CheckJson(verdict).dump());
      EXPECT_EQ(check["verdict"], "mistrusted");
      EXPECT_LE(check["error"].get<double>(), 1);
      EXPECT_TRUE(check["bound"].is_number());
    }
    trial_.set_answer(ComputeAnswer(problem_, trial_.inputs(), 3));
  }
}

// The other elements are judged all the same.
TEST_F(Judging, WhatFailsBesideElementsWithoutABoundFails) {
  Answer answer = trial_.answer();
  answer.outputs[0].units[52] = kInfinity;
  trial_.set_answer(answer);
  Outputs outputs = right_;
  outputs[0][53] *= 1.5;
  const Verdict beyond = Judge(outputs);
  EXPECT_EQ(beyond.outcome, Outcome::kFailed);
  EXPECT_NE(beyond.reason.find("row 10 column 3"), std::string::npos)
      << beyond.reason;
  // NaN is refused where nothing is promised, too, and so is what was never
  // written.
  trial_.SetOutputs(right_);
  static_cast<float*>(trial_.arrays().outputs[0].data)[52] =
      std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Judge().outcome, Outcome::kFailed);
  std::ranges::fill(outputs[0], std::nan(""));
  EXPECT_EQ(Judge(outputs).reason, "the output was not touched");
}

TEST_F(Judging, NumbersThatNobodyBoundsAreNullInAFile) {
  Answer answer = trial_.answer();
  std::ranges::fill(answer.outputs[0].units, kInfinity);
  trial_.set_answer(answer);
  const Verdict verdict = Judge();
  EXPECT_EQ(verdict.outcome, Outcome::kMistrusted);
  EXPECT_EQ(verdict.comparison.judged(), 0);
  const Json check = Json::parse(CheckJson(verdict).dump());
  for (const char* name : {"error", "bound", "error_ratio"})
    EXPECT_TRUE(check[name].is_null()) << name;
  EXPECT_TRUE(check["max_error"].is_number());
}

// An algorithm that bounds less than the plain program does has failed; one
// that bounds more is held to it.
TEST_F(Judging, AnAlgorithmsOwnBoundIsHeldAgainstThePlainOne) {
  double own = kInfinity;
  Implementation norm_wise;
  norm_wise.id = "norm_wise";
  norm_wise.norm_bound = [&](const Problem&, const Inputs&) {
    return [&](const RowId& id, std::span<double> units) {
      std::ranges::fill(units, 1e9);
      if (id.head == 0 && id.row == 10) units[2] = own;
    };
  };
  const Verdict lost = trial_.JudgeOutputs(norm_wise);
  EXPECT_EQ(lost.outcome, Outcome::kFailed);
  EXPECT_NE(
      lost.reason.find("where the plain dense program's is, for 1 of 640"),
      std::string::npos)
      << lost.reason;
  Answer answer = trial_.answer();
  answer.outputs[0].units[52] = kInfinity;
  trial_.set_answer(answer);
  EXPECT_EQ(trial_.JudgeOutputs(norm_wise).outcome, Outcome::kMistrusted);
  own = 1e9;
  EXPECT_TRUE(trial_.JudgeOutputs(norm_wise).passed());
  Outputs outputs = right_;
  outputs[0][52] += 1e6;
  trial_.SetOutputs(outputs);
  EXPECT_EQ(trial_.JudgeOutputs(norm_wise).outcome, Outcome::kFailed);
}

// The signed features of trf cancel where rows are long. Here those of head 0
// are short and those of head 1 long, whose errors must be no yardstick for
// head 0.
TEST(Verdicts, ANormaliserThatCancelsIsMistrustedAndNoYardstick) {
  const Case one = CaseOf(
      "linear_attention:n=48,e=5,heads=2,feature_map=trf,scale=1,"
      "scalar=float32,seed=3");
  const Problem problem = ProblemOf(one);
  Inputs inputs = GenerateInputs(one, problem);
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == "q" || tensor.name == "k")
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] *=
            i < static_cast<size_t>(tensor.head_stride) ? 1.0 / 64 : 64;
  Trial trial(problem, std::move(inputs), one.seed);
  const OutputAnswer& out = trial.answer().outputs[0];
  EXPECT_LT(out.plain_error, 1e-4);
  EXPECT_LT(out.largest, 10);
  int judged = 0;
  for (const Implementation* implementation : ImplementationsOf(*one.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    const Verdict verdict = Verify(*implementation, trial, {});
    EXPECT_EQ(verdict.outcome, Outcome::kMistrusted)
        << implementation->id << " " << verdict.reason;
    EXPECT_EQ(verdict.comparison.without_digits, 48 * 5);
    EXPECT_NE(verdict.reason.find("theory promises no digit"),
              std::string::npos);
    ++judged;
  }
  EXPECT_GE(judged, 2);
}

TEST_F(Judging, AnAnswerThatIsNotFiniteTakesNothing) {
  for (long double value : {static_cast<long double>(std::nan("")),
                            static_cast<long double>(kInfinity)}) {
    Answer answer = trial_.answer();
    answer.outputs[0].value[7] = value;
    trial_.set_answer(answer);
    EXPECT_EQ(Judge().outcome, Outcome::kFailed);
  }
}

// The yardstick alone: an error within the worst-case bound that is many times
// that of the plain program fails, unless the bound is one of norms.
TEST_F(Judging, GateTwoHoldsWhereNoNormDecides) {
  Answer loose = trial_.answer();
  for (double& units : loose.outputs[0].units) units *= 1e6;
  trial_.set_answer(loose);
  Outputs outputs = right_;
  outputs[0][9] *= 1.001;
  EXPECT_EQ(Judge(outputs).outcome, Outcome::kFailed);
  Implementation norm_wise;
  norm_wise.id = "norm_wise";
  norm_wise.norm_bound = [&](const Problem&, const Inputs&) {
    return [](const RowId&, std::span<double> units) {
      std::ranges::fill(units, 1e9);
    };
  };
  const Verdict verdict = trial_.JudgeOutputs(norm_wise);
  EXPECT_TRUE(verdict.passed());
  EXPECT_NE(verdict.gates, "");
}

// Where the plain program's error is that of a few rows it may be next to
// nothing by luck: an error well within its bound is good enough there.
TEST(Verdicts, AFewRowsAreAYardstickForErrorsNearTheirBoundsOnly) {
  const auto outcome = [](double over_plain, double rows, double over_bound) {
    Comparison comparison;
    comparison.rows = 40;
    comparison.elements = 400;
    comparison.zero_reference = false;
    comparison.max_over_bound = over_bound;
    comparison.over_plain = over_plain;
    comparison.yardsticks = {{1, 40}, {over_plain, rows}};
    return Judge(comparison, false, 0).outcome;
  };
  EXPECT_EQ(outcome(7.9, 40, 0.9), Outcome::kPassed);
  EXPECT_EQ(outcome(8.1, 40, 0.01), Outcome::kFailed);
  EXPECT_EQ(outcome(8.1, 4, 0.01), Outcome::kFailed);
  EXPECT_EQ(outcome(8.1, 3.9, 0.12), Outcome::kPassed);
  EXPECT_EQ(outcome(8.1, 3.9, 0.13), Outcome::kFailed);
  EXPECT_EQ(outcome(7.9, 1, 0.9), Outcome::kPassed);
  EXPECT_EQ(outcome(1, 1, 1.1), Outcome::kFailed);
}

TEST_F(Judging, RowsCountByTheirBounds) {
  Answer answer = trial_.answer();
  OutputAnswer& out = answer.outputs[0];
  const size_t width = static_cast<size_t>(out.width);
  std::ranges::fill(out.units, 100);
  trial_.set_answer(answer);
  EXPECT_DOUBLE_EQ(Judge().comparison.yardsticks.at(0).rows, 2 * 64);
  for (size_t i = 0; i < out.units.size(); ++i)
    if (i >= 3 * width) out.units[i] = 1;
  trial_.set_answer(answer);
  EXPECT_DOUBLE_EQ(Judge().comparison.yardsticks.at(0).rows,
                   3 + (2 * 64 - 3) / 100.0);
  // Elements without any bound have no say.
  for (size_t i = 0; i < width; ++i) out.units[i] = kInfinity;
  trial_.set_answer(answer);
  EXPECT_DOUBLE_EQ(Judge().comparison.yardsticks.at(0).rows,
                   2 + (2 * 64 - 3) / 100.0);
}

// Rows beyond kAllRows are sampled; edges are always among them.
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

// ---- measuring --------------------------------------------------------------

// Does nothing, in constant time: no bound of time may let it have one.
TEST(Measuring, AnImplementationThatDoesNothingHasNoTime) {
  const Floors floors{1e11, 5e10, 1e11};
  const Contestant idle{"idle", [] {}, 1e-9};
  const std::vector<Sampled> results =
      SampleInTurns(std::span(&idle, 1), SamplingRule{.budget_seconds = 0.1});
  const double seconds = *std::ranges::min_element(results[0].samples);
  EXPECT_LT(seconds, 1e-6);
  const Cost cost{.flops = 1e9, .bytes = 1e7};
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    EXPECT_NE(Impossible(cost, 1, scalar, floors, seconds), "");
  // By its flops alone, by its bytes alone.
  EXPECT_NE(Impossible({.flops = 1e9}, 1, Scalar::kFloat32, floors, seconds),
            "");
  EXPECT_NE(Impossible({.bytes = 1e7}, 1, Scalar::kFloat32, floors, seconds),
            "");
  // A possible time is taken, and more threads may be faster.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, floors, 0.02), "");
  EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, 0.002), "");
  EXPECT_EQ(Impossible(cost, 8, Scalar::kFloat32, floors, 0.002), "");
  // Nothing is refused where the floors are not known.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, {}, seconds), "");
  // A time of zero or below, or none, is never one.
  for (double none : {0.0, -1.0, std::nan("")})
    EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, none), "") << none;
}

TEST(Measuring, MemoryIsCountedWithinOnePercent) {
  if (!MemoryCounter::Available()) GTEST_SKIP() << "a sanitizer counts";
  for (int64_t bytes : {int64_t{1} << 16, int64_t{3000017}, int64_t{1} << 28}) {
    const PeakOf peak;
    {
      const Buffer<char> planted(bytes);
      EXPECT_NE(planted.data(), nullptr);
    }
    { const std::vector<char> smaller(static_cast<size_t>(bytes / 2)); }
    EXPECT_NEAR(static_cast<double>(peak.bytes()), static_cast<double>(bytes),
                0.01 * static_cast<double>(bytes));
  }
  const int64_t before = MemoryCounter::CurrentBytes();
  { const std::vector<double> gone(1 << 20); }
  EXPECT_NEAR(static_cast<double>(MemoryCounter::CurrentBytes() - before), 0,
              1 << 10);
}

TEST(Measuring, ASleepOfKnownLengthIsRecovered) {
  const auto sleep_for = [](double seconds) {
    return [seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
  };
  const std::vector<Contestant> contestants = {
      {"short", sleep_for(0.004), 0.004}, {"long", sleep_for(0.02), 0.02}};
  const auto results = SampleInTurns(
      contestants, SamplingRule{.relative_width = 0.5, .budget_seconds = 1});
  // Never less; more only by what a busy machine takes to wake up.
  const double lengths[] = {0.004, 0.02};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GE(*std::ranges::min_element(results[i].samples), lengths[i]);
    EXPECT_LT(results[i].median.median, lengths[i] + 0.01);
    EXPECT_FALSE(results[i].stopped_by.empty());
  }
}

// ---- generated numbers ------------------------------------------------------

// The known answers of Philox4x32-10 in Random123's kat_vectors.
TEST(Generator, PhiloxGivesItsKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(PhiloxWords({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(PhiloxWords({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(PhiloxWords({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                        {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Generator, DrawsDependOnSeedAndNameAndIndexAlone) {
  const Draws draws(7, "toeplitz_1d/values");
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double z = draws.Normal(static_cast<uint64_t>(i));
    sum += z;
    squares += z * z;
    const double u = draws.Uniform(static_cast<uint64_t>(i));
    EXPECT_TRUE(u > 0 && u < 1);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(draws.Normal(12345), Draws(7, "toeplitz_1d/values").Normal(12345));
  EXPECT_NE(draws.Normal(1), Draws(8, "toeplitz_1d/values").Normal(1));
  EXPECT_NE(draws.Normal(1), Draws(7, "toeplitz_1d/weights").Normal(1));
  EXPECT_NE(draws.Normal(1), draws.Normal(2));
}

// GenerateInputs uses all cores; one thread alone must draw the same numbers.
TEST(Generator, InputsDoNotDependOnThreads) {
  const Case one = CaseOf("toeplitz_1d:n=3000,e=17,scalar=float64,seed=5");
  const Problem problem = ProblemOf(one);
  const Inputs inputs = GenerateInputs(one, problem);
  for (const Tensor& tensor : inputs.tensors) {
    const Draws draws(one.seed, one.DrawId() + "/" + tensor.name);
    for (size_t i = 0; i < tensor.values.size(); i += 97)
      EXPECT_EQ(tensor.values[i], draws.Normal(i)) << tensor.name << " " << i;
  }
  Case narrow = one;
  narrow.scalar = Scalar::kFloat32;
  const Inputs rounded = GenerateInputs(narrow, ProblemOf(narrow));
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(rounded["values"].values[i],
              static_cast<float>(inputs["values"].values[i]));
}

TEST(Generator, RoundingToNarrowTypes) {
  struct Row {
    double value, bfloat16, float16;
  };
  const Row rows[] = {
      {0, 0, 0},
      {1, 1, 1},
      {-2.5, -2.5, -2.5},
      {1 + 0x1p-8, 1, 1 + 0x1p-8},                   // tie to even, down
      {1 + 3 * 0x1p-8, 1 + 0x1p-6, 1 + 3 * 0x1p-8},  // tie to even, up
      {1 + 0x1p-11, 1, 1},                           // a tie for float16
      {1 + 3 * 0x1p-11, 1, 1 + 0x1p-9},
      {1 + 0x1p-11 + 0x1p-20, 1, 1 + 0x1p-10},
      {1.0 / 3, 0x1.56p-2, 0x1.554p-2},
      {65504, 65536, 65504},  // float16's largest
      {65519, 65536, 65504},
      {65520, 65536, kInfinity},
      {-70000, -70144, -kInfinity},
      {0x1p-14, 0x1p-14, 0x1p-14},  // float16's least normal number
      {0x1p-24, 0x1p-24, 0x1p-24},  // its least subnormal one
      {0x1p-25, 0x1p-25, 0},        // half of it: to even
      {0x1.8p-25, 0x1.8p-25, 0x1p-24},
      {5 * 0x1p-26, 5 * 0x1p-26, 0x1p-24},
      {3e38, 0x1.c4p127, kInfinity},
      {kInfinity, kInfinity, kInfinity},
      {-kInfinity, -kInfinity, -kInfinity},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(RoundTo(Scalar::kBFloat16, row.value), row.bfloat16) << row.value;
    EXPECT_EQ(RoundTo(Scalar::kFloat16, row.value), row.float16) << row.value;
  }
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kBFloat16, std::nan(""))));
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kFloat16, std::nan(""))));
  EXPECT_EQ(RoundTo(Scalar::kFloat32, 1e300), kInfinity);
}

// Every number of a two-byte type comes back from memory as it was.
TEST(Generator, NarrowNumbersSurviveTheirStorage) {
  for (Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint16_t stored = static_cast<uint16_t>(bits);
      const double value = ElementAt(scalar, &stored, 0);
      if (std::isnan(value)) continue;
      EXPECT_EQ(RoundTo(scalar, value), value) << bits;
      uint16_t again = 0;
      StoreAt(scalar, value, &again, 0);
      EXPECT_EQ(again, stored) << Info(scalar).name << " " << value;
    }
}

// ---- case ids ---------------------------------------------------------------

TEST(CaseIds, EveryVerificationCaseRoundTrips) {
  for (const Operator* op : Operators())
    for (const ScalarInfo& info : kScalars)
      for (const Case& one :
           VerificationCases(*op, AwkwardSizes(), info.scalar, 11)) {
        for (const char* input : {"normal", "wide"}) {
          Case given = one;
          given.input = input;
          const std::string id = given.Id();
          const Case back = MakeCase(ParseCaseId(id));
          ASSERT_EQ(back.Id(), id);
          EXPECT_EQ(back.sizes, given.sizes) << id;
          EXPECT_EQ(back.params, given.params) << id;
          EXPECT_EQ(back.heads, given.heads) << id;
          EXPECT_EQ(back.per_head, given.per_head) << id;
          EXPECT_EQ(back.backward, given.backward) << id;
          EXPECT_EQ(back.with, given.with) << id;
          EXPECT_EQ(back.seed, given.seed) << id;
          EXPECT_EQ(ProblemOf(back).params, ProblemOf(given).params) << id;
        }
      }
}

TEST(CaseIds, TheLargestSeedIsTaken) {
  const std::string id =
      "toeplitz_1d:n=4,e=3,causal=0,scalar=float64,seed=9223372036854775807";
  EXPECT_EQ(CaseOf(id).Id(), id);
}

// ---- threads ----------------------------------------------------------------

TEST(Threads, EveryIndexOnceOnAnyNumber) {
  for (int threads : {1, 2, 3, 8})
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        pool.For(count, [&](int64_t i, int worker) {
          EXPECT_TRUE(worker >= 0 && worker < threads);
          ++seen[static_cast<size_t>(i)];
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1);
      }
    }
}

TEST(Threads, TheFirstExceptionArrivesAndThePoolGoesOn) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t bad : {0, 50, 99}) {
      EXPECT_THROW(pool.For(100,
                            [&](int64_t i, int) {
                              if (i == bad) throw InvalidInput("planted");
                            }),
                   InvalidInput);
      EXPECT_THROW(pool.For(100, [](int64_t, int) { throw std::bad_alloc(); }),
                   std::bad_alloc);
      std::atomic<int> count{0};
      pool.For(100, [&](int64_t, int) { ++count; });
      EXPECT_EQ(count, 100);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ThreadsDeathTest, AThreadThatCannotStartIsAnErrorWithItsNumber) {
  const auto start_too_many = [] {
    rlimit room{};  // for a few stacks
    room.rlim_cur = room.rlim_max = rlim_t{1} << 29;
    setrlimit(RLIMIT_AS, &room);
    try {
      ThreadPool pool(1000);
    } catch (const std::runtime_error& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(7),
              "cannot start thread [0-9]+ of 1000");
}
#endif

std::vector<std::string> OutputBytes(const Implementation& implementation,
                                     Trial& trial, int threads) {
  auto prepared = implementation.prepare(trial.problem(), trial.arrays(),
                                         {.threads = threads});
  trial.Poison();
  prepared->Run();
  std::vector<std::string> bytes;
  for (const Arrays::Entry& entry : trial.arrays().outputs)
    bytes.emplace_back(
        static_cast<const char*>(entry.data),
        static_cast<size_t>(entry.count * Info(entry.scalar).bytes));
  return bytes;
}

class Repeatable : public testing::TestWithParam<const Operator*> {};

// The thread sanitizer is some fifty times slower, and what threads share
// depends on the program more than on the choices: there, of many cases every
// seventh.
#ifdef __SANITIZE_THREAD__
constexpr size_t kManyCases = 32, kStep = 7;
#else
constexpr size_t kManyCases = 0, kStep = 1;
#endif

// Work is cut into pieces that do not depend on the number of threads.
TEST_P(Repeatable, BitIdenticalOnAnyNumberOfThreads) {
  const Operator& op = *GetParam();
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
    const std::vector<Case> cases = VerificationCases(op, {5, 61}, scalar, 2);
    const size_t step = cases.size() > kManyCases ? kStep : 1;
    for (size_t index = 0; index < cases.size(); index += step) {
      const Case& one = cases[index];
      const Problem problem = ProblemOf(one);
      Trial trial(problem, GenerateInputs(one, problem), one.seed);
      for (const Implementation* implementation : ImplementationsOf(op)) {
        if (implementation->backend != Backend::kCpu) continue;
        if (!WhyNot(*implementation, problem).empty()) continue;
        const auto single = OutputBytes(*implementation, trial, 1);
        for (int threads : {2, 3})
          EXPECT_TRUE(OutputBytes(*implementation, trial, threads) == single)
              << implementation->id << " on " << threads << " threads "
              << one.Id();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Registry, Repeatable, testing::ValuesIn(Operators()),
    [](const testing::TestParamInfo<const Operator*>& one) {
      return std::string(one.param->description().id);
    });

// ---- registry ---------------------------------------------------------------

// A definition that nobody registered would be neither checked nor measured.
TEST(Registry, EveryDefinitionIsRegistered) {
  namespace fs = std::filesystem;
  int found = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SUBQUAD_SOURCE) / "reference")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream stream(entry.path());
    std::stringstream text;
    text << stream.rdbuf();
    if (text.str().find("description() const override") == std::string::npos)
      continue;
    ++found;
    const std::string id = entry.path().stem();
    EXPECT_NO_THROW(FindOperator(id)) << entry.path();
    EXPECT_TRUE(
        fs::exists(fs::path(SUBQUAD_SOURCE) / "optimized" / (id + ".cc")))
        << id;
  }
  EXPECT_EQ(found, static_cast<int>(Operators().size()));
}

TEST(Registry, NamesAreUniqueAndNothingIsLeftBlank) {
  std::vector<std::string> ids;
  for (const Implementation& one : Implementations()) {
    ids.push_back(one.op + "/" + one.id + "/" +
                  std::string(ToString(one.backend)));
    EXPECT_NO_THROW(FindOperator(one.op)) << ids.back();
    EXPECT_FALSE(one.what.empty() || one.source.empty() || one.time.empty() ||
                 one.memory.empty())
        << ids.back();
    for (const std::string& name : {one.time_class, one.memory_class})
      EXPECT_TRUE(name.empty() || name == "1" || name == "n" ||
                  name == "n log n" || name == "n^2")
          << ids.back() << " " << name;
    EXPECT_FALSE(one.scalars.empty()) << ids.back();
    EXPECT_TRUE(one.prepare && one.cost) << ids.back();
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

}  // namespace

void PrintTo(const Operator* const& op, std::ostream* stream) {
  *stream << op->description().id;
}

}  // namespace subquad
