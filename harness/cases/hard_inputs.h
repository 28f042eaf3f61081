// Hard inputs: kinds of values, by name, each of which reveals a fault that
// independent normal draws do not.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/cases/draws.h"
#include "reference/base/problem.h"

namespace subquad {

class Draws;

// The position of an element in its tensor.
struct Place {
  const TensorRule& rule;
  int64_t row, rows;        // along the first axis of one head
  int64_t column, columns;  // within a row
  uint64_t index;           // of the element in the tensor, heads included
};

struct HardInput {
  std::string_view name;
  std::string_view what;  // the values, and which fault they reveal
  double (*value)(const Place& place, const Draws& draws);
  double row_norm = 0;  // of every row of queries, keys and values; 0: as drawn
};

const std::vector<HardInput>& HardInputs();
bool IsHardInput(std::string_view name);
const HardInput& FindHardInput(std::string_view name);  // throws InvalidInput

}  // namespace subquad
