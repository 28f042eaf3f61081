// The right and the wrong answers by which tests are tested.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "harness/python/arrays.h"
#include "harness/python/bindings.h"

namespace nb = nanobind;

namespace subquad {
namespace {

// Values of some of the sampled rows of an output: [rows, width].
struct OutputRows {
  std::string output;
  std::vector<int64_t> rows;  // places in the sample, in increasing order
  std::vector<double> values;
  int64_t width = 1;
};

struct ListedAnswer {
  std::string name;
  bool same = false;  // equals the right answer to the last digit
  std::vector<OutputRows> outputs;
};

// The right answer on a sample of rows, and answers of right and wrong programs
// as their type stores them.
struct ListedAnswers {
  std::vector<OutputRows> expected;         // exact, all rows of the sample
  std::vector<std::vector<RowId>> sampled;  // by output
  bool all_rows = true;
  std::vector<ListedAnswer> right, wrong;
};

ListedAnswer Listed(const Problem& problem, const Answer& stored,
                    const WrongAnswer& answer) {
  ListedAnswer listed{answer.name, IsSame(problem, stored, answer), {}};
  const std::vector<ReturnedRows> returned = RowsOf(problem, stored, answer);
  for (size_t o = 0; o < returned.size(); ++o)
    listed.outputs.push_back(
        {stored.outputs[o].name,
         {returned[o].rows.begin(), returned[o].rows.end()},
         returned[o].values,
         stored.outputs[o].width});
  return listed;
}

ListedAnswers AnswersTo(const std::string& op, nb::dict params,
                        nb::list tensors, nb::list grad,
                        const std::string& scalar, double most_work) {
  std::vector<ReadOnlyArray> kept;
  const Params values = ParamsOf(params);
  const std::vector<GivenArray> inputs = ArraysOf(tensors, kept);
  const std::vector<GivenArray> incoming = ArraysOf(grad, kept);
  return WithoutGil([&] {
    const OwnTest test = MakeOwnTest(
        op, values, inputs,
        incoming.empty() ? std::nullopt : std::optional(incoming.front()),
        ParseScalar(scalar), {});
    const Problem& problem = test.backward ? *test.backward : test.problem;
    const Inputs& read = test.backward ? test.backward_inputs : test.inputs;
    const TestAnswers answers = AnswersOfTest(problem, read, most_work);
    ListedAnswers listed;
    for (const OutputAnswer& output : answers.expected->outputs) {
      OutputRows right{output.name, {}, {}, output.width};
      for (int64_t r = 0; r < std::ssize(output.selection.rows); ++r)
        right.rows.push_back(r);
      right.values.assign(output.value.begin(), output.value.end());
      listed.expected.push_back(std::move(right));
      listed.sampled.push_back(output.selection.rows);
      listed.all_rows = listed.all_rows && output.selection.all;
    }
    for (const RightAnswer& right :
         RightAnswersOfTest(problem, read, answers, most_work))
      listed.right.push_back(Listed(problem, *answers.stored, right.answer));
    for (const WrongAnswer& wrong : answers.wrong)
      if (!wrong.small_by_design)
        listed.wrong.push_back(Listed(problem, *answers.stored, wrong));
    return listed;
  });
}

nb::object IntegersOf(const std::vector<int64_t>& values) {
  auto* data = new int64_t[values.size()];
  std::ranges::copy(values, data);
  nb::capsule owner(data, [](void* memory) noexcept {
    delete[] static_cast<int64_t*>(memory);
  });
  const size_t count = values.size();
  return nb::ndarray<nb::numpy>(data, 1, &count, owner, nullptr,
                                nb::dtype<int64_t>())
      .cast();
}

}  // namespace

void BindAnswers(nb::module_& module) {
  nb::class_<OutputRows>(module, "OutputRows")
      .def_ro("output", &OutputRows::output)
      .def_prop_ro("rows",
                   [](const OutputRows& one) { return IntegersOf(one.rows); })
      .def_prop_ro("values", [](const OutputRows& one) {
        return NumPyOf(one.values, {std::ssize(one.rows), one.width},
                       Scalar::kFloat64);
      });
  nb::class_<ListedAnswer>(module, "ListedAnswer")
      .def_ro("name", &ListedAnswer::name)
      .def_ro("same", &ListedAnswer::same)
      .def_ro("outputs", &ListedAnswer::outputs);
  nb::class_<ListedAnswers>(module, "ListedAnswers")
      .def_ro("expected", &ListedAnswers::expected)
      .def_ro("all_rows", &ListedAnswers::all_rows)
      .def_ro("right", &ListedAnswers::right)
      .def_ro("wrong", &ListedAnswers::wrong)
      .def_prop_ro("sampled", [](const ListedAnswers& answers) {
        nb::list of_outputs;
        for (const std::vector<RowId>& ids : answers.sampled) {
          std::vector<int64_t> heads, rows;
          for (const RowId& id : ids) {
            heads.push_back(id.head);
            rows.push_back(id.row);
          }
          of_outputs.append(
              nb::make_tuple(IntegersOf(heads), IntegersOf(rows)));
        }
        return of_outputs;
      });
  module.def("answers", &AnswersTo, nb::arg("op"), nb::arg("params"),
             nb::arg("tensors"), nb::arg("grad"), nb::arg("scalar"),
             nb::arg("most_work"));
}

}  // namespace subquad
