#include "harness/judging/factor_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "harness/judging/mistake.h"

namespace subquad {
namespace {

// The tensor whose values the program multiplies, and what to call it.
struct Multiplied {
  std::string tensor, name;
};

// Returns the queries, for the scale, and the tensors indexed by offset.
std::vector<Multiplied> CandidatesOf(const Subject& subject) {
  std::vector<Multiplied> candidates;
  if (subject.Input("q") && subject.RuleOf("scale"))
    candidates.push_back({"q", "scale"});
  for (const TensorRule& rule : subject.problem.inputs)
    if (!rule.offset_axes.empty()) candidates.push_back({rule.name, rule.name});
  return candidates;
}

class Fit {
 public:
  Fit(const Subject& subject, const Answer& output, std::string tensor)
      : subject_(subject),
        output_(output.outputs.front()),
        tensor_(std::move(tensor)),
        slices_(subject.problem.SlicesOf(tensor_)),
        factors_(static_cast<size_t>(slices_.count()), 1) {}

  // Finds the factors with the least sum of squared errors by Gauss-Newton
  // steps. Returns false if the formula has no value on the way.
  bool Run() {
    constexpr int kSteps = 10;
    constexpr double kSettled = 1e-7;
    for (int step = 0; step < kSteps; ++step) {
      const auto now = AnswerWith(1), moved = AnswerWith(1 + kMove);
      if (!now || !moved) return false;
      answer_ = now->front();
      const std::vector<double> change = ChangeOf(*now, *moved);
      double largest = 0;
      for (size_t s = 0; s < factors_.size(); ++s) {
        // A step of more than a factor of two could end at another minimum.
        factors_[s] *= std::clamp(1 + change[s], 0.5, 2.0);
        largest = std::max(largest, std::abs(change[s]));
      }
      if (!std::isfinite(largest)) return false;
      if (largest < kSettled) return true;
    }
    return true;
  }

  const OutputRows& answer() const { return answer_; }

  // States the factors in words: "scale multiplied by 0.5".
  std::string Name(const std::string& name) const {
    const auto [least, most] = std::ranges::minmax(factors_);
    if (most - least < 1e-3 * std::abs(most))
      return fmt::format("{} multiplied by {}", name, TextOf(factors_.front()));
    std::string list;
    constexpr size_t kListed = 8;
    for (size_t s = 0; s < std::min(factors_.size(), kListed); ++s)
      list += (list.empty() ? "" : ", ") + TextOf(factors_[s]);
    return fmt::format("{} multiplied by another factor for each head: {}{}",
                       name, list, factors_.size() > kListed ? ", .." : "");
  }

  // Tells whether some factor differs from 1.
  bool Differs() const {
    return std::ranges::any_of(
        factors_, [](double factor) { return std::abs(factor - 1) > 1e-4; });
  }

 private:
  static constexpr double kMove = 1e-4;

  static std::string TextOf(double factor) {
    struct Known {
      double value;
      const char* name;
    };
    constexpr Known kKnown[] = {{std::numbers::log2e, " (log2 e)"},
                                {std::numbers::ln2, " (ln 2)"},
                                {std::numbers::sqrt2, " (sqrt 2)"}};
    std::string text = fmt::format("{:.4g}", factor);
    for (const Known& known : kKnown)
      if (std::abs(factor / known.value - 1) < 1e-3) text += known.name;
    return text;
  }

  std::optional<RowsByOutput> AnswerWith(double common) const {
    return subject_.AnswerTo([&](AlteredProblem& altered) {
      Tensor& tensor = altered.Change(tensor_);
      const int64_t size = tensor.SliceSize();
      for (int64_t i = 0; i < std::ssize(tensor.values); ++i) {
        double& value = tensor.values[static_cast<size_t>(i)];
        if (std::isfinite(value))
          value *= common * factors_[static_cast<size_t>(i / size)];
      }
    });
  }

  // Returns the relative change of each factor that reduces the error most, by
  // the derivative of the answer.
  std::vector<double> ChangeOf(const RowsByOutput& now,
                               const RowsByOutput& moved) const {
    std::vector<long double> along(factors_.size()), squares(factors_.size());
    const auto width = static_cast<size_t>(output_.width);
    const OutputRows& rows = now.front();
    for (size_t r = 0; r < rows.rows.size(); ++r) {
      const RowId& id = output_.selection.rows[rows.rows[r]];
      const auto slice = static_cast<size_t>(slices_.Of(id.head));
      for (size_t c = 0; c < width; ++c) {
        const size_t i = r * width + c;
        const long double slope =
            (moved.front().values[i] - rows.values[i]) / kMove;
        along[slice] +=
            slope * (output_.value[rows.rows[r] * width + c] - rows.values[i]);
        squares[slice] += slope * slope;
      }
    }
    std::vector<double> change(factors_.size());
    for (size_t s = 0; s < change.size(); ++s)
      if (squares[s] > 0)
        change[s] = static_cast<double>(along[s] / squares[s]);
    return change;
  }

  const Subject& subject_;
  const OutputAnswer& output_;
  const std::string tensor_;
  const Slices slices_;
  std::vector<double> factors_;  // by slice
  OutputRows answer_;            // with these factors
};

}  // namespace

std::vector<WrongAnswer> FittedFactors(const Problem& problem,
                                       const Inputs& inputs,
                                       const Answer& right,
                                       const Answer& output, size_t most_rows) {
  std::vector<WrongAnswer> answers;
  if (problem.backward || output.outputs.front().value.empty()) return answers;
  const size_t rows = right.outputs.front().selection.rows.size();
  Subject subject(problem, inputs, right, {SpreadRows(rows, most_rows)});
  for (const Multiplied& candidate : CandidatesOf(subject)) {
    Fit fit(subject, output, candidate.tensor);
    if (!fit.Run() || !fit.Differs()) continue;
    answers.push_back(
        {fit.Name(candidate.name),
         {KeptRows(0, fit.answer().rows,
                   static_cast<size_t>(right.outputs.front().width),
                   fit.answer().values)}});
  }
  return answers;
}

}  // namespace subquad
