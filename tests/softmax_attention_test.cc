// Properties of softmax attention, for any implementation. Each property is an
// identity between two runs, with a control that shows it can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "harness/cases/case.h"
#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Allows for scores of order one and a few hundred keys: n + 2d roundings of
// 1.1e-16, with room.
constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n_q, n_k, d, e;
};
constexpr Sizes kSizes = {137, 201, 12, 7};

OperatorRun Attention(const Sizes& s = kSizes, bool causal = false) {
  OperatorRun run("softmax_attention");
  run.Set("causal", causal)
      .Give("q", {s.n_q, s.d}, NormalNumbers(s.n_q * s.d, 1))
      .Give("k", {s.n_k, s.d}, NormalNumbers(s.n_k * s.d, 2))
      .Give("v", {s.n_k, s.e}, NormalNumbers(s.n_k * s.e, 3));
  return run;
}

Numbers Permuted(const Numbers& x, int64_t width,
                 const std::vector<int64_t>& order) {
  Numbers y;
  for (int64_t row : order)
    y.insert(y.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  return y;
}

std::vector<int64_t> Shuffled(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 generator(9);
  std::shuffle(order.begin(), order.end(), generator);
  return order;
}

// The weights of a row are positive and sum to one: constant values stay.
TEST(SoftmaxAttention, WeightsSumToOne) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention(kSizes, causal);
    run["v"].assign(run["v"].size(), 1);
    const Numbers ones(static_cast<size_t>(kSizes.n_q * kSizes.e), 1);
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), ones), kRounding)
          << program;
  }
}

// Keys and values are a set if there are no positions (Transformers II eq. 2).
TEST(SoftmaxAttention, OrderOfKeysDoesNotMatterWithoutPositions) {
  const auto order = Shuffled(kSizes.n_k);
  for (bool with_bias : {false, true}) {
    OperatorRun run = Attention();
    const int64_t offsets = kSizes.n_q + kSizes.n_k - 1;
    if (with_bias) run.Give("bias", {offsets}, NormalNumbers(offsets, 4));
    OperatorRun shuffled = run;
    shuffled["k"] = Permuted(run["k"], kSizes.d, order);
    shuffled["v"] = Permuted(run["v"], kSizes.e, order);
    for (const std::string& program : run.Programs()) {
      const double gap =
          LargestDifference(run.Run(program), shuffled.Run(program));
      // The control: a bias by offset breaks it.
      if (with_bias)
        EXPECT_GT(gap, 0.01) << program;
      else
        EXPECT_LE(gap, kRounding) << program;
    }
  }
}

TEST(SoftmaxAttention, OutputsFollowTheirQueries) {
  const auto order = Shuffled(kSizes.n_q);
  OperatorRun run = Attention();
  OperatorRun shuffled = run;
  shuffled["q"] = Permuted(run["q"], kSizes.d, order);
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    const Numbers moved = shuffled.Run(program);
    EXPECT_LE(LargestDifference(moved, Permuted(out, kSizes.e, order)),
              kRounding)
        << program;
    EXPECT_GT(LargestDifference(moved, out), 0.01) << program;
  }
}

TEST(SoftmaxAttention, ConstantAddedToTheBiasDoesNotMatter) {
  const int64_t offsets = kSizes.n_q + kSizes.n_k - 1;
  OperatorRun run = Attention();
  run.Give("bias", {offsets}, NormalNumbers(offsets, 4));
  OperatorRun raised = run, tilted = run;
  for (double& b : raised["bias"]) b += 50;
  for (size_t t = 0; t < tilted["bias"].size(); ++t)
    tilted["bias"][t] += 0.01 * static_cast<double>(t);
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    // Scores of 50 have 50 times the errors of scores of one.
    EXPECT_LE(LargestDifference(raised.Run(program), out), 50 * kRounding)
        << program;
    EXPECT_GT(LargestDifference(tilted.Run(program), out), 0.01) << program;
  }
}

// The prefix is bit-identical: a masked key has weight zero, not a small one.
TEST(SoftmaxAttention, CausalPrefixDoesNotSeeItsFuture) {
  for (const Sizes& s : {Sizes{150, 150, 12, 7}, Sizes{150, 301, 12, 7},
                         Sizes{301, 150, 12, 7}}) {
    for (int64_t cut : {int64_t{1}, int64_t{64}, int64_t{77}, int64_t{128}}) {
      OperatorRun run = Attention(s, true);
      OperatorRun other = run;
      for (int64_t j = cut; j < s.n_k; ++j) {
        for (int64_t a = 0; a < s.d; ++a) other["k"][j * s.d + a] *= -1e6;
        for (int64_t c = 0; c < s.e; ++c) other["v"][j * s.e + c] += 1e6;
      }
      for (const std::string& program : run.Programs()) {
        for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
          const Numbers a = run.Run(program, scalar);
          const Numbers b = other.Run(program, scalar);
          EXPECT_TRUE(std::equal(a.begin(), a.begin() + cut * s.e, b.begin()))
              << program << " cut " << cut;
          EXPECT_NE(a[cut * s.e], b[cut * s.e]) << program << " cut " << cut;
        }
      }
    }
  }
}

// Queries and keys of zero leave only the bias. A sharp bias is a shift, and
// heads that shift, mixed by a matrix each, are a convolution (Transformers II
// eq. 22 and 23).
TEST(SoftmaxAttention, HeadsWithSharpBiasesAreAConvolution) {
  constexpr int64_t kN = 100, kD = 5, kE = 6, kHeads = 3;
  OperatorRun run("softmax_attention");
  const Numbers x = NormalNumbers(kN * kE, 3);
  Numbers values, bias(kHeads * (2 * kN - 1), -1e4);
  for (int64_t h = 0; h < kHeads; ++h) {
    values.insert(values.end(), x.begin(), x.end());
    const int64_t offset = h - 1;
    bias[h * (2 * kN - 1) + offset + kN - 1] = 0;
  }
  const Numbers zeros(kHeads * kN * kD, 0);
  run.Give("q", {kHeads, kN, kD}, zeros)
      .Give("k", {kHeads, kN, kD}, zeros)
      .Give("v", {kHeads, kN, kE}, values)
      .Give("bias", {kHeads, 2 * kN - 1}, bias);
  const Numbers mix = NormalNumbers(kHeads * kE * kE, 5);
  const auto mixed = [&](int64_t h, const double* row, int64_t c) {
    double sum = 0;
    for (int64_t a = 0; a < kE; ++a) sum += row[a] * mix[(h * kE + a) * kE + c];
    return sum;
  };
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    double gap = 0, mirrored = 0;
    for (int64_t i = 1; i + 1 < kN; ++i)  // the ends have no neighbour
      for (int64_t c = 0; c < kE; ++c) {
        double heads = 0, convolution = 0, correlation = 0;
        for (int64_t h = 0; h < kHeads; ++h) {
          heads += mixed(h, &out[(h * kN + i) * kE], c);
          convolution += mixed(h, &x[(i + h - 1) * kE], c);
          correlation += mixed(h, &x[(i - h + 1) * kE], c);
        }
        gap = std::max(gap, std::abs(heads - convolution));
        mirrored = std::max(mirrored, std::abs(heads - correlation));
      }
    EXPECT_LE(gap, kRounding) << program;
    EXPECT_GT(mirrored, 0.1) << program;  // an offset of the wrong sign
  }
}

