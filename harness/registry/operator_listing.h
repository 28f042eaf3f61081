// What a user has to know of an operator to write a case for it, as data.
#pragma once

#include <nlohmann/json.hpp>

#include "reference/base/operator.h"

namespace subquad {

// An entry of `subquad list --json` (reports/files/list.schema.json): formula,
// source, params, sizes, inputs, outputs, implementations and a sample
// case.json. Every entry of params, sizes, inputs and outputs has `when`: the
// choices under which it exists, empty where it always does. It is found by
// asking the operator under every combination of its choices.
nlohmann::ordered_json ListOperator(const Operator& op);

}  // namespace subquad
