// A whole vector register of numbers, by the compiler's own vector type: for
// loops that a compiler may not vectorise by itself (a maximum, a sum in
// another order) and for register tiles in code built for one machine. Kernels
// that choose their instruction set at run time are written with highway.
#pragma once

#include <cstdint>
#include <cstring>

namespace subquad {

template <typename T>
using Lanes [[gnu::vector_size(64), gnu::may_alias]] = T;
template <typename T>
inline constexpr int64_t kLaneCount = 64 / static_cast<int64_t>(sizeof(T));

// From any address. Always inlined, as code for another machine has another way
// of returning a vector.
template <typename T>
[[gnu::always_inline]] inline Lanes<T> LoadLanes(const T* from) {
  Lanes<T> lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <typename Vector, typename T>
[[gnu::always_inline]] inline void StoreLanes(const Vector& lanes, T* to) {
  static_assert(sizeof lanes == sizeof(Lanes<T>));
  std::memcpy(to, &lanes, sizeof lanes);
}

// In an order that does not depend on where the numbers lie.
template <typename T>
inline T SumOf(const T* x, int64_t count) {
  constexpr int64_t kCount = kLaneCount<T>;
  Lanes<T> sums = {};
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) sums += LoadLanes(x + i);
  T sum = 0;
  for (; i < count; ++i) sum += x[i];
  for (int64_t l = 0; l < kCount; ++l) sum += sums[l];
  return sum;
}

}  // namespace subquad
