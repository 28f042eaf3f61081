// Mistakes of the backward pass alone: the output is right, and some gradients
// are not.
#include <fmt/format.h>

#include <algorithm>

#include "harness/judging/mistake.h"

namespace subquad {
namespace {

// Leaves all gradients but one as they should be.
std::function<bool(RowsByOutput&)> Only(const Subject& subject, size_t output) {
  return [&subject, output](RowsByOutput& program) {
    for (size_t other = 0; other < program.size(); ++other)
      if (other != output) program[other] = subject.right[other];
    return true;
  };
}

// Sets the cotangent of the heads for which `drops` holds to zero.
template <typename Drops>
void DropCotangent(AlteredProblem& altered, const Drops& drops) {
  Tensor& grad = altered.Change("grad");
  const int64_t size = grad.SliceSize();
  for (int64_t head = 0; head < altered.problem.heads; ++head)
    if (drops(head)) std::fill_n(grad.values.begin() + head * size, size, 0);
}

}  // namespace

// Differentiates a mean as if its normaliser were a constant, as when it is cut
// off the graph; of a softmax the term D is then missing.
void DetachNormaliser(Subject& subject) {
  subject.Add("the normaliser not differentiated", [](AlteredProblem& altered) {
    altered.problem.detaches_normalisers = true;
    altered.changed = true;
  });
}

// Reduces the gradient of a tensor that heads or batch items share otherwise
// than by adding up all of them.
void ReduceSharedOtherwise(Subject& subject) {
  const Problem& problem = subject.problem;
  const int64_t items = problem.Batch();
  const int64_t heads = problem.heads / items;
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const Slices slices = problem.OutputSlices(o);
    const int64_t readers = problem.heads / slices.count();
    if (readers == 1) continue;
    const std::string& name = problem.outputs[o].name;
    const auto add = [&](const std::string& what, const auto& drops) {
      subject
          .Add(name + what,
               [drops](AlteredProblem& altered) {
                 DropCotangent(altered, drops);
               })
          .finish = Only(subject, o);
    };
    add(" of the first batch item only",
        [=](int64_t head) { return head >= heads; });
    add(" of the last of the heads that share it only", [=](int64_t head) {
      return slices.Readers(slices.Of(head)).back() != head;
    });
    subject.Add(name + " averaged over the heads that share it", nullptr)
        .finish = [o, readers](RowsByOutput& program) {
      for (long double& value : program[o].values)
        value /= static_cast<long double>(readers);
      return true;
    };
  }
}

void SwapGradients(Subject& subject) {
  const Problem& problem = subject.problem;
  for (size_t a = 0; a < problem.outputs.size(); ++a)
    for (size_t b = a + 1; b < problem.outputs.size(); ++b) {
      const auto& rows_of = [&](size_t o) -> const std::vector<RowId>& {
        return subject.answer.outputs[o].selection.rows;
      };
      const auto same_place = [](const RowId& x, const RowId& y) {
        return x.head == y.head && x.row == y.row;
      };
      if (problem.OutputShape(a) != problem.OutputShape(b) ||
          !std::ranges::equal(rows_of(a), rows_of(b), same_place))
        continue;
      subject
          .Add(fmt::format("{} and {} swapped", problem.outputs[a].name,
                           problem.outputs[b].name),
               nullptr)
          .finish = [a, b](RowsByOutput& program) {
        std::swap(program[a], program[b]);
        return true;
      };
    }
}

// Leaves a mask, lengths or positions out of one gradient.
void LeaveVisibilityOutOfOne(Subject& subject) {
  const Problem& problem = subject.problem;
  const auto add = [&](const std::string& name, const Params& params) {
    for (size_t o = 0; o < problem.outputs.size(); ++o)
      subject
          .Add(name + " left out of " + problem.outputs[o].name + " only",
               params)
          .finish = Only(subject, o);
  };
  Params params = problem.params;
  if (params.Flag("causal")) {
    params.Set("causal", false);
    add("causal mask", params);
  }
  for (const char* name : {"query_offset", "key_lengths"}) {
    if (!problem.params.Has(name)) continue;
    params = problem.params;
    params.Erase(name);
    add(name, params);
  }
}

}  // namespace subquad
