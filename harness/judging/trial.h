// A problem made ready to be run by implementations: its tensors in their
// scalar type, outputs between guard words, and the reference's answer.
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
  // Takes the problem and its inputs; the answer is computed when first asked
  // for, of the rows that SelectRows chooses with `most_work`.
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
  // Made when first asked for.
  const std::vector<WrongAnswer>& wrong_answers();

  // Fills outputs and workspaces with NaN.
  void Poison();

  // Writes whole outputs, in the order of Problem::outputs, after poisoning
  // them; NaN leaves an element as it is, never written.
  void SetOutputs(const std::vector<std::vector<double>>& outputs);

  // Poisons, runs once and compares. Exceptions of the implementation become a
  // failed verdict; those of the reference (InvalidInput) are thrown.
  Verdict RunAndJudge(const Implementation& implementation, Prepared& prepared);

  // Compares what is in the outputs now.
  Verdict JudgeOutputs(const Implementation& implementation);

  // Adds to a failed verdict on what is in the outputs now what is wrong there.
  void Explain(const Implementation& implementation, Verdict& verdict);

  // Whether the bound that holds for this implementation and these inputs is
  // norm-wise.
  bool IsNormWise(const Implementation& implementation) {
    return KnownOf(implementation).norm_wise;
  }
  // The bounds that hold norm-wise for it; nothing where it has none.
  const RowBound& NormBound(const Implementation& implementation) {
    return KnownOf(implementation).bound;
  }
  const Tolerance& ToleranceFor(const Implementation& implementation) {
    return KnownOf(implementation).tolerance;
  }
  // The margin of an output that both gates take.
  const Margin& MarginFor(const Implementation& implementation) {
    return KnownOf(implementation).margin;
  }

 private:
  // What is known about an implementation before it runs.
  struct Known {
    bool norm_wise = false;
    RowBound bound;
    Tolerance tolerance;
    Margin margin;          // of an output that both gates take
    Margin of_bound_alone;  // and of one that only a norm-wise bound takes
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
  // By backend and id, and by factor where several share one.
  std::map<std::string, std::shared_ptr<const Known>> known_;
};

// Why the workspace of its formula is more than the machine has free, in words;
// for a device, its workspace and its tensors. The system would often grant it
// all the same, and kill a program that uses it.
std::string DoesNotFit(const Implementation& implementation,
                       const Problem& problem, int threads);

// The whole way for one implementation: can it run, prepare, run, judge.
Verdict Verify(const Implementation& implementation, Trial& trial,
               const PrepareOptions& options);

}  // namespace subquad
