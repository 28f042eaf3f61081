#include "harness/judging/power.h"

#include <algorithm>
#include <cmath>

#include "harness/cases/draws.h"
#include "harness/judging/low_precision.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/verdict.h"
#include "harness/judging/wrong_answers.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

// The approximate number of answers that are computed, right or wrong.
constexpr double kAnswers = 40;
// Emulated multiply-adds are this many times slower, so that fewer are done.
constexpr double kEmulated = 1000;
constexpr int64_t kFewestRows = 8;  // of a head

// Selects rows in pairs of neighbours, so that a shift by one row is visible;
// the same rows of every head.
RowSelection PairsOfRows(const OutputLayout& layout, int output,
                         int64_t per_head) {
  RowSelection selection;
  selection.all = per_head >= layout.rows;
  std::vector<int64_t> rows;
  if (selection.all)
    for (int64_t row = 0; row < layout.rows; ++row) rows.push_back(row);
  const int64_t pairs = per_head / 2;
  for (int64_t i = 0; !selection.all && i < pairs; ++i) {
    const int64_t first = i * (layout.rows - 2) / (pairs - 1);
    for (const int64_t row : {first, first + 1})
      if (rows.empty() || rows.back() < row) rows.push_back(row);
  }
  for (int64_t head = 0; head < layout.heads; ++head)
    for (const int64_t row : rows)
      selection.rows.push_back({output, head, row});
  return selection;
}

std::vector<RowSelection> AffordableRows(const Problem& problem,
                                         double most_work) {
  std::vector<RowSelection> selections;
  const auto outputs = static_cast<int>(problem.outputs.size());
  for (int output = 0; output < outputs; ++output) {
    const OutputLayout layout = LayoutOf(problem, output);
    const double affordable = most_work / kAnswers / outputs /
                              WorkOfRow(problem, output) /
                              static_cast<double>(layout.heads);
    const auto per_head = static_cast<int64_t>(
        std::clamp(affordable, static_cast<double>(kFewestRows),
                   static_cast<double>(layout.rows)));
    selections.push_back(PairsOfRows(layout, output, per_head));
  }
  return selections;
}

// Returns the answer as its type stores it.
Answer Stored(const Problem& problem, const Answer& expected) {
  Answer stored = expected;
  for (OutputAnswer& output : stored.outputs)
    for (long double& value : output.value)
      value = RoundTo(problem.scalar, static_cast<double>(value));
  return stored;
}

// Moves every value by one unit in its last place, as if it had been rounded
// the other way.
WrongAnswer OnePlaceOff(const Problem& problem, const Answer& stored) {
  WrongAnswer off{"one place off", {}};
  for (size_t o = 0; o < stored.outputs.size(); ++o) {
    const OutputAnswer& output = stored.outputs[o];
    FoundRows part{o, {}, {}};
    for (size_t r = 0; r < output.selection.rows.size(); ++r)
      part.rows.push_back(r);
    part.value = [&output, u = Info(problem.scalar).unit_roundoff](
                     size_t r, int64_t c) -> long double {
      const long double value =
          output.value[r * static_cast<size_t>(output.width) +
                       static_cast<size_t>(c)];
      // Moves past the middle to the next number, but not to the one after it.
      return value * (1 + 1.5L * u);
    };
    off.parts.push_back(std::move(part));
  }
  return off;
}

}  // namespace

bool IsSame(const Problem& problem, const Answer& stored,
            const WrongAnswer& wrong) {
  constexpr AllClose kExact = {};
  return LargestOver(kExact, problem, stored, wrong) == 0;
}

std::vector<ReturnedRows> RowsOf(const Problem& problem, const Answer& stored,
                                 const WrongAnswer& answer) {
  std::vector<ReturnedRows> outputs(stored.outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const OutputAnswer& right = stored.outputs[o];
    const auto width = static_cast<size_t>(right.width);
    auto& [rows, values] = outputs[o];
    const bool whole =
        answer.right_elsewhere ||
        std::ranges::none_of(answer.parts, [&](const FoundRows& part) {
          return part.output == o;
        });
    if (whole) {
      for (size_t r = 0; r < right.selection.rows.size(); ++r)
        rows.push_back(r);
      values.assign(right.value.begin(), right.value.end());
    }
    for (const FoundRows& part : answer.parts) {
      if (part.output != o) continue;
      for (size_t r = 0; r < part.rows.size(); ++r) {
        size_t first = part.rows[r] * width;
        if (!whole) {
          first = values.size();
          rows.push_back(part.rows[r]);
          values.resize(first + width);
        }
        for (size_t c = 0; c < width; ++c)
          values[first + c] = RoundTo(
              problem.scalar,
              static_cast<double>(part.value(r, static_cast<int64_t>(c))));
      }
    }
  }
  return outputs;
}

