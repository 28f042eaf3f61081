// Describes an operator as data, with everything that a case for it needs.
#pragma once

#include <nlohmann/json.hpp>

#include "reference/base/operator.h"

namespace subquad {

// Returns an entry of `subquad list --json` (reports/files/list.schema.json):
// formula, source, params, sizes, inputs, outputs, implementations and a sample
// case.json. Every entry of params, sizes, inputs and outputs has `when`, the
// choices under which it exists; empty means always. These conditions are found
// by asking the operator under every combination of its choices.
nlohmann::ordered_json ListOperator(const Operator& op);

}  // namespace subquad
