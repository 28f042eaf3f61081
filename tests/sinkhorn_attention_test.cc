// Properties of attention to blocks in a learned order, each with a control
// that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "reference/softmax/sinkhorn_matrix.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

struct Sizes {
  int64_t blocks, block, d, e;
  int64_t n() const { return blocks * block; }
};
constexpr Sizes kSizes = {7, 20, 8, 6};

OperatorRun Sinkhorn(int64_t iterations = 5, const Sizes& s = kSizes) {
  OperatorRun run("sinkhorn_attention");
  run.Set("block", s.block)
      .Set("iterations", iterations)
      .Give("q", {s.n(), s.d}, NormalNumbers(s.n() * s.d, 1))
      .Give("k", {s.n(), s.d}, NormalNumbers(s.n() * s.d, 2))
      .Give("v", {s.n(), s.e}, NormalNumbers(s.n() * s.e, 3))
      .Give("logits", {s.blocks, s.blocks},
            NormalNumbers(s.blocks * s.blocks, 4));
  return run;
}

// Divides the rows of exp(logits) by their sums, then its columns by theirs, in
// each iteration, as the paper describes.
Numbers Divided(const Numbers& logits, int64_t blocks, int64_t iterations) {
  Numbers p;
  for (double logit : logits) p.push_back(std::exp(logit));
  for (int64_t t = 0; t < iterations; ++t)
    for (const bool rows : {true, false})
      for (int64_t x = 0; x < blocks; ++x) {
        double sum = 0;
        const auto at = [&](int64_t y) -> double& {
          return p[rows ? x * blocks + y : y * blocks + x];
        };
        for (int64_t y = 0; y < blocks; ++y) sum += at(y);
        for (int64_t y = 0; y < blocks; ++y) at(y) /= sum;
      }
  return p;
}

// The definition's matrix equals the one computed as the paper describes. After
// the first iteration its columns sum to 1; the sums of its rows approach 1.
TEST(SinkhornAttention, TheMatrixBecomesDoublyStochastic) {
  const Numbers logits = NormalNumbers(49, 4, 2);
  double last = 1e9;
  for (const int64_t iterations : {0, 1, 2, 5, 50}) {
    const SinkhornMatrix<double> matrix(logits.data(), 7, iterations);
    const Numbers expected = Divided(logits, 7, iterations);
    double rows_off = 0, columns_off = 0;
    for (int64_t x = 0; x < 7; ++x) {
      double row = 0, column = 0;
      for (int64_t y = 0; y < 7; ++y) {
        EXPECT_NEAR(matrix.At(x, y), expected[x * 7 + y],
                    kRounding * expected[x * 7 + y]);
        row += matrix.At(x, y);
        column += matrix.At(y, x);
      }
      rows_off = std::max(rows_off, std::abs(row - 1));
      columns_off = std::max(columns_off, std::abs(column - 1));
    }
    if (iterations == 0) {
      EXPECT_GT(columns_off, 1);
    } else {
      EXPECT_LE(columns_off, kRounding);
      EXPECT_LT(rows_off, last / 2);
    }
    last = rows_off;
  }
  EXPECT_LE(last, 1e-6);
}

// Computes softmax attention of the queries of each block to keys and values
// given for that block, [blocks, keys, ..].
Numbers WithinBlocks(OperatorRun& run, const std::vector<Numbers>& keys,
                     const std::vector<Numbers>& values) {
  const Sizes& s = kSizes;
  Numbers out;
  for (int64_t b = 0; b < s.blocks; ++b) {
    const auto count = static_cast<int64_t>(keys[b].size()) / s.d;
    OperatorRun block("softmax_attention");
    const auto first = run["q"].begin() + b * s.block * s.d;
    block.Give("q", {s.block, s.d}, Numbers(first, first + s.block * s.d))
        .Give("k", {count, s.d}, keys[b])
        .Give("v", {count, s.e}, values[b])
        .Set("causal", false);
    const Numbers rows = block.Run("dense");
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

// Returns each block, followed by the sum of all blocks weighted by a row of a
// matrix.
std::vector<Numbers> BlocksAndMixtures(const Numbers& rows, int64_t width,
                                       const Numbers& matrix) {
  const int64_t size = kSizes.block * width;
  std::vector<Numbers> seen;
  for (int64_t b = 0; b < kSizes.blocks; ++b) {
    Numbers both(rows.begin() + b * size, rows.begin() + (b + 1) * size);
    both.resize(static_cast<size_t>(2 * size));
    for (int64_t other = 0; other < kSizes.blocks; ++other)
      for (int64_t x = 0; x < size; ++x)
        both[size + x] +=
            matrix[b * kSizes.blocks + other] * rows[other * size + x];
    seen.push_back(both);
  }
  return seen;
}

// The formula is assembled from parts: P, sums of blocks, and softmax
// attention. The control transposes P.
TEST(SinkhornAttention, IsAttentionToABlockAndToAMixture) {
  for (const int64_t iterations : {0, 1, 5}) {
    OperatorRun run = Sinkhorn(iterations);
    const Numbers p = Divided(run["logits"], kSizes.blocks, iterations);
    Numbers transposed = p;
    for (int64_t x = 0; x < kSizes.blocks; ++x)
      for (int64_t y = 0; y < kSizes.blocks; ++y)
        transposed[y * kSizes.blocks + x] = p[x * kSizes.blocks + y];
    const auto answer = [&](const Numbers& matrix) {
      return WithinBlocks(run, BlocksAndMixtures(run["k"], kSizes.d, matrix),
                          BlocksAndMixtures(run["v"], kSizes.e, matrix));
    };
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, answer(p)), kRounding) << program;
      EXPECT_GT(LargestDifference(out, answer(transposed)), 0.1) << program;
    }
  }
}

