// Properties of the position schemes: tokens are a set without them and a
// sequence with them (Transformers II eq. 2), and each scheme equals another in
// a special case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/judging/operator_run.h"
#include "reference/softmax/position_scheme.h"
#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr int64_t kN = 150, kWide = 7, kD = 6, kE = 5;

bool HasPositions(const std::string& scheme) {
  return scheme == "absolute" || scheme == "absolute_scores" ||
         scheme == "untied";
}

OperatorRun Attention(const std::string& scheme, int64_t n = kN) {
  OperatorRun run("position_attention");
  run.Set("scheme", scheme)
      .Give("x", {n, kWide}, NormalNumbers(n * kWide, 1))
      .Give("w_q", {kWide, kD}, NormalNumbers(kWide * kD, 2, 0.4))
      .Give("w_k", {kWide, kD}, NormalNumbers(kWide * kD, 3, 0.4))
      .Give("w_v", {kWide, kE}, NormalNumbers(kWide * kE, 4, 0.4));
  if (HasPositions(scheme))
    run.Give("pos", {n, kWide}, NormalNumbers(n * kWide, 5));
  if (scheme == "shaw")
    run.Give("rel", {2 * n - 1, kD}, NormalNumbers((2 * n - 1) * kD, 6));
  if (scheme == "deberta")
    run.Give("rel", {2 * n - 1, kWide}, NormalNumbers((2 * n - 1) * kWide, 6));
  if (scheme == "bias" || scheme == "multiplicative")
    run.Give("bias", {2 * n - 1}, NormalNumbers(2 * n - 1, 7));
  if (scheme == "untied" || scheme == "deberta")
    run.Give("u_q", {kWide, kD}, NormalNumbers(kWide * kD, 8, 0.4))
        .Give("u_k", {kWide, kD}, NormalNumbers(kWide * kD, 9, 0.4));
  return run;
}

// Returns the tensor with the positions of a scheme.
std::string PositionsOf(const std::string& scheme) {
  if (HasPositions(scheme)) return "pos";
  return scheme == "shaw" || scheme == "deberta" ? "rel" : "bias";
}

// Makes the scheme's positions have no effect.
OperatorRun WithoutPositions(const std::string& scheme) {
  OperatorRun run = Attention(scheme);
  const double nothing = scheme == "multiplicative" ? 1 : 0;
  for (double& x : run[PositionsOf(scheme)]) x = nothing;
  return run;
}

