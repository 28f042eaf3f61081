#include "reference/inner_attention.h"

#include <string>
#include <vector>

#include "reference/kernelized/feature_map_spec.h"
#include "reference/linear_attention.h"
#include "reference/softmax_attention.h"

namespace subquad {

bool IsSoftmax(const Problem& problem) {
  return problem.params.Text("attention") == "softmax";
}

Problem AttentionOf(const Problem& problem) {
  Params params = problem.params;
  for (const char* name : {"attention", "height", "width"}) params.Erase(name);
  const int64_t n_q = QueriesOf(problem), n_k = KeysOf(problem);
  std::vector<GivenShape> shapes;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const std::string& name = problem.inputs[i].name;
    if (name.starts_with("weights")) continue;
    shapes.push_back({name, problem.InputShape(i)});
    // An image's bias extents are products, a sequence's are not.
    if (name == "bias") shapes.back().shape.back() = n_q + n_k - 1;
  }
  return ResolveProblem(
      IsSoftmax(problem) ? SoftmaxAttention() : LinearAttention(), params,
      problem.scalar, shapes, problem.leading);
}

bool IsSine(const Problem& problem) {
  return problem.params.Text("kind") == "sine";
}

Problem AttentionOnNoise(const Problem& problem, double scale) {
  const bool softmax = IsSoftmax(problem);
  Params params = problem.params;
  for (const char* name : {"attention", "kind"}) params.Erase(name);
  if (softmax) params.Set("scale", scale);
  std::vector<GivenShape> shapes;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const std::string& name = problem.inputs[i].name;
    if (name != "q" && name != "k" && name != "v" && name != "omega") continue;
    shapes.push_back({name, problem.InputShape(i)});
    if (name != "q" && name != "k") continue;
    // Each head has a tensor of its own, because the noise may differ.
    const int64_t rows = shapes.back().shape.rbegin()[1];
    shapes.back().shape = problem.leading;
    shapes.back().shape.push_back(rows);
    shapes.back().shape.push_back(problem.Dim("draws"));
  }
  return ResolveProblem(softmax ? SoftmaxAttention() : LinearAttention(),
                        params, problem.scalar, shapes, problem.leading);
}

}  // namespace subquad
