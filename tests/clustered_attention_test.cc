// Properties of attention within clusters, each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n, d, e, c;
};
constexpr Sizes kSizes = {230, 8, 6, 3};

OperatorRun Clustered(const std::string& kind, bool causal = false,
                      const Sizes& s = kSizes) {
  OperatorRun run("clustered_attention");
  run.Set("kind", kind)
      .Set("causal", causal)
      .Give("q", {s.n, s.d}, NormalNumbers(s.n * s.d, 1))
      .Give("k", {s.n, s.d}, NormalNumbers(s.n * s.d, 2))
      .Give("v", {s.n, s.e}, NormalNumbers(s.n * s.e, 3));
  if (kind == "lsh")
    run.Give("rotations", {s.d, s.c}, NormalNumbers(s.d * s.c, 4));
  else
    run.Give("centroids", {s.c, s.d}, NormalNumbers(s.c * s.d, 4));
  return run;
}

constexpr const char* kKinds[] = {"lsh", "centroids"};

// Makes clusters by the first element of q and k: the product with centroid x
// is largest where that element is x itself.
constexpr int64_t kRoundClusters = 3;
OperatorRun ByFirstNumber(const std::vector<int64_t>& query_clusters,
                          const std::vector<int64_t>& key_clusters,
                          bool causal) {
  const auto n = static_cast<int64_t>(query_clusters.size());
  OperatorRun run =
      Clustered("centroids", causal, {n, kSizes.d, kSizes.e, kRoundClusters});
  std::fill(run["centroids"].begin(), run["centroids"].end(), 0);
  for (int64_t x = 0; x < kRoundClusters; ++x)
    run["centroids"][x * kSizes.d + x] = 1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t x = 0; x < kRoundClusters; ++x) {
      run["q"][i * kSizes.d + x] = query_clusters[i] == x ? 4 : 0;
      run["k"][i * kSizes.d + x] = key_clusters[i] == x ? 4 : 0;
    }
  return run;
}

// A single cluster contains all tokens.
TEST(ClusteredAttention, OneClusterIsSoftmaxAttention) {
  for (const bool causal : {false, true}) {
    const Sizes s = {kSizes.n, kSizes.d, kSizes.e, 1};
    OperatorRun single = Clustered("centroids", causal, s);
    OperatorRun two = Clustered("lsh", causal, s);  // y R and -y R
    OperatorRun all("softmax_attention");
    all.Set("causal", causal);
    for (const char* name : {"q", "k", "v"})
      all.Give(name, {s.n, name[0] == 'v' ? s.e : s.d}, single[name]);
    const Numbers expected = all.Run("dense");
    for (const std::string& program : single.Programs()) {
      EXPECT_LE(LargestDifference(single.Run(program), expected), kRounding)
          << program;
      EXPECT_GT(LargestDifference(two.Run(program), expected), 0.1) << program;
    }
  }
}

// Keys and values of other clusters, and of later tokens, change no bit; a
// query's own key and value do, whatever their cluster.
TEST(ClusteredAttention, SeesItsOwnClusterAlone) {
  std::mt19937 random(1);
  std::vector<int64_t> queries, keys;
  for (int64_t i = 0; i < kSizes.n; ++i) {
    queries.push_back(static_cast<int64_t>(random() % kRoundClusters));
    keys.push_back(static_cast<int64_t>(random() % kRoundClusters));
  }
  for (const bool causal : {false, true}) {
    OperatorRun run = ByFirstNumber(queries, keys, causal), changed = run;
    for (const int64_t token : {77, 78, 79}) {
      changed["k"][token * kSizes.d + kRoundClusters] += 1;
      changed["v"][token * kSizes.e] += 1;
    }
    for (const std::string& program : run.Programs()) {
      const Numbers a = run.Run(program), b = changed.Run(program);
      for (int64_t i = 0; i < kSizes.n; ++i) {
        bool sees = false;
        for (const int64_t token : {77, 78, 79})
          sees = sees || token == i ||
                 (keys[token] == queries[i] && (!causal || token <= i));
        const auto row = a.begin() + i * kSizes.e;
        EXPECT_EQ(std::equal(row, row + kSizes.e, b.begin() + i * kSizes.e),
                  !sees)
            << program << " row " << i;
      }
    }
  }
}

