// Generated cases, and problems with drawn tensors.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/cases/generate.h"
#include "harness/cases/random_case.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/machine/free_memory.h"
#include "harness/python/arrays.h"
#include "harness/python/bindings.h"
#include "reference/base/work.h"

namespace nb = nanobind;

namespace subquad {
namespace {

// The tensors of a case and the shapes of its outputs.
struct DrawnProblem {
  std::string op, scalar;
  nb::object params;
  nb::dict tensors;  // name: NumPy array; 16-bit types as uint16, masks as bool
  nb::dict outputs;  // name: shape
  bool backward = false;
};

nb::object TupleOf(const Shape& shape) {
  nb::list extents;
  for (const int64_t extent : shape) extents.append(extent);
  return nb::tuple(extents);
}

nb::dict OutputShapes(const Problem& problem) {
  nb::dict shapes;
  for (size_t o = 0; o < problem.outputs.size(); ++o)
    shapes[problem.outputs[o].name.c_str()] = TupleOf(problem.OutputShape(o));
  return shapes;
}

nb::dict InputShapes(const Problem& problem) {
  nb::dict shapes;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    shapes[problem.inputs[i].name.c_str()] = TupleOf(problem.InputShape(i));
  return shapes;
}

DrawnProblem DrawProblem(const Case& test_case) {
  Problem problem;
  const Inputs inputs = WithoutGil([&] {
    problem = ProblemOf(test_case);
    CheckFitsMemory(test_case.Id(), problem);
    return GenerateInputs(test_case, problem);
  });
  DrawnProblem drawn{.op = std::string(test_case.op->description().id),
                     .scalar = std::string(Info(test_case.scalar).name),
                     .params = ToPython(problem.params),
                     .outputs = OutputShapes(problem),
                     .backward = test_case.backward};
  for (size_t i = 0; i < inputs.tensors.size(); ++i) {
    const Tensor& tensor = inputs.tensors[i];
    drawn.tensors[tensor.name.c_str()] =
        problem.inputs[i].zero_or_one
            ? BooleansOf(tensor.values, tensor.shape)
            : NumPyOf(tensor.values, tensor.shape, test_case.scalar);
  }
  return drawn;
}

// Returns the number of queries if there are as many keys, and nothing if the
// two differ or if the operator has no such sizes.
std::optional<int64_t> LengthOf(const Case& test_case) {
  const Signature signature =
      test_case.op->SignatureFor(test_case.params, test_case.backward);
  const auto queries = test_case.sizes.find(signature.queries);
  const auto keys = test_case.sizes.find(signature.keys);
  const bool square = queries != test_case.sizes.end() &&
                      keys != test_case.sizes.end() && queries != keys &&
                      queries->second == keys->second;
  return square ? std::optional(queries->second) : std::nullopt;
}

// Returns the parameters, sizes and axes by the names that a user gives them.
nb::dict SettingsOf(const Case& test_case) {
  nb::dict settings;
  settings.update(nb::cast<nb::dict>(ToPython(test_case.params)));
  for (const auto& [name, extent] : test_case.sizes)
    settings[name.c_str()] = extent;
  if (const auto length = LengthOf(test_case)) settings["n"] = *length;
  settings["heads"] = test_case.leading.heads;
  settings["batch"] = test_case.leading.batch;
  settings["per_head"] = test_case.leading.per_head;
  return settings;
}

// Returns the leading axes of single tensors if groups of heads share one of
// them, as in an id (k:2+v:2); otherwise "".
std::string SharedAxes(const Case& test_case) {
  for (const auto& [name, axes] : test_case.leading.own)
    if (!axes.empty() && axes.back() != 1 &&
        axes.back() != std::max<int64_t>(1, test_case.leading.heads))
      return LeadingText(test_case.leading.own);
  return "";
}

// Returns the number of batch and head axes of every input.
nb::dict LeadingAxesOf(const Case& test_case) {
  const Problem problem = ProblemOf(test_case);
  nb::dict axes;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    axes[problem.inputs[i].name.c_str()] = problem.input_leading[i].size();
  return axes;
}

// Returns the required inputs that are data, which groups of heads may share.
std::vector<std::string> DataInputs(const Case& test_case) {
  const Signature signature =
      test_case.op->SignatureFor(test_case.params, false);
  std::vector<std::string> names;
  for (const TensorRule& rule : signature.inputs)
    if (rule.role == Role::kData && !rule.optional) names.push_back(rule.name);
  return names;
}

// Returns the multiply-adds of the reference for all rows.
double WorkOf(const Case& test_case) {
  const Problem problem = ProblemOf(test_case);
  double work = SharedWork(problem);
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const auto output = static_cast<int>(o);
    const OutputLayout layout = LayoutOf(problem, output);
    work += static_cast<double>(layout.heads * layout.rows) *
            WorkOfRow(problem, output);
  }
  return work;
}

using Values = std::vector<std::pair<std::string, std::string>>;

std::vector<Case> CasesFor(const std::string& op, const Values& values,
                           const std::vector<int64_t>& sizes,
                           const std::string& scalar, uint64_t seed) {
  return WithoutGil([&] {
    return CasesWith(FindOperator(op), values,
                     sizes.empty() ? AwkwardSizes() : sizes,
                     ParseScalar(scalar), seed);
  });
}

// Makes a case from values that are named as in an id.
Case CaseFor(const std::string& op, int64_t n, const Values& values,
             const std::string& scalar, uint64_t seed) {
  CaseRequest request;
  request.op = &FindOperator(op);
  request.n = n;
  request.values = values;
  request.scalar = ParseScalar(scalar);
  request.seed = seed;
  return MakeCase(request);
}

// Returns the case with another seed and, unless it is empty, kind of input.
Case WithOtherNumbers(const Case& test_case, uint64_t seed,
                      const std::string& input) {
  CaseRequest request = ParseCaseId(test_case.Id());
  request.seed = seed;
  if (!input.empty()) request.input = input;
  return MakeCase(request);
}

// Returns the case with other values, which are named as in an id.
Case WithValues(const Case& test_case, const Values& values) {
  CaseRequest request = ParseCaseId(test_case.Id());
  for (const auto& [name, text] : values) {
    std::erase_if(request.values, [name = name](const auto& value) {
      return value.first == name;
    });
    request.values.emplace_back(name, text);
  }
  return MakeCase(request);
}

std::string WhyNotRun(const Case& test_case, const std::string& implementation,
                      int threads) {
  const Problem problem = ProblemOf(test_case);
  const Implementation& ours =
      FindImplementation(test_case.op->description().id, implementation);
  const std::string why = WhyNot(ours, problem);
  return why.empty() ? DoesNotFit(ours, problem, threads) : why;
}

}  // namespace

