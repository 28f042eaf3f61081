// The impulse test accepts every implementation, and refuses the failures that
// it is made for: a bias left out, one that reaches the nearest tile only, one
// that is off by an offset, rows of a tile that miss it, and a shift where
// there should be none.
#include "harness/judging/spikes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/judging/operator_run.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

constexpr double kRoundoff = 0x1p-24;

TEST(SpikeOffsets, AreTheEdgesOfTilesAndTheEnds) {
  EXPECT_EQ(SpikeOffsets(1, 1), std::vector<int64_t>{0});
  EXPECT_EQ(SpikeOffsets(2, 3), (std::vector<int64_t>{-1, 0, 2}));
  EXPECT_EQ(SpikeOffsets(3, 70), (std::vector<int64_t>{-2, 0, 63, 64, 65, 69}));
}

class Spikes : public testing::TestWithParam<SpikeSubject> {};

// Compares with the definition itself, which shares nothing with the closed
// form.
TEST_P(Spikes, TheClosedFormIsTheDefinition) {
  const SpikeSubject& subject = GetParam();
  constexpr int64_t kQueries = 9, kKeys = 9, kWidth = 2;
  const double spike = subject.mean && !subject.product ? 1.5 : 1;
  for (const bool causal : {false, true})
    for (const int64_t offset : {-8, -3, 0, 1, 8}) {
      const Numbers values = NormalNumbers(kKeys * kWidth, 3);
      Numbers weights(kQueries + kKeys - 1);
      weights[static_cast<size_t>(offset + kQueries - 1)] = spike;
      OperatorRun run(subject.operator_id);
      run.Set("causal", causal);
      run.Give(subject.tensor, {kQueries + kKeys - 1}, weights)
          .Give(subject.values, {kKeys, kWidth}, values);
      if (subject.mean)
        run.Give("q", {kQueries, 1}, Numbers(kQueries))
            .Give("k", {kKeys, 1}, Numbers(kKeys));
      if (subject.settings.find("feature_map") != std::string::npos)
        run.Set("feature_map", std::string("elu1"));
      if (subject.operator_id == "fastrpb_attention")
        run.Set("attention", std::string("linear"));
      EXPECT_LT(LargestDifference(run.Definition(),
                                  SpikeAnswer(subject, values, kQueries, kWidth,
                                              causal, offset, spike)),
                1e-12)
          << offset << " " << causal;
    }
}

TEST_P(Spikes, EveryProgramPasses) {
  for (const Implementation* implementation :
       ImplementationsOf(FindOperator(GetParam().operator_id)))
    for (const int64_t n_q : {200, 1024})
      for (const bool causal : {false, true}) {
        const SpikeVerdict verdict =
            ProbeSpikes(GetParam(), *implementation, n_q, 1024, causal, 1);
        if (verdict.outcome == Outcome::kSkipped) continue;
        EXPECT_EQ(verdict.outcome, Outcome::kPassed)
            << implementation->id << ": " << verdict.reason;
        EXPECT_GT(verdict.margin, 10) << implementation->id;
      }
}

// Returns the output of a program that makes this mistake.
TEST_P(Spikes, PlantedFaultsAreRefused) {
  const SpikeSubject& subject = GetParam();
  constexpr int64_t kLength = 4096, kWidth = 2, kOffset = 128;
  const double spike =
      subject.mean && !subject.product ? std::log(kLength + 1.0) : 1;
  const Numbers values = NormalNumbers(kLength * kWidth, 3);
  const auto answer = [&](int64_t offset, double at_offset) {
    return SpikeAnswer(subject, values, kLength, kWidth, false, offset,
                       at_offset);
  };
  for (const bool mixes : {false, true}) {
    const auto outcome = [&](const Numbers& actual) {
      SpikeVerdict verdict;
      verdict.outcome = Outcome::kPassed;
      CompareSpike(subject, values, actual, kLength, kWidth, false, kOffset,
                   spike, kRoundoff, mixes, verdict);
      EXPECT_GT(verdict.margin, 10);
      return verdict.outcome;
    };
    const Numbers right = answer(kOffset, spike), without = answer(kOffset, 0);
    EXPECT_EQ(outcome(right), Outcome::kPassed);
    EXPECT_EQ(outcome(without), Outcome::kFailed) << "left out";
    EXPECT_EQ(outcome(answer(kOffset + 1, spike)), Outcome::kFailed)
        << "shifted";
    EXPECT_EQ(outcome(answer(-kOffset, spike)), Outcome::kFailed) << "i - j";
    Numbers one_tile = right, elsewhere = right, unwritten = right;
    for (int64_t i = 64 * kWidth; i < 128 * kWidth; ++i)
      one_tile[static_cast<size_t>(i)] = without[static_cast<size_t>(i)];
    EXPECT_EQ(outcome(one_tile), Outcome::kFailed) << "rows of one tile";
    elsewhere.back() += 0.1;  // the last query sees no key at this offset
    EXPECT_EQ(outcome(elsewhere), Outcome::kFailed) << "moved elsewhere";
    unwritten[7] = std::nan("");
    EXPECT_EQ(outcome(unwritten), Outcome::kFailed);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, Spikes, testing::ValuesIn(SpikeSubjects()),
                         [](const auto& subjects) {
                           return subjects.param.operator_id;
                         });

}  // namespace
}  // namespace subquad