// One update of a modern Hopfield network, xi - grad E(xi) with
//   E = -log(sum_j exp(beta x_j.xi))/beta + |xi|^2/2
// (Ramsauer et al. 2020; Transformers II, last section), is attention with the
// stored patterns as keys and values. The gradient here is a central difference
// of E in long double: errors h^2 and 1e-19/h.
TEST(SoftmaxAttention, IsOneUpdateOfAHopfieldNetwork) {
  constexpr int64_t kStates = 70, kPatterns = 40, kD = 8;
  constexpr double kBeta = 0.7;
  const Numbers patterns = NormalNumbers(kPatterns * kD, 1);
  const Numbers states = NormalNumbers(kStates * kD, 2);
  OperatorRun run("softmax_attention");
  run.Set("scale", kBeta)
      .Give("q", {kStates, kD}, states)
      .Give("k", {kPatterns, kD}, patterns)
      .Give("v", {kPatterns, kD}, patterns);
  const auto energy = [&](const long double* xi) {
    long double sum = 0, square = 0;
    for (int64_t j = 0; j < kPatterns; ++j) {
      long double dot = 0;
      for (int64_t a = 0; a < kD; ++a) dot += patterns[j * kD + a] * xi[a];
      sum += std::exp(kBeta * dot);
    }
    for (int64_t a = 0; a < kD; ++a) square += xi[a] * xi[a];
    return -std::log(sum) / kBeta + square / 2;
  };
  Numbers update;
  constexpr long double kStep = 1e-5L;
  for (int64_t i = 0; i < kStates; ++i)
    for (int64_t a = 0; a < kD; ++a) {
      std::vector<long double> xi(&states[i * kD], &states[i * kD] + kD);
      xi[a] += kStep;
      const long double above = energy(xi.data());
      xi[a] -= 2 * kStep;
      const long double gradient = (above - energy(xi.data())) / (2 * kStep);
      update.push_back(states[i * kD + a] - static_cast<double>(gradient));
    }
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(out, update), 1e-8) << program;
    EXPECT_GT(LargestDifference(out, states), 0.1) << program;
    // The update also lowers the energy.
    for (int64_t i = 0; i < kStates; ++i) {
      const std::vector<long double> before(&states[i * kD],
                                            &states[i * kD] + kD);
      const std::vector<long double> after(&out[i * kD], &out[i * kD] + kD);
      EXPECT_LT(energy(after.data()), energy(before.data())) << program;
    }
  }
}

// Scores of +-1e4 are far beyond the range of exp; the largest gets all the
// weight.
TEST(SoftmaxAttention, LargeScoresDoNotOverflow) {
  constexpr int64_t kN = 97, kD = 4;
  OperatorRun run("softmax_attention");
  Numbers q(kN * kD, 0), k(kN * kD, 0);
  for (int64_t i = 0; i < kN; ++i) {
    q[i * kD] = i % 2 ? 100 : -100;
    k[i * kD] = i == 40 ? 100 : i == 41 ? -100 : 0;
  }
  run.Set("scale", 1.0)
      .Give("q", {kN, kD}, q)
      .Give("k", {kN, kD}, k)
      .Give("v", {kN, 3}, NormalNumbers(kN * 3, 1));
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const std::string& program : run.Programs(scalar)) {
      const Numbers out = run.Run(program, scalar);
      for (int64_t i = 0; i < kN; ++i)
        for (int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(out[i * 3 + c],
                    RoundTo(scalar, run["v"][(i % 2 ? 40 : 41) * 3 + c]))
              << program;
    }
}

// A bias of -inf hides a key completely, whatever its values.
TEST(SoftmaxAttention, MinusInfinityHidesKeys) {
  const Sizes s = {70, 150, 12, 7};
  OperatorRun run = Attention(s);
  Numbers bias(static_cast<size_t>(s.n_q + s.n_k - 1), -kInfinity);
  // Offsets -1, 0, 1 are visible: a band.
  for (int64_t t = s.n_q - 2; t <= s.n_q; ++t) bias[t] = 0.5;
  run.Give("bias", {s.n_q + s.n_k - 1}, bias);
  const Numbers expected = run.Definition();
  OperatorRun far = run;
  for (int64_t j = 80; j < s.n_k; ++j) far["v"][j * s.e] = 1e30;
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
        << program;
    EXPECT_EQ(run.Run(program), far.Run(program)) << program;
  }
}

// Expects the first `blind` and all queries from `seeing` on to have rows of
// zeros in every program, as they see no key, and the others not to.
void ExpectZeroRows(const OperatorRun& run, int64_t blind, int64_t seeing,
                    int64_t queries, int64_t width) {
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const std::string& program : run.Programs(scalar)) {
      const Numbers out = run.Run(program, scalar);
      for (int64_t i = 0; i < queries; ++i) {
        const auto row = out.begin() + i * width;
        const bool zero =
            std::all_of(row, row + width, [](double x) { return x == 0; });
        EXPECT_EQ(zero, i < blind || i >= seeing) << program << " row " << i;
      }
      // An answer of zeros alone is mistrusted.
      EXPECT_EQ(run.Judge(program, scalar).outcome,
                blind < queries && seeing > blind ? Outcome::kPassed
                                                  : Outcome::kMistrusted)
          << program;
    }
}

TEST(SoftmaxAttention, RowsThatSeeNoKeyAreZero) {
  // Query i may see keys i - 1 to i + 1, but there are only n_k = 2 keys.
  OperatorRun banded = Attention({70, 2, 12, 7});
  Numbers bias(71, -kInfinity);
  for (int64_t t = 68; t <= 70; ++t) bias[static_cast<size_t>(t)] = 0.5;
  banded.Give("bias", {71}, bias);
  ExpectZeroRows(banded, 0, 3, 70, 7);

  // The first queries are before all keys.
  OperatorRun early = Attention({200, 90, 12, 7}, true);
  early.Set("query_offset", int64_t{-110});
  ExpectZeroRows(early, 110, 200, 200, 7);
  early.Set("query_offset", int64_t{-200});
  ExpectZeroRows(early, 200, 200, 200, 7);

  // The only finite bias of a causal query lies in its future.
  OperatorRun later = Attention({20, 20, 3, 3}, true);
  Numbers previous(39, -kInfinity);
  previous[18] = 0;
  later.Give("bias", {39}, previous);
  ExpectZeroRows(later, 1, 20, 20, 3);

  OperatorRun empty = Attention({20, 20, 3, 3});
  empty.Set("key_lengths", IntegerList{0});
  ExpectZeroRows(empty, 20, 20, 20, 3);
}

// Rows that see no key add nothing to any gradient.
TEST(SoftmaxAttention, RowsThatSeeNoKeyHaveNoGradient) {
  constexpr int64_t kQueries = 150, kKeys = 60, kBlind = 90, kD = 12, kE = 7;
  OperatorRun run = Attention({kQueries, kKeys, kD, kE}, true);
  run.Set("query_offset", -kBlind);
  Numbers bias = NormalNumbers(kQueries + kKeys - 1, 4);
  run.Give("bias", {kQueries + kKeys - 1}, bias);
  OperatorRun backward = run;
  Numbers grad = NormalNumbers(kQueries * kE, 5);
  backward.Give("grad", {kQueries, kE}, grad);
  OperatorRun other = run;
  std::fill_n(grad.begin(), kBlind * kE, 1e3);
  other.Give("grad", {kQueries, kE}, grad);
  for (const std::string& program : backward.Programs()) {
    for (const char* name : {"grad_q", "grad_k", "grad_v", "grad_bias"})
      EXPECT_EQ(backward.Run(program, Scalar::kFloat64, 1, name),
                other.Run(program, Scalar::kFloat64, 1, name))
          << program << " " << name;
    const Numbers of_queries = backward.Run(program);
    for (int64_t x = 0; x < kQueries * kD; ++x)
      // The first query that sees a key sees one alone, whose weight is one.
      EXPECT_EQ(of_queries[static_cast<size_t>(x)] == 0, x < (kBlind + 1) * kD)
          << program << " " << x;
    EXPECT_TRUE(backward.Judge(program).passed()) << program;
  }
}

// Keys outside a window are hidden as by a bias of -inf, and have no effect.
TEST(SoftmaxAttention, WindowsHideKeys) {
  const Sizes s = {150, 210, 12, 7};
  for (const int64_t left : {0, 3, 70, 1000})
    for (const int64_t right : {-1, 0, 2, 64})  // -1: causal
      for (const int64_t offset : {0, 47, -30, 190}) {
        OperatorRun run = Attention(s, right < 0);
        run.Set("window_left", left).Set("query_offset", offset);
        if (right >= 0) run.Set("window_right", right);
        OperatorRun banded = Attention(s);
        banded.Set("query_offset", offset);
        // Entry t of the bias belongs to j - i = t - (n_q - 1).
        Numbers bias(static_cast<size_t>(s.n_q + s.n_k - 1));
        for (int64_t t = 0; t < std::ssize(bias); ++t) {
          const int64_t distance = t - (s.n_q - 1) - offset;
          if (distance < -left || distance > std::max<int64_t>(right, 0))
            bias[static_cast<size_t>(t)] = -kInfinity;
        }
        banded.Give("bias", {std::ssize(bias)}, bias);
        const Numbers expected = banded.Definition();
        EXPECT_EQ(run.Definition(), expected)
            << left << " " << right << " " << offset;
        for (const std::string& program : run.Programs())
          EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
              << program << " " << left << " " << right << " " << offset;
      }
}

