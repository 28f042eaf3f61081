#include "reference/base/problem.h"

#include <algorithm>
#include <cmath>

namespace subquad {
int IndexOf(const std::vector<TensorRule>& rules, const std::string& name) {
  for (size_t i = 0; i < rules.size(); ++i)
    if (rules[i].name == name) return static_cast<int>(i);
  return -1;
}

namespace {

int64_t FromEnd(const Shape& leading, size_t axis) {
  return axis < leading.size() ? leading[leading.size() - 1 - axis] : 1;
}

Slices SlicesFor(const Shape& problem, const Shape& tensor) {
  return {FromEnd(problem, 1), FromEnd(problem, 0), FromEnd(tensor, 1),
          FromEnd(tensor, 0)};
}

// Returns the index [i, j, ..] of an element in row-major order.
Shape IndexIn(const Shape& shape, size_t element) {
  Shape index(shape.size());
  auto rest = static_cast<int64_t>(element);
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return index;
}

}  // namespace

Shape ShapeOf(const TensorRule& rule, const Dims& dims, const Shape& leading) {
  Shape shape = leading;
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
  return ShapeOf(inputs[index], dims, input_leading[index]);
}
Shape Problem::OutputShape(size_t index) const {
  return ShapeOf(outputs[index], dims, output_leading[index]);
}
std::string Problem::HeadName(int64_t head) const {
  if (leading.empty()) return "";
  if (leading.size() == 1) return " of head " + std::to_string(head);
  return " of batch item " + std::to_string(head / leading[1]) + ", head " +
         std::to_string(head % leading[1]);
}
Slices Problem::InputSlices(size_t index) const {
  return SlicesFor(leading, input_leading[index]);
}
Slices Problem::OutputSlices(size_t index) const {
  return SlicesFor(leading, output_leading[index]);
}

OutputLayout LayoutOf(const Problem& problem, int output) {
  const auto index = static_cast<size_t>(output);
  const Shape shape = problem.OutputShape(index);
  const size_t first = problem.output_leading[index].size();
  OutputLayout layout{problem.OutputSlices(index).count(),
                      first < shape.size() ? shape[first] : 1, 1};
  for (size_t axis = first + 1; axis < shape.size(); ++axis)
    layout.width *= shape[axis];
  return layout;
}

double TensorBytes(const Problem& problem) {
  double count = 0;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    count += static_cast<double>(ElementCount(problem.InputShape(i)));
  for (size_t i = 0; i < problem.outputs.size(); ++i)
    count += static_cast<double>(ElementCount(problem.OutputShape(i)));
  return count * static_cast<double>(Info(problem.scalar).bytes);
}

namespace {

template <typename ValueAt>
void CheckEach(const TensorRule& rule, const Shape& shape, size_t count,
               const ValueAt& value_at) {
  for (size_t i = 0; i < count; ++i) {
    const double value = value_at(i);
    if (rule.zero_or_one ? value == 0 || value == 1 : std::isfinite(value))
      continue;
    if (rule.may_be_minus_infinity && std::isinf(value) && value < 0) continue;
    throw InvalidInput(rule.name,
                       rule.zero_or_one             ? "numbers 0 and 1"
                       : rule.may_be_minus_infinity ? "finite numbers or -inf"
                                                    : "finite numbers",
                       (std::isnan(value)      ? std::string("NaN")
                        : std::isfinite(value) ? ToString(ParamValue(value))
                        : value > 0            ? std::string("infinity")
                                               : std::string("-infinity")) +
                           " at " + ToString(IndexIn(shape, i)));
  }
}

}  // namespace

void CheckNumbersOf(const TensorRule& rule, const Tensor& tensor) {
  CheckEach(rule, tensor.shape, tensor.values.size(),
            [&](size_t i) { return tensor.values[i]; });
}

void CheckNumbersOf(const TensorRule& rule, const Shape& shape,
                    const std::function<double(size_t)>& value_at) {
  CheckEach(rule, shape, static_cast<size_t>(ElementCount(shape)), value_at);
}

}  // namespace subquad