Numbers Permuted(const Numbers& x, int64_t width,
                 const std::vector<int64_t>& order) {
  Numbers y;
  for (int64_t row : order)
    y.insert(y.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  return y;
}

std::vector<int64_t> Order(int64_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> Shuffled(int64_t n) {
  auto order = Order(n);
  std::mt19937_64 generator(9);
  std::shuffle(order.begin(), order.end(), generator);
  return order;
}

std::vector<int64_t> Reversed(int64_t n) {
  auto order = Order(n);
  std::reverse(order.begin(), order.end());
  return order;
}

Numbers Product(const Numbers& x, const Numbers& w, int64_t rows, int64_t inner,
                int64_t columns) {
  Numbers y(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t b = 0; b < inner; ++b)
        y[i * columns + c] += x[i * inner + b] * w[b * columns + c];
  return y;
}

TEST(PositionAttention, PermutationEquivarianceIsBrokenByPositions) {
  const auto order = Shuffled(kN);
  for (const std::string& scheme : PositionSchemeNames()) {
    const auto gap = [&](OperatorRun run, const std::string& program,
                         bool permute_positions) {
      const Numbers out = Permuted(run.Run(program), kE, order);
      run["x"] = Permuted(run["x"], kWide, order);
      if (permute_positions) run["pos"] = Permuted(run["pos"], kWide, order);
      return LargestDifference(run.Run(program), out);
    };
    const OperatorRun run = Attention(scheme);
    for (const std::string& program : run.Programs()) {
      EXPECT_GT(gap(run, program, false), 0.05) << scheme << " " << program;
      EXPECT_LE(gap(WithoutPositions(scheme), program, false), kRounding)
          << scheme << " " << program;
      if (HasPositions(scheme)) {
        EXPECT_LE(gap(run, program, true), kRounding)
            << scheme << " " << program;
      }
    }
  }
}

// Offsets change their sign when the sequence is reversed: with reversed
// embeddings all outputs are reversed too, without them they are not.
TEST(PositionAttention, TurningSequenceAndOffsetsTurnsTheOutputs) {
  for (const std::string& scheme : PositionSchemeNames()) {
    if (HasPositions(scheme)) continue;
    OperatorRun run = Attention(scheme);
    OperatorRun turned = run;
    turned["x"] = Permuted(run["x"], kWide, Reversed(kN));
    OperatorRun both = turned;
    Numbers& positions = both[PositionsOf(scheme)];
    const int64_t width = static_cast<int64_t>(positions.size()) / (2 * kN - 1);
    positions = Permuted(positions, width, Reversed(2 * kN - 1));
    for (const std::string& program : run.Programs()) {
      const Numbers out = Permuted(run.Run(program), kE, Reversed(kN));
      EXPECT_LE(LargestDifference(both.Run(program), out), kRounding)
          << scheme << " " << program;
      EXPECT_GT(LargestDifference(turned.Run(program), out), 0.05)
          << scheme << " " << program;
    }
  }
}

TEST(PositionAttention, WithoutPositionsIsPlainAttention) {
  for (const std::string& scheme : PositionSchemeNames()) {
    OperatorRun run = WithoutPositions(scheme);
    OperatorRun plain("softmax_attention");
    plain.Give("q", {kN, kD}, Product(run["x"], run["w_q"], kN, kWide, kD))
        .Give("k", {kN, kD}, Product(run["x"], run["w_k"], kN, kWide, kD))
        .Give("v", {kN, kE}, Product(run["x"], run["w_v"], kN, kWide, kE));
    const Numbers expected = plain.Definition();
    for (const std::string& program : run.Programs()) {
      EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
          << scheme << " " << program;
      EXPECT_GT(LargestDifference(Attention(scheme).Run(program), expected),
                0.05)
          << scheme << " " << program;
    }
  }
}

// The bias is inside the scaling here and outside in softmax_attention.
TEST(PositionAttention, BiasIsScaled) {
  OperatorRun run = Attention("bias");
  OperatorRun plain("softmax_attention");
  Numbers bias = run["bias"];
  plain.Give("q", {kN, kD}, Product(run["x"], run["w_q"], kN, kWide, kD))
      .Give("k", {kN, kD}, Product(run["x"], run["w_k"], kN, kWide, kD))
      .Give("v", {kN, kE}, Product(run["x"], run["w_v"], kN, kWide, kE))
      .Give("bias", {2 * kN - 1}, bias);
  const Numbers outside = plain.Definition();
  for (double& b : plain["bias"]) b /= std::sqrt(static_cast<double>(kD));
  const Numbers inside = plain.Definition();
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(run.Run(program), inside), kRounding);
    EXPECT_GT(LargestDifference(run.Run(program), outside), 0.01);
  }
}

// Setting u_q = 0 removes the third term of deberta, which leaves shaw with rel
// u_k as rel. Setting u_k = 0, with queries and keys exchanged, removes the
// second term, which leaves shaw with reversed offsets.
TEST(PositionAttention, DebertaContainsShawTwice) {
  OperatorRun deberta = Attention("deberta");
  const int64_t offsets = 2 * kN - 1;
  OperatorRun left = deberta, right = deberta;
  left["u_q"].assign(kWide * kD, 0);
  right["u_k"].assign(kWide * kD, 0);
  OperatorRun shaw = Attention("shaw");
  shaw["rel"] = Product(deberta["rel"], deberta["u_k"], offsets, kWide, kD);
  // Scores of `right`: q_i.k_j + (rel(i-j) u_q).k_j.
  const Numbers rel_q =
      Product(deberta["rel"], deberta["u_q"], offsets, kWide, kD);
  const Numbers q = Product(deberta["x"], deberta["w_q"], kN, kWide, kD);
  const Numbers k = Product(deberta["x"], deberta["w_k"], kN, kWide, kD);
  const Numbers v = Product(deberta["x"], deberta["w_v"], kN, kWide, kE);
  Numbers expected;
  for (int64_t i = 0; i < kN; ++i) {
    double sum = 0;
    Numbers row(kE);
    for (int64_t j = 0; j < kN; ++j) {
      double score = 0;
      for (int64_t a = 0; a < kD; ++a)
        score +=
            (q[i * kD + a] + rel_q[(i - j + kN - 1) * kD + a]) * k[j * kD + a];
      const double weight = std::exp(score / std::sqrt(double{kD}));
      sum += weight;
      for (int64_t c = 0; c < kE; ++c) row[c] += weight * v[j * kE + c];
    }
    for (double x : row) expected.push_back(x / sum);
  }
  for (const std::string& program : deberta.Programs()) {
    EXPECT_LE(LargestDifference(left.Run(program), shaw.Run(program)),
              kRounding)
        << program;
    EXPECT_LE(LargestDifference(right.Run(program), expected), kRounding)
        << program;
    EXPECT_GT(LargestDifference(deberta.Run(program), expected), 0.05)
        << program;
  }
}

