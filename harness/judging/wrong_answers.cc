#include "harness/judging/wrong_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"

namespace subquad {
namespace {

constexpr double kUntouched = std::numeric_limits<double>::quiet_NaN();

void Add(const Outputs& right, size_t output, const std::string& name,
         const std::vector<double>& altered, std::vector<WrongAnswer>& list) {
  WrongAnswer wrong{name, right};
  if (right.size() > 1)
    wrong.name += " (output " + std::to_string(output) + ")";
  wrong.outputs[output] = altered;
  list.push_back(std::move(wrong));
}

std::vector<double> Scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// Row r of every head gets row r + 1, the last one the first.
std::vector<double> Shifted(const OutputLayout& layout,
                            std::vector<double> values) {
  const int64_t head_size = layout.rows * layout.width;
  for (auto head = values.begin(); head != values.end(); head += head_size)
    std::rotate(head, head + layout.width, head + head_size);
  return values;
}

std::vector<double> WithRow(const OutputLayout& layout, int64_t head,
                            int64_t row, double value,
                            std::vector<double> values) {
  std::fill_n(values.begin() + (head * layout.rows + row) * layout.width,
              layout.width, value);
  return values;
}

// The offset axes of one head's block, reversed.
void ReverseAxes(const TensorRule& rule, const Shape& shape, double* values) {
  for (int axis : rule.offset_axes) {
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int>(i) < axis) outer *= shape[i];
      if (static_cast<int>(i) > axis) inner *= shape[i];
    }
    const int64_t extent = shape[static_cast<size_t>(axis)];
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t a = 0; a < extent / 2; ++a) {
        double* block = values + o * extent * inner;
        std::swap_ranges(block + a * inner, block + (a + 1) * inner,
                         block + (extent - 1 - a) * inner);
      }
  }
}

// The inputs as somebody sees them who takes i - j for j - i; false when no
// tensor runs over offsets.
bool ReverseOffsets(const Problem& problem, Inputs& inputs) {
  bool any = false;
  for (size_t t = 0; t < problem.inputs.size(); ++t) {
    const TensorRule& rule = problem.inputs[t];
    if (rule.offset_axes.empty()) continue;
    any = true;
    Tensor& tensor = inputs.tensors[t];
    const Shape shape(
        tensor.shape.begin() +
            static_cast<std::ptrdiff_t>(problem.input_leading[t].size()),
        tensor.shape.end());
    const int64_t block = ElementCount(shape);
    for (size_t start = 0; start < tensor.values.size();
         start += static_cast<size_t>(block))
      ReverseAxes(rule, shape, tensor.values.data() + start);
  }
  return any;
}

void AddMisread(const std::string& name, const Problem& problem,
                const Inputs& inputs, uint64_t seed,
                std::vector<WrongAnswer>& list) {
  try {
    list.push_back(
        {name, RightAnswer(problem, ComputeAnswer(problem, inputs, seed))});
  } catch (const InvalidInput&) {
    // The misread problem has no answer: nobody would hand one in.
  }
}

void AddOtherFlags(const Trial& trial, uint64_t seed,
                   std::vector<WrongAnswer>& list) {
  const Problem& problem = trial.problem();
  std::vector<GivenShape> given;
  for (const Tensor& tensor : trial.inputs().tensors)
    given.push_back({tensor.name, tensor.shape});
  for (const ParamRule& rule : problem.op->ParamRules(problem.params)) {
    if (rule.type != ParamType::kFlag) continue;
    Params params = problem.params;
    params.Set(rule.name, !params.Flag(rule.name));
    try {
      const Problem other =
          ResolveProblem(*problem.op, params, problem.scalar, given);
      AddMisread(rule.name + " the other way", other, trial.inputs(), seed,
                 list);
    } catch (const InvalidInput&) {
      // It takes other tensors then.
    }
  }
}

}  // namespace

Outputs RightAnswer(const Problem& problem, const Answer& answer) {
  Outputs outputs;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& one = answer.outputs[o];
    if (!one.selection.all)
      throw InvalidInput("wrong answers", "a problem with all rows computed",
                         "a sample of them");
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    std::vector<double> values(
        static_cast<size_t>(layout.heads * layout.rows * layout.width));
    for (size_t r = 0; r < one.selection.rows.size(); ++r) {
      const RowId& id = one.selection.rows[r];
      for (int64_t c = 0; c < one.width; ++c)
        values[static_cast<size_t>(
            (id.head * layout.rows + id.row) * one.width + c)] =
            RoundTo(problem.scalar,
                    static_cast<double>(
                        one.value[r * static_cast<size_t>(one.width) +
                                  static_cast<size_t>(c)]));
    }
    outputs.push_back(std::move(values));
  }
  return outputs;
}

std::vector<WrongAnswer> MakeWrongAnswers(const Trial& trial,
                                          const Outputs& right, uint64_t seed) {
  const Problem& problem = trial.problem();
  std::vector<WrongAnswer> list;
  for (size_t o = 0; o < right.size(); ++o) {
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    const std::vector<double>& values = right[o];
    const auto add = [&](const std::string& name,
                         const std::vector<double>& altered) {
      Add(right, o, name, altered, list);
    };
    add("all zero", Scaled(values, 0));
    add("sign flipped", Scaled(values, -1));
    add("scaled by 1.001", Scaled(values, 1.001));
    add("rows shifted by one", Shifted(layout, values));
    add("one row zeroed",
        WithRow(layout, layout.heads - 1, layout.rows / 2, 0, values));
    add("last row left out",
        WithRow(layout, layout.heads - 1, layout.rows - 1, kUntouched, values));
    if (layout.heads > 1) {
      std::vector<double> rotated = values;
      std::rotate(rotated.begin(), rotated.begin() + layout.rows * layout.width,
                  rotated.end());
      add("another head's rows", rotated);
    }
  }
  Inputs reversed = trial.inputs();
  if (ReverseOffsets(problem, reversed))
    AddMisread("offset i - j for j - i", problem, reversed, seed, list);
  AddOtherFlags(trial, seed, list);
  return list;
}

bool Coincides(const Problem& problem, const Outputs& right,
               const Outputs& wrong) {
  const double roundoff = Info(problem.scalar).unit_roundoff;
  for (size_t o = 0; o < right.size(); ++o) {
    double largest = 0;
    for (double value : right[o]) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < right[o].size(); ++i)
      if (!(std::abs(wrong[o][i] - right[o][i]) <= 2 * roundoff * largest))
        return false;
  }
  return true;
}

double DistanceOf(const Verdict& verdict, bool norm_wise) {
  const Comparison& numbers = verdict.comparison;
  if (numbers.not_finite > 0) return std::numeric_limits<double>::infinity();
  return std::max(numbers.max_over_bound,
                  norm_wise ? 0 : OverYardstick(numbers));
}

}  // namespace subquad