void BindCases(nb::module_& module) {
  nb::class_<DrawnProblem>(module, "Problem")
      .def_ro("operator", &DrawnProblem::op)
      .def_ro("scalar", &DrawnProblem::scalar)
      .def_ro("params", &DrawnProblem::params)
      .def_ro("tensors", &DrawnProblem::tensors)
      .def_ro("outputs", &DrawnProblem::outputs)
      .def_ro("backward", &DrawnProblem::backward);
  nb::class_<Case>(module, "Case")
      .def_prop_ro("id", &Case::Id)
      .def_prop_ro("scalar",
                   [](const Case& test_case) {
                     return std::string(Info(test_case.scalar).name);
                   })
      .def_ro("backward", &Case::backward)
      .def_ro("optional_inputs", &Case::with)
      .def_prop_ro(
          "heads",
          [](const Case& test_case) { return test_case.leading.heads; })
      .def_prop_ro("shared_axes", &SharedAxes)
      .def_prop_ro("leading_axes", &LeadingAxesOf)
      .def_prop_ro("data_inputs", &DataInputs)
      .def_prop_ro("work", &WorkOf)
      .def_prop_ro("length", &LengthOf)
      .def_prop_ro(
          "params",
          [](const Case& test_case) { return ToPython(test_case.params); })
      .def_prop_ro("settings", &SettingsOf)
      .def_prop_ro(
          "queries",
          [](const Case& test_case) { return ProblemOf(test_case).queries; })
      .def_prop_ro(
          "keys",
          [](const Case& test_case) { return ProblemOf(test_case).keys; })
      .def_prop_ro("input_shapes",
                   [](const Case& test_case) {
                     return InputShapes(ProblemOf(test_case));
                   })
      .def_prop_ro("output_shapes",
                   [](const Case& test_case) {
                     return OutputShapes(ProblemOf(test_case));
                   })
      .def("draw", &DrawProblem)
      .def("with_other_numbers", &WithOtherNumbers)
      .def("with_values", &WithValues)
      .def("simpler",
           [](const Case& test_case) { return SimplerCases(test_case); })
      .def("why_not", &WhyNotRun)
      .def("__eq__",
           [](const Case& test_case, const Case& other) {
             return test_case.Id() == other.Id();
           })
      .def("__hash__",
           [](const Case& test_case) {
             return static_cast<int64_t>(
                 std::hash<std::string>()(test_case.Id()) >> 1);
           })
      .def("__str__", &Case::Id)
      .def("__repr__", &Case::Id);
  module.def("cases", &CasesFor);
  module.def("case_for", &CaseFor);
  module.def("hard_inputs", [] { return RandomInputs(); });
}

}  // namespace subquad
