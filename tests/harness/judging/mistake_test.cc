// Mistakes alter a view of the problem: they copy only what they change, and
// their answers do not depend on what is evaluated beside them.
#include "harness/judging/mistake.h"

#include <gtest/gtest.h>

#include "harness/cases/generate.h"
#include "harness/judging/mistakes.h"

namespace subquad {
namespace {

struct Subjects {
  explicit Subjects(const std::string& id)
      : test_case(MakeCase(ParseCaseId(id))),
        problem(ProblemOf(test_case)),
        inputs(GenerateInputs(test_case, problem)) {}

  const Case test_case;
  const Problem problem;
  const Inputs inputs;
};

TEST(AlteredProblem, CopiesOnlyTensorsThatChange) {
  const Subjects right("softmax_attention:n=8,d=4,e=4,heads=2,with=bias");
  AlteredProblem altered(right.problem, right.inputs);
  EXPECT_FALSE(altered.changed);
  Tensor& bias = altered.Change("bias");
  const double before = bias.values[3];
  bias.values[3] += 1;
  EXPECT_TRUE(altered.changed);
  EXPECT_EQ(&altered.Change("bias"), &bias);
  EXPECT_EQ(&altered.inputs["bias"], &bias);
  EXPECT_EQ(right.inputs["bias"].values[3], before);
  for (const char* name : {"q", "k", "v"})
    EXPECT_EQ(&altered.inputs[name], &right.inputs[name]) << name;
}

TEST(AlteredProblem, MayHaveOtherShapes) {
  const Subjects right("softmax_attention:n=8,d=4,e=4");
  AlteredProblem altered(right.problem, right.inputs);
  for (const char* name : {"k", "v"}) {
    Tensor& tensor = altered.Change(name);
    tensor.shape.front() = 5;
    tensor.values.resize(20);
  }
  altered.Resolve(right.problem.params);
  EXPECT_EQ(altered.problem.keys, 5);
  EXPECT_EQ(altered.problem.queries, 8);
  Params params = right.problem.params;
  params.Set("height", int64_t{2});
  EXPECT_THROW(altered.Resolve(params), InvalidInput);
}

// The whole table is evaluated by several threads, a single mistake by one.
TEST(Mistakes, DoNotDependOnEachOther) {
  const Subjects right(
      "softmax_attention:n=512,d=16,e=16,heads=2,causal=1,with=bias");
  const Answer answer = ComputeAnswer(right.problem, right.inputs, 1);
  const std::vector<WrongAnswer> all =
      MisreadAnswers(right.problem, right.inputs, answer);
  EXPECT_GE(all.size(), 10u);
  for (const WrongAnswer& expected : all) {
    const std::vector<WrongAnswer> alone = MisreadAnswers(
        right.problem, right.inputs, answer, kMisreadRows, {expected.name});
    ASSERT_EQ(alone.size(), 1u) << expected.name;
    EXPECT_EQ(alone.front().name, expected.name);
    ASSERT_EQ(alone.front().parts.front().rows, expected.parts.front().rows);
    for (size_t r = 0; r < expected.parts.front().rows.size(); ++r)
      for (int64_t c = 0; c < 16; ++c)
        EXPECT_EQ(alone.front().parts.front().value(r, c),
                  expected.parts.front().value(r, c))
            << expected.name << " " << r << " " << c;
  }
}

}  // namespace
}  // namespace subquad
