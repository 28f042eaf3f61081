// What this machine can do at most with the instructions of one target,
// measured: a floor to hold algorithms against.
#pragma once

namespace subquad {

// Multiply-adds on one thread, two flops each.
double MeasureFlopsPerSecond(bool float64);

}  // namespace subquad