TestAnswers AnswersOfTest(const Problem& problem, const Inputs& inputs,
                          double most_work) {
  TestAnswers answers;
  answers.expected = std::make_unique<const Answer>(
      ComputeAnswer(problem, inputs, AffordableRows(problem, most_work)));
  const Answer& expected = *answers.expected;
  answers.stored = std::make_unique<const Answer>(Stored(problem, expected));
  const auto is_same = [&](const WrongAnswer& wrong) {
    return IsSame(problem, *answers.stored, wrong);
  };
  size_t most_rows = 0;
  for (const OutputAnswer& output : expected.outputs)
    most_rows = std::max(most_rows, output.selection.rows.size());
  const auto keep = [&](WrongAnswer& wrong, bool although_right) {
    if (although_right || !Coincides(problem, expected, wrong))
      answers.wrong.push_back(std::move(wrong));
  };
  // Leaves out altered outputs that these tensors make right but for rounding,
  // such as a shift of nearly identical rows: no test could see them.
  for (WrongAnswer& wrong : AlteredAnswers(problem, expected))
    keep(wrong, is_same(wrong));
  for (WrongAnswer& wrong :
       MisreadAnswers(problem, inputs, expected, most_rows))
    keep(wrong, true);
  // A confusion that changes nothing, such as a scale of 1 left out, is none,
  // unless the shapes hide it, or the values of an option that is given, such
  // as a mask that shows every key.
  for (WrongAnswer& wrong :
       UsualConfusions(problem, inputs, expected, most_rows))
    keep(wrong, (wrong.hidden_by_shapes || wrong.of_option) && is_same(wrong));
  for (WrongAnswer& wrong :
       LowPrecisionAnswers(problem, inputs, expected, most_work / kEmulated))
    keep(wrong, false);
  return answers;
}

std::vector<RightAnswer> RightAnswersOfTest(const Problem& problem,
                                            const Inputs& inputs,
                                            const TestAnswers& answers,
                                            double most_work) {
  return RightAnswers(problem, inputs, *answers.expected,
                      most_work / kEmulated);
}

Power PowerOf(const Problem& problem, const Inputs& inputs,
              const AllClose& tolerance, double most_work) {
  const TestAnswers answers = AnswersOfTest(problem, inputs, most_work);
  const Answer& expected = *answers.expected;
  Power power;
  for (const OutputAnswer& output : expected.outputs) {
    power.rows += static_cast<int64_t>(output.selection.rows.size());
    power.all_rows = power.all_rows && output.selection.all;
  }
  const Answer& stored = *answers.stored;
  const Tolerance gates = ToleranceOf(expected, 1, {});
  for (const WrongAnswer& wrong : answers.wrong) {
    const bool same = IsSame(problem, stored, wrong);
    const TriedAnswer tried = {
        wrong.name,
        LargestOver(tolerance, problem, stored, wrong),
        DistanceOf(CompareRows(problem, expected, wrong.parts, gates), false),
        same,
        wrong.small_by_design,
        same && wrong.hidden_by_shapes ? wrong.remedy : ""};
    const auto position =
        std::ranges::find(power.tried, tried.name, &TriedAnswer::name);
    if (position == power.tried.end())
      power.tried.push_back(tried);
    else if (tried.over < position->over)
      *position = tried;
  }
  power.right = LargestOver(tolerance, problem, stored,
                            PlainAnswer(problem, inputs, expected));
  if (Info(problem.scalar).bytes == 2)
    power.right = std::max(
        power.right,
        LargestOver(tolerance, problem, stored, OnePlaceOff(problem, stored)));
  return power;
}

}  // namespace subquad
