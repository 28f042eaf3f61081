// toeplitz_2d: out[(r,c)] = sum w(r'-r, c'-c) v[(r',c')]   (NPRF section 4.4)
//
//   dense         the matrix in memory times the values by GEMM: O((HW)^2 e).
//   fft2          two-level circulant embedding, 2-D transforms by FFTW:
//                 O(e HW log HW) time, O(HW) memory per column in flight.
//   fft_sequence  the image as one sequence (image_sequence.h), a Toeplitz
//                 product by our FFT with the columns in SIMD lanes: as many
//                 operations as fft2, one vector of columns in flight.
#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/norms.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/circulant_fft.h"
#include "optimized/toeplitz/column_fft.h"
#include "optimized/toeplitz/image_sequence.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : height(problem.Dim("height")),
        width(problem.Dim("width")),
        e(problem.Dim("e")),
        heads(problem.heads),
        vectors(problem.SlicesOf("weights")) {}
  int64_t pixels() const { return height * width; }
  std::vector<int64_t> lengths() const {
    return ImageFftLengths(height, width);
  }
  int64_t height, width, e, heads;
  Slices vectors;  // of weights
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
      const T* weights = arrays_.In<T>("weights").Head(h);
      const auto fill_row = [=](int64_t i, T* row) {
        const T* from = weights + (height - 1 - i / width) * (2 * width - 1) +
                        width - 1 - i % width;
        for (int64_t r = 0; r < height; ++r)
          std::copy_n(from + r * (2 * width - 1), width, row + r * width);
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

// Padded images in flight per thread: each is about four images large, so few.
constexpr int64_t kImageGroup = 4;

template <typename T>
class Fft2 : public Prepared {
 public:
  Fft2(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        lengths_(sizes_.lengths()),
        fft_(layout, lengths_),
        group_(std::min(kImageGroup, sizes_.e)),
        spectra_(layout, sizes_.vectors.count() * fft_.column_size(), OnLine{}),
        columns_(layout, group_ * fft_.column_size(), OnLine{}) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    const int64_t size = fft_.column_size(), stride = fft_.row_stride();
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int) {
      TransformWeights(weights.Slice(vector), spectra_.data() + vector * size);
    });
    const int64_t groups = (sizes_.e + group_ - 1) / group_;
    pool_.For(sizes_.heads * groups, [&](int64_t task, int worker) {
      const int64_t h = task / groups, first = task % groups * group_;
      const int64_t count = std::min(group_, sizes_.e - first);
      const T* spectrum = spectra_.data() + sizes_.vectors.Of(h) * size;
      T* columns = columns_[worker];
      GatherColumns(values.Head(h) + first, sizes_.pixels(), sizes_.e, count,
                    sizes_.width, stride, size, columns);
      for (int64_t c = 0; c < count; ++c) {
        fft_.Forward(columns + c * size);
        fft_.Multiply(spectrum, false, columns + c * size);
        fft_.Backward(columns + c * size);
      }
      ScatterColumns(columns, sizes_.pixels(), sizes_.e, count, sizes_.width,
                     stride, size, out.Head(h) + first);
    });
  }

  double Flops() const override {
    return static_cast<double>(2 * sizes_.heads * sizes_.e +
                               sizes_.vectors.count()) *
           fft_.TransformFlops();
  }

 private:
  void TransformWeights(const T* weights, T* spectrum) const {
    std::fill_n(spectrum, fft_.column_size(), T{0});
    EmbedImageOffsets(weights, sizes_.height, sizes_.width, fft_.row_stride(),
                      spectrum);
    fft_.Forward(spectrum);
  }

  const Sizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  const std::vector<int64_t> lengths_;
  const CirculantFft<T> fft_;
  const int64_t group_;
  Buffer<T> spectra_;
  PerThread<T> columns_;
};

