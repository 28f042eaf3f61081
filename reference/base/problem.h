// One problem: an operator with its parameters, sizes and tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/base/params.h"
#include "reference/base/scalar.h"
#include "reference/base/shape_rule.h"

namespace subquad {

class Operator;

// Who owns the head axis. Data tensors (values, queries, gradients, outputs)
// are [..] for one head or [h, ..] for h independent ones. Parameters are
// shared by the heads ([..]) or given for each ([h, ..]).
enum class Role { kData, kParameter };

// How generated tensors are drawn before a hard input alters them.
enum class Draw {
  kNormal,      // independent N(0, 1)
  kPositive,    // independent uniform on (0, 1)
  kProjection,  // [m, d] rows for random features; see harness/cases/omega.h
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

// The place of the rule with this name; -1 where there is none.
int IndexOf(const std::vector<TensorRule>& rules, const std::string& name);

// A tensor's shape from its rule, with the head axis if it has one. Throws
// InvalidInput where a size is missing or an extent below 1.
Shape ShapeOf(const TensorRule& rule, const Dims& dims, bool per_head,
              int64_t heads);

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

// NaN and infinity are refused with the index of the first; -inf is taken where
// the rule says so.
void CheckFinite(const TensorRule& rule, const Tensor& tensor);

}  // namespace subquad
