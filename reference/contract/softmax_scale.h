// The scale of the scores of operators with a softmax, for implementations on
// any device. The definitions have their own
// (reference/softmax/softmax_scale.h).
#pragma once

#include <cmath>

#include "reference/base/problem.h"

namespace subquad {

// Returns d^(-1/2) unless the parameter `scale` is given.
template <typename Real>
Real ScoreScale(const Problem& problem) {
  const Params& params = problem.params;
  return params.Has("scale")
             ? static_cast<Real>(params.Number("scale"))
             : 1 / std::sqrt(static_cast<Real>(problem.Dim("d")));
}

}  // namespace subquad
