#include "reference/base/operator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "reference/base/gradients.h"
#include "reference/base/not_together.h"

namespace subquad {
namespace {

// Formats a shape in symbols: "[b, h, n_q, d]".
std::string Symbols(const TensorRule& rule, size_t leading) {
  if (rule.shape.empty()) return leading == 2 ? "[b, h]" : "[h]";
  std::string text = leading == 2 ? "[b, h" : leading == 1 ? "[h" : "[";
  for (const std::string& extent : rule.shape)
    text += (text.size() > 1 ? ", " : "") + extent;
  return text + "]";
}

// Gives a gradient the leading axes of its tensor, and other outputs the
// largest leading axes.
void DecideOutputAxes(Problem& problem) {
  for (const TensorRule& rule : problem.outputs) {
    const int source = InputOfGradient(problem, rule.name);
    problem.output_leading.push_back(
        source >= 0 ? problem.input_leading[static_cast<size_t>(source)]
                    : problem.leading);
  }
}

// Returns the axes of a given tensor that precede those of its rule.
Shape LeadingOf(const TensorRule& rule, const Shape& shape) {
  for (int64_t extent : shape)
    if (extent < 1)
      throw InvalidInput(rule.name, "no empty dimension", ToString(shape));
  const size_t rank = rule.shape.size();
  if (shape.size() < rank || shape.size() > rank + 2)
    throw InvalidInput(rule.name,
                       (rank == 0 ? "[1]" : Symbols(rule, 0)) + ", " +
                           Symbols(rule, 1) + " or " + Symbols(rule, 2),
                       ToString(shape));
  return {shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(rank)};
}

// True for the incoming gradient of an output other than the first, whose
// leading axes are those of the output.
bool IsOptionalCotangent(const TensorRule& rule) {
  return rule.optional && IsCotangent(rule.name);
}

// Finds the batch size and the number of heads, which are the largest of all
// tensors. Each tensor must have as many, or 1, or (for heads) a divisor of
// them.
void ResolveLeading(const std::vector<const GivenShape*>& shapes,
                    const Shape& at_least, Problem& problem) {
  std::string most_heads, most_items;  // names of the tensors with the largest
                                       // axes
  size_t rank = at_least.size();
  int64_t heads = at_least.empty() ? 1 : at_least.back();
  int64_t batch = at_least.size() == 2 ? at_least.front() : 1;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape leading = LeadingOf(rule, shapes[i]->shape);
    problem.input_leading.push_back(leading);
    if (IsOptionalCotangent(rule)) continue;
    // One number for all heads, [1], adds no axis to the output.
    if (!rule.shape.empty() || leading != Shape{1})
      rank = std::max(rank, leading.size());
    if (!leading.empty() && leading.back() > heads) {
      heads = leading.back();
      most_heads = rule.name;
    }
    if (leading.size() == 2 && leading[0] > batch) {
      batch = leading[0];
      most_items = rule.name;
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape& leading = problem.input_leading[i];
    if (IsOptionalCotangent(rule)) continue;
    if (!leading.empty() && heads % leading.back() != 0)
      throw InvalidInput(rule.name,
                         "a number of heads that divides the " +
                             std::to_string(heads) + " of " + most_heads +
                             " (heads come before rows)",
                         ToString(shapes[i]->shape));
    if (leading.size() == 2 && leading[0] != 1 && leading[0] != batch)
      throw InvalidInput(rule.name,
                         "1 batch item or " + std::to_string(batch) + " as " +
                             most_items + " has",
                         ToString(shapes[i]->shape));
  }
  if (rank == 1) problem.leading = {heads};
  if (rank == 2) problem.leading = {batch, heads};
  problem.heads = batch * heads;
  if (!problem.backward) return;
  for (size_t i = 0; i < shapes.size(); ++i) {
    // ResolveDims compares the whole shape with that of the output.
    if (IsOptionalCotangent(problem.inputs[i]))
      problem.input_leading[i] = problem.leading;
    if (IsCotangent(problem.inputs[i].name) &&
        problem.input_leading[i] != problem.leading)
      throw InvalidInput(problem.inputs[i].name,
                         Symbols(problem.inputs[i], rank) +
                             " with the leading axes of the output, " +
                             ToString(problem.leading),
                         ToString(shapes[i]->shape));
  }
}

int64_t Least(const std::vector<SizeRule>& sizes, const std::string& name) {
  for (const SizeRule& rule : sizes)
    if (rule.name == name) return rule.min;
  return 1;
}

// Replaces extents of which a tensor has only one entry.
void ShareExtents(const Shape& shape, TensorRule& rule) {
  if (!rule.per_pair) return;
  const size_t leading = shape.size() - rule.shape.size();
  for (size_t axis = 0; axis < rule.shape.size(); ++axis)
    if (shape[leading + axis] == 1) rule.shape[axis] = "1";
}

// Returns what a message adds to the shape of a tensor with another number of
// rows than there are queries, if there have to be as many keys.
std::string WhyAsMany(const Signature& signature, const TensorRule& rule,
                      const Shape& shape, const Shape& expected) {
  const size_t rows = expected.size() - rule.shape.size();
  const bool is_size =
      std::ranges::count(signature.sizes, signature.queries, &SizeRule::name);
  return is_size && signature.queries == signature.keys &&
                 !rule.shape.empty() && shape.size() == expected.size() &&
                 rule.shape.front() == signature.queries &&
                 shape[rows] != expected[rows]
             ? ", with these parameters as many keys as queries"
             : "";
}

// Returns what a message adds to the shape of a bias by offset of packed
// sequences, which depends on the longest of them.
std::string WhyOffsets(const Params& params, const TensorRule& rule) {
  if (rule.offset_axes.empty() || !params.Has("packed_q")) return "";
  const auto first = Extent(rule.offset_axes.front().first).Evaluate({});
  const auto count = Extent(rule.shape.front()).Evaluate({});
  if (!first || !count) return "";
  return ", an entry for each offset key - query from " +
         std::to_string(*first) + " to " + std::to_string(*first + *count - 1) +
         ", as the longest of the packed sequences have";
}

// Finds the sizes behind the shapes, each from the first extent in which it is
// the only unknown, and then compares every extent with the result.
void ResolveDims(const Signature& signature,
                 const std::vector<const GivenShape*>& shapes,
                 Problem& problem) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const TensorRule& rule = problem.inputs[i];
      const Shape& shape = shapes[i]->shape;
      const size_t skip = shape.size() - rule.shape.size();
      for (size_t axis = 0; axis < rule.shape.size(); ++axis) {
        const Extent extent(rule.shape[axis]);
        if (extent.Evaluate(problem.dims)) continue;
        const auto solution = extent.Solve(problem.dims, shape[axis + skip]);
        if (solution.symbol.empty()) continue;
        const int64_t least = Least(signature.sizes, solution.symbol);
        if (!solution.value || *solution.value < least)
          throw InvalidInput(rule.name,
                             Symbols(rule, skip) + " for some " +
                                 solution.symbol +
                                 (solution.value && least > 1
                                      ? " of at least " + std::to_string(least)
                                      : " that fits the others"),
                             ToString(shape));
        problem.dims[solution.symbol] = *solution.value;
        progress = true;
      }
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorRule& rule = problem.inputs[i];
    const Shape& shape = shapes[i]->shape;
    const Shape& leading = problem.input_leading[i];
    const Shape expected = ShapeOf(rule, problem.dims, leading);
    if (shape != expected)
      throw InvalidInput(rule.name,
                         Symbols(rule, leading.size()) + " = " +
                             ToString(expected) +
                             WhyAsMany(signature, rule, shape, expected) +
                             WhyOffsets(problem.params, rule),
                         ToString(shape));
  }
}

