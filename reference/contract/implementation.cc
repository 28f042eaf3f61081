#include "reference/contract/implementation.h"

namespace subquad {
namespace {

// Returns the tensors of a problem without their data.
Arrays WithoutData(const Problem& problem) {
  Arrays arrays;
  const auto entry = [&](const std::string& name, const Shape& shape,
                         const Slices& slices) -> Arrays::Entry {
    return {name, problem.scalar, nullptr, slices, ElementCount(shape)};
  };
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    arrays.inputs.push_back(entry(problem.inputs[i].name, problem.InputShape(i),
                                  problem.InputSlices(i)));
  for (size_t i = 0; i < problem.outputs.size(); ++i)
    arrays.outputs.push_back(entry(problem.outputs[i].name,
                                   problem.OutputShape(i),
                                   problem.OutputSlices(i)));
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