TEST(PositionAttention, SizesAroundBlocks) {
  for (const std::string& scheme : PositionSchemeNames())
    for (int64_t n : {1, 2, 3, 63, 64, 65, 127, 129, 200}) {
      const OperatorRun run = Attention(scheme, n);
      for (const std::string& program : run.Programs())
        EXPECT_TRUE(run.Judge(program).passed())
            << scheme << " " << program << " " << n << " "
            << run.Judge(program).reason;
    }
}

TEST(PositionAttention, TensorsOfOtherSchemesAreRefused) {
  OperatorRun run = Attention("absolute");
  run.Give("bias", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 1));
  EXPECT_THROW(run.Resolve(Scalar::kFloat64), InvalidInput);
  OperatorRun wrong = Attention("shaw");
  wrong.Give("rel", {2 * kN - 1, kWide},
             NormalNumbers((2 * kN - 1) * kWide, 1));
  EXPECT_THROW(wrong.Resolve(Scalar::kFloat64), InvalidInput);
}

TEST(PositionAttention, AnyNumberOfThreadsGivesTheSameBits) {
  for (const std::string& scheme : PositionSchemeNames()) {
    const OperatorRun run = Attention(scheme, 300);
    for (const std::string& program : run.Programs())
      EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
                run.Run(program, Scalar::kFloat32, 3))
          << scheme << " " << program;
  }
}

// Returns the frequency of sinusoidal positions (Transformers II eq. 3): sin
// and cos of i times 10000^(-2a/D).
double Frequency(int64_t pair, int64_t width) {
  return std::pow(
      1e4, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
}
Numbers Sinusoids(int64_t n, int64_t width) {
  Numbers pos;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t a = 0; a < width; ++a) {
      const double angle = static_cast<double>(i) * Frequency(a / 2, width);
      pos.push_back(a % 2 ? std::cos(angle) : std::sin(angle));
    }
  return pos;
}

// A shift rotates each pair by its frequency times the shift, by the same angle
// for all positions (Transformers II eq. 4). The control rotates the other way.
TEST(PositionAttention, ShiftOfSinusoidsIsARotation) {
  constexpr int64_t kWidth = 16;
  const Numbers pos = Sinusoids(kN, kWidth);
  for (int64_t shift : {1, 5, 50}) {
    double gap = 0, other_way = 0;
    for (int64_t i = 0; i + shift < kN; ++i)
      for (int64_t a = 0; a < kWidth; a += 2) {
        const double angle =
            static_cast<double>(shift) * Frequency(a / 2, kWidth);
        const double s = pos[i * kWidth + a], c = pos[i * kWidth + a + 1];
        const double expected = pos[(i + shift) * kWidth + a];
        gap = std::max(gap, std::abs(std::cos(angle) * s + std::sin(angle) * c -
                                     expected));
        gap = std::max(gap, std::abs(std::cos(angle) * c - std::sin(angle) * s -
                                     pos[(i + shift) * kWidth + a + 1]));
        other_way = std::max(
            other_way,
            std::abs(std::cos(angle) * s - std::sin(angle) * c - expected));
      }
    EXPECT_LE(gap, 1e-13);
    EXPECT_GT(other_way, 0.1);
  }
}

// The dot products of sinusoids depend on offsets only: `untied` with sinusoids
// and equal projections is `bias`. The control has other positions.
TEST(PositionAttention, SinusoidsAreABiasByOffset) {
  constexpr int64_t kWidth = 8;
  OperatorRun untied("position_attention"), bias("position_attention");
  const Numbers pos = Sinusoids(kN, kWidth);
  Numbers identity(kWidth * kWidth, 0), by_offset(2 * kN - 1, 0);
  for (int64_t a = 0; a < kWidth; ++a) identity[a * kWidth + a] = 1;
  for (int64_t t = 0; t < 2 * kN - 1; ++t)
    for (int64_t a = 0; a < kWidth / 2; ++a)
      by_offset[t] +=
          std::cos(static_cast<double>(t - kN + 1) * Frequency(a, kWidth));
  for (OperatorRun* run : {&untied, &bias})
    run->Give("x", {kN, kWidth}, NormalNumbers(kN * kWidth, 1))
        .Give("w_q", {kWidth, kWidth}, NormalNumbers(kWidth * kWidth, 2, 0.4))
        .Give("w_k", {kWidth, kWidth}, NormalNumbers(kWidth * kWidth, 3, 0.4))
        .Give("w_v", {kWidth, kE}, NormalNumbers(kWidth * kE, 4, 0.4));
  bias.Set("scheme", std::string("bias")).Give("bias", {2 * kN - 1}, by_offset);
  untied.Set("scheme", std::string("untied"))
      .Give("pos", {kN, kWidth}, pos)
      .Give("u_q", {kWidth, kWidth}, identity)
      .Give("u_k", {kWidth, kWidth}, identity);
  OperatorRun learned = untied;
  learned["pos"] = NormalNumbers(kN * kWidth, 5);
  for (const std::string& program : untied.Programs()) {
    EXPECT_LE(LargestDifference(untied.Run(program), bias.Run(program)),
              kRounding)
        << program;
    EXPECT_GT(LargestDifference(learned.Run(program), bias.Run(program)), 0.05)
        << program;
  }
}

