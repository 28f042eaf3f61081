#include "harness/judging/check.h"

#include <algorithm>
#include <cmath>

#include "harness/base/registry.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/judging/trial.h"

namespace subquad {
namespace {

Inputs Rounded(const Inputs& inputs, Scalar scalar) {
  Inputs rounded = inputs;
  for (Tensor& tensor : rounded.tensors)
    for (double& value : tensor.values) value = RoundTo(scalar, value);
  return rounded;
}

bool SameValues(const Inputs& a, const Inputs& b) {
  return std::ranges::equal(a.tensors, b.tensors, {}, &Tensor::values,
                            &Tensor::values);
}

// A number that is finite in the file and not in the scalar type.
bool Overflows(const Inputs& given, const Inputs& rounded) {
  for (size_t t = 0; t < given.tensors.size(); ++t)
    for (size_t i = 0; i < given.tensors[t].values.size(); ++i)
      if (std::isfinite(given.tensors[t].values[i]) &&
          !std::isfinite(rounded.tensors[t].values[i]))
        return true;
  return false;
}

// The reference's answer with the expected numbers in its place. Inputs that
// had to be rounded change the answer by what they change the reference, and
// numbers that a float32 program computed are no better than that.
Answer WithExpected(const CaseFolder& folder, const Problem& problem,
                    Answer answer, const Answer& unrounded) {
  std::vector<OutputAnswer> kept;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    OutputAnswer& one = answer.outputs[o];
    const auto expected =
        std::ranges::find(folder.expected, one.name, &ExpectedTensor::name);
    if (expected == folder.expected.end()) continue;
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    for (size_t r = 0; r < one.selection.rows.size(); ++r) {
      const RowId& id = one.selection.rows[r];
      const int64_t row = id.head * layout.rows + id.row;
      for (int64_t c = 0; c < one.width; ++c) {
        const size_t at = r * static_cast<size_t>(one.width) + c;
        const long double shift =
            one.value[at] - unrounded.outputs[o].value[at];
        one.value[at] = expected->values[row * one.width + c] + shift;
      }
    }
    if (!expected->is_float32) continue;
    const double roundoff = Info(Scalar::kFloat32).unit_roundoff;
    for (size_t at = 0; at < one.units.size(); ++at)
      one.slack.push_back(
          roundoff *
          (one.units[at] + std::abs(static_cast<double>(one.value[at]))));
    one.plain_error = std::max(
        one.plain_error * roundoff / Info(problem.scalar).unit_roundoff,
        roundoff * one.largest);
  }
  return answer;
}

}  // namespace

void CheckCaseFolder(const CaseFolder& folder,
                     const std::function<void(const CheckLine&)>& report,
                     const std::function<bool(const Implementation&)>& wanted) {
  const Answer exact = ComputeAnswer(folder.problem, folder.inputs, 1);

  // The definition itself, as the first of the implementations.
  {
    Trial trial(folder.problem, folder.inputs, 1);
    trial.set_answer(WithExpected(folder, folder.problem, exact, exact));
    for (size_t o = 0; o < exact.outputs.size(); ++o) {
      const OutputAnswer& one = exact.outputs[o];
      const OutputLayout layout = LayoutOf(folder.problem, static_cast<int>(o));
      double* out = static_cast<double*>(trial.arrays().outputs[o].data);
      for (size_t r = 0; r < one.selection.rows.size(); ++r) {
        const RowId& id = one.selection.rows[r];
        for (int64_t c = 0; c < one.width; ++c)
          out[(id.head * layout.rows + id.row) * one.width + c] =
              static_cast<double>(one.value[r * one.width + c]);
      }
    }
    const Implementation definition;
    report(
        {"reference", "cpu", Scalar::kFloat64, trial.JudgeOutputs(definition)});
  }

  for (const ScalarInfo& info : kScalars) {
    Problem problem = folder.problem;
    problem.scalar = info.scalar;
    std::vector<const Implementation*> able;
    for (const Implementation* implementation : ImplementationsOf(*folder.op))
      if (std::ranges::count(implementation->scalars, info.scalar) &&
          (!wanted || wanted(*implementation)))
        able.push_back(implementation);
    if (able.empty()) continue;
    Inputs rounded = Rounded(folder.inputs, info.scalar);
    if (Overflows(folder.inputs, rounded)) {
      for (const Implementation* implementation : able)
        report({implementation->id,
                std::string(ToString(implementation->backend)), info.scalar,
                Verdict::Skipped("an input does not fit into " +
                                 std::string(info.name))});
      continue;
    }
    Trial trial(problem, std::move(rounded), 1);
    Answer answer = ComputeAnswer(trial.problem(), trial.inputs(), 1);
    const bool same = SameValues(trial.inputs(), folder.inputs);
    trial.set_answer(
        WithExpected(folder, problem, answer, same ? answer : exact));
    for (const Implementation* implementation : able)
      report({implementation->id,
              std::string(ToString(implementation->backend)), info.scalar,
              Verify(*implementation, trial, {})});
  }
}

}  // namespace subquad
