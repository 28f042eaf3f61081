// Cases that nobody chose: operators, sizes, parameters and numbers drawn from
// a seed, and the steps by which a case that fails is made smaller.
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
  std::optional<std::string> input;  // the kind of numbers; else drawn too
  uint64_t seed = 1;

  // Case number `index`, a function of the above and of nothing else. Nothing
  // where what was drawn does not go together, or would take the reference more
  // than about a tenth of a second.
  std::optional<Case> Draw(uint64_t index) const;
};

// Kinds of numbers that are drawn: those that every implementation can do.
// tests/harness/judging/known_limits.json says what the others lead to. Whole
// waves (sinusoid) are not among them: with a few tokens their sums cancel to
// nothing, and normalisers with them.
const std::vector<std::string>& RandomInputs();

// Cases that are simpler than `one` by a single step, simplest first: a smaller
// size, one head, a flag or an option left out, plain numbers.
std::vector<Case> SimplerCases(const Case& one);

}  // namespace subquad
