// Conversion between storage types.
#pragma once

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// Converts to[i] = from[i] to the other type: exact to float, rounded from
// float.
template <typename From, typename To>
void Convert(const From* from, int64_t count, To* to);

// A tensor as float32: the tensor itself, or a copy in a workspace.
template <typename S>
class Widened {
 public:
  // `count` is the number of elements of all heads.
  Widened(Layout& layout, int64_t count)
      : count_(count), numbers_(layout, kWidens ? count : 0) {}

  HeadArray<const float> Run(HeadArray<const S> tensor) {
    if constexpr (kWidens) {
      Convert(tensor.data, count_, numbers_.data());
      return {numbers_.data(), tensor.head_stride};
    } else {
      return tensor;
    }
  }

 private:
  static constexpr bool kWidens = sizeof(S) < sizeof(float);
  const int64_t count_;
  DeviceBuffer<float> numbers_;
};

}  // namespace subquad::device