// A query whose keys are all in another cluster sees only its own.
TEST(ClusteredAttention, AQueryAlwaysSeesItself) {
  const std::vector<int64_t> zeros(static_cast<size_t>(kSizes.n), 0);
  const std::vector<int64_t> ones(static_cast<size_t>(kSizes.n), 1);
  for (const bool causal : {false, true}) {
    OperatorRun apart = ByFirstNumber(zeros, ones, causal);
    OperatorRun together = ByFirstNumber(zeros, zeros, causal);
    for (const std::string& program : apart.Programs()) {
      EXPECT_EQ(apart.Run(program), apart["v"]) << program;
      EXPECT_GT(LargestDifference(together.Run(program), apart["v"]), 0.1);
    }
  }
}

// A hash separates a vector from its negative, and does not depend on its
// length.
TEST(ClusteredAttention, HashesDependOnDirectionOnly) {
  OperatorRun run = Clustered("lsh"), longer = run, opposite = run;
  for (size_t x = 0; x < run["q"].size(); ++x) {
    longer["q"][x] *= 2;  // with half the scale below: the same scores
    opposite["q"][x] *= -1;
    opposite["k"][x] *= -1;
  }
  run.Set("scale", 0.5);
  opposite.Set("scale", 0.5);
  longer.Set("scale", 0.25);
  OperatorRun apart = run;
  for (double& number : apart["q"]) number *= -1;
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_EQ(longer.Run(program), out) << program;
    EXPECT_EQ(opposite.Run(program), out) << program;
    EXPECT_GT(LargestDifference(apart.Run(program), out), 0.1) << program;
  }
}

// Among equal products the first wins: a second centroid equal to the first
// gets no tokens. If the copy precedes the first, it gets them all, which is
// another numbering of the same clusters.
TEST(ClusteredAttention, TheFirstOfEqualProductsWins) {
  OperatorRun run = Clustered("centroids");
  OperatorRun more = run, split = run;
  const Numbers centroids = run["centroids"];
  Numbers with_copy = centroids, with_other = centroids;
  with_copy.insert(with_copy.end(), centroids.begin(),
                   centroids.begin() + kSizes.d);
  const Numbers other = NormalNumbers(kSizes.d, 9);
  with_other.insert(with_other.end(), other.begin(), other.end());
  more.Give("centroids", {kSizes.c + 1, kSizes.d}, with_copy);
  split.Give("centroids", {kSizes.c + 1, kSizes.d}, with_other);
  for (const std::string& program : run.Programs()) {
    EXPECT_EQ(more.Run(program), run.Run(program)) << program;
    EXPECT_NE(split.Run(program), run.Run(program)) << program;
  }
}

// Permuting the tokens permutes the rows, unless causal.
TEST(ClusteredAttention, IsEquivariantUnlessCausal) {
  const auto turned = [](const Numbers& rows, int64_t width) {
    Numbers to;
    for (int64_t i = kSizes.n - 1; i >= 0; --i)
      to.insert(to.end(), rows.begin() + i * width,
                rows.begin() + (i + 1) * width);
    return to;
  };
  for (const char* kind : kKinds)
    for (const bool causal : {false, true}) {
      OperatorRun run = Clustered(kind, causal), other = run;
      for (const char* name : {"q", "k", "v"})
        other[name] = turned(run[name], name[0] == 'v' ? kSizes.e : kSizes.d);
      for (const std::string& program : run.Programs()) {
        const double off = LargestDifference(
            other.Run(program), turned(run.Run(program), kSizes.e));
        if (causal)
          EXPECT_GT(off, 0.1);
        else
          EXPECT_LE(off, kRounding) << program;
      }
    }
}

