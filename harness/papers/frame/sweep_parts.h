// Parts of rules that look at records: exponents, ratios and crossovers of a
// recipe's curves, against what is claimed. Figures of the recipe print the
// same numbers, as both get them from harness/results/curve.h.
#pragma once

#include <string>

#include "harness/papers/frame/evidence.h"
#include "harness/papers/frame/finding.h"
#include "harness/results/curve.h"

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
                   void (*rule)(const Machine& machine, Finding& finding));

// The curve of a recipe's points on the CPU, or on the GPU ("cuda"), that
// match, which has to name the operator and the implementation.
RecipeCurve CurveOf(const Machine& machine, const std::string& recipe,
                    const Json& match, const std::string& backend = "cpu");

// Why a curve of CurveOf is empty.
std::string Missing(const RecipeCurve& curve);

// Yes where the whole interval of the exponent is at or below the limit. An
// exponent takes four sizes over a factor of eight.
void AddGrowth(Finding& finding, const RecipeCurve& curve, CurveValue quantity,
               double limit, const std::string& what);

// The exponent of a growth that is known well enough to be judged.
std::optional<ExponentFit> GrowthOf(const RecipeCurve& curve,
                                    CurveValue quantity);
// An exponent with limits: its number is kept under `name`. Yes if its interval
// is between them, however wide it is.
struct Exponent {
  Holds holds;
  bool known;        // its interval is finite
  std::string text;  // "exponent 1.04 [1.02, 1.06]"
};
Exponent JudgeExponent(Finding& finding, const std::string& name,
                       const ExponentFit& fit, double least, double most);
std::string NoGrowth(const RecipeCurve& curve, const std::string& what);

// Yes where the whole interval of the ratio is at or above the limit, missing
// where an end is unknown.
Holds AtLeast(const Measured& ratio, double limit);

// "Up to" so many times, with the largest ratio that was measured: yes within a
// factor of kUpTo of the claimed number, as another machine has other ratios;
// no where it does not come near it; in part where it is larger, since the
// claim then says too little, or the interval reaches over an end.
inline constexpr double kUpTo = 1.5;
Holds UpTo(const Measured& largest, double claimed);

// A claim that something is `limit` times better than another. The words follow
// the number: with a ratio of 0.5 it is "2 times slower", not "0.5 times
// faster".
struct RatioWords {
  std::string before;         // "it is", "it needs"
  std::string better, worse;  // "faster" and "slower", "less memory" ..
  std::string after;          // " than dense softmax", or nothing
};
std::string RatioText(const Measured& ratio, const RatioWords& words);
void AddRatio(Finding& finding, const Quotient& quotient, double limit,
              const std::string& name, const RatioWords& words);
Measured Measure(Finding& finding, const std::string& name,
                 const Quotient& quotient);

Holds HoldsOf(const Crossover& crossover);
// "A overtakes B from n = 854 [830, 879]", "A is ahead of B at every size ..".
std::string Overtakes(Finding& finding, const std::string& name,
                      const std::string& who, const std::string& whom,
                      const RecipeCurve& fast, const RecipeCurve& slow,
                      const Crossover& crossover);

}  // namespace subquad
