#include "algorithms/implementation.h"

namespace subquad {
namespace {

// The tensors of a problem, without numbers.
Arrays WithoutData(const Problem& problem) {
  Arrays arrays;
  const auto entry = [&](const std::string& name, const Shape& shape,
                         bool per_head) -> Arrays::Entry {
    const int64_t count = ElementCount(shape);
    return {name, problem.scalar, nullptr, per_head ? count / problem.heads : 0,
            count};
  };
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    arrays.inputs.push_back(entry(problem.inputs[i].name, problem.InputShape(i),
                                  problem.input_per_head[i]));
  for (size_t i = 0; i < problem.outputs.size(); ++i)
    arrays.outputs.push_back(entry(problem.outputs[i].name,
                                   problem.OutputShape(i),
                                   problem.output_per_head[i]));
  return arrays;
}

}  // namespace

Cost Implementation::CostOf(const Problem& problem, int threads) const {
  if (why_not && !why_not(problem).empty()) return {};
  Layout layout = Layout::Counting(threads);
  const auto counted = prepare(problem, WithoutData(problem), layout);
  return {.flops = counted->Flops(),
          .bytes = TensorBytes(problem),
          .workspace_bytes = layout.bytes()};
}

}  // namespace subquad
