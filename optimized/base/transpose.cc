#include "optimized/base/transpose.h"

#include <cstring>
#include <utility>

#include "optimized/base/processor.h"

namespace subquad {
namespace {

template <typename T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;
template <typename T>
inline constexpr int kSide = kVectorBytes / static_cast<int>(sizeof(T));

// Interleaves elements of a and b, starting at kFrom.
template <typename T, int kFrom, int... i>
[[gnu::always_inline]] inline Vector<T> InTurns(
    const Vector<T>& a, const Vector<T>& b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (kFrom + i / 2 + i % 2 * kSide<T>)...);
}

// Transposes a square in place: interleaving rows i and i + kSide / 2, log2
// times over, exchanges rows and columns.
template <typename T>
inline void Square(Vector<T> (&x)[kSide<T>]) {
  constexpr int n = kSide<T>;
  constexpr auto places = std::make_integer_sequence<int, n>();
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    Vector<T> y[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = InTurns<T, 0>(x[i], x[i + n / 2], places);
      y[2 * i + 1] = InTurns<T, n / 2>(x[i], x[i + n / 2], places);
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
