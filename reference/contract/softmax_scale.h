// The scale and the cap of the scores of operators with a softmax, for
// implementations on any device. The definitions have their own
// (reference/softmax/softmax_scale.h).
#pragma once

#include <cmath>
#include <limits>

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

// Returns the parameter `softcap`, or 0 if scores are not capped. A cap beyond
// the largest number of the arithmetic caps nothing: there it would be
// infinite, and inf tanh(x / inf) is not a number.
inline double Softcap(const Problem& problem) {
  const Params& params = problem.params;
  if (!params.Has("softcap")) return 0;
  const double cap = params.Number("softcap");
  const double largest = ArithmeticOf(problem.scalar) == Scalar::kFloat64
                             ? std::numeric_limits<double>::max()
                             : std::numeric_limits<float>::max();
  return cap <= largest ? cap : 0;
}

}  // namespace subquad
