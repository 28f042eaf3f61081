// The module subquad._subquad, a thin layer that the Python package calls. The
// GIL is released during computations.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "harness/base/output_file.h"
#include "harness/base/statistics.h"
#include "harness/cases/generate.h"
#include "harness/cases/random_case.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/machine/build_info.h"
#include "harness/machine/environment.h"
#include "harness/python/arrays.h"
#include "harness/python/timed.h"
#include "harness/registry/operator_listing.h"
#include "harness/results/result_file.h"

namespace nb = nanobind;

namespace subquad {
namespace {

template <typename Work>
auto WithoutGil(const Work& work) {
  nb::gil_scoped_release released;
  return work();
}

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

nb::list ToPython(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(text);
  return list;
}

nb::dict ToPython(const GivenVerdict& judged) {
  const Verdict& verdict = judged.verdict;
  const Comparison& numbers = verdict.comparison;
  nb::dict dict;
  dict["verdict"] = std::string(ToString(verdict.outcome));
  dict["reason"] = verdict.reason;
  dict["gates"] = verdict.gates;
  dict["check"] = ToJson(CheckOf(verdict)).dump();
  dict["scalar"] = std::string(Info(judged.scalar).name);
  dict["gate"] = judged.deciding.gate;
  dict["error"] = judged.deciding.error;
  dict["bound"] = judged.deciding.tolerance;
  dict["margin"] = verdict.margin.value;
  dict["nearest"] = verdict.margin.nearest;
  dict["wrong_answers"] = verdict.margin.wrong_answers;
  nb::list blind_to;
  for (const BlindSpot& spot : verdict.margin.blind_to)
    blind_to.append(nb::make_tuple(spot.name, spot.distance, spot.remedy));
  dict["blind_to"] = blind_to;
  std::vector<std::string> where;
  if (verdict.diagnosis)
    for (const WrongElements& wrong : verdict.diagnosis->outputs)
      where.push_back(wrong.output + ": " + wrong.Text());
  dict["where"] = ToPython(where);
  dict["wrong_share"] = verdict.diagnosis ? verdict.diagnosis->Share() : 0.0;
  dict["looks_like"] =
      verdict.diagnosis ? verdict.diagnosis->looks_like.name : "";
  dict["known_mistakes"] =
      verdict.diagnosis ? verdict.diagnosis->looks_like.known : 0;
  dict["rows"] = numbers.rows;
  dict["all_rows"] = numbers.all_rows;
  dict["error_over_bound"] = numbers.max_over_bound;
  dict["error_over_plain"] = numbers.over_plain;
  dict["worst"] = nb::none();
  if (judged.worst) {
    nb::dict worst;
    worst["output"] = judged.worst->output;
    worst["batch"] = judged.worst->batch;
    worst["head"] = judged.worst->head;
    worst["row"] = judged.worst->row;
    worst["element"] = judged.worst->element;
    worst["expected"] = judged.worst->expected;
    worst["found"] = judged.worst->found;
    dict["worst"] = worst;
  }
  return dict;
}

nb::dict Check(const std::string& op, nb::dict params, nb::list tensors,
               nb::list expected, double expected_error) {
  const CaseFolder folder =
      GivenCase(op, params, tensors, expected, expected_error);
  return ToPython(WithoutGil([&] { return CheckGiven(folder); }));
}

nb::dict JudgeOutput(const std::string& op, nb::dict params, nb::list tensors,
                     nb::list outputs, double expected_error,
                     const std::string& scalar, const std::string& like,
                     bool generated) {
  const CaseFolder folder =
      GivenCase(op, params, tensors, outputs, expected_error);
  return ToPython(WithoutGil([&] {
    return JudgeGiven(folder, ParseScalar(scalar), like,
                      generated ? NumbersFrom::kUs : NumbersFrom::kUser);
  }));
}

nb::dict ToPython(const Power& power) {
  nb::list tried;
  for (const TriedAnswer& answer : power.tried)
    tried.append(
        nb::make_tuple(answer.name, answer.over, answer.ours, answer.same));
  nb::dict dict;
  dict["tried"] = tried;
  dict["right"] = power.right;
  dict["rows"] = power.rows;
  dict["all_rows"] = power.all_rows;
  return dict;
}

// Returns the power of a test. `grad` has one tensor or none; negative rtol and
// atol mean PyTorch's defaults.
nb::dict PowerOfTest(const std::string& op, nb::dict params, nb::list tensors,
                     nb::list grad, const std::string& scalar, double rtol,
                     double atol, bool advise) {
  std::vector<ReadOnlyArray> kept;
  const Params values = ParamsOf(params);
  const std::vector<GivenArray> inputs = ArraysOf(tensors, kept);
  const std::vector<GivenArray> incoming = ArraysOf(grad, kept);
  const Scalar type = ParseScalar(scalar);
  const AllClose tolerance =
      rtol < 0 && atol < 0 ? AllClose::DefaultOf(type) : AllClose{rtol, atol};
  // This work takes about ten seconds on two cores, and the advice as long
  // again.
  constexpr double kWork = 1e10, kWorkOfAdvice = 1e9;
  TestPower power;
  Advice advice;
  WithoutGil([&] {
    OwnTest test = MakeOwnTest(
        op, values, inputs,
        incoming.empty() ? std::nullopt : std::optional(incoming.front()), type,
        tolerance);
    power = PowerOf(test, kWork);
    if (advise) advice = AdviseOn(test, power, kWorkOfAdvice);
  });
  nb::dict dict;
  dict["rtol"] = tolerance.relative;
  dict["atol"] = tolerance.absolute;
  dict["out"] = ToPython(power.out);
  if (power.gradients) dict["gradients"] = ToPython(*power.gradients);
  if (advise) {
    nb::dict advised;
    advised["changes"] = ToPython(advice.changes);
    advised["rtol"] = advice.tolerance.relative;
    advised["atol"] = advice.tolerance.absolute;
    advised["still_accepted"] = ToPython(advice.still_accepted);
    advised["indistinguishable"] = ToPython(advice.indistinguishable);
    dict["advice"] = advised;
  }
  return dict;
}

nb::dict Definition(const std::string& op, nb::dict params, nb::list tensors,
                    const std::vector<int64_t>& rows) {
  const CaseFolder folder = GivenCase(op, params, tensors, nb::list(), 0);
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
  for (const Tensor& tensor : case_folder.inputs.tensors)
    inputs[tensor.name.c_str()] =
        NumPyOf(tensor.values, tensor.shape, Scalar::kFloat64);
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

// ---- generated cases
// ---------------------------------------------------------

using Values = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> IdsOf(const std::vector<Case>& cases) {
  std::vector<std::string> ids;
  for (const Case& test_case : cases) ids.push_back(test_case.Id());
  return ids;
}

std::vector<std::string> CasesFor(const std::string& op, const Values& values,
                                  const std::vector<int64_t>& sizes,
                                  const std::string& scalar, uint64_t seed) {
  return WithoutGil([&] {
    return IdsOf(CasesWith(FindOperator(op), values,
                           sizes.empty() ? AwkwardSizes() : sizes,
                           ParseScalar(scalar), seed));
  });
}

// Returns the id of a case from values that are named as in an id; n = 0 means
// that n is not given.
std::string CaseFor(const std::string& op, int64_t n, const Values& values,
                    const std::string& input, const std::string& scalar,
                    uint64_t seed) {
  CaseRequest request;
  request.op = &FindOperator(op);
  if (n > 0) request.n = n;
  request.values = values;
  request.input = input;
  request.scalar = ParseScalar(scalar);
  request.seed = seed;
  return MakeCase(request).Id();
}

// Returns the id of the case with another seed and kind of input.
std::string OtherNumbers(const std::string& id, uint64_t seed,
                         const std::string& input) {
  CaseRequest request = ParseCaseId(id);
  request.seed = seed;
  if (!input.empty()) request.input = input;
  return MakeCase(request).Id();
}

nb::dict Generate(const std::string& id) {
  const Case test_case = MakeCase(ParseCaseId(id));
  Problem problem;
  const Inputs inputs = WithoutGil([&] {
    problem = ProblemOf(test_case);
    return GenerateInputs(test_case, problem);
  });
  nb::dict tensors, shapes, dict;
  for (const Tensor& tensor : inputs.tensors)
    tensors[tensor.name.c_str()] =
        NumPyOf(tensor.values, tensor.shape, test_case.scalar);
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    nb::list shape;
    for (const int64_t extent : problem.OutputShape(o)) shape.append(extent);
    shapes[problem.outputs[o].name.c_str()] = nb::tuple(shape);
  }
  dict["operator"] = std::string(test_case.op->description().id);
  dict["params"] = ToPython(problem.params);
  dict["tensors"] = tensors;
  dict["outputs"] = shapes;
  dict["scalar"] = std::string(Info(test_case.scalar).name);
  dict["backward"] = test_case.backward;
  dict["queries"] = problem.queries;
  dict["keys"] = problem.keys;
  return dict;
}

std::vector<std::string> Simpler(const std::string& id) {
  return IdsOf(SimplerCases(MakeCase(ParseCaseId(id))));
}

// ---- timing and result files
// ---------------------------------------------------

// One of our implementations with the arrays that it reads.
class Timed {
 public:
  Timed(const std::string& op, nb::dict params, nb::list tensors,
        const std::string& implementation, int threads) {
    const Params values = ParamsOf(params);
    const std::vector<GivenArray> arrays = ArraysOf(tensors, kept_);
    program_ = WithoutGil([&] {
      return std::make_unique<ReadyProgram>(op, values, arrays, implementation,
                                            threads);
    });
  }