// Logits that decide the assignment bring each block whole into another's
// place, and nothing overflows or vanishes.
TEST(SinkhornAttention, LargeLogitsSortBlocks) {
  for (const double size : {30.0, 1e4, 1e30}) {
    OperatorRun run = Sinkhorn(5);
    std::fill(run["logits"].begin(), run["logits"].end(), -size);
    Numbers order(run["logits"].size(), 0);
    for (int64_t b = 0; b < kSizes.blocks; ++b) {
      const int64_t at = b * kSizes.blocks + (b + 3) % kSizes.blocks;
      run["logits"][at] = size;
      order[at] = 1;
    }
    const Numbers expected =
        WithinBlocks(run, BlocksAndMixtures(run["k"], kSizes.d, order),
                     BlocksAndMixtures(run["v"], kSizes.e, order));
    for (const std::string& program : run.Programs()) {
      EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
          << program << " " << size;
      EXPECT_GT(LargestDifference(Sinkhorn(5).Run(program), expected), 0.1);
    }
  }
}

// A constant added to all logits of a row cancels in the division, if there is
// any.
TEST(SinkhornAttention, ConstantsOfARowCancel) {
  for (const int64_t iterations : {0, 1, 5}) {
    OperatorRun run = Sinkhorn(iterations), raised = run;
    for (int64_t y = 0; y < kSizes.blocks; ++y)
      raised["logits"][2 * kSizes.blocks + y] += 3;
    for (const std::string& program : run.Programs()) {
      const double off =
          LargestDifference(run.Run(program), raised.Run(program));
      if (iterations == 0)
        EXPECT_GT(off, 0.1) << program;
      else
        EXPECT_LE(off, kRounding) << program;
    }
  }
}

// A single block contains each key twice: its own and the mixed one.
TEST(SinkhornAttention, OneBlockIsSoftmaxAttention) {
  const Sizes s = {1, 90, 8, 6};
  OperatorRun run = Sinkhorn(1, s), raw = Sinkhorn(0, s);
  OperatorRun all("softmax_attention");
  all.Set("causal", false);
  for (const char* name : {"q", "k", "v"})
    all.Give(name, {s.n(), name[0] == 'v' ? s.e : s.d}, run[name]);
  for (const std::string& program : run.Programs()) {
    const Numbers expected = all.Run("dense");
    EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding);
    EXPECT_GT(LargestDifference(raw.Run(program), expected), 0.1);
  }
}

TEST(SinkhornAttention, RefusesAnIncompleteBlock) {
  OperatorRun run = Sinkhorn();
  run.Set("block", int64_t{19});  // 140 / 19 is 7 when rounded down, but not
                                  // whole
  try {
    run.Programs();
    FAIL() << "140 tokens are not blocks of 19";
  } catch (const InvalidInput& invalid) {
    EXPECT_NE(std::string(invalid.what()).find("multiple of block 19"),
              std::string::npos)
        << invalid.what();
  }
}

TEST(SinkhornAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const int64_t iterations : {0, 1, 7})
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{9, 1, 3, 70},
                           Sizes{2, 130, 33, 5}, Sizes{40, 7, 4, 17}}) {
      SCOPED_TRACE(testing::Message() << iterations << " " << s.blocks);
      ExpectDefinition(Sinkhorn(iterations, s), kRounding);
    }
}

}  // namespace
}  // namespace subquad
