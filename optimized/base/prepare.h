#pragma once

#include <memory>

#include "algorithms/implementation.h"

namespace subquad {

// Makes the float32 or the float64 version of an algorithm:
// PrepareFor<Fft<float>, Fft<double>>.
template <typename PreparedFloat, typename PreparedDouble>
std::unique_ptr<Prepared> PrepareFor(const Problem& problem,
                                     const Arrays& arrays,
                                     const PrepareOptions& options) {
  if (problem.scalar == Scalar::kFloat64)
    return std::make_unique<PreparedDouble>(problem, arrays, options);
  return std::make_unique<PreparedFloat>(problem, arrays, options);
}

}  // namespace subquad
