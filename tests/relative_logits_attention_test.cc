// Properties of attention with a band of logits by distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"
#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;
constexpr int64_t kD = 6, kE = 5, kP = 3;

struct Shape2 {
  int64_t n_q, n_k, band;
  int64_t offset = 0;
  bool causal = true;
};

OperatorRun Attention(const Shape2& shape, int64_t p = kP) {
  const auto& [n_q, n_k, band, offset, causal] = shape;
  OperatorRun run("relative_logits_attention");
  if (offset > 0) run.Set("query_offset", offset);
  if (!causal) run.Set("causal", false);
  run.Give("q", {n_q, kD}, NormalNumbers(n_q * kD, 1))
      .Give("k", {n_k, kD}, NormalNumbers(n_k * kD, 2))
      .Give("v", {n_k, kE}, NormalNumbers(n_k * kE, 3))
      .Give("r", {n_q, p}, NormalNumbers(n_q * p, 4, 0.7))
      .Give("table", {p, band}, NormalNumbers(p * band, 5));
  return run;
}

// Computes the definition a second time, naively.
Numbers Naive(OperatorRun& run, const Shape2& shape) {
  const auto& [n_q, n_k, band, offset, causal] = shape;
  Numbers out;
  for (int64_t i = 0; i < n_q; ++i) {
    double sum = 0;
    Numbers row(kE);
    for (int64_t j = 0; j < n_k; ++j) {
      const int64_t back = i + offset - j;
      if (causal && back < 0) continue;
      double score = 0;
      for (int64_t a = 0; a < kD; ++a)
        score += run["q"][i * kD + a] * run["k"][j * kD + a];
      score /= std::sqrt(static_cast<double>(kD));
      for (int64_t x = 0; x < kP && back >= 0 && back < band; ++x)
        score += run["r"][i * kP + x] * run["table"][x * band + back];
      const double weight = std::exp(score);
      sum += weight;
      for (int64_t c = 0; c < kE; ++c) row[c] += weight * run["v"][j * kE + c];
    }
    for (double x : row) out.push_back(x / sum);
  }
  return out;
}

void ExpectNaive(const Shape2& shape) {
  OperatorRun run = Attention(shape);
  const Numbers expected = Naive(run, shape);
  EXPECT_LE(LargestDifference(run.Definition(), expected), kRounding);
  EXPECT_TRUE(HasPrograms(run, {"dense", "shift", "tiled"}));
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
        << program << " n_q " << shape.n_q << " n_k " << shape.n_k << " E "
        << shape.band << " offset " << shape.offset << " causal "
        << shape.causal;
}

TEST(RelativeLogits, EverySmallProblem) {
  for (int64_t n_q : {1, 2, 5})
    for (int64_t n_k : {1, 2, 6})
      for (int64_t band : {1, 2, 4, 9})
        for (int64_t offset : {0, 1, 4, 11})
          for (bool causal : {true, false})
            ExpectNaive({n_q, n_k, band, offset, causal});
}

// Tests bands that end inside a tile, at its end and beyond all keys, and
// blocks whose queries are in several tiles, or far behind all keys.
TEST(RelativeLogits, SeveralBlocksAndTiles) {
  for (int64_t n : {63, 64, 65, 200})
    for (int64_t band : {1, 63, 64, 65, 130, 500})
      for (int64_t offset : {0, 1, 63, 64, 127, 700})
        for (bool causal : {true, false}) {
          ExpectNaive({n, n, band, offset, causal});
          ExpectNaive({n, n + 77, band, offset, causal});
        }
}

// The table is a bias by offset of softmax attention if r is one and p = 1;
// there is no bias if r is zero.
TEST(RelativeLogits, RankOneIsABiasByOffset) {
  constexpr int64_t kN = 150, kBand = 70;
  OperatorRun run = Attention({kN, kN, kBand}, 1);
  run["r"].assign(kN, 1);
  OperatorRun biased("softmax_attention");
  Numbers bias(2 * kN - 1, 0);
  for (int64_t a = 0; a < kBand; ++a) bias[kN - 1 - a] = run["table"][a];
  biased.Set("causal", true)
      .Give("q", {kN, kD}, run["q"])
      .Give("k", {kN, kD}, run["k"])
      .Give("v", {kN, kE}, run["v"])
      .Give("bias", {2 * kN - 1}, bias);
  OperatorRun plain = biased;
  plain["bias"].assign(2 * kN - 1, 0);
  OperatorRun without = run;
  without["r"].assign(kN, 0);
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(out, biased.Run("tiled")), kRounding)
        << program;
    EXPECT_LE(LargestDifference(without.Run(program), plain.Run("tiled")),
              kRounding)
        << program;
    EXPECT_GT(LargestDifference(out, plain.Run("tiled")), 0.1) << program;
  }
}

// A chunk of queries at an offset gives the last rows of the whole problem.
TEST(RelativeLogits, ChunkAndDecode) {
  constexpr int64_t kN = 150;
  for (const int64_t chunk : {int64_t{1}, int64_t{40}, int64_t{65}}) {
    OperatorRun whole = Attention({kN, kN, 50});
    OperatorRun part = whole;
    const int64_t first = kN - chunk;
    const auto rows = [&](const char* name, int64_t width) {
      const Numbers& all = whole[name];
      part.Give(name, {chunk, width},
                Numbers(all.begin() + first * width, all.end()));
    };
    rows("q", kD);
    rows("r", kP);
    OperatorRun misplaced = part;
    part.Set("query_offset", first);
    for (const std::string& program : whole.Programs()) {
      const Numbers all = whole.Run(program);
      const Numbers end(all.begin() + first * kE, all.end());
      EXPECT_LE(LargestDifference(part.Run(program), end), kRounding)
          << program << " chunk " << chunk;
      EXPECT_GT(LargestDifference(misplaced.Run(program), end), 0.1) << program;
    }
  }
}

