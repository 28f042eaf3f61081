// Compares each algorithm's statement about its sums with the effect of future
// inputs on past outputs: no sum that claims to be direct may leak.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

constexpr uint64_t kSeed = 5;

// Multiplies the last `rows` rows of queries, keys and values by 1.5.
Inputs WithOtherFuture(const Problem& problem, Inputs inputs, int64_t rows) {
  for (size_t t = 0; t < inputs.tensors.size(); ++t) {
    if (problem.inputs[t].role != Role::kData) continue;
    Tensor& tensor = inputs.tensors[t];
    const int64_t extent =
        problem.InputShape(t)[problem.input_leading[t].size()];
    const int64_t count = tensor.SliceSize();
    for (int64_t h = 0; h < tensor.slices.count(); ++h)
      for (int64_t i = count / extent * std::max<int64_t>(0, extent - rows);
           i < count; ++i)
        tensor.values[static_cast<size_t>(h * count + i)] *= 1.5;
  }
  return inputs;
}

// Computes the first `rows` rows of every head, by the definition or by an
// algorithm.
std::vector<double> PastByDefinition(const Problem& problem,
                                     const Inputs& inputs, int64_t rows) {
  const auto reference = problem.op->ReferenceDouble(problem, inputs);
  const int64_t width = problem.OutputShape(0).back();
  std::vector<double> past(static_cast<size_t>(problem.heads * rows * width));
  double* row = past.data();
  for (int64_t h = 0; h < problem.heads; ++h)
    for (int64_t i = 0; i < rows; ++i, row += width)
      reference->Row({0, h, i}, row, nullptr);
  return past;
}

std::vector<float> PastBy(const Implementation& implementation, Trial& trial,
                          int64_t rows) {
  const Problem& problem = trial.problem();
  const auto prepared =
      implementation.Prepare(problem, trial.arrays(), {.threads = 1});
  trial.Poison();
  prepared->Run();
  const Arrays::Entry& out = trial.arrays().outputs[0];
  const int64_t head = out.count / problem.heads;
  const int64_t width = problem.OutputShape(0).back();
  std::vector<float> past;
  for (int64_t h = 0; h < problem.heads; ++h) {
    const float* values = static_cast<const float*>(out.data) + h * head;
    past.insert(past.end(), values, values + rows * width);
  }
  return past;
}

// True if no value changed by more than a few roundings of the largest: the
// effect on the past of sums that mix too little to matter.
bool ChangedLittle(const std::vector<float>& before,
                   const std::vector<float>& after) {
  constexpr double kFewRoundings = 16 * 0x1p-24;
  double largest = 0;
  for (float x : before) largest = std::max<double>(largest, std::abs(x));
  for (size_t x = 0; x < before.size(); ++x)
    if (!(std::abs(before[x] - after[x]) <= kFewRoundings * largest))
      return false;
  return true;
}

struct Leaks {
  std::set<std::string> direct;  // claim to be direct and leak
  std::set<std::string> mixed;   // claim to mix and leak
  std::set<std::string> silent;  // claim to mix and never leaked
  int compared = 0;
};

void Measure(const Case& test_case,
             const std::vector<const Implementation*>& rows, Leaks& leaks) {
  const Problem problem = ProblemOf(test_case);
  const int64_t past = problem.queries / 2;
  if (past == 0 || problem.backward) return;
  const Inputs inputs = GenerateInputs(test_case, problem);
  const Inputs other = WithOtherFuture(problem, inputs, problem.queries - past);
  try {
    if (PastByDefinition(problem, inputs, past) !=
        PastByDefinition(problem, other, past))
      return;  // the past may see this future
  } catch (const InvalidInput&) {
    return;  // no answer: the few visible keys of a query have no weight
  }
  Trial trial(problem, inputs, kSeed), changed(problem, other, kSeed);
  for (const Implementation* implementation : rows) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    const auto before = PastBy(*implementation, trial, past);
    const auto after = PastBy(*implementation, changed, past);
    const bool leaks_here = std::memcmp(before.data(), after.data(),
                                        before.size() * sizeof(float)) != 0;
    const std::string name =
        implementation->op + "/" + implementation->id +
        (implementation->backend == Backend::kCuda ? "@cuda" : "");
    ++leaks.compared;
    switch (implementation->sums(problem)) {
      case Sums::kDirect:
        if (leaks_here) leaks.direct.insert(name + " at " + test_case.Id());
        break;
      case Sums::kMixed:
        (leaks_here ? leaks.mixed : leaks.silent).insert(name);
        break;
      case Sums::kMixedWide:
        if (leaks_here && !ChangedLittle(before, after))
          leaks.direct.insert(name + " by too much at " + test_case.Id());
        break;
    }
  }
}

