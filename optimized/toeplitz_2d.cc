// toeplitz_2d: out[(r,c)] = sum w(r'-r, c'-c) v[(r',c')]   (NPRF section 4.4)
//
//   dense         the matrix in memory times the values by GEMM: O((HW)^2 e).
//   fft2          two-level circulant embedding, 2-D transforms by FFTW:
//                 O(e HW log HW) time, O(HW) memory per column in flight.
//   fft_sequence  the image as one sequence (image_sequence.h), a Toeplitz
//                 product by our FFT with the columns in SIMD lanes: as many
//                 operations as fft2, one vector of columns in flight.
//
// All have a backward pass: the adjoint product, and for the gradient of the
// weights one sum over all columns of products of spectra.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "optimized/base/fftw_programs.h"
#include "optimized/base/prepare.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/fft_columns.h"
#include "optimized/toeplitz/fft_lengths.h"
#include "optimized/toeplitz/gradient_sums.h"
#include "optimized/toeplitz/image_sequence.h"
#include "optimized/toeplitz/materialized.h"
#include "optimized/toeplitz/sizes_2d.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

using Sizes = Toeplitz2dSizes;

template <typename T>
class Dense : public Prepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        product_(layout, sizes_.pixels(), sizes_.pixels(), sizes_.e) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    if (!backward_) {
      const auto out = arrays_.Out<T>("out");
      for (int64_t h = 0; h < sizes_.heads; ++h)
        product_.Run(pool_, FillFrom(weights.Head(h)), values.Head(h),
                     out.Head(h));
      return;
    }
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      product_.RunTransposed(pool_, FillFrom(weights.Head(h)), grad.Head(h),
                             grad_values_->Head(h));
      const T* m = product_.RunOuter(pool_, grad.Head(h), values.Head(h));
      T* sums = grad_weights.Head(h);
      if (sizes_.vectors.IsFirst(h))
        std::fill_n(sums, (2 * sizes_.height - 1) * sizes_.pitch(), T{0});
      AddDiagonals(m, sums);
    }
    grad_values_->AddUp(pool_);
  }

  double Flops() const override {
    return (backward_ ? 2 : 1) * static_cast<double>(sizes_.heads) *
           product_.Flops();
  }

 private:
  // Returns the index of the weight of row i's first entry.
  int64_t FirstOffset(int64_t i) const {
    return (sizes_.height - 1 - i / sizes_.width) * sizes_.pitch() +
           sizes_.width - 1 - i % sizes_.width;
  }

  // Row i of the matrix is one slice of the weights for each row of the image.
  auto FillFrom(const T* weights) const {
    return [this, weights](int64_t i, T* row) {
      const T* from = weights + FirstOffset(i);
      for (int64_t r = 0; r < sizes_.height; ++r)
        std::copy_n(from + r * sizes_.pitch(), sizes_.width,
                    row + r * sizes_.width);
    };
  }

  void AddDiagonals(const T* m, T* weights) const {
    for (int64_t i = 0; i < sizes_.pixels(); ++i) {
      T* to = weights + FirstOffset(i);
      for (int64_t r = 0; r < sizes_.height; ++r, to += sizes_.pitch())
        for (int64_t c = 0; c < sizes_.width; ++c) to[c] += *m++;
    }
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
  std::optional<SharedGradient<T>> grad_values_;
};

