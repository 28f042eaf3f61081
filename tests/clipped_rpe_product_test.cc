// Properties of the product with clipped relative scores: every small problem
// against a second definition, the geometry of its tiles, and the accuracy of
// its sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"
#include "optimized/kernelized/clipped_window.h"

namespace subquad {
namespace {

OperatorRun Product(int64_t n_q, int64_t n_k, int64_t r, bool causal, int64_t d,
                    int64_t e) {
  OperatorRun run("clipped_rpe_product");
  run.Set("causal", causal)
      .Give("q", {n_q, d}, NormalNumbers(n_q * d, 1))
      .Give("rpe", {2 * r + 1, d}, NormalNumbers((2 * r + 1) * d, 2))
      .Give("v", {n_k, e}, NormalNumbers(n_k * e, 3));
  return run;
}

Numbers Rounded(Numbers x) {
  for (double& value : x) value = std::round(2 * value);
  return x;
}

TEST(ClippedRpeProduct, EverySmallProblem) {
  constexpr int64_t kD = 3, kE = 2;
  for (int64_t n_q = 1; n_q <= 16; ++n_q)
    for (int64_t n_k = 1; n_k <= 16; ++n_k)
      for (int64_t r = 0; r <= 16; ++r)
        for (bool causal : {false, true}) {
          OperatorRun run = Product(n_q, n_k, r, causal, kD, kE);
          for (const char* name : {"q", "rpe", "v"})
            run[name] = Rounded(run[name]);  // sums are exact
          Numbers expected;
          for (int64_t i = 0; i < n_q; ++i)
            for (int64_t c = 0; c < kE; ++c) {
              double sum = 0;
              for (int64_t j = 0; j < n_k; ++j) {
                if (causal && j > i) continue;
                const int64_t offset =
                    j - i < -r ? -r : (j - i > r ? r : j - i);
                for (int64_t a = 0; a < kD; ++a)
                  sum += run["q"][i * kD + a] *
                         run["rpe"][(offset + r) * kD + a] *
                         run["v"][j * kE + c];
              }
              expected.push_back(sum);
            }
          ASSERT_EQ(run.Definition(), expected)
              << n_q << " " << n_k << " " << r << " " << causal;
          for (const char* program : {"dense", "windowed"})
            ASSERT_EQ(run.Run(program), expected)
                << program << " " << n_q << " " << n_k << " " << r << " "
                << causal;
        }
}

// The problems above fit into one block. Here blocks are short: the sums before
// and after every tile and the tile itself must contain each key once, with the
// weight of its clipped offset. With weights 1, 10, 100, .. by offset and
// powers of two as values, a key that is missing, doubled or at another offset
// shows.
TEST(ClippedRpeProduct, TilesAndTailsHoldEveryKeyOnce) {
  Layout layout({.threads = 1});
  ThreadPool pool(layout);
  for (int64_t block : {1, 2, 3, 7})
    for (int64_t n_q = 1; n_q <= 16; ++n_q)
      for (int64_t n_k = 1; n_k <= 16; ++n_k)
        for (int64_t r = 0; r <= 16; ++r)
          for (bool causal : {false, true}) {
            const ClippedWindow window(
                Product(n_q, n_k, r, causal, 1, 1).Resolve(Scalar::kFloat64),
                block);
            std::vector<double> values(n_k), weights(window.columns());
            for (int64_t j = 0; j < n_k; ++j) values[j] = std::exp2(j);
            for (int64_t t = 0; t < window.columns(); ++t)
              weights[t] = std::exp2(std::abs(t + window.first)) +
                           (t + window.first > 0 ? 0.5 : 0);
            TailSums<double> tails(layout, window, 1);
            tails.Run(pool, 0, values.data());
            for (int64_t i = 0; i < n_q; ++i) {
              const int64_t b = i / block, begin = window.Begin(b),
                            end = window.End(b);
              ASSERT_LE(end - begin, window.widest());
              std::vector<double> row(end - begin);
              window.FillRow(weights.data(), i, begin, end, row.data());
              double actual = 0, expected = 0;
              if (const double* sum = tails.Before(b))
                actual += weights.front() * *sum;
              if (const double* sum = tails.After(b))
                actual += weights.back() * *sum;
              for (int64_t j = begin; j < end; ++j)
                actual += row[j - begin] * values[j];
              for (int64_t j = 0; j < (causal ? std::min(i + 1, n_k) : n_k);
                   ++j)
                expected += weights[std::clamp(j - i, -r, r) - window.first] *
                            values[j];
              ASSERT_EQ(actual, expected)
                  << "block " << block << " n_q " << n_q << " n_k " << n_k
                  << " r " << r << " causal " << causal << " query " << i;
            }
          }
}

// Runs the implementation on several blocks, ragged at every end.
TEST(ClippedRpeProduct, RectanglesOfSeveralBlocks) {
  for (int64_t n_q : {31, 32, 33, 65, 130, 300})
    for (int64_t n_k : {1, 31, 33, 97, 260, 401})
      for (int64_t r : {0, 1, 2, 31, 33, 100, 500})
        for (bool causal : {false, true}) {
          const OperatorRun run = Product(n_q, n_k, r, causal, 5, 3);
          const Verdict verdict = run.Judge("windowed");
          EXPECT_TRUE(verdict.passed()) << verdict.reason << ": " << n_q << " "
                                        << n_k << " " << r << " " << causal;
        }
}

TEST(ClippedRpeProduct, HeadsWithSharedAndWithOwnEmbeddings) {
  constexpr int64_t kN = 70, kD = 4, kE = 3, kHeads = 3, kR = 5;
  for (bool own : {false, true}) {
    OperatorRun run("clipped_rpe_product");
    run.Give("q", {kHeads, kN, kD}, NormalNumbers(kHeads * kN * kD, 1))
        .Give("v", {kHeads, kN, kE}, NormalNumbers(kHeads * kN * kE, 3));
    if (own)
      run.Give("rpe", {kHeads, 2 * kR + 1, kD},
               NormalNumbers(kHeads * (2 * kR + 1) * kD, 2));
    else
      run.Give("rpe", {2 * kR + 1, kD}, NormalNumbers((2 * kR + 1) * kD, 2));
    for (const std::string& program : run.Programs())
      EXPECT_TRUE(run.Judge(program).passed()) << program << " " << own;
  }
}

// Equal embeddings leave only the sum of all values: the clipped product does
// not depend on positions then. The control negates one row of them.
TEST(ClippedRpeProduct, EqualEmbeddingsAreASum) {
  constexpr int64_t kN = 200, kD = 4, kE = 3, kR = 7;
  OperatorRun run = Product(kN, kN, kR, false, kD, kE);
  for (int64_t t = 0; t <= 2 * kR; ++t)
    for (int64_t a = 0; a < kD; ++a) run["rpe"][t * kD + a] = a == 0;
  Numbers expected;
  for (int64_t i = 0; i < kN; ++i)
    for (int64_t c = 0; c < kE; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < kN; ++j) sum += run["v"][j * kE + c];
      expected.push_back(run["q"][i * kD] * sum);
    }
  OperatorRun turned = run;
  turned["rpe"][2 * kR * kD] = -1;
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(run.Run(program), expected), 1e-11) << program;
    EXPECT_GT(LargestDifference(turned.Run(program), expected), 1) << program;
  }
}

