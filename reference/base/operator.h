// An operator: a mathematical function with one right answer, and the naive
// program that computes any row of it directly from the definition.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/base/emulated.h"
#include "reference/base/problem.h"

namespace subquad {

template <typename Base>
class Traced;

struct Description {
  std::string_view id;
  std::string_view formula;
  std::string_view source;
};

// One row of one output: out[head, row, :], or one entry of a vector. In a
// gradient of a tensor that heads share, `head` is the slice.
struct RowId {
  int output = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// The definition, computed in the type Real. In float64 it is the reference for
// narrower types, in long double the reference for float64. In the problem's
// own type it is the plain dense program, whose error is the baseline for fast
// implementations.
template <typename Real>
class Reference {
 public:
  virtual ~Reference() = default;

  // Writes the row to `value`. Where `units` is not null, also writes the bound
  // of each element's rounding error in the plain dense program, in units of
  // the unit roundoff: |computed - exact| <= u * units. Throws InvalidInput
  // that names the query where the formula has no value (a normaliser of zero).
  virtual void Row(const RowId& id, Real* value, double* units) = 0;
};

class Operator {
 public:
  virtual ~Operator() = default;

  virtual const Description& description() const = 0;

  // Returns the accepted parameters, which may depend on the given ones.
  virtual std::vector<ParamRule> ParamRules(const Params& params) const = 0;

  // Returns sizes, inputs and outputs for these (checked) parameters.
  virtual Signature ForwardSignature(const Params& params) const = 0;
  // Returns those of the backward pass, too (gradients.h).
  Signature SignatureFor(const Params& params, bool backward) const;

  // Checks relations between sizes and parameters that shapes do not express;
  // throws InvalidInput.
  virtual void CheckSizes(const Problem&) const {}

  // Checks values that must be more than finite, such as indices in range;
  // throws InvalidInput that names the tensor and the element.
  virtual void CheckNumbers(const Problem&, const Inputs&) const {}

  // Fills in parameters of a generated case that follow from others (lists of
  // positions, an image's height and width from its pixels).
  virtual void CompleteParams(int64_t /*n*/, uint64_t /*seed*/, Params&) const {
  }

  // Returns the multiply-adds of the definition's program for one row of an
  // output of the forward pass. Callers ask work.h instead.
  virtual double RowWork(const Problem& problem, int output) const = 0;

  virtual std::unique_ptr<Reference<float>> ReferenceFloat(
      const Problem& problem, const Inputs& inputs) const = 0;
  virtual std::unique_ptr<Reference<double>> ReferenceDouble(
      const Problem& problem, const Inputs& inputs) const = 0;
  virtual std::unique_ptr<Reference<long double>> ReferenceLongDouble(
      const Problem& problem, const Inputs& inputs) const = 0;
  // Rounds as the ArithmeticScope around this call and around calls of Row
  // says.
  virtual std::unique_ptr<Reference<Emulated>> ReferenceEmulated(
      const Problem& problem, const Inputs& inputs) const = 0;
  // Records how each row of the forward pass is computed (traced.h).
  virtual std::unique_ptr<Reference<Traced<float>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, float) const = 0;
  virtual std::unique_ptr<Reference<Traced<double>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, double) const = 0;
  virtual std::unique_ptr<Reference<Traced<long double>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, long double) const = 0;
  virtual std::unique_ptr<Reference<Traced<Emulated>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, Emulated) const = 0;
};

// Names the sizes and parameters that follow n: the axes along which the
// problem grows.
std::vector<std::string> LengthAxes(const Operator& op, const Params& params,
                                    const Signature& signature);

// Adds the integer parameters, which are extents too: "height" of an image.
void AddParamsToDims(const Params& params, Dims& dims);

// Evaluates an extent ("height*width"). Throws InvalidInput if one of its
// symbols has no value.
int64_t CountOf(const std::string& extent, const Dims& dims);

// A tensor's name and shape as given, before any check.
struct GivenShape {
  std::string name;
  Shape shape;
};

// Checks the parameters and the names and shapes of the given tensors against
// the operator's declaration; shapes are checked nowhere else. Throws
// InvalidInput that names the tensor or parameter, what was expected and what
// was found. `at_least` gives the output leading axes that no tensor has, for a
// part of a larger problem. `wanted` names the optional outputs to compute.
Problem ResolveProblem(const Operator& op, Params params, Scalar scalar,
                       const std::vector<GivenShape>& shapes,
                       const Shape& at_least = {},
                       const std::vector<std::string>& wanted = {});

// Names the optional outputs of a problem, for another one with the same
// outputs.
std::vector<std::string> WantedOutputs(const Problem& problem);
// Names the optional outputs among those for which `is_wanted` is true.
std::vector<std::string> OptionalOutputs(
    const Signature& signature,
    const std::function<bool(const std::string&)>& is_wanted);

// Checks what needs no tensors: throws InvalidInput if a parameter is invalid,
// or if an input is missing, given twice or not accepted with these parameters.
void CheckInputNames(const Operator& op, Params params,
                     const std::vector<std::string>& names);

// The leading axes of a generated case's tensors, and other axes that they
// share.
struct LeadingAxes {
  int64_t batch = 0;      // 0: no such axis
  int64_t heads = 0;      // 0: no such axis
  bool per_head = false;  // parameters have shape [heads, ..], too
  // Tensors with different leading axes: [], [h] or [b, h].
  std::map<std::string, Shape> own;
  // Tensors with an entry for each pair that all queries, or all keys, share.
  struct Shared {
    bool queries = false, keys = false;
  };
  std::map<std::string, Shared> shared;

  Shape Of(const TensorRule& rule) const;
  // Returns the rule with an extent of 1 for those that are shared.
  TensorRule WithShared(TensorRule rule) const;
};

// Makes the problem of a generated case from its sizes. `with` names the
// optional inputs and outputs to include.
Problem MakeProblem(const Operator& op, Params params, bool backward,
                    Scalar scalar, const Dims& sizes,
                    const LeadingAxes& leading,
                    const std::vector<std::string>& with);

// Returns the definition of `problem.op` in this arithmetic.
template <typename Real>
std::unique_ptr<Reference<Real>> ReferenceIn(const Problem& problem,
                                             const Inputs& inputs) {
  if constexpr (std::is_same_v<Real, float>)
    return problem.op->ReferenceFloat(problem, inputs);
  else if constexpr (std::is_same_v<Real, double>)
    return problem.op->ReferenceDouble(problem, inputs);
  else if constexpr (std::is_same_v<Real, long double>)
    return problem.op->ReferenceLongDouble(problem, inputs);
  else if constexpr (std::is_same_v<Real, Emulated>)
    return problem.op->ReferenceEmulated(problem, inputs);
  else
    return problem.op->ReferenceTraced(problem, inputs,
                                       typename Real::BaseType{});
}

}  // namespace subquad
