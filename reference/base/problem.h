// One problem: an operator with its parameters, sizes and tensors.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/base/params.h"
#include "reference/base/scalar.h"
#include "reference/base/shape_rule.h"
#include "reference/base/slices.h"

namespace subquad {

class Operator;

// Data (values, queries, gradients, outputs) or model parameters. Both may have
// leading axes (slices.h); generated parameters have them only if the case asks
// for it.
enum class Role { kData, kParameter };

// Position of an element in one slice of a generated tensor, row-major.
struct Element {
  const Shape& shape;  // without leading axes
  int64_t index;
  const Dims& dims;  // of the problem
};

// The distribution of a generated tensor: the source of random numbers and a
// function that is applied to each. An operator writes its own distribution
// like this:
//   Draw{Draw::From::kUniform,
//        [](double u, const Element&) { return 0.9 + 0.1 * u; }}
struct Draw {
  enum class From {
    kInput,    // the case's kind of input; N(0, 1) unless it says so
    kNormal,   // N(0, 1) for every kind of input
    kUniform,  // uniform on (0, 1) for every kind of input
  };
  From from = From::kInput;
  double (*number)(double drawn, const Element&) = nullptr;  // null: unchanged
  // The tensor is [m, d] rows of random features, for which a case may name
  // another sampler (harness/cases/omega.h).
  bool projection = false;

  static const Draw kInput;       // the kind of input alone
  static const Draw kPositive;    // uniform on (0, 1)
  static const Draw kProjection;  // random features
  static const Draw kMixing;      // the kind of input / sqrt(c), c the last
                                  // extent: products keep the size of their c
                                  // terms
  static const Draw kMixingRows;  // as kMixing, with c the first extent
};

inline constexpr Draw Draw::kInput = {};
inline constexpr Draw Draw::kPositive = {Draw::From::kUniform};
inline constexpr Draw Draw::kProjection = {Draw::From::kNormal, nullptr, true};
inline constexpr Draw Draw::kMixing = {
    Draw::From::kInput, [](double drawn, const Element& element) {
      return drawn / std::sqrt(static_cast<double>(element.shape.back()));
    }};
inline constexpr Draw Draw::kMixingRows = {
    Draw::From::kInput, [](double drawn, const Element& element) {
      return drawn / std::sqrt(static_cast<double>(element.shape.front()));
    }};

// An axis whose entries belong to consecutive offsets or distances.
struct OffsetAxis {
  int axis;
  std::string first;  // the offset of the first entry, in symbols: "-r"
  // The offsets are j - i of the indices of key and query, independent of
  // query_offset; otherwise they are differences of positions.
  bool of_indices = false;

  // The axis of a vector with n_q + n_k - 1 entries.
  static OffsetAxis OfIndices(int axis, const std::string& n_q) {
    return {axis, "1-" + n_q, true};
  }
};

struct TensorRule {
  std::string name;
  // Extents in symbols, without leading axes. Empty: one number for each head,
  // or [1] for all of them.
  std::vector<std::string> shape;
  Role role = Role::kData;
  Draw draw = Draw::kInput;
  // An input that may be absent, or an output that is computed on request.
  bool optional = false;
  bool may_be_minus_infinity = false;
  // It is drawn once or lists indices, and is never trained: it has no
  // gradient.
  bool fixed = false;
  // Its numbers are 0 or 1; files may hold them as booleans or integers.
  bool zero_or_one = false;
  // The shape is that of pairs, [queries, keys]. An extent of 1 in place of
  // either is shared by all of them; rules of a Problem have the extents as
  // given.
  bool per_pair = false;
  // The outputs are linear in all inputs with this flag together; an output
  // that does not depend on them is `apart`.
  bool linear = false, apart = false;
  // Reversing these axes is the mistake of reading i - j instead of j - i.
  std::vector<OffsetAxis> offset_axes = {};

  static TensorRule Linear(std::string name, std::vector<std::string> shape,
                           Role role = Role::kData,
                           const Draw& draw = Draw::kInput) {
    TensorRule rule{std::move(name), std::move(shape), role, draw};
    rule.linear = true;
    return rule;
  }

  bool RunsOverOffsets(size_t axis) const {
    for (const OffsetAxis& offset_axis : offset_axes)
      if (offset_axis.axis == static_cast<int>(axis)) return true;
    return false;
  }
};

// A size of a generated problem.
struct SizeRule {
  std::string name;
  int64_t default_value;
  std::string meaning;
  int64_t min = 1;
  bool follows_n = false;  // equals n unless the case names it
  // The optional input that alone has this size.
  std::string of_input = {};