// If rounding can decide to which of two clusters a query belongs, its row is
// not judged, and the reason names it. A query farther from the boundary is
// judged.
TEST(ClusteredAttention, RowsBetweenClustersAreMistrustedByName) {
  std::vector<int64_t> clusters;
  for (int64_t i = 0; i < 40; ++i) clusters.push_back(i % kRoundClusters);
  for (const double off : {0.0, 1e-9, 1e-3}) {
    OperatorRun run = ByFirstNumber(clusters, clusters, false);
    run["q"][5 * kSizes.d] = 1;
    run["q"][5 * kSizes.d + 1] = 1 + off;
    run["q"][5 * kSizes.d + 2] = 0;
    for (const std::string& program : run.Programs()) {
      const Verdict verdict = run.Judge(program, Scalar::kFloat32);
      if (off < 1e-6) {
        EXPECT_EQ(verdict.outcome, Outcome::kMistrusted) << program;
        EXPECT_NE(verdict.reason.find("row 5 "), std::string::npos)
            << verdict.reason;
      } else {
        EXPECT_TRUE(verdict.passed()) << program << verdict.reason;
      }
    }
  }
  // If rounding can decide to which of two clusters a key belongs, no row of
  // these two clusters is judged. Rows of the third cluster are judged.
  OperatorRun run = ByFirstNumber(clusters, clusters, false);
  run["k"][5 * kSizes.d] = run["k"][5 * kSizes.d + 1] = 1;
  run["k"][5 * kSizes.d + 2] = 0;
  for (const std::string& program : run.Programs()) {
    const Verdict verdict = run.Judge(program, Scalar::kFloat32);
    EXPECT_EQ(verdict.outcome, Outcome::kMistrusted) << program;
    const int64_t rows = std::count(clusters.begin(), clusters.end(), 0) +
                         std::count(clusters.begin(), clusters.end(), 1);
    EXPECT_EQ(verdict.comparison.without_digits, rows * kSizes.e);
  }
}

// Nothing is promised of the gradients of values that a program may choose in
// place of others; those of the third cluster are bounded.
TEST(ClusteredAttention, GradientsBetweenClustersHaveNoBound) {
  std::vector<int64_t> clusters;
  for (int64_t i = 0; i < 40; ++i) clusters.push_back(i % kRoundClusters);
  OperatorRun run = ByFirstNumber(clusters, clusters, false);
  run["k"][5 * kSizes.d] = run["k"][5 * kSizes.d + 1] = 1;
  run["k"][5 * kSizes.d + 2] = 0;
  Params params;
  params.Set("kind", std::string("centroids"));
  Trial trial =
      MakeTrial(FindOperator("clustered_attention"), params, Scalar::kFloat32,
                {{"q", {40, kSizes.d}, run["q"]},
                 {"k", {40, kSizes.d}, run["k"]},
                 {"v", {40, kSizes.e}, run["v"]},
                 {"centroids", {kRoundClusters, kSizes.d}, run["centroids"]},
                 {"grad", {40, kSizes.e}, NormalNumbers(40 * kSizes.e, 9)}},
                1);
  int compared = 0;
  for (const OutputAnswer& output : trial.answer().outputs) {
    if (output.name != "grad_v") continue;
    for (size_t at = 0; at < output.units.size(); ++at) {
      const auto row =
          output.selection.rows[at / static_cast<size_t>(output.width)].row;
      EXPECT_EQ(std::isinf(output.units[at]),
                clusters[static_cast<size_t>(row)] < 2 || row == 5)
          << output.name << " row " << row;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 40 * kSizes.e);
}

TEST(ClusteredAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const char* kind : kKinds)
    for (const bool causal : {false, true})
      for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{5, 3, 70, 9},
                             Sizes{300, 33, 5, 2}, Sizes{257, 4, 17, 40}}) {
        SCOPED_TRACE(testing::Message() << kind << " " << causal << s.n);
        ExpectDefinition(Clustered(kind, causal, s), kRounding);
      }
}

}  // namespace
}  // namespace subquad