// Tiles outside a window are not computed: the operations do not grow with the
// number of keys.
TEST(SoftmaxAttention, TiledSkipsTilesOutsideTheWindow) {
  const Implementation& tiled =
      FindImplementation("softmax_attention", "tiled");
  const auto flops = [&](int64_t n, const std::string& window) {
    const Case test_case =
        MakeCase(ParseCaseId("softmax_attention:n=" + std::to_string(n) +
                             ",d=8,e=8,causal=1" + window + ",seed=1"));
    const Problem problem = ProblemOf(test_case);
    return tiled.CostOf(problem, 1).flops / static_cast<double>(n);
  };
  const double short_row = flops(1024, ",window_left=100");
  EXPECT_LT(flops(4096, ",window_left=100"), 1.2 * short_row);
  EXPECT_GT(flops(4096, ""), 3 * flops(1024, ""));
}

// Slopes are a bias by the distance of query and key, also behind a cache;
// their gradient is that of the bias, summed with the distances.
TEST(SoftmaxAttention, SlopesAreABiasByDistance) {
  constexpr int64_t kHeads = 3, kQueries = 70, kKeys = 90, kD = 8, kE = 5;
  constexpr int64_t kOffsets = kQueries + kKeys - 1;
  const Numbers slopes = {0.5, 0.0625, -0.1};
  for (const bool causal : {false, true})
    for (const int64_t offset : {0, 20}) {
      OperatorRun run("softmax_attention");
      run.Set("causal", causal).Set("query_offset", offset);
      run.Give("q", {kHeads, kQueries, kD},
               NormalNumbers(kHeads * kQueries * kD, 1))
          .Give("k", {kHeads, kKeys, kD}, NormalNumbers(kHeads * kKeys * kD, 2))
          .Give("v", {kHeads, kKeys, kE},
                NormalNumbers(kHeads * kKeys * kE, 3));
      OperatorRun biased = run;
      run.Give("slopes", {kHeads}, slopes);
      Numbers bias;
      const auto distance = [&](int64_t t) {
        return static_cast<double>(std::abs(t - (kQueries - 1) - offset));
      };
      for (const double slope : slopes)
        for (int64_t t = 0; t < kOffsets; ++t)
          bias.push_back(-slope * distance(t));
      biased.Give("bias", {kHeads, kOffsets}, bias);
      const Numbers expected = biased.Definition();
      EXPECT_LE(LargestDifference(run.Definition(), expected), 1e-15);
      const Numbers grad = NormalNumbers(kHeads * kQueries * kE, 4);
      OperatorRun backward = run, biased_backward = biased;
      backward.Give("grad", {kHeads, kQueries, kE}, grad);
      biased_backward.Give("grad", {kHeads, kQueries, kE}, grad);
      for (const std::string& program : run.Programs()) {
        EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
            << program;
        const Numbers of_bias =
            biased_backward.Run(program, Scalar::kFloat64, 1, "grad_bias");
        const Numbers of_slopes =
            backward.Run(program, Scalar::kFloat64, 1, "grad_slopes");
        for (int64_t h = 0; h < kHeads; ++h) {
          double sum = 0;
          for (int64_t t = 0; t < kOffsets; ++t)
            sum -= of_bias[static_cast<size_t>(h * kOffsets + t)] * distance(t);
          EXPECT_NEAR(of_slopes[static_cast<size_t>(h)], sum, 1e-10) << program;
        }
        if (causal || offset > 0) continue;
        const Verdict verdict = backward.Judge(program);
        EXPECT_TRUE(verdict.passed()) << program << ": " << verdict.reason;
      }
    }
  OperatorRun both = Attention({5, 5, 3, 3});
  both.Give("bias", {9}, Numbers(9)).Give("slopes", {1}, {0.5});
  try {
    both.Resolve(Scalar::kFloat64);
    FAIL() << "taken";
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(error.what(),
                 "input slopes: expected no bias beside it, found both");
  }
}

// Buckets of distances are a bias by offset with their entries, and so are the
// gradients. The first distances of T5's 32 buckets are known numbers.
TEST(SoftmaxAttention, BucketsAreABiasByDistance) {
  constexpr int64_t kQueries = 150, kKeys = 170, kD = 8, kE = 5;
  constexpr int64_t kOffsets = kQueries + kKeys - 1;
  // The least distances of the 16 buckets of a direction up to 128, and of 32.
  const std::vector<int64_t> half = {0, 1,  2,  3,  4,  5,  6,  7,
                                     8, 12, 16, 23, 32, 46, 64, 91};
  const std::vector<int64_t> whole = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
      16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (const bool causal : {false, true})
    for (const bool both : {false, true})
      for (const int64_t offset : {0, 20}) {
        OperatorRun run("softmax_attention");
        run.Set("causal", causal).Set("query_offset", offset);
        run.Give("q", {kQueries, kD}, NormalNumbers(kQueries * kD, 1))
            .Give("k", {kKeys, kD}, NormalNumbers(kKeys * kD, 2))
            .Give("v", {kKeys, kE}, NormalNumbers(kKeys * kE, 3));
        OperatorRun biased = run;
        const Numbers table = NormalNumbers(32, 5, 2);
        run.Give("buckets", {32}, table);
        if (both == causal) run.Set("bidirectional", both);  // else the default
        std::vector<size_t> places;
        for (int64_t t = 0; t < kOffsets; ++t) {
          const int64_t after = t - (kQueries - 1) - offset;
          const std::vector<int64_t>& edges = both ? half : whole;
          const int64_t distance =
              both ? std::abs(after) : std::max<int64_t>(0, -after);
          const auto edge = std::ranges::upper_bound(edges, distance);
          places.push_back(static_cast<size_t>(edge - edges.begin() - 1) +
                           (both && after > 0 ? 16 : 0));
        }
        Numbers bias;
        for (const size_t place : places) bias.push_back(table[place]);
        biased.Give("bias", {kOffsets}, bias);
        const Numbers expected = biased.Definition();
        EXPECT_EQ(run.Definition(), expected) << causal << both << offset;
        OperatorRun backward = run, biased_backward = biased;
        for (OperatorRun* one : {&backward, &biased_backward})
          one->Give("grad", {kQueries, kE}, NormalNumbers(kQueries * kE, 4));
        for (const std::string& program : run.Programs()) {
          EXPECT_EQ(run.Run(program), biased.Run(program)) << program;
          const Numbers of_bias =
              biased_backward.Run(program, Scalar::kFloat64, 1, "grad_bias");
          Numbers sums(32);
          for (size_t t = 0; t < places.size(); ++t)
            sums[places[t]] += of_bias[t];
          EXPECT_LE(LargestDifference(backward.Run(program, Scalar::kFloat64, 1,
                                                   "grad_buckets"),
                                      sums),
                    1e-13)
              << program;
          if (offset > 0) continue;
          const Verdict verdict = run.Judge(program);
          EXPECT_TRUE(verdict.passed()) << program << ": " << verdict.reason;
        }
      }
}

