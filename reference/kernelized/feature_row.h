// The features of a whole row, and their products with those of another row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/base/functions.h"
#include "reference/kernelized/scaled.h"

namespace subquad {

// The features of a row: feature a is values[a] 2^(top + powers[a]). If all are
// within 2^60 of the largest, `powers` is empty and counts as zeros: the
// product of two such values is normal in any type.
template <typename Real>
struct FeatureRow {
  std::vector<Real> values;
  std::vector<int> powers;
  int top = kZeroExponent;

  FeatureRow() = default;
  template <typename Number>
  explicit FeatureRow(const std::vector<Scaled<Number>>& features) {
    int smallest = std::numeric_limits<int>::max();
    for (const auto& feature : features) {
      if (feature.mantissa == 0) continue;
      top = std::max(top, feature.exponent);
      smallest = std::min(smallest, feature.exponent);
    }
    const bool narrow = smallest >= top - 60;
    for (const auto& feature : features) {
      const int power = feature.mantissa == 0 ? 0 : feature.exponent - top;
      const Real mantissa = static_cast<Real>(feature.mantissa);
      values.push_back(narrow ? static_cast<Real>(ldexp(mantissa, power))
                              : mantissa);
      if (!narrow) powers.push_back(power);
    }
    AsRow(values.data(), static_cast<int64_t>(values.size()));
  }

  int Power(size_t a) const { return powers.empty() ? 0 : powers[a]; }
};

// Returns sum_a term(q_a, k_a) for a term that scales as the product does.
template <typename Real, typename Term>
Scaled<Real> SumOverFeatures(const FeatureRow<Real>& q,
                             const FeatureRow<Real>& k, const Term& term) {
  const size_t f = q.values.size();
  Scaled<Real> sum = {0, q.top + k.top};
  if (q.powers.empty() && k.powers.empty()) {
    for (size_t a = 0; a < f; ++a)
      sum.mantissa += term(q.values[a], k.values[a]);
    return sum;
  }
  // Sums relative to the largest term, which may be far below q.top + k.top.
  int largest = 2 * kZeroExponent;
  for (size_t a = 0; a < f; ++a)
    if (q.values[a] != 0 && k.values[a] != 0)
      largest = std::max(largest, q.Power(a) + k.Power(a));
  for (size_t a = 0; a < f; ++a)
    sum.mantissa += ldexp(term(q.values[a], k.values[a]),
                          q.Power(a) + k.Power(a) - largest);
  sum.exponent += largest;
  return sum;
}

// Returns sum_a q_a k_a.
template <typename Real>
Scaled<Real> DotOfFeatures(const FeatureRow<Real>& q,
                           const FeatureRow<Real>& k) {
  if (q.powers.empty() && k.powers.empty())
    return {Dot<Real>(q.values.data(), k.values.data(),
                      static_cast<int64_t>(q.values.size())),
            q.top + k.top};
  return SumOverFeatures(q, k, [](Real x, Real y) { return x * y; });
}

}  // namespace subquad
