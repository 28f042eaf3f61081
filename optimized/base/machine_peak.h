// The measured peak arithmetic rate of this machine with the instructions of
// one target, a lower bound for the time of algorithms.
#pragma once

namespace subquad {

// Measures multiply-adds on one thread, counting two flops each.
double MeasureFlopsPerSecond(bool float64);

}  // namespace subquad
