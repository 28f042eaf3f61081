// The tolerance of numpy.allclose and torch.testing.assert_close:
// |x - y| <= absolute + relative |y|, where y is right.
#pragma once

#include "harness/judging/comparison.h"

namespace subquad {

struct AllClose {
  double relative = 0, absolute = 0;

  // Returns the default of torch.testing.assert_close for this type (PyTorch
  // 2).
  static AllClose DefaultOf(Scalar scalar);

  // Returns error divided by tolerance, accepted up to 1; infinite if `actual`
  // is not finite.
  double Over(double actual, long double right) const;
};

// Returns the largest of these ratios over the rows of a wrong answer, stored
// in the problem's scalar type.
double LargestOver(const AllClose& tolerance, const Problem& problem,
                   const Answer& answer, const WrongAnswer& wrong);

}  // namespace subquad
