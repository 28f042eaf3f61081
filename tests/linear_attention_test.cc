// Properties of linear attention, for any implementation. Each property is an
// identity between two runs, with a control that shows it can fail.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/judging/operator_run.h"
#include "harness/machine/memory_counter.h"

namespace subquad {
namespace {

// Allows for a few hundred keys and features of order one in float64, with
// room.
constexpr double kRounding = 1e-12;

struct Sizes {
  int64_t n_q, n_k, d, e;
};
constexpr Sizes kSizes = {150, 150, 8, 7};

bool Projects(const std::string& map) {
  return map == "prf" || map == "prf_hyperbolic" || map == "trf";
}

OperatorRun Attention(const std::string& map, bool causal,
                      const Sizes& s = kSizes, double size = 0.5) {
  OperatorRun run("linear_attention");
  run.Set("feature_map", map)
      .Set("causal", causal)
      .Give("q", {s.n_q, s.d}, NormalNumbers(s.n_q * s.d, 1, size))
      .Give("k", {s.n_k, s.d}, NormalNumbers(s.n_k * s.d, 2, size))
      .Give("v", {s.n_k, s.e}, NormalNumbers(s.n_k * s.e, 3));
  if (map == "dpfp") run.Set("nu", int64_t{3});
  // Normalisers of positive features are positive, and those of trf with small
  // arguments and many projections far from zero.
  if (Projects(map)) run.Give("omega", {64, s.d}, NormalNumbers(64 * s.d, 4));
  if (map == "relu" || map == "dpfp") {
    // Key 0 has every feature of positive entries, and each query has one of
    // them.
    for (int64_t c = 0; c < s.d; ++c) run["k"][c] = std::abs(run["k"][c]);
    for (int64_t i = 0; i < s.n_q; ++i)
      for (int64_t c : {0, 1}) {
        double& x = run["q"][i * s.d + c];
        x = std::abs(x);
      }
  }
  return run;
}

const std::vector<std::string>& Maps() {
  static const std::vector<std::string> maps = {
      "elu1", "relu", "sikf", "dpfp", "prf", "prf_hyperbolic", "trf"};
  return maps;
}

void Multiply(Numbers& x, double factor, size_t first = 0) {
  for (size_t i = first; i < x.size(); ++i) x[i] *= factor;
}

void Add(Numbers& x, double constant, size_t first = 0) {
  for (size_t i = first; i < x.size(); ++i) x[i] += constant;
}

// Constants cancel in the normaliser: exp(q + a) = exp(a) exp(q) (FastRPB eq.
// 9). No other elementwise map has that property.
TEST(LinearAttention, OnlyExponentialFeaturesIgnoreConstants) {
  for (const std::string map : {"sikf", "elu1", "relu", "dpfp"}) {
    for (bool causal : {false, true}) {
      OperatorRun run = Attention(map, causal);
      OperatorRun shifted = run;
      // A lower key may make all relu features zero.
      const bool cut = map == "relu" || map == "dpfp";
      if (!cut) Add(shifted["q"], 0.75);
      Add(shifted["k"], cut ? 0.5 : -0.5);
      for (const std::string& program : run.Programs()) {
        const double gap =
            LargestDifference(run.Run(program), shifted.Run(program));
        if (map == "sikf") {
          EXPECT_LE(gap, kRounding) << map << " " << program;
        } else {
          EXPECT_GT(gap, 1e-3) << map << " " << program;
        }
      }
    }
  }
}

// The weights of a row sum to one, even if they are signed (trf).
TEST(LinearAttention, ConstantValuesStayConstant) {
  for (const std::string& map : Maps())
    for (bool causal : {false, true}) {
      OperatorRun run = Attention(map, causal);
      run["v"].assign(run["v"].size(), 1);
      const Numbers ones(static_cast<size_t>(kSizes.n_q * kSizes.e), 1);
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), ones), kRounding)
            << map << " " << program;
      run["v"][3] = 2;
      EXPECT_GT(LargestDifference(run.Run("dense"), ones), 1e-6) << map;
    }
}

