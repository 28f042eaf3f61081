// Can the checks fail? Wrong answers made from the reference's own are judged
// with the bounds of every implementation in the registry. Each must be refused
// with room to spare, as much as the margin says; the right answer must be
// accepted. New operators in the registry are tested without a change here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"
#include "tests/right_answer.h"

namespace subquad {
namespace {

constexpr double kLeastDistance = 10;
// The least number of wrong answers per implementation: five images have 41.
// 16-bit types have fewer cases.
int64_t LeastCounted(Scalar scalar) {
  return Info(scalar).bytes == 2 ? 12 : 40;
}

struct Nearest {
  double distance = std::numeric_limits<double>::infinity();
  std::string wrong, case_id;
  int64_t counted = 0;
};
constexpr Scalar kEveryScalar[] = {Scalar::kFloat32, Scalar::kFloat64,
                                   Scalar::kBFloat16, Scalar::kFloat16};
using Table = std::map<std::pair<const Implementation*, Scalar>, Nearest>;

bool IsSquareOf(const Case& test_case, int64_t n) {
  const auto n_k = test_case.sizes.find("n_k");
  return test_case.Tokens() == n &&
         (n_k == test_case.sizes.end() || n_k->second == n);
}

// Keeps all cases without a feature map. Of the others, which are numerous,
// keeps at most `most` at even distances in the list.
std::vector<Case> SomeOf(std::vector<Case> cases, size_t most) {
  const auto mapped = std::stable_partition(
      cases.begin(), cases.end(), [](const Case& test_case) {
        return !test_case.params.Has("feature_map");
      });
  const auto count = static_cast<size_t>(cases.end() - mapped);
  if (count <= most) return cases;
  std::vector<Case> some(cases.begin(), mapped);
  for (size_t i = 0; i < most; ++i)
    some.push_back(mapped[static_cast<std::ptrdiff_t>(i * count / most)]);
  return some;
}

// Returns small cases of all variants, including rectangles, heads and
// gradients; and large ones, where tolerances are widest, of the first and of
// the last variant.
std::vector<Case> CasesOf(const Operator& op, Scalar scalar) {
  // 16-bit types use float32's arithmetic, with tight tolerances at every size.
  if (Info(scalar).bytes == 2)
    return SomeOf(VerificationCases(op, {33}, scalar, 1), 50);
  std::vector<Case> cases =
      SomeOf(VerificationCases(op, {4, 33, 64}, scalar, 1), 160);
  // Rectangles and images are covered by the small cases.
  std::vector<Case> medium = VerificationCases(op, {257}, scalar, 1);
  std::erase_if(medium, [](const Case& test_case) {
    return test_case.leading.heads > 0 || !test_case.with.empty() ||
           !IsSquareOf(test_case, 257);
  });
  for (Case& test_case : SomeOf(std::move(medium), 8))
    cases.push_back(std::move(test_case));
  std::vector<Case> large = VerificationCases(op, {1024}, scalar, 1);
  std::erase_if(large, [](const Case& test_case) {
    return test_case.Tokens() != 1024 || test_case.leading.heads > 0 ||
           !test_case.with.empty();
  });
  if (large.empty()) return cases;
  cases.push_back(large.front());
  if (large.size() > 1) cases.push_back(large.back());
  return cases;
}

// Distances are measured if at least this many elements are compared.
constexpr int64_t kTellingElements = 64;

// Replaces rows of the right answer by those of a wrong one.
Outputs Overlaid(const Problem& problem, const Answer& answer, Outputs outputs,
                 const WrongAnswer& wrong) {
  for (const FoundRows& part : wrong.parts) {
    const OutputLayout layout =
        LayoutOf(problem, static_cast<int>(part.output));
    for (size_t r = 0; r < part.rows.size(); ++r) {
      const RowId& id =
          answer.outputs[part.output].selection.rows[part.rows[r]];
      for (int64_t c = 0; c < layout.width; ++c)
        outputs[part.output][static_cast<size_t>(
            (id.head * layout.rows + id.row) * layout.width + c)] =
            static_cast<double>(part.value(r, c));
    }
  }
  return outputs;
}

void JudgeWrongAnswers(const Case& test_case, Table& table) {
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  try {
    trial.answer();
  } catch (const InvalidInput&) {
    return;  // the formula has no value for these inputs
  }
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : ImplementationsOf(*test_case.op))
    if (WhyNot(*implementation, problem).empty())
      able.push_back(implementation);
  const Outputs right = RightAnswer(problem, trial.answer());
  trial.SetOutputs(right);
  for (const Implementation* implementation : able) {
    const Verdict verdict = trial.JudgeOutputs(*implementation);
    EXPECT_TRUE(verdict.passed())
        << "the right answer is refused: " << implementation->id << " "
        << test_case.Id() << ": " << verdict.reason;
  }
  std::map<const Implementation*, double> smallest;
  for (const WrongAnswer& wrong : trial.wrong_answers()) {
    if (wrong.small_by_design) continue;
    trial.SetOutputs(Overlaid(problem, trial.answer(), right, wrong));
    for (const Implementation* implementation : able) {
      Nearest& nearest = table[{implementation, test_case.scalar}];
      ++nearest.counted;
      const Verdict verdict = trial.JudgeOutputs(*implementation);
      EXPECT_FALSE(verdict.passed())
          << "taken for right: " << wrong.name << ", " << implementation->id
          << " " << test_case.Id();
      const double distance = DistanceOf(verdict.comparison, false);
      double& least = smallest
                          .try_emplace(implementation,
                                       std::numeric_limits<double>::infinity())
                          .first->second;
      least = std::min(least, distance);
      // Few elements (a single query, say) must be refused, but the tolerance
      // need not be tight.
      if (verdict.comparison.elements < kTellingElements) continue;
      // The signed features of trf cancel in the normaliser: wrong answers are
      // refused, but need not be ten times beyond a norm-wise bound.
      if (test_case.params.Has("feature_map") &&
          test_case.params.Text("feature_map") == "trf")
        continue;
      if (distance >= nearest.distance) continue;
      nearest.distance = distance;
      nearest.wrong = wrong.name;
      nearest.case_id = test_case.Id();
    }
  }
  for (const auto& [implementation, distance] : smallest) {
    const Margin& margin = trial.MarginFor(*implementation);
    EXPECT_NEAR(margin.value / distance, 1, 1e-6)
        << margin.nearest << ", " << implementation->id << " "
        << test_case.Id();
  }
}

bool AnyTakes(const Operator& op, Scalar scalar) {
  return std::ranges::any_of(
      ImplementationsOf(op), [&](const auto* implementation) {
        return std::ranges::count(implementation->scalars, scalar) > 0;
      });
}

class Discriminate : public testing::TestWithParam<const Operator*> {};

TEST_P(Discriminate, WrongAnswersAreRefused) {
  const Operator& op = *GetParam();
  Table table;
  for (Scalar scalar : kEveryScalar)
    if (AnyTakes(op, scalar))
      for (const Case& test_case : CasesOf(op, scalar))
        JudgeWrongAnswers(test_case, table);
  for (const Implementation* implementation : ImplementationsOf(op))
    for (Scalar scalar : kEveryScalar) {
      if (!std::ranges::count(implementation->scalars, scalar)) continue;
      // Nothing can be judged without a device.
      if (!IsAvailable(implementation->backend)) continue;
      const Nearest& nearest = table[{implementation, scalar}];
      fmt::print(
          "{:<34} {:<14} {:<4} {:<8} nearest {:<9.3g} of {} wrong answers  {}  "
          "{}\n",
          op.description().id, implementation->id,
          ToString(implementation->backend), Info(scalar).name,
          nearest.distance, nearest.counted, nearest.wrong, nearest.case_id);
      EXPECT_GE(nearest.distance, kLeastDistance)
          << implementation->id << " " << nearest.wrong << " "
          << nearest.case_id;
      EXPECT_GE(nearest.counted, LeastCounted(scalar)) << implementation->id;
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, Discriminate, testing::ValuesIn(Operators()),
                         OperatorId);

}  // namespace

// Test names must not depend on where an operator lies in memory.
}  // namespace subquad
