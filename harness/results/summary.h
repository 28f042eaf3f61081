// Summarizes result files by recipe, format summary/1
// (reports/files/summary.schema.json): curves with exponents, crossovers and
// ratios. Figures print these numbers.
#pragma once

#include "harness/results/recipe.h"

namespace subquad {

// Returns an entry for each recipe and platform (processor or GPU) with at
// least one curve or cell. `files`: result files with their names. Throws
// InvalidInput that names the files if two of them contain the same
// measurement.
Json SummarizeRecipes(const std::vector<std::pair<std::string, Json>>& files,
                      const std::vector<Recipe>& recipes);

}  // namespace subquad
