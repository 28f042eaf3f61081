// Properties of attention with a memory and relative distances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/judging/operator_run.h"
#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;
constexpr int64_t kD = 6, kE = 5, kP = 4;

OperatorRun Attention(int64_t length, int64_t memory, int64_t p = kP,
                      bool causal = true) {
  const int64_t keys = memory + length;
  const int64_t distances = causal ? keys : keys + length - 1;
  OperatorRun run("transformer_xl_attention");
  if (!causal) run.Set("causal", false);
  run.Give("q", {length, kD}, NormalNumbers(length * kD, 1))
      .Give("k", {keys, kD}, NormalNumbers(keys * kD, 2))
      .Give("v", {keys, kE}, NormalNumbers(keys * kE, 3))
      .Give("r", {distances, p}, NormalNumbers(distances * p, 4))
      .Give("w_kr", {kD, p}, NormalNumbers(kD * p, 5, 0.5))
      .Give("u", {kD}, NormalNumbers(kD, 6))
      .Give("t", {kD}, NormalNumbers(kD, 7));
  return run;
}

// Computes the definition a second time, naively.
Numbers Naive(OperatorRun& run, int64_t length, int64_t memory,
              bool causal = true) {
  Numbers out;
  for (int64_t i = 0; i < length; ++i) {
    Numbers scores;
    const int64_t first_distance = causal ? 0 : 1 - length;
    for (int64_t j = 0; j < (causal ? memory + i + 1 : memory + length); ++j) {
      const int64_t row = memory + i - j - first_distance;
      double score = 0;
      for (int64_t a = 0; a < kD; ++a) {
        double projected = 0;
        for (int64_t b = 0; b < kP; ++b)
          projected += run["w_kr"][a * kP + b] * run["r"][row * kP + b];
        score += (run["q"][i * kD + a] + run["u"][a]) * run["k"][j * kD + a] +
                 (run["q"][i * kD + a] + run["t"][a]) * projected;
      }
      scores.push_back(score / std::sqrt(static_cast<double>(kD)));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    Numbers row(kE);
    for (size_t j = 0; j < scores.size(); ++j) {
      const double weight = std::exp(scores[j] - top);
      sum += weight;
      for (int64_t c = 0; c < kE; ++c) row[c] += weight * run["v"][j * kE + c];
    }
    for (double x : row) out.push_back(x / sum);
  }
  return out;
}

TEST(TransformerXl, EverySmallProblemAndSeveralBlocks) {
  const auto check = [](int64_t length, int64_t memory) {
    for (bool causal : {true, false}) {
      OperatorRun run = Attention(length, memory, kP, causal);
      const Numbers expected = Naive(run, length, memory, causal);
      EXPECT_LE(LargestDifference(run.Definition(), expected), kRounding);
      EXPECT_TRUE(HasPrograms(run, {"dense", "shift"}));
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
            << program << " L " << length << " M " << memory << " causal "
            << causal;
    }
  };
  for (int64_t length = 1; length <= 7; ++length)
    for (int64_t memory = 0; memory <= 7; ++memory) check(length, memory);
  for (int64_t length : {63, 64, 65, 150})
    for (int64_t memory : {0, 1, 64, 200}) check(length, memory);
}

TEST(TransformerXl, HeadsWithSharedAndWithOwnParameters) {
  constexpr int64_t kHeads = 3, kL = 70, kM = 30, kKeys = kL + kM;
  for (bool own : {false, true}) {
    OperatorRun run("transformer_xl_attention");
    run.Give("q", {kHeads, kL, kD}, NormalNumbers(kHeads * kL * kD, 1))
        .Give("k", {kHeads, kKeys, kD}, NormalNumbers(kHeads * kKeys * kD, 2))
        .Give("v", {kHeads, kKeys, kE}, NormalNumbers(kHeads * kKeys * kE, 3));
    const auto give = [&](const char* name, Shape shape, uint64_t seed) {
      if (own) shape.insert(shape.begin(), kHeads);
      run.Give(name, shape, NormalNumbers(ElementCount(shape), seed, 0.5));
    };
    give("r", {kKeys, kP}, 4);
    give("w_kr", {kD, kP}, 5);
    give("u", {kD}, 6);
    give("t", {kD}, 7);
    for (const std::string& program : run.Programs())
      EXPECT_TRUE(run.Judge(program).passed()) << program << " " << own;
  }
}

// Removing the relative terms leaves softmax attention whose query i sees the
// keys up to M+i, a mask of offsets.
TEST(TransformerXl, WithoutDistancesIsMaskedSoftmaxAttention) {
  constexpr int64_t kL = 90, kM = 40;
  OperatorRun run = Attention(kL, kM);
  OperatorRun plain("softmax_attention");
  Numbers bias(2 * kL + kM - 1, 0);
  for (int64_t x = kL - 1 + kM + 1; x < 2 * kL + kM - 1; ++x)
    bias[x] = -std::numeric_limits<double>::infinity();
  plain.Give("q", {kL, kD}, run["q"])
      .Give("k", {kL + kM, kD}, run["k"])
      .Give("v", {kL + kM, kE}, run["v"])
      .Give("bias", {2 * kL + kM - 1}, bias);
  const Numbers expected = plain.Definition();
  OperatorRun without = run;
  without["w_kr"].assign(kD * kP, 0);
  without["u"].assign(kD, 0);
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(without.Run(program), expected), kRounding)
        << program;
    EXPECT_GT(LargestDifference(run.Run(program), expected), 0.1) << program;
  }
}

