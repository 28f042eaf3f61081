// Draws random cases (operators, sizes, parameters and values) from a seed, and
// lists the steps by which a failing case is shrunk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case.h"

namespace subquad {

struct RandomCases {
  std::vector<const Operator*> operators;  // drawn from these
  std::vector<Scalar> scalars;
  std::optional<std::string> input;  // the kind of values; drawn if empty
  uint64_t seed = 1;

  // Returns case number `index`, a function of the fields above only. Returns
  // nothing if the drawn values are incompatible or if the reference would take
  // more than about a tenth of a second.
  std::optional<Case> Draw(uint64_t index) const;
};

// Returns the kinds of values that are drawn: those that every implementation
// supports. tests/harness/judging/known_limits.json lists the problems with the
// others. Whole waves (sinusoid) are excluded, because with a few tokens their
// sums and the normalisers cancel to zero.
const std::vector<std::string>& RandomInputs();

// Returns cases that are simpler than this one by a single step, the simplest
// first: a smaller size, one head, a flag or an option left out, plain values.
std::vector<Case> SimplerCases(const Case& test_case);

}  // namespace subquad
