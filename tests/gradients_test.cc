// The gradients of every operator: the reference's gradients against
// differences of its own forward pass in long double, which do not depend on a
// derivation; its gradients and those of all implementations by identities.
#include "reference/base/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/cases/case.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/verification.h"
#include "harness/judging/answer.h"
#include "harness/judging/operator_run.h"
#include "harness/registry/registry.h"
#include "reference/base/work.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

using Long = long double;

// Returns every row of an output.
std::vector<Long> AllRows(const Problem& problem, Reference<Long>& reference,
                          int output) {
  const OutputLayout layout = LayoutOf(problem, output);
  std::vector<Long> values(
      static_cast<size_t>(layout.heads * layout.rows * layout.width));
  Long* row = values.data();
  for (int64_t head = 0; head < layout.heads; ++head)
    for (int64_t r = 0; r < layout.rows; ++r, row += layout.width)
      reference.Row({output, head, r}, row, nullptr);
  return values;
}

// Computes sum grad o out over the outputs, by the forward pass on the same
// tensors.
class Loss {
 public:
  Loss(const Problem& backward, const Inputs& inputs) {
    std::vector<GivenShape> shapes;
    for (const Tensor& tensor : inputs.tensors)
      if (!IsCotangent(tensor.name)) {
        shapes.push_back({tensor.name, tensor.shape});
        inputs_.tensors.push_back(tensor);
      }
    // Outputs that are computed on request, of which a gradient comes in.
    const std::vector<TensorRule> outputs =
        backward.op->SignatureFor(backward.params, false).outputs;
    std::vector<std::string> wanted;
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o].optional && inputs.Find(CotangentOf(outputs, o)))
        wanted.push_back(outputs[o].name);
    problem_ = ResolveProblem(*backward.op, backward.params, backward.scalar,
                              shapes, backward.leading, wanted);
    for (size_t o = 0; o < problem_.outputs.size(); ++o) {
      const Tensor* grad = inputs.Find(CotangentOf(problem_.outputs, o));
      cotangents_.push_back(grad ? grad->values : std::vector<double>());
    }
  }

  // Returns the loss with `step` times `direction` added to a tensor.
  Long At(size_t tensor, const std::vector<double>& direction, double step) {
    std::vector<double>& values = inputs_.tensors[tensor].values;
    const std::vector<double> kept = values;
    for (size_t i = 0; i < values.size(); ++i)
      if (direction[i] != 0) values[i] += step * direction[i];
    const auto reference = problem_.op->ReferenceLongDouble(problem_, inputs_);
    Long sum = 0;
    for (size_t o = 0; o < cotangents_.size(); ++o) {
      if (cotangents_[o].empty()) continue;
      const std::vector<Long> out =
          AllRows(problem_, *reference, static_cast<int>(o));
      // An lse of -inf is that of a query without keys, whatever the inputs.
      for (size_t i = 0; i < out.size(); ++i)
        if (!std::isinf(out[i]))
          sum += static_cast<Long>(cotangents_[o][i]) * out[i];
    }
    values = kept;
    return sum;
  }

  // Returns the derivative along a direction, by central differences with steps
  // that halve, extrapolated twice (Richardson), so that the error is of sixth
  // order.
  Long Derivative(size_t tensor, const std::vector<double>& direction,
                  double first_step) {
    Long table[3];
    for (int level = 0; level < 3; ++level) {
      const double step = std::ldexp(first_step, -level);
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
  std::vector<std::vector<double>> cotangents_;  // of the outputs, or empty
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
  const std::vector<Case> cases =
      GradientCases(op, {1, 9, 24}, Scalar::kFloat64, 5);
  // Uses every case of operators with few variants, and evenly spread cases of
  // others and of those with much work.
  constexpr double kMost = 120, kMostWork = 2e9;
  double work = 0;
  for (const Case& test_case : cases) work += SharedWork(ProblemOf(test_case));
  std::vector<Case> some;
  const auto all = static_cast<double>(cases.size());
  const auto count = static_cast<size_t>(
      std::min({kMost, all, std::max(24.0, all * kMostWork / (work + 1))}));
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
  std::map<std::string, int> compared, controls, kinks;
  for (const Case& test_case : BackwardCases(op)) {
    const Problem problem = ProblemOf(test_case);
    const Inputs inputs = GenerateInputs(test_case, problem);
    const auto reference = op.ReferenceLongDouble(problem, inputs);
    Loss loss(problem, inputs);
    for (size_t t = 0; t < loss.tensors().size(); ++t) {
      const Tensor& tensor = loss.tensors()[t];
      const int output = IndexOf(problem.outputs, GradientOf(tensor.name));
      if (output < 0) continue;
      const std::vector<Long> gradient = AllRows(problem, *reference, output);
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
      // Between two steps may be a kink of a feature map or a cluster that
      // changes. A derivative counts where two lengths of steps agree on it.
      const Long norm = std::sqrt(squares);
      const Long actual = loss.Derivative(t, direction, 1.0 / 256);
      const Long shorter = loss.Derivative(t, direction, 1.0 / 1024);
      if (std::abs(actual - shorter) > kLeft * (norm + 1e-3L)) {
        ++kinks[tensor.name];
        continue;
      }
      EXPECT_LE(std::abs(actual - expected), kLeft * (norm + 1e-3L))
          << problem.outputs[static_cast<size_t>(output)].name << " "
          << test_case.Id();
      // The output whose cotangent is given may not depend on the tensor.
      if (norm == 0) continue;
      ++compared[tensor.name];
      controls[tensor.name] +=
          std::abs(actual - (1 + kMistake) * expected) > kLeft * (norm + 1e-3L);
    }
  }
  EXPECT_FALSE(compared.empty());
  for (const auto& [name, count] : compared)
    EXPECT_GT(controls[name], count / 2) << name;
  for (const auto& [name, count] : kinks)
    EXPECT_GT(compared[name], count) << name;
}

INSTANTIATE_TEST_SUITE_P(Registry, Gradients, testing::ValuesIn(Operators()),
                         OperatorId);

// The errors of the plain program in float32 are within the bounds, for every
// kind of values.
TEST_P(Gradients, StayWithinTheirBounds) {
  const Operator& op = *GetParam();
  const double roundoff = Info(Scalar::kFloat32).unit_roundoff;
  constexpr double kSmallest = 0x1p-149;  // the smallest number
  std::vector<Case> cases = BackwardCases(op);
  std::erase_if(cases, [](const Case& test_case) {
    return test_case.Tokens() > 30 || test_case.leading.heads > 0;
  });
  // The first, the middle and the last one of a list with all variants.
  const size_t places[] = {0, cases.size() / 2, cases.size() - 1};
  int64_t bounded = 0, all = 0;
  double largest = 0;
  for (const HardInput& kind : HardInputs())
    for (const size_t place : places) {
      Case test_case = cases[place];
      test_case.scalar = Scalar::kFloat32;
      test_case.input = kind.name;
      const Problem problem = ProblemOf(test_case);
      try {
        const Inputs inputs = GenerateInputs(test_case, problem);
        const auto exact = op.ReferenceDouble(problem, inputs);
        const auto plain = op.ReferenceFloat(problem, inputs);
        for (size_t o = 0; o < problem.outputs.size(); ++o) {
          const auto output = static_cast<int>(o);
          const OutputLayout layout = LayoutOf(problem, output);
          const auto width = static_cast<size_t>(layout.width);
          std::vector<double> value(width), units(width);
          std::vector<float> rounded(width);
          for (int64_t head = 0; head < layout.heads; ++head)
            for (int64_t row = 0; row < layout.rows; ++row) {
              exact->Row({output, head, row}, value.data(), units.data());
              plain->Row({output, head, row}, rounded.data(), nullptr);
              for (size_t c = 0; c < width; ++c) {
                ++all;
                ASSERT_FALSE(std::isnan(units[c])) << test_case.Id();
                if (std::isinf(units[c]) || !std::isfinite(rounded[c]))
                  continue;
                ++bounded;
                const double error = std::abs(rounded[c] - value[c]);
                ASSERT_LE(error, roundoff * units[c] + kSmallest)
                    << problem.outputs[o].name << " " << test_case.Id();
                if (kind.name == "normal" && units[c] > 0)
                  largest = std::max(largest, error / (roundoff * units[c]));
              }
            }
        }
      } catch (const InvalidInput&) {
        continue;  // the formula has no value
      }
    }
  EXPECT_GT(bounded, all / 2);
  RecordProperty("largest_error_in_bounds", std::to_string(largest));
}

// Inputs in which an operator is linear, each group of them together: then <X,
// grad_X> summed over the group equals <grad, out>. Shifting a bias by offset
// by a constant does not change the output where `bias_sums_to_zero` holds, so
// that its gradient sums to zero.
struct Identities {
  std::vector<std::vector<std::string>> linear;
  bool (*bias_sums_to_zero)(const Params&) = [](const Params&) {
    return false;
  };
};
bool Always(const Params&) { return true; }
// A common factor of all weights cancels in a mean.
bool IfMean(const Params& params) {
  return !(params.Has("eps") && params.Number("eps") > 0) &&
         !(params.Has("normalized") && !params.Flag("normalized"));
}
bool IfAdded(const Params& params) { return params.Text("scheme") == "bias"; }
// Pairs with a global token have no bias.
bool IfWithoutGlobals(const Params& params) {
  return params.Text("pattern") != "etc";
}

const std::map<std::string, Identities> kIdentities = {
    {"toeplitz_1d", {{{"weights"}, {"values"}}}},
    {"toeplitz_2d", {{{"weights"}, {"values"}}}},
    {"toeplitz_2d_xy", {{{"weights_rows", "weights_cols"}, {"values"}}}},
    {"clipped_rpe_product", {{{"q"}, {"rpe"}, {"v"}}}},
    {"softmax_attention", {{{"v"}}, Always}},
    {"linear_attention", {{{"v"}}}},
    {"fastrpb_attention", {{{"v"}}, Always}},
    {"kernelized_rpe_attention", {{{"v"}}, IfMean}},
    {"kernelized_clipped_rpe_attention", {{{"v"}}}},
    {"transformer_xl_attention", {{{"v"}}}},
    {"position_attention", {{{"w_v"}}, IfAdded}},
    {"relative_logits_attention", {{{"v"}}}},
    {"sparse_attention", {{{"v", "v_global"}}, IfWithoutGlobals}},
    {"linformer_attention", {{{"v"}, {"proj_v"}}}},
    {"memory_compressed_attention", {{{"v"}, {"theta_v"}}}},
    {"stochastic_position_attention", {{{"v"}}}},
    {"dynamic_convolution", {{{"phi_v"}}}},
    {"synthesizer_attention", {{{"phi_v"}}}},
    {"gmlp_mixing", {{{"phi_v"}, {"phi_u2"}}}},
    {"graph_attention", {}},
    {"clustered_attention", {{{"v"}}}},
    {"sinkhorn_attention", {{{"v"}}}},
    {"nystrom_attention", {{{"v"}}}},
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

// The outputs of the definition or of an implementation, in float64.
struct Program {
  std::string name;
  std::function<std::vector<double>()> out;
  std::function<std::vector<double>(const std::string& input)> gradient;
};

bool HasSecondCotangent(const Problem& problem) {
  return std::ranges::count_if(problem.inputs, [](const TensorRule& rule) {
           return IsCotangent(rule.name);
         }) > 1;
}

// Checks the definition and every implementation with a backward pass.
TEST_P(Gradients, HoldIdentities) {
  constexpr double kRounding = 1e-11, kMistake = 1e-3;
  const Operator& op = *GetParam();
  const auto known = kIdentities.find(std::string(op.description().id));
  ASSERT_NE(known, kIdentities.end()) << "no identity is written down";
  std::map<std::string, int> compared, controls;
  for (const Case& test_case : BackwardCases(op)) {
    const Problem problem = ProblemOf(test_case);
    const Inputs inputs = GenerateInputs(test_case, problem);
    const std::vector<GivenTensor> tensors = GivenTensors(inputs);
    const std::vector<double> grad = inputs["grad"].values;
    std::vector<GivenTensor> forward = tensors;
    std::erase_if(forward, [](const GivenTensor& tensor) {
      return IsCotangent(tensor.name);
    });
    Trial trial = MakeTrial(op, problem.params, test_case.scalar, tensors, 1);
    Trial forward_trial =
        MakeTrial(op, problem.params, test_case.scalar, forward, 1);
    const auto rounded = [](const std::vector<Long>& values) {
      return std::vector<double>(values.begin(), values.end());
    };
    const auto forward_definition =
        op.ReferenceLongDouble(forward_trial.problem(), forward_trial.inputs());
    const auto definition = op.ReferenceLongDouble(problem, inputs);
    std::vector<Program> programs = {
        {"definition",
         [&] {
           return rounded(
               AllRows(forward_trial.problem(), *forward_definition, 0));
         },
         [&](const std::string& input) {
           return rounded(AllRows(problem, *definition,
                                  problem.OutputIndex(GradientOf(input))));
         }}};
    for (const Implementation* program : CpuImplementations(problem))
      programs.push_back(
          {program->id,
           [&, program] { return RunOnce(*program, forward_trial, 1); },
           [&, program](const std::string& input) {
             return RunOnce(*program, trial, 1, GradientOf(input));
           }});
    for (const Program& program : programs) {
      const std::vector<double> out = program.out();
      // Only the gradient may have some of the leading axes.
      if (out.size() != grad.size() || HasSecondCotangent(problem)) continue;
      const Product expected = Dot(grad, out);
      const std::string& name = program.name;
      for (const std::vector<std::string>& group : known->second.linear) {
        Product actual;
        for (const std::string& input : group) {
          if (!problem.HasInput(input)) continue;
          const Product part =
              Dot(inputs[input].values, program.gradient(input));
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
      if (!problem.HasInput("bias") ||
          !known->second.bias_sums_to_zero(problem.params))
        continue;
      const std::vector<double> bias = program.gradient("bias");
      const Product sum = Dot(bias, std::vector<double>(bias.size(), 1));
      EXPECT_LE(std::abs(sum.value), kRounding * (sum.magnitude + 1e-3))
          << name << " " << test_case.Id();
      ++compared[name + " bias"];
      controls[name + " bias"] += kMistake * std::abs(std::ranges::max(bias)) >
                                  kRounding * sum.magnitude;
    }
  }
  EXPECT_TRUE(!compared.empty() || known->second.linear.empty());
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
  signature.inputs[1].fixed = true;
  signature.outputs = {{"out", {"n", "e"}}, {"out_global", {"g", "e"}}};
  const Signature backward = WithGradients(signature);
  ASSERT_EQ(backward.outputs.size(), 1u);
  EXPECT_EQ(backward.outputs[0].name, "grad_q");
  ASSERT_EQ(backward.inputs.size(), 4u);
  EXPECT_EQ(backward.inputs[2].name, "grad");
  EXPECT_EQ(backward.inputs[2].shape, signature.outputs[0].shape);
  EXPECT_FALSE(backward.inputs[2].optional);
  EXPECT_EQ(backward.inputs[3].name, "grad_out_global");
  EXPECT_EQ(backward.inputs[3].shape, signature.outputs[1].shape);
  EXPECT_TRUE(backward.inputs[3].optional);
}

}  // namespace

// Test names must not depend on where an operator lies in memory.
}  // namespace subquad
