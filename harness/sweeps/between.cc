#include "harness/sweeps/between.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/results/curve.h"
#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

// Interpolation between sizes closer than this factor is as good as another
// size.
constexpr double kNarrow = 1.08;

struct Step {
  const CurvePoint* fast;  // at the smaller size
  const CurvePoint* slow;
  double low, high;
};

// Returns the two neighbouring sizes between which the curves cross, if another
// size between them would help.
std::optional<Step> StepOf(const RecipeCurve& fast, const RecipeCurve& slow) {
  const Crossover crossing = CrossoverOf(fast, slow, CurveValue::kSeconds);
  if (!crossing.n) return std::nullopt;
  Step step{nullptr, nullptr, 0, 0};
  for (const CurvePoint& point : fast.all_points) {
    const auto other =
        std::ranges::find(slow.all_points, point.n, &CurvePoint::n);
    if (other == slow.all_points.end() || !point.has_time() ||
        !other->has_time())
      continue;
    if (point.n <= *crossing.n) step = {&point, &*other, point.n, 0};
    if (point.n > *crossing.n && step.high == 0) step.high = point.n;
  }
  if (!step.fast || step.high == 0 || step.high / step.low < kNarrow)
    return std::nullopt;
  // The times are too noisy for another size to help.
  if ((!crossing.low || *crossing.low < step.low) &&
      (!crossing.high || *crossing.high > step.high))
    return std::nullopt;
  return step;
}

// Returns a size halfway; for an image, the number of pixels of a square.
int64_t Halfway(const Step& step, const Json& record) {
  const double middle = std::sqrt(step.low * step.high);
  if (record.at("size").contains("height")) {
    const auto side = std::llround(std::sqrt(middle));
    return side * side;
  }
  const int64_t common = std::gcd(
      std::gcd(std::llround(step.low), std::llround(step.high)), int64_t{64});
  return std::llround(middle / static_cast<double>(common)) * common;
}

// Returns the case of a record at another size, or nothing if it has no such
// size.
std::optional<Case> CaseAt(const Json& record, int64_t n) {
  CaseRequest request = ParseCaseId(record.at("case").get<std::string>());
  const auto axes = record.at("length_axes").get<std::vector<std::string>>();
  std::erase_if(request.values, [&](const auto& value) {
    return std::ranges::count(axes, value.first) > 0;
  });
  request.n = n;
  try {
    return MakeCase(request);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

void Add(const Json& record, int64_t n, std::vector<PlannedCase>& plan) {
  const std::optional<Case> test_case = CaseAt(record, n);
  if (!test_case) return;
  const int threads = record.at("threads");
  for (const Implementation* implementation :
       ImplementationsOf(*test_case->op)) {
    if (record.at("implementation") != Json(implementation->id) ||
        record.at("backend") != Json(ToString(implementation->backend)))
      continue;
    auto there = std::ranges::find_if(plan, [&](const PlannedCase& planned) {
      return planned.threads == threads &&
             planned.test_case.Id() == test_case->Id();
    });
    if (there == plan.end())
      there = plan.insert(plan.end(), PlannedCase{*test_case, threads, {}});
    if (!std::ranges::count(there->implementations, implementation))
      there->implementations.push_back(implementation);
  }
}

}  // namespace

std::vector<PlannedCase> BetweenCrossings(const std::vector<Json>& records,
                                          const std::vector<Recipe>& recipes) {
  std::vector<RecipePoint> points;
  for (const Json& record : records)
    points.push_back({SettingsOf(record), &record});
  std::vector<PlannedCase> plan;
  for (const Recipe& recipe : recipes) {
    if (recipe.kind() != "curves" || recipe.x() != "n" ||
        !recipe.content().contains("crossovers"))
      continue;
    for (const Json& panel : recipe.content().at("panels")) {
      if (panel.at("y") != "seconds") continue;
      const std::vector<RecipeCurve> curves =
          CurvesOfPanel(recipe, panel, points);
      for (const Json& pair : recipe.content().at("crossovers"))
        for (const RecipeCurve& fast : curves)
          for (const RecipeCurve& slow : curves) {
            if (pair[0] != Json(fast.id) || pair[1] != Json(slow.id)) continue;
            const std::optional<Step> step = StepOf(fast, slow);
            if (!step) continue;
            const int64_t n = Halfway(*step, *step->fast->record);
            Add(*step->fast->record, n, plan);
            Add(*step->slow->record, n, plan);
          }
    }
  }
  return plan;
}

}  // namespace subquad
