// The rules of claims that are computed on the spot, on planted numbers: each
// wrong number changes the verdict, and so does NaN.
#include "harness/papers/claims/statements.h"

#include <cmath>
#include <functional>
#include <map>

#include "harness/papers/claims/counts.h"
#include "tests/harness/papers/planted_records.h"

namespace subquad {
namespace {

// Right numbers hold; each change, and NaN instead of each, does not.
template <typename T>
void Flips(const T& right, ClaimVerdict verdict,
           const std::vector<std::function<void(T&)>>& changes) {
  EXPECT_EQ(Judge(right).verdict(), verdict) << Judge(right).numbers();
  for (size_t i = 0; i < changes.size(); ++i) {
    T wrong = right;
    changes[i](wrong);
    EXPECT_NE(Judge(wrong).verdict(), verdict)
        << "change " << i << ": " << Judge(wrong).numbers();
  }
}

TEST(Statements, FollowTheirNumbers) {
  Flips<SoftmaxShift>(
      {0.8, 1e-16}, kWrongAsPrinted,
      {[](auto& x) { x.queries = 1e-16; }, [](auto& x) { x.keys = 0.5; },
       [](auto& x) { x.queries = kNaN; }, [](auto& x) { x.keys = kNaN; }});
  Flips<Permuted>(
      {1.4, 0}, kWrongAsPrinted,
      {[](auto& x) { x.invariance = 0; }, [](auto& x) { x.equivariance = 1; },
       [](auto& x) { x.equivariance = kNaN; }});
  Flips<Reversal>(
      {0, 0.7}, kWrongAsPrinted,
      {[](auto& x) { x.by_distance = 0.7; }, [](auto& x) { x.by_offset = 0; },
       [](auto& x) { x.by_offset = kNaN; }});
  Flips<Sharpness>(
      {128, 0.018, 0.055, 0.055, 1}, kReproduced,
      {[](auto& x) { x.drawn = 0.2; }, [](auto& x) { x.arranged = 0.03; },
       [](auto& x) { x.with_bias = 0.5; }, [](auto& x) { x.bound = kNaN; }});
  Flips<FourTerms>({1e-15, 1.6}, kReproduced,
                   {[](auto& x) { x.four = 0.1; }, [](auto& x) { x.three = 0; },
                    [](auto& x) { x.four = kNaN; }});
  Flips<KernelRank>(
      {4e-4, 1e-16, 12, 3}, kReproduced,
      {[](auto& x) { x.exponential = 1e-16; }, [](auto& x) { x.linear = 1e-3; },
       [](auto& x) { x.exponential = kNaN; }});
  Flips<Gating>({0, 11.9}, kReproduced,
                {[](auto& x) { x.glu = 1; }, [](auto& x) { x.gmlp = 0; },
                 [](auto& x) { x.gmlp = kNaN; }});
  Flips<Layers>(
      {256, 300, 32, 300, 2, 15, 4}, kReproduced,
      {[](auto& x) { x.window = 2; }, [](auto& x) { x.local = 16; },
       [](auto& x) { x.global = 32; }, [](auto& x) { x.random = 300; }});
  Flips<LinearMemory>({4096, 64, 4.0 * 4096 * 64, 8.0 * 4096 * 64},
                      kWrongAsPrinted,
                      {[](auto& x) { x.twice_as_wide = 4 * x.bytes; },
                       [](auto& x) { x.bytes = 4.0 * 4096 * 64 * 64; },
                       [](auto& x) { x.bytes = kNaN; }});
  Flips<std::vector<MapMean>>(
      {{"prf", 1.001, 0.001, 1.2}}, kReproduced,
      {[](auto& x) { x[0].mean = 1.01; }, [](auto& x) { x[0].half = 1; },
       [](auto& x) { x[0].error = kNaN; }, [](auto& x) { x.clear(); }});
}

TEST(Statements, OfPositions) {
  EXPECT_EQ(JudgeRank(162, 512, 1024).verdict(), kReproduced);
  EXPECT_EQ(JudgeRank(512, 512, 1024).verdict(), kNotReproduced);
  EXPECT_EQ(JudgeRank(0, 512, 1024).verdict(), kNotReproduced);
  EXPECT_EQ(JudgeDistinct(1.4, 0).verdict(), kReproduced);
  EXPECT_EQ(JudgeDistinct(0, 0).verdict(), kNotReproduced);
  EXPECT_EQ(JudgeDistinct(1.4, 1).verdict(), kNotReproduced);
  EXPECT_EQ(JudgeDistinct(kNaN, 0).verdict(), kNotReproduced);
  // The control finds the rank that a wider table has.
  EXPECT_GT(PositionRank(64, 8), 0);
  EXPECT_LE(PositionRank(64, 8), 8);
}

// ---- counts ----------------------------------------------------------------

Counts By(double (*growth)(double)) {
  Counts counts;
  for (double n : {64.0, 256.0, 1024.0}) {
    counts.sizes.push_back(n);
    counts.operations.push_back(growth(n));
  }
  return counts;
}

const Counts kByN = By([](double n) { return 7 * n; }),
             kByNLogN = By([](double n) { return 7 * n * std::log2(n); }),
             kBySquare = By([](double n) { return 7 * n * n; }),
             kByPower = By([](double n) { return std::pow(n, 1.45); });

TEST(Counts, TellGrowthsApart) {
  EXPECT_TRUE(GrowsAs(kByN, kLinearGrowth));
  EXPECT_TRUE(GrowsAs(kByNLogN, kNLogN));
  EXPECT_TRUE(GrowsAs(kBySquare, kSquare));
  EXPECT_FALSE(GrowsAs(kByNLogN, kLinearGrowth));
  EXPECT_FALSE(GrowsAs(kByN, kNLogN));
  EXPECT_FALSE(GrowsAs(kByPower, kNLogN));
  EXPECT_FALSE(GrowsAs(kBySquare, kNLogN));
  EXPECT_FALSE(GrowsAs({}, kNLogN));
  Counts counts = kByNLogN;
  counts.operations.back() = kNaN;
  EXPECT_FALSE(GrowsAs(counts, kNLogN));
  counts = kByNLogN;
  counts.operations.pop_back();
  EXPECT_FALSE(GrowsAs(counts, kNLogN));
  counts = {{64, 128, 256}, {64, 128, 256}};
  EXPECT_FALSE(GrowsAs(counts, kLinearGrowth));  // four times is too little
}

TEST(Counts, AreJudgedByGrowthAndResult) {
  const auto toeplitz = [](const Counts& transform, const Counts& direct,
                           double gap) {
    return JudgeToeplitzCounts({transform, direct, gap}).verdict();
  };
  EXPECT_EQ(toeplitz(kByNLogN, kBySquare, 0), kReproduced);
  EXPECT_EQ(toeplitz(kByPower, kBySquare, 0), kInPart);
  EXPECT_EQ(toeplitz(kByNLogN, kByNLogN, 0), kInPart);
  EXPECT_EQ(toeplitz(kByNLogN, kBySquare, 1), kInPart);
  EXPECT_EQ(toeplitz(kByNLogN, kBySquare, kNaN), kInPart);
  EXPECT_EQ(JudgeNaiveCounts({kByN, kBySquare, 0}).verdict(), kReproduced);
  EXPECT_EQ(JudgeNaiveCounts({kByN, kByNLogN, 0}).verdict(), kNotReproduced);
  EXPECT_EQ(JudgeImageCounts({kBySquare, 0}).verdict(), kWrongAsPrinted);
  EXPECT_NE(JudgeImageCounts({kByNLogN, 0}).verdict(), kWrongAsPrinted);
  EXPECT_NE(JudgeImageCounts({kBySquare, 1}).verdict(), kWrongAsPrinted);
  EXPECT_NE(JudgeImageCounts({kBySquare, kNaN}).verdict(), kWrongAsPrinted);
  const LinearCounts linear = {kByN, kBySquare, kBySquare, 0};
  EXPECT_EQ(JudgeLinearCounts(linear).verdict(), kReproduced);
  EXPECT_EQ(JudgeLinearCounts({kByNLogN, kBySquare, kBySquare, 0}).verdict(),
            kInPart);
  EXPECT_EQ(JudgeLinearCounts({kByN, kBySquare, kBySquare, kNaN}).verdict(),
            kInPart);
  EXPECT_EQ(JudgeBiasCounts({kByNLogN, kBySquare, 0}).verdict(), kReproduced);
  EXPECT_EQ(JudgeBiasCounts({kByPower, kBySquare, 0}).verdict(), kInPart);
  EXPECT_EQ(JudgeClippedCounts({kByN, kByN, kByN, kByN, 0}).verdict(),
            kReproduced);
  EXPECT_EQ(JudgeClippedCounts({kByN, kByN, kBySquare, kByN, 0}).verdict(),
            kInPart);
  EXPECT_EQ(JudgeClippedCounts({kByN, kByN, kByN, kByN, kNaN}).verdict(),
            kInPart);
  const auto distances = [](double once, double pairs, double gap) {
    Finding finding;
    AddDistanceCounts(finding,
                      {96, 32, once, pairs, 128, 7728, kBySquare, gap});
    return finding.verdict();
  };
  EXPECT_EQ(distances(128, 7728, 0), kInPart);
  EXPECT_EQ(distances(7728, 7728, 0), kNotReproduced);
  EXPECT_EQ(distances(128, 7728, kNaN), kNotReproduced);
}

// One addition, one product: no operation escapes the counting number.
TEST(Counts, AreThoseOfTheRun) {
  const ToeplitzCounts counts = CountToeplitz();
  for (size_t i = 0; i < counts.direct.sizes.size(); ++i)
    EXPECT_EQ(counts.direct.operations[i],
              2 * counts.direct.sizes[i] * counts.direct.sizes[i]);
}

}  // namespace
}  // namespace subquad
