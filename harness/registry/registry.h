// Lists all operators and implementations, one line per operator.
#pragma once

#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

const std::vector<const Operator*>& Operators();
const std::vector<Implementation>& Implementations();

// Returns an operator. Throws InvalidInput that names similar operators.
const Operator& FindOperator(std::string_view id);

// Returns the implementations of one operator, in the order of the registry.
std::vector<const Implementation*> ImplementationsOf(const Operator& op);
// Tells whether an implementation of the operator has a backward pass.
bool HasBackward(const Operator& op);

// Returns one implementation. Throws InvalidInput that names similar ones.
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