  double Run() {
    return WithoutGil([&] { return program_->Run(); });
  }
  std::string Id() const { return program_->implementation().id; }

  nb::dict Outputs() {
    nb::dict outputs;
    const Problem& problem = program_->problem();
    for (size_t o = 0; o < problem.outputs.size(); ++o) {
      const Shape shape = problem.OutputShape(o);
      const auto bytes =
          static_cast<size_t>(ElementCount(shape) * Info(problem.scalar).bytes);
      auto* copy = new char[bytes];
      std::copy_n(program_->output(o), bytes, copy);
      outputs[problem.outputs[o].name.c_str()] =
          NumPyOwning(copy, shape, problem.scalar);
    }
    return outputs;
  }

  // Moves the outputs out; this object cannot run any more.
  nb::dict Take() {
    nb::dict outputs;
    const Problem& problem = program_->problem();
    for (size_t o = 0; o < problem.outputs.size(); ++o)
      outputs[problem.outputs[o].name.c_str()] = NumPyOwning(
          program_->Release(o), problem.OutputShape(o), problem.scalar);
    return outputs;
  }

 private:
  std::vector<ReadOnlyArray> kept_;
  std::unique_ptr<ReadyProgram> program_;
};

// Returns a record of results/1 without measurements. For a user's function,
// `name` replaces the implementation and the costs are unknown.
std::string RecordFor(const std::string& id, const std::string& implementation,
                      const std::string& name, int threads) {
  const Case test_case = MakeCase(ParseCaseId(id));
  const Problem problem = ProblemOf(test_case);
  const Implementation& ours =
      implementation.empty()
          ? *ImplementationsOf(*test_case.op).front()
          : FindImplementation(test_case.op->description().id, implementation);
  Record record =
      MakeRecord(test_case, problem, ours, threads, Verdict::Skipped(""));
  if (implementation.empty()) {
    record.implementation = name;
    record.workspace_formula_bytes.reset();
    record.flops.reset();
  }
  return ToJson(record).dump();
}

std::string WhyNotRun(const std::string& id, const std::string& implementation,
                      int threads) {
  const Case test_case = MakeCase(ParseCaseId(id));
  const Problem problem = ProblemOf(test_case);
  const Implementation& ours =
      FindImplementation(test_case.op->description().id, implementation);
  const std::string why = WhyNot(ours, problem);
  return why.empty() ? DoesNotFit(ours, problem, threads) : why;
}

std::string ResultFile(const std::string& header, const std::string& records) {
  std::vector<Record> list;
  for (const Json& record : Json::parse(records))
    list.push_back(RecordOf(record, "record " + std::to_string(list.size())));
  return WithoutGil([&] {
    return MakeResultFile(RunInfo::Of(Json::parse(header), "header"), list)
        .dump(1);
  });
}

nb::tuple MedianOfSamples(const std::vector<double>& samples) {
  if (samples.empty()) throw InvalidInput("samples", "at least one", "none");
  const Median median = MedianWithInterval(samples);
  return nb::make_tuple(median.median, median.interval.low,
                        median.interval.high);
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
    return WriteJson(ListOperator(FindOperator(op))).dump();
  });
  module.def("check", &Check);
  module.def("judge", &JudgeOutput);
  module.def("power", &PowerOfTest);
  module.def("definition", &Definition);
  module.def("save_case", &SaveCase);
  module.def("load_case", &LoadCase);
  module.def("cases", &CasesFor);
  module.def("case_id", &CaseFor);
  module.def("other_numbers", &OtherNumbers);
  module.def("generate", &Generate);
  module.def("simpler", &Simpler);
  module.def("hard_inputs", [] { return RandomInputs(); });
  module.def("record", &RecordFor);
  module.def("why_not", &WhyNotRun);
  module.def("result_file", &ResultFile);
  module.def("median", &MedianOfSamples);
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
  module.def("environment", [](int threads) {
    return WithoutGil(
        [&] { return WriteJson(DescribeEnvironment(threads)).dump(); });
  });
  module.def("now", &CurrentTime);
  nb::class_<Timed>(module, "Timed")
      .def(nb::init<const std::string&, nb::dict, nb::list, const std::string&,
                    int>())
      .def("run", &Timed::Run)
      .def("outputs", &Timed::Outputs)
      .def("take", &Timed::Take)
      .def_prop_ro("implementation", &Timed::Id);
}
