// Element-wise functions on arrays of any alignment. Over an array of any
// length Eigen computes the elements before the first aligned one, and the last
// ones, one by one: with another exponential than in the vectors between them,
// and with another order of sums. The bits of a result would then depend on its
// address. Here every element passes through a vector.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

namespace subquad {

// Computes out[i] = function(in[i]). The function maps one Eigen array to an
// expression of it; `in` may be `out`.
template <typename T, typename Function>
void Elementwise(const T* in, int64_t count, T* out, const Function& function) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(T));
  using Line = Eigen::Array<T, kLine, 1>;
  int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    const Line x = Eigen::Map<const Line>(in + i);
    const Line y = function(x);
    Eigen::Map<Line>(out + i) = y;
  }
  if (i == count) return;
  Line x = Line::Zero();
  std::copy_n(in + i, count - i, x.data());
  const Line y = function(x);
  std::copy_n(y.data(), count - i, out + i);
}

}  // namespace subquad