TEST(LinearAttention, AllProgramsAgree) {
  for (const std::string& map : Maps())
    for (const Sizes& s :
         {kSizes, Sizes{150, 301, 8, 7}, Sizes{301, 150, 8, 33}})
      for (bool causal : {false, true}) {
        OperatorRun run = Attention(map, causal, s);
        const Numbers out = run.Definition();
        size_t programs = 0;
        for (const std::string& program : run.Programs()) {
          EXPECT_LE(LargestDifference(run.Run(program), out), kRounding)
              << map << " " << program;
          ++programs;
        }
        EXPECT_EQ(programs, causal ? 5u : 3u);
        OperatorRun other = Attention(map, !causal, s);
        EXPECT_GT(LargestDifference(other.Definition(), out), 0.01) << map;
      }
}

// The prefix is bit-identical, even if future keys are so large that the scale
// of the state must grow.
TEST(LinearAttention, CausalPrefixDoesNotSeeItsFuture) {
  for (const std::string& map : Maps())
    for (double future : {-2.0, 40.0, 1e6}) {
      // The squared exponentials of 1e6 are infinite in any type.
      if (future == 1e6 && Projects(map)) continue;
      for (int64_t cut : {1, 50, 64, 77, 128}) {
        OperatorRun run = Attention(map, true);
        OperatorRun other = run;
        Multiply(other["q"], future, static_cast<size_t>(cut * kSizes.d));
        Multiply(other["k"], future, static_cast<size_t>(cut * kSizes.d));
        Add(other["v"], 1e6, static_cast<size_t>(cut * kSizes.e));
        for (const std::string& program : run.Programs())
          for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
            const Numbers a = run.Run(program, scalar);
            const Numbers b = other.Run(program, scalar);
            EXPECT_TRUE(
                std::equal(a.begin(), a.begin() + cut * kSizes.e, b.begin()))
                << map << " " << program << " cut " << cut;
            EXPECT_FALSE(std::equal(a.begin() + cut * kSizes.e, a.end(),
                                    b.begin() + cut * kSizes.e))
                << map << " " << program << " cut " << cut;
          }
      }
    }
}

// The map is applied to sqrt(scale) x: a scale of 1/4 equals x/2, bit for bit.
TEST(LinearAttention, ScaleIsTheSquareOfTheFactor) {
  for (const std::string& map : Maps()) {
    OperatorRun run = Attention(map, false);
    OperatorRun scaled = run, halved = run;
    scaled.Set("scale", 0.25);
    Multiply(halved["q"], 0.5);
    Multiply(halved["k"], 0.5);
    for (const std::string& program : run.Programs()) {
      EXPECT_EQ(scaled.Run(program), halved.Run(program))
          << map << " " << program;
      // Homogeneous features of degree one or two cancel a common factor.
      if (map != "relu" && map != "dpfp") {
        EXPECT_NE(scaled.Run(program), run.Run(program))
            << map << " " << program;
      }
    }
  }
}

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

// The values exp(95) and exp(-97) are beyond float32; their quotients are not.
TEST(LinearAttention, ExponentialsBeyondTheRangeOfTheType) {
  for (const std::string map : {"sikf", "elu1"})
    for (bool causal : {false, true}) {
      OperatorRun run = Attention(map, causal);
      Add(run["q"], 95);
      Add(run["k"], -97);
      ExpectPassed(run, map + " shifted");
      // Early keys far below and far above the later ones.
      for (double early : {-97, 95}) {
        OperatorRun step = Attention(map, causal);
        Add(step["k"], early);
        Add(step["k"], -2 * early, 70 * kSizes.d);
        ExpectPassed(step, map + " stepping");
      }
      // A ramp makes the scale grow over and over again.
      OperatorRun ramp = Attention(map, causal);
      for (size_t i = 0; i < ramp["k"].size(); ++i)
        ramp["k"][i] += static_cast<double>(i / kSizes.d) - 75;
      ExpectPassed(ramp, map + " ramp");
    }
}

