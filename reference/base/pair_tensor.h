// Inputs with an entry for each query and key, [n_q, n_k], in which all queries
// or all keys may share one; and the rule of `mask`, one of them.
#pragma once

#include <cstdint>
#include <string>

#include "reference/base/operator.h"

namespace subquad {

class PairTensor {
 public:
  PairTensor(const Problem& problem, const Inputs& inputs,
             const std::string& name)
      : tensor_(problem.HasInput(name) ? &inputs[name] : nullptr) {}

  // Returns null if the problem has no such tensor.
  const double* At(int64_t head, int64_t query, int64_t key) const {
    if (!tensor_) return nullptr;
    const int64_t keys = tensor_->shape.back();
    const int64_t rows = tensor_->SliceSize() / keys;
    const int64_t row = rows == 1 ? 0 : query, column = keys == 1 ? 0 : key;
    return tensor_->Head(head) + row * keys + column;
  }

 private:
  const Tensor* tensor_;
};

// Draws a mask: three of four pairs are visible, and one of 16 queries sees
// nothing. One entry for all pairs shows them.
inline double SeesThreeOfFour(double drawn, const Element& element) {
  if (ElementCount(element.shape) == 1) return 1;
  const bool is_blind = element.index / element.shape.back() % 16 == 13;
  return !is_blind && drawn < 0.75 ? 1 : 0;
}

// Returns the rule of `mask`, whose zeros hide keys from queries. `n_q` and
// `n_k` are the numbers of both in symbols.
inline TensorRule MaskRule(const std::string& n_q, const std::string& n_k) {
  TensorRule mask{"mask",
                  {n_q, n_k},
                  Role::kParameter,
                  Draw{Draw::From::kUniform, SeesThreeOfFour}};
  mask.optional = mask.per_pair = mask.fixed = mask.zero_or_one = true;
  return mask;
}

}  // namespace subquad
