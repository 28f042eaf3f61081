// One problem: an operator with its parameters, sizes and tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/params.h"
#include "reference/scalar.h"
#include "reference/shape_rule.h"

namespace subquad {

class Operator;

// Who owns the head axis. Data tensors (values, queries, gradients, outputs)
// are [..] for one head or [h, ..] for h independent ones. Parameters are
// shared by the heads ([..]) or given for each ([h, ..]).
enum class Role { kData, kParameter };

// How generated tensors are drawn before a named recipe alters them.
enum class Draw {
  kNormal,      // independent N(0, 1)
  kPositive,    // independent uniform on (0, 1)
  kProjection,  // [m, d] rows for random features; see harness/omega.h
  kLogWeights,  // logarithms of weights: N(0, 1)
  kMixing,      // N(0, 1/c), c the last extent: c numbers mix into one of
                // their own size
};

struct TensorRule {
  std::string name;
  std::vector<std::string> shape;  // extents in symbols, without the head axis
  Role role = Role::kData;
  Draw draw = Draw::kNormal;
  bool optional = false;
  bool may_be_minus_infinity = false;
  // The axes that run over offsets j - i: reversing them is the mistake of
  // taking i - j.
  std::vector<int> offset_axes = {};
};

// A size of generated problems.
struct SizeRule {
  std::string name;
  int64_t default_value;  // 0: as many as there are tokens (n)
  std::string meaning;
  int64_t min = 1;
};

struct Signature {
  std::vector<SizeRule> sizes;  // those that no parameter gives
  std::vector<TensorRule> inputs;
  std::vector<TensorRule> outputs;
};

// Everything about a problem but the numbers in its tensors. Implementations
// are prepared from this alone, so that no set-up can depend on values.
struct Problem {
  const Operator* op = nullptr;
  Params params;
  bool backward = false;
  Scalar scalar = Scalar::kFloat32;
  Dims dims;
  int64_t heads = 1;
  bool head_axis = false;                   // data tensors are [heads, ..]
  std::vector<TensorRule> inputs, outputs;  // those that are there
  std::vector<bool> input_per_head, output_per_head;

  int64_t Dim(const std::string& name) const {
    auto found = dims.find(name);
    if (found == dims.end()) throw InvalidInput(name, "a size", "none");
    return found->second;
  }
  bool HasInput(const std::string& name) const;
  int InputIndex(const std::string& name) const;
  int OutputIndex(const std::string& name) const;
  Shape InputShape(size_t index) const;  // with the head axis where it has one
  Shape OutputShape(size_t index) const;
  bool PerHead(const std::string& input) const {
    return input_per_head[InputIndex(input)];
  }
};

// The numbers in a problem's inputs and outputs, in bytes.
double TensorBytes(const Problem& problem);

// A row-major tensor. The numbers are already rounded to the scalar type of the
// problem, so that reference and fast code see the same ones.
struct Tensor {
  std::string name;
  Shape shape;
  int64_t head_stride = 0;  // 0 when shared by the heads
  std::vector<double> values;

  const double* Head(int64_t head) const {
    return values.data() + head * head_stride;
  }
};

struct Inputs {
  std::vector<Tensor> tensors;  // in the order of Problem::inputs

  const Tensor& operator[](const std::string& name) const {
    for (const Tensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw InvalidInput("input " + name, "a tensor", "none");
  }
};

// A tensor that was given, before anything is known to fit.
struct GivenShape {
  std::string name;
  Shape shape;
};

// The one place where shapes are checked: parameters, names and shapes of the
// given tensors against the operator's declaration. Throws InvalidInput that
// names the tensor or parameter, what was expected and what was found.
Problem ResolveProblem(const Operator& op, Params params, Scalar scalar,
                       const std::vector<GivenShape>& given);

// The part of it that needs no tensors: throws InvalidInput where parameters
// are not valid, where an input is missing, given twice or not taken with them.
void CheckInputNames(const Operator& op, Params params,
                     const std::vector<std::string>& names);

// The same from sizes: the problem that a generated case stands for. `heads`
// of 0 means no head axis; `optional_inputs` names those to include;
// `per_head_parameters` gives every parameter tensor a head axis.
Problem MakeProblem(const Operator& op, Params params, bool backward,
                    Scalar scalar, const Dims& sizes, int64_t heads,
                    bool per_head_parameters,
                    const std::vector<std::string>& optional_inputs);

// NaN and infinity are refused with the index of the first; -inf is taken where
// the rule says so.
void CheckFinite(const TensorRule& rule, const Tensor& tensor);

}  // namespace subquad
