#include "optimized/toeplitz/image_sequence.h"

namespace subquad {
namespace {

// Rows of pixels that are asked for as elements of the sequence.
template <typename T>
struct Pixels {
  const ImageSequence& image;
  const int64_t columns;
  const RowSource<T>& source;

  RowSource<T> AsSource() { return {Fill, this}; }
  static void Fill(void* context, int64_t row, int64_t count, T* rows) {
    const auto& [image, columns, source] = *static_cast<Pixels*>(context);
    image.ForRuns(
        row, count,
        [&](int64_t pixel, int64_t run, int64_t at) {
          source.fill(source.context, pixel, run, rows + at * columns);
        },
        [&](int64_t run, int64_t at) {
          std::fill_n(rows + at * columns, run * columns, T{0});
        });
  }
};

// Elements of the sequence that are handed over where they are pixels.
template <typename T>
struct Elements {
  const ImageSequence& image;
  const int64_t columns;
  const RowSink<T>& sink;

  RowSink<T> AsSink() { return {Take, this}; }
  static void Take(void* context, int64_t row, int64_t count, const T* rows) {
    const auto& [image, columns, sink] = *static_cast<Elements*>(context);
    image.ForRuns(
        row, count,
        [&](int64_t pixel, int64_t run, int64_t at) {
          sink.take(sink.context, pixel, run, rows + at * columns);
        },
        [](int64_t, int64_t) {});
  }
};

}  // namespace

template <typename T>
void ApplyToImage(const ToeplitzColumns<T>& product, const ImageSequence& image,
                  const T* spectrum, const RowSource<T>& values,
                  const RowSink<T>& out, T* scratch) {
  Pixels<T> pixels{image, product.BlockColumns(), values};
  Elements<T> elements{image, product.BlockColumns(), out};
  product.Apply(spectrum, pixels.AsSource(), image.length(), elements.AsSink(),
                scratch);
}

template <typename T>
void ApplyTransposedToImage(const ToeplitzColumns<T>& product,
                            const ImageSequence& image, const T* spectrum,
                            const RowSource<T>& grad, const RowSink<T>& out,
                            T* scratch) {
  Pixels<T> pixels{image, product.BlockColumns(), grad};
  Elements<T> elements{image, product.BlockColumns(), out};
  product.ApplyTransposed(spectrum, pixels.AsSource(), elements.AsSink(),
                          image.length(), scratch);
}

template <typename T>
void AccumulateImageGradient(const ToeplitzColumns<T>& product,
                             const ImageSequence& image,
                             const RowSource<T>& grad,
                             const RowSource<T>& values, T* sum, T* scratch) {
  Pixels<T> of_grad{image, product.BlockColumns(), grad};
  Pixels<T> of_values{image, product.BlockColumns(), values};
  product.AccumulateWeightGradient(of_grad.AsSource(), of_values.AsSource(),
                                   image.length(), sum, scratch);
}

template void ApplyToImage(const ToeplitzColumns<float>&, const ImageSequence&,
                           const float*, const RowSource<float>&,
                           const RowSink<float>&, float*);
template void ApplyTransposedToImage(const ToeplitzColumns<float>&,
                                     const ImageSequence&, const float*,
                                     const RowSource<float>&,
                                     const RowSink<float>&, float*);
template void AccumulateImageGradient(const ToeplitzColumns<float>&,
                                      const ImageSequence&,
                                      const RowSource<float>&,
                                      const RowSource<float>&, float*, float*);
template void ApplyToImage(const ToeplitzColumns<double>&, const ImageSequence&,
                           const double*, const RowSource<double>&,
                           const RowSink<double>&, double*);
template void ApplyTransposedToImage(const ToeplitzColumns<double>&,
                                     const ImageSequence&, const double*,
                                     const RowSource<double>&,
                                     const RowSink<double>&, double*);
template void AccumulateImageGradient(const ToeplitzColumns<double>&,
                                      const ImageSequence&,
                                      const RowSource<double>&,
                                      const RowSource<double>&, double*,
                                      double*);

}  // namespace subquad
