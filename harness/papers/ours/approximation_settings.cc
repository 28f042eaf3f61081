#include "harness/papers/ours/approximation_settings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/base/split_mix.h"

namespace subquad {
namespace {

Approximation Attention(const PlainHead& head, const std::string& op,
                        const std::string& program) {
  Approximation one{op, program, {}, {}};
  one.params.Set("scale", head.scale);
  one.tensors = {{"q", {head.n, head.d}, head.q},
                 {"k", {head.n, head.d}, head.k},
                 {"v", {head.n, head.e}, head.v}};
  return one;
}

Numbers MatrixProduct(Numbers numbers, double factor) {
  for (double& number : numbers) number *= factor;
  return numbers;
}

Approximation RandomFeatures(const PlainHead& head, int64_t features,
                             uint64_t seed) {
  // exp(scale q k) is the kernel of rows that are both scaled by its root.
  const double root = std::sqrt(head.scale);
  Approximation one{"linear_attention", "associative", {}, {}};
  one.params.Set("feature_map", std::string("prf"));
  one.params.Set("causal", false);
  one.tensors = {
      {"q", {head.n, head.d}, MatrixProduct(head.q, root)},
      {"k", {head.n, head.d}, MatrixProduct(head.k, root)},
      {"v", {head.n, head.e}, head.v},
      {"omega", {features, head.d}, NormalNumbers(features * head.d, seed)}};
  return one;
}

Approximation RandomProjection(const PlainHead& head, int64_t rows,
                               uint64_t seed) {
  Approximation one = Attention(head, "linformer_attention", "projected");
  // Rows of length one: reduced keys are as large as keys.
  const double size = 1 / std::sqrt(static_cast<double>(head.n));
  for (const char* name : {"proj_k", "proj_v"})
    one.tensors.push_back(
        {name, {rows, head.n}, NormalNumbers(rows * head.n, seed, size)});
  return one;
}

// Means of pieces, as many as there are keys left.
Approximation Means(const PlainHead& head, int64_t keys, uint64_t) {
  const int64_t stride = head.n / keys;
  Approximation one =
      Attention(head, "memory_compressed_attention", "compressed");
  one.params.Set("stride", stride);
  for (const char* name : {"theta_k", "theta_v"})
    one.tensors.push_back({name,
                           {stride},
                           Numbers(static_cast<size_t>(stride),
                                   1 / static_cast<double>(stride))});
  return one;
}

Approximation Sparse(const PlainHead& head, const std::string& pattern,
                     const std::string& program) {
  Approximation one = Attention(head, "sparse_attention", program);
  one.params.Set("pattern", pattern);
  one.params.Set("causal", false);
  return one;
}

Approximation Window(const PlainHead& head, int64_t window, uint64_t) {
  Approximation one = Sparse(head, "sliding", "blocked");
  one.params.Set("window", window);
  one.params.Set("dilation", int64_t{1});
  return one;
}

// So many keys in all: half of them near, half of them far.
Approximation Strided(const PlainHead& head, int64_t keys, uint64_t) {
  Approximation one = Sparse(head, "strided", "gathered");
  one.params.Set("window", keys / 4);
  one.params.Set("stride", std::max<int64_t>(1, 2 * head.n / keys));
  return one;
}

// Blocks of 16: one to each side, the first one, and random ones.
Approximation BigBird(const PlainHead& head, int64_t random, uint64_t seed) {
  constexpr int64_t kBlock = 16;
  const int64_t blocks = (head.n + kBlock - 1) / kBlock;
  Approximation one = Sparse(head, "bigbird", "blocked");
  one.params.Set("block", kBlock);
  one.params.Set("window_blocks", int64_t{1});
  one.params.Set("global_blocks", int64_t{1});
  IntegerTable table(static_cast<size_t>(blocks));
  uint64_t at = 0;
  for (IntegerList& list : table)
    for (int64_t r = 0; r < random; ++r)
      list.push_back(static_cast<int64_t>(SplitMix64(at++, seed) %
                                          static_cast<uint64_t>(blocks)));
  one.params.Set("random", table);
  return one;
}

Approximation Hashes(const PlainHead& head, int64_t clusters, uint64_t seed) {
  Approximation one = Attention(head, "clustered_attention", "sorted");
  one.params.Set("kind", std::string("lsh"));
  const int64_t c = clusters / 2;
  one.tensors.push_back(
      {"rotations", {head.d, c}, NormalNumbers(head.d * c, seed)});
  return one;
}

// Directions of queries and keys by spherical k-means (Dhillon and Modha 2001),
// from rows that are evenly spread.
Numbers Directions(const PlainHead& head, int64_t count) {
  constexpr int kSteps = 8;
  const int64_t d = head.d, n = head.n;
  const auto row = [&](int64_t i) {
    return i < n ? head.q.begin() + i * d : head.k.begin() + (i - n) * d;
  };
  const auto normalised = [&](Numbers rows) {
    for (auto at = rows.begin(); at != rows.end(); at += d) {
      const double length = std::sqrt(std::inner_product(at, at + d, at, 0.0));
      for (int64_t a = 0; a < d && length > 0; ++a) at[a] /= length;
    }
    return rows;
  };
  Numbers centroids;
  for (int64_t x = 0; x < count; ++x) {
    const auto first = row(x * 2 * n / count);
    centroids.insert(centroids.end(), first, first + d);
  }
  centroids = normalised(centroids);
  for (int step = 0; step < kSteps; ++step) {
    Numbers sums(centroids.size());
    for (int64_t i = 0; i < 2 * n; ++i) {
      int64_t best = 0;
      double most = -HUGE_VAL;
      for (int64_t x = 0; x < count; ++x) {
        const double dot = std::inner_product(row(i), row(i) + d,
                                              centroids.begin() + x * d, 0.0);
        if (dot > most) {
          most = dot;
          best = x;
        }
      }
      const double length =
          std::sqrt(std::inner_product(row(i), row(i) + d, row(i), 0.0));
      for (int64_t a = 0; a < d && length > 0; ++a)
        sums[best * d + a] += row(i)[a] / length;
    }
    centroids = normalised(sums);
  }
  return centroids;
}

Approximation Centroids(const PlainHead& head, int64_t clusters, uint64_t) {
  Approximation one = Attention(head, "clustered_attention", "sorted");
  one.params.Set("kind", std::string("centroids"));
  one.tensors.push_back(
      {"centroids", {clusters, head.d}, Directions(head, clusters)});
  return one;
}

// Logits of two blocks: the score of their mean query and mean key.
Approximation SortedBlocks(const PlainHead& head, int64_t block, uint64_t) {
  Approximation one = Attention(head, "sinkhorn_attention", "blocked");
  one.params.Set("block", block);
  one.params.Set("iterations", int64_t{5});
  const int64_t blocks = head.n / block;
  const auto mean = [&](const Numbers& rows, int64_t b, int64_t a) {
    double sum = 0;
    for (int64_t i = b * block; i < (b + 1) * block; ++i)
      sum += rows[i * head.d + a];
    return sum / static_cast<double>(block);
  };
  Numbers logits(static_cast<size_t>(blocks * blocks));
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < blocks; ++c)
      for (int64_t a = 0; a < head.d; ++a)
        logits[b * blocks + c] +=
            head.scale * mean(head.q, b, a) * mean(head.k, c, a);
  one.tensors.push_back({"logits", {blocks, blocks}, logits});
  return one;
}

Approximation Landmarks(const PlainHead& head, int64_t segments, uint64_t) {
  Approximation one = Attention(head, "nystrom_attention", "associative");
  one.params.Set("segments", segments);
  one.params.Set("iterations", int64_t{6});
  return one;
}

using Make = Approximation (*)(const PlainHead&, int64_t, uint64_t);

struct Method {
  const char *name, *what;
  Make make;
  std::vector<int64_t> levels;
  bool divides = false;  // the level divides n
};

const std::vector<Method>& Methods() {
  static const std::vector<Method> methods = {
      {"random features", "features", RandomFeatures, {16, 64, 256, 1024}},
      {"random projections", "rows", RandomProjection, {8, 32, 128}},
      {"means", "keys", Means, {8, 32, 128}, true},
      {"window", "tokens to each side", Window, {4, 16, 64, 256}},
      {"strided", "keys", Strided, {16, 64, 256}},
      {"BigBird", "random blocks", BigBird, {0, 2, 8}},
      {"hashes", "clusters", Hashes, {32, 16, 8, 4, 2}},
      {"centroids", "clusters", Centroids, {32, 16, 8, 4, 2}},
      {"sorted blocks", "tokens in a block", SortedBlocks, {16, 64, 128}, true},
      {"landmarks", "landmarks", Landmarks, {8, 32, 128}, true},
  };
  return methods;
}

// ---- what has to be beaten
// ---------------------------------------------------

Numbers EqualWeights(const PlainHead& head) {
  Numbers mean(static_cast<size_t>(head.e)), out;
  for (size_t x = 0; x < head.v.size(); ++x)
    mean[x % mean.size()] += head.v[x] / static_cast<double>(head.n);
  for (int64_t i = 0; i < head.n; ++i)
    out.insert(out.end(), mean.begin(), mean.end());
  return out;
}

Numbers OwnValue(const PlainHead& head) { return head.v; }

// Weights 1 + s of scores s, those below zero left out.
Numbers TaylorWeights(const PlainHead& head) {
  Numbers out(static_cast<size_t>(head.n * head.e));
  for (int64_t i = 0; i < head.n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < head.n; ++j) {
      const double score =
          head.scale * std::inner_product(head.q.begin() + i * head.d,
                                          head.q.begin() + (i + 1) * head.d,
                                          head.k.begin() + j * head.d, 0.0);
      const double weight = std::max(0.0, 1 + score);
      sum += weight;
      for (int64_t c = 0; c < head.e; ++c)
        out[i * head.e + c] += weight * head.v[j * head.e + c];
    }
    for (int64_t c = 0; c < head.e && sum > 0; ++c) out[i * head.e + c] /= sum;
  }
  return out;
}

}  // namespace

Trial Approximation::MakeTrial() const {
  return subquad::MakeTrial(FindOperator(op), params, Scalar::kFloat32, tensors,
                            1);
}

const Implementation& Approximation::Find() const {
  return FindImplementation(op, program);
}

std::vector<ApproximationSetting> ApproximationSettings(int64_t n) {
  std::vector<ApproximationSetting> settings;
  for (const Method& method : Methods())
    for (int64_t level : method.levels) {
      if (method.divides && (level >= n || n % level != 0)) continue;
      settings.push_back(
          {method.name, method.what, level,
           [make = method.make, level](const PlainHead& head, uint64_t seed) {
             return make(head, level, seed);
           }});
    }
  return settings;
}

Approximation ExactAttention(const PlainHead& head) {
  Approximation one = Attention(head, "softmax_attention", "tiled");
  one.params.Set("causal", false);
  return one;
}

const std::vector<NullBaseline>& NullBaselines() {
  static const std::vector<NullBaseline> baselines = {
      {"equal weights", EqualWeights},
      {"own value", OwnValue},
      {"Taylor", TaylorWeights}};
  return baselines;
}

}  // namespace subquad
