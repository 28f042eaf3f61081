// The algorithms of toeplitz_1d, each in a file of its name: the `prepare`
// functions of the table's rows.
#pragma once

#include "optimized/base/prepare.h"

namespace subquad {

PrepareProgram PrepareDense1d, PrepareFftColumns1d, PrepareKaratsuba1d;

RowBound Karatsuba1dBound(const Problem& problem, const Inputs& inputs);

// Direct if fft_columns multiplies directly.
Sums FftColumns1dSums(const Problem& problem);

}  // namespace subquad
