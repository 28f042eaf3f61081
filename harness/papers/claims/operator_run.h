// Operators on tensors given by name: any implementation's output, and the
// definition's beside it. For claims, and for tests of an operator's own
// properties.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/registry.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/judging/trial.h"

namespace subquad {

using Numbers = std::vector<double>;

inline Numbers NormalNumbers(int64_t count, uint64_t seed, double factor = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  Numbers x(static_cast<size_t>(count));
  for (double& value : x) value = factor * normal(generator);
  return x;
}

class OperatorRun {
 public:
  explicit OperatorRun(const std::string& op) : op_(FindOperator(op)) {}

  OperatorRun& Set(const std::string& name, ParamValue value) {
    params_.Set(name, std::move(value));
    return *this;
  }
  OperatorRun& Give(const std::string& name, Shape shape, Numbers values) {
    for (Tensor& tensor : tensors_)
      if (tensor.name == name) {
        tensor.shape = shape;
        tensor.values = std::move(values);
        return *this;
      }
    tensors_.push_back({name, std::move(shape), 0, std::move(values)});
    return *this;
  }
  Numbers& operator[](const std::string& name) {
    for (Tensor& tensor : tensors_)
      if (tensor.name == name) return tensor.values;
    throw InvalidInput(name, "a tensor that was given", "none");
  }

  // The CPU programs for this problem, by id.
  std::vector<std::string> Programs(Scalar scalar = Scalar::kFloat64) const {
    const Problem problem = Resolve(scalar);
    std::vector<std::string> ids;
    for (const Implementation* one : ImplementationsOf(op_))
      if (one->backend == Backend::kCpu && WhyNot(*one, problem).empty())
        ids.push_back(one->id);
    return ids;
  }

  // The output's numbers after a run on poisoned workspaces.
  Numbers Run(const std::string& program, Scalar scalar = Scalar::kFloat64,
              int threads = 1) const {
    Trial trial = MakeTrial(scalar);
    const auto prepared =
        Find(program).Prepare(trial.problem(), trial.arrays(), {threads});
    trial.Poison();
    prepared->Run();
    const Arrays::Entry& out = trial.arrays().outputs[0];
    Numbers numbers;
    for (int64_t i = 0; i < out.count; ++i)
      numbers.push_back(ElementAt(out.scalar, out.data, i));
    return numbers;
  }

  // The harness's own verdict on a program.
  Verdict Judge(const std::string& program,
                Scalar scalar = Scalar::kFloat64) const {
    Trial trial = MakeTrial(scalar);
    return Verify(Find(program), trial, {});
  }

  // Every row of the first output by the definition in long double.
  Numbers Definition() const {
    const Trial trial = MakeTrial(Scalar::kFloat64);
    const Problem& problem = trial.problem();
    const auto reference = op_.ReferenceLongDouble(problem, trial.inputs());
    const OutputLayout layout = LayoutOf(problem, 0);
    std::vector<long double> row(static_cast<size_t>(layout.width));
    Numbers numbers;
    for (int64_t h = 0; h < layout.heads; ++h)
      for (int64_t r = 0; r < layout.rows; ++r) {
        reference->Row({0, h, r}, row.data(), nullptr);
        for (long double value : row)
          numbers.push_back(static_cast<double>(value));
      }
    return numbers;
  }

  Problem Resolve(Scalar scalar) const {
    std::vector<GivenShape> shapes;
    for (const Tensor& tensor : tensors_)
      shapes.push_back({tensor.name, tensor.shape});
    return ResolveProblem(op_, params_, scalar, shapes);
  }

 private:
  const Implementation& Find(const std::string& id) const {
    for (const Implementation* one : ImplementationsOf(op_))
      if (one->id == id) return *one;
    throw InvalidInput("implementation", "one of the operator", id);
  }

  Trial MakeTrial(Scalar scalar) const {
    Problem problem = Resolve(scalar);
    Inputs inputs;
    for (size_t t = 0; t < problem.inputs.size(); ++t)
      for (const Tensor& given : tensors_) {
        if (given.name != problem.inputs[t].name) continue;
        Tensor tensor = given;
        if (ElementCount(tensor.shape) !=
            static_cast<int64_t>(tensor.values.size()))
          throw InvalidInput("test's " + tensor.name, ToString(tensor.shape),
                             std::to_string(tensor.values.size()));
        for (double& value : tensor.values) value = RoundTo(scalar, value);
        if (problem.input_per_head[t])
          tensor.head_stride =
              static_cast<int64_t>(tensor.values.size()) / problem.heads;
        inputs.tensors.push_back(std::move(tensor));
      }
    return Trial(std::move(problem), std::move(inputs), 1);
  }

  const Operator& op_;
  Params params_;
  std::vector<Tensor> tensors_;
};

// NaN where one is among the numbers, infinite where there are not as many.
inline double LargestDifference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double gap = std::abs(a[i] - b[i]);
    if (std::isnan(gap)) return gap;
    largest = std::max(largest, gap);
  }
  return largest;
}

}  // namespace subquad
