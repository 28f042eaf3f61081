// The default scale of operators with a softmax.
#pragma once

#include <cmath>

#include "reference/base/functions.h"
#include "reference/base/problem.h"

namespace subquad {

// Returns the parameter `scale`, or 1/sqrt(d) if it is not given.
template <typename Real>
Real SoftmaxScale(const Problem& problem) {
  if (problem.params.Has("scale"))
    return static_cast<Real>(problem.params.Number("scale"));
  return 1 / sqrt(static_cast<Real>(problem.Dim("d")));
}

}  // namespace subquad
