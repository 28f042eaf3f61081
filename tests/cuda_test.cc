// Compares every implementation of cuda/ with the references, in every type of
// storage. Built twice: for the device of this machine, where all tests are
// skipped if there is none, and for the emulated device of tests/emulated_cuda.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cuda/device.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "tests/case_files.h"
#include "tests/every_operator.h"
#include "tests/places.h"

namespace subquad {
namespace {

bool OnDevice(const Implementation& implementation) {
  return implementation.backend == Backend::kCuda;
}

// Returns the operators that have implementations for a device.
std::vector<const Operator*> OperatorsOnDevice() {
  std::vector<const Operator*> operators;
  for (const Operator* op : Operators())
    if (std::ranges::any_of(ImplementationsOf(*op),
                            [](const Implementation* implementation) {
                              return OnDevice(*implementation);
                            }))
      operators.push_back(op);
  return operators;
}

class Cuda : public testing::TestWithParam<const Operator*> {
 protected:
  void SetUp() override {
    if (!Device().present) GTEST_SKIP() << Device().why_not;
  }
};

TEST_P(Cuda, PassesGoldenCases) {
  const Operator& op = *GetParam();
  std::map<std::pair<std::string, Scalar>, int> passed;
  for (const fs::path& path : GoldenFolders()) {
    if (OperatorOf(path) != op.description().id) continue;
    const CaseFolder folder = ReadCaseFolder(path);
    CheckCaseFolder(
        folder,
        [&](const CheckLine& line) {
          if (line.backend != "cuda") return;
          EXPECT_TRUE(line.verdict.passed() ||
                      line.verdict.outcome == Outcome::kSkipped)
              << folder.name << " " << line.implementation << " "
              << Info(line.scalar).name << ": " << line.verdict.reason;
          passed[{line.implementation, line.scalar}] += line.verdict.passed();
        },
        {.wanted = [](const Implementation& implementation, Scalar) {
          return OnDevice(implementation);
        }});
  }
  for (const Implementation* implementation : ImplementationsOf(op))
    for (const Scalar scalar : implementation->scalars)
      if (OnDevice(*implementation)) {
        EXPECT_GT((passed[{implementation->id, scalar}]), 0)
            << "no golden case reaches " << implementation->id << " in "
            << Info(scalar).name;
      }
}

using Passed = std::map<std::pair<const Implementation*, Scalar>, int>;

// Counts the implementations that pass, and fails for the others.
void VerifyOnDevice(const Operator& op, const Case& test_case, Passed& passed) {
  const Problem problem = ProblemOf(test_case);
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : ImplementationsOf(op))
    if (OnDevice(*implementation) && WhyNot(*implementation, problem).empty())
      able.push_back(implementation);
  if (able.empty()) return;
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  try {
    trial.answer();
  } catch (const InvalidInput&) {
    return;  // the formula has no value for these inputs
  }
  for (const Implementation* implementation : able) {
    const Verdict verdict = Verify(*implementation, trial, {});
    // A lost key may not show in inputs of which few keys matter.
    EXPECT_TRUE(verdict.passed() || verdict.cannot_tell())
        << implementation->id << " " << test_case.Id() << ": "
        << verdict.reason;
    passed[{implementation, test_case.scalar}] += verdict.passed();
  }
}

constexpr Scalar kStored[] = {Scalar::kFloat32, Scalar::kBFloat16,
                              Scalar::kFloat16};

// Selects cases of operators with very many variants: every storage type begins
// at another case, and steps are prime, so that variants get different shapes.
std::vector<Case> SomeOf(std::vector<Case> cases, Scalar scalar,
                         size_t enough) {
  size_t step = 1;
  for (const size_t prime : {2, 3, 5, 7, 11, 17, 29})
    if (cases.size() > step * enough) step = prime;
  std::vector<Case> some;
  for (size_t i = static_cast<size_t>(scalar) % step; i < cases.size();
       i += step)
    some.push_back(std::move(cases[i]));
  return some;
}

TEST_P(Cuda, PassesAwkwardSizes) {
  const Operator& op = *GetParam();
  Passed passed;
  for (const Scalar scalar : kStored)
    for (const Case& test_case :
         SomeOf(VerificationCases(op, {1, 2, 3, 33, 64, 97, 130}, scalar, 1),
                scalar, 36))
      VerifyOnDevice(op, test_case, passed);
  // An implementation that ran no case gets the first case that it supports.
  for (const Implementation* implementation : ImplementationsOf(op))
    for (const Scalar scalar : implementation->scalars) {
      if (!OnDevice(*implementation)) continue;
      for (const Case& other : VerificationCases(op, {33, 97}, scalar, 1)) {
        if (passed[{implementation, scalar}] > 0) break;
        if (WhyNot(*implementation, ProblemOf(other)).empty())
          VerifyOnDevice(op, other, passed);
      }
      EXPECT_GE((passed[{implementation, scalar}]), 1) << implementation->id;
    }
}

// Tests rows that need several tiles of columns, aligned for wide loads and
// not.
TEST_P(Cuda, PassesWideRows) {
  struct Wide {
    Scalar scalar;
    int64_t d, e;
  };
  const Operator& op = *GetParam();
  Passed passed;
  for (const auto& [scalar, d, e] :
       {Wide{Scalar::kFloat32, 132, 200}, Wide{Scalar::kFloat32, 67, 130},
        Wide{Scalar::kBFloat16, 132, 72}, Wide{Scalar::kFloat16, 67, 130}})
    for (Case test_case :
         SomeOf(VerificationCases(op, {70}, scalar, 1), scalar, 10)) {
      if (test_case.leading.heads > 1)
        continue;  // skipped: the cases above have it
      if (test_case.sizes.contains("d")) test_case.sizes["d"] = d;
      test_case.sizes["e"] = e;
      VerifyOnDevice(op, test_case, passed);
    }
  EXPECT_FALSE(passed.empty());
}

// Inputs and lengths that the cases above do not have: scores far beyond the
// range of exp, tiles of keys that are all hidden, a bias of a problem that is
// not square, sums in several parts.
constexpr const char* kMoreCases[] = {
    "softmax_attention:n=200,e=19,causal=0,with=bias,input=masked",
    "softmax_attention:n_q=90,n_k=150,e=19,causal=0,with=bias",
    "softmax_attention:n_q=150,n_k=90,e=19,heads=2,per_head=1,causal=1,"
    "with=bias",
    "softmax_attention:n=200,e=19,causal=1,input=dropping",
    "softmax_attention:n=200,e=19,causal=1,input=growing",
    "softmax_attention:n=200,e=19,causal=0,with=bias,input=offset",
    "softmax_attention:n=200,e=19,causal=0,input=onehot",
    // Reach weights of two parts, queries that see few of the keys next to
    // others that see many, and keys that several blocks share.
    "softmax_attention:n=300,d=64,e=64,causal=0",
    "softmax_attention:n=300,d=64,e=64,causal=1",
    "softmax_attention:n=290,d=19,e=130,heads=2,causal=1,with=bias",
    "softmax_attention:n=300,d=64,e=64,causal=0,with=bias,input=masked",
    "softmax_attention:n=300,d=64,e=64,heads=5,causal=1,input=growing",
    "softmax_attention:n=300,d=64,e=64,causal=0,with=bias,input=offset",
    "softmax_attention:n=300,d=64,e=64,causal=0,input=onehot",
    "softmax_attention:n_q=1,n_k=1000,d=64,e=64,heads=2,causal=0",
    "softmax_attention:n_q=1,n_k=1000,d=128,e=128,causal=0,with=bias",
    "softmax_attention:n_q=3,n_k=1000,d=60,e=36,causal=0,with=bias",
    "softmax_attention:n_q=20,n_k=3000,d=16,e=16,causal=0",
    // Options, with keys that several blocks share, tiles outside a window, and
    // heads that share keys and values in groups.
    "softmax_attention:n=300,d=64,e=64,causal=1,window_left=100",
    "softmax_attention:n=300,d=64,e=64,causal=0,window_left=20,window_right=90",
    "softmax_attention:n_q=300,n_k=200,d=64,e=64,causal=1,window_left=30,"
    "query_offset=-40",
    "softmax_attention:n=300,d=64,e=64,softcap=0.75,with=bias,input=masked",
    "softmax_attention:n=300,d=19,e=130,heads=3,per_head=1,with=sinks+slopes+"
    "lse",
    "softmax_attention:n=300,d=64,e=64,heads=6,leading=k:2+v:2,causal=1",
    "softmax_attention:n_q=1,n_k=1000,d=64,e=64,heads=4,leading=k:2+v:2,"
    "query_offset=999,causal=1,window_left=700,with=sinks+slopes+lse",
    "softmax_attention:n_q=20,n_k=1000,d=64,e=64,softcap=5,with=sinks+lse",
    "softmax_attention:n_q=20,n_k=1000,d=64,e=64,query_offset=-10,causal=1,"
    "with=lse",
    "sparse_attention:n=1100,d=9,e=6,heads=2,pattern=longformer,window=3,"
    "dilation=2,globals=700+0+1099,causal=0",
    "sparse_attention:n=1100,d=9,e=70,pattern=bigbird,block=20,"
    "window_blocks=1,global_blocks=1,causal=1",
    "sparse_attention:n=200,d=9,e=6,pattern=sliding,window=2,dilation=7",
    "sparse_attention:n=300,d=9,e=6,pattern=local,block=100,causal=1",
    "sparse_attention:n=300,d=9,e=6,pattern=periodic_full,window=3,stride=70",
    "sparse_attention:n=90,d=9,e=6,pattern=periodic_full,window=3,stride=99",
    "sparse_attention:n=300,d=9,e=6,pattern=strided,window=3,stride=50",
    "linformer_attention:n_q=3,n_k=1100,p=70,d=70,e=130,heads=2",
    "linformer_attention:n=1030,p=5,e=8,heads=2,per_head=1",
    // Products whose sums have several parts.
    "toeplitz_1d:n_q=3,n_k=33000,e=2",
    "linformer_attention:n_q=3,n_k=33000,p=2,e=3,d=3",
};

TEST(CudaMore, PassesCasesOfOnePath) {
  if (!Device().present) GTEST_SKIP() << Device().why_not;
  Passed passed;
  for (const char* id : kMoreCases) {
    CaseRequest request = ParseCaseId(id);
    const Operator& op = *request.op;
    for (const Scalar scalar : kStored) {
      request.scalar = scalar;
      VerifyOnDevice(op, MakeCase(request), passed);
    }
  }
  EXPECT_GE(passed.size(), 3 * std::size(kMoreCases) / 4);
}

// Counts operations, 2 n^2 (d + parts e), because the verdicts above cannot
// tell two parts from three.
TEST(CudaMore, WeightsOfFewKeysHaveThreeParts) {
  if (!Device().present) GTEST_SKIP() << Device().why_not;
  const Implementation& one =
      FindImplementation("softmax_attention", "tensor_cores", Backend::kCuda);
  const auto flops = [&](const std::string& sizes, Scalar scalar) {
    CaseRequest request = ParseCaseId("softmax_attention:d=64,e=64," + sizes);
    request.scalar = scalar;
    return one.CostOf(ProblemOf(MakeCase(request)), 1).flops;
  };
  const auto expected = [](double pairs, int parts) {
    return 2 * pairs * (64 + 64 * parts);
  };
  EXPECT_EQ(flops("n=255,causal=0", Scalar::kBFloat16), expected(255 * 255, 3));
  EXPECT_EQ(flops("n=256,causal=0", Scalar::kBFloat16), expected(256 * 256, 2));
  EXPECT_EQ(flops("n=255,causal=0", Scalar::kFloat16), expected(255 * 255, 2));
  // The first 256 queries see few keys, the last 64 at least 257.
  EXPECT_EQ(flops("n=320,causal=1", Scalar::kBFloat16),
            expected(64 * (64 + 128 + 192 + 256), 3) + expected(64 * 320, 2));
}

// ---- hard inputs

// A row of device_limits in known_limits.json.
struct DeviceLimit {
  std::string op, implementation, input;
  std::vector<std::string> with;  // choices of parameters, any of them
  bool everywhere;                // or on some devices only, depending on their
                                  // order of sums

