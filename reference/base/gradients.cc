#include "reference/base/gradients.h"

#include <algorithm>
#include <utility>

namespace subquad {
namespace {

constexpr std::string_view kCotangent = "grad";
constexpr std::string_view kPrefix = "grad_";

}  // namespace

std::string GradientOf(std::string_view input) {
  return std::string(kPrefix) + std::string(input);
}

std::string CotangentOf(const std::vector<TensorRule>& outputs, size_t output) {
  return output == 0 ? std::string(kCotangent)
                     : GradientOf(outputs[output].name);
}

bool IsCotangent(std::string_view input) {
  return input == kCotangent || input.starts_with(kPrefix);
}

Signature WithGradients(Signature signature) {
  std::vector<TensorRule> cotangents;
  for (size_t o = 0; o < signature.outputs.size(); ++o) {
    TensorRule cotangent{CotangentOf(signature.outputs, o),
                         signature.outputs[o].shape};
    cotangent.optional = o > 0;
    cotangent.linear = true;
    cotangents.push_back(std::move(cotangent));
  }
  signature.outputs.clear();
  for (const Role role : {Role::kData, Role::kParameter})
    for (const TensorRule& input : signature.inputs) {
      if (input.role != role || input.fixed) continue;
      TensorRule gradient = input;
      gradient.name = GradientOf(input.name);
      gradient.may_be_minus_infinity = false;
      gradient.optional = gradient.linear = false;
      signature.outputs.push_back(std::move(gradient));
    }
  for (TensorRule& input : signature.inputs) input.linear = false;
  for (TensorRule& cotangent : cotangents)
    signature.inputs.push_back(std::move(cotangent));
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
