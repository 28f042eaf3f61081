// The curves that a recipe names, and what is worked out from them: exponents,
// crossovers and ratios. Figures, claims and summaries all get them here, from
// the same points.
#pragma once

#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/results/recipe.h"

namespace subquad {

// One size of a curve; NaN where a number is missing.
struct CurvePoint {
  double n;
  double seconds, low, high;
  double workspace, formula, flops;
  Json size;
  const Json* record;

  bool has_time() const;
};

struct RecipeCurve {
  std::string id, label;           // of the recipe's series
  std::vector<CurvePoint> points;  // that passed, by n
  // Also those of sizes that the recipe does not name, which were measured to
  // know more closely where curves cross.
  std::vector<CurvePoint> all_points;
  int64_t refused = 0;  // records that failed, are mistrusted or were skipped
  std::string reason;   // of the first of them
  // Shards of several processors: only bytes and counts may be compared.
  bool mixed = false;
  std::string op, implementation;  // empty where there is no record

  bool empty() const { return points.empty(); }
  const CurvePoint* At(double n) const;
};

// The curves of a series (an object with `match`, `label`, and `id`, `by`,
// `except` and `others` if it has them), among the recipe's points that also
// match `where`. A curve takes the sizes that the recipe names where at least
// three were measured, and any size otherwise. Of several records of one size
// the first counts.
// Throws InvalidInput where a curve would hold two values of one setting.
std::vector<RecipeCurve> CurvesOf(const Recipe& recipe, const Json& series,
                                  const std::vector<RecipePoint>& points,
                                  const Match& where);

// All curves of one of the recipe's panels, in the order of its series.
std::vector<RecipeCurve> CurvesOfPanel(const Recipe& recipe, const Json& panel,
                                       const std::vector<RecipePoint>& points);

enum class CurveValue { kSeconds, kWorkspace, kFlops };

// As FitExponent, over the upper range of the sizes; nothing for times of
// several processors.
std::optional<ExponentFit> FitOf(const RecipeCurve& curve, CurveValue quantity);

// Where `fast` overtakes `slow` for good, on all sizes that both have.
Crossover CrossoverOf(const RecipeCurve& fast, const RecipeCurve& slow,
                      CurveValue quantity);

// The height of a curve at a size between two measured, on a line in log-log;
// NaN beyond them.
double HeightAt(const RecipeCurve& curve, CurveValue quantity, double n);

// slow / fast. Times have the interval that the two intervals give; NaN where a
// number is missing.
struct Quotient {
  double ratio;
  Interval interval;
};
Quotient RatioOf(const CurvePoint& slow, const CurvePoint& fast,
                 CurveValue quantity);

}  // namespace subquad
