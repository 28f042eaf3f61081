// Properties specific to stochastic_position_attention; the golden cases and
// `verify` compare its implementations with its definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "harness/judging/operator_run.h"
#include "reference/kernelized/feature_errors.h"
#include "reference/kernelized/stochastic_positions.h"

namespace subquad {
namespace {

constexpr int64_t kN = 19, kD = 3, kE = 4, kC = 2, kP = 5, kR = 8;

Numbers UniformNumbers(int64_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform;
  Numbers x(static_cast<size_t>(count));
  for (double& value : x) value = uniform(generator);
  return x;
}

OperatorRun MakeRun(const std::string& kind, const std::string& attention,
                    bool causal, int64_t n_q = kN, int64_t n_k = kN) {
  OperatorRun run("stochastic_position_attention");
  run.Set("kind", kind).Set("attention", attention).Set("causal", causal);
  if (attention == "linear") run.Set("feature_map", std::string("elu1"));
  run.Give("q", {n_q, kD}, NormalNumbers(n_q * kD, 1))
      .Give("k", {n_k, kD}, NormalNumbers(n_k * kD, 2))
      .Give("v", {n_k, kE}, NormalNumbers(n_k * kE, 3));
  if (kind == "sine")
    run.Give("freqs", {kD, kC}, UniformNumbers(kD * kC, 4))
        .Give("phases", {kD, kC}, NormalNumbers(kD * kC, 5))
        .Give("gains", {kD, kC}, NormalNumbers(kD * kC, 6))
        .Give("z", {kD, 2 * kC, kR}, NormalNumbers(kD * 2 * kC * kR, 7));
  else
    run.Give("filters_q", {kD, kP}, NormalNumbers(kD * kP, 4))
        .Give("filters_k", {kD, kP}, NormalNumbers(kD * kP, 5))
        .Give("z", {kD, n_q + kP - 1, kR},
              NormalNumbers(kD * (n_q + kP - 1) * kR, 7));
  return run;
}

// Uses many draws of the noise at once: the mean of q^ . k^ is the covariance,
// within five standard errors, for every pair and each channel separately (the
// other channels' queries are zero). A wrong phase, offset or tap fails.
template <typename Covariance>
void ExpectCovariance(const std::string& kind, const Covariance& covariance) {
  constexpr int64_t kPositions = 6, kDraws = 40000;
  OperatorRun run = MakeRun(kind, "softmax", false, kPositions, kPositions);
  const int64_t rows = kind == "sine" ? 2 * kC : kPositions + kP - 1;
  run.Give("z", {kD, rows, kDraws}, NormalNumbers(kD * rows * kDraws, 11));
  for (int64_t a = 0; a < kD; ++a) {
    Numbers only(kPositions * kD);
    for (int64_t i = 0; i < kPositions; ++i) only[i * kD + a] = 1;
    run.Give("q", {kPositions, kD}, only).Give("k", {kPositions, kD}, only);
    const Problem problem = run.Resolve(Scalar::kFloat64);
    Inputs inputs;
    for (const TensorRule& rule : problem.inputs)
      inputs.tensors.push_back({rule.name,
                                problem.InputShape(static_cast<size_t>(
                                    problem.InputIndex(rule.name))),
                                {},
                                run[rule.name]});
    const StochasticPositions<double> positions(problem, inputs);
    Numbers query(kDraws), key(kDraws);
    for (int64_t i = 0; i < kPositions; ++i)
      for (int64_t j = 0; j < kPositions; ++j) {
        positions.Query(0, i, query.data(), nullptr);
        positions.Key(0, j, key.data(), nullptr);
        double sum = 0, squares = 0;
        for (int64_t r = 0; r < kDraws; ++r) {
          const double product = query[r] * key[r] * kDraws;
          sum += product;
          squares += product * product;
        }
        const double mean = sum / kDraws;
        const double error =
            std::sqrt((squares / kDraws - mean * mean) / kDraws);
        ASSERT_GT(error, 0);
        EXPECT_LE(std::abs(mean - covariance(run, a, i - j)), 5 * error)
            << kind << " channel " << a << " pair " << i << ", " << j;
      }
  }
}

// Returns P_a(i, j) as a function of i - j.
double SineCovariance(const double* freqs, const double* phases,
                      const double* gains, int64_t components, int64_t offset) {
  double sum = 0;
  for (int64_t c = 0; c < components; ++c)
    sum +=
        gains[c] * gains[c] *
        std::cos(2 * std::numbers::pi * freqs[c] * static_cast<double>(offset) +
                 phases[c]);
  return sum;
}

double ConvCovariance(const double* filters_q, const double* filters_k,
                      int64_t taps, int64_t offset) {
  double sum = 0;
  for (int64_t p = 0; p < taps; ++p)
    if (p + offset >= 0 && p + offset < taps)
      sum += filters_q[p] * filters_k[p + offset];
  return sum;
}

TEST(StochasticPosition, SineNoiseHasItsCovariance) {
  ExpectCovariance("sine", [](OperatorRun& run, int64_t a, int64_t offset) {
    return SineCovariance(&run["freqs"][a * kC], &run["phases"][a * kC],
                          &run["gains"][a * kC], kC, offset);
  });
}

TEST(StochasticPosition, ConvNoiseHasItsCovariance) {
  ExpectCovariance("conv", [](OperatorRun& run, int64_t a, int64_t offset) {
    return ConvCovariance(&run["filters_q"][a * kP], &run["filters_k"][a * kP],
                          kP, offset);
  });
}

// One component of frequency 0, phase 0 and gain 1, noise (1, 0) and one draw
// per channel make q^ equal to q: the operator is the plain attention.
TEST(StochasticPosition, WithoutPositionsItIsThePlainAttention) {
  for (const std::string attention : {"softmax", "linear"}) {
    OperatorRun plain(attention + "_attention");
    OperatorRun run = MakeRun("sine", attention, false);
    const double root = std::sqrt(static_cast<double>(kD));
    Numbers noise(kD * 2 * kD);
    for (int64_t a = 0; a < kD; ++a) noise[(2 * a) * kD + a] = root;
    run.Give("freqs", {kD, 1}, Numbers(kD))
        .Give("phases", {kD, 1}, Numbers(kD))
        .Give("gains", {kD, 1}, Numbers(kD, 1.0))
        .Give("z", {kD, 2, kD}, noise);
    if (attention == "linear") plain.Set("feature_map", std::string("elu1"));
    for (const char* name : {"q", "k", "v"})
      plain.Give(name, {kN, name[0] == 'v' ? kE : kD}, run[name]);
    EXPECT_LE(LargestDifference(run.Definition(), plain.Definition()), 1e-12)
        << attention;
  }
}

// Adding whole turns to the frequencies changes nothing, however far the
// position: angles are reduced before they are rounded.
TEST(StochasticPosition, WholeTurnsHaveNoEffect) {
  OperatorRun run = MakeRun("sine", "softmax", false, 300, 300);
  for (double& f : run["freqs"]) f = std::round(f * 256) / 256;
  OperatorRun turned = run;
  for (double& f : turned["freqs"]) f += 1024;
  for (const std::string& program : run.Programs())
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      EXPECT_EQ(run.Run(program, scalar), turned.Run(program, scalar))
          << program;
}

TEST(StochasticPosition, ACausalPrefixDoesNotSeeItsFuture) {
  for (const std::string kind : {"sine", "conv"})
    for (const std::string attention : {"softmax", "linear"}) {
      OperatorRun run = MakeRun(kind, attention, true);
      constexpr int64_t kSeen = 11;
      OperatorRun changed = run;
      for (int64_t x = kSeen * kD; x < kN * kD; ++x) changed["k"][x] += 2;
      for (int64_t x = kSeen * kE; x < kN * kE; ++x) changed["v"][x] *= -9;
      ASSERT_GE(run.Programs().size(), 2u);
      for (const std::string& program : run.Programs()) {
        const Numbers before = run.Run(program), after = changed.Run(program);
        for (int64_t x = 0; x < kSeen * kE; ++x)
          ASSERT_EQ(before[x], after[x]) << kind << " " << program;
        EXPECT_NE(before.back(), after.back()) << kind << " " << program;
      }
    }
}

// Products of relu features vanish where signs differ, and with them the
// normaliser of some query; with these inputs q^ and k^ are positive.
void MakePositive(const std::string& kind, OperatorRun& run) {
  const std::vector<std::string> sine = {"gains", "phases"};
  const std::vector<std::string> conv = {"filters_q", "filters_k"};
  for (const char* name : {"q", "k", "z"})
    for (double& x : run[name]) x = std::abs(x);
  for (const std::string& name : kind == "sine" ? sine : conv)
    for (double& x : run[name]) x = std::abs(x);
  if (kind == "conv") return;
  for (double& x : run["freqs"]) x *= 1e-3;
  for (double& x : run["phases"]) x *= 1e-3;
}

TEST(StochasticPosition, EveryMapAndShapePasses) {
  int judged = 0;
  for (const std::string kind : {"sine", "conv"})
    for (const std::string map :
         {"elu1", "relu", "sikf", "dpfp", "prf", "prf_hyperbolic", "trf"})
      for (const bool causal : {false, true}) {
        const int64_t n_k = kind == "sine" ? 7 : kN;
        OperatorRun run = MakeRun(kind, "linear", causal, kN, n_k);
        run.Set("feature_map", map);
        if (map == "dpfp") run.Set("nu", int64_t{2});
        if (map == "relu" || map == "dpfp") MakePositive(kind, run);
        if (map.ends_with("rf") || map == "prf_hyperbolic")
          run.Set("scale", 1.0 / 64)
              .Give("omega", {5, kR}, NormalNumbers(5 * kR, 9));
        for (const std::string& program : run.Programs())
          for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
            const Verdict verdict = run.Judge(program, scalar);
            EXPECT_TRUE(verdict.passed())
                << kind << " " << map << " " << program << " "
                << Info(scalar).name << ": " << verdict.reason;
            ++judged;
          }
      }
  EXPECT_GE(judged, 2 * 7 * 2 * 2 * 2);
}

// Features of rows that are off by at most their bound stay within their own
// bounds, and come near them, so that these are tight. The roundoff is made
// large, so that kinks and second orders show.
TEST(FeaturesOfInexactRows, StayWithinTightBounds) {
  constexpr int64_t kWidth = 5, kProjections = 4;
  constexpr double kRoundoff = 1.0 / 64;
  const Numbers omega = NormalNumbers(kProjections * kWidth, 21);
  for (const FeatureMapId id :
       {FeatureMapId::kElu1, FeatureMapId::kRelu, FeatureMapId::kDpfp,
        FeatureMapId::kSikf, FeatureMapId::kPrf,
        FeatureMapId::kPrfHyperbolic}) {
    FeatureMapSpec spec;
    spec.id = id;
    spec.d = kWidth;
    spec.nu = 2;
    spec.projections = id < FeatureMapId::kPrf ? 0 : kProjections;
    const FeatureMap<double> map(spec, omega.data());
    const FeatureErrors<double> errors(spec, omega.data(), kRoundoff);
    const auto features = [&](const Numbers& x) {
      std::vector<Scaled<double>> phi;
      EXPECT_TRUE(map.Row(x.data(), phi));
      Numbers values;
      for (const Scaled<double>& feature : phi)
        values.push_back(std::ldexp(feature.mantissa, feature.exponent));
      return values;
    };
    double nearest = 0;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      const Numbers x = NormalNumbers(kWidth, 100 + seed);
      Numbers units = NormalNumbers(kWidth, 1000 + seed);
      for (double& unit : units) unit = std::abs(8 * unit);
      Numbers moved = x;
      const Numbers toward = NormalNumbers(kWidth, 2000 + seed);
      for (size_t c = 0; c < moved.size(); ++c)
        moved[c] += std::copysign(kRoundoff * units[c], toward[c]);
      const FeatureError error = errors.Row(x.data(), units.data());
      const Numbers exact = features(x), other = features(moved);
      for (size_t a = 0; a < exact.size(); ++a) {
        double bound = error.relative * exact[a];
        if (!error.moved.empty())
          bound += std::ldexp(error.moved[a].mantissa, error.moved[a].exponent);
        const double actual = std::abs(other[a] - exact[a]);
        ASSERT_LE(actual, kRoundoff * bound * (1 + 1e-12) + 1e-15)
            << FeatureMapNames()[static_cast<size_t>(id)] << " feature " << a;
        if (actual > 0)
          nearest = std::max(nearest, actual / (kRoundoff * bound));
      }
    }
    EXPECT_GT(nearest, 0.5) << FeatureMapNames()[static_cast<size_t>(id)];
  }
}

