// What an implementation does not take: options that an algorithm refuses
// (Implementation::refuses), and parameters, inputs, outputs and shared tensors
// that few GPU kernels support (takes, takes_groups).
#pragma once

#include <string>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

// Names the parameters, inputs and outputs of any operator that this row of a
// GPU's table does not take.
std::vector<std::string> NamesNotTaken(const Implementation& row);

// Says what a problem has that this row of a GPU's table does not take; empty
// if it takes all.
std::string NotTaken(const Problem& problem, const Implementation& row);

// Says which option of a problem this row's algorithm refuses, and why; empty
// if none.
std::string Refused(const Problem& problem, const Implementation& row);

}  // namespace subquad