TEST(SoftmaxAttention, BucketsAreChecked) {
  const auto message = [](int64_t count, bool both, int64_t max_distance,
                          const char* other = nullptr) {
    OperatorRun run = Attention({5, 5, 3, 3});
    run.Set("bidirectional", both);
    if (max_distance > 0) run.Set("max_distance", max_distance);
    if (count > 0) run.Give("buckets", {count}, Numbers(count));
    if (other) run.Give(other, {1}, {0.5});
    try {
      run.Resolve(Scalar::kFloat64);
      return std::string("taken");
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(4, true, 0), "taken");
  EXPECT_EQ(message(3, false, 0), "taken");
  EXPECT_EQ(message(2, false, 2), "taken");
  EXPECT_EQ(message(1, false, 0),
            "buckets: expected [B] for some B of at least 2, found [1]");
  EXPECT_EQ(message(5, true, 0),
            "input buckets: expected an even number of at least 4, since they "
            "are bidirectional, found 5");
  EXPECT_EQ(message(2, true, 0),
            "input buckets: expected an even number of at least 4, since they "
            "are bidirectional, found 2");
  EXPECT_EQ(message(64, true, 16),
            "parameter max_distance: expected more than the 16 distances that "
            "have a bucket of their own, found 16");
  EXPECT_EQ(message(0, true, 16),
            "parameter max_distance: expected the input buckets, which it "
            "describes, found none");
  EXPECT_EQ(message(0, true, 0),
            "parameter bidirectional: expected the input buckets, which it "
            "describes, found none");
  EXPECT_EQ(message(8, true, 0, "slopes"),
            "input buckets: expected no slopes beside it, found both");
}

// Ways to share a tensor with an entry for each query and key: extents for
// queries and keys (0: all of them), heads and batch items.
struct PairShape {
  int64_t queries, keys;
  Shape leading;
};
const PairShape kPairShapes[] = {{0, 0, {}},     {1, 0, {}},     {0, 1, {}},
                                 {1, 1, {}},     {0, 0, {4}},    {0, 0, {2, 4}},
                                 {0, 0, {2, 1}}, {1, 0, {2, 1}}, {0, 1, {2}}};

// A problem of two batch items with four heads, and its tensors of pairs.
class PairsOf {
 public:
  static constexpr int64_t kBatch = 2, kHeads = 4, kQueries = 70, kKeys = 90,
                           kD = 8, kE = 5;

  explicit PairsOf(PairShape shape) : shape_(std::move(shape)) {
    if (shape_.queries == 0) shape_.queries = kQueries;
    if (shape_.keys == 0) shape_.keys = kKeys;
  }

  static OperatorRun Problem() {
    OperatorRun run("softmax_attention");
    return run
        .Give("q", {kBatch, kHeads, kQueries, kD},
              NormalNumbers(kBatch * kHeads * kQueries * kD, 1))
        .Give("k", {kBatch, kHeads, kKeys, kD},
              NormalNumbers(kBatch * kHeads * kKeys * kD, 2))
        .Give("v", {kBatch, kHeads, kKeys, kE},
              NormalNumbers(kBatch * kHeads * kKeys * kE, 3));
  }
  static void GiveGrad(OperatorRun& run) {
    run.Give("grad", {kBatch, kHeads, kQueries, kE},
             NormalNumbers(kBatch * kHeads * kQueries * kE, 4));
  }

  Shape Given() const {
    Shape shape = shape_.leading;
    shape.insert(shape.end(), {shape_.queries, shape_.keys});
    return shape;
  }
  static Shape Expanded() { return {kBatch, kHeads, kQueries, kKeys}; }

  int64_t Count() const { return ElementCount(Given()); }

  // Returns the place of an entry of the expanded tensor in the given one.
  int64_t Place(int64_t expanded) const {
    const int64_t key = expanded % kKeys, query = expanded / kKeys % kQueries;
    const int64_t head = expanded / (kKeys * kQueries) % kHeads;
    const int64_t item = expanded / (kKeys * kQueries * kHeads);
    int64_t slice = 0;
    if (!shape_.leading.empty()) {
      const int64_t heads = shape_.leading.back();
      slice = head * heads / kHeads;
      if (shape_.leading.size() == 2) slice += item * heads;
    }
    return (slice * shape_.queries + query % shape_.queries) * shape_.keys +
           key % shape_.keys;
  }

  Numbers Expand(const Numbers& given) const {
    Numbers expanded;
    for (int64_t at = 0; at < ElementCount(Expanded()); ++at)
      expanded.push_back(given[static_cast<size_t>(Place(at))]);
    return expanded;
  }
  // Adds up the entries that are one.
  Numbers Reduce(const Numbers& expanded) const {
    Numbers sums(static_cast<size_t>(Count()));
    for (int64_t at = 0; at < std::ssize(expanded); ++at)
      sums[static_cast<size_t>(Place(at))] += expanded[static_cast<size_t>(at)];
    return sums;
  }

 private:
  PairShape shape_;
};

// A bias of pairs that queries, keys or heads share equals one that is expanded
// in memory, and its gradient is the sum of those that it stands for.
TEST(SoftmaxAttention, SharedPairBiasesAreReadInPlace) {
  for (const bool causal : {false, true})
    for (const PairShape& shape : kPairShapes) {
      const PairsOf pairs(shape);
      const Numbers bias = NormalNumbers(pairs.Count(), 5, 2);
      OperatorRun run = PairsOf::Problem();
      run.Set("causal", causal).Set("query_offset", int64_t{11});
      OperatorRun expanded = run;
      run.Give("pair_bias", pairs.Given(), bias);
      expanded.Give("pair_bias", PairsOf::Expanded(), pairs.Expand(bias));
      const Numbers expected = expanded.Definition();
      EXPECT_EQ(run.Definition(), expected);
      OperatorRun backward = run, expanded_backward = expanded;
      PairsOf::GiveGrad(backward);
      PairsOf::GiveGrad(expanded_backward);
      for (const std::string& program : run.Programs()) {
        const std::string label = program + " " + ToString(pairs.Given());
        EXPECT_EQ(run.Run(program), expanded.Run(program)) << label;
        EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding);
        const auto gradient = [&](const OperatorRun& of, int threads) {
          return of.Run(program, Scalar::kFloat64, threads, "grad_pair_bias");
        };
        EXPECT_LE(
            LargestDifference(gradient(backward, 1),
                              pairs.Reduce(gradient(expanded_backward, 1))),
            1e-11)
            << label;
        EXPECT_EQ(gradient(backward, 1), gradient(backward, 3)) << label;
      }
    }
}

// Masks, biases of -inf and the lowest finite number hide the same keys; the
// bounds do not grow with the size of that number.
TEST(SoftmaxAttention, MasksHideKeys) {
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  for (const PairShape& shape : kPairShapes) {
    const PairsOf pairs(shape);
    Numbers mask, minus_infinity, lowest;
    for (const double x : NormalNumbers(pairs.Count(), 6)) {
      const bool sees = pairs.Count() < 90 || x > -0.7;
      mask.push_back(sees ? 1 : 0);
      minus_infinity.push_back(sees ? 0 : -kInfinity);
      lowest.push_back(sees ? 0 : kLowest);
    }
    // Rows that see nothing.
    if (pairs.Given().back() > 1 && pairs.Count() > 90) {
      std::fill_n(mask.begin(), 2 * pairs.Given().back(), 0);
      std::fill_n(minus_infinity.begin(), 2 * pairs.Given().back(), -kInfinity);
    }
    OperatorRun run = PairsOf::Problem(), biased = run, low = run;
    run.Give("mask", pairs.Given(), mask);
    biased.Give("pair_bias", pairs.Given(), minus_infinity);
    low.Give("pair_bias", pairs.Given(), lowest);
    EXPECT_EQ(run.Definition(), biased.Definition());
    OperatorRun backward = run, biased_backward = biased, low_backward = low;
    for (OperatorRun* one : {&backward, &biased_backward, &low_backward})
      PairsOf::GiveGrad(*one);
    run.Want("lse");
    biased.Want("lse");
    for (const std::string& program : run.Programs()) {
      const std::string label = program + " " + ToString(pairs.Given());
      for (const char* output : {"out", "lse"})
        EXPECT_EQ(run.Run(program, Scalar::kFloat64, 1, output),
                  biased.Run(program, Scalar::kFloat64, 1, output))
            << label << " " << output;
      for (const char* output : {"grad_q", "grad_k", "grad_v"})
        EXPECT_LE(
            LargestDifference(
                backward.Run(program, Scalar::kFloat64, 1, output),
                biased_backward.Run(program, Scalar::kFloat64, 1, output)),
            1e-12)
            << label << " " << output;
      // A row of the lowest number alone has weights without digits.
      if (shape.keys == 1) continue;
      EXPECT_LE(LargestDifference(low.Run(program), low.Definition()),
                kRounding)
          << label;
      if (pairs.Count() != PairsOf::kKeys) continue;
      for (const OperatorRun* one : {&low, &low_backward}) {
        const Verdict verdict = one->Judge(program, Scalar::kFloat32);
        EXPECT_TRUE(verdict.passed()) << label << ": " << verdict.reason;
        EXPECT_EQ(verdict.comparison.without_digits, 0) << label;
      }
    }
  }
}

