// No bit of a result depends on the address of its arrays: a vectorised loop
// that begins where its array is aligned adds in another order at another
// address, and each thread's workspace has its own address.
#include <gtest/gtest.h>

#include <cstring>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "optimized/base/buffer.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

// Makes tensors and workspaces that are allocated during its lifetime begin
// `bytes` after a cache line.
class Shifted {
 public:
  explicit Shifted(int64_t bytes) { GuardedMemory::shift() = bytes; }
  ~Shifted() { GuardedMemory::shift() = 0; }
};

std::vector<std::string> BitsOf(const Implementation& implementation,
                                Trial& trial, int64_t shift) {
  const Shifted shifted(shift);
  const auto prepared =
      implementation.Prepare(trial.problem(), trial.arrays(), {.threads = 1});
  trial.Poison();
  prepared->Run();
  EXPECT_EQ(GuardedMemory::CountBrokenGuards(), 0) << implementation.id;
  std::vector<std::string> bits;
  for (const Arrays::Entry& entry : trial.arrays().outputs)
    bits.emplace_back(
        static_cast<const char*>(entry.data),
        static_cast<size_t>(entry.count * Info(entry.scalar).bytes));
  return bits;
}

Trial TrialAt(const Case& test_case, const Problem& problem, int64_t shift) {
  const Shifted shifted(shift);
  return Trial(problem, GenerateInputs(test_case, problem), test_case.seed);
}

// Returns every variant of the operator, in its usual widths and in very small
// ones, for which libraries use other code.
std::vector<Case> CasesOf(const Operator& op, Scalar scalar) {
  std::vector<Case> cases = VerificationCases(op, {5, 61}, scalar, 2);
  const size_t usual = cases.size();
  for (size_t i = 0; i < usual; ++i) {
    Case small = cases[i];
    for (const auto& [name, size] :
         {std::pair{"d", 3}, {"e", 2}, {"p", 3}, {"E", 7}})
      if (small.sizes.contains(name)) small.sizes[name] = size;
    cases.push_back(std::move(small));
  }
  return cases;
}

class Addresses : public testing::TestWithParam<const Operator*> {};

TEST_P(Addresses, ChangeNoBit) {
  int64_t compared = 0;
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const Case& test_case : CasesOf(*GetParam(), scalar)) {
      const Problem problem = ProblemOf(test_case);
      Trial aligned = TrialAt(test_case, problem, 0);
      // The cases together use every shift between 4 and 60 bytes.
      const int64_t step = Info(scalar).bytes, places = 64 / step - 1;
      const int64_t shift = (1 + compared % places) * step;
      Trial moved = TrialAt(test_case, problem, shift);
      for (const Implementation* implementation :
           ImplementationsOf(*GetParam())) {
        if (implementation->backend != Backend::kCpu ||
            !WhyNot(*implementation, problem).empty())
          continue;
        const auto bits = BitsOf(*implementation, aligned, 0);
        for (const int64_t of_workspace : {shift, (shift + step) % 64})
          EXPECT_TRUE(BitsOf(*implementation, aligned, of_workspace) == bits)
              << implementation->id << " workspace shifted by " << of_workspace
              << " bytes " << test_case.Id();
        EXPECT_TRUE(BitsOf(*implementation, moved, shift) == bits)
            << implementation->id << " tensors too, by " << shift << " bytes "
            << test_case.Id();
        ++compared;
      }
    }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, Addresses, testing::ValuesIn(Operators()),
                         OperatorId);

// A control: a sum that begins where its array is aligned.
class Peeling : public Prepared {
 public:
  Peeling(const Arrays& arrays, Layout& layout)
      : arrays_(arrays), copy_(layout, arrays.inputs.front().count) {}

  void Run() override {
    const auto& in = arrays_.inputs.front();
    const auto* from = static_cast<const float*>(in.data);
    std::copy_n(from, in.count, copy_.data());
    int64_t first = 0;
    while (first < in.count &&
           reinterpret_cast<uintptr_t>(copy_.data() + first) % 64 != 0)
      ++first;
    float head = 0, rest = 0;
    for (int64_t i = 0; i < first; ++i) head += copy_[i];
    for (int64_t i = first; i < in.count; ++i) rest += copy_[i];
    const auto& out = arrays_.outputs.front();
    std::fill_n(static_cast<float*>(out.data), out.count, head + rest);
  }
  double Flops() const override { return 0; }

 private:
  const Arrays arrays_;
  Buffer<float> copy_;
};

TEST(Addresses, ASumThatBeginsWhereItIsAlignedIsFound) {
  const Operator& op = FindOperator("toeplitz_1d");
  const Case test_case =
      VerificationCases(op, {61}, Scalar::kFloat32, 1).front();
  const Problem problem = ProblemOf(test_case);
  Trial trial = TrialAt(test_case, problem, 0);
  Implementation peeling = *ImplementationsOf(op).front();
  peeling.prepare = [](const Problem&, const Arrays& arrays, Layout& layout) {
    return std::make_unique<Peeling>(arrays, layout);
  };
  EXPECT_TRUE(BitsOf(peeling, trial, 0) == BitsOf(peeling, trial, 0));
  EXPECT_FALSE(BitsOf(peeling, trial, 0) == BitsOf(peeling, trial, 20));
}

}  // namespace

}  // namespace subquad
