#include "optimized/kernelized/quadratic.h"

#include <cmath>
#include <numeric>

#include "optimized/base/lanes.h"
#include "optimized/base/product.h"

namespace subquad {

// ---- bias ------------------------------------------------------------------

template <typename T>
BiasByRow<T>::BiasByRow(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      mantissa_(layout, shape.WeighsPairs() ? shape.BiasCount() : 0),
      exponent_(layout, mantissa_.size()) {}

template <typename T>
void BiasByRow<T>::Split(const T* bias) const {
  const T shift = bias ? CommonBias(bias, mantissa_.size()) : T{0};
  for (int64_t t = 0; t < mantissa_.size(); ++t) {
    const T b = bias ? bias[t] : T{0};
    const bool visible =
        shape_.MayBeSeen(t) && b >= std::numeric_limits<T>::lowest();
    T power;
    const T mantissa = SplitExpFast(visible ? b - shift : T{0}, &power);
    mantissa_[t] = visible ? mantissa : T{0};
    exponent_[t] = visible ? power : kNoExponent<T>;
  }
}

template <typename T>
int64_t BiasByRow<T>::Horizon() const {
  if (shape_.is_image()) return shape_.n_k - 1;
  int64_t t = mantissa_.size() - 1;
  while (t > 0 && mantissa_[t] == 0) --t;
  return t - shape_.BiasMiddle();
}

// ---- features --------------------------------------------------------------

template <typename T>
QuadraticFeatures<T>::QuadraticFeatures(const KernelizedShape& shape,
                                        int64_t tile, Layout& layout)
    : shape_(shape),
      features_(shape.map),
      tile_(tile),
      bias_(shape, layout),
      k_mantissa_(layout, shape.n_k * shape.f),
      k_exponent_(layout, shape.n_k * shape.f),
      k_values_(
          layout,
          (tile ? (shape.n_k + tile - 1) / tile * tile : shape.n_k) * shape.f),
      k_row_(layout, shape.WeighsPairs() ? shape.n_k : 0),
      q_mantissa_(layout, shape.n_q * shape.f),
      q_exponent_(layout, shape.n_q * shape.f),
      q_top_(layout, shape.n_q),
      scale_numbers_(layout, shape.f),
      live_(layout, shape.f),
      negative_scale_(layout, shape.f),
      factor_(layout, shape.f),
      scratch_(layout, features_.ScratchSize(kBlock)),
      direct_(layout,
              shape.WeighsPairs() ? Cut<T>::template Size<Direct>(shape) : 0),
      scale_(scale_numbers_.data(), live_.data(), shape.f) {}

template <typename T>
void QuadraticFeatures<T>::Compute(ThreadPool& pool,
                                   const HeadTensors<T>& head) {
  keys_ = head.keys;
  const int64_t k_blocks = (keys_ + kBlock - 1) / kBlock;
  const int64_t q_blocks = (shape_.n_q + kBlock - 1) / kBlock;
  pool.For(k_blocks + q_blocks, [&](int64_t block, int worker) {
    const bool key = block < k_blocks;
    const int64_t row = (key ? block : block - k_blocks) * kBlock;
    const int64_t count = std::min(kBlock, (key ? keys_ : shape_.n_q) - row);
    features_.Compute(
        (key ? head.k : head.q) + row * shape_.d, count, head.omega,
        scratch_[worker],
        (key ? k_mantissa_ : q_mantissa_).data() + row * shape_.f,
        (key ? k_exponent_ : q_exponent_).data() + row * shape_.f);
    if (key)
      head.HideKeys(row, count, shape_.f, k_mantissa_.data() + row * shape_.f,
                    k_exponent_.data() + row * shape_.f);
  });
  horizon_ = shape_.n_k - 1;
  if (!bias_.empty()) {
    bias_.Split(head.bias);
    horizon_ = bias_.Horizon();
  }
  horizon_ = std::min(horizon_, shape_.seen.LastOfZero());
  scale_.Clear();
}

// With a bias, each key is scaled to about 1 separately: a small key may be the
// only one that the bias lets a query see.
template <typename T>
void QuadraticFeatures<T>::StoreKey(int64_t j) {
  const int64_t f = shape_.f;
  const T* mantissa = k_mantissa_.data() + j * f;
  const T* exponent = k_exponent_.data() + j * f;
  T top = 0;
  if (!bias_.empty()) {
    T* negative = negative_scale_.data();
    for (int64_t a = 0; a < f; ++a) negative[a] = -scale_.scale()[a];
    top = std::max(LargestSum(exponent, negative, f), kNoExponent<T>);
    k_row_[j] = top;
  }
  const int64_t stride = tile_ ? tile_ : 1;
  T* values =
      k_values_.data() + (tile_ ? j / tile_ * tile_ * f + j % tile_ : j * f);
  for (int64_t a = 0; a < f; ++a)
    values[a * stride] =
        mantissa[a] * PowerOfTwo(exponent[a] - scale_.scale()[a] - top);
}

template <typename T>
void QuadraticFeatures<T>::DirectRow(const HeadTensors<T>& head, int64_t i,
                                     int worker) const {
  const int64_t f = shape_.f, e = shape_.e;
  const Direct direct = Cut<T>::template Make<Direct>(direct_[worker], shape_);
  T *const q_mantissa = direct.q_mantissa, *const q_exponent =
                                               direct.q_exponent;
  features_.Compute(head.q + i * shape_.d, 1, head.omega, direct.scratch,
                    q_mantissa, q_exponent);
  T* const out = head.out + i * e;
  std::fill_n(out, e, T{0});
  T top = 4 * kNoExponent<T>, total = 0;
  bias_.ForRow(
      i, FirstSeenBy(i), SeenBy(i),
      [&](int64_t first, int64_t count, const T* mantissas, const T* powers) {
        for (int64_t x = 0; x < count; ++x) {
          const int64_t j = first + x;
          const T* exponents = k_exponent_.data() + j * f;
          T exponent = LargestSum(q_exponent, exponents, f);
          if (mantissas[x] == 0 || !(exponent > kLeastExponent<T>) ||
              head.Hides(i, j))
            continue;
          const T product =
              PairProduct(q_mantissa, q_exponent, k_mantissa_.data() + j * f,
                          exponents, exponent, f);
          exponent += powers[x];
          if (exponent > top) {
            const T factor = PowerOfTwo(top - exponent);
            total *= factor;
            for (int64_t c = 0; c < e; ++c) out[c] *= factor;
            top = exponent;
          }
          const T weight = product * mantissas[x] * PowerOfTwo(exponent - top);
          total += weight;
          for (int64_t c = 0; c < e; ++c) out[c] += weight * head.v[j * e + c];
        }
      });
  subquad::WriteRow(shape_.normaliser, out, total,
                    ScaleOfSums(static_cast<double>(top),
                                CommonWeight(head.bias, shape_.BiasCount())),
                    e, out);
}

// ---- dense -----------------------------------------------------------------

double QuadraticFlops(const KernelizedShape& shape) {
  return static_cast<double>(shape.heads) * shape.SeenPairs() *
         (2.0 * static_cast<double>(shape.f + shape.e) + 1);
}

template <typename T>
DenseKernelized<T>::DenseKernelized(const KernelizedShape& shape,
                                    Layout& layout)
    : shape_(shape),
      features_(shape, 0, layout),
      weights_(layout, shape.n_q * shape.n_k),
      values_(layout, shape.n_k * ExtendedWidth<T>(shape.e)),
      work_(layout, Cut<T>::template Size<Work>(shape)) {}

// Processes the queries of one block in [first, last). The GEMMs have the shape
// of the whole block, with rows of zeros, whatever the run: a library may add
// in another order for another shape, and the ends of runs depend on later
// keys.
template <typename T>
void DenseKernelized<T>::ProcessBlock(const HeadTensors<T>& head, int64_t block,
                                      int64_t first, int64_t last,
                                      int worker) const {
  const Work work = Cut<T>::template Make<Work>(work_[worker], shape_);
  T* const sums = work.sums;
  const int64_t f = shape_.f, e = shape_.e, n_k = shape_.n_k;
  const int64_t width = ExtendedWidth<T>(e);
  const int64_t row = block * kRows;
  const int64_t rows = std::min(kRows, shape_.n_q - row);
  first = std::max(first, row);
  last = std::min(last, row + rows);
  const int64_t columns = shape_.seen.Before(head.index, row + rows);
  const T* queries = features_.queries() + row * f;
  if (first > row || last < row + rows) {
    std::fill_n(work.queries, rows * f, T{0});
    std::copy(queries + (first - row) * f, queries + (last - row) * f,
              work.queries + (first - row) * f);
    queries = work.queries;
  }
  auto weights = RowsOf(weights_.data() + row * n_k, rows, columns, n_k);
  Multiply(T{1}, RowsOf(queries, rows, f),
           RowsOf(features_.keys(), columns, f).transpose(), weights);
  for (int64_t i = first; i < last; ++i) {
    T* weight = weights_.data() + i * n_k;
    const int64_t visible = features_.SeenBy(i);
    if (!features_.bias().empty())
      features_.ApplyBias(head, i, 0, visible, features_.TopExponent(head, i),
                          weight);
    std::fill(weight + visible, weight + columns, T{0});
  }
  Multiply(T{1}, weights, RowsOf(values_.data(), columns, width),
           RowsOf(sums, rows, width));
  for (int64_t i = first; i < last; ++i)
    features_.WriteRow(head, i, sums + (i - row) * width,
                       sums[(i - row) * width + e], worker);
}

template <typename T>
void DenseKernelized<T>::Run(ThreadPool& pool,
                             const std::vector<HeadTensors<T>>& heads) {
  for (const HeadTensors<T>& head : heads) {
    ExtendValues(head.v, shape_.n_k, shape_.e, values_.data());
    features_.ForRuns(pool, head, [&](int64_t first, int64_t last) {
      const int64_t blocks = (last - 1) / kRows - first / kRows + 1;
      pool.For(blocks, [&](int64_t block, int worker) {
        ProcessBlock(head, first / kRows + block, first, last, worker);
      });
    });
  }
}

// ---- tiled -----------------------------------------------------------------

namespace {

// Computes scores[r][x] = sum_a queries[r][a] keys[a][x], for kGroup rows and a
// tile; the keys are in panels [f][two vectors].
template <typename T, int kGroup, int kTile>
void ScoreTile(const T* queries, int64_t f, const T* keys, int64_t count,
               T* scores) {
  using V = Lanes<T>;
  constexpr int kCount = kLaneCount<T>, kPanel = 2 * kCount;
  for (int64_t x = 0; x < count; x += kPanel) {
    V sum[kGroup][2] = {};
    for (int64_t a = 0; a < f; ++a) {
      const T* key = keys + x * f + a * kPanel;
      const V left = LoadLanes(key), right = LoadLanes(key + kCount);
      for (int r = 0; r < kGroup; ++r) {
        const T query = queries[r * f + a];
        sum[r][0] += query * left;
        sum[r][1] += query * right;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kGroup; ++r) {
      T* const to = scores + r * kTile + x;
      StoreLanes(sum[r][0], to);
      StoreLanes(sum[r][1], to + kCount);
    }
  }
}

// Computes sums[r] += sum over j < count of scores[r][j] values[j]: the tile's
// own sum first, so that rounding grows with kTile + n / kTile terms instead of
// n.
template <typename T, int kGroup, int kTile, int kVectors>
void AddPanel(const T* scores, const T* values, int64_t count, int64_t width,
              T* sums) {
  using V = Lanes<T>;
  constexpr int kCount = kLaneCount<T>;
  V sum[kGroup][kVectors] = {};
  for (int64_t j = 0; j < count; ++j) {
    const T* value = values + j * width;
    V v[kVectors];
    for (int c = 0; c < kVectors; ++c) v[c] = LoadLanes(value + c * kCount);
    for (int r = 0; r < kGroup; ++r) {
      const T score = scores[r * kTile + j];
      for (int c = 0; c < kVectors; ++c) sum[r][c] += score * v[c];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kGroup; ++r)
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) {
      T* const to = sums + r * width + c * kCount;
      StoreLanes(LoadLanes(to) + sum[r][c], to);
    }
}

// Computes totals[r] += sum of scores[r][j] over a tile, lane by lane.
template <typename T, int kGroup, int kTile>
void AddTotals(const T* scores, T* totals) {
  constexpr int kCount = kLaneCount<T>;
  for (int r = 0; r < kGroup; ++r) {
    const T* score = scores + r * kTile;
    Lanes<T> sum = LoadLanes(score);
    for (int c = kCount; c < kTile; c += kCount) sum += LoadLanes(score + c);
    T* const to = totals + r * kCount;
    StoreLanes(LoadLanes(to) + sum, to);
  }
}

}  // namespace

template <typename T>
TiledKernelized<T>::TiledKernelized(const KernelizedShape& shape,
                                    Layout& layout)
    : shape_(shape),
      rows_(Rows(shape, layout.threads())),
      features_(shape, kPanel, layout),
      values_(layout, shape.n_k * Width(shape)),
      work_(layout, WholeLines<T>(Cut<T>::template Size<Work>(shape, rows_))) {}

template <typename T>
void TiledKernelized<T>::ProcessRows(const HeadTensors<T>& head, int64_t row,
                                     int64_t first, int64_t last,
                                     int worker) const {
  const int64_t f = shape_.f, width = Width(shape_);
  const int64_t end = std::min(row + rows_, shape_.n_q);
  first = std::max(first, row);
  last = std::min(last, end);
  const Work work = Cut<T>::template Make<Work>(work_[worker], shape_, rows_);
  T *const sums = work.sums, *const totals = work.totals,
           *const scores = work.scores, *const queries = work.queries;
  T tops[kMostRows];
  std::fill_n(sums, rows_ * (width + kLanes), T{0});
  if (!features_.bias().empty())
    for (int64_t i = first; i < last; ++i)
      tops[i - row] = features_.TopExponent(head, i);
  const int64_t seen_by_last = features_.SeenBy(last - 1);
  for (int64_t key = features_.FirstSeenBy(first) / kTile * kTile;
       key < seen_by_last; key += kTile) {
    const int64_t count = std::min(kTile, shape_.n_k - key);
    for (int64_t group = row; group < end; group += kGroup) {
      if (group + kGroup <= first || group >= last) continue;
      const int64_t rows = std::min(kGroup, end - group);
      const T* q = features_.queries() + group * f;
      if (rows < kGroup) {  // the last group
        std::fill_n(queries, kGroup * f, T{0});
        std::copy_n(q, rows * f, queries);
        q = queries;
      }
      ScoreTile<T, kGroup, kTile>(q, f, features_.keys() + key * f, count,
                                  scores);
      for (int64_t r = 0; r < kGroup; ++r) {
        const int64_t i = group + r;
        T* score = scores + r * kTile;
        const bool mine = i >= first && i < last;
        const int64_t visible =
            mine ? std::clamp<int64_t>(features_.SeenBy(i) - key, 0, count) : 0;
        if (visible > 0 && !features_.bias().empty())
          features_.ApplyBias(head, i, key, key + visible, tops[i - row],
                              score);
        std::fill(score + visible, score + kTile, T{0});
      }
      AddTotals<T, kGroup, kTile>(scores, totals + (group - row) * kLanes);
      const T* values = values_.data() + key * width;
      T* to = sums + (group - row) * width;
      int64_t c = 0;
      for (; c + 2 * kLanes <= width; c += 2 * kLanes)
        AddPanel<T, kGroup, kTile, 2>(scores, values + c, count, width, to + c);
      for (; c < width; c += kLanes)
        AddPanel<T, kGroup, kTile, 1>(scores, values + c, count, width, to + c);
    }
  }
  for (int64_t i = first; i < last; ++i) {
    const T* lanes = totals + (i - row) * kLanes;
    features_.WriteRow(head, i, sums + (i - row) * width,
                       std::accumulate(lanes, lanes + kLanes, T{0}), worker);
  }
}

template <typename T>
void TiledKernelized<T>::Run(ThreadPool& pool,
                             const std::vector<HeadTensors<T>>& heads) {
  const int64_t width = Width(shape_);
  for (const HeadTensors<T>& head : heads) {
    for (int64_t j = 0; j < shape_.n_k; ++j) {
      T* value = values_.data() + j * width;
      std::copy_n(head.v + j * shape_.e, shape_.e, value);
      std::fill(value + shape_.e, value + width, T{0});
    }
    features_.ForRuns(pool, head, [&](int64_t first, int64_t last) {
      const int64_t tasks = (last - 1) / rows_ - first / rows_ + 1;
      pool.For(tasks, [&](int64_t task, int worker) {
        ProcessRows(head, (first / rows_ + task) * rows_, first, last, worker);
      });
    });
  }
}

template class BiasByRow<float>;
template class BiasByRow<double>;
template class QuadraticFeatures<float>;
template class QuadraticFeatures<double>;
template class DenseKernelized<float>;
template class DenseKernelized<double>;
template class TiledKernelized<float>;
template class TiledKernelized<double>;

}  // namespace subquad
