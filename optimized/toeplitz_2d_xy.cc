// toeplitz_2d_xy: out[(r,c)] = sum (w_rows(r'-r) + w_cols(c'-c)) v[(r',c')]
// (FastRPB section 3.2.2)
//
//   dense   the matrix in memory times the values by GEMM: O((HW)^2 e).
//   xy      the row part sees an image row only through its sum, the column
//           part a column through its own: two sums over the pixels, two 1-D
//           Toeplitz products, one broadcast add. O(e (HW + H log H + W log
//           W)); the HW term, which the paper leaves out, is the reading of v.
//
// Both have a backward pass. That of xy costs as much again: the adjoint
// products of the gradient's sums, and the gradients of the weights from the
// sums of the gradient and of the values.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/line_product.h"
#include "optimized/toeplitz/materialized.h"
#include "reference/contract/norms.h"

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
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        product_(layout, sizes_.pixels(), sizes_.pixels(), sizes_.e),
        row_pairs_(layout, backward_ ? sizes_.height * sizes_.height : 0),
        col_pairs_(layout, backward_ ? sizes_.width * sizes_.width : 0),
        line_(layout, backward_ ? sizes_.width : 0) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h)
      backward_ ? RunBackward(h) : RunForward(h);
    if (backward_) grad_values_->AddUp(pool_);
  }

  double Flops() const override {
    return (backward_ ? 2 : 1) * static_cast<double>(sizes_.heads) *
           product_.Flops();
  }

 private:
  auto FillFrom(int64_t h) const {
    const int64_t height = sizes_.height, width = sizes_.width;
    const T* w_rows = arrays_.In<T>("weights_rows").Head(h);
    const T* w_cols = arrays_.In<T>("weights_cols").Head(h);
    return [=](int64_t i, T* row) {
      const T* rows = w_rows + height - 1 - i / width;
      const T* cols = w_cols + width - 1 - i % width;
      for (int64_t r = 0; r < height; ++r)
        for (int64_t c = 0; c < width; ++c)
          row[r * width + c] = rows[r] + cols[c];
    };
  }

  void RunForward(int64_t h) {
    product_.Run(pool_, FillFrom(h), arrays_.In<T>("values").Head(h),
                 arrays_.Out<T>("out").Head(h));
  }

  void RunBackward(int64_t h) {
    const T* grad = arrays_.In<T>("grad").Head(h);
    product_.RunTransposed(pool_, FillFrom(h), grad, grad_values_->Head(h));
    AddPairs(product_.RunOuter(pool_, grad, arrays_.In<T>("values").Head(h)));
    AddDiagonals("grad_weights_rows", h, row_pairs_.data(), sizes_.height);
    AddDiagonals("grad_weights_cols", h, col_pairs_.data(), sizes_.width);
  }

  // Sums the matrix of pairs of pixels to pairs of rows and of columns: first
  // along one of the two pixels, then along the other, so that no sum is longer
  // than twice a side.
  void AddPairs(const T* m) {
    const int64_t height = sizes_.height, width = sizes_.width;
    T* const rows = row_pairs_.data();
    T* const cols = col_pairs_.data();
    std::fill_n(rows, height * height, T{0});
    std::fill_n(cols, width * width, T{0});
    T* const line = line_.data();
    for (int64_t i = 0; i < height * width; ++i) {
      std::fill_n(line, width, T{0});
      for (int64_t r = 0; r < height; ++r) {
        T sum = 0;
        for (int64_t c = 0; c < width; ++c) {
          const T pair = *m++;
          sum += pair;
          line[c] += pair;
        }
        rows[i / width * height + r] += sum;
      }
      for (int64_t c = 0; c < width; ++c)
        cols[i % width * width + c] += line[c];
    }
  }

  // Sums pairs [n, n] by offset, over the heads that share the weights.
  void AddDiagonals(const char* name, int64_t h, const T* pairs,
                    int64_t n) const {
    const auto out = arrays_.Out<T>(name);
    T* const sums = out.Head(h);
    if (out.slices.IsFirst(h)) std::fill_n(sums, 2 * n - 1, T{0});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) sums[j - i + n - 1] += pairs[i * n + j];
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
  Buffer<T> row_pairs_, col_pairs_, line_;
  std::optional<SharedGradient<T>> grad_values_;
};

