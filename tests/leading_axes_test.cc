// Batch items and heads that share tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/cases/case.h"
#include "harness/judging/operator_run.h"
#include "harness/registry/registry.h"
#include "reference/base/operator.h"

namespace subquad {
namespace {

std::vector<int64_t> All(const Slices& slices, int64_t heads) {
  std::vector<int64_t> read;
  for (int64_t head = 0; head < heads; ++head) read.push_back(slices.Of(head));
  return read;
}

TEST(LeadingAxes, SlicesOfEachHead) {
  using Read = std::vector<int64_t>;
  // Two batch items of four heads.
  EXPECT_EQ(All({2, 4, 2, 4}, 8), (Read{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(All({2, 4, 2, 2}, 8), (Read{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(All({2, 4, 2, 1}, 8), (Read{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(All({2, 4, 1, 4}, 8), (Read{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(All({2, 4, 1, 2}, 8), (Read{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(All({2, 4, 1, 1}, 8), (Read{0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(LeadingAxes, ReadersAndFirstReadersAgreeWithSlices) {
  for (int64_t batch : {1, 3})
    for (int64_t heads : {1, 2, 6})
      for (int64_t items : {int64_t{1}, batch})
        for (int64_t own : {1, 2, 3, 6}) {
          if (heads % own != 0) continue;
          const Slices slices(batch, heads, items, own);
          std::vector<int64_t> first, all;
          for (int64_t slice = 0; slice < slices.count(); ++slice) {
            const auto readers = slices.Readers(slice);
            ASSERT_FALSE(readers.empty());
            first.push_back(readers.front());
            for (int64_t head : readers) {
              EXPECT_EQ(slices.Of(head), slice);
              all.push_back(head);
            }
          }
          EXPECT_EQ(static_cast<int64_t>(all.size()), batch * heads);
          for (int64_t head = 0; head < batch * heads; ++head)
            EXPECT_EQ(slices.IsFirst(head),
                      std::ranges::count(first, head) > 0);
        }
}

Problem Resolve(const std::vector<GivenShape>& shapes) {
  return ResolveProblem(FindOperator("softmax_attention"), {}, Scalar::kFloat32,
                        shapes);
}

std::string Refusal(const std::vector<GivenShape>& shapes) {
  try {
    Resolve(shapes);
  } catch (const InvalidInput& refused) {
    return refused.what();
  }
  return "";
}

TEST(LeadingAxes, TheOutputHasTheLargest) {
  EXPECT_EQ(
      Resolve({{"q", {5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}}).OutputShape(0),
      (Shape{5, 3}));
  EXPECT_EQ(
      Resolve({{"q", {5, 4}}, {"k", {2, 7, 4}}, {"v", {7, 3}}}).OutputShape(0),
      (Shape{2, 5, 3}));
  const Problem problem = Resolve({{"q", {3, 4, 5, 4}},
                                   {"k", {1, 2, 7, 4}},
                                   {"v", {2, 7, 3}},
                                   {"bias", {11}}});
  EXPECT_EQ(problem.OutputShape(0), (Shape{3, 4, 5, 3}));
  EXPECT_EQ(problem.heads, 12);
  EXPECT_EQ(problem.Batch(), 3);
  EXPECT_EQ(problem.HeadName(7), " of batch item 1, head 3");
}

TEST(LeadingAxes, Refusals) {
  EXPECT_EQ(Refusal({{"q", {6, 5, 4}}, {"k", {4, 7, 4}}, {"v", {7, 3}}}),
            "k: expected a number of heads that divides the 6 of q (heads come "
            "before "
            "rows), found [4, 7, 4]");
  EXPECT_EQ(Refusal({{"q", {3, 1, 5, 4}}, {"k", {2, 1, 7, 4}}, {"v", {7, 3}}}),
            "k: expected 1 batch item or 3 as q has, found [2, 1, 7, 4]");
  EXPECT_EQ(Refusal({{"q", {1, 1, 1, 5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}}),
            "q: expected [n_q, d], [h, n_q, d] or [b, h, n_q, d], found [1, 1, "
            "1, 5, 4]");
  EXPECT_EQ(Refusal({{"q", {2, 0, 5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}}),
            "q: expected no empty dimension, found [2, 0, 5, 4]");
}

TEST(LeadingAxes, CaseIds) {
  const std::string id =
      "softmax_attention:n=33,d=64,e=64,batch=2,heads=4,per_head=1,leading=k:"
      "2x2"
      "+v:2,causal=0,with=bias,scalar=float32,seed=1";
  const Case test_case = MakeCase(ParseCaseId(id));
  EXPECT_EQ(test_case.Id(), id);
  const Problem problem = ProblemOf(test_case);
  EXPECT_EQ(problem.OutputShape(0), (Shape{2, 4, 33, 64}));
  EXPECT_EQ(problem.InputShape(1), (Shape{2, 2, 33, 64}));
  EXPECT_EQ(problem.InputShape(2), (Shape{2, 33, 64}));
  EXPECT_EQ(problem.InputShape(3), (Shape{4, 65}));
  for (const char* wrong : {"leading=k", "leading=k:0", "leading=k:1x2x3",
                            "leading=z:2", "batch=-1"})
    EXPECT_THROW(ProblemOf(MakeCase(ParseCaseId(
                     std::string("softmax_attention:n=8,") + wrong))),
                 InvalidInput)
        << wrong;
}

// The gradient of a tensor that heads share is the sum over these heads: it
// equals the sum of the gradients of copies.
TEST(LeadingAxes, GradientsOfSharedTensorsAddUp) {
  constexpr int64_t kN = 9, kE = 3, kBatch = 2, kHeads = 4;
  Numbers weights, values, grad;
  for (int64_t x = 0; x < 2 * (2 * kN - 1); ++x)
    weights.push_back(std::sin(0.7 * static_cast<double>(x)));
  for (int64_t x = 0; x < kBatch * 2 * kN * kE; ++x)
    values.push_back(std::cos(1.3 * static_cast<double>(x)));
  for (int64_t x = 0; x < kBatch * kHeads * kN * kE; ++x)
    grad.push_back(std::sin(2.1 * static_cast<double>(x)));
  OperatorRun shared("toeplitz_1d");
  shared.Give("weights", {2, 2 * kN - 1}, weights)
      .Give("values", {kBatch, 2, kN, kE}, values)
      .Give("grad", {kBatch, kHeads, kN, kE}, grad);
  const auto copies = [&](const Numbers& from, int64_t size, bool batch) {
    Numbers all;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h) {
        const auto start = from.begin() + ((batch ? b * 2 : 0) + h / 2) * size;
        all.insert(all.end(), start, start + size);
      }
    return all;
  };
  OperatorRun copied("toeplitz_1d");
  copied
      .Give("weights", {kBatch, kHeads, 2 * kN - 1},
            copies(weights, 2 * kN - 1, false))
      .Give("values", {kBatch, kHeads, kN, kE}, copies(values, kN * kE, true))
      .Give("grad", {kBatch, kHeads, kN, kE}, grad);
  for (const std::string& program : shared.Programs(Scalar::kFloat64)) {
    EXPECT_TRUE(shared.Judge(program, Scalar::kFloat64).passed()) << program;
    const Numbers sums = shared.Run(program, Scalar::kFloat64, 2);
    const Numbers parts = copied.Run(program, Scalar::kFloat64, 2);
    ASSERT_EQ(sums.size(), static_cast<size_t>(kBatch * 2 * kN * kE));
    for (int64_t slice = 0; slice < kBatch * 2; ++slice)
      for (int64_t x = 0; x < kN * kE; ++x) {
        const size_t first = static_cast<size_t>(2 * slice * kN * kE + x);
        EXPECT_NEAR(sums[static_cast<size_t>(slice * kN * kE + x)],
                    parts[first] + parts[first + kN * kE], 1e-12)
            << program;
      }
  }
}

}  // namespace
}  // namespace subquad
