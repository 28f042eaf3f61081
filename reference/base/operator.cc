#include "reference/base/operator.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace subquad {
namespace {

std::string Symbols(const TensorRule& rule, bool head_axis) {
  std::string text = head_axis ? "[heads" : "[";
  for (const std::string& extent : rule.shape)
    text += (text.size() > 1 ? ", " : "") + extent;
  return text + "]";
}

// Gradients of parameters have the head axis that the parameter has.
void DecideOutputAxes(Problem& problem) {
  for (const TensorRule& rule : problem.outputs) {
    bool per_head = problem.head_axis;
    if (rule.role == Role::kParameter) {
      const int source = problem.InputIndex(rule.name.substr(5));  // grad_NAME
      per_head = problem.input_per_head[source];
    }
    problem.output_per_head.push_back(per_head);
  }
}

// Finds the head axis of every given tensor.
void ResolveHeads(const std::vector<const GivenShape*>& given,
                  Problem& problem) {
  std::string first;
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape& shape = given[i]->shape;
    const size_t rank = rule.shape.size();
    if (shape.size() > 3)
      throw InvalidInput(rule.name, "at most three dimensions",
                         ToString(shape));
    for (int64_t extent : shape)
      if (extent < 1)
        throw InvalidInput(rule.name, "no empty dimension", ToString(shape));
    if (shape.size() != rank && shape.size() != rank + 1)
      throw InvalidInput(rule.name,
                         Symbols(rule, false) + " or " + Symbols(rule, true),
                         ToString(shape));
    if (rule.role != Role::kData) continue;
    const bool head_axis = shape.size() == rank + 1;
    if (first.empty()) {
      problem.head_axis = head_axis;
      problem.heads = head_axis ? shape[0] : 1;
      first = rule.name;
    } else if (head_axis != problem.head_axis) {
      throw InvalidInput(
          rule.name, Symbols(rule, problem.head_axis) + " as " + first + " has",
          ToString(shape));
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape& shape = given[i]->shape;
    const bool per_head = shape.size() == rule.shape.size() + 1;
    if (per_head && !problem.head_axis)
      throw InvalidInput(
          rule.name, Symbols(rule, false) + " beside a single head of " + first,
          ToString(shape));
    if (per_head && shape[0] != problem.heads)
      throw InvalidInput(
          rule.name,
          std::to_string(problem.heads) + " heads as " + first + " has",
          ToString(shape));
    problem.input_per_head.push_back(per_head);
  }
}

int64_t Least(const std::vector<SizeRule>& sizes, const std::string& name) {
  for (const SizeRule& rule : sizes)
    if (rule.name == name) return rule.min;
  return 1;
}

// Finds the sizes behind the shapes, each from the first extent that has it as
// its only unknown, and then holds every extent against them.
void ResolveDims(const std::vector<SizeRule>& sizes,
                 const std::vector<const GivenShape*>& given,
                 Problem& problem) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < given.size(); ++i) {
      const TensorRule& rule = problem.inputs[i];
      const Shape& shape = given[i]->shape;
      const size_t skip = shape.size() - rule.shape.size();
      for (size_t axis = 0; axis < rule.shape.size(); ++axis) {
        const Extent extent(rule.shape[axis]);
        if (extent.Evaluate(problem.dims)) continue;
        const auto solution = extent.Solve(problem.dims, shape[axis + skip]);
        if (solution.symbol.empty()) continue;
        if (!solution.value || *solution.value < Least(sizes, solution.symbol))
          throw InvalidInput(rule.name,
                             Symbols(rule, skip == 1) + " for some " +
                                 solution.symbol + " that fits the others",
                             ToString(shape));
        problem.dims[solution.symbol] = *solution.value;
        progress = true;
      }
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape& shape = given[i]->shape;
    const Shape expected =
        ShapeOf(rule, problem.dims, problem.input_per_head[i], problem.heads);
    if (shape != expected)
      throw InvalidInput(
          rule.name,
          Symbols(rule, problem.input_per_head[i]) + " = " + ToString(expected),
          ToString(shape));
  }
}

bool IsBackward(const Operator& op, const std::vector<std::string>& names) {
  return op.HasBackward() &&
         std::find(names.begin(), names.end(), "grad") != names.end();
}

void CheckNames(const Signature& signature,
                const std::vector<std::string>& names) {
  // An unknown name first: it is probably the missing one, misspelt.
  std::vector<std::string> known;
  for (const TensorRule& rule : signature.inputs) known.push_back(rule.name);
  for (const std::string& name : names)
    if (IndexOf(signature.inputs, name) < 0)
      throw UnknownName("input (with these parameters)", known, name);
  for (const TensorRule& rule : signature.inputs) {
    const auto count = std::count(names.begin(), names.end(), rule.name);
    if (count == 0 && !rule.optional)
      throw InvalidInput("input " + rule.name, Symbols(rule, false), "none");
    if (count > 1)
      throw InvalidInput("input " + rule.name, "one tensor",
                         std::to_string(count));
  }
}

}  // namespace

