// Holds every implementation of an operator against the answer of a case
// folder.
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
  DecidingGate deciding;   // where something was compared
  bool of_folder = false;  // the expected numbers against the definition
};

// Which lines are wanted: everything, unless it says less.
struct CheckChoice {
  // In place of those of the registry, for programs that are not in it.
  std::vector<const Implementation*> implementations = {};
  std::function<bool(const Implementation&, Scalar)> wanted = {};
  bool reference = true;  // the definition itself, as the first line
};

// Calls `report` for the reference and for each implementation and scalar type
// that is wanted and whose device is there. Every row of the expected tensors
// is compared. Throws InvalidInput where the problem has no answer; where it
// has none in a scalar type that is narrower than the files, the lines of that
// type are skipped.
void CheckCaseFolder(const CaseFolder& folder,
                     const std::function<void(const CheckLine&)>& report,
                     const CheckChoice& choice = {});

}  // namespace subquad
