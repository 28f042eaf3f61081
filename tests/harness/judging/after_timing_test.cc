// Implementations that are correct while they are judged and faulty while they
// are timed: each is caught, and an honest one is not.
#include "harness/judging/after_timing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

enum class Fault {
  kNone,
  kKeepsItsResult,      // returns its old result, recognised by the address of
                        // its tensors, say
  kWritesItsInput,      // and does not restore it
  kRightOnce,           // and off by a hundredth later
  kWritesNothingLater,  // leaves the output of the first run in place
  kChangesABit,         // within every tolerance, in every second run
};

class Faulty : public Prepared {
 public:
  Faulty(std::unique_ptr<Prepared> honest, const Arrays& arrays, Fault fault)
      : honest_(std::move(honest)), arrays_(arrays), fault_(fault) {}

  void Run() override {
    ++runs_;
    const Arrays::Entry& out = arrays_.outputs.front();
    auto* numbers = static_cast<float*>(out.data);
    const auto bytes = static_cast<size_t>(out.count) * sizeof(float);
    if (fault_ == Fault::kWritesNothingLater && runs_ > 1) return;
    if (fault_ == Fault::kKeepsItsResult && runs_ > 1) {
      std::memcpy(numbers, kept_.data(), bytes);
      return;
    }
    honest_->Run();
    kept_.assign(numbers, numbers + out.count);
    if (fault_ == Fault::kWritesItsInput)
      static_cast<float*>(arrays_.inputs.back().data)[3] = 0.5F;
    if (fault_ == Fault::kRightOnce && runs_ > 1)
      for (int64_t i = 0; i < out.count; ++i) numbers[i] *= 1.01F;
    if (fault_ == Fault::kChangesABit && runs_ % 2 == 0)
      numbers[7] = std::nextafter(numbers[7], 1e9F);
  }

  double Flops() const override { return honest_->Flops(); }

 private:
  const std::unique_ptr<Prepared> honest_;
  const Arrays arrays_;
  const Fault fault_;
  int runs_ = 0;
  std::vector<float> kept_;
};

// Returns the checks after three runs.
AfterTiming Timed(const std::string& id, Fault fault) {
  const Case test_case = MakeCase(ParseCaseId(id));
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  const Implementation& honest = *ImplementationsOf(*test_case.op).front();
  Faulty prepared(honest.Prepare(problem, trial.arrays(), {}), trial.arrays(),
                  fault);
  const Verdict first = trial.RunAndJudge(honest, prepared);
  EXPECT_TRUE(first.passed()) << first.reason;
  for (int run = 0; run < 2; ++run) prepared.Run();
  return JudgeTimed(honest, trial, prepared);
}

constexpr const char* kCases[] = {
    "toeplitz_1d:n=70,e=5,scalar=float32,seed=3",
    "softmax_attention:n=70,d=8,e=5,heads=2,with=bias,scalar=float32,seed=3",
    "position_attention:n=40,D=6,d=8,e=5,scalar=float32,seed=3",
    "sparse_attention:pattern=etc,n=40,d=8,e=5,scalar=float32,seed=3",
    "toeplitz_1d:n=40,e=5,backward=1,scalar=float32,seed=3",
    "softmax_attention:n=40,d=8,e=5,with=lse,scalar=float32,seed=3",
    "softmax_attention:n=40,d=8,e=5,with=grad_lse,backward=1,scalar=float32,"
    "seed=3",
    "dynamic_convolution:n=40,D=6,K=5,e=5,scalar=float32,seed=3",
    "gmlp_mixing:n=40,D=6,m=7,e=5,scalar=float32,seed=3",
    "synthesizer_attention:n=40,D=6,m=7,e=5,scalar=float32,seed=3"};

// Twice all linear inputs give exactly twice the outputs, but for those apart.
TEST(AfterTiming, OutputsAreLinearInTheInputsThatSaySo) {
  std::set<std::string> without;
  for (const Operator* op : Operators())
    for (const Case& test_case :
         VerificationCases(*op, {9}, Scalar::kFloat64, 1)) {
      SCOPED_TRACE(test_case.Id());
      const Problem problem = ProblemOf(test_case);
      Inputs once = GenerateInputs(test_case, problem), twice = once;
      bool any = false;
      for (size_t i = 0; i < problem.inputs.size(); ++i)
        if (problem.inputs[i].linear) {
          any = true;
          for (double& value : twice.tensors[i].values) value *= 2;
        }
      if (!any) {
        without.insert(std::string(op->description().id) +
                       (problem.backward ? " backward" : ""));
        continue;
      }
      const auto first = op->ReferenceDouble(problem, once);
      const auto second = op->ReferenceDouble(problem, twice);
      for (int o = 0; o < std::ssize(problem.outputs); ++o) {
        const TensorRule& output = problem.outputs[static_cast<size_t>(o)];
        const OutputLayout layout = LayoutOf(problem, o);
        std::vector<double> row(static_cast<size_t>(layout.width)),
            doubled(row);
        for (int64_t head = 0; head < layout.heads; ++head)
          for (int64_t r = 0; r < layout.rows; ++r) {
            first->Row({o, head, r}, row.data(), nullptr);
            second->Row({o, head, r}, doubled.data(), nullptr);
            if (!output.apart)
              for (double& value : row) value *= 2;
            ASSERT_EQ(row, doubled) << output.name << ", row " << r;
          }
      }
    }
  EXPECT_EQ(without, std::set<std::string>{"graph_attention"});
}

TEST(AfterTiming, AnHonestProgramPasses) {
  for (const char* id : kCases) {
    const AfterTiming timing = Timed(id, Fault::kNone);
    EXPECT_TRUE(timing.verdict.passed()) << id << ": " << timing.verdict.reason;
    EXPECT_TRUE(timing.deterministic) << id;
  }
}

TEST(AfterTiming, EachFaultIsCaught) {
  for (const char* id : kCases)
    for (Fault fault : {Fault::kKeepsItsResult, Fault::kWritesItsInput,
                        Fault::kRightOnce, Fault::kWritesNothingLater}) {
      const AfterTiming timing = Timed(id, fault);
      EXPECT_EQ(timing.verdict.outcome, Outcome::kFailed)
          << id << " " << static_cast<int>(fault);
    }
}

TEST(AfterTiming, TheReasonSaysWhatHappened) {
  const auto reason = [](Fault fault) {
    return Timed(kCases[0], fault).verdict.reason;
  };
  EXPECT_EQ(reason(Fault::kKeepsItsResult),
            "values was scaled in place, but the answer did not change with "
            "it: the result seems to be cached");
  EXPECT_EQ(reason(Fault::kWritesItsInput), "it changed its input values");
  EXPECT_TRUE(reason(Fault::kRightOnce).starts_with("after it was timed: "));
  EXPECT_TRUE(reason(Fault::kWritesNothingLater)
                  .starts_with("in a run after it was timed: "));
}

TEST(AfterTiming, BitsThatDifferAreRecorded) {
  const AfterTiming timing = Timed(kCases[0], Fault::kChangesABit);
  EXPECT_TRUE(timing.verdict.passed()) << timing.verdict.reason;
  EXPECT_FALSE(timing.deterministic);
}

}  // namespace
}  // namespace subquad
