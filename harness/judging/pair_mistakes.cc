// Mistakes of tensors with an entry for each query and key, or for each block
// of them: mask, pair_bias and block_mask.
#include <algorithm>
#include <cmath>

#include "harness/judging/mistake.h"

namespace subquad {
namespace {

int64_t QueriesOf(const Tensor& tensor) {
  return tensor.shape[tensor.shape.size() - 2];
}
int64_t KeysOf(const Tensor& tensor) { return tensor.shape.back(); }

// Adds the mistakes of reading such a tensor transposed, if there are as many
// queries as keys, or that of the next head. The shape of a tensor with an
// entry for each block may not change.
void ReadOtherPairs(Subject& subject, const Tensor& tensor) {
  const std::string name = tensor.name;
  const bool keeps_shape = QueriesOf(tensor) == KeysOf(tensor);
  const bool is_of_blocks = name == "block_mask";
  if (subject.problem.queries == subject.problem.keys &&
      tensor.SliceSize() > 1 &&
      (keeps_shape || !(subject.problem.backward || is_of_blocks)))
    subject.Add(name + " transposed", [name](AlteredProblem& altered) {
      Tensor& changed = altered.Change(name);
      const int64_t queries = QueriesOf(changed), keys = KeysOf(changed);
      Reorder(changed.values, 1,
              [&](int64_t to) { return Transposed(to, keys, queries); });
      std::swap(*(changed.shape.end() - 2), changed.shape.back());
      altered.Resolve(altered.problem.params);
    });
  if (tensor.slices.count() > 1)
    subject.Add(name + " of another head", [name](AlteredProblem& altered) {
      Tensor& changed = altered.Change(name);
      std::rotate(changed.values.begin(),
                  changed.values.begin() + changed.SliceSize(),
                  changed.values.end());
    });
}

// Adds the mistakes of leaving a mask out and of inverting it.
void ShowOtherPairs(Subject& subject, const std::string& name) {
  const auto add = [&](const char* mistake, double (*number)(double)) {
    subject.Add(name + mistake, [name, number](AlteredProblem& altered) {
      std::vector<double>& values = altered.Change(name).values;
      std::ranges::transform(values, values.begin(), number);
    });
  };
  add(" left out", [](double) { return 1.0; });
  add(" inverted", [](double sees) { return 1 - sees; });
}

}  // namespace

// Leaves a mask out, inverts it, moves it by a key, reads that of another pair,
// or adds its numbers to the scores.
void MistakeMask(Subject& subject) {
  const Tensor* mask = subject.Input("mask");
  if (!mask) return;
  ShowOtherPairs(subject, "mask");
  if (const int64_t keys = KeysOf(*mask); keys > 1)
    subject.Add("mask one key late", [keys](AlteredProblem& altered) {
      std::vector<double>& values = altered.Change("mask").values;
      Reorder(values, 1, [&](int64_t to) { return to % keys ? to - 1 : to; });
    });
  ReadOtherPairs(subject, *mask);
  const Problem& problem = subject.problem;
  const bool may_have_bias =
      IndexOf(problem.op->SignatureFor(problem.params, false).inputs,
              "pair_bias") >= 0;
  if (problem.backward || !may_have_bias || subject.Input("pair_bias")) return;
  subject.Add("mask added to the scores as numbers 0 and 1",
              [](AlteredProblem& altered) {
                Tensor& changed = altered.Change("mask");
                Tensor bias = changed;
                bias.name = "pair_bias";
                std::ranges::fill(changed.values, 1);
                altered.Give(std::move(bias));
                altered.Resolve(altered.problem.params);
              });
}

// Leaves a mask of blocks out, inverts it, or reads that of another pair.
void MistakeBlockMask(Subject& subject) {
  const Tensor* block_mask = subject.Input("block_mask");
  if (!block_mask) return;
  ShowOtherPairs(subject, "block_mask");
  ReadOtherPairs(subject, *block_mask);
}

// Leaves a bias of pairs out or ignores its -inf, or reads that of another
// pair.
void MistakePairBias(Subject& subject) {
  const Tensor* bias = subject.Input("pair_bias");
  if (!bias) return;
  subject.Add("pair_bias left out", [](AlteredProblem& altered) {
    std::ranges::fill(altered.Change("pair_bias").values, 0);
  });
  if (std::ranges::any_of(bias->values, [](double x) { return std::isinf(x); }))
    subject.Add("-inf of pair_bias taken for 0", [](AlteredProblem& altered) {
      for (double& value : altered.Change("pair_bias").values)
        if (std::isinf(value)) value = 0;
    });
  ReadOtherPairs(subject, *bias);
}

}  // namespace subquad
