// FastRPB is a sum of two terms, each of which is also an operator.
#include <gtest/gtest.h>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-11;
constexpr int64_t kD = 8, kE = 7;

struct Shape2 {
  int64_t n_q, n_k;
};

OperatorRun Base(const std::string& attention, bool causal, Shape2 n) {
  OperatorRun run("fastrpb_attention");
  run.Set("attention", attention)
      .Set("causal", causal)
      .Give("q", {n.n_q, kD}, NormalNumbers(n.n_q * kD, 1))
      .Give("k", {n.n_k, kD}, NormalNumbers(n.n_k * kD, 2))
      .Give("v", {n.n_k, kE}, NormalNumbers(n.n_k * kE, 3));
  if (attention == "linear") run.Set("feature_map", std::string("sikf"));
  return run;
}

Numbers AttentionAlone(OperatorRun& run, const std::string& attention,
                       bool causal, Shape2 n) {
  OperatorRun alone(attention + "_attention");
  alone.Set("causal", causal)
      .Give("q", {n.n_q, kD}, run["q"])
      .Give("k", {n.n_k, kD}, run["k"])
      .Give("v", {n.n_k, kE}, run["v"]);
  if (attention == "linear") alone.Set("feature_map", std::string("sikf"));
  return alone.Definition();
}

Numbers Plus(Numbers a, const Numbers& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(FastRpb, IsAttentionPlusAToeplitzProduct) {
  for (const std::string attention : {"softmax", "linear"})
    for (bool causal : {false, true})
      for (const Shape2 n :
           {Shape2{90, 90}, Shape2{60, 130}, Shape2{130, 60}}) {
        OperatorRun run = Base(attention, causal, n);
        const int64_t offsets = n.n_q + n.n_k - 1;
        run.Give("weights", {offsets}, NormalNumbers(offsets, 5));
        OperatorRun product("toeplitz_1d");
        product.Set("causal", causal)
            .Give("weights", {offsets}, run["weights"])
            .Give("values", {n.n_k, kE}, run["v"]);
        const Numbers alone = AttentionAlone(run, attention, causal, n);
        const Numbers sum = Plus(alone, product.Definition());
        EXPECT_LE(LargestDifference(run.Definition(), sum), kRounding);
        for (const std::string& program : run.Programs())
          EXPECT_LE(LargestDifference(run.Run(program), sum), kRounding)
              << attention << " " << program;
        // There are the dense implementation and those of this attention.
        EXPECT_GE(run.Programs().size(), 2u);
        // Both terms contribute.
        EXPECT_GT(LargestDifference(run.Definition(), alone), 0.1);
        EXPECT_GT(LargestDifference(run.Definition(), product.Definition()),
                  0.1);
      }
}

TEST(FastRpb, OnImages) {
  constexpr int64_t kHeight = 9, kWidth = 14, kPixels = kHeight * kWidth;
  for (const std::string attention : {"softmax", "linear"})
    for (bool causal : {false, true}) {
      OperatorRun run = Base(attention, causal, {kPixels, kPixels});
      run.Set("height", kHeight)
          .Set("width", kWidth)
          .Give("weights_rows", {2 * kHeight - 1},
                NormalNumbers(2 * kHeight - 1, 5))
          .Give("weights_cols", {2 * kWidth - 1},
                NormalNumbers(2 * kWidth - 1, 6));
      // Adds W entry by entry, with the raster's mask.
      Numbers sum = AttentionAlone(run, attention, causal, {kPixels, kPixels});
      for (int64_t i = 0; i < kPixels; ++i)
        for (int64_t j = 0; j < (causal ? i + 1 : kPixels); ++j) {
          const double w =
              run["weights_rows"][j / kWidth - i / kWidth + kHeight - 1] +
              run["weights_cols"][j % kWidth - i % kWidth + kWidth - 1];
          for (int64_t c = 0; c < kE; ++c)
            sum[i * kE + c] += w * run["v"][j * kE + c];
        }
      EXPECT_LE(LargestDifference(run.Definition(), sum), kRounding);
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), sum), kRounding)
            << attention << " " << program << " causal " << causal;
      // There are the dense implementation and those of this attention.
      EXPECT_GE(run.Programs().size(), 2u);
    }
}

// W is not normalised: it scales with its weights, the attention does not.
TEST(FastRpb, OnlyTheProductIsLinearInTheWeights) {
  OperatorRun run = Base("linear", false, {90, 90});
  run.Give("weights", {179}, NormalNumbers(179, 5));
  OperatorRun doubled = run, none = run;
  for (double& w : doubled["weights"]) w *= 2;
  for (double& w : none["weights"]) w = 0;
  for (const std::string& program : run.Programs()) {
    const Numbers two = Plus(doubled.Run(program), none.Run(program));
    const Numbers once = run.Run(program);
    EXPECT_LE(LargestDifference(two, Plus(once, once)), kRounding) << program;
    EXPECT_GT(LargestDifference(doubled.Run(program), Plus(once, once)), 0.1);
  }
}

}  // namespace
}  // namespace subquad
