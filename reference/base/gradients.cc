#include "reference/base/gradients.h"

#include <algorithm>
#include <utility>

namespace subquad {
namespace {

constexpr std::string_view kPrefix = "grad_";
constexpr std::string_view kNeverTrained[] = {"omega", "z", "rotations"};

}  // namespace

std::string GradientOf(std::string_view input) {
  return std::string(kPrefix) + std::string(input);
}

Signature WithGradients(Signature signature) {
  TensorRule grad{"grad", signature.outputs.front().shape};
  signature.outputs.clear();
  for (const Role role : {Role::kData, Role::kParameter})
    for (const TensorRule& input : signature.inputs) {
      if (input.role != role ||
          std::ranges::count(kNeverTrained, input.name) > 0)
        continue;
      TensorRule gradient = input;
      gradient.name = GradientOf(input.name);
      gradient.may_be_minus_infinity = false;
      signature.outputs.push_back(std::move(gradient));
    }
  signature.inputs.push_back(std::move(grad));
  return signature;
}

int InputOfGradient(const Problem& problem, std::string_view output) {
  if (!output.starts_with(kPrefix)) return -1;
  return IndexOf(problem.inputs, std::string(output.substr(kPrefix.size())));
}

void DropGradientsOfAbsentInputs(Problem& problem) {
  if (!problem.backward) return;
  std::erase_if(problem.outputs, [&](const TensorRule& output) {
    return InputOfGradient(problem, output.name) < 0;
  });
}

}  // namespace subquad