// Leaves out optional outputs that are not wanted. Throws InvalidInput for one
// that does not exist.
void KeepWanted(const std::vector<std::string>& wanted,
                std::vector<TensorRule>& outputs) {
  const auto is_wanted = [&](const std::string& name) {
    return std::ranges::find(wanted, name) != wanted.end();
  };
  for (const std::string& name : wanted)
    if (IndexOf(outputs, name) < 0) {
      std::vector<std::string> known;
      for (const TensorRule& rule : outputs) known.push_back(rule.name);
      throw UnknownName("output", known, name);
    }
  std::erase_if(outputs, [&](const TensorRule& rule) {
    return rule.optional && !is_wanted(rule.name);
  });
}

bool IsBackward(const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), "grad") != names.end();
}

RulesOfParams RulesOf(const Operator& op) {
  return [&op](const Params& params) { return op.ParamRules(params); };
}

// Throws InvalidInput for an input that the operator takes without some of
// these parameters, or beside an incoming gradient.
void CheckInputNotExcluded(const Operator& op, const Params& params,
                           bool backward, const std::string& name) {
  const auto is_taken = [&](const Params& changed, bool with_gradients) {
    return IndexOf(op.SignatureFor(changed, with_gradients).inputs, name) >= 0;
  };
  if (!backward && is_taken(params, true))
    throw InvalidInput("input " + name, "the input grad beside it", "none");
  const std::string others = Excluding(
      RulesOf(op), params,
      [&](const Params& changed) { return is_taken(changed, backward); });
  if (!others.empty())
    throw InvalidInput("input " + name + ": it is not taken together with " +
                       others);
}

