// The workspace that CostOf counts is what constructors allocate.
#include <gtest/gtest.h>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/machine/memory_counter.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

double Allocated(const Implementation& implementation, const Problem& problem,
                 const Arrays& arrays, int threads) {
  Layout layout({.threads = threads});
  const auto prepared = implementation.prepare(problem, arrays, layout);
  return layout.bytes();
}

class Workspace : public testing::TestWithParam<const Operator*> {};

TEST_P(Workspace, IsCountedAsItIsAllocated) {
  int64_t compared = 0;
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const Case& test_case :
         VerificationCases(*GetParam(), {65}, scalar, 1)) {
      const Problem problem = ProblemOf(test_case);
      const Trial trial(problem, GenerateInputs(test_case, problem), 1);
      for (const Implementation* program : ImplementationsOf(*GetParam())) {
        if (program->backend != Backend::kCpu ||
            !WhyNot(*program, problem).empty())
          continue;
        for (const int threads : {1, 3}) {
          const Cost cost = program->CostOf(problem, threads);
          ASSERT_EQ(Allocated(*program, problem, trial.arrays(), threads),
                    cost.workspace_bytes)
              << program->id << " " << test_case.Id();
          ASSERT_GT(cost.flops, 0) << program->id << " " << test_case.Id();
          ++compared;
        }
      }
    }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, Workspace, testing::ValuesIn(Operators()),
                         OperatorId);

// Controls: an array that only the run allocates, and one of a thread.
class Hiding : public Prepared {
 public:
  Hiding(Layout& layout, bool hide) : known_(layout, 100), each_(layout, 10) {
    if (!hide || !layout.counting()) hidden_ = Buffer<float>(layout, 7);
  }
  void Run() override {}
  double Flops() const override { return 0; }

 private:
  Buffer<float> known_, hidden_;
  PerThread<double> each_;
};

TEST(Workspace, ACountThatLacksAnArrayIsFound) {
  const Implementation& any = *ImplementationsOf(*Operators()[0])[0];
  const Problem problem;
  for (const bool hide : {false, true}) {
    Implementation hiding = any;
    hiding.prepare = [&](const Problem&, const Arrays&, Layout& layout) {
      return std::make_unique<Hiding>(layout, hide);
    };
    EXPECT_EQ(Allocated(hiding, problem, {}, 3), 4 * 107 + 8 * 30);
    EXPECT_EQ(hiding.CostOf(problem, 3).workspace_bytes,
              4 * (hide ? 100 : 107) + 8 * 30);
  }
}

// The matrix would have 2^42 entries.
TEST(Workspace, IsCountedWithoutAllocating) {
  CaseRequest request;
  request.op = &FindOperator("toeplitz_1d");
  request.n = 1 << 21;
  const Problem problem = ProblemOf(MakeCase(request));
  const Implementation& dense = FindImplementation("toeplitz_1d", "dense");
  const PeakOf peak;
  EXPECT_EQ(dense.CostOf(problem, 2).workspace_bytes, 0x1p44);
  if (MemoryCounter::Available()) {
    EXPECT_LT(peak.bytes(), 1 << 16);
  }
}

// Blocks are cut without gaps, and their size is known without a block.
struct Parts {
  Parts(Cut<double>& cut, int64_t width) : a(cut(3 * width)), b(cut(1)) {}
  double *a, *b;
};

TEST(Cut, SizeIsTheSumOfTheCuts) {
  EXPECT_EQ(Cut<double>::Size<Parts>(5), 16);
  double block[16];
  const auto parts = Cut<double>::Make<Parts>(block, 5);
  EXPECT_EQ(parts.a, block);
  EXPECT_EQ(parts.b, block + 15);
}

}  // namespace
}  // namespace subquad
