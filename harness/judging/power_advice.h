// What would let a test see more: the smallest of a few changes to its tensors
// and its tolerance.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/judging/power.h"

namespace subquad {

// A test of somebody's own: what it compares, and how closely.
struct OwnTest {
  Problem problem;  // in the scalar type of the test
  Inputs inputs;
  // The same with `grad`, where gradients are compared as well.
  std::optional<Problem> backward;
  Inputs backward_inputs;
  AllClose tolerance;
};

struct TestPower {
  Power out;
  std::optional<Power> gradients;
};

// Throws InvalidInput where the problem has no answer.
TestPower PowerOf(OwnTest& test, double most_work);

// The part of a problem with up to `most` queries and keys, the first ones;
// what is by offset stays centred. Nothing for an image, and where parameters
// speak of more keys.
struct Shortened {
  Problem problem;
  Inputs inputs;
};
std::optional<Shortened> FirstKeys(const Problem& problem, const Inputs& inputs,
                                   int64_t most);

struct Advice {
  // In words; none where none is needed, or would help.
  std::vector<std::string> changes;
  AllClose tolerance;  // after them
  // What is accepted all the same and our gates would refuse, or what the
  // changed tensors have no place for.
  std::vector<std::string> still_accepted;
  // What our gates cannot tell from the right answer on the changed tensors
  // either.
  std::vector<std::string> nobody_tells;
};

// The fewest changes after which the test refuses every wrong answer and takes
// right programs; of as many, the first of: a bias (any tensor by offset) drawn
// anew, a random gradient that comes in, fewer keys, other data, a tolerance
// that right programs keep by a factor of two. Where no changes get all wrong
// answers, those that get most. `power` is that of the test as it is.
Advice AdviseOn(const OwnTest& test, const TestPower& power, double most_work);

}  // namespace subquad
