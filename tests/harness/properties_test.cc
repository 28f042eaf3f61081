// Properties that need no reference, at sizes where a reference would take
// hours: up to n = 2^20. Everything in float64, so that a term that is lost or
// counted twice among a million stands out from rounding; tolerances are first
// order bounds of the sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/run_operator.h"

namespace subquad {
namespace {

constexpr double kRoundoff = 0x1p-53;
constexpr int64_t kSizes[] = {4097, 65536, 99991, 1 << 20};

double Norm(const Numbers& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

// What a product by FFTs of at most 4n may lose, per element.
double FftLoss(int64_t n, const Numbers& weights, const Numbers& values) {
  return 4 * kRoundoff * std::log2(4.0 * static_cast<double>(n)) *
         Norm(weights) * Norm(values);
}

// ---- Toeplitz products ------------------------------------------------------

OperatorRun Toeplitz(int64_t n_q, int64_t n_k, int64_t e, uint64_t seed) {
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {n_q + n_k - 1}, NormalNumbers(n_q + n_k - 1, seed))
      .Give("values", {n_k, e}, NormalNumbers(n_k * e, seed + 1));
  return run;
}

std::vector<std::string> FastPrograms(const OperatorRun& run) {
  std::vector<std::string> programs = run.Programs();
  std::erase(programs, "dense");
  return programs;
}

// An impulse at key j0 gives the weights back, turned round and shifted.
TEST(LargeToeplitz, AnImpulseGivesTheWeightsBack) {
  for (const int64_t n : kSizes)
    for (const int64_t n_k : {n, n / 3}) {
      OperatorRun run = Toeplitz(n, n_k, 1, 1);
      const int64_t at = 2 * n_k / 3;
      Numbers impulse(static_cast<size_t>(n_k));
      impulse[at] = 1;
      run.Give("values", {n_k, 1}, impulse);
      const Numbers& weights = run["weights"];
      const double loss = FftLoss(n + n_k, weights, impulse);
      ASSERT_LT(loss, 1e-9);
      ASSERT_EQ(FastPrograms(run).size(), 2u);
      for (const std::string& program : FastPrograms(run)) {
        const Numbers out = run.Run(program, Scalar::kFloat64, 2);
        double worst = 0;
        for (int64_t i = 0; i < n; ++i)
          worst = std::max(worst, std::abs(out[i] - weights[at - i + n - 1]));
        EXPECT_LE(worst, loss) << program << " " << n << " " << n_k;
      }
    }
}

TEST(LargeToeplitz, TheProductIsLinear) {
  constexpr int64_t kN = 1 << 20;
  OperatorRun run = Toeplitz(kN, kN, 1, 3);
  const Numbers x = run["values"], y = NormalNumbers(kN, 9);
  Numbers sum(x.size());
  for (size_t j = 0; j < x.size(); ++j) sum[j] = x[j] - 3 * y[j];
  const Numbers& weights = run["weights"];
  const double loss = FftLoss(2 * kN, weights, x) +
                      3 * FftLoss(2 * kN, weights, y) +
                      FftLoss(2 * kN, weights, sum);
  for (const std::string& program : FastPrograms(run)) {
    const Numbers ax = run.Give("values", {kN, 1}, x).Run(program);
    const Numbers ay = run.Give("values", {kN, 1}, y).Run(program);
    const Numbers together = run.Give("values", {kN, 1}, sum).Run(program);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(together[i] - ax[i] + 3 * ay[i]));
    EXPECT_LE(worst, loss) << program;
  }
}

// Values that move along by s positions move the outputs with them.
TEST(LargeToeplitz, ShiftedValuesGiveShiftedOutputs) {
  constexpr int64_t kN = 300007, kShift = 12345;
  OperatorRun run = Toeplitz(kN, kN, 1, 5);
  Numbers x = run["values"];
  std::fill(x.end() - kShift, x.end(), 0.0);
  Numbers moved(x.size());
  std::copy(x.begin(), x.end() - kShift, moved.begin() + kShift);
  const double loss = 2 * FftLoss(2 * kN, run["weights"], x);
  for (const std::string& program : FastPrograms(run)) {
    const Numbers out = run.Give("values", {kN, 1}, x).Run(program);
    const Numbers shifted = run.Give("values", {kN, 1}, moved).Run(program);
    double worst = 0;
    for (int64_t i = 0; i + kShift < kN; ++i)
      worst = std::max(worst, std::abs(shifted[i + kShift] - out[i]));
    EXPECT_LE(worst, loss) << program;
    EXPECT_GT(std::abs(shifted[0] - out[0]), 1e3 * loss) << program;
  }
}

// <A x, y> = <x, A' y> with A' of the backward pass.
TEST(LargeToeplitz, TheBackwardPassIsTheAdjoint) {
  for (const int64_t n : kSizes) {
    OperatorRun run = Toeplitz(n, n, 1, 7);
    OperatorRun backward = run;
    const Numbers y = NormalNumbers(n, 11), x = run["values"];
    backward.Give("grad", {n, 1}, y);
    const double loss =
        2 * static_cast<double>(n) * FftLoss(2 * n, run["weights"], x);
    for (const std::string& program : FastPrograms(run)) {
      const Numbers ax = run.Run(program);
      const Numbers gradients = backward.Run(program);  // the first output
      ASSERT_EQ(gradients.size(), x.size());
      double left = 0, right = 0, magnitude = 0;
      for (int64_t i = 0; i < n; ++i) {
        left += ax[i] * y[i];
        right += x[i] * gradients[i];
        magnitude += std::abs(ax[i] * y[i]);
      }
      EXPECT_LE(std::abs(left - right), loss) << program << " " << n;
      EXPECT_GT(magnitude, 1e6 * loss);
    }
  }
}

// A row of a million-pixel image: an impulse gives back both vectors of
// weights, and the full kernel its own.
TEST(LargeToeplitz, AnImpulseInAnImage) {
  constexpr int64_t kHeight = 700, kWidth = 1500, kRow = 211, kColumn = 1103;
  Numbers impulse(kHeight * kWidth);
  impulse[kRow * kWidth + kColumn] = 1;
  OperatorRun xy("toeplitz_2d_xy"), full("toeplitz_2d");
  xy.Give("weights_rows", {2 * kHeight - 1}, NormalNumbers(2 * kHeight - 1, 1))
      .Give("weights_cols", {2 * kWidth - 1}, NormalNumbers(2 * kWidth - 1, 2));
  full.Give("weights", {2 * kHeight - 1, 2 * kWidth - 1},
            NormalNumbers((2 * kHeight - 1) * (2 * kWidth - 1), 3));
  for (OperatorRun* run : {&xy, &full}) {
    run->Set("height", kHeight).Set("width", kWidth);
    run->Give("values", {kHeight * kWidth, 1}, impulse);
    const auto weight = [&](int64_t r, int64_t c) {
      const int64_t at_r = kRow - r + kHeight - 1;
      const int64_t at_c = kColumn - c + kWidth - 1;
      return run == &xy ? xy["weights_rows"][at_r] + xy["weights_cols"][at_c]
                        : full["weights"][at_r * (2 * kWidth - 1) + at_c];
    };
    ASSERT_FALSE(FastPrograms(*run).empty());
    for (const std::string& program : FastPrograms(*run)) {
      const Numbers out = run->Run(program, Scalar::kFloat64, 2);
      double worst = 0;
      for (int64_t r = 0; r < kHeight; ++r)
        for (int64_t c = 0; c < kWidth; ++c)
          worst = std::max(worst, std::abs(out[r * kWidth + c] - weight(r, c)));
      EXPECT_LE(worst, 1e-10) << program;
    }
  }
}

// ---- attention --------------------------------------------------------------

struct LargeCase {
  std::string id;   // all but the scalar type
  double loss = 0;  // beyond the rounding of the sums: of FFTs