// Number of bands of image rows: fixed, so that threads do not change the sums.
constexpr int64_t kBands = 8;
// Rows and columns are added up in parts of this many: the error of a sum grows
// with the number of additions that a value passes through.
constexpr int64_t kPart = 32;

int64_t Bands(int64_t height) { return std::min(kBands, height); }

int64_t BandStart(int64_t height, int64_t band) {
  return band * height / Bands(height);
}

// Returns the rows of the largest band.
int64_t BandHeight(int64_t height) {
  return (height + Bands(height) - 1) / Bands(height);
}

// Computes the sums of an image's rows, [height, e], and of its columns,
// [width, e].
template <typename T>
class ImageSums {
 public:
  ImageSums(Layout& layout, const Sizes& sizes)
      : sizes_(sizes),
        bands_(Bands(sizes.height)),
        rows_(layout, sizes.height * sizes.e),
        row_parts_(layout, bands_ * sizes.e),
        cols_(layout, bands_ * sizes.width * sizes.e),
        col_parts_(layout, bands_ * std::min(kPart, sizes.width) * sizes.e) {}

  const T* rows() const { return rows_.data(); }
  const T* cols() const { return cols_.data(); }

  void Run(ThreadPool& pool, const T* pixels) const {
    pool.For(bands_, [&](int64_t band, int) { SumBand(pixels, band); });
    const int64_t size = sizes_.width * sizes_.e;
    T* const cols = cols_.data();
    for (int64_t band = 1; band < bands_; ++band)
      for (int64_t x = 0; x < size; ++x) cols[x] += cols[band * size + x];
  }

 private:
  struct Range {
    int64_t first, last;
  };

  void SumBand(const T* pixels, int64_t band) const {
    const int64_t width = sizes_.width, e = sizes_.e;
    const int64_t start = BandStart(sizes_.height, band);
    const int64_t end = BandStart(sizes_.height, band + 1);
    std::fill(rows_.data() + start * e, rows_.data() + end * e, T{0});
    std::fill_n(cols_.data() + band * width * e, width * e, T{0});
    for (int64_t r = start; r < end; r += kPart)
      for (int64_t c = 0; c < width; c += kPart)
        SumPart(pixels, band, {r, std::min(r + kPart, end)},
                {c, std::min(c + kPart, width)});
  }

  // Adds the sums of kPart x kPart pixels to those of the band.
  void SumPart(const T* pixels, int64_t band, Range rows, Range columns) const {
    const int64_t width = sizes_.width, e = sizes_.e;
    const int64_t count = (columns.last - columns.first) * e;
    T* const col_part = col_parts_.data() + band * std::min(kPart, width) * e;
    T* const row_part = row_parts_.data() + band * e;
    std::fill_n(col_part, count, T{0});
    for (int64_t r = rows.first; r < rows.last; ++r) {
      const T* const from = pixels + (r * width + columns.first) * e;
      std::fill_n(row_part, e, T{0});
      for (int64_t first = 0; first < count; first += e)
        for (int64_t x = 0; x < e; ++x) {
          const T value = from[first + x];
          row_part[x] += value;
          col_part[first + x] += value;
        }
      T* const row = rows_.data() + r * e;
      for (int64_t x = 0; x < e; ++x) row[x] += row_part[x];
    }
    T* const cols = cols_.data() + (band * width + columns.first) * e;
    for (int64_t x = 0; x < count; ++x) cols[x] += col_part[x];
  }

  const Sizes sizes_;
  const int64_t bands_;
  const Buffer<T> rows_, row_parts_, cols_, col_parts_;
};

template <typename T>
class Xy : public Prepared {
 public:
  Xy(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        rows_(layout, sizes_.height, sizes_.e, backward_),
        cols_(layout, sizes_.width, sizes_.e, backward_),
        sums_(layout, sizes_),
        row_products_(layout, sizes_.height * sizes_.e),
        col_products_(layout, sizes_.width * sizes_.e) {
    if (!backward_) return;
    value_sums_.emplace(layout, sizes_);
    grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h)
      backward_ ? RunBackward(h) : RunForward(h);
    if (backward_) grad_values_->AddUp(pool_);
  }

