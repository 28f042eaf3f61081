// Prepares a problem for implementations: tensors in their scalar type, outputs
// between guard words, and the reference's answer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/judging/answer.h"
#include "harness/judging/wrong_answers.h"
#include "optimized/base/buffer.h"
#include "reference/contract/implementation.h"

namespace subquad {

class Trial {
 public:
  // Keeps the problem and its inputs. The answer is computed on first use, for
  // the rows that SelectRows chooses with `most_work`.
  Trial(Problem problem, Inputs inputs, uint64_t seed,
        NumbersFrom from = NumbersFrom::kUs, double most_work = kNoLimit);

  const Problem& problem() const { return problem_; }
  const Inputs& inputs() const { return inputs_; }
  const Arrays& arrays() const { return arrays_; }
  const Answer& answer();
  void set_answer(Answer answer) {
    wrong_answers_.reset();
    known_.clear();
    answer_ = std::make_unique<Answer>(std::move(answer));
  }
  // Returns the wrong answers, which are computed on first use.
  const std::vector<WrongAnswer>& wrong_answers();

  // Fills outputs and workspaces with NaN.
  void Poison();

  // Fills the outputs with NaN, then writes these values, in the order of
  // Problem::outputs; an element that is NaN counts as never written.
  void SetOutputs(const std::vector<std::vector<double>>& outputs);

  // Fills outputs with NaN, runs once and compares. Exceptions of the
  // implementation become a failed verdict; exceptions of the reference
  // (InvalidInput) are passed on.
  Verdict RunAndJudge(const Implementation& implementation, Prepared& prepared);

  // Judges the current contents of the outputs.
  Verdict JudgeOutputs(const Implementation& implementation);

  // Adds a diagnosis of the current outputs to a failed verdict.
  void Explain(const Implementation& implementation, Verdict& verdict);

  // Tells whether this implementation has a norm-wise bound on these inputs.
  bool IsNormWise(const Implementation& implementation) {
    return KnownOf(implementation).norm_wise;
  }
  // Returns the implementation's norm-wise bound, or nothing if it has none.
  const RowBound& NormBound(const Implementation& implementation) {
    return KnownOf(implementation).bound;
  }
  const Tolerance& ToleranceFor(const Implementation& implementation) {
    return KnownOf(implementation).tolerance;
  }
  // Returns the margin of an output that passes both gates.
  const Margin& MarginFor(const Implementation& implementation) {
    return KnownOf(implementation).margin;
  }

 private:
  // Properties of an implementation that are known before it runs.
  struct Known {
    bool norm_wise = false;
    RowBound bound;
    Tolerance tolerance;
    Margin margin;          // if both gates accept the output
    Margin of_bound_alone;  // if only a norm-wise bound accepts it
  };
  const Known& KnownOf(const Implementation& implementation);

  Problem problem_;
  Inputs inputs_;
  uint64_t seed_;
  NumbersFrom from_;
  double most_work_;
  std::vector<GuardedMemory> input_memory_, output_memory_;
  Arrays arrays_;
  std::unique_ptr<Answer> answer_;
  std::unique_ptr<std::vector<WrongAnswer>> wrong_answers_;
  // Keyed by backend and id, or by bound factor if several implementations
  // share one.
  std::map<std::string, std::shared_ptr<const Known>> known_;
};

// Returns a message if the workspace by the implementation's formula exceeds
// the free memory; for a device, workspace and tensors. The system would often
// grant such an allocation and kill the program when it uses it.
std::string DoesNotFit(const Implementation& implementation,
                       const Problem& problem, int threads);

// Judges one implementation: checks whether it can run, prepares it, runs it
// and compares its output.
Verdict Verify(const Implementation& implementation, Trial& trial,
               const PrepareOptions& options);

}  // namespace subquad