  bool Covers(const Implementation& candidate, const Case& test_case) const {
    return candidate.op == op && candidate.id == implementation &&
           test_case.input == input &&
           (with.empty() || std::ranges::any_of(with, [&](const auto& choice) {
              return test_case.Id().find(choice + ",") != std::string::npos;
            }));
  }
};

const std::vector<DeviceLimit>& DeviceLimits() {
  static const std::vector<DeviceLimit> limits = [] {
    std::vector<DeviceLimit> rows;
    const Json table = Json::parse(Slurp(
        fs::path(kSourceFolder) / "tests/harness/judging/known_limits.json"));
    for (const Json& row : table.at("device_limits"))
      for (const Json& input : row.at("input"))
        for (const Json& implementation : row.at("implementation"))
          rows.push_back({row.at("operator"), implementation, input,
                          row.value("with", std::vector<std::string>()),
                          row.value("everywhere", true)});
    return rows;
  }();
  return limits;
}

// Returns what fails on these inputs; if the formula has no value for them,
// nothing fails.
std::vector<std::pair<const Implementation*, std::string>> FailuresOf(
    const Case& test_case,
    const std::function<bool(const Implementation&)>& wanted) {
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  std::vector<std::pair<const Implementation*, std::string>> failures;
  try {
    trial.answer();
  } catch (const InvalidInput&) {
    return failures;  // the formula has no value for these inputs
  }
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (!OnDevice(*implementation) || !wanted(*implementation) ||
        !WhyNot(*implementation, problem).empty())
      continue;
    const Verdict verdict = Verify(*implementation, trial, {});
    if (verdict.outcome == Outcome::kFailed)
      failures.emplace_back(implementation, verdict.reason);
  }
  return failures;
}

