#include "reference/contract/sequence_problems.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "reference/contract/linear_attention.h"
#include "reference/contract/packed_sequences.h"

namespace subquad {
namespace {

// Returns the part of the tensors that a sequence reads.
Inputs InputsOf(const SequenceProblem& one, const Problem& whole,
                const Inputs& inputs) {
  Inputs part;
  part.original = &inputs;
  const int64_t queries = one.problem.queries, keys = one.problem.keys;
  // Keeps `count` of the entries of an axis from `first` on.
  const auto take = [&](const std::string& name, size_t axis, int64_t first,
                        int64_t count) {
    if (IndexOf(whole.inputs, name) < 0) return;
    if (!std::ranges::count(part.tensors, name, &Tensor::name))
      part.tensors.push_back(inputs[name]);
    Tensor& tensor = *std::ranges::find(part.tensors, name, &Tensor::name);
    const size_t last = tensor.shape.size() - 1;
    const int64_t extent = tensor.shape[last - axis];
    if (extent == 1) return;  // shared
    int64_t inner = 1;
    for (size_t a = last - axis + 1; a <= last; ++a) inner *= tensor.shape[a];
    std::vector<double> values;
    for (auto from = tensor.values.begin(); from != tensor.values.end();
         from += extent * inner)
      values.insert(values.end(), from + first * inner,
                    from + (first + count) * inner);
    tensor.values = std::move(values);
    tensor.shape[last - axis] = count;
  };
  take("q", 1, one.first_query, queries);
  take("k", 1, one.first_key, keys);
  take("v", 1, one.first_key, keys);
  take("bias", 0, one.first_bias, queries + keys - 1);
  take("mask", 1, one.first_query, queries);
  take("mask", 0, one.first_key, keys);
  return part;
}

}  // namespace

std::vector<SequenceProblem> SequenceProblemsOf(const Problem& whole) {
  if (!whole.params.Has("packed_q")) return {{whole}};
  std::vector<SequenceProblem> all;
  const PackedSequences sequences(whole);
  for (const PackedSequence& one : sequences.all()) {
    if (one.queries == 0 || one.keys == 0) continue;
    Problem alone = whole;
    for (const char* name : {"packed_q", "packed_k"}) alone.params.Erase(name);
    alone.params.Set("query_offset", one.seen.first());
    alone.dims["n_q"] = alone.queries = one.queries;
    alone.dims["n_k"] = alone.keys = one.keys;
    all.push_back({std::move(alone), one.first_query, one.first_key,
                   sequences.Entry(one, one.queries - 1)});
  }
  return all;
}

RowBound BoundBySequence(const Problem& problem, const Inputs& inputs,
                         RowBound (*bound)(const Problem&, const Inputs&)) {
  if (!problem.params.Has("packed_q")) return bound(problem, inputs);
  struct Part {
    SequenceProblem sequence;
    Inputs inputs;
    RowBound bound;
  };
  // Bounds refer to their problem and inputs, which must not move.
  auto parts = std::make_shared<std::vector<std::unique_ptr<Part>>>();
  for (SequenceProblem& one : SequenceProblemsOf(problem)) {
    Inputs own = InputsOf(one, problem, inputs);
    parts->push_back(
        std::make_unique<Part>(std::move(one), std::move(own), nullptr));
    Part& part = *parts->back();
    part.bound = bound(part.sequence.problem, part.inputs);
  }
  if (std::ranges::none_of(
          *parts, [](const auto& part) -> bool { return !!part->bound; }))
    return {};
  for (auto& part : *parts)
    if (!part->bound)
      part->bound = ReferenceBound(part->sequence.problem, part->inputs);
  return [parts](const RowId& id, std::span<double> units) {
    std::ranges::fill(units, 0.0);  // of a row of zeros
    for (const auto& part : *parts) {
      const int64_t row = id.row - part->sequence.first_query;
      if (row < 0 || row >= part->sequence.problem.queries) continue;
      part->bound({id.output, id.head, row}, units);
    }
  };
}

}  // namespace subquad
