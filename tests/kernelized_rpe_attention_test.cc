// Properties of kernelized attention with a relative bias, for any
// implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/judging/operator_run.h"
#include "harness/machine/memory_counter.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-11;

struct Sizes {
  int64_t n_q, n_k, d, e;
};
constexpr Sizes kSizes = {150, 150, 8, 7};

OperatorRun Attention(const std::string& map, bool causal,
                      const Sizes& s = kSizes, double size = 0.5) {
  OperatorRun run("kernelized_rpe_attention");
  const int64_t offsets = s.n_q + s.n_k - 1;
  run.Set("feature_map", map)
      .Set("causal", causal)
      .Give("q", {s.n_q, s.d}, NormalNumbers(s.n_q * s.d, 1, size))
      .Give("k", {s.n_k, s.d}, NormalNumbers(s.n_k * s.d, 2, size))
      .Give("v", {s.n_k, s.e}, NormalNumbers(s.n_k * s.e, 3))
      .Give("bias", {offsets}, NormalNumbers(offsets, 5));
  if (map == "prf") run.Give("omega", {33, s.d}, NormalNumbers(33 * s.d, 4));
  return run;
}

OperatorRun Image(const std::string& map, int64_t height, int64_t width,
                  bool causal) {
  const int64_t n = height * width,
                offsets = (2 * height - 1) * (2 * width - 1);
  OperatorRun run("kernelized_rpe_attention");
  run.Set("feature_map", map)
      .Set("causal", causal)
      .Set("height", height)
      .Set("width", width)
      .Give("q", {n, 6}, NormalNumbers(n * 6, 1, 0.5))
      .Give("k", {n, 6}, NormalNumbers(n * 6, 2, 0.5))
      .Give("v", {n, 5}, NormalNumbers(n * 5, 3))
      .Give("bias", {2 * height - 1, 2 * width - 1}, NormalNumbers(offsets, 5));
  return run;
}

bool IsFft(const std::string& program) { return program.starts_with("fft"); }

void ExpectPassed(const OperatorRun& run, const std::string& what) {
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const std::string& program : run.Programs(scalar)) {
      const Verdict verdict = run.Judge(program, scalar);
      // A lost key may not show in inputs of which few keys matter.
      EXPECT_TRUE(verdict.passed() || verdict.cannot_tell())
          << what << " " << program << " " << Info(scalar).name << ": "
          << verdict.reason;
    }
}

TEST(KernelizedRpe, AllProgramsAgree) {
  for (const std::string map : {"elu1", "sikf", "prf"})
    for (bool causal : {false, true})
      for (const Sizes& s :
           {kSizes, Sizes{150, 301, 8, 7}, Sizes{301, 150, 8, 33}}) {
        OperatorRun run = Attention(map, causal, s);
        const Numbers out = run.Definition();
        for (const std::string& program : run.Programs())
          EXPECT_LE(LargestDifference(run.Run(program), out), kRounding)
              << map << " " << program;
        // A reversed bias is that of an offset read as i - j.
        std::reverse(run["bias"].begin(), run["bias"].end());
        EXPECT_GT(LargestDifference(run.Definition(), out), 0.01);
      }
}

TEST(KernelizedRpe, AllProgramsAgreeOnImages) {
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{9, 14}, {14, 9}, {1, 40}, {40, 1}})
    for (bool causal : {false, true}) {
      OperatorRun run = Image("elu1", height, width, causal);
      const Numbers out = run.Definition();
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), out), kRounding)
            << program << " " << height << "x" << width;
    }
}

// An image of one row, or of one column, is a sequence.
TEST(KernelizedRpe, FlatImageIsASequence) {
  for (bool causal : {false, true}) {
    const Numbers row = Image("sikf", 1, 40, causal).Definition();
    const Numbers column = Image("sikf", 40, 1, causal).Definition();
    OperatorRun line("kernelized_rpe_attention");
    line.Set("feature_map", std::string("sikf"))
        .Set("causal", causal)
        .Give("q", {40, 6}, NormalNumbers(40 * 6, 1, 0.5))
        .Give("k", {40, 6}, NormalNumbers(40 * 6, 2, 0.5))
        .Give("v", {40, 5}, NormalNumbers(40 * 5, 3))
        .Give("bias", {79}, NormalNumbers(79, 5));
    EXPECT_EQ(line.Definition(), row);
    EXPECT_EQ(line.Definition(), column);
  }
}

