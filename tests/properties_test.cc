// Properties that need no reference, at sizes where a reference would take
// hours: up to n = 2^20. All tests use float64, so that a term that is lost or
// counted twice among a million exceeds the rounding errors; tolerances are
// first-order bounds of the sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRoundoff = 0x1p-53;

// ---- attention --------------------------------------------------------------

struct LargeCase {
  std::string id;   // everything except the scalar type
  double loss = 0;  // loss of FFTs beyond the rounding of the sums

  friend void PrintTo(const LargeCase& large_case, std::ostream* stream) {
    *stream << large_case.id;
  }
};

// Returns problems whose fast implementations end in seconds at these sizes.
std::vector<LargeCase> LargeCases() {
  return {
      {"softmax_attention:n=1048576,n_q=2,d=8,e=2"},
      {"softmax_attention:n=1048576,n_q=2,d=8,e=2,with=bias"},
      {"linear_attention:n=1048576,d=8,e=2"},
      {"linear_attention:n=262144,d=8,e=2,causal=1"},
      {"linear_attention:n=99991,d=8,e=2,f=8,feature_map=prf,scale=0.25"},
      {"linformer_attention:n=262144,d=8,e=2,p=16"},
      {"memory_compressed_attention:n=262144,n_q=2,d=8,e=2,stride=4"},
      {"sparse_attention:n=1048576,d=4,e=2,pattern=sliding,window=3,dilation="
       "5"},
      {"sparse_attention:n=65536,d=4,e=2,causal=1,pattern=strided,window=2,"
       "stride=512"},
      {"transformer_xl_attention:n=2048,d=8,e=2"},
      {"relative_logits_attention:n=4096,d=8,e=2,p=4,E=300"},
      {"stochastic_position_attention:n=65536,d=4,e=2,draws=16,components=2"},
      {"kernelized_rpe_attention:n=65536,d=8,e=2", 1e-9},
  };
}

class LargeAttention : public testing::TestWithParam<LargeCase> {};

// Equal values stay equal for any weights: a key that is in the numerator and
// not in the normaliser, or twice, shows.
TEST_P(LargeAttention, ConstantValuesStayConstant) {
  const LargeCase& large_case = GetParam();
  const Case test_case =
      MakeCase(ParseCaseId(large_case.id + ",scalar=float64"));
  const Problem problem = ProblemOf(test_case);
  Inputs inputs = GenerateInputs(test_case, problem);
  for (Tensor& tensor : inputs.tensors) {
    if (tensor.name == "v") std::ranges::fill(tensor.values, 2.0);
    // Tensors that mix values must keep equal ones.
    if (tensor.name == "proj_v" || tensor.name == "theta_v")
      std::ranges::fill(tensor.values,
                        1 / static_cast<double>(tensor.shape.back()));
  }
  Trial trial(problem, std::move(inputs), 1);
  int64_t terms = 1;  // of the longest sum
  for (const auto& [name, size] : problem.dims) terms = std::max(terms, size);
  const double tolerance =
      2 * large_case.loss + 8 * kRoundoff * static_cast<double>(terms);
  int ran = 0;
  for (const Implementation* program : ImplementationsOf(*test_case.op)) {
    if (!WhyNot(*program, problem).empty()) continue;
    if (!DoesNotFit(*program, problem, 2).empty()) continue;
    const double flops = program->CostOf(problem, 2).flops;
    if (flops > 2e11) continue;  // would take minutes
    const auto prepared = program->Prepare(problem, trial.arrays(), {2});
    trial.Poison();
    prepared->Run();
    const Arrays::Entry& out = trial.arrays().outputs[0];
    double worst = 0;
    for (int64_t i = 0; i < out.count; ++i) {
      const double gap = std::abs(ElementAt(out.scalar, out.data, i) - 2);
      if (!(gap <= worst)) worst = gap;  // true for NaN too
    }
    EXPECT_LE(worst, tolerance) << program->id;
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

INSTANTIATE_TEST_SUITE_P(Properties, LargeAttention,
                         testing::ValuesIn(LargeCases()),
                         [](const testing::TestParamInfo<LargeCase>& test) {
                           std::string name = test.param.id;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

// A causal prefix of 2^17 tokens does not depend on later tokens, bit for bit.
TEST(LargeAttention, ACausalPrefixDoesNotSeeItsFuture) {
  constexpr int64_t kN = 1 << 17, kSeen = 70001, kD = 4, kE = 2;
  OperatorRun run("linear_attention");
  run.Set("causal", true).Set("feature_map", std::string("elu1"));
  run.Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kE}, NormalNumbers(kN * kE, 3));
  OperatorRun changed = run;
  for (int64_t x = kSeen * kD; x < kN * kD; ++x) changed["k"][x] += 40;
  for (int64_t x = kSeen * kE; x < kN * kE; ++x) changed["v"][x] *= -1e6;
  for (const std::string& program : FastPrograms(run)) {
    const Numbers before = run.Run(program), after = changed.Run(program);
    EXPECT_TRUE(
        std::equal(before.begin(), before.begin() + kSeen * kE, after.begin()))
        << program;
    EXPECT_NE(before[kSeen * kE], after[kSeen * kE]) << program;
  }
}

// Softmax and linear attention do not depend on the order of their keys.
TEST(LargeAttention, TheOrderOfKeysDoesNotMatter) {
  constexpr int64_t kKeys = 1 << 20, kD = 4, kE = 2, kQueries = 3;
  for (const std::string op : {"softmax_attention", "linear_attention"}) {
    OperatorRun run(op);
    if (op[0] == 'l') run.Set("feature_map", std::string("elu1"));
    run.Give("q", {kQueries, kD}, NormalNumbers(kQueries * kD, 1))
        .Give("k", {kKeys, kD}, NormalNumbers(kKeys * kD, 2))
        .Give("v", {kKeys, kE}, NormalNumbers(kKeys * kE, 3));
    OperatorRun turned = run;
    for (int64_t j = 0; j < kKeys; ++j) {
      // Visits every key once, as 3 is prime to 2^20.
      const int64_t to = (3 * j + 7) % kKeys;
      std::copy_n(&run["k"][j * kD], kD, &turned["k"][to * kD]);
      std::copy_n(&run["v"][j * kE], kE, &turned["v"][to * kE]);
    }
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), turned.Run(program)),
                8 * kRoundoff * kKeys)
          << op << " " << program;
  }
}

// An impulse among a million values returns one column of the scores.
TEST(LargeAttention, AnImpulseGivesAColumnOfClippedScores) {
  constexpr int64_t kN = 1 << 20, kD = 3, kR = 4, kAt = 700001;
  OperatorRun run("clipped_rpe_product");
  Numbers impulse(kN);
  impulse[kAt] = 1;
  run.Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("rpe", {2 * kR + 1, kD}, NormalNumbers((2 * kR + 1) * kD, 2))
      .Give("v", {kN, 1}, impulse);
  const Numbers out = run.Run("windowed", Scalar::kFloat64, 2);
  double worst = 0;
  for (int64_t i = 0; i < kN; ++i) {
    const int64_t row = std::clamp(kAt - i, -kR, kR) + kR;
    double score = 0;
    for (int64_t a = 0; a < kD; ++a)
      score += run["q"][i * kD + a] * run["rpe"][row * kD + a];
    worst = std::max(worst, std::abs(out[i] - score));
  }
  EXPECT_LE(worst, 1e-12);
}

}  // namespace
}  // namespace subquad
