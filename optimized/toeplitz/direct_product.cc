#include "optimized/toeplitz/direct_product.h"

#include <cstring>

namespace subquad {
namespace {

// Computes kTile rows of the result; the weights are those of the first row.
template <typename T, int kTile, int kVectors>
void Tile(const T* weights, int64_t visible, const T* values, int64_t stride,
          T* out, int64_t out_stride) {
  Lanes<T> sum[kTile][kVectors] = {};
  for (int64_t j = 0; j < visible; ++j) {
    Lanes<T> value[kVectors];
    for (int c = 0; c < kVectors; ++c)
      value[c] = LoadLanes(values + j * stride + c * kLaneCount<T>);
    for (int r = 0; r < kTile; ++r)
      for (int c = 0; c < kVectors; ++c) sum[r][c] += weights[j - r] * value[c];
  }
  for (int r = 0; r < kTile; ++r)
    for (int c = 0; c < kVectors; ++c)
      std::memcpy(out + r * out_stride + c * kLaneCount<T>, &sum[r][c],
                  sizeof sum[r][c]);
}

}  // namespace

template <typename T>
template <int kVectors>
void DirectToeplitz<T>::Panel(const T* weights, int64_t visible,
                              const T* values, int64_t stride, int64_t keys,
                              T* out, int64_t out_stride) const {
  // Query i uses the weights from n_q - 1 - i on.
  const auto seen = [&](int64_t i) {
    return std::min(visible - (n_q_ - 1 - i), keys);
  };
  int64_t i = 0;
  for (; i + 4 <= n_q_; i += 4)
    Tile<T, 4, kVectors>(weights + n_q_ - 1 - i, seen(i + 3), values, stride,
                         out + i * out_stride, out_stride);
  for (; i < n_q_; ++i)
    Tile<T, 1, kVectors>(weights + n_q_ - 1 - i, seen(i), values, stride,
                         out + i * out_stride, out_stride);
}

template <typename T>
void DirectToeplitz<T>::Apply(const T* weights, int64_t visible,
                              const T* values, int64_t keys, T* out,
                              int worker) const {
  T* own = work_[worker];
  std::copy_n(weights, visible, own);
  std::fill(own + visible, own + n_q_ + n_k_ - 1, T{0});
  int64_t c = 0;
  for (; c + kPanel * kCount <= e_; c += kPanel * kCount)
    Panel<kPanel>(own, visible, values + c, e_, keys, out + c, e_);
  for (; c + kCount <= e_; c += kCount)
    Panel<1>(own, visible, values + c, e_, keys, out + c, e_);
  if (c == e_) return;
  T* padded = own + n_q_ + n_k_ - 1;
  T* result = padded + n_k_ * kCount;
  std::fill_n(padded, n_k_ * kCount, T{0});
  for (int64_t j = 0; j < keys; ++j)
    std::copy_n(values + j * e_ + c, e_ - c, padded + j * kCount);
  Panel<1>(own, visible, padded, kCount, keys, result, kCount);
  for (int64_t i = 0; i < n_q_; ++i)
    std::copy_n(result + i * kCount, e_ - c, out + i * e_ + c);
}

template class DirectToeplitz<float>;
template class DirectToeplitz<double>;

}  // namespace subquad
