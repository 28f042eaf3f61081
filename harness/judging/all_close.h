// The tolerance of most people's tests: |x - y| <= absolute + relative |y|,
// where y is right. That of numpy.allclose and torch.testing.assert_close.
#pragma once

#include "harness/judging/comparison.h"

namespace subquad {

struct AllClose {
  double relative = 0, absolute = 0;

  // What torch.testing.assert_close takes for this type (PyTorch 2).
  static AllClose DefaultOf(Scalar scalar);

  // The error over the tolerance: accepted up to 1. Infinite where `found` is
  // not finite.
  double Over(double found, long double right) const;
};

// The largest of these over the rows that are wrong, as they are stored in the
// problem's scalar type.
double LargestOver(const AllClose& tolerance, const Problem& problem,
                   const Answer& answer, const WrongAnswer& wrong);

}  // namespace subquad
