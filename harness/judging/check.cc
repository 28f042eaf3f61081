#include "harness/judging/check.h"

#include <algorithm>
#include <cmath>

#include "harness/cases/draws.h"
#include "harness/judging/diagnose.h"
#include "harness/judging/expected.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

Inputs Rounded(const Inputs& inputs, Scalar scalar) {
  Inputs rounded = inputs;
  for (Tensor& tensor : rounded.tensors)
    for (double& value : tensor.values) value = RoundTo(scalar, value);
  return rounded;
}

// Tells whether a value is finite in the file but not in the scalar type.
bool Overflows(const Inputs& inputs, const Inputs& rounded) {
  for (size_t t = 0; t < inputs.tensors.size(); ++t)
    for (size_t i = 0; i < inputs.tensors[t].values.size(); ++i)
      if (std::isfinite(inputs.tensors[t].values[i]) &&
          !std::isfinite(rounded.tensors[t].values[i]))
        return true;
  return false;
}

class FolderCheck {
 public:
  FolderCheck(const CaseFolder& folder,
              const std::function<void(const CheckLine&)>& report,
              const CheckChoice& choice)
      : folder_(folder),
        report_(report),
        choice_(choice),
        exact_(folder, folder.problem, folder.inputs) {}

  void Run() {
    // In a large case the reference is judged last, so that it includes the
    // rows in which other implementations differed. Its line is still printed
    // first.
    std::vector<CheckLine> lines;
    const bool sampled = std::ranges::any_of(
        exact_.reference().outputs,
        [](const OutputAnswer& output) { return !output.selection.all; });
    const auto later = [&](CheckLine line) {
      lines.push_back(std::move(line));
    };
    if (sampled) RunScalar(Scalar::kFloat64, later);
    CheckLine own = JudgeReference();
    // Prints this line even if the user selected implementations when the
    // folder's own outputs are wrong, because implementations then fail too.
    bool told = own.verdict.outcome != Outcome::kFailed;
    if (choice_.reference) {
      report_(own);
      told = true;
    }
    const auto tell = [&](const CheckLine& line) {
      if (!told && line.verdict.outcome == Outcome::kFailed) {
        report_(own);
        told = true;
      }
      report_(line);
    };
    for (const ScalarInfo& info : kScalars) {
      if (info.scalar != Scalar::kFloat64 || !sampled)
        RunScalar(info.scalar, tell);
      else
        for (const CheckLine& line : lines) tell(line);
    }
  }

 private:
  // Judges the expected outputs as if they came from an implementation.
  CheckLine JudgeReference() {
    Trial trial(folder_.problem, folder_.inputs, 1, NumbersFrom::kUser);
    trial.set_answer(exact_.WithExpected());
    const Answer& answer = exact_.reference();
    for (size_t o = 0; o < answer.outputs.size(); ++o) {
      const OutputAnswer& output = answer.outputs[o];
      const OutputLayout layout =
          LayoutOf(folder_.problem, static_cast<int>(o));
      double* out = static_cast<double*>(trial.arrays().outputs[o].data);
      for (size_t r = 0; r < output.selection.rows.size(); ++r) {
        const RowId& id = output.selection.rows[r];
        for (int64_t c = 0; c < output.width; ++c)
          out[(id.head * layout.rows + id.row) * output.width + c] =
              static_cast<double>(output.value[r * output.width + c]);
      }
    }
    const Implementation definition;
    Verdict verdict = trial.JudgeOutputs(definition);
    // A failure here means that the folder's outputs are wrong.
    if (verdict.outcome == Outcome::kFailed) {
      verdict.diagnosis = Diagnose(
          folder_.problem, folder_.inputs, answer,
          MakeWrongAnswers(folder_.problem, folder_.inputs, answer),
          exact_.WithExpected(), trial.ToleranceFor(definition), false);
      explained_ = true;
    }
    const DecidingGate deciding = DecidingGateOf(verdict.comparison, false);
    return {"reference",        "cpu",    Scalar::kFloat64,
            std::move(verdict), deciding, true};
  }

  void RunScalar(Scalar scalar,
                 const std::function<void(const CheckLine&)>& report) {
    std::vector<const Implementation*> able;
    for (const Implementation* implementation :
         choice_.implementations.empty() ? ImplementationsOf(*folder_.op)
                                         : choice_.implementations)
      if (IsAvailable(implementation->backend) &&
          std::ranges::count(implementation->scalars, scalar) &&
          (!choice_.wanted || choice_.wanted(*implementation, scalar)))
        able.push_back(implementation);
    if (able.empty()) return;
    const std::string name(Info(scalar).name);
    const auto skip_all = [&](const std::string& reason) {
      for (const Implementation* implementation : able)
        report(LineFor(*implementation, scalar, Verdict::Skipped(reason), {}));
    };
    const Inputs rounded = Rounded(folder_.inputs, scalar);
    if (Overflows(folder_.inputs, rounded))
      return skip_all("an input is out of the range of " + name);
    Problem problem = folder_.problem;
    problem.scalar = scalar;
    std::unique_ptr<ExpectedAnswer> own;
    try {
      if (scalar != Scalar::kFloat64)
        own = std::make_unique<ExpectedAnswer>(folder_, problem, rounded);
    } catch (const InvalidInput& none) {
      // The problem has an answer in float64.
      return skip_all("the formula has no value in " + name + ": " +
                      none.what());
    }
    ExpectedAnswer& expected = own ? *own : exact_;
    const bool asked = scalar == Scalar::kFloat64 ||
                       (scalar == Scalar::kFloat32 && folder_.has_float32);
    Trial trial(problem, rounded, 1, NumbersFrom::kUser);
    trial.set_answer(expected.WithExpected());
    for (const Implementation* implementation : able) {
      Verdict verdict = expected.JudgeAllRows(
          *implementation, trial, Verify(*implementation, trial, {}));
      if (!asked && verdict.comparison.not_finite > 0 &&
          expected.PlainOverflows())
        verdict = Verdict::Skipped("the plain dense program overflows in " +
                                   name + " too");
      // If the folder's outputs are wrong, every implementation seems to be.
      if (!explained_) trial.Explain(*implementation, verdict);
      const bool norm_wise =
          verdict.comparison.judged() > 0 &&
          static_cast<bool>(trial.NormBound(*implementation));
      const DecidingGate deciding =
          DecidingGateOf(verdict.comparison, norm_wise);
      report(LineFor(*implementation, scalar, std::move(verdict), deciding));
    }
  }

  static CheckLine LineFor(const Implementation& implementation, Scalar scalar,
                           Verdict verdict, const DecidingGate& deciding) {
    return {implementation.id, std::string(ToString(implementation.backend)),
            scalar, std::move(verdict), deciding};
  }

  const CaseFolder& folder_;
  const std::function<void(const CheckLine&)>& report_;
  const CheckChoice& choice_;
  ExpectedAnswer exact_;
  bool explained_ = false;  // what is wrong with the folder's own numbers
};

}  // namespace

void CheckCaseFolder(const CaseFolder& folder,
                     const std::function<void(const CheckLine&)>& report,
                     const CheckChoice& choice) {
  FolderCheck(folder, report, choice).Run();
}

}  // namespace subquad