TEST(SoftmaxAttention, BoundsDoNotGrowWithScoresThatHideKeys) {
  const Sizes s = {12, 40, 8, 5};
  for (const bool backward : {false, true}) {
    OperatorRun run = Attention(s);
    if (backward) run.Give("grad", {s.n_q, s.e}, NormalNumbers(s.n_q * s.e, 4));
    OperatorRun masked = run, low = run;
    Numbers mask, bias;
    for (int64_t at = 0; at < s.n_q * s.n_k; ++at) {
      mask.push_back(at % 3 ? 1 : 0);
      bias.push_back(at % 3 ? 0 : std::numeric_limits<float>::lowest());
    }
    masked.Give("mask", {s.n_q, s.n_k}, mask);
    low.Give("pair_bias", {s.n_q, s.n_k}, bias);
    const Numbers of_masked = masked.Bounds(Scalar::kFloat32);
    const Numbers of_low = low.Bounds(Scalar::kFloat32);
    ASSERT_EQ(of_low.size(), of_masked.size());
    for (size_t x = 0; x < of_low.size(); ++x)
      EXPECT_LE(of_low[x], 1.5 * of_masked[x] + 1) << x;
  }
}

// Copies rows [first, first + count) of every head of x [heads, rows, width].
Numbers RowsOfHeads(const Numbers& x, int64_t heads, int64_t rows,
                    int64_t width, int64_t first, int64_t count) {
  Numbers part;
  for (int64_t h = 0; h < heads; ++h) {
    const auto begin = x.begin() + (h * rows + first) * width;
    part.insert(part.end(), begin, begin + count * width);
  }
  return part;
}

// Packed sequences give the answers and gradients of each sequence by itself,
// with all options at once, also sequences without queries or without keys.
TEST(SoftmaxAttention, PackedSequencesDoNotSeeEachOther) {
  constexpr int64_t kHeads = 2, kD = 8, kE = 5;
  const IntegerList queries = {70, 0, 1, 130, 9}, keys = {90, 5, 0, 130, 64};
  const IntegerList offsets = {20, 3, 0, 0, -4};
  constexpr int64_t kQueries = 210, kKeys = 289;
  // Offsets lie from -129 to 129, those of the fourth sequence.
  constexpr int64_t kBefore = 129, kEntries = 129 + 129 + 1;
  const Numbers q = NormalNumbers(kHeads * kQueries * kD, 1);
  const Numbers k = NormalNumbers(kHeads * kKeys * kD, 2);
  const Numbers v = NormalNumbers(kHeads * kKeys * kE, 3);
  const Numbers grad = NormalNumbers(kHeads * kQueries * kE, 4);
  const Numbers bias = NormalNumbers(kHeads * kEntries, 5);
  const Numbers pair_bias = NormalNumbers(kQueries * kKeys, 6);
  const Numbers slopes = {0.25, 0.0625};
  for (const bool causal : {false, true})
    for (const bool has_bias : {false, true}) {
      const auto problem = [&] {
        OperatorRun run("softmax_attention");
        return run.Set("causal", causal)
            .Set("window_left", int64_t{75})
            .Set("softcap", 4.0)
            .Give("sinks", {1}, {0.5});
      };
      OperatorRun all = problem();
      all.Set("packed_q", queries).Set("packed_k", keys);
      all.Set("query_offset", offsets);
      all.Give("q", {kHeads, kQueries, kD}, q)
          .Give("k", {kHeads, kKeys, kD}, k)
          .Give("v", {kHeads, kKeys, kE}, v)
          .Give("pair_bias", {kQueries, kKeys}, pair_bias);
      if (has_bias)
        all.Give("bias", {kHeads, kEntries}, bias);
      else
        all.Give("slopes", {kHeads}, slopes);
      OperatorRun all_backward = all;
      all_backward.Give("grad", {kHeads, kQueries, kE}, grad);
      all.Want("lse");
      for (const std::string& program : all.Programs()) {
        Numbers entry_sums(static_cast<size_t>(kHeads * kEntries));
        int64_t query = 0, key = 0;
        for (size_t s = 0; s < queries.size(); ++s) {
          const int64_t n_q = queries[s], n_k = keys[s];
          const auto rows = [&](const Numbers& x, int64_t width) {
            return RowsOfHeads(x, kHeads, kQueries, width, query, n_q);
          };
          const auto columns = [&](const Numbers& x, int64_t width) {
            return RowsOfHeads(x, kHeads, kKeys, width, key, n_k);
          };
          const auto run_all = [&](const OperatorRun& run, const char* output) {
            return run.Run(program, Scalar::kFloat64, 2, output);
          };
          const std::string label = program + " " + std::to_string(s);
          if (n_k == 0) {
            EXPECT_EQ(rows(run_all(all, "out"), kE),
                      Numbers(static_cast<size_t>(kHeads * n_q * kE)))
                << label;
          } else if (n_q == 0) {
            EXPECT_EQ(columns(run_all(all_backward, "grad_k"), kD),
                      Numbers(static_cast<size_t>(kHeads * n_k * kD)))
                << label;
          } else {
            OperatorRun one = problem();
            one.Set("query_offset", offsets[s]);
            one.Give("q", {kHeads, n_q, kD}, rows(q, kD))
                .Give("k", {kHeads, n_k, kD}, columns(k, kD))
                .Give("v", {kHeads, n_k, kE}, columns(v, kE));
            Numbers pairs;
            for (int64_t i = 0; i < n_q; ++i)
              pairs.insert(pairs.end(),
                           pair_bias.begin() + (query + i) * kKeys + key,
                           pair_bias.begin() + (query + i) * kKeys + key + n_k);
            one.Give("pair_bias", {n_q, n_k}, pairs);
            const int64_t entries = n_q + n_k - 1;
            const int64_t first = kBefore - offsets[s] - (n_q - 1);
            if (has_bias)
              one.Give("bias", {kHeads, entries},
                       RowsOfHeads(bias, kHeads, kEntries, 1, first, entries));
            else
              one.Give("slopes", {kHeads}, slopes);
            EXPECT_LE(LargestDifference(rows(run_all(all, "out"), kE),
                                        one.Definition()),
                      kRounding)
                << label;
            OperatorRun with_lse = one;
            EXPECT_EQ(rows(run_all(all, "lse"), 1),
                      run_all(with_lse.Want("lse"), "lse"))
                << label;
            one.Give("grad", {kHeads, n_q, kE}, rows(grad, kE));
            for (const auto& [name, of_keys, width] :
                 {std::tuple{"grad_q", false, kD},
                  {"grad_k", true, kD},
                  {"grad_v", true, kE}}) {
              const Numbers whole = run_all(all_backward, name);
              EXPECT_LE(LargestDifference(of_keys ? columns(whole, width)
                                                  : rows(whole, width),
                                          run_all(one, name)),
                        1e-12)
                  << label << " " << name;
            }
            if (has_bias) {
              const Numbers own = run_all(one, "grad_bias");
              for (int64_t h = 0; h < kHeads; ++h)
                for (int64_t t = 0; t < entries; ++t)
                  entry_sums[static_cast<size_t>(h * kEntries + first + t)] +=
                      own[static_cast<size_t>(h * entries + t)];
            }
          }
          query += n_q;
          key += n_k;
        }
        if (has_bias) {
          EXPECT_LE(
              LargestDifference(
                  all_backward.Run(program, Scalar::kFloat64, 1, "grad_bias"),
                  entry_sums),
              1e-12)
              << program;
        }
        const Verdict verdict = all.Judge(program);
        EXPECT_TRUE(verdict.passed()) << program << ": " << verdict.reason;
      }
    }
}

