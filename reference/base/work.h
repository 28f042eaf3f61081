// The work of the definitions' programs, by which callers decide how many rows
// to compare.
#pragma once

#include <cstdint>

#include "reference/base/operator.h"

namespace subquad {

// Returns the multiply-adds of the reference for one row of an output.
double WorkOfRow(const Problem& problem, int output);

// Returns the multiply-adds done once, when the first row is requested.
double SharedWork(const Problem& problem);

// Returns how many rows of the first output may have a cotangent other than
// zero in a generated case: all of them, or so few that the gradients can still
// be computed in about a minute of one thread.
int64_t RowsWithCotangent(const Problem& problem);

}  // namespace subquad
