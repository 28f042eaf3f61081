// Properties of kernelized attention with clipped relative scores, and of its
// choice by memory formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"
#include "harness/machine/memory_counter.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

double Elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }

OperatorRun Attention(int64_t n_q, int64_t n_k, int64_t r, bool causal,
                      int64_t d = 5, int64_t e = 3) {
  OperatorRun run("kernelized_clipped_rpe_attention");
  Numbers rpe = NormalNumbers((2 * r + 1) * d, 4);
  for (double& x : rpe) x = std::abs(x);
  run.Set("causal", causal)
      .Give("q", {n_q, d}, NormalNumbers(n_q * d, 1))
      .Give("k", {n_k, d}, NormalNumbers(n_k * d, 2))
      .Give("v", {n_k, e}, NormalNumbers(n_k * e, 3))
      .Give("rpe", {2 * r + 1, d}, rpe);
  return run;
}

TEST(KernelizedClippedRpe, EverySmallProblem) {
  constexpr int64_t kD = 3, kE = 2;
  for (int64_t n_q = 1; n_q <= 8; ++n_q)
    for (int64_t n_k = 1; n_k <= 8; ++n_k)
      for (int64_t r = 0; r <= 8; ++r)
        for (bool causal : {false, true}) {
          OperatorRun run = Attention(n_q, n_k, r, causal, kD, kE);
          Numbers expected;
          for (int64_t i = 0; i < n_q; ++i)
            for (int64_t c = 0; c < kE; ++c) {
              double sum = 0, normaliser = 0;
              for (int64_t j = 0; j < n_k; ++j) {
                if (causal && j > i) continue;
                const int64_t offset =
                    j - i < -r ? -r : (j - i > r ? r : j - i);
                double weight = 0;
                for (int64_t a = 0; a < kD; ++a)
                  weight += Elu1(run["q"][i * kD + a]) *
                            (Elu1(run["k"][j * kD + a]) +
                             run["rpe"][(offset + r) * kD + a]);
                sum += weight * run["v"][j * kE + c];
                normaliser += weight;
              }
              expected.push_back(sum / normaliser);
            }
          ASSERT_LE(LargestDifference(run.Definition(), expected), kRounding);
          for (const std::string& program : run.Programs())
            ASSERT_LE(LargestDifference(run.Run(program), expected), kRounding)
                << program << " " << n_q << " " << n_k << " " << r << " "
                << causal;
        }
}

TEST(KernelizedClippedRpe, RectanglesOfSeveralBlocks) {
  for (int64_t n_q : {63, 65, 130, 300})
    for (int64_t n_k : {1, 64, 97, 260, 401})
      for (int64_t r : {0, 1, 63, 100, 500})
        for (bool causal : {false, true}) {
          const OperatorRun run = Attention(n_q, n_k, r, causal);
          for (const std::string& program : run.Programs()) {
            const Verdict verdict = run.Judge(program);
            EXPECT_TRUE(verdict.passed())
                << program << " " << verdict.reason << ": " << n_q << " " << n_k
                << " " << r << " " << causal;
          }
        }
}

TEST(KernelizedClippedRpe, HeadsWithSharedAndWithOwnEmbeddings) {
  constexpr int64_t kN = 150, kD = 4, kE = 3, kHeads = 3, kR = 5;
  for (bool own : {false, true})
    for (bool causal : {false, true}) {
      OperatorRun run("kernelized_clipped_rpe_attention");
      Numbers rpe = NormalNumbers((own ? kHeads : 1) * (2 * kR + 1) * kD, 4);
      for (double& x : rpe) x = std::abs(x);
      run.Set("causal", causal)
          .Give("q", {kHeads, kN, kD}, NormalNumbers(kHeads * kN * kD, 1))
          .Give("k", {kHeads, kN, kD}, NormalNumbers(kHeads * kN * kD, 2))
          .Give("v", {kHeads, kN, kE}, NormalNumbers(kHeads * kN * kE, 3));
      if (own)
        run.Give("rpe", {kHeads, 2 * kR + 1, kD}, rpe);
      else
        run.Give("rpe", {2 * kR + 1, kD}, rpe);
      for (const std::string& program : run.Programs())
        EXPECT_TRUE(run.Judge(program).passed()) << program << " " << own;
    }
}

// Weights of a query sum to one: constant values stay. The control uses values
// that are not constant.
TEST(KernelizedClippedRpe, ConstantValuesStay) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention(200, 170, 9, causal);
    const Numbers ones(200 * 3, 1);
    OperatorRun constant = run;
    constant["v"].assign(170 * 3, 1);
    for (const std::string& program : run.Programs()) {
      EXPECT_LE(LargestDifference(constant.Run(program), ones), kRounding)
          << program;
      EXPECT_GT(LargestDifference(run.Run(program), ones), 0.1) << program;
    }
  }
}

// Embeddings of zero make it linear attention.
TEST(KernelizedClippedRpe, WithoutPositionsIsLinearAttention) {
  for (bool causal : {false, true}) {
    OperatorRun run = Attention(140, 140, 6, causal);
    OperatorRun linear("linear_attention");
    linear.Set("causal", causal)
        .Set("feature_map", std::string("elu1"))
        .Give("q", {140, 5}, run["q"])
        .Give("k", {140, 5}, run["k"])
        .Give("v", {140, 3}, run["v"]);
    const Numbers expected = linear.Definition();
    OperatorRun without = run;
    without["rpe"].assign(13 * 5, 0);
    for (const std::string& program : run.Programs()) {
      EXPECT_LE(LargestDifference(without.Run(program), expected), kRounding)
          << program;
      EXPECT_GT(LargestDifference(run.Run(program), expected), 0.01) << program;
    }
  }
}

