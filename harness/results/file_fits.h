// Computes exponents and crossovers from the records of a sweep.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace subquad {

// Fits the exponents of time and workspace against n, for every group of
// records that differ only in n.
nlohmann::ordered_json ComputeFits(
    const std::vector<nlohmann::ordered_json>& records);

// Finds the sizes from which each implementation is faster than each quadratic
// one of its operator.
nlohmann::ordered_json ComputeCrossovers(
    const std::vector<nlohmann::ordered_json>& records);

// Returns the ratios of the times with other inputs to those with the input
// "normal", for records that differ in nothing else; empty if there are none.
// The confidence of the intervals is corrected for their number (Bonferroni),
// so that all of them hold together at 95 %.
nlohmann::ordered_json ComputeInputRatios(
    const std::vector<nlohmann::ordered_json>& records);

}  // namespace subquad
