#include "reference/base/problem.h"

#include <algorithm>
#include <cmath>

namespace subquad {
int IndexOf(const std::vector<TensorRule>& rules, const std::string& name) {
  for (size_t i = 0; i < rules.size(); ++i)
    if (rules[i].name == name) return static_cast<int>(i);
  return -1;
}

Shape ShapeOf(const TensorRule& rule, const Dims& dims, bool per_head,
              int64_t heads) {
  Shape shape;
  if (per_head) shape.push_back(heads);
  for (const std::string& text : rule.shape) {
    const auto extent = Extent(text).Evaluate(dims);
    if (!extent) throw InvalidInput(rule.name, "sizes for " + text, "none");
    if (*extent < 1)
      throw InvalidInput(rule.name, text + " of at least 1",
                         std::to_string(*extent));
    shape.push_back(*extent);
  }
  return shape;
}

bool Problem::HasInput(const std::string& name) const {
  return IndexOf(inputs, name) >= 0;
}
int Problem::InputIndex(const std::string& name) const {
  const int index = IndexOf(inputs, name);
  if (index < 0) throw InvalidInput("input " + name, "a tensor", "none");
  return index;
}
int Problem::OutputIndex(const std::string& name) const {
  const int index = IndexOf(outputs, name);
  if (index < 0) throw InvalidInput("output " + name, "a tensor", "none");
  return index;
}
Shape Problem::InputShape(size_t index) const {
  return ShapeOf(inputs[index], dims, input_per_head[index], heads);
}
Shape Problem::OutputShape(size_t index) const {
  return ShapeOf(outputs[index], dims, output_per_head[index], heads);
}

double TensorBytes(const Problem& problem) {
  double count = 0;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    count += static_cast<double>(ElementCount(problem.InputShape(i)));
  for (size_t i = 0; i < problem.outputs.size(); ++i)
    count += static_cast<double>(ElementCount(problem.OutputShape(i)));
  return count * static_cast<double>(Info(problem.scalar).bytes);
}

void CheckFinite(const TensorRule& rule, const Tensor& tensor) {
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const double value = tensor.values[i];
    if (std::isfinite(value)) continue;
    if (rule.may_be_minus_infinity && std::isinf(value) && value < 0) continue;
    throw InvalidInput(rule.name,
                       rule.may_be_minus_infinity ? "finite numbers or -inf"
                                                  : "finite numbers",
                       (std::isnan(value) ? std::string("NaN")
                        : value > 0       ? std::string("infinity")
                                          : std::string("-infinity")) +
                           " at element " + std::to_string(i));
  }
}

}  // namespace subquad