// A bias made of slopes or buckets has no entries for the offsets between
// packed sequences that are far apart.
TEST(SoftmaxAttention, PackedSequencesFarApartNeedLittleMemory) {
  constexpr int64_t kQueries = 20, kKeys = 30, kD = 8, kE = 5;
  for (const std::string source : {"slopes", "buckets"})
    for (const bool backward : {false, true}) {
      const auto with_offset = [&](int64_t offset) {
        OperatorRun run = Attention({kQueries, kKeys, kD, kE});
        run.Set("packed_q", IntegerList{12, 8});
        run.Set("packed_k", IntegerList{10, 20});
        run.Set("query_offset", IntegerList{offset, 0});
        if (source == "slopes")
          run.Give(source, {1}, {1e-9});
        else
          run.Give(source, {8}, NormalNumbers(8, 4));
        if (backward)
          run.Give("grad", {kQueries, kE}, NormalNumbers(kQueries * kE, 5));
        return run;
      };
      const OperatorRun near = with_offset(0), far = with_offset(50'000'000);
      for (const std::string& program : far.Programs()) {
        const Implementation& row =
            FindImplementation("softmax_attention", program);
        const auto bytes = [&](const OperatorRun& run) {
          return row.CostOf(run.Resolve(Scalar::kFloat64), 1).workspace_bytes;
        };
        EXPECT_EQ(bytes(far), bytes(near)) << program << " " << source;
        const Verdict verdict = far.Judge(program);
        EXPECT_TRUE(verdict.passed())
            << program << " " << source << ": " << verdict.reason;
      }
    }
}

TEST(SoftmaxAttention, PackingIsChecked) {
  const auto message = [](const IntegerList& queries, const IntegerList& keys,
                          const std::optional<ParamValue>& offset = {},
                          bool has_lengths = false) {
    OperatorRun run = Attention({5, 7, 3, 3});
    if (!queries.empty()) run.Set("packed_q", queries);
    if (!keys.empty()) run.Set("packed_k", keys);
    if (offset) run.Set("query_offset", *offset);
    if (has_lengths) run.Set("key_lengths", IntegerList{3});
    try {
      run.Resolve(Scalar::kFloat64);
      return std::string("taken");
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message({2, 3}, {0, 7}), "taken");
  EXPECT_EQ(message({5}, {7}, int64_t{2}), "taken");
  EXPECT_EQ(message({2, 3}, {0, 7}, IntegerList{-2, 4}), "taken");
  EXPECT_EQ(message({2, 3}, {}),
            "parameter packed_k: expected a list beside packed_q, found none");
  EXPECT_EQ(message({}, {0, 7}),
            "parameter packed_q: expected a list beside packed_k, found none");
  EXPECT_EQ(
      message({2, 2}, {0, 7}),
      "parameter packed_q: expected lengths with the sum 5, the number of "
      "queries, found 4");
  EXPECT_EQ(
      message({2, 3}, {0, 8}),
      "parameter packed_k: expected lengths with the sum 7, the number of "
      "keys, found 8");
  EXPECT_EQ(message({2, 3}, {7}),
            "parameter packed_k: expected an entry for each of the 2 sequences "
            "of packed_q, found 1");
  EXPECT_EQ(message({2, 3}, {0, 7}, IntegerList{1}),
            "parameter query_offset: expected an entry for each of the 2 "
            "sequences of packed_q, found 1");
  EXPECT_EQ(message({}, {}, IntegerList{1}),
            "parameter query_offset: expected an integer, as there is no "
            "packed_q, found [1]");
  EXPECT_EQ(message({2, 3}, {0, 7}, {}, true),
            "parameter key_lengths: expected none beside packed_k, found both");
  EXPECT_EQ(message({-1, 6}, {0, 7}),
            "parameter packed_q: expected at least 0, found -1");
}

// Tiles of other sequences are not computed: the operations grow with the
// longest sequence and not with the number of all keys.
TEST(SoftmaxAttention, ProgramsSkipTheKeysOfOtherSequences) {
  for (const char* id : {"dense", "tiled"}) {
    const Implementation& program = FindImplementation("softmax_attention", id);
    const auto flops = [&](int64_t sequences) {
      std::string lengths = "256";
      for (int64_t s = 1; s < sequences; ++s) lengths += "+256";
      const Problem problem = ProblemOf(
          MakeCase(ParseCaseId("softmax_attention:d=8,e=8,packed_q=" + lengths +
                               ",packed_k=" + lengths + ",seed=1")));
      return program.CostOf(problem, 1).flops / static_cast<double>(sequences);
    };
    EXPECT_EQ(flops(8), flops(1)) << id;
  }
}

// A sink is a key with a value of zeros whose score is the sink.
TEST(SoftmaxAttention, SinkIsAKeyOfZeros) {
  const Sizes s = {70, 90, 12, 7};
  for (const double sink : {-3.0, 0.5, 40.0}) {
    OperatorRun run = Attention(s);
    run.Set("scale", 0.25).Give("sinks", {1}, {sink});
    OperatorRun longer("softmax_attention");
    longer.Set("scale", 0.25);
    // One more column tells the key of zeros from the others.
    Numbers q, k, v = run["v"];
    for (int64_t i = 0; i < s.n_q; ++i) {
      q.insert(q.end(), run["q"].begin() + i * s.d,
               run["q"].begin() + (i + 1) * s.d);
      q.push_back(4);
    }
    for (int64_t j = 0; j < s.n_k; ++j) {
      k.insert(k.end(), run["k"].begin() + j * s.d,
               run["k"].begin() + (j + 1) * s.d);
      k.push_back(0);
    }
    k.insert(k.end(), static_cast<size_t>(s.d), 0);
    k.push_back(sink);
    v.insert(v.end(), static_cast<size_t>(s.e), 0);
    longer.Give("q", {s.n_q, s.d + 1}, q)
        .Give("k", {s.n_k + 1, s.d + 1}, k)
        .Give("v", {s.n_k + 1, s.e}, v);
    const Numbers expected = longer.Definition();
    EXPECT_LE(LargestDifference(run.Definition(), expected), 1e-15) << sink;
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
          << program << " " << sink;
    EXPECT_GT(LargestDifference(Attention(s).Set("scale", 0.25).Definition(),
                                expected),
              1e-5);
  }
}

// Each head has its own sink, and a row that sees no key stays zero.
TEST(SoftmaxAttention, SinksOfHeads) {
  constexpr int64_t kHeads = 3, kN = 20, kD = 4;
  OperatorRun all("softmax_attention");
  const Numbers q = NormalNumbers(kHeads * kN * kD, 1);
  const Numbers k = NormalNumbers(kHeads * kN * kD, 2);
  const Numbers v = NormalNumbers(kHeads * kN * kD, 3);
  const Numbers sinks = {-1, 2, 0.5};
  all.Set("causal", true).Set("query_offset", int64_t{-5});
  all.Give("q", {kHeads, kN, kD}, q)
      .Give("k", {kHeads, kN, kD}, k)
      .Give("v", {kHeads, kN, kD}, v)
      .Give("sinks", {kHeads}, sinks);
  for (const std::string& program : all.Programs()) {
    const Numbers out = all.Run(program);
    for (int64_t h = 0; h < kHeads; ++h) {
      const auto of_head = [&](const Numbers& x) {
        return Numbers(x.begin() + h * kN * kD, x.begin() + (h + 1) * kN * kD);
      };
      OperatorRun one("softmax_attention");
      one.Set("causal", true).Set("query_offset", int64_t{-5});
      one.Give("q", {kN, kD}, of_head(q))
          .Give("k", {kN, kD}, of_head(k))
          .Give("v", {kN, kD}, of_head(v))
          .Give("sinks", {1}, {sinks[static_cast<size_t>(h)]});
      EXPECT_LE(LargestDifference(of_head(out), one.Definition()), kRounding)
          << program << " head " << h;
      for (int64_t x = 0; x < 5 * kD; ++x)
        EXPECT_EQ(of_head(out)[static_cast<size_t>(x)], 0) << program;
    }
  }
}

// A softcap above the largest float32 is none there; in float64 it is a cap.
TEST(SoftmaxAttention, ASoftcapBeyondTheArithmeticCapsNothing) {
  const Sizes s = {16, 21, 12, 7};
  const Numbers grad = NormalNumbers(s.n_q * s.e, 5);
  for (const bool backward : {false, true}) {
    OperatorRun uncapped = Attention(s);
    uncapped.Give("slopes", {1}, {0.25});
    if (backward) uncapped.Give("grad", {s.n_q, s.e}, grad);
    for (const double cap : {3.41e38, 1e39, 1e300}) {
      OperatorRun run = uncapped;
      run.Set("softcap", cap);
      for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
        for (const std::string& program : run.Programs(scalar)) {
          const Verdict verdict = run.Judge(program, scalar);
          EXPECT_TRUE(verdict.passed())
              << program << " " << cap << ": " << verdict.reason;
          if (scalar == Scalar::kFloat32) {
            EXPECT_EQ(run.Run(program, scalar), uncapped.Run(program, scalar))
                << program << " " << cap;
          }
        }
    }
  }
}

// The softcap bounds scores before the bias is added: against the formula.
TEST(SoftmaxAttention, SoftcapIsAppliedBeforeTheBias) {
  const Sizes s = {40, 90, 12, 7};
  const Numbers bias = NormalNumbers(s.n_q + s.n_k - 1, 4, 3);
  for (const double cap : {0.5, 3.0, 50.0}) {
    OperatorRun run = Attention(s);
    run.Set("softcap", cap).Set("scale", 2.0);
    run.Give("bias", {s.n_q + s.n_k - 1}, bias);
    Numbers expected;
    for (int64_t i = 0; i < s.n_q; ++i) {
      std::vector<long double> out(static_cast<size_t>(s.e));
      long double sum = 0;
      for (int64_t j = 0; j < s.n_k; ++j) {
        long double dot = 0;
        for (int64_t a = 0; a < s.d; ++a)
          dot += static_cast<long double>(run["q"][i * s.d + a]) *
                 run["k"][j * s.d + a];
        const long double weight =
            std::exp(cap * std::tanh(2 * dot / cap) + bias[j - i + s.n_q - 1]);
        sum += weight;
        for (int64_t c = 0; c < s.e; ++c)
          out[static_cast<size_t>(c)] += weight * run["v"][j * s.e + c];
      }
      for (const long double x : out)
        expected.push_back(static_cast<double>(x / sum));
    }
    EXPECT_LE(LargestDifference(run.Definition(), expected), 1e-14) << cap;
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const std::string& program : run.Programs(scalar))
        EXPECT_TRUE(run.Judge(program, scalar).passed())
            << program << " " << cap << ": "
            << run.Judge(program, scalar).reason;
  }
}