// A segment after a memory is the end of one long segment: positions enter only
// by distances.
TEST(TransformerXl, MemoryIsAnEarlierSegment) {
  constexpr int64_t kL = 70, kM = 90;
  OperatorRun whole = Attention(kL + kM, 0);
  OperatorRun segment = whole;
  const Numbers q = whole["q"];
  segment.Give("q", {kL, kD}, Numbers(q.begin() + kM * kD, q.end()));
  for (const std::string& program : whole.Programs()) {
    const Numbers all = whole.Run(program);
    const Numbers end(all.begin() + kM * kE, all.end());
    const Numbers start(all.begin(), all.begin() + kL * kE);
    const Numbers actual = segment.Run(program);
    EXPECT_LE(LargestDifference(actual, end), kRounding) << program;
    EXPECT_GT(LargestDifference(actual, start), 0.1) << program;
  }
}

TEST(TransformerXl, PrefixDoesNotSeeItsFuture) {
  constexpr int64_t kL = 150, kM = 37;
  for (int64_t cut : {1, 63, 64, 100}) {
    OperatorRun run = Attention(kL, kM);
    OperatorRun other = run;
    for (int64_t j = kM + cut; j < kM + kL; ++j) {
      for (int64_t a = 0; a < kD; ++a) other["k"][j * kD + a] *= -1e6;
      for (int64_t c = 0; c < kE; ++c) other["v"][j * kE + c] += 1e6;
    }
    for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const std::string& program : run.Programs(scalar)) {
        const Numbers a = run.Run(program, scalar);
        const Numbers b = other.Run(program, scalar);
        EXPECT_TRUE(std::equal(a.begin(), a.begin() + cut * kE, b.begin()))
            << program << " cut " << cut;
        EXPECT_NE(a[cut * kE], b[cut * kE]) << program << " cut " << cut;
      }
  }
}

TEST(TransformerXl, AnyNumberOfThreadsGivesTheSameBits) {
  const OperatorRun run = Attention(300, 200);
  for (const std::string& program : run.Programs())
    EXPECT_EQ(run.Run(program, Scalar::kFloat32, 1),
              run.Run(program, Scalar::kFloat32, 3))
        << program;
}

// The last query, which has no negative distances, equals the causal one if
// every key is visible; the others do not.
TEST(TransformerXl, BothDirections) {
  constexpr int64_t kL = 70, kM = 20, kKeys = kL + kM;
  OperatorRun causal = Attention(kL, kM);
  OperatorRun both = Attention(kL, kM, kP, false);
  const Numbers& r = both["r"];
  causal["r"] = Numbers(r.begin() + (kL - 1) * kP, r.end());
  for (const std::string& program : both.Programs()) {
    const Numbers a = causal.Run(program), b = both.Run(program);
    const auto last = static_cast<std::ptrdiff_t>((kL - 1) * kE);
    EXPECT_LE(LargestDifference(Numbers(a.begin() + last, a.end()),
                                Numbers(b.begin() + last, b.end())),
              kRounding)
        << program;
    EXPECT_GT(LargestDifference(a, b), 0.1) << program;
    EXPECT_EQ(both.Run(program, Scalar::kFloat32, 1),
              both.Run(program, Scalar::kFloat32, 3))
        << program;
  }
  OperatorRun wrong = causal;
  wrong.Set("causal", false);
  try {
    wrong.Resolve(Scalar::kFloat64);
    FAIL() << "taken with " << kKeys << " distances";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("r"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("159"), std::string::npos)
        << error.what();
  }
}

// Generated cases are causal by default, as case folders are.
TEST(TransformerXl, CasesAreCausalByDefault) {
  const auto distances = [](const std::string& id) {
    const Problem problem = ProblemOf(MakeCase(ParseCaseId(id)));
    return problem.InputShape(static_cast<size_t>(problem.InputIndex("r")))[0];
  };
  EXPECT_EQ(distances("transformer_xl_attention:L=8,M=3"), 11);
  EXPECT_EQ(distances("transformer_xl_attention:L=8,M=3,causal=1"), 11);
  EXPECT_EQ(distances("transformer_xl_attention:L=8,M=3,causal=0"), 18);
}

// Tests the claim txl-linear: M + L products w_kr r instead of one for every
// visible pair. Such a product is 2 d p flops and nothing else depends on p.
TEST(TransformerXl, ShiftProjectsEveryDistanceOnce) {
  constexpr int64_t kL = 500, kM = 300;
  const auto products = [](const std::string& program) {
    double flops[2] = {};
    for (int64_t more : {0, 1}) {
      const Problem problem =
          Attention(kL, kM, kP + more).Resolve(Scalar::kFloat32);
      flops[more] = FindImplementation("transformer_xl_attention", program)
                        .CostOf(problem, 1)
                        .flops;
    }
    return (flops[1] - flops[0]) / (2 * kD);
  };
  EXPECT_EQ(products("shift"), kL + kM);
  EXPECT_EQ(products("dense"), kL * kM + kL * (kL + 1) / 2);
}

}  // namespace
}  // namespace subquad
