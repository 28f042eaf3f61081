// Makes an operator of a definition that is a template over the type of its
// numbers. Its gradients are derived from it (derivative.h).
#pragma once

#include <memory>

#include "reference/base/derivative.h"
#include "reference/base/operator.h"
#include "reference/base/traced.h"

namespace subquad {

// Implements an operator's Reference functions with one template.
template <template <typename> class ReferenceOf>
class OperatorWith : public Operator {
 public:
  std::unique_ptr<Reference<float>> ReferenceFloat(
      const Problem& problem, const Inputs& inputs) const final {
    return Make<float>(problem, inputs);
  }
  std::unique_ptr<Reference<double>> ReferenceDouble(
      const Problem& problem, const Inputs& inputs) const final {
    return Make<double>(problem, inputs);
  }
  std::unique_ptr<Reference<long double>> ReferenceLongDouble(
      const Problem& problem, const Inputs& inputs) const final {
    return Make<long double>(problem, inputs);
  }
  std::unique_ptr<Reference<Emulated>> ReferenceEmulated(
      const Problem& problem, const Inputs& inputs) const final {
    return Make<Emulated>(problem, inputs);
  }
  std::unique_ptr<Reference<Traced<float>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, float) const final {
    return std::make_unique<ReferenceOf<Traced<float>>>(problem, inputs);
  }
  std::unique_ptr<Reference<Traced<double>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, double) const final {
    return std::make_unique<ReferenceOf<Traced<double>>>(problem, inputs);
  }
  std::unique_ptr<Reference<Traced<long double>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, long double) const final {
    return std::make_unique<ReferenceOf<Traced<long double>>>(problem, inputs);
  }
  std::unique_ptr<Reference<Traced<Emulated>>> ReferenceTraced(
      const Problem& problem, const Inputs& inputs, Emulated) const final {
    return std::make_unique<ReferenceOf<Traced<Emulated>>>(problem, inputs);
  }

 private:
  template <typename Real>
  std::unique_ptr<Reference<Real>> Make(const Problem& problem,
                                        const Inputs& inputs) const {
    if (problem.backward) return MakeDerivative<Real>(problem, inputs);
    return std::make_unique<ReferenceOf<Real>>(problem, inputs);
  }
};

}  // namespace subquad
