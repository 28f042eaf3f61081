// Holds every implementation of an operator against the answer of a case
// folder.
#pragma once

#include <functional>
#include <string>

#include "harness/cases/case_folder.h"
#include "harness/judging/verdict.h"

namespace subquad {

struct CheckLine {
  std::string implementation;
  std::string backend;
  Scalar scalar;
  Verdict verdict;
};

// Calls `report` for the reference and for each implementation and scalar type,
// of those that `wanted` names where it is given. Throws InvalidInput where the
// problem has no answer.
void CheckCaseFolder(
    const CaseFolder& folder,
    const std::function<void(const CheckLine&)>& report,
    const std::function<bool(const Implementation&)>& wanted = {});

}  // namespace subquad
