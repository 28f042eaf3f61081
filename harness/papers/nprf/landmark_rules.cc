// NPRF's table 1: what it costs to attend through landmarks.
#include <cmath>

#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

constexpr int64_t kWidth = 8;

// rows [count, width] in equal pieces: their means.
template <typename T>
Row<T> Means(const Row<T>& rows, int64_t pieces) {
  const auto count = static_cast<int64_t>(rows.size()) / kWidth;
  const int64_t length = count / pieces;
  Row<T> means(static_cast<size_t>(pieces * kWidth));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t a = 0; a < kWidth; ++a)
      means[i / length * kWidth + a] += rows[i * kWidth + a];
  for (T& mean : means) mean = mean / static_cast<double>(length);
  return means;
}

double NumberOf(double x) { return x; }
double NumberOf(const Counted& x) { return x.value(); }

// softmax(queries keys^T) times values; an exponential counts as one product.
template <typename T>
Row<T> Attend(const Row<T>& queries, const Row<T>& keys, const Row<T>& values) {
  const auto n_q = static_cast<int64_t>(queries.size()) / kWidth;
  const auto n_k = static_cast<int64_t>(keys.size()) / kWidth;
  const auto e = static_cast<int64_t>(values.size()) / n_k;
  Row<T> out(static_cast<size_t>(n_q * e));
  for (int64_t i = 0; i < n_q; ++i) {
    T sum = 0;
    for (int64_t j = 0; j < n_k; ++j) {
      T score = 0;
      for (int64_t a = 0; a < kWidth; ++a)
        score += queries[i * kWidth + a] * keys[j * kWidth + a];
      const T weight =
          T(std::exp(NumberOf(score) / std::sqrt(double{kWidth}))) * T(1);
      sum += weight;
      for (int64_t c = 0; c < e; ++c)
        out[i * e + c] += weight * values[j * e + c];
    }
    for (int64_t c = 0; c < e; ++c) out[i * e + c] = out[i * e + c] / sum;
  }
  return out;
}

// m [rows, inner] times x [inner, columns].
template <typename T>
Row<T> Product(const Row<T>& m, const Row<T>& x, int64_t inner) {
  const auto rows = static_cast<int64_t>(m.size()) / inner;
  const auto columns = static_cast<int64_t>(x.size()) / inner;
  Row<T> out(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < inner; ++j)
      for (int64_t c = 0; c < columns; ++c)
        out[i * columns + c] += m[i * inner + j] * x[j * columns + c];
  return out;
}

template <typename T>
Row<T> ScaledIdentity(int64_t size, double number) {
  Row<T> m(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i) m[i * (size + 1)] = number;
  return m;
}

template <typename T>
Row<T> Minus(Row<T> a, const Row<T>& b) {
  for (size_t x = 0; x < a.size(); ++x) a[x] = a[x] - b[x];
  return a;
}

// F Z (S v) with Z as Nystroemformer iterates it.
template <typename T>
Row<T> ThroughLandmarks(const Row<T>& q, const Row<T>& k, const Row<T>& v,
                        int64_t pieces, int64_t iterations) {
  const Row<T> queries = Means(q, pieces), keys = Means(k, pieces);
  const Row<T> a = Attend(queries, keys, ScaledIdentity<T>(pieces, 1));
  double rows = 0, columns = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    double row = 0, column = 0;
    for (int64_t j = 0; j < pieces; ++j) {
      row += NumberOf(a[i * pieces + j]);
      column += NumberOf(a[j * pieces + i]);
    }
    rows = std::max(rows, row);
    columns = std::max(columns, column);
  }
  Row<T> z(a.size());
  for (int64_t i = 0; i < pieces; ++i)
    for (int64_t j = 0; j < pieces; ++j)
      z[i * pieces + j] = a[j * pieces + i] / (rows * columns);
  const auto less = [&](double number, const Row<T>& m) {
    return Minus(ScaledIdentity<T>(pieces, number), m);
  };
  for (int64_t t = 0; t < iterations; ++t) {
    const Row<T> az = Product(a, z, pieces);
    const Row<T> inner = less(15, Product(az, less(7, az), pieces));
    z = Product(z, less(13, Product(az, inner, pieces)), pieces);
    for (T& one : z) one = one / 4;
  }
  return Attend(q, keys, Product(z, Attend(queries, k, v), pieces));
}

Finding Landmarks(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kPieces = 16, kSteps = 6;
  OperatorRun run("nystrom_attention");
  constexpr int64_t kN = 48;
  const Numbers q = NormalNumbers(kN * kWidth, 1),
                k = NormalNumbers(kN * kWidth, 2),
                v = NormalNumbers(kN * kWidth, 3);
  run.Set("segments", kPieces)
      .Set("iterations", kSteps)
      .Give("q", {kN, kWidth}, q)
      .Give("k", {kN, kWidth}, k)
      .Give("v", {kN, kWidth}, v);
  const Measured gap = finding.Measure(
      "difference of the formula as counted",
      LargestDifference(ThroughLandmarks<double>(q, k, v, kPieces, kSteps),
                        run.Definition()));
  const auto count = [&](int64_t n, int64_t pieces) {
    ThroughLandmarks<Counted>(Counting(NormalNumbers(n * kWidth, 1)),
                              Counting(NormalNumbers(n * kWidth, 2)),
                              Counting(NormalNumbers(n * kWidth, 3)), pieces,
                              kSteps);
  };
  const Growth fixed =
                   JudgeGrowth(finding, "16 landmarks", "n",
                               CountEach({1024, 4096, 16384},
                                         [&](int64_t n) { count(n, kPieces); }),
                               kLinearGrowth),
               growing = MentionGrowth(
                   finding, "a landmark for 16 tokens", "n",
                   CountEach({256, 1024, 2048},
                             [&](int64_t n) { count(n, n / 16); }),
                   kSquare);
  finding.Add(fixed.holds && gap <= 1e-8,
              fmt::format("run on numbers that count, 16 landmarks take {} "
                          "(results within {})",
                          fixed.text, gap));
  AddPrograms(finding, run, "attention through landmarks", run.Programs());
  finding.Note(
      fmt::format("that is for as many landmarks at any length: with "
                  "one for 16 tokens it is {}",
                  growing.text));
  return finding;
}

}  // namespace

std::vector<NamedRule> NprfLandmarkRules() {
  return {{"nprf-complexities", Landmarks}};
}

}  // namespace subquad
