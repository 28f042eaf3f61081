// Properties of attention to keys reduced by a convolution, each with a control
// that can fail.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n_q, n_k, d, e;
};

OperatorRun Compressed(const Sizes& s, int64_t stride) {
  OperatorRun run("memory_compressed_attention");
  run.Set("stride", stride)
      .Give("q", {s.n_q, s.d}, NormalNumbers(s.n_q * s.d, 1))
      .Give("k", {s.n_k, s.d}, NormalNumbers(s.n_k * s.d, 2))
      .Give("v", {s.n_k, s.e}, NormalNumbers(s.n_k * s.e, 3))
      .Give("theta_k", {stride}, NormalNumbers(stride, 4))
      .Give("theta_v", {stride}, NormalNumbers(stride, 5));
  return run;
}

Numbers SoftmaxOf(OperatorRun& run, const Sizes& s) {
  OperatorRun dense("softmax_attention");
  dense.Give("q", {s.n_q, s.d}, run["q"])
      .Give("k", {s.n_k, s.d}, run["k"])
      .Give("v", {s.n_k, s.e}, run["v"]);
  return dense.Run("tiled");
}

// A kernel of one step and weight one reduces nothing.
TEST(MemoryCompressedAttention, StrideOneIsSoftmaxAttention) {
  const Sizes s = {137, 201, 12, 7};
  OperatorRun run = Compressed(s, 1);
  run["theta_k"] = {1};
  run["theta_v"] = {1};
  const Numbers expected = SoftmaxOf(run, s);
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
        << program;
  run["theta_k"] = {1.01};  // the control
  for (const std::string& program : run.Programs())
    EXPECT_GT(LargestDifference(run.Run(program), expected), 1e-4) << program;
}

// A kernel that selects one of s neighbours gives attention to every s-th key.
TEST(MemoryCompressedAttention, SelectingKernelsAreAttentionToEverySthKey) {
  constexpr int64_t kStride = 5, kPick = 3;
  const Sizes s = {137, 203, 12, 7};
  OperatorRun run = Compressed(s, kStride);
  run["theta_k"] = {0, 0, 0, 1, 0};
  run["theta_v"] = {0, 0, 0, 1, 0};
  const Sizes fewer = {s.n_q, s.n_k / kStride, s.d, s.e};
  const auto picked = [&](const char* name, int64_t width) {
    Numbers rows;
    for (int64_t a = 0; a < fewer.n_k; ++a) {
      const auto row = run[name].begin() + (a * kStride + kPick) * width;
      rows.insert(rows.end(), row, row + width);
    }
    return rows;
  };
  OperatorRun dense("softmax_attention");
  dense.Give("q", {s.n_q, s.d}, run["q"])
      .Give("k", {fewer.n_k, s.d}, picked("k", s.d))
      .Give("v", {fewer.n_k, s.e}, picked("v", s.e));
  const Numbers expected = dense.Run("tiled");
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
        << program;
  std::swap(run["theta_v"][kPick], run["theta_v"][kStride - 1 - kPick]);
  for (const std::string& program : run.Programs())
    EXPECT_GT(LargestDifference(run.Run(program), expected), 0.01) << program;
}

// There are floor(n_k/s) reduced keys: keys of a ragged tail are ignored, the
// last whole group is used.
TEST(MemoryCompressedAttention, RaggedTailIsDropped) {
  const Sizes s = {70, 50, 12, 7};
  OperatorRun run = Compressed(s, 8);  // 6 whole groups, 2 keys left
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    OperatorRun tail = run, inside = run;
    for (int64_t x = 48 * 12; x < 50 * 12; ++x) tail["k"][x] = 1e9;
    for (int64_t x = 48 * 7; x < 50 * 7; ++x) tail["v"][x] = 1e9;
    inside["v"][47 * 7] += 1;
    EXPECT_EQ(tail.Run(program), out) << program;
    EXPECT_NE(inside.Run(program), out) << program;
  }
}

TEST(MemoryCompressedAttention, ManyShapesOnAnyNumberOfThreads) {
  for (int64_t stride : {1, 2, 3, 64, 700})
    for (const Sizes& s : {Sizes{1, 700, 5, 9}, Sizes{300, 1000, 17, 33}}) {
      OperatorRun run = Compressed(s, stride);
      const Numbers expected = run.Definition();
      for (const std::string& program : run.Programs()) {
        const Numbers out = run.Run(program);
        // Sums and scores grow with s, as weights have size one over s keys.
        EXPECT_LE(LargestDifference(out, expected),
                  kRounding * static_cast<double>(stride))
            << program << " stride " << stride;
        EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out) << program;
      }
    }
}

TEST(MemoryCompressedAttention, FewerKeysThanTheStrideIsAnError) {
  try {
    Compressed({10, 4, 3, 3}, 5).Resolve(Scalar::kFloat64);
    FAIL() << "taken";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("stride of 5"), std::string::npos)
        << error.what();
  }
}

// Only the baseline stores scores; both store the reduced keys and values.
TEST(MemoryCompressedAttention, OnlyTheBaselineStoresScores) {
  const auto bytes = [](const std::string& id, int64_t n) {
    CaseRequest request;
    request.op = &FindOperator("memory_compressed_attention");
    request.n = n;
    return FindImplementation("memory_compressed_attention", id)
        .CostOf(ProblemOf(MakeCase(request)), 1)
        .workspace_bytes;
  };
  EXPECT_GT(bytes("dense", 131072), 3.9 * bytes("dense", 65536));
  EXPECT_GT(bytes("compressed", 65536), 0);
  EXPECT_LT(bytes("compressed", 131072), 2.1 * bytes("compressed", 65536));
}

}  // namespace
}  // namespace subquad
