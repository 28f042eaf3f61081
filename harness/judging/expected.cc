#include "harness/judging/expected.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace subquad {
namespace {

bool SameValues(const Inputs& a, const Inputs& b) {
  return std::ranges::equal(a.tensors, b.tensors, {}, &Tensor::values,
                            &Tensor::values);
}

const ExpectedTensor* ExpectedOf(const CaseFolder& folder,
                                 const std::string& output) {
  const auto position =
      std::ranges::find(folder.expected, output, &ExpectedTensor::name);
  return position == folder.expected.end() ? nullptr : &*position;
}

double LargestMagnitude(const std::vector<double>& values) {
  double most = 0;
  for (double value : values)
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  return most;
}

// Returns the largest error that a float32 program may have in this element.
double Float32Slack(double units, long double value) {
  if (std::isinf(value)) return 0;  // the logarithm of an empty sum
  return Info(Scalar::kFloat32).unit_roundoff *
         (units + std::abs(static_cast<double>(value)));
}

// The rows that the reference has computed, in order, with their place in the
// answer.
using KnownRows = std::map<std::pair<int64_t, int64_t>, size_t>;

KnownRows KnownRowsOf(const OutputAnswer& answer) {
  KnownRows known;
  for (size_t r = 0; r < answer.selection.rows.size(); ++r)
    known[{answer.selection.rows[r].head, answer.selection.rows[r].row}] = r;
  return known;
}

// Returns the rows from `first` on that the reference has not computed, with
// tolerances from the nearest rows that it has.
OutputAnswer RowsBetween(const OutputAnswer& answer, const KnownRows& known,
                         const ExpectedTensor& expected,
                         const OutputLayout& layout, int output, int64_t head,
                         int64_t first, int64_t end) {
  OutputAnswer between = answer;
  between.selection.rows.clear();
  between.value.clear();
  between.units.clear();
  between.slack.clear();
  between.plain_diverges.clear();
  const auto width = static_cast<size_t>(layout.width);
  for (int64_t row = first; row < end; ++row) {
    // The first and the last row of a head are always in the sample.
    const auto after = known.upper_bound({head, row});
    const auto before = std::prev(after);
    if (before->first == std::pair(head, row)) continue;
    between.selection.rows.push_back({output, head, row});
    for (size_t c = 0; c < width; ++c) {
      const double value =
          expected
              .values[static_cast<size_t>(head * layout.rows + row) * width +
                      c];
      const double units = std::min(answer.units[before->second * width + c],
                                    answer.units[after->second * width + c]) /
                           2;
      between.value.push_back(value);
      between.units.push_back(units);
      if (expected.is_float32)
        between.slack.push_back(Float32Slack(units, value));
    }
  }
  return between;
}

struct Suspect {
  RowId id;
  double over = 0;  // error / the neighbours' tolerance, above 1
};

}  // namespace

ExpectedAnswer::ExpectedAnswer(const CaseFolder& folder, const Problem& problem,
                               const Inputs& rounded)
    : folder_(folder),
      problem_(problem),
      rounded_(rounded),
      same_(SameValues(folder.inputs, rounded)) {
  answer_ = ComputeAnswer(problem_, rounded_, 1);
  if (!same_) unrounded_ = ComputeAnswer(folder_.problem, folder_.inputs, 1);
}

void ExpectedAnswer::AddRows(std::vector<RowSelection> rows) {
  subquad::AddRows(ComputeAnswer(problem_, rounded_, rows), answer_);
  if (!same_)
    subquad::AddRows(ComputeAnswer(folder_.problem, folder_.inputs, rows),
                     unrounded_);
}

void ExpectedAnswer::AddRowsOf(const ExpectedAnswer& other) {
  std::vector<RowSelection> rows(answer_.outputs.size());
  bool any = false;
  for (size_t o = 0; o < rows.size(); ++o) {
    const KnownRows known = KnownRowsOf(answer_.outputs[o]);
    for (const RowId& id : other.answer_.outputs[o].selection.rows)
      if (!known.contains({id.head, id.row})) rows[o].rows.push_back(id);
    any = any || !rows[o].rows.empty();
  }
  if (any) AddRows(std::move(rows));
}

bool ExpectedAnswer::PlainOverflows() const {
  return std::ranges::any_of(answer_.outputs, [](const OutputAnswer& output) {
    return output.plain_overflows > 0;
  });
}