  friend void PrintTo(const LargeCase& one, std::ostream* stream) {
    *stream << one.id;
  }
};

// Problems whose fast programs end in seconds at these sizes.
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
      {"stochastic_position_attention:n=65536,d=4,e=2,draws=16,components=2"},
      {"kernelized_rpe_attention:n=65536,d=8,e=2", 1e-9},
  };
}

class LargeAttention : public testing::TestWithParam<LargeCase> {};

// Equal values come out as they went in, whatever the weights: a key that is in
// the numerator and not in the normaliser, or twice, shows.
TEST_P(LargeAttention, ConstantValuesStayConstant) {
  const LargeCase& one = GetParam();
  const Case found = MakeCase(ParseCaseId(one.id + ",scalar=float64"));
  const Problem problem = ProblemOf(found);
  Inputs inputs = GenerateInputs(found, problem);
  for (Tensor& tensor : inputs.tensors) {
    if (tensor.name == "v") std::ranges::fill(tensor.values, 2.0);
    // What mixes values must keep equal ones.
    if (tensor.name == "proj_v" || tensor.name == "theta_v")
      std::ranges::fill(tensor.values,
                        1 / static_cast<double>(tensor.shape.back()));
  }
  Trial trial(problem, std::move(inputs), 1);
  int64_t terms = 1;  // of the longest sum
  for (const auto& [name, size] : problem.dims) terms = std::max(terms, size);
  const double tolerance =
      2 * one.loss + 8 * kRoundoff * static_cast<double>(terms);
  int ran = 0;
  for (const Implementation* program : ImplementationsOf(*found.op)) {
    if (!WhyNot(*program, problem).empty()) continue;
    if (!DoesNotFit(*program, problem, 2).empty()) continue;
    const double flops = program->CostOf(problem, 2).flops;
    if (flops > 2e11) continue;  // minutes
    const auto prepared = program->Prepare(problem, trial.arrays(), {2});
    trial.Poison();
    prepared->Run();
    const Arrays::Entry& out = trial.arrays().outputs[0];
    double worst = 0;
    for (int64_t i = 0; i < out.count; ++i) {
      const double gap = std::abs(ElementAt(out.scalar, out.data, i) - 2);
      if (!(gap <= worst)) worst = gap;  // NaN too
    }
    EXPECT_LE(worst, tolerance) << program->id;
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

INSTANTIATE_TEST_SUITE_P(Properties, LargeAttention,
                         testing::ValuesIn(LargeCases()),
                         [](const testing::TestParamInfo<LargeCase>& one) {
                           std::string name = one.param.id;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

// A causal prefix of 2^17 tokens and what follows it: bit for bit.
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
    if (program == "tiled" || program == "prefix_sum") continue;  // minutes
    const Numbers before = run.Run(program), after = changed.Run(program);
    EXPECT_TRUE(
        std::equal(before.begin(), before.begin() + kSeen * kE, after.begin()))
        << program;
    EXPECT_NE(before[kSeen * kE], after[kSeen * kE]) << program;
  }
}

// Softmax and linear attention do not know the order of their keys.
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
      // 3 is prime to 2^20: every key once.
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

// An impulse among a million values gives back one column of the scores.
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
