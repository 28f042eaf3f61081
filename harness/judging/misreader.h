// Evaluates the reference with altered inputs or parameters, on some rows of an
// answer.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// Number of rows per output on which altered problems are evaluated. It is
// smaller than the number of judged rows, so that margins are underestimated
// rather than overestimated.
inline constexpr size_t kMisreadRows = 24;

// Replaces the values of a tensor for the lifetime of this object.
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
  // Values by output: [chosen rows, width].
  using Rows = std::vector<std::vector<long double>>;

  // Uses up to `most_rows` rows of each output. The three arguments must
  // outlive this object. `only`: the names of the misreadings to make; empty
  // means all.
  Misreader(const Problem& problem, Inputs& inputs, const Answer& answer,
            size_t most_rows, std::set<std::string> only = {});

  const Problem& problem() const { return problem_; }
  Inputs& inputs() { return inputs_; }

  // Tells whether the formula has a value at these inputs. If not, none of the
  // functions below may be called.
  bool HasValue() const { return !right_.empty(); }

  // Returns the reference's answer to the unaltered problem.
  const Rows& right() const { return right_; }

  bool Wants(const std::string& name) const {
    return only_.empty() || only_.contains(name);
  }

  // Evaluates the reference on the inputs as they are now. Returns nothing if
  // the formula has no value there.
  std::optional<Rows> Evaluate(const Problem& problem) const;

  // Adds a misreading with these rows. Rows that are not finite are left out,
  // since any check rejects them. If the answer has expected outputs from
  // outside, the effect of the misreading is added to them, so that their own
  // error does not count. `remedy`: inputs that would reveal it.
  // `small_by_choice`: see WrongAnswer.
  void Add(const std::string& name, const std::optional<Rows>& rows,
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