// Answers over two sets of keys are merged by the logarithms of their sums,
// also where one of them is empty.
TEST(SoftmaxAttention, PartsMergeByTheirLogarithms) {
  const Sizes s = {40, 90, 12, 7};
  const OperatorRun whole = Attention(s);
  for (const int64_t cut : {1, 37, 89}) {
    const auto part = [&](int64_t first, int64_t end) {
      OperatorRun run = Attention(s);
      const auto rows = [&](const char* name, int64_t width) {
        const Numbers& all = run[name];
        return Numbers(all.begin() + first * width, all.begin() + end * width);
      };
      const Numbers k = rows("k", s.d), v = rows("v", s.e);
      return run.Give("k", {end - first, s.d}, k)
          .Give("v", {end - first, s.e}, v)
          .Want("lse");
    };
    OperatorRun first = part(0, cut), second = part(cut, s.n_k);
    // The second part sees nothing where keys are hidden from it.
    for (const bool hides : {false, true}) {
      if (hides) second.Set("key_lengths", IntegerList{0});
      const Numbers expected = hides ? first.Definition() : whole.Definition();
      for (const std::string& program : whole.Programs()) {
        const Numbers out_1 = first.Run(program), out_2 = second.Run(program);
        const Numbers lse_1 = first.Run(program, Scalar::kFloat64, 1, "lse");
        const Numbers lse_2 = second.Run(program, Scalar::kFloat64, 1, "lse");
        Numbers merged;
        for (int64_t i = 0; i < s.n_q; ++i) {
          const double top = std::max(lse_1[i], lse_2[i]);
          const double sum =
              std::exp(lse_1[i] - top) + std::exp(lse_2[i] - top);
          const double lse = top + std::log(sum);
          for (int64_t c = 0; c < s.e; ++c)
            merged.push_back(std::exp(lse_1[i] - lse) * out_1[i * s.e + c] +
                             std::exp(lse_2[i] - lse) * out_2[i * s.e + c]);
        }
        EXPECT_LE(LargestDifference(merged, expected), kRounding)
            << program << " cut at " << cut;
        if (hides) {
          EXPECT_EQ(lse_2, Numbers(s.n_q, -kInfinity)) << program;
        } else {  // the control: one part alone
          EXPECT_GT(LargestDifference(out_1, expected), 1e-3);
        }
      }
    }
  }
}

// The logarithm of the sum of the weights against the formula, with every
// option: also where no key is seen, in every scalar type.
TEST(SoftmaxAttention, LogSumsAreThoseOfTheFormula) {
  const Sizes s = {50, 70, 12, 7};
  const Numbers bias = NormalNumbers(s.n_q + s.n_k - 1, 4, 3);
  for (const bool sink : {false, true})
    for (const double scale : {0.3, 20.0}) {
      OperatorRun run = Attention(s, true);
      run.Set("scale", scale)
          .Set("query_offset", int64_t{-4})
          .Set("window_left", int64_t{9})
          .Give("bias", {s.n_q + s.n_k - 1}, bias)
          .Want("lse");
      if (scale < 1) run.Set("softcap", 2.0);
      if (sink) run.Give("sinks", {1}, {-1.5});
      Numbers expected;
      for (int64_t i = 0; i < s.n_q; ++i) {
        std::vector<long double> scores;
        if (sink) scores.push_back(-1.5L);
        for (int64_t j = 0; j < s.n_k; ++j) {
          const int64_t offset = j - (i - 4);
          if (offset > 0 || offset < -9) continue;
          long double score = 0;
          for (int64_t a = 0; a < s.d; ++a)
            score += static_cast<long double>(run["q"][i * s.d + a]) *
                     run["k"][j * s.d + a];
          score *= scale;
          if (scale < 1) score = 2 * std::tanh(score / 2);
          scores.push_back(score + bias[j - i + s.n_q - 1]);
        }
        if (scores.empty()) {
          expected.push_back(-kInfinity);
          continue;
        }
        const long double top = *std::ranges::max_element(scores);
        long double sum = 0;
        for (const long double score : scores) sum += std::exp(score - top);
        expected.push_back(static_cast<double>(top + std::log(sum)));
      }
      EXPECT_EQ(std::isinf(expected[0]), !sink);
      for (const std::string& program : run.Programs()) {
        const Numbers found = run.Run(program, Scalar::kFloat64, 1, "lse");
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(found[i] == expected[i] ||
                      std::abs(found[i] - expected[i]) <=
                          1e-12 * (1 + std::abs(expected[i])))
              << program << " row " << i << ": " << found[i] << " "
              << expected[i];
      }
      for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
        for (const std::string& program : run.Programs(scalar))
          EXPECT_TRUE(run.Judge(program, scalar).passed())
              << program << ": " << run.Judge(program, scalar).reason;
    }
}

TEST(SoftmaxAttention, AnyNumberOfThreadsGivesTheSameBits) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention({600, 500, 12, 7}, causal);
    for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const std::string& program : run.Programs(scalar))
        EXPECT_EQ(run.Run(program, scalar, 1), run.Run(program, scalar, 3))
            << program;
  }
}

// The outputs of the backward pass, in order.
const std::vector<std::string> kGradients = {"grad_q", "grad_k", "grad_v",
                                             "grad_bias"};

OperatorRun Backward(const Sizes& s, bool causal) {
  OperatorRun run = Attention(s, causal);
  return run
      .Give("bias", {s.n_q + s.n_k - 1}, NormalNumbers(s.n_q + s.n_k - 1, 4))
      .Give("grad", {s.n_q, s.e}, NormalNumbers(s.n_q * s.e, 5));
}