// Inputs that hardly fit into float32 are equally large for every
// implementation.
constexpr const char* kBeyondFloat32 = "huge";

// Judges in float32, and implementations without float32 in bfloat16.
TEST_P(Cuda, PassesHardInputsOrSaysWhichNot) {
  const Operator& op = *GetParam();
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kBFloat16}) {
    const auto judged_in_it = [&](const Implementation& implementation) {
      return scalar == Scalar::kFloat32 ||
             !std::ranges::count(implementation.scalars, Scalar::kFloat32);
    };
    if (std::ranges::none_of(
            ImplementationsOf(op), [&](const Implementation* implementation) {
              return OnDevice(*implementation) && judged_in_it(*implementation);
            }))
      continue;
    for (const HardInput& kind : HardInputs()) {
      if (kind.name == kBeyondFloat32) continue;
      for (Case test_case : SomeOf(VerificationCases(op, {3, 48}, scalar, 1),
                                   Scalar::kFloat32, 8)) {
        if (test_case.Tokens() > 143) continue;
        test_case.input = kind.name;
        for (const auto& [implementation, reason] :
             FailuresOf(test_case, judged_in_it))
          EXPECT_TRUE(std::ranges::any_of(DeviceLimits(),
                                          [&](const DeviceLimit& limit) {
                                            return limit.Covers(*implementation,
                                                                test_case);
                                          }))
              << implementation->id << " " << test_case.Id() << ": " << reason;
      }
    }
  }
}

// A limit that no longer occurs must be removed from the table.
TEST(CudaMore, LimitsOfTheDeviceHappen) {
  if (!Device().present) GTEST_SKIP() << Device().why_not;
  EXPECT_TRUE(std::ranges::any_of(DeviceLimits(), &DeviceLimit::everywhere));
  for (const DeviceLimit& limit : DeviceLimits()) {
    if (!limit.everywhere) continue;
    const std::vector<Case> all =
        VerificationCases(FindOperator(limit.op), {3, 48}, Scalar::kFloat32, 1);
    const auto happens = [&](const std::vector<Case>& cases) {
      for (Case test_case : cases) {
        test_case.input = limit.input;
        for (const auto& [implementation, reason] :
             FailuresOf(test_case, OnDevice))
          if (limit.Covers(*implementation, test_case)) return true;
      }
      return false;
    };
    // Most limits occur in the sample above already.
    EXPECT_TRUE(happens(SomeOf(all, Scalar::kFloat32, 8)) || happens(all))
        << limit.op << " " << limit.implementation << " " << limit.input;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Cuda, testing::ValuesIn(OperatorsOnDevice()),
                         OperatorId);

}  // namespace

// Test names must not depend on where an operator lies in memory.
}  // namespace subquad
