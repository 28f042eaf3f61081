// The arithmetic that tests and the baseline select, and its purpose: an
// implementation that multiplies or adds in fewer digits than its type has is
// refused for every operator.
#include "reference/base/emulated.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

constexpr Arithmetic kFloat32 = {};

Arithmetic WithResults(Format format) { return {format, format, format}; }

TEST(Emulated, RoundsAsFloat32Does) {
  const ArithmeticScope scope(kFloat32, 1);
  const Draws draws(1, "emulated");
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto scale = std::ldexp(1.0, static_cast<int>(i % 280) - 140);
    const auto x = static_cast<float>(draws.Normal(2 * i) * scale);
    const auto y = static_cast<float>(draws.Normal(2 * i + 1));
    const auto is = [](Emulated actual, float expected) {
      EXPECT_EQ(static_cast<long double>(actual),
                static_cast<long double>(expected));
    };
    is(Emulated(x) * Emulated(y), x * y);
    is(Emulated(x) + Emulated(y), x + y);
    is(Emulated(x) - Emulated(y), x - y);
    is(Emulated(x) / Emulated(y), x / y);
  }
  EXPECT_TRUE(std::isinf(Emulated(3e38f) * Emulated(2)));
}

TEST(Emulated, RoundsToNarrowTypes) {
  const auto rounded = [](double x, const Format& format) {
    const ArithmeticScope scope(WithResults(format), 1);
    return static_cast<double>(static_cast<long double>(Emulated(x)));
  };
  const Draws draws(2, "emulated");
  for (uint64_t i = 0; i < 2000; ++i) {
    const double x =
        draws.Normal(i) * std::ldexp(1.0, static_cast<int>(i % 40) - 25);
    EXPECT_EQ(rounded(x, Format::BFloat16()), RoundTo(Scalar::kBFloat16, x));
    EXPECT_EQ(rounded(x, Format::Float16()), RoundTo(Scalar::kFloat16, x)) << x;
  }
  EXPECT_TRUE(std::isinf(rounded(65536, Format::Float16())));
  EXPECT_EQ(rounded(1 + 0x1p-10, Format::TensorFloat32()), 1 + 0x1p-10);
  EXPECT_EQ(rounded(1 + 0x1p-12, Format::TensorFloat32()), 1);
}

TEST(Emulated, RandomRoundingsAreRightOnAverageAndLeaveExactResultsAlone) {
  Arithmetic random = kFloat32;
  random.random = true;
  const ArithmeticScope scope(random, 7);
  constexpr int kDraws = 4000;
  int up = 0;
  for (int i = 0; i < kDraws; ++i) {
    const long double sum = Emulated(1) + Emulated(0x1p-25f);  // a quarter of
                                                               // the way up
    ASSERT_TRUE(sum == 1 || sum == 1 + 0x1p-23);
    up += sum > 1;
    ASSERT_EQ(static_cast<long double>(Emulated(1.5f) * Emulated(2.5f)), 3.75L);
  }
  // Five standard deviations of a binomial share.
  EXPECT_NEAR(up / double{kDraws}, 0.25, 5 * std::sqrt(0.25 * 0.75 / kDraws));
}

TEST(Emulated, ExactResultsAreMovedOnRequest) {
  Arithmetic random = kFloat32;
  random.random = random.exact_too = true;
  const ArithmeticScope scope(random, 7);
  constexpr int kDraws = 4000;
  int moved = 0, up = 0;
  for (int i = 0; i < kDraws; ++i) {
    const long double value = Emulated(1);
    ASSERT_LE(std::abs(value - 1), 0x1p-23L);
    moved += value != 1;
    up += value > 1;
    ASSERT_EQ(static_cast<long double>(Emulated(0) * Emulated(1)), 0);
  }
  // The displacement is uniform in (-1/2, 1/2) of a last place, a quarter on
  // average. Five standard deviations.
  EXPECT_NEAR(moved / double{kDraws}, 0.25,
              5 * std::sqrt(0.25 * 0.75 / kDraws));
  EXPECT_NEAR(up / double{kDraws}, 0.125,
              5 * std::sqrt(0.125 * 0.875 / kDraws));
}

TEST(Emulated, ScopesNest) {
  const ArithmeticScope outer(kFloat32, 1);
  {
    const ArithmeticScope inner(WithResults(Format::BFloat16()), 1);
    EXPECT_EQ(static_cast<long double>(Emulated(1 + 0x1p-20)), 1);
  }
  EXPECT_EQ(static_cast<long double>(Emulated(1 + 0x1p-20)), 1 + 0x1p-20L);
}

