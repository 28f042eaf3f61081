// clipped_rpe_product: out = S v, S_ij = q_i . rpe[clip(j-i, -r, r) + r]
// (LRPE section III)
//
//   dense     Q rpe^T by GEMM, spread out to the matrix S in memory, S times v
//             by GEMM: O(n (r d + n e)) time, O(n^2) memory.
//   windowed  per block of queries one sum of values for each tail and a GEMM
//             for the window between them: O(n r (d + e)) time, O(n) memory
//             with a small constant; see optimized/kernelized/clipped_window.h.
#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/kernelized/clipped_window.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

constexpr int64_t kDenseBlock = 256;

template <typename T>
class DenseClipped : public Prepared {
 public:
  DenseClipped(const Problem& problem, const Arrays& arrays, Layout& layout)
      : window_(problem, kDenseBlock),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        weights_(layout, window_.n_q * window_.columns()),
        product_(layout, window_.n_q, window_.n_k, e_) {}

  void Run() override {
    const int64_t columns = window_.columns();
    const auto fill_row = [&](int64_t i, T* row) {
      window_.FillRow(weights_.data() + i * columns, i, 0, window_.n_k, row);
    };
    for (int64_t h = 0; h < heads_; ++h) {
      const T* q = arrays_.In<T>("q").Head(h);
      const ConstMatrixMap<T> rpe(
          arrays_.In<T>("rpe").Head(h) + window_.first_row() * d_, columns, d_,
          Eigen::OuterStride<>(d_));
      pool_.For(window_.blocks(), [&](int64_t b, int) {
        const int64_t first = b * kDenseBlock;
        const int64_t rows = std::min(kDenseBlock, window_.n_q - first);
        MatrixMap<T>(weights_.data() + first * columns, rows, columns,
                     Eigen::OuterStride<>(columns))
            .noalias() = ConstMatrixMap<T>(q + first * d_, rows, d_,
                                           Eigen::OuterStride<>(d_)) *
                         rpe.transpose();
      });
      product_.Run(pool_, fill_row, arrays_.In<T>("v").Head(h),
                   arrays_.Out<T>("out").Head(h));
    }
  }

  double Flops() const override {
    return static_cast<double>(heads_) *
           (2.0 * static_cast<double>(weights_.size() * d_) + product_.Flops());
  }

 private:
  const ClippedWindow window_;
  const int64_t d_, e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> weights_;
  MaterializedProduct<T> product_;
};

template <typename T>
class Windowed : public Prepared {
 public:
  Windowed(const Problem& problem, const Arrays& arrays, Layout& layout)
      : window_(problem, ClippedWindow::BlockFor(problem)),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        tails_(layout, window_, e_),
        weights_(layout, window_.block * window_.columns()),
        tiles_(layout, window_.block * window_.widest()) {}

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      tails_.Run(pool_, arrays_.In<T>("v").Head(h));
      pool_.For(window_.blocks(),
                [&](int64_t b, int worker) { RunBlock(h, b, worker); });
    }
  }

  double Flops() const override {
    const double n_q = static_cast<double>(window_.n_q);
    const double e = static_cast<double>(e_);
    return static_cast<double>(heads_) *
           (2 * n_q *
                static_cast<double>(window_.columns() * d_ +
                                    window_.widest() * e_) +
            4 * n_q * e + tails_.Flops());
  }

 private:
  void RunBlock(int64_t h, int64_t b, int worker) {
    const int64_t columns = window_.columns();
    const int64_t first = b * window_.block;
    const int64_t rows = std::min(window_.block, window_.n_q - first);
    const ConstMatrixMap<T> q(arrays_.In<T>("q").Head(h) + first * d_, rows, d_,
                              Eigen::OuterStride<>(d_));
    const ConstMatrixMap<T> rpe(
        arrays_.In<T>("rpe").Head(h) + window_.first_row() * d_, columns, d_,
        Eigen::OuterStride<>(d_));
    T* const weights = weights_[worker];
    MatrixMap<T>(weights, rows, columns, Eigen::OuterStride<>(columns))
        .noalias() = q * rpe.transpose();

    T* const out = arrays_.Out<T>("out").Head(h) + first * e_;
    const int64_t begin = window_.Begin(b), width = window_.End(b) - begin;
    const T* before = tails_.Before(b);
    const T* after = tails_.After(b);
    for (int64_t i = 0; i < rows; ++i) {
      const T* row = weights + i * columns;
      std::fill_n(out + i * e_, e_, T{0});
      if (before) AddScaled(row[0], before, out + i * e_);
      if (after) AddScaled(row[columns - 1], after, out + i * e_);
    }
    if (width == 0) return;
    T* const tile = tiles_[worker];
    for (int64_t i = 0; i < rows; ++i)
      window_.FillRow(weights + i * columns, first + i, begin, begin + width,
                      tile + i * width);
    MatrixMap<T>(out, rows, e_, Eigen::OuterStride<>(e_)).noalias() +=
        ConstMatrixMap<T>(tile, rows, width, Eigen::OuterStride<>(width)) *
        ConstMatrixMap<T>(arrays_.In<T>("v").Head(h) + begin * e_, width, e_,
                          Eigen::OuterStride<>(e_));
  }

  void AddScaled(T factor, const T* sum, T* row) const {
    for (int64_t x = 0; x < e_; ++x) row[x] += factor * sum[x];
  }

  const ClippedWindow window_;
  const int64_t d_, e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  TailSums<T> tails_;
  PerThread<T> weights_, tiles_;
};

}  // namespace

std::vector<Implementation> ClippedRpeProductImplementations() {
  return CpuTable(
      "clipped_rpe_product",
      {{.id = "dense",
        .what = "scores of all offsets, spread to a matrix, times v (GEMMs)",
        .sums = DirectSums,
        .prepare = PrepareFor<DenseClipped>},
       {.id = "windowed",
        .what = "a sum for each tail, a GEMM for the window, by query blocks",
        .memory = {"O(n e / B + B r), B = 32..128", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<Windowed>}});
}

}  // namespace subquad
