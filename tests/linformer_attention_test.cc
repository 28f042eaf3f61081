// Properties of attention to projected keys, each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n_q, n_k, d, e, p;
};
constexpr Sizes kSizes = {137, 1201, 12, 7, 33};

OperatorRun Linformer(const Sizes& s = kSizes) {
  const double mixing = 1 / std::sqrt(static_cast<double>(s.n_k));
  OperatorRun run("linformer_attention");
  run.Give("q", {s.n_q, s.d}, NormalNumbers(s.n_q * s.d, 1))
      .Give("k", {s.n_k, s.d}, NormalNumbers(s.n_k * s.d, 2))
      .Give("v", {s.n_k, s.e}, NormalNumbers(s.n_k * s.e, 3))
      .Give("proj_k", {s.p, s.n_k}, NormalNumbers(s.p * s.n_k, 4, mixing))
      .Give("proj_v", {s.p, s.n_k}, NormalNumbers(s.p * s.n_k, 5, mixing));
  return run;
}

Numbers SoftmaxOf(OperatorRun& run, const Sizes& s) {
  OperatorRun dense("softmax_attention");
  dense.Give("q", {s.n_q, s.d}, run["q"])
      .Give("k", {s.n_k, s.d}, run["k"])
      .Give("v", {s.n_k, s.e}, run["v"]);
  return dense.Run("tiled");
}

// Identity matrices as projections reduce nothing.
TEST(LinformerAttention, UnitProjectionsGiveSoftmaxAttention) {
  const Sizes s = {137, 150, 12, 7, 150};
  OperatorRun run = Linformer(s);
  for (const char* name : {"proj_k", "proj_v"})
    for (int64_t a = 0; a < s.p; ++a)
      for (int64_t j = 0; j < s.n_k; ++j) run[name][a * s.n_k + j] = a == j;
  const Numbers expected = SoftmaxOf(run, s);
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
        << program;
  run["proj_v"][0] = 0;  // the control
  for (const std::string& program : run.Programs())
    EXPECT_GT(LargestDifference(run.Run(program), expected), 1e-4) << program;
}

// Rows of proj_v that sum to one keep constant values: the weights sum to one.
TEST(LinformerAttention, WeightsSumToOne) {
  OperatorRun run = Linformer();
  run["v"].assign(run["v"].size(), 1);
  Numbers& projection = run["proj_v"];
  for (int64_t a = 0; a < kSizes.p; ++a) {
    double sum = 0;
    for (int64_t j = 1; j < kSizes.n_k; ++j)
      sum += projection[a * kSizes.n_k + j];
    projection[a * kSizes.n_k] = 1 - sum;
  }
  const Numbers ones(static_cast<size_t>(kSizes.n_q * kSizes.e), 1);
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), ones), 10 * kRounding)
        << program;
}

// Permuting keys, values and columns of the projections together changes
// nothing.
TEST(LinformerAttention, OrderOfKeysMattersOnlyToTheProjections) {
  OperatorRun run = Linformer();
  OperatorRun reversed = run;
  const auto reverse_rows = [](Numbers& x, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows / 2; ++r)
      std::swap_ranges(x.begin() + r * width, x.begin() + (r + 1) * width,
                       x.begin() + (rows - 1 - r) * width);
  };
  reverse_rows(reversed["k"], kSizes.n_k, kSizes.d);
  reverse_rows(reversed["v"], kSizes.n_k, kSizes.e);
  OperatorRun only_rows = reversed;
  for (const char* name : {"proj_k", "proj_v"})
    for (int64_t a = 0; a < kSizes.p; ++a) {
      const auto row = reversed[name].begin() + a * kSizes.n_k;
      std::reverse(row, row + kSizes.n_k);
    }
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(reversed.Run(program), out), kRounding)
        << program;
    EXPECT_GT(LargestDifference(only_rows.Run(program), out), 0.01) << program;
  }
}

TEST(LinformerAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const Sizes& s :
       {Sizes{1, 1, 1, 1, 1}, Sizes{65, 1, 3, 2, 5}, Sizes{1, 700, 5, 9, 200},
        Sizes{300, 2100, 17, 33, 130}}) {
    OperatorRun run = Linformer(s);
    const Numbers expected = run.Definition();
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, expected), kRounding) << program;
      EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out) << program;
    }
  }
}

// The scores of the baseline are [n, p]; the other implementation stores
// nothing that grows with n.
TEST(LinformerAttention, WorkspaceIsNotQuadratic) {
  const auto bytes = [](const std::string& id, int64_t n) {
    CaseRequest request;
    request.op = &FindOperator("linformer_attention");
    request.n = n;
    return FindImplementation("linformer_attention", id)
        .CostOf(ProblemOf(MakeCase(request)), 1)
        .workspace_bytes;
  };
  EXPECT_LT(bytes("dense", 131072), 2.1 * bytes("dense", 65536));
  EXPECT_GT(bytes("dense", 131072), 1.9 * bytes("dense", 65536));
  EXPECT_GT(bytes("projected", 65536), 0);
  EXPECT_EQ(bytes("projected", 131072), bytes("projected", 65536));
}

}  // namespace
}  // namespace subquad
