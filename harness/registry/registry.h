// All operators and all implementations: a plain list, one line per operator.
#pragma once

#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

const std::vector<const Operator*>& Operators();
const std::vector<Implementation>& Implementations();

// Throws InvalidInput that lists all operators.
const Operator& FindOperator(std::string_view id);

// The implementations of one operator, in the order of the registry.
std::vector<const Implementation*> ImplementationsOf(const Operator& op);

// One implementation. Throws InvalidInput that lists those of the operator.
const Implementation& FindImplementation(std::string_view op,
                                         std::string_view id,
                                         Backend backend = Backend::kCpu);

// Whether this machine has a device of this kind. Sweeps leave out the other
// backends unless they are asked for by name.
bool IsAvailable(Backend backend);

// Why this implementation cannot run this problem, in words; empty when it can.
std::string WhyNot(const Implementation& implementation,
                   const Problem& problem);

}  // namespace subquad
