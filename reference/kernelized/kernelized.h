// Rows of kernelized attention with their bounds, for the operators that are or
// contain one: value.h has the definition, bound.h the theory of its error.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "reference/kernelized/bound.h"
#include "reference/kernelized/value.h"

namespace subquad {

template <typename Real>
class KernelizedRows {
 public:
  // Queries and keys are inputs, or computed by `query` and `key`.
  KernelizedRows(const Problem& problem, const Inputs& inputs,
                 ComputedRow<Real> query = nullptr,
                 ComputedRow<Real> key = nullptr)
      : problem_(problem),
        inputs_(inputs),
        value_(problem, inputs, std::move(query), std::move(key)) {}

  // Writes a row and its bound as Reference::Row does.
  void Row(int64_t head, int64_t i, Real* value, double* units) const {
    const Scaled<Real> normaliser = value_.Row(head, i, value);
    if (!units) return;
    // The bound is made on demand: rows of the baseline have none.
    std::call_once(made_, [this] {
      bound_ =
          std::make_unique<KernelizedBound<Real>>(problem_, inputs_, value_);
    });
    bound_->Row(head, i, value, normaliser, units);
  }

 private:
  const Problem problem_;
  const Inputs& inputs_;
  const KernelizedValue<Real> value_;
  mutable std::once_flag made_;
  mutable std::unique_ptr<const KernelizedBound<Real>> bound_;
};

}  // namespace subquad
