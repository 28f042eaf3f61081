// The module subquad._subquad, a thin layer that the Python package calls. The
// GIL is released during computations.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/base/output_file.h"
#include "harness/machine/build_info.h"
#include "harness/machine/environment.h"
#include "harness/python/arrays.h"
#include "harness/python/bindings.h"
#include "harness/registry/operator_listing.h"
#include "reference/base/field_words.h"

namespace nb = nanobind;

namespace subquad {

CaseFolder GivenCase(const std::string& op, nb::dict params, nb::list tensors,
                     nb::list expected, double expected_error) {
  std::vector<ReadOnlyArray> kept;
  const Params values = ParamsOf(params);
  const std::vector<GivenArray> inputs = ArraysOf(tensors, kept);
  const std::vector<GivenArray> outputs = ArraysOf(expected, kept);
  return WithoutGil([&] {
    return MakeGivenCase(op, values, inputs, outputs, expected_error);
  });
}

namespace {

nb::dict Definition(const std::string& op, nb::dict params, nb::list tensors,
                    const std::vector<int64_t>& rows,
                    const std::vector<std::string>& wanted) {
  std::vector<ReadOnlyArray> kept;
  const Params given = ParamsOf(params);
  const std::vector<GivenArray> inputs = ArraysOf(tensors, kept);
  const CaseFolder folder = WithoutGil(
      [&] { return MakeGivenCase(op, given, inputs, {}, 0, wanted); });
  nb::dict outputs;
  for (size_t o = 0; o < folder.problem.outputs.size(); ++o) {
    Shape shape;
    const std::vector<double> values =
        WithoutGil([&] { return DefinitionRows(folder, o, rows, shape); });
    outputs[folder.problem.outputs[o].name.c_str()] =
        NumPyOf(values, shape, Scalar::kFloat64);
  }
  return outputs;
}

void SaveCase(const std::string& folder, const std::string& op, nb::dict params,
              nb::list tensors, nb::list expected, double expected_error,
              const std::string& source) {
  const CaseFolder case_folder =
      GivenCase(op, params, tensors, expected, expected_error);
  WithoutGil([&] { WriteGivenCase(folder, case_folder, source); });
}

nb::dict LoadCase(const std::string& folder) {
  const CaseFolder case_folder =
      WithoutGil([&] { return ReadCaseFolder(folder); });
  nb::dict inputs, expected, dict;
  for (size_t i = 0; i < case_folder.inputs.tensors.size(); ++i) {
    const Tensor& tensor = case_folder.inputs.tensors[i];
    inputs[tensor.name.c_str()] =
        case_folder.problem.inputs[i].zero_or_one
            ? BooleansOf(tensor.values, tensor.shape)
            : NumPyOf(tensor.values, tensor.shape, Scalar::kFloat64);
  }
  for (const ExpectedTensor& tensor : case_folder.expected)
    expected[tensor.name.c_str()] =
        NumPyOf(tensor.values, tensor.shape,
                tensor.is_float32 ? Scalar::kFloat32 : Scalar::kFloat64);
  dict["operator"] = std::string(case_folder.op->description().id);
  dict["params"] = ToPython(case_folder.problem.params);
  dict["inputs"] = inputs;
  dict["expected"] = expected;
  dict["expected_error"] = case_folder.expected_error;
  dict["source"] = case_folder.source;
  return dict;
}

}  // namespace
}  // namespace subquad

NB_MODULE(_subquad, module) {
  using namespace subquad;  // NOLINT: the module exports this namespace
  nb::register_exception_translator(
      [](const std::exception_ptr& problem, void*) {
        try {
          std::rethrow_exception(problem);
        } catch (const InvalidInput& invalid) {
          PyErr_SetString(PyExc_ValueError, invalid.what());
        }
      });
  module.attr("version") = kVersion;
  module.attr("commit") = kCommit;
  module.def("operators", [] {
    std::vector<std::string> ids;
    for (const Operator* op : Operators())
      ids.emplace_back(op->description().id);
    return ids;
  });
  module.def("listing", [](const std::string& op) {
    return ToPython(WriteJson(ListOperator(FindOperator(op))));
  });
  module.def("field_advice", &FieldAdvice);
  module.def("definition", &Definition);
  module.def("save_case", &SaveCase);
  module.def("load_case", &LoadCase);
  module.def("check_output_file",
             [](const std::string& name, const std::string& path) {
               OutputFile(name, path, "");
             });
  module.def("check_output_folder",
             [](const std::string& name, const std::string& path) {
               CheckOutputFolder(name, path);
             });
  module.def("write_file",
             [](const std::string& path, const std::string& text) {
               WriteFileAtomically(path, text);
             });
  module.def("now", &CurrentTime);
  BindVerdicts(module);
  BindAnswers(module);
  BindCases(module);
  BindRecords(module);
  BindGuests(module);
}
