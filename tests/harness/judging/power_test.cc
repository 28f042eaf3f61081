// The power of a test: the mistakes that a tolerance accepts are counted
// correctly, compared with values computed here, and each kind of advice is
// given where it helps and works as promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/cases/generate.h"
#include "harness/judging/operator_run.h"
#include "harness/judging/power_advice.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

constexpr double kWork = 3e8;

OwnTest TestOf(const std::string& id, AllClose tolerance) {
  OwnTest test;
  const Case test_case = MakeCase(ParseCaseId(id));
  test.problem = ProblemOf(test_case);
  test.inputs = GenerateInputs(test_case, test.problem);
  test.tolerance = tolerance;
  return test;
}

OwnTest TestOf(const std::string& id) {
  return TestOf(id, AllClose::DefaultOf(MakeCase(ParseCaseId(id)).scalar));
}

// Adds gradients to the test; `incoming` fills the incoming gradient.
OwnTest WithGradients(OwnTest test, const std::string& id, double incoming) {
  const Case test_case = MakeCase(ParseCaseId(id + ",backward=1"));
  test.backward = ProblemOf(test_case);
  test.backward_inputs = GenerateInputs(test_case, *test.backward);
  const auto grad = static_cast<size_t>(test.backward->InputIndex("grad"));
  std::ranges::fill(test.backward_inputs.tensors[grad].values, incoming);
  return test;
}

void Fill(OwnTest& test, const std::string& input, double value) {
  const auto at = static_cast<size_t>(test.problem.InputIndex(input));
  std::ranges::fill(test.inputs.tensors[at].values, value);
}

std::vector<std::string> Accepted(const Power& power) {
  std::vector<std::string> names;
  for (const TriedAnswer& answer : power.tried)
    if (answer.accepted()) names.push_back(answer.name);
  return names;
}

const TriedAnswer& Find(const Power& power, const std::string& name) {
  const auto it = std::ranges::find(power.tried, name, &TriedAnswer::name);
  if (it == power.tried.end()) throw std::runtime_error("no " + name);
  return *it;
}

constexpr const char* kBias =
    "softmax_attention:n=140,d=8,e=8,heads=2,with=bias";

TEST(AllClose, IsTheErrorOverTheTolerance) {
  const AllClose tolerance{.relative = 0.5, .absolute = 1};
  EXPECT_EQ(tolerance.Over(7, 4), 1);
  EXPECT_EQ(tolerance.Over(-2, -2), 0);
  EXPECT_TRUE(std::isinf(tolerance.Over(std::nan(""), 1)));
  EXPECT_TRUE(std::isinf(tolerance.Over(HUGE_VAL, 1)));
  EXPECT_EQ(AllClose{}.Over(3, 3), 0);
  EXPECT_TRUE(std::isinf(AllClose{}.Over(3, 4)));
}

TEST(Power, ATestThatSeesEverythingAcceptsNothing) {
  OwnTest test = TestOf(kBias);
  const Power power = PowerOf(test, kWork).out;
  EXPECT_EQ(Accepted(power), std::vector<std::string>{});
  EXPECT_GT(power.tried.size(), 20u);
  EXPECT_TRUE(power.all_rows);
  EXPECT_EQ(power.rows, 280);
  EXPECT_GT(power.right, 0);
  EXPECT_LT(power.right, 1);
}

// A constant output can be shifted without effect; the other distances are
// computed here.
TEST(Power, TheDistancesAreThoseOfTheOutputs) {
  OwnTest test = TestOf(kBias, {.relative = 0.25, .absolute = 0.5});
  Fill(test, "v", 2);
  const Power power = PowerOf(test, kWork).out;
  EXPECT_NEAR(Find(power, "all zero").over, 2, 1e-12);
  EXPECT_NEAR(Find(power, "sign flipped").over, 4, 1e-12);
  EXPECT_NEAR(Find(power, "scaled by 1.001").over, 0.002, 1e-6);
  for (const char* blind : {"rows shifted by one", "another head's rows",
                            "bias left out", "another head's v"})
    EXPECT_TRUE(Find(power, blind).same) << blind;
  EXPECT_FALSE(Find(power, "all zero").same);
  EXPECT_TRUE(std::isinf(Find(power, "last row left out").over));
}

// A factor of 1.001 is below the rounding error of 16-bit types, so a larger
// one is tried.
TEST(Power, AFactorIsLargerThanRounding) {
  OwnTest test = TestOf(std::string(kBias) + ",scalar=bfloat16",
                        {.relative = 0.04, .absolute = 0});
  const Power power = PowerOf(test, kWork).out;
  EXPECT_EQ(Accepted(power), std::vector<std::string>{"scaled by 1.02"});
  for (const TriedAnswer& answer : power.tried)
    EXPECT_NE(answer.name, "scaled by 1.001");
}

