// A mistake that programs make, as a change of the problem that they compute.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// A problem and its inputs as a program with a mistake reads them. This is a
// view of the right ones: only the tensors that are changed are copied.
struct AlteredProblem {
  AlteredProblem(const Problem& right, const Inputs& right_inputs);

  // Returns a copy of a tensor, to be changed. It stays at its address.
  Tensor& Change(const std::string& name);
  // Adds an input that the right problem does not have, in place of another one
  // if that is named; call Resolve after it.
  void Give(Tensor tensor, const std::string& in_place_of = "");
  // Replaces the parameters and lets the changed tensors have other shapes.
  // Throws InvalidInput if the parameters need other tensors.
  void Resolve(Params params);

  Problem problem;
  Inputs inputs;
  bool changed = false;  // set by these functions

 private:
  std::string dropped_;
};

// Rows of one output.
struct OutputRows {
  std::vector<size_t> rows;         // of OutputAnswer::selection
  std::vector<long double> values;  // [rows, width]
};
using RowsByOutput = std::vector<OutputRows>;

struct Mistake {
  using Alter = std::function<void(AlteredProblem&)>;

  std::string name;  // in words
  // Changes the problem to the one that the program computes. The mistake does
  // not apply if this changes nothing or throws InvalidInput. Null: the program
  // computes the right problem.
  Alter alter;
  std::string remedy = {};  // this and the next three: see WrongAnswer
  bool small_by_design = false;
  bool hidden_by_shapes = false;
  bool of_option = false;
  // Returns the row of the altered problem that the program returns in place of
  // this one, which may not exist. Null: the same row.
  std::function<RowId(RowId)> source = {};
  // Turns the answer to the altered problem into that of the program. Returns
  // false if it has none.
  std::function<bool(RowsByOutput&)> finish = {};
  // The mistake applies only if it changes the value of an element.
  bool if_values_change = false;
};

// The problem that programs get wrong, and the mistakes that apply to it.
class Subject {
 public:
  // `chosen`: the rows of each output that are computed. The other arguments
  // must outlive this object.
  Subject(const Problem& right_problem, const Inputs& right_inputs,
          const Answer& right_answer, std::vector<std::vector<size_t>> chosen)
      : problem(right_problem),
        inputs(right_inputs),
        answer(right_answer),
        chosen_(std::move(chosen)) {}

  // Returns null if the problem has no such tensor.
  const Tensor* Input(const std::string& name) const {
    return inputs.Find(name);
  }
  std::optional<ParamRule> RuleOf(const std::string& parameter) const;

  // Returns the answer of a program with a mistake, or nothing if the mistake
  // does not apply or the formula has no value.
  std::optional<RowsByOutput> AnswerWith(const Mistake& mistake) const;
  std::optional<RowsByOutput> AnswerTo(const Mistake::Alter& alter) const {
    return AnswerWith({"", alter});
  }

  Mistake& Add(std::string name, Mistake::Alter alter) {
    return mistakes.emplace_back(Mistake{std::move(name), std::move(alter)});
  }
  // Adds the mistake of using other parameters, if they need the same tensors.
  Mistake& Add(std::string name, const Params& params) {
    return Add(std::move(name),
               [params](AlteredProblem& altered) { altered.Resolve(params); });
  }

  const Problem& problem;
  const Inputs& inputs;
  const Answer& answer;
  // The right answer in the rows that are computed, if it was needed.
  RowsByOutput right;
  std::vector<Mistake> mistakes;
  int threads = 1;  // that compute the rows of an answer

 private:
  template <typename Real>
  RowsByOutput Evaluate(const Problem& altered, const Mistake& mistake,
                        Reference<Real>& reference) const;

  const std::vector<std::vector<size_t>> chosen_;  // by output
};

// Reorders slices of `size` values: the slice at `to` comes from from(to).
template <typename Values, typename From>
void Reorder(Values& values, int64_t size, const From& from) {
  const Values before = values;
  for (int64_t to = 0; to < std::ssize(before) / size; ++to)
    std::copy_n(before.begin() + from(to) * size, size,
                values.begin() + to * size);
}

// Returns the place of element (a, b) of [.., a, b] in the order [.., b, a].
inline int64_t Transposed(int64_t place, int64_t a, int64_t b) {
  const int64_t in_item = place % (a * b);
  return place - in_item + in_item % b * a + in_item / b;
}

// Each of the following functions adds the mistakes of one kind, as far as they
// apply. The table in mistakes.cc has a row for each.

// Of tensors indexed by offset (offset_mistakes.cc).
void LeaveOffsetsOut(Subject& subject);
void KeepNearestTile(Subject& subject);
void ShiftOffsets(Subject& subject);
void ReverseOffsets(Subject& subject);
void MoveMask(Subject& subject);
void MoveOffsets(Subject& subject);
void MoveOrigin(Subject& subject);
void WrapAround(Subject& subject);
void ExchangeImageAxes(Subject& subject);
void StrideTableByHeight(Subject& subject);

// Of tiles of keys or queries, and of rows without keys (tile_mistakes.cc).
void MiscountTiles(Subject& subject);
void MiscountQueries(Subject& subject);
void MergeParts(Subject& subject);
void AverageOverHiddenKeys(Subject& subject);
// Returns the tensor whose rows the answer adds up: it has one row per key and
// the width of the output. If there is none (tokens that are queries and keys),
// returns the first tensor with one row per key, or null.
const Tensor* AddedTensor(const Subject& subject);

// Of heads and of the order of axes in memory (head_mistakes.cc).
void ReadOtherHeads(Subject& subject);
void TakeOneHead(Subject& subject);
void SwapKeysAndValues(Subject& subject);
void ExchangeHeads(Subject& subject);
void ReshapeHeads(Subject& subject);
void AttendOverHeads(Subject& subject);
void GroupHeadsOtherwise(Subject& subject);
void ReadOtherKeysAndValues(Subject& subject);

// Of tensors with an entry for each query and key, or for each block of them
// (pair_mistakes.cc).
void MistakeMask(Subject& subject);
void MistakeBlockMask(Subject& subject);
void MistakePairBias(Subject& subject);

// Of the backward pass (gradient_mistakes.cc).
void DetachNormaliser(Subject& subject);
void ReduceSharedOtherwise(Subject& subject);
void SwapGradients(Subject& subject);
void LeaveVisibilityOutOfOne(Subject& subject);

// Of options of attention (option_mistakes.cc, bucket_mistakes.cc).
void MistakeSoftcap(Subject& subject);
void MistakeSlopes(Subject& subject);
void MistakeSinks(Subject& subject);
void MistakeLogSums(Subject& subject);
void DifferentiateLogSumWithoutSink(Subject& subject);
void TakeOtherKeyLengths(Subject& subject);
void MistakePacking(Subject& subject);
void MistakeBuckets(Subject& subject);

// Of parameters (parameter_mistakes.cc).
void FlipFlags(Subject& subject);
void LeaveVisibilityOut(Subject& subject);
void LeaveScaleOut(Subject& subject);
void LeaveEpsOut(Subject& subject);
void ChangeScale(Subject& subject);
void ScaleBias(Subject& subject);
void ChangeChoices(Subject& subject);
void MiscountKeys(Subject& subject);
void AlignMaskAtEnd(Subject& subject);
void MisplaceWindow(Subject& subject);
void MisplaceEps(Subject& subject);

}  // namespace subquad
