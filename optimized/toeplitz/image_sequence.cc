#include "optimized/toeplitz/image_sequence.h"

namespace subquad {
namespace {

template <typename T>
struct Block {
  const ImageSequence& image;
  const int64_t columns;
  const RowSource<T>& values;
  const RowSink<T>& out;
};

template <typename T>
void Fill(void* context, int64_t row, int64_t count, T* rows) {
  const auto& [image, columns, values, _] = *static_cast<Block<T>*>(context);
  image.ForRuns(
      row, count,
      [&](int64_t pixel, int64_t run, int64_t at) {
        values.fill(values.context, pixel, run, rows + at * columns);
      },
      [&](int64_t run, int64_t at) {
        std::fill_n(rows + at * columns, run * columns, T{0});
      });
}

template <typename T>
void Take(void* context, int64_t row, int64_t count, const T* rows) {
  const auto& [image, columns, _, out] = *static_cast<Block<T>*>(context);
  image.ForRuns(
      row, count,
      [&](int64_t pixel, int64_t run, int64_t at) {
        out.take(out.context, pixel, run, rows + at * columns);
      },
      [](int64_t, int64_t) {});
}

}  // namespace

template <typename T>
void ApplyToImage(const ToeplitzColumns<T>& product, const ImageSequence& image,
                  const T* spectrum, const RowSource<T>& values,
                  const RowSink<T>& out, T* scratch) {
  Block<T> block{image, product.BlockColumns(), values, out};
  product.Apply(spectrum, {Fill<T>, &block}, image.length(), {Take<T>, &block},
                scratch);
}

template void ApplyToImage(const ToeplitzColumns<float>&, const ImageSequence&,
                           const float*, const RowSource<float>&,
                           const RowSink<float>&, float*);
template void ApplyToImage(const ToeplitzColumns<double>&, const ImageSequence&,
                           const double*, const RowSource<double>&,
                           const RowSink<double>&, double*);

}  // namespace subquad