// Shapes that make a mistake equal to the right answer are reported with shapes
// that do not, and other shapes reveal the same mistake.
TEST(Power, ShapesThatHideAMistake) {
  struct Hidden {
    const char *hiding, *revealing, *mistake, *shapes;
  };
  const Hidden list[] = {
      {"softmax_attention:n=40,d=8,e=8,causal=1",
       "softmax_attention:n_q=30,n_k=40,d=8,e=8,causal=1",
       "causal mask aligned at the last query and key instead of the first",
       "n_q < n_k"},
      {"sparse_attention:n=40,d=8,e=8,pattern=sliding,window=40,dilation=1",
       "sparse_attention:n=40,d=8,e=8,pattern=sliding,window=5,dilation=1",
       "window too large by 1", "window"},
      {"softmax_attention:n=20,d=8,e=8,heads=16,leading=k:4+v:4",
       "softmax_attention:n=20,d=8,e=8,heads=6,leading=k:2+v:2",
       "head divided by the number of key heads (h // h_k)", "6 heads over 2"},
      {"toeplitz_2d:height=5,width=5,e=4", "toeplitz_2d:height=6,width=5,e=4",
       "rows of weights counted with 2*height-1 for 2*width-1", "height"},
      {"softmax_attention:n=20,d=8,e=8,heads=1",
       "softmax_attention:n=20,d=8,e=8,heads=2",
       "every head reads k and v of the first one", "heads"},
      {"softmax_attention:n=20,d=8,e=8,batch=2,key_lengths=20+20",
       "softmax_attention:n=20,d=8,e=8,batch=2,key_lengths=20+11",
       "key_lengths left out", "key length"},
      {"softmax_attention:n=20,d=8,e=8,batch=2,key_lengths=20+20",
       "softmax_attention:n=20,d=8,e=8,batch=2,key_lengths=20+11",
       "key_lengths too large by 1", "key length"},
      {"softmax_attention:d=8,e=8,causal=1,packed_q=9+11,packed_k=12+15,"
       "query_offset=3+3",
       "softmax_attention:d=8,e=8,causal=1,packed_q=9+11,packed_k=12+15,"
       "query_offset=3+4",
       "query_offset of the first packed sequence for all", "query_offset"}};
  for (const Hidden& hidden : list) {
    const OwnTest blind = TestOf(hidden.hiding);
    const TestPower power = PowerOf(blind, kWork);
    const TriedAnswer& answer = Find(power.out, hidden.mistake);
    EXPECT_TRUE(answer.accepted() && answer.same) << hidden.hiding;
    EXPECT_NE(answer.revealing_shapes.find(hidden.shapes), std::string::npos)
        << hidden.hiding << ": " << answer.revealing_shapes;
    EXPECT_EQ(AdviseOn(blind, power, kWork).still_accepted,
              std::vector<std::string>{})
        << hidden.hiding;
    const Power able = PowerOf(TestOf(hidden.revealing), kWork).out;
    const TriedAnswer& seen = Find(able, hidden.mistake);
    EXPECT_FALSE(seen.accepted()) << hidden.revealing;
    EXPECT_EQ(seen.revealing_shapes, "") << hidden.revealing;
  }
}

TEST(Power, ABiasOfZerosHidesEveryMistakeAboutIt) {
  OwnTest test = TestOf(kBias);
  Fill(test, "bias", 0);
  const TestPower power = PowerOf(test, kWork);
  const std::vector<std::string> accepted = Accepted(power.out);
  for (const char* blind :
       {"bias left out", "bias shifted by 1", "offset i - j for j - i"}) {
    EXPECT_TRUE(std::ranges::count(accepted, blind)) << blind;
    EXPECT_TRUE(Find(power.out, blind).same) << blind;
    EXPECT_LT(Find(power.out, blind).ours, 1) << blind;
  }
  EXPECT_FALSE(std::ranges::count(accepted, "a tile of keys left out"));
  const Advice advice = AdviseOn(test, power, kWork);
  EXPECT_EQ(advice.changes,
            std::vector<std::string>{"bias drawn from N(0, 1)"});
  EXPECT_TRUE(advice.still_accepted.empty());
  EXPECT_EQ(advice.tolerance.absolute, test.tolerance.absolute);
}

TEST(Power, AConstantGradientOfAMeanHidesThemAll) {
  OwnTest test = WithGradients(TestOf(kBias, {0, 3e-4}), kBias, 1e-6);
  const TestPower power = PowerOf(test, kWork);
  EXPECT_EQ(Accepted(power.out), std::vector<std::string>{});
  const std::vector<std::string> accepted = Accepted(*power.gradients);
  for (const char* blind : {"all zero (grad_q)", "sign flipped (grad_bias)",
                            "bias left out", "scale left out of grad_q"})
    EXPECT_TRUE(std::ranges::count(accepted, blind)) << blind;
  // A gradient row that is never written is detected nevertheless.
  EXPECT_FALSE(std::ranges::count(accepted, "last row left out (grad_q)"));
  const Advice advice = AdviseOn(test, power, kWork);
  EXPECT_EQ(advice.changes, std::vector<std::string>{
                                "a random cotangent: grad drawn from N(0, 1)"});
  EXPECT_TRUE(advice.still_accepted.empty());
}

