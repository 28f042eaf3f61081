#include "optimized/toeplitz/image_sequence.h"

namespace subquad {
namespace {

// Reads rows of pixels as elements of the sequence.
template <typename T>
struct Pixels {
  const ImageSequence& image;
  const int64_t width;  // of a row
  const RowSource<T>& source;

  RowSource<T> AsSource() { return {Fill, this}; }
  static void Fill(void* context, int64_t row, int64_t count, T* rows) {
    const auto& [image, width, source] = *static_cast<Pixels*>(context);
    image.ForRuns(
        row, count,
        [&](int64_t pixel, int64_t run, int64_t at) {
          source.fill(source.context, pixel, run, rows + at * width);
        },
        [&](int64_t run, int64_t at) {
          std::fill_n(rows + at * width, run * width, T{0});
        });
  }
};

// Passes on those elements of the sequence that are pixels.
template <typename T>
struct Elements {
  const ImageSequence& image;
  const int64_t width;  // of a row
  const RowSink<T>& sink;

  RowSink<T> AsSink() { return {Take, this}; }
  static void Take(void* context, int64_t row, int64_t count, const T* rows) {
    const auto& [image, width, sink] = *static_cast<Elements*>(context);
    image.ForRuns(
        row, count,
        [&](int64_t pixel, int64_t run, int64_t at) {
          sink.take(sink.context, pixel, run, rows + at * width);
        },
        [](int64_t, int64_t) {});
  }
};

}  // namespace

template <typename T>
void ApplyToImage(const ToeplitzColumns<T>& product, const ImageSequence& image,
                  const T* spectrum, const RowSource<T>& values,
                  int64_t columns, const RowSink<T>& out, T* scratch) {
  Pixels<T> pixels{image, product.BlockWidth(columns), values};
  Elements<T> elements{image, product.BlockWidth(columns), out};
  product.Apply(spectrum, pixels.AsSource(), image.length(), columns,
                elements.AsSink(), scratch);
}

template <typename T>
void ApplyTransposedToImage(const ToeplitzColumns<T>& product,
                            const ImageSequence& image, const T* spectrum,
                            const RowSource<T>& grad, int64_t columns,
                            const RowSink<T>& out, T* scratch) {
  Pixels<T> pixels{image, product.BlockWidth(columns), grad};
  Elements<T> elements{image, product.BlockWidth(columns), out};
  product.ApplyTransposed(spectrum, pixels.AsSource(), columns,
                          elements.AsSink(), image.length(), scratch);
}

template <typename T>
void AccumulateImageGradient(const ToeplitzColumns<T>& product,
                             const ImageSequence& image,
                             const RowSource<T>& grad,
                             const RowSource<T>& values, int64_t columns,
                             T* sum, T* scratch) {
  Pixels<T> of_grad{image, product.BlockWidth(columns), grad};
  Pixels<T> of_values{image, product.BlockWidth(columns), values};
  product.AccumulateWeightGradient(of_grad.AsSource(), of_values.AsSource(),
                                   image.length(), columns, sum, scratch);
}

template void ApplyToImage(const ToeplitzColumns<float>&, const ImageSequence&,
                           const float*, const RowSource<float>&, int64_t,
                           const RowSink<float>&, float*);
template void ApplyTransposedToImage(const ToeplitzColumns<float>&,
                                     const ImageSequence&, const float*,
                                     const RowSource<float>&, int64_t,
                                     const RowSink<float>&, float*);
template void AccumulateImageGradient(const ToeplitzColumns<float>&,
                                      const ImageSequence&,
                                      const RowSource<float>&,
                                      const RowSource<float>&, int64_t, float*,
                                      float*);
template void ApplyToImage(const ToeplitzColumns<double>&, const ImageSequence&,
                           const double*, const RowSource<double>&, int64_t,
                           const RowSink<double>&, double*);
template void ApplyTransposedToImage(const ToeplitzColumns<double>&,
                                     const ImageSequence&, const double*,
                                     const RowSource<double>&, int64_t,
                                     const RowSink<double>&, double*);
template void AccumulateImageGradient(const ToeplitzColumns<double>&,
                                      const ImageSequence&,
                                      const RowSource<double>&,
                                      const RowSource<double>&, int64_t,
                                      double*, double*);

}  // namespace subquad
