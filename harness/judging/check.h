// Compares every implementation of an operator with the expected outputs of a
// case folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cases/case_folder.h"
#include "harness/judging/verdict.h"

namespace subquad {

struct CheckLine {
  std::string implementation;
  std::string backend;
  Scalar scalar;
  Verdict verdict;
  DecidingGate deciding;   // valid if something was compared
  bool of_folder = false;  // judges the folder's outputs by the definition
};

// Selects the lines to report; the default is all of them.
struct CheckChoice {
  // Replaces the registry's implementations if it is not empty.
  std::vector<const Implementation*> implementations = {};
  std::function<bool(const Implementation&, Scalar)> wanted = {};
  bool reference = true;  // the definition itself, as the first line
};

// Calls `report` for the reference and for every selected implementation and
// scalar type whose device is present. All rows of the expected tensors are
// compared. Throws InvalidInput if the problem has no answer. If it has none
// only in a scalar type that is narrower than the files, the lines of that type
// are skipped.
void CheckCaseFolder(const CaseFolder& folder,
                     const std::function<void(const CheckLine&)>& report,
                     const CheckChoice& choice = {});

}  // namespace subquad