// In float32 exp(-300) is zero, and so would be all of phi(q); and 1e30 squared
// is infinite. Both cancel in the quotient.
TEST(KernelizedClippedRpe, QueriesFarFromZeroHaveAnswers) {
  for (double shift : {-300.0, 1e30}) {
    OperatorRun run = Attention(100, 100, 6, true);
    for (double& x : run["q"]) x += shift;
    if (shift > 0)
      for (double& x : run["k"]) x += shift;
    for (const std::string& program : run.Programs(Scalar::kFloat32)) {
      const Verdict verdict = run.Judge(program, Scalar::kFloat32);
      EXPECT_TRUE(verdict.passed()) << program << " " << verdict.reason;
    }
  }
}

TEST(KernelizedClippedRpe, NormaliserOfZeroNamesTheQuery) {
  // phi(0) = 1, so that an embedding of -1 cancels a key of zero.
  OperatorRun run = Attention(6, 6, 0, false, 1, 1);
  run["q"] = {1, 2, 3, 4, 5, 6};
  run["k"].assign(6, 0);
  run["rpe"] = {-1};
  try {
    run.Definition();
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("zero at query 0"),
              std::string::npos)
        << error.what();
  }
  run["k"][0] = 1;
  EXPECT_NO_THROW(run.Definition());
}

TEST(KernelizedClippedRpe, CausalPrefixDoesNotSeeItsFuture) {
  for (int64_t n_k : {150, 301}) {
    for (int64_t cut : {1, 64, 77, 128}) {
      OperatorRun run = Attention(150, n_k, 9, true);
      OperatorRun other = run;
      for (int64_t x = cut * 3; x < n_k * 3; ++x) other["v"][x] = 1e6;
      for (int64_t x = cut * 5; x < n_k * 5; ++x) other["k"][x] = 30;
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

TEST(KernelizedClippedRpe, AnyNumberOfThreadsGivesTheSameBits) {
  for (bool causal : {false, true}) {
    const OperatorRun run = Attention(1500, 1700, 40, causal, 8, 5);
    for (const std::string& program : run.Programs())
      EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
                run.Run(program, Scalar::kFloat32, 3))
          << program;
  }
}

struct Measured {
  double bytes;
  std::string choice;
};

// Returns the memory that an implementation allocates, and its reported choice.
Measured Measure(const std::string& program, int64_t n, int64_t d, int64_t r,
                 bool causal) {
  CaseRequest request;
  request.op = &FindOperator("kernelized_clipped_rpe_attention");
  request.n = n;
  request.values = {{"d", std::to_string(d)},
                    {"e", std::to_string(d)},
                    {"r", std::to_string(r)},
                    {"causal", causal ? "1" : "0"}};
  const Case test_case = MakeCase(request);
  Problem problem = ProblemOf(test_case);
  Inputs inputs = GenerateInputs(test_case, problem);
  Trial trial(std::move(problem), std::move(inputs), 1);
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (implementation->id != program) continue;
    const PeakOf peak;
    const auto prepared =
        implementation->Prepare(trial.problem(), trial.arrays(), {1});
    prepared->Run();
    return {static_cast<double>(peak.bytes()), prepared->Choice()};
  }
  return {};
}

// The claim lrpe-auto: the note's formulas choose what needs the least memory.
// They are right about bidirectional attention, and about the window. For
// causal attention they count a state of d^2 for every position, which a
// running state does not keep: below n = d^2 they choose a matrix that needs
// more.
TEST(KernelizedClippedRpe, AutoAgainstMeasuredMemory) {
  if (!MemoryCounter::Available()) GTEST_SKIP() << "no count of the heap";
  for (int64_t d : {16, 64})
    for (int64_t r : {2, 64})
      for (int64_t n : {32, 128, 512, 1024, 2048})
        for (bool causal : {false, true}) {
          const bool content = causal ? d * d < n : d * d < n * n;
          const bool position = 2 * r + 5 < n;
          const Measured chosen = Measure("auto", n, d, r, causal);
          const std::string where =
              std::to_string(n) + " d " + std::to_string(d) + " r " +
              std::to_string(r) + (causal ? " causal" : "");
          EXPECT_EQ(chosen.choice,
                    std::string("content ") + (content ? "linear" : "naive") +
                        ", position " + (position ? "linear" : "naive"))
              << where;
          const double linear = Measure("linear", n, d, r, causal).bytes;
          const double dense = Measure("dense", n, d, r, causal).bytes;
          if (n >= 1024) {
            EXPECT_LT(linear, dense / 2) << where;
            if (content && position) {
              EXPECT_LE(chosen.bytes, 1.01 * linear) << where;
            } else {
              EXPECT_TRUE(causal) << where;
              EXPECT_GT(chosen.bytes, 2 * linear) << where;
            }
          }
        }
}

// Embeddings that are not positive can make two keys' weights cancel: refused
// if they do; positive embeddings cannot.
TEST(KernelizedClippedRpe, ANormaliserThatVanishesIsRefused) {
  OperatorRun run("kernelized_clipped_rpe_attention");
  // phi(0) = 1 for the query and both keys.
  run.Give("q", {2, 1}, {0, 0})
      .Give("k", {2, 1}, {0, 0})
      .Give("v", {2, 1}, {3, 5})
      .Give("rpe", {1, 1}, {-1});
  EXPECT_THROW(run.Definition(), InvalidInput);
  run["rpe"] = {1};
  EXPECT_NEAR(run.Definition()[0], 4, kRounding);
}

}  // namespace
}  // namespace subquad