// Following the advice works as promised.
TEST(Advice, CorrectProgramsMeetATighterTolerance) {
  OwnTest test = TestOf(kBias, {0, 0.5});
  const TestPower power = PowerOf(test, kWork);
  ASSERT_FALSE(Accepted(power.out).empty());
  const Advice advice = AdviseOn(test, power, kWork);
  ASSERT_EQ(advice.changes.size(), 1u);
  EXPECT_EQ(advice.changes.front().find("a tighter tolerance: rtol 0, atol "),
            0u);
  test.tolerance = advice.tolerance;
  const Power after = PowerOf(test, kWork).out;
  EXPECT_EQ(Accepted(after), std::vector<std::string>{});
  EXPECT_LE(after.right, 0.5);
  EXPECT_GT(after.right, 0.1);
}

TEST(Advice, AToleranceThatRefusesCorrectOutputsIsWidened) {
  OwnTest test = TestOf(std::string(kBias) + ",scalar=bfloat16", {0, 1e-6});
  Fill(test, "bias", 0);
  const TestPower power = PowerOf(test, kWork);
  EXPECT_GT(power.out.right, 100);
  const Advice advice = AdviseOn(test, power, kWork);
  ASSERT_EQ(advice.changes.size(), 3u);
  EXPECT_EQ(advice.changes.back().find("a wider tolerance: rtol 0, atol "), 0u);
  EXPECT_GT(advice.tolerance.absolute, 1e-4);
  EXPECT_LT(advice.tolerance.absolute, 1e-1);
}

// The first rows of a causal problem see the first keys only: they do not
// change when keys and a bias by offset are cut around offset zero.
TEST(Advice, TheFirstKeysAreTheFirstRows) {
  const OwnTest test = TestOf(std::string(kBias) + ",causal=1,scalar=float64");
  constexpr int64_t kMost = 20;
  const auto part = FirstKeys(test.problem, test.inputs, kMost);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->problem.keys, kMost);
  const auto whole =
      test.problem.op->ReferenceDouble(test.problem, test.inputs);
  const auto first =
      part->problem.op->ReferenceDouble(part->problem, part->inputs);
  std::vector<double> expected(8), actual(8);
  for (const int64_t head : {0, 1})
    for (int64_t row = 0; row < kMost; ++row) {
      whole->Row({0, head, row}, expected.data(), nullptr);
      first->Row({0, head, row}, actual.data(), nullptr);
      EXPECT_EQ(actual, expected) << head << " " << row;
    }
  const OwnTest image = TestOf("toeplitz_2d:n=64,e=4");
  EXPECT_FALSE(FirstKeys(image.problem, image.inputs, 8));
}

// A tile is a small part of many keys with similar weights.
TEST(Advice, FewerKeysRevealATile) {
  OwnTest test = TestOf("softmax_attention:n=2000,d=4,e=4,scalar=bfloat16",
                        {.relative = 0, .absolute = 0.02});
  std::vector<Tensor>& tensors = test.inputs.tensors;
  for (double& value : tensors[0].values) value /= 4;    // of q
  for (double& value : tensors[2].values) value += 1.5;  // of v: shows factors
  const TestPower power = PowerOf(test, kWork);
  EXPECT_EQ(Accepted(power.out),
            (std::vector<std::string>{"last tile of keys left out",
                                      "a tile of keys left out",
                                      "a tile of keys twice"}));
  const Advice advice = AdviseOn(test, power, kWork);
  ASSERT_EQ(advice.changes.size(), 1u);
  EXPECT_TRUE(advice.changes.front().starts_with("fewer keys: "))
      << advice.changes.front();
  EXPECT_TRUE(advice.still_accepted.empty());
}

TEST(Power, PairsOfManyRowsAreSampled) {
  OwnTest test = TestOf("softmax_attention:n=3000,d=4,e=4,heads=2");
  const Power power = PowerOf(test, 1e7).out;
  EXPECT_FALSE(power.all_rows);
  EXPECT_GE(power.rows, 16);
  EXPECT_LT(power.rows, 400);
  // Only adjacent rows can be confused with each other.
  EXPECT_GT(Find(power, "rows shifted by one").over, 1);
  EXPECT_GT(Find(power, "another head's rows").over, 1);
}

class PowerOfOperator : public testing::TestWithParam<const Operator*> {};

// All operators have wrong answers, our tolerance refuses most of them, and
// correct programs are nearer than any answer that it refuses.
TEST_P(PowerOfOperator, RightProgramsAreNearerThanWrongOnes) {
  CaseRequest request;
  request.op = GetParam();
  request.n = 144;
  const Case test_case = MakeCase(request);
  OwnTest test;
  test.problem = ProblemOf(test_case);
  test.inputs = GenerateInputs(test_case, test.problem);
  test.tolerance = {.relative = 0, .absolute = 1e-4};
  const Power power = PowerOf(test, 1e8).out;
  EXPECT_GE(power.tried.size(), 5u);
  EXPECT_GT(power.right, 0);
  for (const TriedAnswer& wrong : power.tried)
    if (wrong.ours > 8) {
      EXPECT_GT(wrong.over, power.right) << wrong.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, PowerOfOperator,
                         testing::ValuesIn(Operators()), OperatorId);

}  // namespace
}  // namespace subquad
