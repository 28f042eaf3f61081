#include "harness/judging/all_close.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/cases/draws.h"

namespace subquad {

AllClose AllClose::DefaultOf(Scalar scalar) {
  switch (scalar) {
    case Scalar::kFloat64:
      return {1e-7, 1e-7};
    case Scalar::kFloat32:
      return {1.3e-6, 1e-5};
    case Scalar::kBFloat16:
      return {1.6e-2, 1e-5};
    case Scalar::kFloat16:
      return {1e-3, 1e-5};
  }
  return {};
}

double AllClose::Over(double actual, long double right) const {
  if (actual == right) return 0;
  if (!std::isfinite(actual)) return std::numeric_limits<double>::infinity();
  const auto error = static_cast<double>(std::abs(actual - right));
  return error == 0 ? 0
                    : error / (absolute +
                               relative * static_cast<double>(std::abs(right)));
}

double LargestOver(const AllClose& tolerance, const Problem& problem,
                   const Answer& answer, const WrongAnswer& wrong) {
  double largest = 0;
  for (const FoundRows& part : wrong.parts) {
    const OutputAnswer& right = answer.outputs[part.output];
    for (size_t r = 0; r < part.rows.size(); ++r)
      for (int64_t c = 0; c < right.width; ++c) {
        const long double expected =
            right.value[part.rows[r] * static_cast<size_t>(right.width) +
                        static_cast<size_t>(c)];
        const double actual =
            RoundTo(problem.scalar, static_cast<double>(part.value(r, c)));
        largest = std::max(largest, tolerance.Over(actual, expected));
      }
  }
  return largest;
}

}  // namespace subquad
