// Runs our implementations on the caller's arrays, and writes result files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/base/statistics.h"
#include "harness/machine/environment.h"
#include "harness/python/arrays.h"
#include "harness/python/bindings.h"
#include "harness/python/timed.h"
#include "harness/results/result_file.h"

namespace nb = nanobind;

namespace subquad {
namespace {

// One of our implementations with the arrays that it reads.
class Timed {
 public:
  Timed(const std::string& op, nb::dict params, nb::list tensors,
        const std::string& implementation, int threads,
        const std::vector<std::string>& wanted) {
    const Params values = ParamsOf(params);
    const std::vector<GivenArray> arrays = ArraysOf(tensors, kept_);
    program_ = WithoutGil([&] {
      return std::make_unique<ReadyProgram>(op, values, arrays, implementation,
                                            threads, wanted);
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

// Returns a record without measurements of one of our implementations.
Record RecordOfOurs(const Case& test_case, const std::string& implementation,
                    int threads) {
  return MakeRecord(
      test_case, ProblemOf(test_case),
      FindImplementation(test_case.op->description().id, implementation),
      threads, Verdict::Skipped(""));
}

// Returns a record without measurements of a user's function, whose costs are
// unknown.
Record RecordOfFunction(const Case& test_case, const std::string& name,
                        int threads) {
  const Implementation& any = *ImplementationsOf(*test_case.op).front();
  Record record = MakeRecord(test_case, ProblemOf(test_case), any, threads,
                             Verdict::Skipped(""));
  record.implementation = name;
  record.workspace_formula_bytes.reset();
  record.flops.reset();
  return record;
}

// Returns the text of a result file.
std::string ResultFile(const std::string& command, const std::string& created,
                       uint64_t seed, int threads,
                       const std::vector<Record>& records) {
  return WithoutGil([&] {
    const RunInfo run{.command = command,
                      .created = created,
                      .seed = seed,
                      .environment = DescribeEnvironment(threads)};
    return MakeResultFile(run, records).dump(1);
  });
}

}  // namespace

nb::object ToPython(const Json& json) {
  switch (json.type()) {
    case Json::value_t::object: {
      nb::dict dict;
      for (const auto& [name, value] : json.items())
        dict[name.c_str()] = ToPython(value);
      return nb::object(dict);
    }
    case Json::value_t::array: {
      nb::list list;
      for (const Json& entry : json) list.append(ToPython(entry));
      return nb::object(list);
    }
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return nb::str(text.c_str(), text.size());
    }
    case Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return nb::int_(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return nb::int_(json.get<uint64_t>());
    case Json::value_t::number_float:
      return nb::float_(json.get<double>());
    default:
      return nb::none();
  }
}

void BindRecords(nb::module_& module) {
  nb::class_<Timed>(module, "Timed")
      .def(nb::init<const std::string&, nb::dict, nb::list, const std::string&,
                    int, const std::vector<std::string>&>())
      .def("run", &Timed::Run)
      .def("outputs", &Timed::Outputs)
      .def("take", &Timed::Take)
      .def_prop_ro("implementation", &Timed::Id);
  nb::class_<Record>(module, "Record")
      .def_ro("implementation", &Record::implementation)
      .def_prop_ro("passed", &Record::passed)
      .def_rw("setup_seconds", &Record::setup_seconds)
      .def_rw("first_seconds", &Record::first_seconds)
      .def_rw("remark", &Record::remark)
      .def("judge",
           [](Record& record, const GivenVerdict& judged) {
             record.check = CheckOf(judged.verdict);
           })
      .def("fail", &Record::Fail)
      .def("skip",
           [](Record& record, const std::string& reason) {
             record.check = CheckOf(Verdict::Skipped(reason));
           })
      .def("set_samples",
           [](Record& record, const std::vector<double>& samples,
              const std::string& stopped_by) {
             record.seconds =
                 Times{.samples = samples, .stopped_by = stopped_by};
           })
      .def("as_dict",
           [](const Record& record) { return ToPython(ToJson(record)); });
  module.def("record_of_ours", &RecordOfOurs);
  module.def("record_of_function", &RecordOfFunction);
  module.def("result_file", &ResultFile);
}

}  // namespace subquad