TEST(Sums, SmallChangesAreAFewRoundingsOfTheLargest) {
  const std::vector<float> before = {1, 0, -4};
  EXPECT_TRUE(ChangedLittle(before, {1, 0, -4}));
  EXPECT_TRUE(ChangedLittle(before, {1.0000002f, 0, -4}));
  EXPECT_FALSE(ChangedLittle(before, {1.0001f, 0, -4}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(ChangedLittle(before, {1, nan, -4}));
}

TEST(Sums, EveryImplementationDescribesItsSums) {
  for (const Implementation& implementation : Implementations())
    EXPECT_TRUE(implementation.sums != nullptr)
        << implementation.op << "/" << implementation.id << " on "
        << ToString(implementation.backend);
}

class SumsOf : public testing::TestWithParam<std::string> {};

TEST_P(SumsOf, NoDirectSumLeaksTheFuture) {
  const Operator& op = FindOperator(GetParam());
  Leaks leaks;
  for (const Case& test_case :
       VerificationCases(op, {33, 130}, Scalar::kFloat32, kSeed))
    Measure(test_case, ImplementationsOf(op), leaks);
  for (const std::string& name : leaks.direct) ADD_FAILURE() << name;
  for (const std::string& name : leaks.silent)
    EXPECT_TRUE(leaks.mixed.contains(name)) << name << " never leaks";
}

std::vector<std::string> Ids() {
  std::vector<std::string> ids;
  for (const Operator* op : Operators()) ids.emplace_back(op->description().id);
  return ids;
}
INSTANTIATE_TEST_SUITE_P(Operators, SumsOf, testing::ValuesIn(Ids()),
                         [](const auto& test) { return test.param; });

TEST(Sums, AutoReportsTheSumsOfItsChoice) {
  const Case large = MakeCase(ParseCaseId(
      "kernelized_rpe_attention:n=4096,d=8,e=2,causal=1,feature_map=elu1"));
  const Case small = MakeCase(ParseCaseId(
      "kernelized_rpe_attention:n=16,d=8,e=2,causal=1,feature_map=elu1"));
  for (const Implementation* implementation : ImplementationsOf(*large.op))
    if (implementation->id == "auto") {
      EXPECT_EQ(implementation->sums(ProblemOf(large)), Sums::kMixed);
      EXPECT_EQ(implementation->sums(ProblemOf(small)), Sums::kDirect);
      Leaks leaks;
      Measure(large, {implementation}, leaks);
      EXPECT_EQ(leaks.mixed.size(), 1u);
    }
}

// The check itself finds a transform that claims to be a direct sum.
TEST(Sums, AFalseClaimIsFound) {
  const Case test_case =
      MakeCase(ParseCaseId("toeplitz_1d:n=130,e=19,causal=1,scalar=float32"));
  for (const Implementation* fft : ImplementationsOf(*test_case.op)) {
    if (fft->id != "fft_columns" || fft->backend != Backend::kCpu) continue;
    Implementation liar = *fft;
    liar.sums = DirectSums;
    Leaks leaks;
    Measure(test_case, {&liar}, leaks);
    EXPECT_EQ(leaks.compared, 1);
    EXPECT_EQ(leaks.direct.size(), 1u);
  }
}

}  // namespace
}  // namespace subquad
