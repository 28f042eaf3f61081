// What a sweep runs: axes crossed into cases. A sweep is data (a preset, a
// configuration file or options), never nested loops in an operator.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/registry/filters.h"

namespace subquad {

// One crossing of axes. Axis texts are as on the command line: "1024,4096" or
// "1024:1048576:x2"; choices are lists "elu1,prf".
struct SweepAxes {
  Filters filters;
  std::vector<std::pair<std::string, std::string>> axes;  // name, values
  std::vector<int> threads = {1};
  // Hard inputs and case folders, an axis too.
  std::vector<std::string> inputs = {"normal"};
  // Cases that differ in their input alone are timed in turns, so that what
  // they show of the inputs is not the machine's changing mood.
  bool interleave = false;
};

struct PlannedCase {
  Case one;
  int threads = 1;
  std::vector<const Implementation*> implementations;
  // Cases of one group are timed in turns; -1: alone.
  int group = -1;
};

// Reads {"sweeps": [{"operator": .., "n": .., ..}]}; throws InvalidInput that
// names the field.
std::vector<SweepAxes> ParseSweepConfig(const std::string& name,
                                        const std::string& text);

// Crosses the axes, and keeps what `filters` take too. A sweep that names no
// scalar type plans those of `filters`, or float32 alone. Cases of one group
// are adjacent. Throws InvalidInput when nothing is left, a value of `filters`
// chooses nothing, or a combination is invalid.
std::vector<PlannedCase> PlanSweep(const std::vector<SweepAxes>& sweeps,
                                   const Filters& filters, uint64_t seed);

}  // namespace subquad
