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

}  // namespace subquad
