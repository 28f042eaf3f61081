// Queries after the first key, and padding: query_offset and key_lengths of
// every operator that supports them; eps and normalized.
#include "reference/base/visible_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/cases/case.h"
#include "harness/judging/operator_run.h"
#include "harness/registry/registry.h"
#include "reference/contract/seen_keys.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {
namespace {

constexpr int64_t kWidth = 6;

// The axis that a tensor's rows run along.
enum class Along { kQueries, kKeys, kOffsets, kNothing };

struct Operand {
  std::string name;
  Along along;
  int64_t rows = 0;  // only for kNothing
};

struct Operation {
  std::string op;
  Params params;
  std::vector<Operand> operands;
};

Params With(std::map<std::string, ParamValue> values) {
  Params params;
  for (auto& [name, value] : values) params.Set(name, value);
  return params;
}

const std::vector<Operation>& Operations() {
  const Operand q{"q", Along::kQueries}, k{"k", Along::kKeys},
      v{"v", Along::kKeys}, values{"values", Along::kKeys},
      bias{"bias", Along::kOffsets}, weights{"weights", Along::kOffsets},
      omega{"omega", Along::kNothing, 5}, rpe{"rpe", Along::kNothing, 9};
  const auto map = [](const std::string& name) {
    return With({{"feature_map", name}});
  };
  static const std::vector<Operation> all = {
      {"softmax_attention", {}, {q, k, v}},
      {"softmax_attention", {}, {q, k, v, bias}},
      {"toeplitz_1d", {}, {weights, values}},
      {"linear_attention", map("elu1"), {q, k, v}},
      {"linear_attention", map("prf"), {q, k, v, omega}},
      {"linear_attention",
       With({{"feature_map", std::string("identity")}, {"normalized", false}}),
       {q, k, v}},
      {"linear_attention",
       With({{"feature_map", std::string("relu")}, {"eps", 0.5}}),
       {q, k, v}},
      {"kernelized_rpe_attention", map("elu1"), {q, k, v, bias}},
      {"kernelized_rpe_attention", map("prf"), {q, k, v, omega, bias}},
      {"fastrpb_attention",
       With({{"attention", std::string("softmax")}}),
       {q, k, v, weights}},
      {"fastrpb_attention",
       With({{"attention", std::string("linear")},
             {"feature_map", std::string("elu1")}}),
       {q, k, v, weights}},
      {"clipped_rpe_product", {}, {q, rpe, v}},
      {"kernelized_clipped_rpe_attention", {}, {q, k, rpe, v}},
  };
  return all;
}

int64_t RowsOf(const Operand& operand, int64_t n_q, int64_t n_k) {
  switch (operand.along) {
    case Along::kQueries:
      return n_q;
    case Along::kKeys:
      return n_k;
    case Along::kOffsets:
      return n_q + n_k - 1;
    case Along::kNothing:
      return operand.rows;
  }
  return 0;
}

// An operator on fixed data: n queries at 0 .. n - 1, and n keys.
class Whole {
 public:
  Whole(const Operation& operation, int64_t n) : operation_(operation), n_(n) {
    for (size_t t = 0; t < operation.operands.size(); ++t) {
      const Operand& operand = operation.operands[t];
      const bool vector = operand.along == Along::kOffsets;
      numbers_.push_back(NormalNumbers(
          RowsOf(operand, n, n) * (vector ? 1 : kWidth), t + 1, 0.5));
      // Embeddings that enter a normaliser are made positive, to keep it away
      // from zero.
      if (operand.name == "rpe")
        for (double& number : numbers_.back()) number = std::abs(number);
    }
  }

  // Makes queries first .. first + n_q - 1 with keys 0 .. n_k - 1. With
  // `lengths` the key tensors are a batch of items that have large values
  // beyond their length.
  OperatorRun Part(int64_t first, int64_t n_q, int64_t n_k,
                   const IntegerList& lengths = {}) const {
    OperatorRun run(operation_.op);
    for (const auto& [name, value] : operation_.params.values())
      run.Set(name, value);
    const auto items = static_cast<int64_t>(lengths.size());
    for (size_t t = 0; t < numbers_.size(); ++t) {
      const Operand& operand = operation_.operands[t];
      const int64_t rows = RowsOf(operand, n_q, n_k);
      const bool vector = operand.along == Along::kOffsets;
      // Entry t of a vector by offset is j - i = t - (n - 1) of the whole.
      const int64_t skip = vector                             ? n_ - first - n_q
                           : operand.along == Along::kQueries ? first
                                                              : 0;
      const int64_t width = vector ? 1 : kWidth;
      const auto start = numbers_[t].begin() + skip * width;
      const Numbers part(start, start + rows * width);
      Shape shape = vector ? Shape{rows} : Shape{rows, width};
      if (lengths.empty() || operand.along != Along::kKeys) {
        run.Give(operand.name, shape, part);
        continue;
      }
      Numbers all;
      for (int64_t length : lengths) {
        all.insert(all.end(), part.begin(), part.end());
        std::fill(all.end() - (rows - length) * width, all.end(), 1e30);
      }
      shape.insert(shape.begin(), {items, 1});
      run.Give(operand.name, shape, all);
    }
    return run;
  }