TEST(KernelizedRpe, ZeroBiasIsLinearAttention) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention("prf", causal);
    OperatorRun plain("linear_attention");
    plain.Set("feature_map", std::string("prf")).Set("causal", causal);
    const Sizes& s = kSizes;
    plain.Give("q", {s.n_q, s.d}, run["q"])
        .Give("k", {s.n_k, s.d}, run["k"])
        .Give("v", {s.n_k, s.e}, run["v"])
        .Give("omega", {33, s.d}, run["omega"]);
    const Numbers out = plain.Run("dense");
    EXPECT_GT(LargestDifference(run.Run("dense"), out), 0.01);
    run["bias"].assign(run["bias"].size(), 0);
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), out), kRounding) << program;
  }
}

TEST(KernelizedRpe, ConstantAddedToTheBiasDoesNotMatter) {
  for (double constant : {200.0, -200.0, 700.0}) {
    OperatorRun run = Attention("prf", false);
    OperatorRun raised = run;
    for (double& b : raised["bias"]) b += constant;
    for (const std::string& program : run.Programs())
      // Adding rounds the bias itself, by 700 u.
      EXPECT_LE(LargestDifference(raised.Run(program), run.Run(program)),
                kRounding)
          << program << " " << constant;
    ExpectPassed(raised, "raised bias");
  }
}

// The bias hides a key of exp(1000) completely from one query and almost from
// another. What remains for the latter is e^-1000 of the key in one feature,
// and a value of size one in the other.
TEST(KernelizedRpe, AHiddenKeyDoesNotAffectTheOthers) {
  constexpr int64_t n = 40, kKey = 20, kBlind = 7, kDim = 9;
  OperatorRun run("kernelized_rpe_attention");
  run.Set("feature_map", std::string("sikf"))
      .Give("q", {n, 2}, NormalNumbers(n * 2, 1))
      .Give("k", {n, 2}, NormalNumbers(n * 2, 2))
      .Give("v", {n, 5}, NormalNumbers(n * 5, 3))
      .Give("bias", {2 * n - 1}, NormalNumbers(2 * n - 1, 4));
  for (int64_t j = 0; j < n; ++j) run["k"][2 * j] = j == kKey ? 1000 : -1000;
  run["k"][2 * kKey + 1] = -1000;
  run["bias"][kKey - kBlind + n - 1] = -kInfinity;
  run["bias"][kKey - kDim + n - 1] = -2500;
  ExpectPassed(run, "a hidden key");
  const Numbers out = run.Definition();
  OperatorRun tame = run;
  tame["k"][2 * kKey] = tame["k"][2 * kKey + 1] = -1000;
  const Numbers without = tame.Definition();
  for (const int64_t i : {kBlind, kDim})
    for (int64_t c = 0; c < 5; ++c)
      EXPECT_NEAR(out[i * 5 + c], without[i * 5 + c], kRounding) << i;
  // Queries that see it see nothing else.
  EXPECT_NEAR(out[0], run["v"][5 * kKey], kRounding);
}

TEST(KernelizedRpe, MinusInfinityHidesAndMayActAsACausalMask) {
  for (double late : {0.0, 190.0}) {
    OperatorRun causal = Attention("sikf", true);
    for (size_t i = 70 * kSizes.d; i < causal["k"].size(); ++i)
      causal["k"][i] += late;
    OperatorRun masked = causal;
    masked.Set("causal", false);
    for (int64_t t = kSizes.n_q; t < 2 * kSizes.n_q - 1; ++t)
      masked["bias"][t] = -kInfinity;
    const Numbers out = causal.Definition();
    EXPECT_LE(LargestDifference(masked.Definition(), out), kRounding);
    for (const std::string& program : masked.Programs()) {
      EXPECT_LE(LargestDifference(masked.Run(program), out), kRounding)
          << program;
    }
    ExpectPassed(masked, "masked");
  }
}

