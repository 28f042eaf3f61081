// Parts of rules that look at records: exponents, ratios and crossovers against
// what is claimed.
#pragma once

#include <string>

#include "harness/papers/claims/claims.h"

namespace subquad {

// The upper end of a time's exponent for O(n log n): nearer to n than to n^2.
// Over the sizes measured log n adds 0.1, and leaving a cache about as much.
inline constexpr double kNearLinear = 1.5;
// For O(n), which has no logarithm.
inline constexpr double kLinear = 1.3;
// For counts and bytes, which have no noise.
inline constexpr double kExactNearLinear = 1.25, kExactLinear = 1.1;

// The rule on every machine's records. Several machines that do not agree make
// a claim hold in part.
Finding PerMachine(const Evidence& evidence,
                   Finding (*rule)(const Machine& machine));

// The widths of a curve, to find another that it can be compared with.
Json WidthsOf(const Measured& measured);

// Why there is nothing: no record, none that passed, or no such operator.
std::string Missing(const Wanted& wanted, const Measured& measured);

// The whole interval of the exponent at or below the limit: yes.
void AddGrowth(Finding& finding, const Growth& growth, double limit,
               const std::string& what);

// The whole interval of the ratio at or above the limit: yes.
Holds AtLeast(const Quotient& quotient, double limit);
void AddRatio(Finding& finding, const Quotient& quotient, double limit,
              const std::string& name, const std::string& before);
Quotient WorkspaceRatio(const MeasuredPoint& more, const MeasuredPoint& less);

Holds HoldsOf(const Crossover& crossover);
// "from n = 500 [480, 520]", "at every size", ..
std::string Describe(Finding& finding, const std::string& name,
                     const Crossover& crossover);

}  // namespace subquad