 private:
  const Operation& operation_;
  const int64_t n_;
  std::vector<Numbers> numbers_;
};

Numbers Rows(const Numbers& all, int64_t first, int64_t count) {
  return {all.begin() + first * kWidth, all.begin() + (first + count) * kWidth};
}

// A chunk of a prompt with the keys so far gives the rows of the whole prompt.
TEST(VisibleKeys, ChunksOfAPromptAreRowsOfTheWhole) {
  constexpr int64_t kN = 150;
  for (Operation operation : Operations()) {
    operation.params.Set("causal", true);
    const Whole whole(operation, kN);
    const Numbers all = whole.Part(0, kN, kN).Definition();
    for (const auto& [first, n_q] :
         {std::pair<int64_t, int64_t>{0, 40}, {1, 1}, {64, 70}, {149, 1}}) {
      OperatorRun chunk = whole.Part(first, n_q, first + n_q);
      chunk.Set("query_offset", first);
      EXPECT_FALSE(chunk.Programs().empty());
      for (const std::string& program : chunk.Programs())
        EXPECT_LT(LargestDifference(chunk.Run(program), Rows(all, first, n_q)),
                  1e-11)
            << operation.op << " " << program << " from " << first;
      // The control: at position 0 the queries would see other keys.
      if (first == 0 || n_q == kN) continue;
      OperatorRun at_zero = whole.Part(first, n_q, first + n_q);
      EXPECT_GT(LargestDifference(at_zero.Definition(), Rows(all, first, n_q)),
                1e-3)
          << operation.op;
    }
  }
}

// Padding has no effect, whatever it contains.
TEST(VisibleKeys, PaddingHasNoEffect) {
  constexpr int64_t kQueries = 70, kKeys = 90;
  const IntegerList lengths = {0, 1, 40, kKeys};
  for (Operation operation : Operations())
    for (const bool causal : {false, true}) {
      operation.params.Set("causal", causal);
      const Whole whole(operation, kKeys);
      OperatorRun padded = whole.Part(0, kQueries, kKeys, lengths);
      padded.Set("key_lengths", lengths);
      EXPECT_FALSE(padded.Programs().empty());
      for (const std::string& program : padded.Programs()) {
        const Numbers actual = padded.Run(program);
        for (size_t item = 0; item < lengths.size(); ++item) {
          // An item without keys has rows of zeros.
          const Numbers expected =
              lengths[item] == 0
                  ? Numbers(kQueries * kWidth)
                  : whole.Part(0, kQueries, lengths[item]).Definition();
          EXPECT_LT(
              LargestDifference(
                  Rows(actual, static_cast<int64_t>(item) * kQueries, kQueries),
                  expected),
              1e-11)
              << operation.op << " " << program << " item " << item;
        }
      }
    }
}

TEST(VisibleKeys, GradientsOfPaddingAreZero) {
  constexpr int64_t kN = 50, kLength = 20;
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 1))
      .Give("values", {kN, kWidth}, NormalNumbers(kN * kWidth, 2))
      .Give("grad", {kN, kWidth}, NormalNumbers(kN * kWidth, 3))
      .Set("key_lengths", IntegerList{kLength});
  for (const std::string& program : run.Programs()) {
    const Numbers grad = run.Run(program);  // of the values
    for (int64_t x = 0; x < kN * kWidth; ++x)
      EXPECT_EQ(grad[static_cast<size_t>(x)] == 0, x >= kLength * kWidth)
          << program;
  }
}

