// average_attention: out[i] = (v[0] + .. + v[i]) / (i + 1)
// (Zhang, Xiong and Su 2018, eq. 1: average attention, before its layers)
//
//   v [n, e], out [n, e]
//
// Test inputs: values of either sign, so that a row more or less, or a
// divisor that is off by one, changes every row.
//
// Bound: i + 1 terms are added and divided once, i + 1 roundings of at most u
// times the sum of magnitudes.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& AverageAttention();

}  // namespace subquad
