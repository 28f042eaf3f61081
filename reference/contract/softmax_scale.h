// The scale of the scores of operators with a softmax, for programs on any
// device. The definitions have their own (reference/softmax/softmax_scale.h).
#pragma once

#include <cmath>

#include "reference/base/problem.h"

namespace subquad {

// d^(-1/2) unless the parameter scale says otherwise.
template <typename Real>
Real ScoreScale(const Problem& problem) {
  const Params& params = problem.params;
  return params.Has("scale")
             ? static_cast<Real>(params.Number("scale"))
             : 1 / std::sqrt(static_cast<Real>(problem.Dim("d")));
}

}  // namespace subquad
