#include "optimized/base/transpose.h"

#include <cstring>
#include <type_traits>

namespace subquad {
namespace {

#if defined(__AVX512F__)
inline constexpr int kBytes = 64;
#elif defined(__AVX__)
inline constexpr int kBytes = 32;
#else
inline constexpr int kBytes = 16;
#endif

template <typename T>
using Vector [[gnu::vector_size(kBytes)]] = T;
template <typename T>
inline constexpr int kSide = kBytes / static_cast<int>(sizeof(T));

// In place. Where row i and row i + kSide / 2 are dealt out alternately, log2
// times over, row and column change places.
template <typename T>
inline void Square(Vector<T> (&x)[kSide<T>]) {
  constexpr int n = kSide<T>;
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  Vector<Index> low, high;
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) {
    low[i] = i / 2 + (i % 2) * n;
    high[i] = low[i] + n / 2;
  }
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    Vector<T> y[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + n / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + n / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) x[i] = y[i];
  }
}

}  // namespace

template <typename T>
void CopyTransposed(const T* from, int64_t from_stride, int64_t rows,
                    int64_t columns, T scale, T* to, int64_t to_stride) {
  constexpr int64_t n = kSide<T>;
  const int64_t whole_rows = rows / n * n, whole_columns = columns / n * n;
  for (int64_t r = 0; r < whole_rows; r += n)
    for (int64_t c = 0; c < whole_columns; c += n) {
      Vector<T> x[n];
#pragma GCC unroll 16
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(&x[i], from + (r + i) * from_stride + c, sizeof x[i]);
        x[i] *= scale;
      }
      Square<T>(x);
#pragma GCC unroll 16
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(to + (c + i) * to_stride + r, &x[i], sizeof x[i]);
    }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = scale * from[r * from_stride + c];
}

template void CopyTransposed(const float*, int64_t, int64_t, int64_t, float,
                             float*, int64_t);
template void CopyTransposed(const double*, int64_t, int64_t, int64_t, double,
                             double*, int64_t);

}  // namespace subquad
