// The gradients of every operator that has a backward pass: the reference's
// gradients against differences of its own forward pass in long double, which
// do not depend on a derivation; those of all implementations by identities.
#include "reference/base/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/answer.h"
#include "harness/judging/operator_run.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

using Long = long double;

std::vector<const Operator*> WithBackward() {
  std::vector<const Operator*> chosen;
  for (const Operator* op : Operators())
    if (op->HasBackward()) chosen.push_back(op);
  return chosen;
}

// Returns every row of an output.
std::vector<Long> AllRows(const Problem& problem, const Inputs& inputs,
                          int output) {
  const auto reference = problem.op->ReferenceLongDouble(problem, inputs);
  const OutputLayout layout = LayoutOf(problem, output);
  std::vector<Long> values(
      static_cast<size_t>(layout.heads * layout.rows * layout.width));
  Long* row = values.data();
  for (int64_t head = 0; head < layout.heads; ++head)
    for (int64_t r = 0; r < layout.rows; ++r, row += layout.width)
      reference->Row({output, head, r}, row, nullptr);
  return values;
}

// Computes sum grad o out by the forward pass on the same tensors.
class Loss {
 public:
  Loss(const Problem& backward, const Inputs& inputs)
      : grad_(inputs["grad"].values) {
    std::vector<GivenShape> shapes;
    for (const Tensor& tensor : inputs.tensors)
      if (tensor.name != "grad") {
        shapes.push_back({tensor.name, tensor.shape});
        inputs_.tensors.push_back(tensor);
      }
    problem_ = ResolveProblem(*backward.op, backward.params, backward.scalar,
                              shapes, backward.leading);
  }

  // Returns the loss with `step` times `direction` added to a tensor.
  Long At(size_t tensor, const std::vector<double>& direction, double step) {
    std::vector<double>& values = inputs_.tensors[tensor].values;
    const std::vector<double> kept = values;
    for (size_t i = 0; i < values.size(); ++i)
      if (direction[i] != 0) values[i] += step * direction[i];
    const std::vector<Long> out = AllRows(problem_, inputs_, 0);
    values = kept;
    Long sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      sum += static_cast<Long>(grad_[i]) * out[i];
    return sum;
  }

  // Returns the derivative along a direction, by central differences with steps
  // that halve, extrapolated twice (Richardson), so that the error is of sixth
  // order.
  Long Derivative(size_t tensor, const std::vector<double>& direction) {
    constexpr double kStep = 1.0 / 64;
    Long table[3];
    for (int level = 0; level < 3; ++level) {
      const double step = std::ldexp(kStep, -level);
      table[level] =
          (At(tensor, direction, step) - At(tensor, direction, -step)) /
          (2 * static_cast<Long>(step));
    }
    const Long first = (4 * table[1] - table[0]) / 3;
    const Long second = (4 * table[2] - table[1]) / 3;
    return (16 * second - first) / 15;
  }

  const std::vector<Tensor>& tensors() const { return inputs_.tensors; }

 private:
  const std::vector<double> grad_;
  Inputs inputs_;
  Problem problem_;
};

// Returns a vector of length one; zero where the tensor is -inf, which no step
// can change.
std::vector<double> Direction(const Tensor& tensor, uint64_t seed) {
  const Draws draws(seed, "direction/" + tensor.name);
  std::vector<double> direction(tensor.values.size());
  double squares = 0;
  for (size_t i = 0; i < direction.size(); ++i) {
    if (std::isinf(tensor.values[i])) continue;
    direction[i] = draws.Normal(i);
    squares += direction[i] * direction[i];
  }
  for (double& x : direction) x /= std::sqrt(squares);
  return direction;
}

std::vector<Case> BackwardCases(const Operator& op) {
  std::vector<Case> cases =
      VerificationCases(op, {1, 9, 24}, Scalar::kFloat64, 5);
  std::erase_if(cases,
                [](const Case& test_case) { return !test_case.backward; });
  // Uses every case of operators with few variants, and evenly spread cases of
  // others.
  constexpr size_t kMost = 120;
  std::vector<Case> some;
  const size_t count = std::min(kMost, cases.size());
  for (size_t i = 0; i < count; ++i)
    some.push_back(cases[i * cases.size() / count]);
  return some;
}

