#include "harness/judging/input_rounding.h"

#include <cmath>

#include "harness/cases/draws.h"
#include "harness/judging/mistakes.h"

namespace subquad {
namespace {

constexpr uint64_t kTimes = 8;

// Returns the unit in the last place of `value`; zero for zero and infinity.
double LastPlace(double value, Scalar scalar) {
  if (value == 0 || !std::isfinite(value)) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(Info(scalar).unit_roundoff, exponent);
}

// Moves every value by a whole unit, since the type cannot represent half a
// unit.
Tensor OneUnitOff(Tensor tensor, Scalar scalar, uint64_t seed) {
  const Draws draws(seed, "rounding/" + tensor.name);
  for (size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] += std::copysign(LastPlace(tensor.values[i], scalar),
                                      draws.Uniform(i) - 0.5);
  return tensor;
}

// Returns the right answer plus half of the difference between `after` and
// `before`.
WrongAnswer HalfBetween(const Answer& answer, const WrongAnswer& before,
                        const WrongAnswer& after) {
  WrongAnswer moved{.name = before.name};
  for (const FoundRows& from : before.parts)
    for (const FoundRows& to : after.parts) {
      if (to.output != from.output || to.rows != from.rows) continue;
      const OutputAnswer& output = answer.outputs[from.output];
      moved.parts.push_back(
          {from.output, from.rows,
           [&output, rows = from.rows, from = from.value, to = to.value](
               size_t r, int64_t c) -> long double {
             const size_t at = rows[r] * static_cast<size_t>(output.width) +
                               static_cast<size_t>(c);
             return output.value[at] + (to(r, c) - from(r, c)) / 2;
           }});
    }
  return moved;
}

}  // namespace

std::vector<WrongAnswer> MovedByRounding(
    const Problem& problem, const Inputs& inputs, const Answer& answer,
    const std::vector<std::string>& names) {
  const auto misread = [&](const Inputs& read) {
    return MisreadAnswers(problem, read, answer, kMisreadRows,
                          {names.begin(), names.end()});
  };
  const std::vector<WrongAnswer> before = misread(inputs);
  std::vector<WrongAnswer> moved;
  for (uint64_t time = 0; time < kTimes && !before.empty(); ++time) {
    Inputs rounded;
    for (const Tensor& tensor : inputs.tensors)
      rounded.tensors.push_back(
          OneUnitOff(tensor, Coarser(problem.scalar, tensor.scalar), time));
    for (const WrongAnswer& after : misread(rounded))
      for (const WrongAnswer& wrong : before)
        if (wrong.name == after.name)
          moved.push_back(HalfBetween(answer, wrong, after));
  }
  return moved;
}

}  // namespace subquad
