// The parts of the module subquad._subquad. Each function adds classes and
// functions, whose types `subquad/_subquad.pyi` declares.
#pragma once

#include <nanobind/nanobind.h>

#include "harness/base/json_fields.h"
#include "harness/python/given.h"

namespace subquad {

// Runs `work` while other threads of Python may run.
template <typename Work>
auto WithoutGil(const Work& work) {
  nanobind::gil_scoped_release released;
  return work();
}

// A case in memory: parameters {name: value}, and tensors and expected outputs
// as ArraysOf reads them.
CaseFolder GivenCase(const std::string& op, nanobind::dict params,
                     nanobind::list tensors, nanobind::list expected,
                     double expected_error);

// Returns dicts, lists, numbers and texts.
nanobind::object ToPython(const Json& json);

// Verdict, Worst, BlindSpot; check, judge; power.
void BindVerdicts(nanobind::module_& module);
// OutputRows, ListedAnswer, ListedAnswers; answers.
void BindAnswers(nanobind::module_& module);
// Case and Problem: generated cases.
void BindCases(nanobind::module_& module);
// Timed and Record: timing and result files.
void BindRecords(nanobind::module_& module);
// TimedFunction: calls of a user's function; why_impossible.
void BindGuests(nanobind::module_& module);

}  // namespace subquad
