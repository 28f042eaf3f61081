// Generated inputs, and the ids of cases.
#include "harness/cases/generate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/cases/verification.h"
#include "harness/judging/comparison.h"
#include "harness/registry/registry.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Case CaseOf(const std::string& id) { return MakeCase(ParseCaseId(id)); }

// The known answers of Philox4x32-10 in Random123's kat_vectors.
TEST(Generator, PhiloxGivesItsKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(PhiloxWords({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(PhiloxWords({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(PhiloxWords({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                        {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Generator, DrawsDependOnSeedAndNameAndIndexAlone) {
  const Draws draws(7, "toeplitz_1d/values");
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double z = draws.Normal(static_cast<uint64_t>(i));
    sum += z;
    squares += z * z;
    const double u = draws.Uniform(static_cast<uint64_t>(i));
    EXPECT_TRUE(u > 0 && u < 1);
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_EQ(draws.Normal(12345), Draws(7, "toeplitz_1d/values").Normal(12345));
  EXPECT_NE(draws.Normal(1), Draws(8, "toeplitz_1d/values").Normal(1));
  EXPECT_NE(draws.Normal(1), Draws(7, "toeplitz_1d/weights").Normal(1));
  EXPECT_NE(draws.Normal(1), draws.Normal(2));
}

// GenerateInputs uses all cores; a single thread must draw the same values.
TEST(Generator, InputsDoNotDependOnThreads) {
  const Case test_case =
      CaseOf("toeplitz_1d:n=3000,e=17,scalar=float64,seed=5");
  const Problem problem = ProblemOf(test_case);
  const Inputs inputs = GenerateInputs(test_case, problem);
  for (const Tensor& tensor : inputs.tensors) {
    const Draws draws(test_case.seed, test_case.DrawId() + "/" + tensor.name);
    for (size_t i = 0; i < tensor.values.size(); i += 97)
      EXPECT_EQ(tensor.values[i], draws.Normal(i)) << tensor.name << " " << i;
  }
  Case narrow = test_case;
  narrow.scalar = Scalar::kFloat32;
  const Inputs rounded = GenerateInputs(narrow, ProblemOf(narrow));
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(rounded["values"].values[i],
              static_cast<float>(inputs["values"].values[i]));
}

// An operator may have its own distribution: of a random number, or of the
// place alone.
TEST(Generator, ARuleMayDrawItsOwnNumbers) {
  const Case test_case =
      CaseOf("toeplitz_1d:n=40,e=3,heads=2,per_head=1,scalar=float64");
  Problem problem = ProblemOf(test_case);
  problem.inputs[0].draw = {Draw::From::kUniform, [](double u, const Element&) {
                              return 0.9 + 0.1 * u;
                            }};
  problem.inputs[1].draw = {
      Draw::From::kInput, [](double, const Element& element) {
        return static_cast<double>(100 * element.index + element.shape.back());
      }};
  const Inputs inputs = GenerateInputs(test_case, problem);
  const Draws draws(test_case.seed, test_case.DrawId() + "/weights");
  const std::vector<double>& weights = inputs["weights"].values;
  ASSERT_EQ(weights.size(), 2u * 79u);
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i], 0.9 + 0.1 * draws.Uniform(i));
  const std::vector<double>& values = inputs["values"].values;
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<double>(100 * (i % 120) + 3));
}

TEST(Generator, RoundingToNarrowTypes) {
  struct Row {
    double value, bfloat16, float16;
  };
  const Row rows[] = {
      {0, 0, 0},
      {1, 1, 1},
      {-2.5, -2.5, -2.5},
      {1 + 0x1p-8, 1, 1 + 0x1p-8},                   // tie to even, down
      {1 + 3 * 0x1p-8, 1 + 0x1p-6, 1 + 3 * 0x1p-8},  // tie to even, up
      {1 + 0x1p-11, 1, 1},                           // a tie in float16
      {1 + 3 * 0x1p-11, 1, 1 + 0x1p-9},
      {1 + 0x1p-11 + 0x1p-20, 1, 1 + 0x1p-10},
      {1.0 / 3, 0x1.56p-2, 0x1.554p-2},
      {65504, 65536, 65504},  // float16's largest
      {65519, 65536, 65504},
      {65520, 65536, kInfinity},
      {-70000, -70144, -kInfinity},
      {0x1p-14, 0x1p-14, 0x1p-14},  // float16's smallest normal value
      {0x1p-24, 0x1p-24, 0x1p-24},  // its smallest subnormal value
      {0x1p-25, 0x1p-25, 0},        // half of that: rounds to even
      {0x1.8p-25, 0x1.8p-25, 0x1p-24},
      {5 * 0x1p-26, 5 * 0x1p-26, 0x1p-24},
      {3e38, 0x1.c4p127, kInfinity},
      {kInfinity, kInfinity, kInfinity},
      {-kInfinity, -kInfinity, -kInfinity},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(RoundTo(Scalar::kBFloat16, row.value), row.bfloat16) << row.value;
    EXPECT_EQ(RoundTo(Scalar::kFloat16, row.value), row.float16) << row.value;
  }
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kBFloat16, std::nan(""))));
  EXPECT_TRUE(std::isnan(RoundTo(Scalar::kFloat16, std::nan(""))));
  EXPECT_EQ(RoundTo(Scalar::kFloat32, 1e300), kInfinity);
}

// Every value of a 16-bit type survives storage.
TEST(Generator, NarrowValuesSurviveStorage) {
  for (Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint16_t stored = static_cast<uint16_t>(bits);
      const double value = ElementAt(scalar, &stored, 0);
      if (std::isnan(value)) continue;
      EXPECT_EQ(RoundTo(scalar, value), value) << bits;
      uint16_t again = 0;
      StoreAt(scalar, value, &again, 0);
      EXPECT_EQ(again, stored) << Info(scalar).name << " " << value;
    }
}

// A quarter of one token is rounded up to one token.
TEST(VerificationCases, ExistForFewTokens) {
  for (const Operator* op : Operators())
    for (const int64_t n : {1, 2, 3})
      for (const Case& test_case :
           VerificationCases(*op, {n}, Scalar::kFloat32, 1)) {
        SCOPED_TRACE(test_case.Id());
        EXPECT_NO_THROW(ProblemOf(test_case));
      }
}

TEST(CaseIds, EveryVerificationCaseRoundTrips) {
  for (const Operator* op : Operators())
    for (const ScalarInfo& info : kScalars)
      for (const Case& test_case :
           VerificationCases(*op, AwkwardSizes(), info.scalar, 11)) {
        for (const char* input : {"normal", "wide"}) {
          Case varied = test_case;
          varied.input = input;
          const std::string id = varied.Id();
          const Case back = MakeCase(ParseCaseId(id));
          ASSERT_EQ(back.Id(), id);
          EXPECT_EQ(back.sizes, varied.sizes) << id;
          EXPECT_EQ(back.params, varied.params) << id;
          EXPECT_EQ(back.leading.heads, varied.leading.heads) << id;
          EXPECT_EQ(back.leading.per_head, varied.leading.per_head) << id;
          EXPECT_EQ(back.backward, varied.backward) << id;
          EXPECT_EQ(back.with, varied.with) << id;
          EXPECT_EQ(back.seed, varied.seed) << id;
          EXPECT_EQ(ProblemOf(back).params, ProblemOf(varied).params) << id;
        }
      }
}

TEST(CaseIds, TheLargestSeedIsAccepted) {
  const std::string id =
      "toeplitz_1d:n=4,e=3,causal=0,scalar=float64,seed=9223372036854775807";
  EXPECT_EQ(CaseOf(id).Id(), id);
}

// Where all gradients cannot be computed from a full cotangent, generated ones
// are zero but in a few rows, some of them at the edges of tiles.
TEST(GenerateInputs, ThinOutCotangentsOfLargeProblems) {
  const auto rows_of = [](const std::string& id) {
    const Case test_case = MakeCase(ParseCaseId(id));
    const Problem problem = ProblemOf(test_case);
    const Tensor grad = GenerateInputs(test_case, problem)["grad"];
    const int64_t width = grad.shape.back();
    std::set<int64_t> rows;
    for (int64_t i = 0; i < std::ssize(grad.values); ++i)
      if (grad.values[static_cast<size_t>(i)] != 0) rows.insert(i / width);
    EXPECT_EQ(std::ssize(rows),
              RowsWithCotangent(problem) / problem.heads * problem.heads);
    return rows;
  };
  const std::string op = "linear_attention:feature_map=elu1,backward=1,d=64,";
  EXPECT_EQ(rows_of(op + "n=64").size(), 64u);
  const std::set<int64_t> few = rows_of(op + "n=65536,heads=2");
  EXPECT_LT(few.size(), 2000u);
  for (const int64_t row : {0, 63, 64, 32767, 32768, 65535, 65536})
    EXPECT_TRUE(few.contains(row)) << row;
}

}  // namespace
}  // namespace subquad