  // Counts three additions for each value: into two sums, and of two products.
  double Flops() const override {
    const double additions =
        (backward_ ? 5.0 : 3.0) * static_cast<double>(sizes_.pixels());
    return static_cast<double>(sizes_.heads) *
           (additions * static_cast<double>(sizes_.e) +
            (backward_ ? 2.5 : 1.0) * (rows_.Flops() + cols_.Flops()));
  }

 private:
  void RunForward(int64_t h) {
    sums_.Run(pool_, arrays_.In<T>("values").Head(h));
    const T* w_rows = arrays_.In<T>("weights_rows").Head(h);
    const T* w_cols = arrays_.In<T>("weights_cols").Head(h);
    pool_.For(2, [&](int64_t which, int) {
      if (which == 0)
        rows_.Run(w_rows, sums_.rows(), row_products_.data());
      else
        cols_.Run(w_cols, sums_.cols(), col_products_.data());
    });
    AddProducts(arrays_.Out<T>("out").Head(h));
  }

  void RunBackward(int64_t h) {
    sums_.Run(pool_, arrays_.In<T>("grad").Head(h));
    value_sums_->Run(pool_, arrays_.In<T>("values").Head(h));
    const auto w_rows = arrays_.In<T>("weights_rows");
    const auto w_cols = arrays_.In<T>("weights_cols");
    pool_.For(2, [&](int64_t which, int) {
      if (which == 0) {
        rows_.RunTransposed(w_rows.Head(h), sums_.rows(), row_products_.data());
        AddGradient("grad_weights_rows", h, rows_, sums_.rows(),
                    value_sums_->rows(), 2 * sizes_.height - 1);
      } else {
        cols_.RunTransposed(w_cols.Head(h), sums_.cols(), col_products_.data());
        AddGradient("grad_weights_cols", h, cols_, sums_.cols(),
                    value_sums_->cols(), 2 * sizes_.width - 1);
      }
    });
    AddProducts(grad_values_->Head(h));
  }

  // Adds the gradient of the weights over the heads that share them.
  void AddGradient(const char* name, int64_t h, const LineProduct<T>& product,
                   const T* grad, const T* values, int64_t count) const {
    const auto out = arrays_.Out<T>(name);
    if (out.slices.IsFirst(h)) std::fill_n(out.Head(h), count, T{0});
    product.AddGradient(grad, values, out.Head(h));
  }

  // Computes pixel (r, c) = row product r + column product c.
  void AddProducts(T* out) {
    const int64_t width = sizes_.width, e = sizes_.e;
    pool_.For(Bands(sizes_.height), [&](int64_t band, int) {
      for (int64_t r = BandStart(sizes_.height, band);
           r < BandStart(sizes_.height, band + 1); ++r) {
        const T* row = row_products_.data() + r * e;
        for (int64_t c = 0; c < width; ++c) {
          const T* col = col_products_.data() + c * e;
          T* pixel = out + (r * width + c) * e;
          for (int64_t x = 0; x < e; ++x) pixel[x] = row[x] + col[x];
        }
      }
    });
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const LineProduct<T> rows_, cols_;
  const ImageSums<T> sums_;  // sums of the values; backward, of the gradient
  Buffer<T> row_products_, col_products_;
  std::optional<ImageSums<T>> value_sums_;
  std::optional<SharedGradient<T>> grad_values_;
};

Sums XySums(const Problem& problem) {
  const Sizes sizes(problem);
  return std::max(sizes.height, sizes.width) <=
                 LineProduct<float>::kDirectLength
             ? Sums::kDirect
             : Sums::kMixed;
}

// A value in a row sum of W pixels passes through at most D = kPart + W / kPart
// additions, so that the sum is off by at most D u |v_row|_1, and the vector of
// row sums by D u sqrt(W) |v|_2; its product with the weights by |w|_2 times
// that. The transforms add 2 log2(L) u |w|_2 |sums|_2 with |sums|_2 <= sqrt(W)
// |v|_2. Likewise columns, whose bands are added up last.
//
// The gradient of the weights consists of two such sums for each of e columns
// and all heads that share the weights: off by (2 D + 2 log2(L)) u W |g|_2
// |v|_2 for each, and by one rounding for each of the additions of columns and
// heads.
class XyErrors {
 public:
  XyErrors(const Problem& problem, const Inputs& inputs)
      : sizes_(problem), inputs_(inputs) {}

