// Makes every operator a parameter of tests, named and printed by its id.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "reference/base/operator.h"

namespace subquad {

inline std::string OperatorId(
    const testing::TestParamInfo<const Operator*>& info) {
  return std::string(info.param->description().id);
}

inline void PrintTo(const Operator* const& op, std::ostream* stream) {
  *stream << op->description().id;
}

}  // namespace subquad