// The bias hides all keys from the last queries, also in programs whose
// transforms leave rounding errors in place of empty sums.
TEST(KernelizedRpe, QueriesThatSeeNothingAreZero) {
  constexpr int64_t kQueries = 150, kKeys = 60, kBlind = 100, kE = 5;
  for (const std::string map : {"elu1", "prf"})
    for (const double eps : {0.0, 0.5}) {
      OperatorRun run = Attention(map, false, {kQueries, kKeys, 4, kE});
      run.Set("eps", eps);
      // Query i sees offsets from -i on: entries from kQueries - 1 - i on.
      for (int64_t t = 0; t < kKeys - 1 + kQueries - kBlind; ++t)
        run["bias"][static_cast<size_t>(t)] = -kInfinity;
      for (const std::string& program : run.Programs()) {
        const Numbers out = run.Run(program);
        for (int64_t x = 0; x < kQueries * kE; ++x)
          EXPECT_EQ(out[static_cast<size_t>(x)] == 0, x >= kBlind * kE)
              << program << " element " << x;
        EXPECT_TRUE(run.Judge(program).passed()) << program;
      }
    }
}

// Without visible features there is no value, other than without visible keys.
TEST(KernelizedRpe, QueryWhoseFeaturesCancelIsNamed) {
  OperatorRun run = Attention("relu", false, {5, 3, 4, 2});
  for (const char* name : {"q", "k"})
    for (double& x : run[name]) x = std::abs(x);
  for (int64_t a = 0; a < 4; ++a) run["q"][4 * 4 + a] = -1;
  try {
    run.Definition();
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("query 4"), std::string::npos)
        << error.what();
  }
}

TEST(KernelizedRpe, RowWithoutLengthIsNamed) {
  OperatorRun run = Attention("elu1", false);
  for (int64_t a = 0; a < kSizes.d; ++a) run["k"][7 * kSizes.d + a] = 0;
  EXPECT_NO_THROW(run.Definition());
  run.Set("normalize", true);
  try {
    run.Definition();
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("key 7"), std::string::npos)
        << error.what();
  }
}

// With normalize, the norms of the keys do not affect the output; without it,
// they do.
TEST(KernelizedRpe, NormalizedRowsHaveNoLength) {
  for (bool normalize : {false, true}) {
    OperatorRun run = Attention("prf", false);
    run.Set("normalize", normalize);
    OperatorRun stretched = run;
    for (size_t i = 0; i < run["k"].size(); ++i) {
      const double power = static_cast<double>(i / kSizes.d % 5) - 2;
      stretched["k"][i] *= std::exp2(normalize ? 40 * power : power);
    }
    for (const std::string& program : run.Programs()) {
      const double gap =
          LargestDifference(run.Run(program), stretched.Run(program));
      if (normalize) {
        EXPECT_LE(gap, kRounding) << program;
      } else {
        EXPECT_GT(gap, 0.01) << program;
      }
    }
  }
}

// The prefix is bit-identical if no transform mixes rows; an FFT leaks its
// rounding errors.
TEST(KernelizedRpe, CausalPrefixDoesNotSeeItsFuture) {
  for (const std::string map : {"elu1", "sikf", "prf"})
    for (double future : {-2.0, 40.0})
      for (int64_t cut : {1, 50, 77, 128}) {
        OperatorRun run = Attention(map, true);
        OperatorRun other = run;
        for (int64_t j = cut; j < kSizes.n_k; ++j) {
          for (int64_t a = 0; a < kSizes.d; ++a)
            other["k"][j * kSizes.d + a] *= future;
          for (int64_t c = 0; c < kSizes.e; ++c)
            other["v"][j * kSizes.e + c] += 1e6;
        }
        // The bias of future keys has no effect either.
        for (int64_t t = kSizes.n_q; t < 2 * kSizes.n_q - 1; ++t)
          other["bias"][t] = 500;
        for (const std::string& program : run.Programs())
          for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
            if (IsFft(program)) continue;
            const Numbers a = run.Run(program, scalar);
            const Numbers b = other.Run(program, scalar);
            EXPECT_TRUE(
                std::equal(a.begin(), a.begin() + cut * kSizes.e, b.begin()))
                << map << " " << program << " cut " << cut;
            EXPECT_NE(a[cut * kSizes.e], b[cut * kSizes.e]) << program;
          }
      }
}