class Gradients : public testing::TestWithParam<const Operator*> {};

TEST_P(Gradients, AreDerivativesOfTheForwardPass) {
  // Limits in norms of the gradient: the error of the differences, and the
  // least effect of a mistake of a thousandth of the gradient.
  constexpr Long kLeft = 1e-10L, kMistake = 1e-3L;
  const Operator& op = *GetParam();
  std::map<std::string, int> compared, controls;
  for (const Case& test_case : BackwardCases(op)) {
    const Problem problem = ProblemOf(test_case);
    const Inputs inputs = GenerateInputs(test_case, problem);
    Loss loss(problem, inputs);
    for (size_t t = 0; t < loss.tensors().size(); ++t) {
      const Tensor& tensor = loss.tensors()[t];
      const int output = IndexOf(problem.outputs, GradientOf(tensor.name));
      if (output < 0) continue;
      const std::vector<Long> gradient = AllRows(problem, inputs, output);
      ASSERT_EQ(gradient.size(), tensor.values.size()) << test_case.Id();
      const std::vector<double> direction = Direction(tensor, test_case.seed);
      Long expected = 0, squares = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_TRUE(std::isfinite(gradient[i])) << test_case.Id();
        if (std::isinf(tensor.values[i])) {
          EXPECT_EQ(gradient[i], 0) << test_case.Id();
        }
        expected += gradient[i] * direction[i];
        squares += gradient[i] * gradient[i];
      }
      const Long actual = loss.Derivative(t, direction);
      const Long norm = std::sqrt(squares);
      EXPECT_LE(std::abs(actual - expected), kLeft * (norm + 1e-3L))
          << problem.outputs[static_cast<size_t>(output)].name << " "
          << test_case.Id();
      ++compared[tensor.name];
      controls[tensor.name] +=
          std::abs(actual - (1 + kMistake) * expected) > kLeft * (norm + 1e-3L);
    }
  }
  EXPECT_FALSE(compared.empty());
  for (const auto& [name, count] : compared)
    EXPECT_GT(controls[name], count / 2) << name;
}

INSTANTIATE_TEST_SUITE_P(Registry, Gradients, testing::ValuesIn(WithBackward()),
                         OperatorId);

// Inputs in which an operator is linear, each group of them together: then <X,
// grad_X> summed over the group equals <grad, out>. Shifting a bias by offset
// by a constant does not change the output, so that its gradient sums to zero.
struct Identities {
  std::vector<std::vector<std::string>> linear;
  bool bias_sums_to_zero = false;
};
const std::map<std::string, Identities> kIdentities = {
    {"toeplitz_1d", {{{"weights"}, {"values"}}}},
    {"toeplitz_2d", {{{"weights"}, {"values"}}}},
    {"toeplitz_2d_xy", {{{"weights_rows", "weights_cols"}, {"values"}}}},
    {"clipped_rpe_product", {{{"q"}, {"rpe"}, {"v"}}}},
    {"softmax_attention", {{{"v"}}, true}},
    {"relative_logits_attention", {{{"v"}}}},
};

std::vector<GivenTensor> GivenTensors(const Inputs& inputs) {
  std::vector<GivenTensor> tensors;
  for (const Tensor& tensor : inputs.tensors)
    tensors.push_back({tensor.name, tensor.shape, tensor.values});
  return tensors;
}

struct Product {
  double value = 0, magnitude = 0;
};
Product Dot(const std::vector<double>& x, const std::vector<double>& y) {
  EXPECT_EQ(x.size(), y.size());
  Product product;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    product.value += x[i] * y[i];
    product.magnitude += std::abs(x[i] * y[i]);
  }
  return product;
}