struct Planted {
  const char* name;
  Arithmetic arithmetic;
};

std::vector<Planted> PlantedFaults() {
  const auto factors = [](Format format) {
    Arithmetic arithmetic;
    arithmetic.factor = format;
    return arithmetic;
  };
  const auto sums = [](Format format) {
    Arithmetic arithmetic;
    arithmetic.sum = format;
    return arithmetic;
  };
  return {{"products of bfloat16", factors(Format::BFloat16())},
          {"products of TensorFloat32", factors(Format::TensorFloat32())},
          {"products of float16", factors(Format::Float16())},
          {"sums in bfloat16", sums(Format::BFloat16())},
          {"sums in TensorFloat32", sums(Format::TensorFloat32())},
          {"sums in float16", sums(Format::Float16())}};
}

// Writes the plain program's results in this arithmetic to the outputs.
void WriteAnswer(const Trial& trial, const Answer& answer, Inputs& inputs,
                 const Arithmetic& arithmetic) {
  const Problem& problem = trial.problem();
  const ArithmeticScope scope(arithmetic, 1);
  const auto reference = problem.op->ReferenceEmulated(problem, inputs);
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    std::vector<Emulated> row(static_cast<size_t>(layout.width));
    for (const RowId& id : output.selection.rows) {
      try {
        reference->Row(id, row.data(), nullptr);
      } catch (const InvalidInput&) {  // rounding cancelled a normaliser
        std::ranges::fill(row, Emulated(std::nan("")));
      }
      const int64_t first = (id.head * layout.rows + id.row) * layout.width;
      for (int64_t c = 0; c < layout.width; ++c)
        StoreAt(problem.scalar,
                static_cast<double>(row[static_cast<size_t>(c)]),
                trial.arrays().outputs[o].data, static_cast<size_t>(first + c));
    }
  }
}

class Precision : public testing::TestWithParam<const Operator*> {};

// Tests some variants of every operator at 256 tokens and more.
TEST_P(Precision, FewerDigitsInsideAFloat32ProgramAreCaught) {
  constexpr size_t kMostCases = 3;
  std::vector<Case> cases =
      VerificationCases(*GetParam(), {256}, Scalar::kFloat32, 1);
  std::erase_if(cases, [](const Case& test_case) {
    return test_case.Tokens() < 256 || test_case.leading.heads > 0 ||
           test_case.leading.batch > 0;
  });
  ASSERT_FALSE(cases.empty());
  const size_t step = (cases.size() + kMostCases - 1) / kMostCases;
  int cases_judged = 0;
  for (size_t i = 0; i < cases.size(); i += step) {
    const Case& test_case = cases[i];
    Problem problem = ProblemOf(test_case);
    Inputs inputs = GenerateInputs(test_case, problem);
    Inputs same = inputs;
    Trial trial(problem, std::move(inputs), test_case.seed);
    try {
      trial.answer();
    } catch (const InvalidInput&) {
      continue;  // a query has no feature in common with any key
    }
    ++cases_judged;
    std::vector<const Implementation*> able;
    for (const Implementation* implementation : ImplementationsOf(*GetParam()))
      if (WhyNot(*implementation, problem).empty())
        able.push_back(implementation);
    ASSERT_FALSE(able.empty()) << test_case.Id();
    WriteAnswer(trial, trial.answer(), same, kFloat32);
    // Algorithms with tighter bounds than the plain program's may refuse it.
    for (const Implementation* implementation : able)
      if (implementation->id == "dense") {
        EXPECT_TRUE(trial.JudgeOutputs(*implementation).passed())
            << test_case.Id();
      }
    for (const Planted& planted : PlantedFaults()) {
      WriteAnswer(trial, trial.answer(), same, planted.arithmetic);
      for (const Implementation* implementation : able) {
        const Verdict verdict = trial.JudgeOutputs(*implementation);
        EXPECT_EQ(verdict.outcome, Outcome::kFailed)
            << planted.name << ", " << implementation->id << " "
            << test_case.Id() << ": " << verdict.reason << " "
            << DistanceOf(verdict.comparison, false);
      }
    }
  }
  EXPECT_GT(cases_judged, 0);
}

INSTANTIATE_TEST_SUITE_P(Operators, Precision, testing::ValuesIn(Operators()),
                         OperatorId);

}  // namespace
}  // namespace subquad
