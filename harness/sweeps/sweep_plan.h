// Plans a sweep: crosses axes into cases. A sweep is data (a preset, a
// configuration file or options), never nested loops in an operator.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/registry/filters.h"

namespace subquad {

// An axis. Its values are text as on the command line: "1024,4096" or
// "1024:1048576:x2"; choices are lists such as "elu1,prf".
struct SweepAxis {
  std::string name, values;
  std::string subject = {};  // in messages, such as "--n"; by default the name
};

// Axes to cross.
struct SweepAxes {
  Filters filters;
  std::vector<SweepAxis> axes;
  std::vector<int> threads = {1};
  // Hard inputs and case folders, another axis.
  std::vector<std::string> inputs = {"normal"};
  // Time cases that differ only in their input alternately, so that differences
  // between inputs are not changes of the machine's speed.
  bool interleave = false;
  std::string file = {};  // that defines them, for messages; empty: options
};

struct PlannedCase {
  Case test_case;
  int threads = 1;
  std::vector<const Implementation*> implementations;
  // Cases of one group are timed alternately; -1: no group.
  int group = -1;
};

// Parses {"sweeps": [{"operator": .., "n": .., ..}]}. Throws InvalidInput that
// names the field.
std::vector<SweepAxes> ParseSweepConfig(const std::string& name,
                                        const std::string& text);

// Crosses the axes and keeps the cases that match `filters`. A sweep without
// scalar types uses those of `filters`, or float32. Cases of one group are
// adjacent. Throws InvalidInput if no case is left, if a value of `filters`
// matches nothing, or if a combination is invalid.
std::vector<PlannedCase> PlanSweep(const std::vector<SweepAxes>& sweeps,
                                   const Filters& filters, uint64_t seed);

}  // namespace subquad
