// Runs operators on tensors given by name and returns the output of any
// implementation or of the definition. Used by studies, claims and tests of an
// operator's properties.
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

// Returns the largest absolute difference: NaN if any value is NaN, infinity if
// the lengths differ.
double LargestDifference(const Numbers& a, const Numbers& b);

struct GivenTensor {
  std::string name;
  Shape shape;
  Numbers values;
};

// Returns the problem with these tensors, their values rounded to the scalar
// type. `wanted` names the optional outputs. Throws InvalidInput if a tensor's
// shape and number of values differ.
Problem ResolveGiven(const Operator& op, const Params& params, Scalar scalar,
                     const std::vector<GivenTensor>& tensors,
                     const std::vector<std::string>& wanted = {});
Trial MakeTrial(const Operator& op, const Params& params, Scalar scalar,
                const std::vector<GivenTensor>& tensors, uint64_t seed,
                const std::vector<std::string>& wanted = {});

// Returns the CPU implementations that accept this problem.
std::vector<const Implementation*> CpuImplementations(const Problem& problem);

// Runs once with outputs and workspaces filled with NaN and returns an output,
// the first one unless it is named.
Numbers RunOnce(const Implementation& implementation, Trial& trial, int threads,
                const std::string& output = "");

// Builds one problem tensor by tensor.
class OperatorRun {
 public:
  explicit OperatorRun(const std::string& op) : op_(FindOperator(op)) {}

  OperatorRun& Set(const std::string& name, ParamValue value) {
    params_.Set(name, std::move(value));
    return *this;
  }
  OperatorRun& Give(const std::string& name, Shape shape, Numbers values);
  // Adds an optional output.
  OperatorRun& Want(const std::string& output) {
    wanted_.push_back(output);
    return *this;
  }
  Numbers& operator[](const std::string& name);

  // Returns the ids of the CPU implementations for this problem.
  std::vector<std::string> Programs(Scalar scalar = Scalar::kFloat64) const;

  Numbers Run(const std::string& program, Scalar scalar = Scalar::kFloat64,
              int threads = 1, const std::string& output = "") const;

  // Returns the verdict on an implementation.
  Verdict Judge(const std::string& program,
                Scalar scalar = Scalar::kFloat64) const;

  // Returns every row of the first output, by the definition in long double.
  Numbers Definition() const;

  // Returns the bound of every element of the first output, in units of the
  // roundoff (Reference::Row).
  Numbers Bounds(Scalar scalar) const;

  Problem Resolve(Scalar scalar) const {
    return ResolveGiven(op_, params_, scalar, tensors_, wanted_);
  }

 private:
  const Implementation& Find(const std::string& program) const {
    return FindImplementation(op_.description().id, program);
  }
  Trial MakeTrialOf(Scalar scalar) const {
    return MakeTrial(op_, params_, scalar, tensors_, 1, wanted_);
  }

  const Operator& op_;
  Params params_;
  std::vector<GivenTensor> tensors_;
  std::vector<std::string> wanted_;
};

}  // namespace subquad