std::string Refusal(const std::string& op, const Params& params,
                    int64_t batch) {
  try {
    std::vector<GivenShape> shapes;
    if (op == "toeplitz_1d")
      shapes = {{"weights", {11}}, {"values", {batch, 1, 7, 3}}};
    else
      shapes = {{"q", {batch, 1, 5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}};
    ResolveProblem(FindOperator(op), params, Scalar::kFloat32, shapes);
  } catch (const InvalidInput& refused) {
    return refused.what();
  }
  return "";
}

TEST(VisibleKeys, Refusals) {
  for (const std::string op : {"softmax_attention", "toeplitz_1d"}) {
    const auto refusal = [&](const std::string& name, ParamValue value) {
      return Refusal(op, With({{name, std::move(value)}}), 2);
    };
    EXPECT_EQ(refusal("query_offset", int64_t{-1}),
              op == "softmax_attention"
                  ? ""
                  : "parameter query_offset: expected at least 0, found -1");
    EXPECT_EQ(refusal("query_offset", 1.5),
              op == "softmax_attention"
                  ? "parameter query_offset: expected an integer or a list of "
                    "integers, found 1.5"
                  : "parameter query_offset: expected an integer, found 1.5");
    EXPECT_EQ(refusal("key_lengths", int64_t{3}),
              "parameter key_lengths: expected a list of integers, found 3");
    EXPECT_EQ(refusal("key_lengths", IntegerList{3}),
              "parameter key_lengths: expected one number for each batch item, "
              "2 in all, found 1");
    EXPECT_EQ(refusal("key_lengths", IntegerList{3, -1}),
              "parameter key_lengths: expected at least 0, found -1");
    EXPECT_EQ(refusal("key_lengths", IntegerList{3, 0}), "");
    EXPECT_EQ(refusal("key_lengths", IntegerList{3, 8}),
              "parameter key_lengths: expected at most the 7 keys that there "
              "are, found 8");
    EXPECT_EQ(refusal("key_lengths", IntegerList{3, 7}), "");
  }
}

TEST(VisibleKeys, CaseIds) {
  const std::string id =
      "softmax_attention:n_q=2,n_k=33,d=8,e=8,batch=2,causal=1,query_offset=31,"
      "key_lengths=33+5,scalar=float32,seed=1";
  const Case test_case = MakeCase(ParseCaseId(id));
  EXPECT_EQ(test_case.Id(), id);
  const VisibleKeys keys(ProblemOf(test_case));
  EXPECT_EQ(keys.End(0, 0), 32);
  EXPECT_EQ(keys.End(0, 1), 33);
  EXPECT_EQ(keys.End(1, 1), 5);
}

// The reference and the implementations count keys independently; they must
// agree.
TEST(VisibleKeys, ProgramsCountTheSame) {
  for (const std::string params :
       {"causal=0", "causal=1", "causal=1,query_offset=4",
        "causal=1,query_offset=40", "causal=0,query_offset=4",
        "causal=1,query_offset=-3", "causal=1,query_offset=-20",
        "batch=2,heads=2,causal=1,query_offset=3,key_lengths=0+9",
        "causal=1,window_left=2", "window_left=0,window_right=0",
        "window_left=3,window_right=1,query_offset=4",
        "window_right=2,query_offset=-5", "window_left=1,query_offset=30",
        "batch=2,heads=2,causal=1,query_offset=3,key_lengths=9+2"}) {
    const Problem problem = ProblemOf(MakeCase(ParseCaseId(
        "softmax_attention:n_q=7,n_k=9,d=8,e=8," + params + ",seed=1")));
    const VisibleKeys reference(problem);
    const SeenKeys programs(problem);
    int64_t offsets = 0;
    for (int64_t head = 0; head < problem.heads; ++head)
      for (int64_t i = 0; i < 7; ++i) {
        EXPECT_EQ(programs.By(head, i), reference.End(head, i)) << params;
        EXPECT_EQ(programs.From(head, i), reference.First(head, i)) << params;
        for (int64_t j = 0; j < 9; ++j)
          if (reference.Sees(head, i, j))
            offsets = std::max(offsets, j - i + 7);
      }
    // Of operators without a window.
    if (params.find("window") == std::string::npos) {
      EXPECT_EQ(programs.Offsets(), offsets) << params;
    }
  }
}

std::vector<std::string> WrongAnswersOf(const std::string& id) {
  const Case test_case = MakeCase(ParseCaseId(id));
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), 1);
  std::vector<std::string> names;
  for (const WrongAnswer& wrong : trial.wrong_answers())
    names.push_back(wrong.name);
  return names;
}