template <typename T>
class FftSequence : public Prepared {
 public:
  FftSequence(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        pixels_(sizes_.height, sizes_.width),
        arrays_(arrays),
        pool_(layout),
        columns_(layout, pixels_.length(), pixels_.length()),
        block_(std::min(sizes_.e, ToeplitzColumns<T>::kBlockColumns)),
        spectrum_size_(columns_.SpectrumSize()),
        spectra_(layout, sizes_.vectors.count() * spectrum_size_, OnLine{}),
        scratch_(layout,
                 WholeLines<T>(backward_ ? columns_.GradientScratchSize(block_)
                                         : columns_.ScratchSize(block_)),
                 OnLine{}),
        sums_(layout, spectrum_size_, backward_) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int worker) {
      columns_.Spectrum(weights.Slice(vector), Offsets(), Spectrum(vector),
                        scratch_[worker]);
    });
    backward_ ? RunBackward() : RunForward();
  }

  double Flops() const override {
    return (backward_ ? 2.5 : 1) * static_cast<double>(sizes_.heads) *
           columns_.Flops(sizes_.e);
  }

 private:
  // Columns [first, first + a block) of pixels to read or to write.
  template <typename Number>
  struct Block {
    Number* pixels;
    int64_t e, columns, width;
  };

  T* Spectrum(int64_t vector) const {
    return spectra_.data() + vector * spectrum_size_;
  }
  int64_t Offsets() const { return 2 * pixels_.length() - 1; }
  int64_t BlocksPerHead() const { return (sizes_.e + block_ - 1) / block_; }
  template <typename Number>
  Block<Number> BlockOf(Number* head, int64_t first) const {
    const int64_t columns = std::min(block_, sizes_.e - first);
    return {head + first, sizes_.e, columns, columns_.BlockWidth(columns)};
  }

  void RunForward() {
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads * BlocksPerHead(), [&](int64_t task, int worker) {
      const int64_t h = task / BlocksPerHead();
      const int64_t first = task % BlocksPerHead() * block_;
      auto from = BlockOf(values.Head(h), first);
      auto to = BlockOf(out.Head(h), first);
      ApplyToImage(columns_, pixels_, Spectrum(sizes_.vectors.Of(h)),
                   {Fill, &from}, from.columns, {Take, &to}, scratch_[worker]);
    });
  }

  void RunBackward() {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    for (int64_t vector = 0; vector < sizes_.vectors.count(); ++vector) {
      const std::vector<int64_t> heads = sizes_.vectors.Readers(vector);
      const auto add = [&](int64_t task, T* sum, int worker) {
        const int64_t h = heads[task / BlocksPerHead()];
        const int64_t first = task % BlocksPerHead() * block_;
        auto of_grad = BlockOf(grad.Head(h), first);
        auto of_values = BlockOf(values.Head(h), first);
        auto to = BlockOf(grad_values_->Head(h), first);
        AccumulateImageGradient<T>(columns_, pixels_, {Fill, &of_grad},
                                   {Fill, &of_values}, to.columns, sum,
                                   scratch_[worker]);
        ApplyTransposedToImage(columns_, pixels_, Spectrum(vector),
                               {Fill, &of_grad}, to.columns, {Take, &to},
                               scratch_[worker]);
      };
      const auto tasks = static_cast<int64_t>(heads.size()) * BlocksPerHead();
      // The weights of the image are those of the sequence, in the same memory
      // order.
      columns_.WeightGradient(sums_.Run(pool_, tasks, add), Offsets(),
                              grad_weights.Slice(vector), scratch_[0]);
    }
    grad_values_->AddUp(pool_);
  }

  static void Fill(void* context, int64_t pixel, int64_t count, T* rows) {
    const auto& block = *static_cast<const Block<const T>*>(context);
    for (int64_t x = 0; x < count; ++x) {
      T* row = rows + x * block.width;
      std::copy_n(block.pixels + (pixel + x) * block.e, block.columns, row);
      std::fill(row + block.columns, row + block.width, T{0});
    }
  }

  static void Take(void* context, int64_t pixel, int64_t count, const T* rows) {
    const auto& block = *static_cast<const Block<T>*>(context);
    for (int64_t x = 0; x < count; ++x)
      std::copy_n(rows + x * block.width, block.columns,
                  block.pixels + (pixel + x) * block.e);
  }

  const Sizes sizes_;
  const bool backward_;
  const ImageSequence pixels_;
  const Arrays arrays_;
  ThreadPool pool_;
  const ToeplitzColumns<T> columns_;
  const int64_t block_, spectrum_size_;
  Buffer<T> spectra_;
  PerThread<T> scratch_;
  GradientSums<T> sums_;
  std::optional<SharedGradient<T>> grad_values_;
};

// The bound of toeplitz_1d/fft, with log2 of all the points; the sequence of
// fft_sequence has as many, (2H - 1)(2W - 1), before rounding up.
RowBound Fft2Bound(const Problem& problem, const Inputs& inputs) {
  return Toeplitz2dBound(problem, inputs,
                         RoundingsOfTransforms(Sizes(problem).lengths()));
}

}  // namespace

std::vector<Implementation> Toeplitz2dImplementations() {
  return CpuTable(
      "toeplitz_2d",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareFor<Dense>},
       {.id = "fft2",
        .what = "two-level circulant embedding, 2-D transforms by FFTW",
        .sums = MixedSums,
        .backward = true,
        .norm_bound = Fft2Bound,
        .needs = "FFTW",
        .prepare = PrepareFft2d},
       {.id = "fft_sequence",
        .what = "the image as one sequence, our FFT with the columns in SIMD "
                "lanes",
        .memory = {"O(HW) per vector of columns in flight", "n"},
        .sums = MixedSums,
        .backward = true,
        .norm_bound = Fft2Bound,
        .prepare = PrepareFor<FftSequence>}});
}

}  // namespace subquad
