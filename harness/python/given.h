// Makes problems and outputs from arrays in memory, as ReadCaseFolder does from
// a case folder. The Python module uses it, but it is independent of Python.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/cases/case_folder.h"
#include "harness/judging/check.h"
#include "harness/judging/power_advice.h"
#include "harness/registry/registry.h"

namespace subquad {

// A contiguous row-major array in the caller's memory.
struct GivenArray {
  std::string name;
  Shape shape;
  Scalar scalar = Scalar::kFloat64;
  const void* data = nullptr;
  bool is_boolean = false;  // the elements are bytes, 0 or 1, and not `scalar`
};

// Throws InvalidInput for booleans in place of numbers.
void CheckType(const TensorRule& rule, const GivenArray& array);

// Makes a case from these arrays. Throws InvalidInput for the same reasons as
// ReadCaseFolder, except that expected tensors may contain NaN, since they are
// a program's output, which the caller judges. Optional outputs are part of the
// case if they are among the expected ones or named in `wanted`.
CaseFolder MakeGivenCase(const std::string& op, const Params& params,
                         const std::vector<GivenArray>& inputs,
                         const std::vector<GivenArray>& expected,
                         double expected_error,
                         const std::vector<std::string>& wanted = {});

// The element of an output with the largest error, and its values.
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

// Compares the expected outputs with the definition, as the line `your
// out` of `subquad check` does.
GivenVerdict CheckGiven(const CaseFolder& folder);

// What a verdict may cost.
struct Effort {
  // Multiply-adds of the reference; of longer problems, rows are sampled.
  double most_work = std::numeric_limits<double>::infinity();
  bool margin = true;     // false: an output that passes has no margin
  bool diagnosis = true;  // false: a failure is not compared with mistakes
};

// Judges the expected tensors as the output of an implementation in this scalar
// type: by the plain bound, or by the bound of our implementation `like`. The
// effort does not change the tolerance.
GivenVerdict JudgeGiven(const CaseFolder& folder, Scalar scalar,
                        const std::string& like, NumbersFrom from,
                        const Effort& effort = {});

// Compares the expected tensors with the definition at rows that `seed`
// chooses, by both gates and by nothing else: it tries no known mistakes. This
// takes a fraction of the time of JudgeGiven; use it for outputs of a program
// of which JudgeGiven has judged another output. `like` as there.
Verdict JudgeRowsGiven(const CaseFolder& folder, Scalar scalar,
                       const std::string& like, uint64_t seed);

// Makes a user's test in this scalar type, to which the values are rounded. It
// includes gradients if there is a `grad`.
OwnTest MakeOwnTest(const std::string& op, const Params& params,
                    const std::vector<GivenArray>& inputs,
                    const std::optional<GivenArray>& grad, Scalar scalar,
                    const AllClose& tolerance);

// Returns rows of an output, by the definition in long double; all rows if
// `rows` is empty. `shape` becomes that of the output with this number of rows.
std::vector<double> DefinitionRows(const CaseFolder& folder, size_t output,
                                   std::vector<int64_t> rows, Shape& shape);

// Writes the case. Missing expected tensors are computed by the definition.
// Throws InvalidInput if an expected value is NaN, or infinite where the rule
// of its output does not allow that.
void WriteGivenCase(const std::string& folder, CaseFolder case_folder,
                    const std::string& source);

}  // namespace subquad