TEST(KernelizedRpe, RowsSumToOne) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention("prf", causal);
    run["v"].assign(run["v"].size(), 1);
    const Numbers ones(static_cast<size_t>(kSizes.n_q * kSizes.e), 1);
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), ones), kRounding)
          << program;
  }
}

// Weights range over 600 nats, of bias and of keys together: the quadratic
// implementations must keep the visible part of each query, however small it
// is.
TEST(KernelizedRpe, SteepBiasesAndKeysFarApart) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention("sikf", causal);
    for (int64_t t = 0; t < 2 * kSizes.n_q - 1; ++t)
      run["bias"][t] -= 4 * std::abs(static_cast<double>(t - kSizes.n_q + 1));
    ExpectPassed(run, "steep");
    for (size_t i = 0; i < run["k"].size(); ++i)
      run["k"][i] += i / kSizes.d < 70 ? 95 : -97;
    ExpectPassed(run, "steep and dropping");
  }
}

// Rows of norm 16 have features over e^+-40, far beyond the range that an FFT
// can mix. Queries that it would lose are computed directly.
TEST(KernelizedRpe, LongRowsKeepTheirDigits) {
  for (const Sizes& s : {kSizes, Sizes{70, 111, 8, 7}, Sizes{3, 2, 8, 7}})
    for (bool causal : {false, true}) {
      OperatorRun run = Attention("prf", causal, s);
      for (const char* name : {"q", "k"})
        for (size_t i = 0; i < run[name].size(); i += 8) {
          double square = 0;
          for (size_t c = 0; c < 8; ++c)
            square += run[name][i + c] * run[name][i + c];
          for (size_t c = 0; c < 8; ++c)
            run[name][i + c] *= 16 / std::sqrt(square);
        }
      ExpectPassed(run, "norm 16");
      for (size_t t = 0; t < run["bias"].size(); t += 3)
        run["bias"][t] += 60.0 * (static_cast<double>(t % 7) - 3);
      ExpectPassed(run, "norm 16 and a wide bias");
    }
}

// The known bad case of a float32 FFT, and its remedy.
TEST(KernelizedRpe, Float64TransformsSaveSmallNormalisers) {
  constexpr int64_t kN = 2048;
  OperatorRun run = Attention("relu", false, {kN, kN, 8, 7}, 1);
  for (double& x : run["q"]) x = std::abs(x);
  for (double& x : run["k"]) x = std::abs(x);
  for (size_t i = kN / 2 * 8; i < run["k"].size(); ++i) run["k"][i] *= 1e-6;
  for (int64_t t = 0; t < 2 * kN - 1; ++t)
    run["bias"][t] = -0.02 * std::abs(static_cast<double>(t - kN + 1));
  const Numbers out = run.Definition();
  const auto error = [&](const std::string& program) {
    return LargestDifference(run.Run(program, Scalar::kFloat32), out);
  };
  const double dense = error("dense");
  EXPECT_LT(error("tiled"), 8 * dense);
  EXPECT_LT(error("fft_streamed64"), 8 * dense);
  EXPECT_GT(error("fft_streamed"), 100 * dense);
  ExpectPassed(run, "dropping keys");
}