void AddParamsToDims(const Params& params, Dims& dims) {
  for (const auto& [name, value] : params.values())
    if (const int64_t* integer = std::get_if<int64_t>(&value))
      dims[name] = *integer;
}

int64_t CountOf(const std::string& extent, const Dims& dims) {
  const auto count = Extent(extent).Evaluate(dims);
  if (!count) throw InvalidInput("size " + extent, "a number", "none");
  return *count;
}

std::vector<std::string> LengthAxes(const Operator& op, const Params& params,
                                    const Signature& signature) {
  std::vector<std::string> axes;
  for (const SizeRule& rule : signature.sizes)
    if (rule.follows_n) axes.push_back(rule.name);
  for (const ParamRule& rule : op.ParamRules(params))
    if (rule.follows_n && params.Has(rule.name)) axes.push_back(rule.name);
  return axes;
}

void CheckInputNames(const Operator& op, Params params,
                     const std::vector<std::string>& names) {
  CheckParams(op.ParamRules(params), params);
  CheckNames(op.SignatureFor(params, IsBackward(op, names)), names);
}

Problem ResolveProblem(const Operator& op, Params params, Scalar scalar,
                       const std::vector<GivenShape>& given) {
  CheckParams(op.ParamRules(params), params);
  std::vector<std::string> names;
  for (const GivenShape& tensor : given) names.push_back(tensor.name);
  Problem problem;
  problem.op = &op;
  problem.scalar = scalar;
  problem.params = std::move(params);
  problem.backward = IsBackward(op, names);
  const Signature signature = op.SignatureFor(problem.params, problem.backward);
  CheckNames(signature, names);
  std::vector<const GivenShape*> ordered;
  for (const TensorRule& rule : signature.inputs) {
    const auto found = std::find_if(
        given.begin(), given.end(),
        [&](const GivenShape& tensor) { return tensor.name == rule.name; });
    if (found == given.end()) continue;
    problem.inputs.push_back(rule);
    ordered.push_back(&*found);
  }
  problem.outputs = signature.outputs;
  AddParamsToDims(problem.params, problem.dims);
  ResolveHeads(ordered, problem);
  ResolveDims(signature.sizes, ordered, problem);
  problem.length_axes = LengthAxes(op, problem.params, signature);
  problem.queries = CountOf(signature.queries, problem.dims);
  problem.keys = CountOf(signature.keys, problem.dims);
  DecideOutputAxes(problem);
  op.CheckSizes(problem);
  return problem;
}

Problem MakeProblem(const Operator& op, Params params, bool backward,
                    Scalar scalar, const Dims& sizes, int64_t heads,
                    bool per_head_parameters,
                    const std::vector<std::string>& optional_inputs) {
  CheckParams(op.ParamRules(params), params);
  if (backward && !op.HasBackward())
    throw InvalidInput("backward", "an operator that has a backward pass",
                       std::string(op.description().id));
  const Signature signature = op.SignatureFor(params, backward);
  std::vector<std::string> unused = optional_inputs;
  Dims dims;
  AddParamsToDims(params, dims);
  std::set<std::string> known;
  for (const SizeRule& rule : signature.sizes) {
    known.insert(rule.name);
    auto found = sizes.find(rule.name);
    if (found == sizes.end())
      throw InvalidInput("size " + rule.name, "a number", "none");
    if (found->second < rule.min || found->second > kMaxInteger)
      throw InvalidInput(
          "size " + rule.name,
          std::to_string(rule.min) + ".." + std::to_string(kMaxInteger),
          std::to_string(found->second));
    dims[rule.name] = found->second;
  }
  for (const auto& [name, value] : sizes)
    if (!known.contains(name))
      throw InvalidInput("size " + name, "a size of this operator",
                         std::to_string(value));
  std::vector<GivenShape> given;
  for (const TensorRule& rule : signature.inputs) {
    if (rule.optional) {
      auto found = std::find(unused.begin(), unused.end(), rule.name);
      if (found == unused.end()) continue;
      unused.erase(found);
    }
    const bool per_head =
        heads > 0 && (rule.role == Role::kData ||
                      (per_head_parameters && rule.shape.size() < 3));
    given.push_back({rule.name, ShapeOf(rule, dims, per_head, heads)});
  }
  if (!unused.empty())
    throw InvalidInput("input " + unused.front(),
                       "an optional input of this operator", "none");
  return ResolveProblem(op, std::move(params), scalar, given);
}

}  // namespace subquad
