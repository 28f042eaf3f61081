// Builds the curves of a recipe and computes their exponents, crossovers and
// ratios. Figures, claims and summaries all use these, from the same points.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/results/recipe.h"

namespace subquad {

// One size of a curve; NaN means that a value is missing.
struct CurvePoint {
  double n;
  double seconds, low, high;
  double workspace, formula, flops;
  Json size;
  const Json* record;
  // Where there are too few samples or processes for an interval, their number:
  // low and high are the smallest and the largest. 0 elsewhere.
  int64_t range_of = 0;

  bool has_time() const;
};

struct RecipeCurve {
  std::string id, label;           // of the recipe's series
  std::vector<CurvePoint> points;  // that passed, by n
  // Includes sizes that the recipe does not name, which were measured to locate
  // crossovers more precisely.
  std::vector<CurvePoint> all_points;
  int64_t refused = 0;  // records that failed, are mistrusted or were skipped
  std::string reason;   // why the first of them was refused
  // The points come from several processors: only bytes and counts may be
  // compared.
  bool mixed = false;
  std::string op, implementation;  // empty where there is no record

  bool empty() const { return points.empty(); }
  const CurvePoint* At(double n) const;
};

// Returns the curves of a series (an object with `match`, `label`, and
// optionally `id`, `by`, `except` and `others`) among the recipe's points that
// also match `where`. A curve uses the sizes that the recipe names if at least
// three of them were measured, and any size otherwise. If a size has several
// records, the first one counts. Throws InvalidInput if a curve would contain
// two values of one setting.
std::vector<RecipeCurve> CurvesOf(const Recipe& recipe, const Json& series,
                                  const std::vector<RecipePoint>& points,
                                  const Match& where);

// Returns all curves of one of the recipe's panels, in the order of its series.
std::vector<RecipeCurve> CurvesOfPanel(const Recipe& recipe, const Json& panel,
                                       const std::vector<RecipePoint>& points);

enum class CurveValue { kSeconds, kWorkspace, kFlops };

// Fits the exponent over the upper range of the sizes (FitExponent); nothing
// for times of several processors.
std::optional<ExponentFit> FitOf(const RecipeCurve& curve, CurveValue quantity);

// Finds the size from which `fast` stays faster than `slow`, on all sizes that
// both have.
Crossover CrossoverOf(const RecipeCurve& fast, const RecipeCurve& slow,
                      CurveValue quantity);

// Returns the value of a curve at a size between two measured ones, by linear
// interpolation in log-log; NaN beyond them.
double HeightAt(const RecipeCurve& curve, CurveValue quantity, double n);

// The ratio slow / fast. For times, its interval follows from the two
// intervals; NaN if a value is missing.
struct Quotient {
  double ratio;
  Interval interval;
  int64_t range_of = 0;  // the fewest of CurvePoint::range_of that is not 0
};
Quotient RatioOf(const CurvePoint& slow, const CurvePoint& fast,
                 CurveValue quantity);

}  // namespace subquad
