// How far an output is from the reference: numbers without policy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/answer.h"
#include "reference/implementation.h"

namespace subquad {

struct Comparison {
  int64_t rows = 0;      // compared
  int64_t elements = 0;  // compared
  bool all_rows = true;
  int64_t not_finite = 0;  // NaN or infinite where the reference is finite
  int64_t untouched = 0;   // still the poison of before the run
  bool zero_reference = true;
  double max_error = 0;       // absolute
  double max_over_bound = 0;  // gate 1: the largest error / bound
  double bound = 0;           // at that element
  double plain_error = 0;     // of the plain dense program, absolute
  double over_plain = 0;  // gate 2: largest error / that of the plain program
  RowId worst;            // where gate 1 was tightest
  int64_t worst_column = 0;
  std::string output;  // the output it stands in
};

// The poison that outputs are filled with: all bits one, a NaN.
bool IsPoison(Scalar scalar, const void* data, int64_t index);
double ElementAt(Scalar scalar, const void* data, int64_t index);
// `value` is already rounded to the type.
void StoreAt(Scalar scalar, double value, void* data, size_t index);

// Compares the outputs of a run with the answer. `bound` gives norm-wise units
// or is empty: then bound_factor times the plain program's units count.
Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, double bound_factor,
                   const RowBound& bound);

}  // namespace subquad
