// Finds the smallest change to the tensors and the tolerance of a test that
// lets it reject more mistakes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/judging/power.h"

namespace subquad {

// A user's test: its problem, inputs and tolerance.
struct OwnTest {
  Problem problem;  // in the scalar type of the test
  Inputs inputs;
  // The problem with `grad`, if the test compares gradients as well.
  std::optional<Problem> backward;
  Inputs backward_inputs;
  AllClose tolerance;
};

struct TestPower {
  Power out;
  std::optional<Power> gradients;
};

// Returns the power of the test. Throws InvalidInput if the problem has no
// answer.
TestPower PowerOf(const OwnTest& test, double most_work);

// A problem cut to its first queries and keys, at most `most`; tensors by
// offset stay centred. Images and problems whose parameters refer to keys
// beyond cannot be cut.
struct Shortened {
  Problem problem;
  Inputs inputs;
};
std::optional<Shortened> FirstKeys(const Problem& problem, const Inputs& inputs,
                                   int64_t most);

struct Advice {
  // In words; empty if no change is needed or none would help.
  std::vector<std::string> changes;
  AllClose tolerance;  // after the changes
  // Mistakes that the changed test still accepts although our gates would
  // reject them, or that cannot occur with the changed tensors.
  std::vector<std::string> still_accepted;
  // Mistakes that even our gates cannot tell from the right answer on the
  // changed tensors.
  std::vector<std::string> indistinguishable;
};

// Returns the fewest changes after which the test rejects every wrong answer
// and accepts right programs. Among equally many, the preference is: a random
// bias (any tensor indexed by offset, slopes, sinks), a random incoming
// gradient, fewer keys, other data, a tolerance that right programs meet with a
// factor of two to spare. If no changes reject all wrong answers, returns those
// that reject most. `power` is the power of the test as it is.
Advice AdviseOn(const OwnTest& test, const TestPower& power, double most_work);

}  // namespace subquad