TEST(RelativeLogits, PrefixDoesNotSeeItsFuture) {
  constexpr int64_t kN = 200;
  for (int64_t cut : {1, 63, 64, 130}) {
    OperatorRun run = Attention({kN, kN, 90});
    OperatorRun other = run;
    for (int64_t j = cut; j < kN; ++j) {
      for (int64_t a = 0; a < kD; ++a) other["k"][j * kD + a] *= -1e6;
      for (int64_t c = 0; c < kE; ++c) other["v"][j * kE + c] += 1e6;
    }
    for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const std::string& program : run.Programs(scalar)) {
        const Numbers a = run.Run(program, scalar);
        const Numbers b = other.Run(program, scalar);
        EXPECT_TRUE(std::equal(a.begin(), a.begin() + cut * kE, b.begin()))
            << program << " cut " << cut;
        EXPECT_NE(a[cut * kE], b[cut * kE]) << program << " cut " << cut;
      }
  }
}

// A distance beyond the band changes no bit of a query; those within it do.
TEST(RelativeLogits, DistancesBeyondTheBandHaveNoEffect) {
  constexpr int64_t kN = 150, kBand = 70;
  const OperatorRun run = Attention({kN, kN, kBand});
  OperatorRun other = run;
  for (int64_t x = 0; x < kP; ++x) other["table"][x * kBand + kBand - 1] += 9;
  for (const std::string& program : run.Programs(Scalar::kFloat32)) {
    const Numbers a = run.Run(program, Scalar::kFloat32);
    const Numbers b = other.Run(program, Scalar::kFloat32);
    const auto first = static_cast<std::ptrdiff_t>((kBand - 1) * kE);
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + first, b.begin())) << program;
    for (int64_t i = kBand - 1; i < kN; ++i)
      EXPECT_NE(a[i * kE], b[i * kE]) << program << " query " << i;
  }
}

// Tests batches of grouped heads with padding and one table for all heads, or
// one for each.
TEST(RelativeLogits, GroupedHeadsAndPadding) {
  constexpr int64_t kB = 2, kHeads = 4, kGroups = 2, kN = 70, kBand = 30;
  for (bool own : {false, true})
    for (int64_t n_q : {int64_t{1}, kN}) {
      OperatorRun run("relative_logits_attention");
      const auto give = [&](const char* name, Shape shape, uint64_t seed) {
        run.Give(name, shape, NormalNumbers(ElementCount(shape), seed));
      };
      run.Set("query_offset", kN - n_q).Set("key_lengths", IntegerList{kN, 13});
      give("q", {kB, kHeads, n_q, kD}, 1);
      give("k", {kB, kGroups, kN, kD}, 2);
      give("v", {kB, kGroups, kN, kE}, 3);
      give("r", {kB, kHeads, n_q, kP}, 4);
      give("table", own ? Shape{kHeads, kP, kBand} : Shape{kP, kBand}, 5);
      EXPECT_TRUE(HasPrograms(run, {"dense", "shift", "tiled"}));
      for (const std::string& program : run.Programs()) {
        const Verdict verdict = run.Judge(program);
        EXPECT_TRUE(verdict.passed()) << program << ": " << verdict.reason;
        EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
                  run.Run(program, Scalar::kFloat32, 3))
            << program;
      }
    }
}

// The workspace of tiled does not grow with n, that of shift grows as n, that
// of dense as n^2.
TEST(RelativeLogits, Workspace) {
  const auto growth = [](const std::string& program) {
    double bytes[2];
    for (int64_t doubled : {0, 1}) {
      const int64_t n = 1024 << doubled;
      bytes[doubled] =
          FindImplementation("relative_logits_attention", program)
              .CostOf(Attention({n, n, 300}).Resolve(Scalar::kFloat32), 1)
              .workspace_bytes;
    }
    return bytes[1] / bytes[0];
  };
  EXPECT_GT(growth("dense"), 3.8);
  EXPECT_NEAR(growth("shift"), 2, 0.1);
  EXPECT_EQ(growth("tiled"), 1);
}

TEST(RelativeLogits, InvalidShapesAreNamed) {
  const auto expect = [](OperatorRun run, const char* word) {
    try {
      run.Resolve(Scalar::kFloat64);
      FAIL() << "taken, expected: " << word;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << error.what();
    }
  };
  const Shape2 shape = {20, 30, 8};
  OperatorRun run = Attention(shape);
  expect(OperatorRun(run).Set("query_offset", int64_t{-1}), "query_offset");
  expect(OperatorRun(run).Set("key_lengths", IntegerList{31}), "key_lengths");
  expect(OperatorRun(run).Set("key_lengths", IntegerList{3, 4}), "key_lengths");
  expect(OperatorRun(run).Set("scale", -1.0), "scale");
  expect(OperatorRun(run).Set("band", int64_t{4}), "band");
  expect(OperatorRun(run).Give("table", {kP + 1, 8}, Numbers((kP + 1) * 8)),
         "table");
  expect(OperatorRun(run).Give("r", {19, kP}, Numbers(19 * kP)), "r");
}

}  // namespace
}  // namespace subquad