  // A size that grows with the problem's length n.
  static SizeRule Length(std::string name, std::string meaning,
                         int64_t min = 1) {
    return {std::move(name), 0, std::move(meaning), min, true};
  }
};

struct Signature {
  std::vector<SizeRule> sizes;  // sizes that no parameter gives
  std::vector<TensorRule> inputs;
  std::vector<TensorRule> outputs;
  // The number of queries (output rows) and keys, in the symbols of shapes.
  std::string queries = "n_q", keys = "n_k";
};

// Describes a problem without the values of its tensors. Implementations are
// prepared from this alone, so that no set-up can depend on values.
struct Problem {
  const Operator* op = nullptr;
  Params params;
  bool backward = false;
  // The gradients take normalisers for constants: the mistake of a program that
  // cuts them off its graph (harness/judging/gradient_mistakes.cc).
  bool detaches_normalisers = false;
  // The softcap is applied to scores that include their bias: a mistake of
  // programs (harness/judging/parameter_mistakes.cc).
  bool caps_biased_scores = false;
  // Gradients take the softcap for the identity, and sinks are added as
  // exp(sink) to weights relative to the largest score: more such mistakes.
  bool ignores_softcap_slope = false;
  bool leaves_sinks_unshifted = false;
  Scalar scalar = Scalar::kFloat32;
  Dims dims;
  int64_t queries = 0, keys = 0;
  std::vector<std::string> length_axes;  // dims that follow n
  // Heads of all batch items: independent problems that may share tensors.
  int64_t heads = 1;
  Shape leading;  // axes of the output before its rows: [], [h] or [b, h]
  std::vector<TensorRule> inputs, outputs;  // without absent optional ones
  std::vector<Shape> input_leading, output_leading;

  int64_t Dim(const std::string& name) const {
    auto it = dims.find(name);
    if (it == dims.end()) throw InvalidInput(name, "a size", "none");
    return it->second;
  }
  bool HasInput(const std::string& name) const;
  int InputIndex(const std::string& name) const;
  int OutputIndex(const std::string& name) const;
  Shape InputShape(size_t index) const;  // including leading axes
  Shape OutputShape(size_t index) const;
  // Names a head in messages: "", " of head 3" or " of batch item 1, head 3".
  std::string HeadName(int64_t head) const;
  int64_t Batch() const { return leading.size() == 2 ? leading[0] : 1; }
  Slices InputSlices(size_t index) const;
  Slices OutputSlices(size_t index) const;
  Slices SlicesOf(const std::string& input) const {
    return InputSlices(static_cast<size_t>(InputIndex(input)));
  }
};

// Returns the index of the rule with this name, or -1.
int IndexOf(const std::vector<TensorRule>& rules, const std::string& name);

// Returns a tensor's shape, its leading axes first. Throws InvalidInput if a
// size is missing or an extent is below 1.
Shape ShapeOf(const TensorRule& rule, const Dims& dims, const Shape& leading);

// The shape of an output: [heads, rows, width]. For the gradient of a tensor
// that heads share, `heads` is the number of its slices; one number for each
// head is one row.
struct OutputLayout {
  int64_t heads, rows, width;
};
OutputLayout LayoutOf(const Problem& problem, int output);

// Returns the bytes of a problem's inputs and outputs.
double TensorBytes(const Problem& problem);

// A row-major tensor. Its values are already rounded to the scalar type of the
// problem, so that the reference and fast implementations read the same values.
struct Tensor {
  std::string name;
  Shape shape;
  Slices slices;
  std::vector<double> values;
  // The type of the given values, which may be off by half a unit in its last
  // place.
  Scalar scalar = Scalar::kFloat64;

  int64_t SliceSize() const {
    return static_cast<int64_t>(values.size()) / slices.count();
  }
  // Returns the slice that this head reads.
  const double* Head(int64_t head) const { return Slice(slices.Of(head)); }
  const double* Slice(int64_t slice) const {
    return values.data() + slice * SliceSize();
  }
};

struct Inputs {
  std::vector<Tensor> tensors;  // in the order of Problem::inputs
  // If not null, this object is a view of other inputs in which `tensors`
  // replaces those of the same names. The definitions look tensors up by name.
  const Inputs* original = nullptr;

  // Returns null if there is no such tensor.
  const Tensor* Find(const std::string& name) const {
    for (const Tensor& tensor : tensors)
      if (tensor.name == name) return &tensor;
    return original ? original->Find(name) : nullptr;
  }
  const Tensor& operator[](const std::string& name) const {
    if (const Tensor* tensor = Find(name)) return *tensor;
    throw InvalidInput("input " + name, "a tensor", "none");
  }
};

// Throws InvalidInput with the index of the first number that the rule does not
// allow: NaN, infinity, -inf unless it may be there, and all but 0 and 1 if the
// numbers are these.
void CheckNumbersOf(const TensorRule& rule, const Tensor& tensor);
// The same for a tensor of this shape whose numbers `value_at` returns by their
// index in row-major order.
void CheckNumbersOf(const TensorRule& rule, const Shape& shape,
                    const std::function<double(size_t)>& value_at);

}  // namespace subquad
