// Bounds count roundings of the arithmetic, which a 16-bit type of the tensors
// does not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/cases/case.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/verification.h"
#include "harness/registry/registry.h"
#include "reference/base/operator.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

class Storage : public testing::TestWithParam<const Operator*> {};

// Returns the bounds of all elements of all outputs.
std::vector<double> UnitsOf(const Problem& problem, const Inputs& inputs) {
  const auto reference = problem.op->ReferenceDouble(problem, inputs);
  std::vector<double> all;
  for (int output = 0; output < std::ssize(problem.outputs); ++output) {
    const OutputLayout layout = LayoutOf(problem, output);
    std::vector<double> value(static_cast<size_t>(layout.width));
    std::vector<double> units(value.size());
    for (int64_t head = 0; head < layout.heads; ++head)
      for (int64_t row = 0; row < layout.rows; ++row) {
        reference->Row({output, head, row}, value.data(), units.data());
        all.insert(all.end(), units.begin(), units.end());
      }
  }
  return all;
}

bool IsFinite(const Inputs& inputs) {
  return std::ranges::all_of(inputs.tensors, [](const Tensor& tensor) {
    return std::ranges::all_of(tensor.values,
                               [](double x) { return std::isfinite(x); });
  });
}

TEST_P(Storage, DoesNotChangeBounds) {
  const Operator& op = *GetParam();
  int64_t compared = 0;
  for (const auto& variants : {VerificationCases(op, {9}, Scalar::kFloat32, 1),
                               GradientCases(op, {9}, Scalar::kFloat32, 1)}) {
    if (variants.empty()) continue;
    size_t place = 0;
    for (const HardInput& kind : HardInputs()) {
      place = (place + variants.size() / 3 + 1) % variants.size();
      for (const Scalar stored : {Scalar::kBFloat16, Scalar::kFloat16}) {
        Case narrow = variants[place];
        narrow.scalar = stored;
        narrow.input = kind.name;
        Case wide = narrow;
        wide.scalar = Scalar::kFloat32;
        const Problem problem = ProblemOf(narrow);
        try {
          const Inputs inputs = GenerateInputs(narrow, problem);
          if (!IsFinite(inputs)) continue;  // beyond the largest float16
          const std::vector<double> units = UnitsOf(problem, inputs);
          const std::vector<double> expected = UnitsOf(ProblemOf(wide), inputs);
          ASSERT_EQ(units.size(), expected.size());
          for (size_t i = 0; i < units.size(); ++i)
            ASSERT_EQ(units[i], expected[i]) << narrow.Id();
          compared += std::ssize(units);
        } catch (const InvalidInput&) {
          continue;  // the formula has no value
        }
      }
    }
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Operators, Storage, testing::ValuesIn(Operators()),
                         OperatorId);

}  // namespace
}  // namespace subquad
