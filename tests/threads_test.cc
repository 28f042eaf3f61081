// Results have the same bits on any number of threads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

std::vector<std::string> OutputBytes(const Implementation& implementation,
                                     Trial& trial, int threads) {
  auto prepared = implementation.Prepare(trial.problem(), trial.arrays(),
                                         {.threads = threads});
  trial.Poison();
  prepared->Run();
  std::vector<std::string> bytes;
  for (const Arrays::Entry& entry : trial.arrays().outputs)
    bytes.emplace_back(
        static_cast<const char*>(entry.data),
        static_cast<size_t>(entry.count * Info(entry.scalar).bytes));
  return bytes;
}

class Repeatable : public testing::TestWithParam<const Operator*> {};

// The thread sanitizer makes programs some fifty times slower, and what threads
// share depends on the implementation more than on its options: with it, only
// every seventh of many cases runs.
#ifdef __SANITIZE_THREAD__
constexpr size_t kManyCases = 32, kStep = 7;
#else
constexpr size_t kManyCases = 0, kStep = 1;
#endif

// Work is divided into pieces that do not depend on the number of threads.
TEST_P(Repeatable, BitIdenticalOnAnyNumberOfThreads) {
  const Operator& op = *GetParam();
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
    const std::vector<Case> cases = VerificationCases(op, {5, 61}, scalar, 2);
    const size_t step = cases.size() > kManyCases ? kStep : 1;
    for (size_t index = 0; index < cases.size(); index += step) {
      const Case& test_case = cases[index];
      const Problem problem = ProblemOf(test_case);
      Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
      for (const Implementation* implementation : ImplementationsOf(op)) {
        if (implementation->backend != Backend::kCpu) continue;
        if (!WhyNot(*implementation, problem).empty()) continue;
        const auto single = OutputBytes(*implementation, trial, 1);
        for (int threads : {2, 3})
          EXPECT_TRUE(OutputBytes(*implementation, trial, threads) == single)
              << implementation->id << " on " << threads << " threads "
              << test_case.Id();
      }
    }
  }
}

// Tiled implementations use larger tasks if there are few threads; the lengths
// above are too short for that.
TEST(Threads, LargerTasksGiveTheSameBits) {
  for (const char* id :
       {"softmax_attention:n=1500,d=5,e=3,with=bias",
        "softmax_attention:n=1500,d=5,e=3,causal=1,heads=2",
        "kernelized_rpe_attention:n=4200,d=4,e=3,f=5,feature_map=prf,"
        "normalize=1"}) {
    const Case test_case = MakeCase(ParseCaseId(id));
    const Problem problem = ProblemOf(test_case);
    Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
    for (const Implementation* tiled : ImplementationsOf(*test_case.op)) {
      if (tiled->id != "tiled" || tiled->backend != Backend::kCpu) continue;
      const auto single = OutputBytes(*tiled, trial, 1);
      for (int threads : {2, 5, 40})
        EXPECT_TRUE(OutputBytes(*tiled, trial, threads) == single)
            << id << " on " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Repeatable, testing::ValuesIn(Operators()),
                         OperatorId);

}  // namespace
}  // namespace subquad