// Compares the plain program's own rows in float32 with their bounds.
TEST(StochasticPosition, RowsStayWithinTheirErrors) {
  for (const std::string kind : {"sine", "conv"}) {
    OperatorRun run = MakeRun(kind, "softmax", false);
    const Problem problem = run.Resolve(Scalar::kFloat32);
    for (const TensorRule& rule : problem.inputs)
      for (double& x : run[rule.name]) x = static_cast<float>(x);
    Inputs inputs;
    for (const TensorRule& rule : problem.inputs)
      inputs.tensors.push_back({rule.name,
                                problem.InputShape(static_cast<size_t>(
                                    problem.InputIndex(rule.name))),
                                {},
                                run[rule.name]});
    const StochasticPositions<float> plain(problem, inputs);
    const StochasticPositions<double> exact(problem, inputs);
    std::vector<float> row(kR);
    Numbers value(kR), units(kR);
    double nearest = 0;
    for (int64_t i = 0; i < kN; ++i) {
      plain.Query(0, i, row.data(), nullptr);
      exact.Query(0, i, value.data(), units.data());
      for (size_t r = 0; r < value.size(); ++r)
        nearest = std::max(nearest,
                           std::abs(row[r] - value[r]) / (0x1p-24 * units[r]));
    }
    EXPECT_LE(nearest, 1) << kind;
    EXPECT_GT(nearest, 0.01) << kind;
  }
}

}  // namespace
}  // namespace subquad
