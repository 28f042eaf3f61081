// toeplitz_2d_xy: out[(r,c)] = sum (w_rows(r'-r) + w_cols(c'-c)) v[(r',c')]
// (FastRPB section 3.2.2)
//
//   dense   the matrix in memory times the values by GEMM: O((HW)^2 e).
//   xy      the row part sees an image row only through its sum, the column
//           part a column through its: two sums over the pixels, two 1-D
//           Toeplitz products, one broadcast add. O(e (HW + H log H + W log
//           W)); the HW term, which the paper leaves out, is the reading of v.
#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/norms.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/circulant_fft.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : height(problem.Dim("height")),
        width(problem.Dim("width")),
        e(problem.Dim("e")),
        heads(problem.heads) {}
  int64_t pixels() const { return height * width; }
  int64_t height, width, e, heads;
};

template <typename T>
class Dense : public Prepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        product_(layout, sizes_.pixels(), sizes_.pixels(), sizes_.e) {}

  void Run() override {
    const int64_t height = sizes_.height, width = sizes_.width;
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      const T* w_rows = arrays_.In<T>("weights_rows").Head(h);
      const T* w_cols = arrays_.In<T>("weights_cols").Head(h);
      const auto fill_row = [=](int64_t i, T* row) {
        const T* rows = w_rows + height - 1 - i / width;
        const T* cols = w_cols + width - 1 - i % width;
        for (int64_t r = 0; r < height; ++r)
          for (int64_t c = 0; c < width; ++c)
            row[r * width + c] = rows[r] + cols[c];
      };
      product_.Run(pool_, fill_row, arrays_.In<T>("values").Head(h),
                   arrays_.Out<T>("out").Head(h));
    }
  }

  double Flops() const override {
    return static_cast<double>(sizes_.heads) * product_.Flops();
  }

 private:
  const Sizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
};

// Below this many points the product by definition is faster than transforms.
constexpr int64_t kDirectLength = 64;

// A square 1-D Toeplitz product of the sums, [n, e] -> [n, e].
template <typename T>
class LineProduct {
 public:
  LineProduct(Layout& layout, int64_t n, int64_t e)
      : n_(n), e_(e), length_(GoodFftLength(2 * n - 1)) {
    if (n_ <= kDirectLength) return;
    fft_ = std::make_unique<CirculantFft<T>>(layout,
                                             std::vector<int64_t>{length_});
    spectrum_ = Buffer<T>(layout, fft_->column_size(), OnLine{});
    columns_ = Buffer<T>(layout, Group() * fft_->column_size(), OnLine{});
  }

  void Run(const T* weights, const T* in, T* out) const {
    if (!fft_) return RunDirect(weights, in, out);
    T* spectrum = spectrum_.data();
    std::fill_n(spectrum, fft_->column_size(), T{0});
    EmbedOffsets(weights + n_ - 1, n_, n_, length_, spectrum);
    fft_->Forward(spectrum);
    for (int64_t first = 0; first < e_; first += Group()) {
      const int64_t count = std::min(Group(), e_ - first);
      GatherColumns(in + first, n_, e_, count, n_, fft_->row_stride(),
                    fft_->column_size(), columns_.data());
      for (int64_t c = 0; c < count; ++c) {
        T* column = columns_.data() + c * fft_->column_size();
        fft_->Forward(column);
        fft_->Multiply(spectrum, false, column);
        fft_->Backward(column);
      }
      ScatterColumns(columns_.data(), n_, e_, count, n_, fft_->row_stride(),
                     fft_->column_size(), out + first);
    }
  }

  double Flops() const {
    const double columns = static_cast<double>(e_);
    if (!fft_)
      return 2 * columns * static_cast<double>(n_) * static_cast<double>(n_);
    return (2 * columns + 1) * fft_->TransformFlops();
  }

 private:
  int64_t Group() const { return std::min(kColumnGroup, e_); }

  void RunDirect(const T* weights, const T* in, T* out) const {
    for (int64_t i = 0; i < n_; ++i) {
      T* row = out + i * e_;
      std::fill_n(row, e_, T{0});
      for (int64_t j = 0; j < n_; ++j) {
        const T weight = weights[j - i + n_ - 1];
        for (int64_t x = 0; x < e_; ++x) row[x] += weight * in[j * e_ + x];
      }
    }
  }

  int64_t n_, e_, length_;
  std::unique_ptr<CirculantFft<T>> fft_;
  Buffer<T> spectrum_, columns_;
};

// Bands of image rows: fixed, so that threads do not change the sums.
constexpr int64_t kBands = 8;

