// Linear attention of queries and keys under a feature map: features, then the
// state (linear_state.h). Causal queries whose visible keys are lost at the
// scale of their chunk are computed pair by pair.
#pragma once

#include <optional>
#include <type_traits>

#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/linear_state.h"

namespace subquad::device {

// X is the type of q and k, S that of omega and values, and Out is S, or float
// if S is narrower and the sums are processed further.
template <typename X, typename S, typename Out>
class LinearKernelized {
 public:
  LinearKernelized(Layout& layout, const DeviceKernelizedShape& shape)
      : features_(layout, shape.features(), Scale(shape), CopiesOmega(shape)),
        state_(layout, StateOf(shape)) {
    if (shape.causal) pairs_.emplace(layout, shape);
  }

  // `omega` is {} if the map does not project.
  void Run(HeadArray<const X> q, HeadArray<const X> k, HeadArray<const S> v,
           HeadArray<const S> omega, HeadArray<Out> out) {
    features_.Run(q, k, omega);
    state_.Run(features_.queries(), features_.keys(), features_.exponents(), v,
               out, nullptr, pairs_ ? pairs_->marks() : nullptr);
    if (pairs_) pairs_->Run(q, k, omega, BiasWeights(), v, out);
  }

  static double Flops(const DeviceKernelizedShape& shape) {
    return Features::Flops(shape.features()) +
           LinearState::Flops(StateOf(shape));
  }

 private:
  static KeyScaling Scale(const DeviceKernelizedShape& shape) {
    return shape.causal ? KeyScaling::kChunks : KeyScaling::kShared;
  }
  static bool CopiesOmega(const DeviceKernelizedShape& shape) {
    return shape.map.projects() && !std::is_same_v<X, S>;
  }
  static LinearShape StateOf(const DeviceKernelizedShape& shape) {
    return {shape.n_q, shape.n_k, shape.f, shape.e, shape.heads, shape.causal};
  }

  Features features_;
  LinearState state_;
  std::optional<DirectRows> pairs_;  // for causal attention
};

}  // namespace subquad::device