TEST(ClippedRpeProduct, CausalPrefixDoesNotSeeItsFuture) {
  for (int64_t n_k : {150, 301}) {
    for (int64_t cut : {1, 64, 77, 128}) {
      OperatorRun run = Product(150, n_k, 9, true, 5, 3);
      OperatorRun other = run;
      for (int64_t x = cut * 3; x < n_k * 3; ++x) other["v"][x] = 1e6;
      for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
        for (const std::string& program : run.Programs(scalar)) {
          const Numbers a = run.Run(program, scalar);
          const Numbers b = other.Run(program, scalar);
          EXPECT_TRUE(std::equal(a.begin(), a.begin() + cut * 3, b.begin()))
              << program << " " << cut;
          EXPECT_NE(a[cut * 3], b[cut * 3]) << program << " " << cut;
        }
    }
  }
}

TEST(ClippedRpeProduct, AnyNumberOfThreadsGivesTheSameBits) {
  for (bool causal : {false, true}) {
    const OperatorRun run = Product(700, 900, 40, causal, 8, 5);
    for (const std::string& program : run.Programs())
      EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
                run.Run(program, Scalar::kFloat32, 3))
          << program;
  }
}

// Compares the sums at block edges with one running sum, which a value late in
// the sequence passes through n times: with values of mean 1 the error of the
// running sum grows with n, that of the implementation does not.
TEST(ClippedRpeProduct, LongTailsKeepTheirDigits) {
  constexpr int64_t kN = 1 << 18;
  OperatorRun run = Product(kN, kN, 2, true, 1, 1);
  for (double& value : run["v"]) value = static_cast<float>(1 + 0.1 * value);
  run["q"].assign(kN, 1);
  run["rpe"].assign(5, 1);
  const Numbers out = run.Run("windowed", Scalar::kFloat32);
  double exact = 0, worst = 0, worst_running = 0;
  float running = 0;
  for (int64_t i = 0; i < kN; ++i) {
    exact += run["v"][i];
    running += static_cast<float>(run["v"][i]);
    worst = std::max(worst, std::abs(out[i] - exact) / exact);
    worst_running = std::max(worst_running, std::abs(running - exact) / exact);
  }
  const double blocks = static_cast<double>(kN) / 32;
  EXPECT_LE(worst, (32 + 64 + blocks / 64) * 0x1p-24);
  EXPECT_GT(worst_running, 20 * worst);
}

// Time and memory do not depend on n^2, nor memory on n r.
TEST(ClippedRpeProduct, WindowedNeedsNoMemoryForScores) {
  double before = 0;
  for (int64_t n : {4096, 8192}) {
    const Problem problem =
        Product(n, n, 64, false, 64, 64).Resolve(Scalar::kFloat32);
    for (const Implementation* implementation :
         ImplementationsOf(*problem.op)) {
      if (implementation->id != "windowed" ||
          implementation->backend != Backend::kCpu)
        continue;
      const double bytes = implementation->CostOf(problem, 1).workspace_bytes;
      if (before > 0) {
        EXPECT_LT(bytes, 2.1 * before);
      }
      EXPECT_LT(bytes, 4.0 * n * 129);
      before = bytes;
    }
  }
}

}  // namespace
}  // namespace subquad
