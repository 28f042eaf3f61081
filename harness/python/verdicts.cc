// Verdicts on outputs, and the power of a user's test.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/judging/trial.h"
#include "harness/python/arrays.h"
#include "harness/python/bindings.h"

namespace nb = nanobind;

namespace subquad {
namespace {

GivenVerdict Check(const std::string& op, nb::dict params, nb::list tensors,
                   nb::list expected, double expected_error) {
  const CaseFolder folder =
      GivenCase(op, params, tensors, expected, expected_error);
  return WithoutGil([&] { return CheckGiven(folder); });
}

GivenVerdict JudgeOutput(const std::string& op, nb::dict params,
                         nb::list tensors, nb::list outputs,
                         double expected_error, const std::string& scalar,
                         const std::string& like, bool generated,
                         std::optional<double> most_work, bool margin,
                         bool diagnosis) {
  const CaseFolder folder =
      GivenCase(op, params, tensors, outputs, expected_error);
  Effort effort{.margin = margin, .diagnosis = diagnosis};
  if (most_work) effort.most_work = *most_work;
  return WithoutGil([&] {
    return JudgeGiven(folder, ParseScalar(scalar), like,
                      generated ? NumbersFrom::kUs : NumbersFrom::kUser,
                      effort);
  });
}

// Judges rows of an output. Returns the reason if they are wrong, otherwise "".
std::string WhyRowsFail(const std::string& op, nb::dict params,
                        nb::list tensors, nb::list outputs,
                        const std::string& scalar, const std::string& like,
                        uint64_t seed) {
  const CaseFolder folder = GivenCase(op, params, tensors, outputs, 0);
  return WithoutGil([&] {
    const Verdict verdict =
        JudgeRowsGiven(folder, ParseScalar(scalar), like, seed);
    return verdict.outcome == Outcome::kFailed ? verdict.reason : "";
  });
}

// Returns the operator's implementations on the CPU that have a norm-wise error
// bound.
std::vector<std::string> NormWise(const std::string& op) {
  std::vector<std::string> names;
  for (const Implementation* implementation :
       ImplementationsOf(FindOperator(op)))
    if (implementation->norm_bound && implementation->backend == Backend::kCpu)
      names.emplace_back(implementation->id);
  return names;
}

// Returns where the wrong elements are, by output.
std::vector<std::string> WhereOf(const GivenVerdict& judged) {
  std::vector<std::string> where;
  if (judged.verdict.diagnosis)
    for (const WrongElements& wrong : judged.verdict.diagnosis->outputs)
      where.push_back(wrong.output + ": " + wrong.Text());
  return where;
}

// What a test accepts, and what to change.
struct MeasuredPower {
  AllClose tolerance;
  TestPower power;
  std::optional<Advice> advice;
};

// Returns the power of a test. `grad` has one tensor or none. Without rtol and
// atol, the defaults of PyTorch for the type are used.
MeasuredPower PowerOfTest(const std::string& op, nb::dict params,
                          nb::list tensors, nb::list grad,
                          const std::string& scalar, std::optional<double> rtol,
                          std::optional<double> atol, bool advise) {
  std::vector<ReadOnlyArray> kept;
  const Params values = ParamsOf(params);
  const std::vector<GivenArray> inputs = ArraysOf(tensors, kept);
  const std::vector<GivenArray> incoming = ArraysOf(grad, kept);
  const Scalar type = ParseScalar(scalar);
  MeasuredPower result;
  result.tolerance =
      rtol && atol ? AllClose{*rtol, *atol} : AllClose::DefaultOf(type);
  // This work takes about ten seconds on two cores, and the advice as long
  // again.
  constexpr double kWork = 1e10, kWorkOfAdvice = 1e9;
  WithoutGil([&] {
    OwnTest test = MakeOwnTest(
        op, values, inputs,
        incoming.empty() ? std::nullopt : std::optional(incoming.front()), type,
        result.tolerance);
    result.power = PowerOf(test, kWork);
    if (advise) result.advice = AdviseOn(test, result.power, kWorkOfAdvice);
  });
  return result;
}

}  // namespace

void BindVerdicts(nb::module_& module) {
  nb::class_<WorstPlace>(module, "Worst")
      .def_ro("output", &WorstPlace::output)
      .def_ro("batch", &WorstPlace::batch)
      .def_ro("head", &WorstPlace::head)
      .def_ro("row", &WorstPlace::row)
      .def_ro("element", &WorstPlace::element)
      .def_ro("expected", &WorstPlace::expected)
      .def_ro("found", &WorstPlace::found);
  nb::class_<BlindSpot>(module, "BlindSpot")
      .def_ro("name", &BlindSpot::name)
      .def_ro("distance", &BlindSpot::distance)
      .def_ro("remedy", &BlindSpot::remedy);
  const auto of_verdict = [](auto member) {
    return
        [member](const GivenVerdict& judged) { return judged.verdict.*member; };
  };
  const auto of_margin = [](auto member) {
    return [member](const GivenVerdict& judged) {
      return judged.verdict.margin.*member;
    };
  };
  const auto of_numbers = [](auto member) {
    return [member](const GivenVerdict& judged) {
      return judged.verdict.comparison.*member;
    };
  };
  nb::class_<GivenVerdict>(module, "Verdict")
      .def_prop_ro("verdict",
                   [](const GivenVerdict& judged) {
                     return std::string(ToString(judged.verdict.outcome));
                   })
      .def_prop_ro("reason", of_verdict(&Verdict::reason))
      .def_prop_ro("gates", of_verdict(&Verdict::gates))
      .def_prop_ro("scalar",
                   [](const GivenVerdict& judged) {
                     return std::string(Info(judged.scalar).name);
                   })
      .def_prop_ro(
          "gate",
          [](const GivenVerdict& judged) { return judged.deciding.gate; })
      .def_prop_ro(
          "error",
          [](const GivenVerdict& judged) { return judged.deciding.error; })
      .def_prop_ro(
          "bound",
          [](const GivenVerdict& judged) { return judged.deciding.tolerance; })
      .def_prop_ro("margin", of_margin(&Margin::value))
      .def_prop_ro("nearest", of_margin(&Margin::nearest))
      .def_prop_ro("blind_to", of_margin(&Margin::blind_to))
      .def_prop_ro("where", &WhereOf)
      .def_prop_ro("wrong_share",
                   [](const GivenVerdict& judged) {
                     const auto& diagnosis = judged.verdict.diagnosis;
                     return diagnosis ? diagnosis->Share() : 0.0;
                   })
      .def_prop_ro("looks_like",
                   [](const GivenVerdict& judged) {
                     const auto& diagnosis = judged.verdict.diagnosis;
                     return diagnosis ? diagnosis->looks_like.name : "";
                   })
      .def_prop_ro("known_mistakes",
                   [](const GivenVerdict& judged) {
                     const auto& diagnosis = judged.verdict.diagnosis;
                     return diagnosis ? diagnosis->looks_like.known : 0;
                   })
      .def_prop_ro("rows", of_numbers(&Comparison::rows))
      .def_prop_ro("all_rows", of_numbers(&Comparison::all_rows))
      .def_prop_ro("error_over_bound", of_numbers(&Comparison::max_over_bound))
      .def_prop_ro("error_over_plain", of_numbers(&Comparison::over_plain))
      .def_ro("worst", &GivenVerdict::worst);
  module.def("check", &Check);
  module.def("why_rows_fail", &WhyRowsFail);
  module.def("norm_wise", &NormWise);
  module.def("why_missing", [](const std::string& op, const std::string& name) {
    return WhyMissing({op}, name);
  });
  module.def("judge", &JudgeOutput, nb::arg("op"), nb::arg("params"),
             nb::arg("tensors"), nb::arg("outputs"), nb::arg("expected_error"),
             nb::arg("scalar"), nb::arg("like"), nb::arg("generated"),
             nb::arg("most_work").none() = nb::none(), nb::arg("margin") = true,
             nb::arg("diagnosis") = true);

  nb::class_<TriedAnswer>(module, "TriedAnswer")
      .def_ro("name", &TriedAnswer::name)
      .def_ro("over", &TriedAnswer::over)
      .def_ro("ours", &TriedAnswer::ours)
      .def_ro("same", &TriedAnswer::same)
      .def_ro("revealing_shapes", &TriedAnswer::revealing_shapes);
  nb::class_<Power>(module, "Power")
      .def_ro("tried", &Power::tried)
      .def_ro("right", &Power::right)
      .def_ro("rows", &Power::rows)
      .def_ro("all_rows", &Power::all_rows);
  nb::class_<Advice>(module, "Advice")
      .def_ro("changes", &Advice::changes)
      .def_prop_ro(
          "rtol",
          [](const Advice& advice) { return advice.tolerance.relative; })
      .def_prop_ro(
          "atol",
          [](const Advice& advice) { return advice.tolerance.absolute; })
      .def_ro("still_accepted", &Advice::still_accepted)
      .def_ro("indistinguishable", &Advice::indistinguishable);
  nb::class_<MeasuredPower>(module, "MeasuredPower")
      .def_prop_ro(
          "rtol",
          [](const MeasuredPower& power) { return power.tolerance.relative; })
      .def_prop_ro(
          "atol",
          [](const MeasuredPower& power) { return power.tolerance.absolute; })
      .def_prop_ro("out",
                   [](const MeasuredPower& power) { return power.power.out; })
      .def_prop_ro(
          "gradients",
          [](const MeasuredPower& power) { return power.power.gradients; })
      .def_ro("advice", &MeasuredPower::advice);
  module.def("power", &PowerOfTest, nb::arg("op"), nb::arg("params"),
             nb::arg("tensors"), nb::arg("grad"), nb::arg("scalar"),
             nb::arg("rtol").none(), nb::arg("atol").none(), nb::arg("advise"));
}

}  // namespace subquad