void CheckNames(const Operator& op, const Params& params,
                const Signature& signature,
                const std::vector<std::string>& names) {
  // Unknown names are reported first: one is probably the missing name,
  // misspelt.
  std::vector<std::string> known;
  for (const TensorRule& rule : signature.inputs) known.push_back(rule.name);
  for (const std::string& name : names)
    if (IndexOf(signature.inputs, name) < 0) {
      CheckInputNotExcluded(op, params, IsBackward(names), name);
      throw UnknownName("input (with these parameters)", known, name);
    }
  for (const TensorRule& rule : signature.inputs) {
    const auto count = std::count(names.begin(), names.end(), rule.name);
    if (count == 0 && !rule.optional)
      throw InvalidInput("input " + rule.name, Symbols(rule, 0), "none");
    if (count > 1)
      throw InvalidInput("input " + rule.name, "one tensor",
                         std::to_string(count));
  }
}

// Throws unless key_lengths has one number of keys for each batch item.
void CheckKeyLengths(const Problem& problem) {
  if (!problem.params.Has("key_lengths")) return;
  const IntegerList& lengths = problem.params.List("key_lengths");
  const auto batch = static_cast<size_t>(problem.Batch());
  if (lengths.size() != batch)
    throw InvalidInput(
        "parameter key_lengths",
        "one number for each batch item, " + std::to_string(batch) + " in all",
        std::to_string(lengths.size()));
  for (int64_t length : lengths)
    if (length > problem.keys)
      throw InvalidInput("parameter key_lengths",
                         "at most the " + std::to_string(problem.keys) +
                             " keys that there are",
                         std::to_string(length));
}

}  // namespace

Signature Operator::SignatureFor(const Params& params, bool backward) const {
  Signature signature = ForwardSignature(params);
  return backward ? WithGradients(std::move(signature)) : signature;
}

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
  CheckParamsOf(RulesOf(op), params);
  CheckNames(op, params, op.SignatureFor(params, IsBackward(names)), names);
}

namespace {

// Sets flags that are on by default or the opposite of another one. Throws
// InvalidInput for a parameter of an input that is not there.
void FillInFlags(const std::vector<ParamRule>& rules,
                 const std::vector<std::string>& inputs, Params& params) {
  for (const ParamRule& rule : rules) {
    const bool has_input =
        rule.of_input.empty() || std::ranges::count(inputs, rule.of_input) > 0;
    if (params.Has(rule.name)) {
      if (!has_input)
        throw InvalidInput(
            "parameter " + rule.name,
            "the input " + rule.of_input + ", which it describes", "none");
    } else if (has_input && rule.IsOnByDefault()) {
      params.Set(rule.name, true);
    } else if (has_input && !rule.opposite_of.empty()) {
      params.Set(rule.name, !params.Flag(rule.opposite_of));
    }
  }
}

}  // namespace

Problem ResolveProblem(const Operator& op, Params params, Scalar scalar,
                       const std::vector<GivenShape>& shapes,
                       const Shape& at_least,
                       const std::vector<std::string>& wanted) {
  CheckParamsOf(RulesOf(op), params);
  std::vector<std::string> names;
  for (const GivenShape& tensor : shapes) names.push_back(tensor.name);
  FillInFlags(op.ParamRules(params), names, params);
  Problem problem;
  problem.op = &op;
  problem.scalar = scalar;
  problem.params = std::move(params);
  problem.backward = IsBackward(names);
  const Signature signature = op.SignatureFor(problem.params, problem.backward);
  CheckNames(op, problem.params, signature, names);
  std::vector<const GivenShape*> ordered;
  for (const TensorRule& rule : signature.inputs) {
    const auto it = std::find_if(
        shapes.begin(), shapes.end(),
        [&](const GivenShape& tensor) { return tensor.name == rule.name; });
    if (it == shapes.end()) continue;
    problem.inputs.push_back(rule);
    ordered.push_back(&*it);
  }
  problem.outputs = signature.outputs;
  KeepWanted(wanted, problem.outputs);
  DropGradientsOfAbsentInputs(problem);
  AddParamsToDims(problem.params, problem.dims);
  ResolveLeading(ordered, at_least, problem);
  for (size_t i = 0; i < ordered.size(); ++i)
    ShareExtents(ordered[i]->shape, problem.inputs[i]);
  for (TensorRule& output : problem.outputs)
    if (const int source = InputOfGradient(problem, output.name); source >= 0)
      output.shape = problem.inputs[static_cast<size_t>(source)].shape;
  ResolveDims(signature, ordered, problem);
  problem.length_axes = LengthAxes(op, problem.params, signature);
  // An axis that only an absent optional tensor has gets no value.
  std::erase_if(problem.length_axes, [&](const std::string& axis) {
    return !problem.dims.contains(axis);
  });
  problem.queries = CountOf(signature.queries, problem.dims);
  problem.keys = CountOf(signature.keys, problem.dims);
  DecideOutputAxes(problem);
  CheckKeyLengths(problem);
  op.CheckSizes(problem);
  return problem;
}

