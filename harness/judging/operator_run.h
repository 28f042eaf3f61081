// Operators on tensors given by name: any implementation's output, and the
// definition's beside it. For studies, claims, and tests of an operator's own
// properties.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/cases/generate.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"

namespace subquad {

using Numbers = std::vector<double>;

// Independent normal numbers times `factor`.
Numbers NormalNumbers(int64_t count, uint64_t seed, double factor = 1);

// NaN where one of the numbers is NaN, infinite where the counts differ.
double LargestDifference(const Numbers& a, const Numbers& b);

struct GivenTensor {
  std::string name;
  Shape shape;
  Numbers values;
};

// The problem that these tensors make, their values rounded to the scalar type.
// Throws InvalidInput where a tensor does not have as many values as its shape.
Problem ResolveGiven(const Operator& op, const Params& params, Scalar scalar,
                     const std::vector<GivenTensor>& tensors);
Trial MakeTrial(const Operator& op, const Params& params, Scalar scalar,
                const std::vector<GivenTensor>& tensors, uint64_t seed);

// The implementations on the CPU that run this problem.
std::vector<const Implementation*> CpuImplementations(const Problem& problem);

// An output, the first if it is not named, after one run with poisoned outputs
// and workspaces.
Numbers RunOnce(const Implementation& implementation, Trial& trial, int threads,
                const std::string& output = "");

// One problem, built up tensor by tensor.
class OperatorRun {
 public:
  explicit OperatorRun(const std::string& op) : op_(FindOperator(op)) {}

  OperatorRun& Set(const std::string& name, ParamValue value) {
    params_.Set(name, std::move(value));
    return *this;
  }
  OperatorRun& Give(const std::string& name, Shape shape, Numbers values);
  Numbers& operator[](const std::string& name);

  // The ids of the CPU programs for this problem.
  std::vector<std::string> Programs(Scalar scalar = Scalar::kFloat64) const;

  Numbers Run(const std::string& program, Scalar scalar = Scalar::kFloat64,
              int threads = 1, const std::string& output = "") const;

  // The harness's own verdict on a program.
  Verdict Judge(const std::string& program,
                Scalar scalar = Scalar::kFloat64) const;

  // Every row of the first output by the definition in long double.
  Numbers Definition() const;

  Problem Resolve(Scalar scalar) const {
    return ResolveGiven(op_, params_, scalar, tensors_);
  }

 private:
  const Implementation& Find(const std::string& program) const {
    return FindImplementation(op_.description().id, program);
  }
  Trial MakeTrialOf(Scalar scalar) const {
    return MakeTrial(op_, params_, scalar, tensors_, 1);
  }

  const Operator& op_;
  Params params_;
  std::vector<GivenTensor> tensors_;
};

}  // namespace subquad