TEST(KernelizedRpe, ThreadsDoNotChangeABit) {
  OperatorRun run("kernelized_rpe_attention");
  run.Set("feature_map", std::string("prf"))
      .Give("q", {2, 300, 8}, NormalNumbers(2 * 300 * 8, 1))
      .Give("k", {2, 340, 8}, NormalNumbers(2 * 340 * 8, 2))
      .Give("v", {2, 340, 40}, NormalNumbers(2 * 340 * 40, 3))
      .Give("omega", {2, 24, 8}, NormalNumbers(2 * 24 * 8, 4))
      .Give("bias", {639}, NormalNumbers(639, 5));
  for (const std::string& program : run.Programs(Scalar::kFloat32)) {
    const Numbers single_thread = run.Run(program, Scalar::kFloat32, 1);
    for (int threads : {2, 5})
      EXPECT_EQ(run.Run(program, Scalar::kFloat32, threads), single_thread)
          << program;
  }
}

// Returns the choice that `auto` reports for n tokens, and the crossover that
// it reports.
struct Chosen {
  std::string words;
  int64_t crossing = 0;
};
Chosen ChoiceOfAuto(int64_t n, const std::string& f) {
  CaseRequest request;
  request.op = &FindOperator("kernelized_rpe_attention");
  request.n = n;
  request.values = {{"feature_map", "prf"}, {"f", f}, {"d", "4"}, {"e", "8"}};
  const Case made = MakeCase(request);
  const Problem problem = ProblemOf(made);
  Trial trial(problem, GenerateInputs(made, problem), 1);
  for (const Implementation* implementation : ImplementationsOf(*request.op)) {
    if (implementation->id != "auto" ||
        implementation->backend != Backend::kCpu)
      continue;
    const std::string words =
        implementation->Prepare(problem, trial.arrays(), {1})->Choice();
    const std::string before = "they cross near n = ";
    const size_t at = words.find(before);
    if (at == std::string::npos) return {words};
    return {words, std::stoll(words.substr(at + before.size()))};
  }
  return {};
}

TEST(KernelizedRpe, AutoSwitchesAtItsReportedCrossover) {
  int64_t last = 0;
  for (const std::string f : {"8", "32"}) {
    const int64_t crossing = ChoiceOfAuto(256, f).crossing;
    EXPECT_GT(crossing, last) << "more features cost transforms more";
    EXPECT_TRUE(ChoiceOfAuto(crossing * 4 / 5, f).words.starts_with("tiled"))
        << crossing;
    EXPECT_TRUE(
        ChoiceOfAuto(crossing * 5 / 4, f).words.starts_with("fft_streamed"))
        << crossing;
    last = crossing;
  }
}

// Uses n = 40960, f = e = 64 in float32: 64 MiB in addition to inputs and
// output.
TEST(KernelizedRpe, StreamedFitsWhereAllChannelsDoNot) {
  CaseRequest request;
  request.op = &FindOperator("kernelized_rpe_attention");
  request.n = 40960;
  request.values = {{"feature_map", "prf"}};
  const Problem problem = ProblemOf(MakeCase(request));
  for (const Implementation* implementation : ImplementationsOf(*request.op)) {
    if (implementation->backend != Backend::kCpu) continue;
    const double bytes = implementation->CostOf(problem, 1).workspace_bytes;
    if (implementation->id == "fft_streamed") {
      EXPECT_LT(bytes, 64 << 20);
    }
    if (implementation->id == "fft") {
      EXPECT_GT(bytes, 1024.0 * (1 << 20));
    }
  }
  if (!MemoryCounter::Available()) GTEST_SKIP() << "no counter";
  // Compares the formula with the allocator.
  request.n = 3000;
  const Case made = MakeCase(request);
  const Problem small = ProblemOf(made);
  Trial trial(small, GenerateInputs(made, small), 1);
  for (const Implementation* implementation : ImplementationsOf(*request.op)) {
    if (implementation->backend != Backend::kCpu) continue;
    const PeakOf peak;
    const auto prepared = implementation->Prepare(small, trial.arrays(), {1});
    prepared->Run();
    const double formula = implementation->CostOf(small, 1).workspace_bytes;
    const double measured = static_cast<double>(peak.bytes());
    // Eigen packs blocks of its operands into memory of its own.
    EXPECT_LT(measured, 1.1 * formula + (1 << 20)) << implementation->id;
    EXPECT_GT(measured, 0.9 * formula) << implementation->id;
  }
}

}  // namespace
}  // namespace subquad
