// The reference's answers where inputs or parameters are not what they should
// be, on some rows of an answer.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// Rows of an output on which altered problems are evaluated: fewer than are
// judged, so that a margin is rather too small than too large.
inline constexpr size_t kMisreadRows = 24;

// Other numbers in a tensor, for as long as this lives.
class Altered {
 public:
  Altered(Tensor& tensor, std::vector<double> values)
      : tensor_(tensor), kept_(std::move(values)) {
    kept_.swap(tensor_.values);
  }
  ~Altered() { kept_.swap(tensor_.values); }
  Altered(const Altered&) = delete;
  Altered& operator=(const Altered&) = delete;

  const std::vector<double>& before() const { return kept_; }

 private:
  Tensor& tensor_;
  std::vector<double> kept_;
};

class Misreader {
 public:
  // Numbers by output: [rows chosen, width].
  using Rows = std::vector<std::vector<long double>>;

  // Works on up to `most_rows` rows of each output of the answer. All three
  // must outlive this. `only`: the names of those that are wanted; empty: all.
  Misreader(const Problem& problem, Inputs& inputs, const Answer& answer,
            size_t most_rows, std::set<std::string> only = {});

  const Problem& problem() const { return problem_; }
  Inputs& inputs() { return inputs_; }

  // The formula may have no value at inputs next to those of the answer.
  // Without one nothing below may be called.
  bool HasValue() const { return !right_.empty(); }

  // The reference's own answer, where nothing is misread.
  const Rows& right() const { return right_; }

  bool Wants(const std::string& name) const {
    return only_.empty() || only_.contains(name);
  }

  // What the reference says to the inputs as they are now; nothing where the
  // formula has no value: nobody would hand that in.
  std::optional<Rows> Evaluate(const Problem& problem) const;

  // Rows that are not finite are left out: a program that wrote those would be
  // refused for them. Where the answer is somebody else's numbers, what changes
  // is added to them: their own error is no mistake. `remedy`: what would show
  // it better.
  // `small_by_choice`: see WrongAnswer.
  void Add(const std::string& name, const std::optional<Rows>& found,
           const std::string& remedy = "", bool small_by_choice = false);
  void AddNow(const std::string& name, const std::string& remedy = "") {
    if (Wants(name)) Add(name, Evaluate(problem_), remedy);
  }
  std::vector<WrongAnswer> Take() { return std::move(list_); }

 private:
  template <typename Real>
  Rows EvaluateIn(const Problem& problem, Reference<Real>& reference) const;

  const Problem& problem_;
  Inputs& inputs_;
  const Answer& answer_;
  const std::set<std::string> only_;
  std::vector<std::vector<size_t>> chosen_;  // by output
  Rows right_;
  std::vector<WrongAnswer> list_;
};

}  // namespace subquad
