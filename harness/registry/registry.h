// Lists all operators and implementations, one line per operator.
#pragma once

#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

const std::vector<const Operator*>& Operators();
const std::vector<Implementation>& Implementations();
// Lists the implementations that this build lacks, because it lacks a library.
const std::vector<Implementation>& MissingImplementations();

// Returns an operator. Throws InvalidInput that names similar operators.
const Operator& FindOperator(std::string_view id);

// Returns the implementations of one operator, in the order of the registry.
std::vector<const Implementation*> ImplementationsOf(const Operator& op);
// Tells whether an implementation of the operator has a backward pass.
bool HasBackward(const Operator& op);

// Returns what to do for an implementation that this build lacks: "needs FFTW,
// .."; empty if it lacks none of this name. Without operators, any will do.
std::string WhyMissing(const std::vector<std::string>& operators,
                       std::string_view id);

// Returns one implementation. Throws InvalidInput that names similar ones, or
// says which library this one needs.
const Implementation& FindImplementation(std::string_view op,
                                         std::string_view id,
                                         Backend backend = Backend::kCpu);

// Tells whether this machine has a device of this kind. Sweeps leave out the
// other backends unless they are selected by name.
bool IsAvailable(Backend backend);

// Returns the reason why this implementation cannot run this problem; empty if
// it can.
std::string WhyNot(const Implementation& implementation,
                   const Problem& problem);

}  // namespace subquad
