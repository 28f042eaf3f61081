// A whole vector register, using the compiler's own vector type: for loops that
// a compiler may not vectorise by itself (a maximum, a sum in another order)
// and for register tiles.
//
// A vector that is wider than the processor's registers is kept in memory and
// split at each use, which is ten times slower than scalar code; so its width
// and the size of tiles follow the target (optimized.cmake).
#pragma once

#ifndef SUBQUAD_TARGET_NAME
#error "only for files that are compiled for a target: link subquad_for_TARGET"
#endif

#include <cstdint>
#include <cstring>

#include "optimized/base/processor.h"

namespace subquad {

template <typename T>
using Lanes [[gnu::vector_size(kVectorBytes), gnu::may_alias]] = T;
template <typename T>
inline constexpr int64_t kLaneCount = kVectorBytes /
                                      static_cast<int64_t>(sizeof(T));

// Rounds `count` elements up to whole vectors.
template <typename T>
constexpr int64_t WholeVectors(int64_t count) {
  return (count + kLaneCount<T> - 1) / kLaneCount<T> * kLaneCount<T>;
}

// Loads from any address. Always inlined, because code for another machine
// returns vectors in another way.
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

// Adds up in an order that does not depend on the address of x.
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