// Adjusts the expected outputs: if inputs had to be rounded, by the difference
// that this makes to the reference. Outputs of a float32 program get the
// tolerance of one.
Answer ExpectedAnswer::WithExpected() const {
  Answer answer = answer_;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    OutputAnswer& output = answer.outputs[o];
    const ExpectedTensor* expected = ExpectedOf(folder_, output.name);
    if (expected == nullptr) continue;
    output.given_error =
        folder_.expected_error * LargestMagnitude(expected->values);
    const OutputLayout layout = LayoutOf(problem_, static_cast<int>(o));
    for (size_t r = 0; r < output.selection.rows.size(); ++r) {
      const RowId& id = output.selection.rows[r];
      const int64_t row = id.head * layout.rows + id.row;
      for (int64_t c = 0; c < output.width; ++c) {
        const size_t at = r * static_cast<size_t>(output.width) + c;
        const long double now = output.value[at];
        const long double before =
            same_ ? now : unrounded_.outputs[o].value[at];
        const long double shift = now == before ? 0 : now - before;
        output.value[at] = expected->values[row * output.width + c] + shift;
      }
    }
    if (!expected->is_float32) continue;
    const double roundoff = Info(Scalar::kFloat32).unit_roundoff;
    for (size_t at = 0; at < output.units.size(); ++at)
      output.slack.push_back(Float32Slack(output.units[at], output.value[at]));
    output.plain_error = std::max(
        output.plain_error * roundoff / Info(problem_.scalar).unit_roundoff,
        roundoff * output.largest);
  }
  return answer;
}

Verdict ExpectedAnswer::JudgeAllRows(const Implementation& implementation,
                                     Trial& trial, Verdict verdict) {
  const auto beyond_the_sample = [&](size_t o) {
    return !answer_.outputs[o].selection.all &&
           ExpectedOf(folder_, answer_.outputs[o].name) != nullptr;
  };
  const auto find_suspects = [&] {
    constexpr int64_t kRowsAtATime = 4096;
    std::vector<Suspect> suspects;
    const Answer& answer = trial.answer();
    for (size_t o = 0; o < answer.outputs.size(); ++o) {
      if (!beyond_the_sample(o)) continue;
      const OutputAnswer& output = answer.outputs[o];
      const OutputLayout layout = LayoutOf(problem_, static_cast<int>(o));
      const KnownRows known = KnownRowsOf(output);
      for (int64_t head = 0; head < layout.heads; ++head)
        for (int64_t first = 0; first < layout.rows; first += kRowsAtATime) {
          const OutputAnswer between =
              RowsBetween(output, known, *ExpectedOf(folder_, output.name),
                          layout, static_cast<int>(o), head, first,
                          std::min(first + kRowsAtATime, layout.rows));
          const std::vector<double> over = RowsOverTolerance(
              problem_, o, between, trial.arrays(), implementation.bound_factor,
              trial.NormBound(implementation), kYardstickFactor);
          for (size_t r = 0; r < over.size(); ++r)
            if (!(over[r] <= 1))
              suspects.push_back({between.selection.rows[r], over[r]});
        }
    }
    std::ranges::sort(suspects, std::ranges::greater{}, &Suspect::over);
    return suspects;
  };
  const auto may_still_fail = [&] {
    return verdict.outcome == Outcome::kPassed ||
           verdict.outcome == Outcome::kMistrusted;
  };
  bool any = false;
  for (size_t o = 0; o < answer_.outputs.size(); ++o)
    any = any || beyond_the_sample(o);
  if (!any || !may_still_fail()) return verdict;
  // Starts with the worst rows, since a few of them reveal a wrong answer.
  for (size_t batch = 64;; batch *= 2) {
    const std::vector<Suspect> suspects = find_suspects();
    if (suspects.empty()) break;
    std::vector<RowSelection> rows(answer_.outputs.size());
    for (size_t i = 0; i < std::min(batch, suspects.size()); ++i)
      rows[static_cast<size_t>(suspects[i].id.output)].rows.push_back(
          suspects[i].id);
    AddRows(std::move(rows));
    trial.set_answer(WithExpected());
    verdict = trial.JudgeOutputs(implementation);
    if (!may_still_fail()) break;
  }
  verdict.comparison.rows = 0;
  verdict.comparison.all_rows = true;
  for (size_t o = 0; o < answer_.outputs.size(); ++o) {
    const OutputLayout layout = LayoutOf(problem_, static_cast<int>(o));
    const auto& selection = answer_.outputs[o].selection;
    const bool all = selection.all || beyond_the_sample(o);
    verdict.comparison.all_rows = verdict.comparison.all_rows && all;
    verdict.comparison.rows +=
        all ? layout.heads * layout.rows
            : static_cast<int64_t>(selection.rows.size());
  }
  return verdict;
}

}  // namespace subquad
