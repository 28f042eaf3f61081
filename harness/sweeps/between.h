// Chooses additional sizes that locate the crossovers of curves more precisely.
#pragma once

#include <vector>

#include "harness/results/recipe.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

// Returns cases for each pair of curves that a recipe compares by time and that
// cross in these records: both algorithms at a size halfway (on a logarithmic
// scale) between the two sizes where they cross. A pair is left out if these
// sizes are within 8 % of each other, or if the times are too noisy to locate
// the crossover between them.
std::vector<PlannedCase> BetweenCrossings(const std::vector<Json>& records,
                                          const std::vector<Recipe>& recipes);

}  // namespace subquad
