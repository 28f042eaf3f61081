// kernelized_rpe_attention, fft: algorithm 1 as printed (NPRF), all f (e + 1)
// channels through FFTW at once.
#include <limits>
#include <vector>

#include "optimized/base/fftw_programs.h"
#include "optimized/kernelized/columns.h"
#include "optimized/kernelized/fft_streamed.h"
#include "optimized/toeplitz/fft_circulant.h"

namespace subquad {
namespace {

template <typename T>
class FftKernelized {
 public:
  FftKernelized(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  const KernelizedShape shape_;
  const std::vector<int64_t> lengths_;
  const CirculantFft<T> fft_;
  FeatureColumns<T> features_;
  LostRows<T> lost_;
  Buffer<T> weights_, spectrum_, channels_, normalisers_;
};

template <typename T>
FftKernelized<T>::FftKernelized(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      lengths_(EmbeddingLengths(shape)),
      fft_(layout, lengths_),
      features_(shape, layout),
      lost_(shape, layout),
      weights_(layout, shape.BiasCount()),
      spectrum_(layout, fft_.column_size(), OnLine{}),
      channels_(layout, shape.f * (shape.e + 1) * fft_.column_size(), OnLine{}),
      normalisers_(layout, shape.n_q) {}

template <typename T>
double FftKernelized<T>::Flops() const {
  return static_cast<double>(shape_.heads *
                             (2 * shape_.f * (shape_.e + 1) + 1)) *
         fft_.TransformFlops();
}

template <typename T>
void FftKernelized<T>::Run(ThreadPool& pool,
                           const std::vector<HeadTensors<T>>& heads) {
  const int64_t e = shape_.e, size = fft_.column_size();
  const int64_t k_width = shape_.is_image() ? shape_.width() : shape_.n_k;
  const int64_t q_width = shape_.is_image() ? shape_.width() : shape_.n_q;
  for (const HeadTensors<T>& head : heads) {
    features_.Compute(pool, head);
    SumScale scale;
    const double norm = BiasWeights(shape_, head.bias, weights_.data(), &scale);
    std::fill_n(spectrum_.data(), size, T{0});
    if (shape_.is_image())
      EmbedImageOffsets(weights_.data(), shape_.height(), shape_.width(),
                        fft_.row_stride(), spectrum_.data());
    else
      EmbedOffsets(weights_.data() + shape_.BiasMiddle(), shape_.n_q,
                   shape_.n_k, lengths_[0], spectrum_.data());
    fft_.Forward(spectrum_.data());
    pool.For(shape_.f * (e + 1), [&](int64_t channel, int) {
      const int64_t a = channel / (e + 1), c = channel % (e + 1);
      const T* key = features_.Key(a);
      T* column = channels_.data() + channel * size;
      std::fill_n(column, size, T{0});
      for (int64_t j = 0; j < head.keys; ++j)
        column[j / k_width * fft_.row_stride() + j % k_width] =
            c < e ? key[j] * head.v[j * e + c] : key[j];
      fft_.Forward(column);
      fft_.Multiply(spectrum_.data(), false, column);
      fft_.Backward(column);
    });
    // Computes out = sum over features; the normalisers are the last column.
    pool.For(e + 1, [&](int64_t c, int) {
      T* to = c < e ? head.out + c : normalisers_.data();
      const int64_t stride = c < e ? e : 1;
      for (int64_t i = 0; i < shape_.n_q; ++i) to[i * stride] = 0;
      for (int64_t a = 0; a < shape_.f; ++a) {
        const T* query = features_.Query(a);
        const T* column = channels_.data() + (a * (e + 1) + c) * size;
        for (int64_t i = 0; i < shape_.n_q; ++i)
          to[i * stride] +=
              query[i] * column[i / q_width * fft_.row_stride() + i % q_width];
      }
    });
    for (int64_t i = 0; i < shape_.n_q; ++i)
      WriteRow(shape_.normaliser, head.out + i * e, normalisers_[i],
               ScaleOfSums(static_cast<double>(features_.Top(i)), scale), e,
               head.out + i * e);
    lost_.Repair(pool, head, features_, norm,
                 std::numeric_limits<T>::epsilon() / 2, normalisers_.data());
  }
}

}  // namespace

std::unique_ptr<Prepared> PrepareFftKernelized(const Problem& problem,
                                               const Arrays& arrays,
                                               Layout& layout) {
  return PrepareKernelized<FftKernelized>(problem, arrays, layout);
}

}  // namespace subquad
