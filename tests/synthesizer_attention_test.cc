// Properties of attention whose scores are not products of queries and keys,
// each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/judging/operator_run.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n, token, e, inner, extra;
};
constexpr Sizes kSizes = {137, 12, 7, 9, 5};

OperatorRun Synthesizer(const std::string& kind, bool causal = false,
                        const Sizes& s = kSizes) {
  const double mixing = 1 / std::sqrt(static_cast<double>(s.token));
  OperatorRun run("synthesizer_attention");
  run.Set("kind", kind)
      .Set("causal", causal)
      .Give("x", {s.n, s.token}, NormalNumbers(s.n * s.token, 1))
      .Give("phi_v", {s.token, s.e}, NormalNumbers(s.token * s.e, 2, mixing));
  if (kind == "dense")
    run.Give("phi_1", {s.token, s.inner},
             NormalNumbers(s.token * s.inner, 3, mixing))
        .Give("phi_2", {s.inner, s.n + s.extra},
              NormalNumbers(s.inner * (s.n + s.extra), 4));
  if (kind == "random")
    run.Give("logits", {s.n, s.n}, NormalNumbers(s.n * s.n, 3));
  if (kind == "factorized")
    for (const char* name : {"factor_q", "factor_k"})
      run.Give(name, {s.n, s.inner},
               NormalNumbers(s.n * s.inner, name[7] == 'q' ? 3 : 4, 0.5));
  return run;
}

constexpr const char* kKinds[] = {"dense", "random", "factorized"};

// Giving the product of the factors as logits is the same attention.
TEST(SynthesizerAttention, FactorsAreLogitsOfLowRank) {
  for (const bool causal : {false, true}) {
    OperatorRun factors = Synthesizer("factorized", causal);
    OperatorRun with_logits = Synthesizer("random", causal);
    for (int64_t i = 0; i < kSizes.n; ++i)
      for (int64_t j = 0; j < kSizes.n; ++j) {
        double sum = 0;
        for (int64_t a = 0; a < kSizes.inner; ++a)
          sum += factors["factor_q"][i * kSizes.inner + a] *
                 factors["factor_k"][j * kSizes.inner + a];
        with_logits["logits"][i * kSizes.n + j] = sum;
      }
    OperatorRun exchanged = factors;
    std::swap(exchanged["factor_q"], exchanged["factor_k"]);
    for (const std::string& program : with_logits.Programs()) {
      const Numbers out = with_logits.Run(program);
      EXPECT_LE(LargestDifference(factors.Run(program), out), kRounding)
          << program;
      EXPECT_GT(LargestDifference(exchanged.Run(program), out), 0.01)
          << program;
    }
  }
}

// Columns of phi_2 beyond the tokens are not read.
TEST(SynthesizerAttention, UsesTheFirstColumns) {
  OperatorRun run = Synthesizer("dense");
  OperatorRun beyond = run, within = run;
  const int64_t width = kSizes.n + kSizes.extra;
  for (int64_t a = 0; a < kSizes.inner; ++a) {
    for (int64_t j = kSizes.n; j < width; ++j)
      beyond["phi_2"][a * width + j] = 9;
    within["phi_2"][a * width + kSizes.n - 1] = 9;
  }
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_EQ(beyond.Run(program), out) << program;
    EXPECT_GT(LargestDifference(within.Run(program), out), 0.01) << program;
  }
}

// Weights sum to one for every kind of scores.
TEST(SynthesizerAttention, EqualValuesStay) {
  for (const char* kind : kKinds) {
    OperatorRun run = Synthesizer(kind);
    for (int64_t i = 0; i < kSizes.n; ++i) run["x"][i * kSizes.token] = 1;
    std::fill(run["phi_v"].begin(), run["phi_v"].end(), 0);
    std::fill_n(run["phi_v"].begin(), kSizes.e, 1);
    const Numbers ones(static_cast<size_t>(kSizes.n * kSizes.e), 1);
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), ones), kRounding)
          << kind << " " << program;
  }
}

// Later tokens change no earlier row, bit for bit.
TEST(SynthesizerAttention, CausalRowsDoNotSeeTheFuture) {
  for (const char* kind : kKinds)
    for (const bool causal : {false, true}) {
      OperatorRun run = Synthesizer(kind, causal);
      OperatorRun changed = run;
      const int64_t token = 70;
      for (int64_t a = 0; a < kSizes.token; ++a)
        changed["x"][token * kSizes.token + a] += 1;
      for (const std::string& program : run.Programs()) {
        const Numbers a = run.Run(program), b = changed.Run(program);
        EXPECT_EQ(
            std::equal(a.begin(), a.begin() + token * kSizes.e, b.begin()),
            causal)
            << kind << " " << program;
        EXPECT_NE(a, b);
      }
    }
}

TEST(SynthesizerAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const char* kind : kKinds)
    for (const bool causal : {false, true})
      for (const Sizes& s : {Sizes{1, 1, 1, 1, 0}, Sizes{5, 3, 2, 70, 1},
                             Sizes{300, 5, 33, 17, 0}}) {
        SCOPED_TRACE(kind);
        ExpectDefinition(Synthesizer(kind, causal, s), kRounding);
      }
}

}  // namespace
}  // namespace subquad