TEST(LinearAttention, RandomFeaturesOfLongRows) {
  for (const std::string map : {"prf", "prf_hyperbolic"})
    for (bool causal : {false, true})
      for (double norm : {16.0, 32.0}) {
        OperatorRun run =
            Attention(map, causal, kSizes, norm / std::sqrt(kSizes.d));
        ExpectPassed(run, map + " norm " + std::to_string(norm));
        // The first query sees only the first key, whatever their product is:
        // here the features of both are exp(-norm^2) apart.
        if (!causal) continue;
        for (int64_t a = 0; a < kSizes.d; ++a) run["q"][a] = -run["k"][a];
        ExpectPassed(run, map + " opposite, norm " + std::to_string(norm));
      }
}

TEST(LinearAttention, ZeroNormaliserNamesTheQuery) {
  for (const std::string map : {"relu", "dpfp"})
    for (bool causal : {false, true}) {
      OperatorRun run = Attention(map, causal);
      EXPECT_NO_THROW(run.Definition());
      for (int64_t a = 0; a < kSizes.d; ++a) run["q"][5 * kSizes.d + a] = 0;
      try {
        run.Definition();
        FAIL() << map;
      } catch (const InvalidInput& error) {
        EXPECT_NE(std::string(error.what()).find("query 5"), std::string::npos)
            << error.what();
      }
    }
}

TEST(LinearAttention, ThreadsDoNotChangeABit) {
  for (bool causal : {false, true}) {
    OperatorRun run("linear_attention");
    run.Set("feature_map", std::string("prf"))
        .Set("causal", causal)
        .Give("q", {5, 700, 8}, NormalNumbers(5 * 700 * 8, 1))
        .Give("k", {5, 900, 8}, NormalNumbers(5 * 900 * 8, 2))
        .Give("v", {5, 900, 9}, NormalNumbers(5 * 900 * 9, 3))
        .Give("omega", {5, 24, 8}, NormalNumbers(5 * 24 * 8, 4));
    for (const std::string& program : run.Programs(Scalar::kFloat32)) {
      const Numbers single_thread = run.Run(program, Scalar::kFloat32, 1);
      for (int threads : {2, 3, 8})
        EXPECT_EQ(run.Run(program, Scalar::kFloat32, threads), single_thread)
            << program;
    }
  }
}

// Features are computed in chunks: only the state is stored.
TEST(LinearAttention, MemoryDoesNotGrowWithTheSequence) {
  if (!MemoryCounter::Available()) GTEST_SKIP() << "no counter";
  for (const Implementation* implementation :
       ImplementationsOf(FindOperator("linear_attention"))) {
    if (implementation->backend != Backend::kCpu) continue;
    const auto workspace = [&](int64_t n) {
      CaseRequest request;
      request.op = &FindOperator("linear_attention");
      request.n = n;
      request.values = {
          {"feature_map", "prf"},
          {"causal", implementation->id == "associative" ? "0" : "1"}};
      const Case made = MakeCase(request);
      Problem problem = ProblemOf(made);
      Trial trial(problem, GenerateInputs(made, problem), 1);
      const PeakOf peak;
      const auto prepared =
          implementation->Prepare(problem, trial.arrays(), {1});
      prepared->Run();
      return static_cast<double>(peak.bytes());
    };
    const double small = workspace(2048), large = workspace(8192);
    if (implementation->memory.order == "1")
      EXPECT_LT(large, 1.02 * small + 4096) << implementation->id;
    else
      EXPECT_GT(large, 3.5 * small) << implementation->id;
  }
}

}  // namespace
}  // namespace subquad
