// What the records of a sweep say together: exponents and crossovers.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace subquad {

// Fitted exponents of time and of workspace against n, for every group of
// records that differ in n alone.
nlohmann::ordered_json ComputeFits(
    const std::vector<nlohmann::ordered_json>& records);

// Where each implementation overtakes each quadratic one of its operator.
nlohmann::ordered_json ComputeCrossovers(
    const std::vector<nlohmann::ordered_json>& records);

// Times with another input over those with the input "normal", for records that
// differ in nothing else; empty where there are none. The intervals' confidence
// is corrected for their number (Bonferroni): all of them hold together at
// 95 %.
nlohmann::ordered_json ComputeInputRatios(
    const std::vector<nlohmann::ordered_json>& records);

}  // namespace subquad
