// What result files say about recipes, format summary/1
// (reports/files/summary.schema.json): curves with exponents, where they cross,
// and ratios. Figures print these numbers.
#pragma once

#include "harness/results/recipe.h"

namespace subquad {

// An entry for each recipe and platform (processor or GPU) that has at least
// one curve or cell. `files`: result files with their names. Throws
// InvalidInput that names the file where a measurement is in two of them.
Json SummarizeRecipes(const std::vector<std::pair<std::string, Json>>& files,
                      const std::vector<Recipe>& recipes);

}  // namespace subquad