// A constant added to the bias changes no weight, so that its gradient sums to
// zero; the gradient of every second offset alone does not.
TEST(SoftmaxAttention, GradientsOfTheBiasAddUpToZero) {
  for (bool causal : {false, true}) {
    const OperatorRun run = Backward(kSizes, causal);
    for (const std::string& program : run.Programs()) {
      const Numbers gradient =
          run.Run(program, Scalar::kFloat64, 1, "grad_bias");
      double sum = 0, part = 0;
      for (size_t t = 0; t < gradient.size(); ++t) {
        sum += gradient[t];
        part += t % 2 == 0 ? gradient[t] : 0;
      }
      EXPECT_LE(std::abs(sum), kSizes.n_q * kRounding) << program;
      EXPECT_GT(std::abs(part), 1e3 * kSizes.n_q * kRounding) << program;
    }
  }
}

// The output is linear in the values, so <grad, out> = <grad_v, v>.
TEST(SoftmaxAttention, TheGradientOfValuesIsTheAdjoint) {
  for (bool causal : {false, true}) {
    OperatorRun run = Backward(kSizes, causal),
                forward = Attention(kSizes, causal);
    forward.Give("bias", {kSizes.n_q + kSizes.n_k - 1}, run["bias"]);
    const auto inner = [](const Numbers& a, const Numbers& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    for (const std::string& program : run.Programs()) {
      const Numbers out = forward.Run(program);
      const Numbers grad_v = run.Run(program, Scalar::kFloat64, 1, "grad_v");
      const double left = inner(out, run["grad"]);
      EXPECT_NEAR(left, inner(grad_v, run["v"]), kSizes.n_q * kRounding)
          << program;
      EXPECT_GT(std::abs(left), 1e-2) << program;
    }
  }
}

TEST(SoftmaxAttention, GradientsHaveTheSameBitsOnAnyNumberOfThreads) {
  for (bool causal : {false, true}) {
    const OperatorRun run = Backward({600, 500, 12, 7}, causal);
    for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const std::string& program : run.Programs(scalar))
        for (const std::string& output : kGradients)
          EXPECT_EQ(run.Run(program, scalar, 1, output),
                    run.Run(program, scalar, 3, output))
              << program << " " << output;
  }
}

// A bias of -inf hides its keys and gets no gradient; other entries do.
TEST(SoftmaxAttention, HiddenOffsetsHaveNoGradient) {
  OperatorRun run = Backward(kSizes, false);
  Numbers& bias = run["bias"];
  for (size_t t = 0; t < bias.size(); t += 3) bias[t] = -kInfinity;
  for (const std::string& program : run.Programs()) {
    EXPECT_TRUE(run.Judge(program).passed()) << program;
    const Numbers gradient = run.Run(program, Scalar::kFloat64, 1, "grad_bias");
    for (size_t t = 0; t < gradient.size(); ++t)
      EXPECT_EQ(gradient[t] == 0, t % 3 == 0) << program << " " << t;
  }
}

TEST(SoftmaxAttention, TiledGradientsNeedNoMemoryForScores) {
  const OperatorRun run = Backward({8192, 8192, 64, 64}, false);
  const Problem problem = run.Resolve(Scalar::kFloat32);
  const auto bytes = [&](const char* id) {
    return FindImplementation("softmax_attention", id)
        .CostOf(problem, 1)
        .workspace_bytes;
  };
  EXPECT_GT(bytes("tiled"), 0);
  EXPECT_LT(bytes("tiled"), bytes("dense") / 10);
}

// The workspace is less than a hundredth of that of dense at n = 8192, d = 64.
TEST(SoftmaxAttention, TiledNeedsNoMemoryForScores) {
  OperatorRun run = Attention({8192, 8192, 64, 64});
  const Problem problem = run.Resolve(Scalar::kFloat32);
  const auto bytes = [&](const char* id) {
    return FindImplementation("softmax_attention", id)
        .CostOf(problem, 1)
        .workspace_bytes;
  };
  EXPECT_GT(bytes("tiled"), 0);
  EXPECT_LT(bytes("tiled"), bytes("dense") / 100);
}

// ---- images ----------------------------------------------------------------

constexpr int64_t kHeight = 9, kWidth = 31;  // more than two blocks of queries

OperatorRun OnImage(int64_t height, int64_t width, const Numbers& bias,
                    bool causal = false) {
  const int64_t n = height * width;
  OperatorRun run = Attention({n, n, 12, 7}, causal);
  run.Set("height", height).Set("width", width);
  run.Give("bias", {2 * height - 1, 2 * width - 1}, bias);
  return run;
}

// The bias of a column or of a row of pixels is that of a sequence.
TEST(SoftmaxAttention, ImagesOfOneRowAreSequences) {
  constexpr int64_t kN = 137;
  const Numbers bias = NormalNumbers(2 * kN - 1, 4);
  for (bool causal : {false, true}) {
    OperatorRun sequence = Attention({kN, kN, 12, 7}, causal);
    sequence.Give("bias", {2 * kN - 1}, bias);
    for (const std::string& program : sequence.Programs()) {
      const Numbers out = sequence.Run(program);
      for (const OperatorRun& image :
           {OnImage(1, kN, bias, causal), OnImage(kN, 1, bias, causal)})
        EXPECT_LE(LargestDifference(image.Run(program), out), kRounding)
            << program;
    }
  }
}

// The last pixel of a row has no right neighbour: the first pixel of the next
// row follows it in memory, but is elsewhere in the image.
TEST(SoftmaxAttention, BiasOfAnImageHidesByRowsAndColumns) {
  // Each pixel sees itself and its right neighbour; in the last column only
  // itself.
  Numbers bias((2 * kHeight - 1) * (2 * kWidth - 1), -kInfinity);
  const int64_t middle = (kHeight - 1) * (2 * kWidth - 1) + kWidth - 1;
  bias[middle] = bias[middle + 1] = 0;
  const OperatorRun run = OnImage(kHeight, kWidth, bias);
  const Numbers v = NormalNumbers(kHeight * kWidth * 7, 3);
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    for (int64_t row = 0; row < kHeight; ++row) {
      const int64_t last = row * kWidth + kWidth - 1;
      for (int64_t c = 0; c < 7; ++c) {
        EXPECT_EQ(out[last * 7 + c], v[last * 7 + c]) << program;
        // The result is between the values of the two pixels, and is not that
        // of the pixel itself.
        const double own = v[(last - 1) * 7 + c], right = v[last * 7 + c];
        EXPECT_GT(out[(last - 1) * 7 + c], std::min(own, right)) << program;
        EXPECT_LT(out[(last - 1) * 7 + c], std::max(own, right)) << program;
      }
    }
  }
  // The last column sees nothing.
  bias[middle] = -kInfinity;
  const OperatorRun blind = OnImage(kHeight, kWidth, bias);
  for (const std::string& program : blind.Programs()) {
    const Numbers out = blind.Run(program);
    for (int64_t x = 0; x < kHeight * kWidth * 7; ++x)
      EXPECT_EQ(out[static_cast<size_t>(x)] == 0, x / 7 % kWidth == kWidth - 1)
          << program;
    EXPECT_TRUE(blind.Judge(program).passed()) << program;
  }
}

TEST(SoftmaxAttention, ImagesAreChecked) {
  const auto refusal = [](OperatorRun run) -> std::string {
    try {
      run.Resolve(Scalar::kFloat64);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  const Numbers bias((2 * kHeight - 1) * (2 * kWidth - 1));
  const OperatorRun right = OnImage(kHeight, kWidth, bias);
  EXPECT_EQ(refusal(right), "");
  EXPECT_NE(refusal(OperatorRun(right).Set("height", kHeight + 1)), "");
  EXPECT_NE(refusal(OperatorRun(right).Set("query_offset", int64_t{1})), "");
  EXPECT_EQ(refusal(OperatorRun(right).Set("key_lengths", IntegerList{5})), "");
  OperatorRun no_width("softmax_attention");
  no_width.Set("height", kHeight);
  EXPECT_NE(refusal(no_width).find("width"), std::string::npos)
      << refusal(no_width);
}

}  // namespace
}  // namespace subquad