  double OfProduct(int64_t head) const {
    const Line of_rows = Rows(), of_cols = Cols();
    return OfProduct(of_rows, "weights_rows", head) +
           OfProduct(of_cols, "weights_cols", head);
  }

  // Returns the error for every slice of the weights.
  std::vector<double> OfWeights(const Problem& problem, bool rows) const {
    const Line line = rows ? Rows() : Cols();
    const Slices slices =
        problem.SlicesOf(rows ? "weights_rows" : "weights_cols");
    const int64_t e = sizes_.e, pixels = sizes_.pixels();
    const auto g = ColumnNorms(inputs_["grad"], sizes_.heads, pixels, e);
    const auto v = ColumnNorms(inputs_["values"], sizes_.heads, pixels, e);
    std::vector<double> errors(static_cast<size_t>(slices.count()));
    for (int64_t c = 0; c < sizes_.heads * e; ++c)
      errors[slices.Of(c / e)] += g[c] * v[c];
    for (int64_t slice = 0; slice < slices.count(); ++slice)
      errors[slice] *= static_cast<double>(line.summed) *
                       (2 * static_cast<double>(line.additions) + line.product +
                        2 + static_cast<double>(e) +
                        static_cast<double>(slices.Readers(slice).size()));
    return errors;
  }

 private:
  // Sums of `summed` pixels, then products of vectors of these sums.
  struct Line {
    int64_t length, summed, additions;
    double product;
  };
  Line Rows() const {
    return {sizes_.height, sizes_.width, AdditionsInParts(sizes_.width, kPart),
            ProductError(sizes_.height)};
  }
  Line Cols() const {
    return {sizes_.width, sizes_.height,
            AdditionsInParts(BandHeight(sizes_.height), kPart) +
                Bands(sizes_.height),
            ProductError(sizes_.width)};
  }
  static double ProductError(int64_t length) {
    if (length <= LineProduct<float>::kDirectLength)
      return static_cast<double>(length);
    const double points =
        2.0 *
        static_cast<double>(ToeplitzColumns<float>::LengthFor(length, length));
    return 2 * std::log2(points);
  }

  double OfProduct(const Line& line, const char* weights, int64_t head) const {
    return Norm(inputs_[weights].Head(head), 2 * line.length - 1) *
           std::sqrt(static_cast<double>(line.summed)) *
           (static_cast<double>(line.additions) + line.product + 1);
  }

  const Sizes sizes_;
  const Inputs& inputs_;
};

RowBound XyBound(const Problem& problem, const Inputs& inputs) {
  const Sizes sizes(problem);
  const XyErrors errors(problem, inputs);
  const RowBound product = ColumnBound(
      inputs[problem.backward ? "grad" : "values"], sizes.heads, sizes.pixels(),
      sizes.e, [&](int64_t head) { return errors.OfProduct(head); });
  if (!problem.backward) return product;
  return [product, values = problem.SlicesOf("values"),
          rows = errors.OfWeights(problem, true),
          cols = errors.OfWeights(problem, false),
          of_rows = problem.OutputIndex("grad_weights_rows"),
          of_cols = problem.OutputIndex("grad_weights_cols")](
             const RowId& id, std::span<double> units) {
    if (id.output == of_rows)
      std::ranges::fill(units, rows[id.head]);
    else if (id.output == of_cols)
      std::ranges::fill(units, cols[id.head]);
    else
      AddOverHeads(product, values, id, units);
  };
}

}  // namespace

std::vector<Implementation> Toeplitz2dXyImplementations() {
  return CpuTable(
      "toeplitz_2d_xy",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareFor<Dense>},
       {.id = "xy",
        .what = "row and column sums, two 1-D products, a broadcast add",
        .memory = {"O(e (H + W))", "n^0.5"},
        .sums = XySums,
        .backward = true,
        .norm_bound = XyBound,
        .prepare = PrepareFor<Xy>}});
}

}  // namespace subquad