// Ignoring query_offset and ignoring padding are among the answers that must be
// distinguished from the right one.
TEST(VisibleKeys, WrongAnswersIgnoreOffsetAndPadding) {
  for (const std::string op : {"softmax_attention", "toeplitz_1d",
                               "linear_attention", "clipped_rpe_product"}) {
    const auto wrong = WrongAnswersOf(
        op +
        ":n_q=7,n_k=30,batch=2,causal=1,query_offset=23,key_lengths=30+9,"
        "seed=1");
    for (const char* name : {"query_offset left out", "key_lengths left out"})
      EXPECT_EQ(std::ranges::count(wrong, name), 1) << op << " " << name;
    // Without these parameters there is no such answer.
    const auto plain = WrongAnswersOf(op + ":n_q=7,n_k=30,causal=1,seed=1");
    EXPECT_EQ(std::ranges::count(plain, "query_offset left out"), 0);
  }
}

// The linear family computes N / (D + eps), where N and D are unnormalised
// outputs: D is that for values of one. Scales and shifts must have no effect.
TEST(Normaliser, EpsIsAddedToTheSumOfTheWeights) {
  constexpr int64_t kN = 70, kProjections = 5;
  for (const std::string& op : {std::string("linear_attention"),
                                std::string("kernelized_rpe_attention")})
    for (const std::string& map : FeatureMapNames())
      for (const bool causal : {false, true})
        for (const double factor : {0.3, 3.0}) {
          const auto run = [&](const Numbers& v) {
            OperatorRun result(op);
            result.Set("feature_map", map).Set("causal", causal);
            if (map == "dpfp") result.Set("nu", int64_t{1});
            result
                .Give("q", {kN, kWidth}, NormalNumbers(kN * kWidth, 1, factor))
                .Give("k", {kN, kWidth}, NormalNumbers(kN * kWidth, 2, factor))
                .Give("v", {kN, kWidth}, v);
            if (ParseFeatureMap(map) >= FeatureMapId::kPrf)
              result.Give("omega", {kProjections, kWidth},
                          NormalNumbers(kProjections * kWidth, 4));
            if (op == "kernelized_rpe_attention") {
              Numbers bias = NormalNumbers(2 * kN - 1, 5);
              for (double& b : bias) b -= 7;
              result.Give("bias", {2 * kN - 1}, bias);
            }
            return result;
          };
          const Numbers v = NormalNumbers(kN * kWidth, 3);
          const Numbers N = run(v).Set("normalized", false).Definition();
          const Numbers D =
              run(Numbers(v.size(), 1.0)).Set("normalized", false).Definition();
          // The eps is as large as the normalisers, and keeps them away from
          // zero.
          double eps = 0;
          for (double value : D) eps = std::max(eps, 1.5 * std::abs(value));
          OperatorRun with = run(v);
          with.Set("eps", eps);
          OperatorRun alone = run(v);
          alone.Set("normalized", false);
          for (const std::string& program : with.Programs()) {
            const Numbers actual = with.Run(program);
            const Numbers sums = alone.Run(program);
            double largest = 0;
            for (double value : N) largest = std::max(largest, std::abs(value));
            for (size_t x = 0; x < v.size(); ++x) {
              ASSERT_NEAR(actual[x], N[x] / (D[x] + eps), 1e-10 * largest / eps)
                  << op << " " << map << " " << program << " " << x;
              ASSERT_NEAR(sums[x], N[x], 1e-10 * largest)
                  << op << " " << map << " " << program << " " << x;
            }
          }
        }
}

TEST(Normaliser, Refusals) {
  const auto refusal = [](const std::string& name, ParamValue value) {
    try {
      ResolveProblem(FindOperator("linear_attention"),
                     With({{"feature_map", std::string("elu1")},
                           {name, std::move(value)}}),
                     Scalar::kFloat32,
                     {{"q", {5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}});
    } catch (const InvalidInput& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("eps", -1e-6),
            "parameter eps: expected a finite number of at least 0, found "
            "-1e-06");
  EXPECT_EQ(refusal("eps", int64_t{0}), "");
  EXPECT_EQ(refusal("scale", 0.0),
            "parameter scale: expected a finite number greater than 0, found "
            "0");
  EXPECT_EQ(refusal("normalized", int64_t{0}),
            "parameter normalized: expected true or false, found 0");
  EXPECT_EQ(refusal("normalized", false), "");
}

}  // namespace
}  // namespace subquad