// Checks every implementation with a backward pass, in float64.
TEST_P(Gradients, HoldIdentities) {
  constexpr double kRounding = 1e-11, kMistake = 1e-3;
  const Operator& op = *GetParam();
  const auto known = kIdentities.find(std::string(op.description().id));
  ASSERT_NE(known, kIdentities.end()) << "no identity is written down";
  std::map<std::string, int> compared, controls;
  for (const Case& test_case : BackwardCases(op)) {
    const Problem problem = ProblemOf(test_case);
    const Inputs inputs = GenerateInputs(test_case, problem);
    std::vector<GivenTensor> tensors = GivenTensors(inputs);
    const std::vector<double> grad = inputs["grad"].values;
    std::vector<GivenTensor> forward = tensors;
    std::erase_if(forward, [](const GivenTensor& tensor) {
      return tensor.name == "grad";
    });
    Trial trial = MakeTrial(op, problem.params, test_case.scalar, tensors, 1);
    Trial forward_trial =
        MakeTrial(op, problem.params, test_case.scalar, forward, 1);
    for (const Implementation* program : CpuImplementations(problem)) {
      const std::vector<double> out = RunOnce(*program, forward_trial, 1);
      // Only the gradient may have some of the leading axes.
      if (out.size() != grad.size()) continue;
      const Product expected = Dot(grad, out);
      const std::string& name = program->id;
      for (const std::vector<std::string>& group : known->second.linear) {
        Product actual;
        for (const std::string& input : group) {
          const Product part =
              Dot(inputs[input].values,
                  RunOnce(*program, trial, 1, GradientOf(input)));
          actual.value += part.value;
          actual.magnitude += part.magnitude;
        }
        const double most = kRounding * (actual.magnitude + expected.magnitude);
        EXPECT_LE(std::abs(actual.value - expected.value), most)
            << name << " " << group.front() << " " << test_case.Id();
        ++compared[name + " " + group.front()];
        controls[name + " " + group.front()] +=
            std::abs((1 + kMistake) * actual.value - expected.value) > most;
      }
      if (!known->second.bias_sums_to_zero || !problem.HasInput("bias"))
        continue;
      const std::vector<double> bias =
          RunOnce(*program, trial, 1, GradientOf("bias"));
      const Product sum = Dot(bias, std::vector<double>(bias.size(), 1));
      EXPECT_LE(std::abs(sum.value), kRounding * (sum.magnitude + 1e-3))
          << name << " " << test_case.Id();
      ++compared[name + " bias"];
      controls[name + " bias"] +=
          kMistake * std::abs(bias.front()) > kRounding * sum.magnitude;
    }
  }
  EXPECT_FALSE(compared.empty());
  for (const auto& [name, count] : compared)
    EXPECT_GT(controls[name], count / 2) << name;
}

// The backward pass has a gradient for every input, data before parameters,
// except for inputs that are not given.
TEST(GradientSignature, CoversTheGivenInputs) {
  const auto outputs = [](const std::string& id) {
    std::string names;
    const Problem problem = ProblemOf(MakeCase(ParseCaseId(id)));
    for (const TensorRule& rule : problem.outputs) names += rule.name + " ";
    return names;
  };
  EXPECT_EQ(outputs("softmax_attention:n=4,backward=1"),
            "grad_q grad_k grad_v ");
  EXPECT_EQ(outputs("softmax_attention:n=4,backward=1,with=bias"),
            "grad_q grad_k grad_v grad_bias ");
  EXPECT_EQ(outputs("toeplitz_1d:n=4,backward=1"), "grad_values grad_weights ");
  Signature signature;
  signature.inputs = {{"q", {"n", "d"}}, {"omega", {"m", "d"}}};
  signature.outputs = {{"out", {"n", "e"}}};
  const Signature backward = WithGradients(signature);
  ASSERT_EQ(backward.outputs.size(), 1u);
  EXPECT_EQ(backward.outputs[0].name, "grad_q");
  EXPECT_EQ(backward.inputs.back().name, "grad");
  EXPECT_EQ(backward.inputs.back().shape, signature.outputs[0].shape);
}

}  // namespace

// Test names must not depend on where an operator lies in memory.
}  // namespace subquad
