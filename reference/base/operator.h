// An operator: a mathematical function with one answer, and the naive program
// that computes any row of it straight from the definition.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/base/emulated.h"
#include "reference/base/problem.h"

namespace subquad {

struct Description {
  std::string_view id;
  std::string_view formula;
  std::string_view source;
};

// One row of one output: out[head, row, :], or one entry of a vector. Of a
// gradient whose tensor heads share, `head` is the slice.
struct RowId {
  int output = 0;
  int64_t head = 0;
  int64_t row = 0;
};

// The definition, computed in the type Real. In float64 it is the reference of
// narrower types; in long double that of float64; in the problem's own type it
// is the plain dense program whose error is the yardstick for fast ones.
template <typename Real>
class Reference {
 public:
  virtual ~Reference() = default;

  // Writes the row to `value`. Where `units` is not null, also writes for every
  // element the bound of its rounding error in the plain dense program, in
  // units of the unit roundoff: |computed - exact| <= u * units.
  // Throws InvalidInput where the formula has no value (a normaliser of zero),
  // naming the query.
  virtual void Row(const RowId& id, Real* value, double* units) = 0;
};

class Operator {
 public:
  virtual ~Operator() = default;

  virtual const Description& description() const = 0;

  // The parameters that are taken, given those that decide about others.
  virtual std::vector<ParamRule> ParamRules(const Params& given) const = 0;

  // Sizes, inputs and outputs with these (checked) parameters. With `backward`
  // there is an input `grad` shaped like `out`, and the outputs are gradients.
  virtual Signature SignatureFor(const Params& params, bool backward) const = 0;

  virtual bool HasBackward() const { return false; }

  // What ties sizes and parameters beyond shapes; throws InvalidInput.
  virtual void CheckSizes(const Problem&) const {}

  // What the numbers of a tensor must be beyond finite (places that exist);
  // throws InvalidInput that names the tensor and the element.
  virtual void CheckNumbers(const Problem&, const Inputs&) const {}

  // Fills in parameters of a generated case that follow from others (lists of
  // positions, an image's height and width from its pixels).
  virtual void CompleteParams(int64_t /*n*/, uint64_t /*seed*/, Params&) const {
  }

  // Multiply-adds of the reference for one row of an output, to decide how many
  // rows are compared.
  virtual double RowWork(const Problem& problem, int output) const = 0;

  // Those that it does once, when the first row of a gradient is asked for.
  virtual double SharedWork(const Problem&) const { return 0; }

  virtual std::unique_ptr<Reference<float>> ReferenceFloat(
      const Problem& problem, const Inputs& inputs) const = 0;
  virtual std::unique_ptr<Reference<double>> ReferenceDouble(
      const Problem& problem, const Inputs& inputs) const = 0;
  virtual std::unique_ptr<Reference<long double>> ReferenceLongDouble(
      const Problem& problem, const Inputs& inputs) const = 0;
  // In the arithmetic of the ArithmeticScope around this call and those of Row.
  virtual std::unique_ptr<Reference<Emulated>> ReferenceEmulated(
      const Problem& problem, const Inputs& inputs) const = 0;
};

// Sizes and parameters that follow n: the axes along which the problem grows.
std::vector<std::string> LengthAxes(const Operator& op, const Params& params,
                                    const Signature& signature);

// Integer parameters are extents too: "height" of an image.
void AddParamsToDims(const Params& params, Dims& dims);

// The value of an extent ("height*width"). Throws InvalidInput where one of its
// symbols has none.
int64_t CountOf(const std::string& extent, const Dims& dims);

// A tensor that was given, before anything is known to fit.
struct GivenShape {
  std::string name;
  Shape shape;
};

// The one place where shapes are checked: parameters, names and shapes of the
// given tensors against the operator's declaration. Throws InvalidInput that
// names the tensor or parameter, what was expected and what was found.
// `at_least`: leading axes that the output has where no tensor has more, for a
// part of a larger problem.
Problem ResolveProblem(const Operator& op, Params params, Scalar scalar,
                       const std::vector<GivenShape>& given,
                       const Shape& at_least = {});

// The part of it that needs no tensors: throws InvalidInput where parameters
// are not valid, where an input is missing, given twice or not taken with them.
void CheckInputNames(const Operator& op, Params params,
                     const std::vector<std::string>& names);

// The leading axes of a generated case.
struct LeadingAxes {
  int64_t batch = 0;      // 0: no such axis
  int64_t heads = 0;      // 0: no such axis
  bool per_head = false;  // parameters are [heads, ..] too
  // Tensors that have others: [], [h] or [b, h].
  std::map<std::string, Shape> own;

  Shape Of(const TensorRule& rule) const;
};

// The same from sizes: the problem that a generated case stands for.
// `optional_inputs` names those to include.
Problem MakeProblem(const Operator& op, Params params, bool backward,
                    Scalar scalar, const Dims& sizes,
                    const LeadingAxes& leading,
                    const std::vector<std::string>& optional_inputs);

// Gives an operator its references from one template.
template <template <typename> class ReferenceOf>
class OperatorWith : public Operator {
 public:
  std::unique_ptr<Reference<float>> ReferenceFloat(
      const Problem& problem, const Inputs& inputs) const final {
    return std::make_unique<ReferenceOf<float>>(problem, inputs);
  }
  std::unique_ptr<Reference<double>> ReferenceDouble(
      const Problem& problem, const Inputs& inputs) const final {
    return std::make_unique<ReferenceOf<double>>(problem, inputs);
  }
  std::unique_ptr<Reference<long double>> ReferenceLongDouble(
      const Problem& problem, const Inputs& inputs) const final {
    return std::make_unique<ReferenceOf<long double>>(problem, inputs);
  }
  std::unique_ptr<Reference<Emulated>> ReferenceEmulated(
      const Problem& problem, const Inputs& inputs) const final {
    return std::make_unique<ReferenceOf<Emulated>>(problem, inputs);
  }
};

}  // namespace subquad
