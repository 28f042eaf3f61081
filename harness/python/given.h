// Problems and answers that are handed over in memory, for the Python module:
// what a case folder is on disk. Knows nothing of Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/cases/case_folder.h"
#include "harness/judging/check.h"
#include "harness/judging/power_advice.h"
#include "harness/judging/right_answer.h"
#include "harness/registry/registry.h"

namespace subquad {

// Numbers in somebody's memory, row-major and without gaps.
struct GivenArray {
  std::string name;
  Shape shape;
  Scalar scalar = Scalar::kFloat64;
  const void* data = nullptr;
};

// The case that these arrays make, as ReadCaseFolder would read it from a
// folder. Throws InvalidInput as that does. NaN in an expected tensor is for
// its reader to find: it is a program's output, not somebody's answer.
CaseFolder MakeGivenCase(const std::string& op, const Params& params,
                         const std::vector<GivenArray>& inputs,
                         const std::vector<GivenArray>& expected,
                         double expected_error);

// Where an output is worst, and what is there.
struct WorstPlace {
  std::string output;
  int64_t batch = 0, head = 0, row = 0, element = 0;
  double expected = 0, found = 0;
};

struct GivenVerdict {
  Scalar scalar = Scalar::kFloat64;
  Verdict verdict;
  DecidingGate deciding;
  std::optional<WorstPlace> worst;
};

// The line `reference` of `subquad check` on the same tensors: the definition
// against what is expected.
GivenVerdict CheckGiven(const CaseFolder& given);

// The expected tensors as the output of a program in this scalar type, judged
// as an implementation's output is: by its own bound, or by that of `like`, one
// of ours.
GivenVerdict JudgeGiven(const CaseFolder& given, Scalar scalar,
                        const std::string& like, NumbersFrom from);

// A test of somebody's own in this scalar type, to which the numbers are
// rounded; of gradients too where `grad` is there.
OwnTest MakeOwnTest(const std::string& op, const Params& params,
                    const std::vector<GivenArray>& inputs,
                    const std::optional<GivenArray>& grad, Scalar scalar,
                    const AllClose& tolerance);

// Rows of an output by the definition in long double; every row where `rows` is
// empty. The shape is that of the output, with the number of rows asked for.
std::vector<double> DefinitionRows(const CaseFolder& given, size_t output,
                                   std::vector<int64_t> rows, Shape& shape);

// Writes the case; expected tensors that are missing are the definition's.
void WriteGivenCase(const std::string& folder, CaseFolder given,
                    const std::string& source);

}  // namespace subquad
