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

class Trier {
 public:
  Trier(const Problem& problem, const Answer& answer, const AllClose& tolerance)
      : problem_(problem),
        answer_(answer),
        stored_(answer),
        tolerance_(tolerance),
        gates_(ToleranceOf(answer, 1, {})) {
    for (OutputAnswer& output : stored_.outputs)
      for (long double& value : output.value)
        value = RoundTo(problem.scalar, static_cast<double>(value));
  }

  double Over(const WrongAnswer& wrong) const {
    return LargestOver(tolerance_, problem_, stored_, wrong);
  }

  // Moves every value by one unit in its last place, as if it had been rounded
  // the other way.
  WrongAnswer OnePlaceOff() const {
    WrongAnswer off{"one place off", {}};
    for (size_t o = 0; o < stored_.outputs.size(); ++o) {
      const OutputAnswer& output = stored_.outputs[o];
      FoundRows part{o, {}, {}};
      for (size_t r = 0; r < output.selection.rows.size(); ++r)
        part.rows.push_back(r);
      part.value = [&output, u = Info(problem_.scalar).unit_roundoff](
                       size_t r, int64_t c) -> long double {
        const long double value =
            output.value[r * static_cast<size_t>(output.width) +
                         static_cast<size_t>(c)];
        // Moves past the middle to the next number, but not to the one after
        // it.
        return value * (1 + 1.5L * u);
      };
      off.parts.push_back(std::move(part));
    }
    return off;
  }

  TriedAnswer Try(const WrongAnswer& wrong) const {
    constexpr AllClose kExact = {};
    const bool same = LargestOver(kExact, problem_, stored_, wrong) == 0;
    return {
        wrong.name,
        Over(wrong),
        DistanceOf(CompareRows(problem_, answer_, wrong.parts, gates_), false),
        same,
        wrong.small_by_design,
        same && wrong.hidden_by_shapes ? wrong.remedy : ""};
  }

  void Keep(const TriedAnswer& tried) {
    const auto position =
        std::ranges::find(list_, tried.name, &TriedAnswer::name);
    if (position == list_.end())
      list_.push_back(tried);
    else if (tried.over < position->over)
      *position = tried;
  }

  std::vector<TriedAnswer> Take() { return std::move(list_); }

 private:
  const Problem& problem_;
  const Answer& answer_;
  // The answer in the type of the test, with which the test compares.
  Answer stored_;
  const AllClose tolerance_;
  const Tolerance gates_;
  std::vector<TriedAnswer> list_;
};

}  // namespace

Power PowerOf(const Problem& problem, const Inputs& inputs,
              const AllClose& tolerance, double most_work) {
  const Answer answer =
      ComputeAnswer(problem, inputs, AffordableRows(problem, most_work));
  Power power;
  size_t most_rows = 0;
  for (const OutputAnswer& output : answer.outputs) {
    most_rows = std::max(most_rows, output.selection.rows.size());
    power.rows += static_cast<int64_t>(output.selection.rows.size());
    power.all_rows = power.all_rows && output.selection.all;
  }
  Trier trier(problem, answer, tolerance);
  // Skips altered outputs that these tensors make equal to the right answer,
  // such as a shift of identical rows: no test could see them.
  for (const WrongAnswer& wrong : AlteredAnswers(problem, answer)) {
    const TriedAnswer tried = trier.Try(wrong);
    if (tried.same || !Coincides(problem, answer, wrong)) trier.Keep(tried);
  }
  for (const WrongAnswer& wrong :
       MisreadAnswers(problem, inputs, answer, most_rows))
    trier.Keep(trier.Try(wrong));
  for (const WrongAnswer& wrong :
       UsualConfusions(problem, inputs, answer, most_rows)) {
    // A confusion that changes nothing, such as a scale of 1 left out, is none,
    // unless the shapes hide it.
    const TriedAnswer tried = trier.Try(wrong);
    if (!tried.revealing_shapes.empty() || !Coincides(problem, answer, wrong))
      trier.Keep(tried);
  }
  const double emulated = most_work / kEmulated;
  for (const WrongAnswer& wrong :
       LowPrecisionAnswers(problem, inputs, answer, emulated))
    if (!Coincides(problem, answer, wrong)) trier.Keep(trier.Try(wrong));
  power.tried = trier.Take();
  power.right = trier.Over(PlainAnswer(problem, inputs, answer));
  if (Info(problem.scalar).bytes == 2)
    power.right = std::max(power.right, trier.Over(trier.OnePlaceOff()));
  return power;
}

}  // namespace subquad