std::vector<std::string> OptionalOutputs(
    const Signature& signature,
    const std::function<bool(const std::string&)>& is_wanted) {
  std::vector<std::string> names;
  for (const TensorRule& rule : signature.outputs)
    if (rule.optional && is_wanted(rule.name)) names.push_back(rule.name);
  return names;
}

std::vector<std::string> WantedOutputs(const Problem& problem) {
  std::vector<std::string> wanted;
  for (const TensorRule& rule : problem.outputs)
    if (rule.optional) wanted.push_back(rule.name);
  return wanted;
}

Shape LeadingAxes::Of(const TensorRule& rule) const {
  if (const auto it = own.find(rule.name); it != own.end()) return it->second;
  const bool data = rule.role == Role::kData;
  if (!data && !(per_head && rule.shape.size() < 3))
    return rule.shape.empty() ? Shape{1} : Shape{};
  if (data && batch > 0) return {batch, std::max<int64_t>(heads, 1)};
  if (heads > 0) return {heads};
  return rule.shape.empty() ? Shape{1} : Shape{};
}

TensorRule LeadingAxes::WithShared(TensorRule rule) const {
  const auto found = shared.find(rule.name);
  if (found == shared.end()) return rule;
  if (!rule.per_pair)
    throw InvalidInput("shared axes of " + rule.name,
                       "a tensor with an entry for each query and key",
                       Symbols(rule, 0));
  if (found->second.queries) rule.shape[0] = "1";
  if (found->second.keys) rule.shape[1] = "1";
  return rule;
}

Problem MakeProblem(const Operator& op, Params params, bool backward,
                    Scalar scalar, const Dims& sizes,
                    const LeadingAxes& leading,
                    const std::vector<std::string>& with) {
  CheckParamsOf(RulesOf(op), params);
  const Signature signature = op.SignatureFor(params, backward);
  std::vector<std::string> unused = with;
  Dims dims;
  AddParamsToDims(params, dims);
  std::set<std::string> known;
  for (const SizeRule& rule : signature.sizes) {
    if (!rule.of_input.empty() && std::ranges::count(with, rule.of_input) == 0)
      continue;
    known.insert(rule.name);
    auto it = sizes.find(rule.name);
    if (it == sizes.end())
      throw InvalidInput("size " + rule.name, "a number", "none");
    if (it->second < rule.min || it->second > kMaxInteger)
      throw InvalidInput("size " + rule.name,
                         "an integer from " + std::to_string(rule.min) +
                             " to " + std::to_string(kMaxInteger),
                         std::to_string(it->second));
    dims[rule.name] = it->second;
  }
  for (const auto& [name, value] : sizes)
    if (!known.contains(name))
      throw InvalidInput("size " + name, "a size of this operator",
                         std::to_string(value));
  std::vector<GivenShape> shapes;
  for (const TensorRule& rule : signature.inputs) {
    if (rule.optional) {
      auto it = std::find(unused.begin(), unused.end(), rule.name);
      if (it == unused.end()) continue;
      unused.erase(it);
    }
    shapes.push_back(
        {rule.name, ShapeOf(leading.WithShared(rule), dims, leading.Of(rule))});
  }
  std::vector<std::string> wanted;
  for (const TensorRule& rule : signature.outputs)
    if (rule.optional && std::erase(unused, rule.name) > 0)
      wanted.push_back(rule.name);
  const auto check_has = [&](const char* axes, const std::string& name) {
    if (std::ranges::find(shapes, name, &GivenShape::name) == shapes.end())
      throw InvalidInput(axes + name, "an input of this case", "none");
  };
  for (const auto& [name, axes] : leading.own)
    check_has("leading axes of ", name);
  for (const auto& [name, axes] : leading.shared)
    check_has("shared axes of ", name);
  if (!unused.empty()) {
    std::vector<std::string> optional;
    for (const auto& rules : {signature.inputs, signature.outputs})
      for (const TensorRule& rule : rules)
        if (rule.optional) optional.push_back(rule.name);
    if (optional.empty())
      throw InvalidInput("with", "no inputs, since none is optional here",
                         "'" + unused.front() + "'");
    CheckInputNotExcluded(op, params, backward, unused.front());
    throw UnknownName("with", optional, unused.front());
  }
  return ResolveProblem(op, std::move(params), scalar, shapes, {}, wanted);
}

}  // namespace subquad