template <typename T>
class Xy : public Prepared {
 public:
  Xy(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        bands_(std::min(kBands, sizes_.height)),
        rows_(layout, sizes_.height, sizes_.e),
        cols_(layout, sizes_.width, sizes_.e),
        row_sums_(layout, sizes_.height * sizes_.e),
        col_sums_(layout, bands_ * sizes_.width * sizes_.e),
        row_products_(layout, sizes_.height * sizes_.e),
        col_products_(layout, sizes_.width * sizes_.e) {}

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h) RunHead(h);
  }

  // Three additions for each number: into two sums, and of two products.
  double Flops() const override {
    return static_cast<double>(sizes_.heads) *
           (3.0 * static_cast<double>(sizes_.pixels() * sizes_.e) +
            rows_.Flops() + cols_.Flops());
  }

 private:
  int64_t BandStart(int64_t band) const {
    return band * sizes_.height / bands_;
  }

  void RunHead(int64_t h) {
    const int64_t width = sizes_.width, e = sizes_.e;
    const T* v = arrays_.In<T>("values").Head(h);
    T* out = arrays_.Out<T>("out").Head(h);
    pool_.For(bands_, [&](int64_t band, int) {
      T* cols = col_sums_.data() + band * width * e;
      std::fill_n(cols, width * e, T{0});
      for (int64_t r = BandStart(band); r < BandStart(band + 1); ++r)
        SumRow(v + r * width * e, cols, row_sums_.data() + r * e);
    });
    T* cols = col_sums_.data();
    for (int64_t band = 1; band < bands_; ++band)
      for (int64_t x = 0; x < width * e; ++x)
        cols[x] += cols[band * width * e + x];
    const T* w_rows = arrays_.In<T>("weights_rows").Head(h);
    const T* w_cols = arrays_.In<T>("weights_cols").Head(h);
    pool_.For(2, [&](int64_t which, int) {
      if (which == 0)
        rows_.Run(w_rows, row_sums_.data(), row_products_.data());
      else
        cols_.Run(w_cols, cols, col_products_.data());
    });
    pool_.For(bands_, [&](int64_t band, int) {
      for (int64_t r = BandStart(band); r < BandStart(band + 1); ++r) {
        const T* row = row_products_.data() + r * e;
        for (int64_t c = 0; c < width; ++c) {
          const T* col = col_products_.data() + c * e;
          T* pixel = out + (r * width + c) * e;
          for (int64_t x = 0; x < e; ++x) pixel[x] = row[x] + col[x];
        }
      }
    });
  }

  // Adds the pixels of one image row to the column sums and to their own.
  void SumRow(const T* pixels, T* cols, T* row) const {
    const int64_t width = sizes_.width, e = sizes_.e;
    std::fill_n(row, e, T{0});
    for (int64_t c = 0; c < width; ++c)
      for (int64_t x = 0; x < e; ++x) {
        const T value = pixels[c * e + x];
        row[x] += value;
        cols[c * e + x] += value;
      }
  }

  const Sizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  const int64_t bands_;
  const LineProduct<T> rows_, cols_;
  Buffer<T> row_sums_, col_sums_, row_products_, col_products_;
};

Sums XySums(const Problem& problem) {
  const Sizes sizes(problem);
  return std::max(sizes.height, sizes.width) <= kDirectLength ? Sums::kDirect
                                                              : Sums::kMixed;
}

// A row sum of W pixels is off by at most W u |v_row|_2 (each partial sum is at
// most sqrt(W) |v_row|_2, and there are W of them; constant pixels come within
// a factor of two of it), so the vector of row sums by W u |v|_2, and its
// product with the weights by |w|_2 times that. The transforms add
// 2 log2(L) u |w|_2 |sums|_2 with |sums|_2 <= sqrt(W) |v|_2. Likewise columns.
RowBound XyBound(const Problem& problem, const Inputs& inputs) {
  const Sizes sizes(problem);
  const auto part = [](double weights, int64_t summed, int64_t length) {
    const double terms = static_cast<double>(summed);
    const double log_length =
        std::log2(static_cast<double>(GoodFftLength(2 * length - 1)) + 1);
    const double product =
        length <= kDirectLength ? static_cast<double>(length) : 2 * log_length;
    return weights * (terms + std::sqrt(terms) * (product + 1));
  };
  return ColumnBound(inputs["values"], sizes.heads, sizes.pixels(), sizes.e,
                     [&](int64_t head) {
                       return part(Norm(inputs["weights_rows"].Head(head),
                                        2 * sizes.height - 1),
                                   sizes.width, sizes.height) +
                              part(Norm(inputs["weights_cols"].Head(head),
                                        2 * sizes.width - 1),
                                   sizes.height, sizes.width);
                     });
}

}  // namespace

std::vector<Implementation> Toeplitz2dXyImplementations() {
  return CpuTable(
      "toeplitz_2d_xy",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "xy",
        .what = "row and column sums, two 1-D products, a broadcast add",
        .memory = {"O(e (H + W))", "n^0.5"},
        .sums = XySums,
        .norm_bound = XyBound,
        .prepare = PrepareFor<Xy>}});
}

}  // namespace subquad