const std::vector<std::string>& Schemes() { return PositionSchemeNames(); }

// A key that a query does not see changes no bit of its output; a visible key
// does. Tests `causal` and padding, in the first and the last block of keys.
TEST(PositionAttention, HiddenKeysChangeNoBit) {
  for (const std::string& scheme : Schemes())
    for (const int64_t key : {int64_t{1}, int64_t{63}, int64_t{64}, kN - 1}) {
      OperatorRun run = Attention(scheme);
      run.Set("causal", true);
      OperatorRun other = run;
      for (int64_t a = 0; a < kWide; ++a) other["x"][key * kWide + a] += 10;
      for (const std::string& program : run.Programs(Scalar::kFloat32)) {
        const Numbers a = run.Run(program, Scalar::kFloat32);
        const Numbers b = other.Run(program, Scalar::kFloat32);
        EXPECT_TRUE(std::equal(a.begin(), a.begin() + key * kE, b.begin()))
            << scheme << " " << program << " key " << key;
        EXPECT_NE(a[key * kE], b[key * kE]) << scheme << " " << program;
      }
    }
}

TEST(PositionAttention, CausalAndPaddedIsTheDefinition) {
  for (const std::string& scheme : Schemes())
    for (const int64_t n : {int64_t{1}, int64_t{65}, kN})
      for (const bool causal : {false, true})
        for (const int64_t length : {int64_t{1}, n / 2 + 1, n}) {
          OperatorRun run = Attention(scheme, n);
          run.Set("causal", causal).Set("key_lengths", IntegerList{length});
          const Numbers expected = run.Definition();
          EXPECT_TRUE(HasPrograms(run, {"dense", "shift"}));
          for (const std::string& program : run.Programs()) {
            EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
                << scheme << " " << program << " n " << n << " causal "
                << causal << " length " << length;
            EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
                      run.Run(program, Scalar::kFloat32, 3))
                << scheme << " " << program;
          }
        }
}

// The released order equals the paper's for embeddings that are symmetric, and
// differs for others.
TEST(PositionAttention, ReleasedDeberta) {
  for (const int64_t n : {int64_t{1}, int64_t{3}, int64_t{64}, kN}) {
    OperatorRun paper = Attention("deberta", n);
    OperatorRun released = paper;
    released.Set("p2c", std::string("released"));
    const Numbers expected = released.Definition();
    for (const std::string& program : released.Programs()) {
      EXPECT_LE(LargestDifference(released.Run(program), expected), kRounding)
          << program << " n " << n;
      if (n == 1) continue;
      EXPECT_GT(LargestDifference(paper.Run(program), expected), 1e-3)
          << program;
    }
    for (int64_t x = 0; x < n - 1; ++x)
      for (int64_t a = 0; a < kWide; ++a)
        for (OperatorRun* run : {&paper, &released})
          (*run)["rel"][(2 * n - 2 - x) * kWide + a] =
              (*run)["rel"][x * kWide + a];
    for (const std::string& program : released.Programs())
      EXPECT_LE(LargestDifference(released.Run(program), paper.Run(program)),
                kRounding)
          << program << " n " << n;
  }
}

TEST(PositionAttention, ParametersThatDoNotFitAreNamed) {
  const auto expect = [](const std::string& scheme, const char* name,
                         const ParamValue& value) {
    OperatorRun run = Attention(scheme);
    run.Set(name, value);
    try {
      run.Resolve(Scalar::kFloat64);
      FAIL() << name << " taken with " << scheme;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
          << error.what();
    }
  };
  expect("shaw", "p2c", std::string("released"));
  expect("deberta", "p2c", std::string("both"));
  expect("shaw", "key_lengths", IntegerList{kN + 1});
  expect("shaw", "key_lengths", IntegerList{-1});
  expect("shaw", "key_lengths", IntegerList{1, 2});
  expect("shaw", "query_offset", int64_t{1});
}

}  // namespace
}  // namespace subquad
