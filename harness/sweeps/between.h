// Where to measure next, so that it is known more closely where curves cross.
#pragma once

#include <vector>

#include "harness/results/recipe.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

// For each pair of curves that a recipe compares by time, and that cross in
// these records: both algorithms at a size halfway (of logarithms) between the
// two where they change places. Nothing for a pair whose sizes there are within
// 8 % of each other, or whose crossing is as uncertain as they are apart
// because their times are.
std::vector<PlannedCase> BetweenCrossings(const std::vector<Json>& records,
                                          const std::vector<Recipe>& recipes);

}  // namespace subquad