template <typename T>
class FftSequence : public Prepared {
 public:
  FftSequence(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        pixels_(sizes_.height, sizes_.width),
        arrays_(arrays),
        pool_(layout),
        columns_(layout, pixels_.length(), pixels_.length()),
        block_(columns_.BlockColumns()),
        spectrum_size_(columns_.SpectrumSize()),
        spectra_(layout, sizes_.vectors.count() * spectrum_size_, OnLine{}),
        scratch_(layout, WholeLines<T>(columns_.ScratchSize()), OnLine{}) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int worker) {
      columns_.Spectrum(weights.Slice(vector), 2 * pixels_.length() - 1,
                        Spectrum(vector), scratch_[worker]);
    });
    pool_.For(sizes_.heads * BlocksPerHead(), [&](int64_t task, int worker) {
      RunBlock(task / BlocksPerHead(), task % BlocksPerHead() * block_,
               scratch_[worker]);
    });
  }

  double Flops() const override {
    return static_cast<double>(sizes_.heads * BlocksPerHead()) *
           columns_.BlockFlops();
  }

 private:
  // Columns [first, first + a block) of one head.
  struct Block {
    const T* values;
    T* out;
    int64_t e, lanes, columns;
  };

  T* Spectrum(int64_t vector) const {
    return spectra_.data() + vector * spectrum_size_;
  }
  int64_t BlocksPerHead() const { return (sizes_.e + block_ - 1) / block_; }

  void RunBlock(int64_t h, int64_t first, T* scratch) const {
    Block block = {arrays_.In<T>("values").Head(h) + first,
                   arrays_.Out<T>("out").Head(h) + first, sizes_.e, block_,
                   std::min(block_, sizes_.e - first)};
    ApplyToImage(columns_, pixels_, Spectrum(sizes_.vectors.Of(h)),
                 {Fill, &block}, {Take, &block}, scratch);
  }

  static void Fill(void* context, int64_t pixel, int64_t count, T* rows) {
    const Block& block = *static_cast<const Block*>(context);
    for (int64_t x = 0; x < count; ++x) {
      T* row = rows + x * block.lanes;
      std::copy_n(block.values + (pixel + x) * block.e, block.columns, row);
      std::fill(row + block.columns, row + block.lanes, T{0});
    }
  }

  static void Take(void* context, int64_t pixel, int64_t count, const T* rows) {
    const Block& block = *static_cast<const Block*>(context);
    for (int64_t x = 0; x < count; ++x)
      std::copy_n(rows + x * block.lanes, block.columns,
                  block.out + (pixel + x) * block.e);
  }

  const Sizes sizes_;
  const ImageSequence pixels_;
  const Arrays arrays_;
  ThreadPool pool_;
  const ToeplitzColumns<T> columns_;
  const int64_t block_, spectrum_size_;
  Buffer<T> spectra_;
  PerThread<T> scratch_;
};

// As for toeplitz_1d/fft, with log2 of all the points; the sequence of
// fft_sequence has as many, (2H - 1)(2W - 1), before rounding up.
RowBound Fft2Bound(const Problem& problem, const Inputs& inputs) {
  const Sizes sizes(problem);
  const double factor =
      2 * std::max(1.0, CirculantFft<float>::LogLength(sizes.lengths()));
  return ColumnBound(
      inputs["values"], sizes.heads, sizes.pixels(), sizes.e,
      [&](int64_t head) {
        return factor * Norm(inputs["weights"].Head(head),
                             (2 * sizes.height - 1) * (2 * sizes.width - 1));
      });
}

}  // namespace

std::vector<Implementation> Toeplitz2dImplementations() {
  return CpuTable(
      "toeplitz_2d",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "fft2",
        .what = "two-level circulant embedding, 2-D transforms by FFTW",
        .sums = MixedSums,
        .norm_bound = Fft2Bound,
        .prepare = PrepareFor<Fft2>},
       {.id = "fft_sequence",
        .what = "the image as one sequence, our FFT with the columns in SIMD "
                "lanes",
        .memory = {"O(HW) per vector of columns in flight", "n"},
        .sums = MixedSums,
        .norm_bound = Fft2Bound,
        .prepare = PrepareFor<FftSequence>}});
}

}  // namespace subquad
