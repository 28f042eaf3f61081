// Faults that production kernels have shipped with, planted in the answer: a
// bias that is accepted and ignored, one that reaches the nearest tile only,
// heads that read each other's keys and values, a band of keys that is lost,
// options of the attention that are left out, of another head or off by one.
// Each is caught at a small size that is not a multiple of a tile, and at 65536
// keys, where its effect is small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/cases/generate.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

constexpr double kLeastMargin = 10;

// Writes the judged rows: the right ones, or those of a wrong answer.
void WriteRows(const Trial& trial, const Answer& answer,
               const WrongAnswer* wrong) {
  const Problem& problem = trial.problem();
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    const auto write = [&](size_t r, int64_t c, long double value) {
      const RowId& id = output.selection.rows[r];
      const int64_t row = id.head * layout.rows + id.row;
      StoreAt(problem.scalar, static_cast<float>(value),
              trial.arrays().outputs[o].data,
              static_cast<size_t>(row * layout.width + c));
    };
    const auto width = static_cast<size_t>(output.width);
    for (size_t at = 0; at < output.value.size(); ++at)
      write(at / width, static_cast<int64_t>(at % width), output.value[at]);
    if (!wrong) continue;
    for (const FoundRows& part : wrong->parts)
      for (size_t r = 0; part.output == o && r < part.rows.size(); ++r)
        for (int64_t c = 0; c < output.width; ++c)
          write(part.rows[r], c, part.value(r, c));
  }
}

struct Planted {
  const char* id;  // without n; {0} is a third of it, {1} the rest
  std::vector<std::string> faults;
};

void PrintTo(const Planted& planted, std::ostream* stream) {
  *stream << planted.id;
}

class PlantedFaults
    : public testing::TestWithParam<std::tuple<Planted, int64_t>> {};

TEST_P(PlantedFaults, EachIsCaught) {
  const auto& [planted, n] = GetParam();
  const std::string id =
      fmt::format(fmt::runtime(planted.id), n / 3, n - n / 3);
  const Case test_case = MakeCase(
      ParseCaseId(fmt::format("{},n={},scalar=float32,seed=5", id, n)));
  const Problem problem = ProblemOf(test_case);
  const Inputs inputs = GenerateInputs(test_case, problem);
  Trial trial(problem, inputs, test_case.seed);
  std::vector<WrongAnswer> known = trial.wrong_answers();
  std::ranges::move(UsualConfusions(problem, inputs, trial.answer()),
                    std::back_inserter(known));
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    WriteRows(trial, trial.answer(), nullptr);
    const Verdict right = trial.JudgeOutputs(*implementation);
    EXPECT_TRUE(right.passed()) << implementation->id << " " << right.reason;
    EXPECT_GE(right.margin.value, kLeastMargin)
        << implementation->id << " " << right.margin.nearest;
    for (const std::string& fault : planted.faults) {
      const auto wrong = std::ranges::find(known, fault, &WrongAnswer::name);
      ASSERT_NE(wrong, known.end()) << fault;
      WriteRows(trial, trial.answer(), &*wrong);
      const Verdict verdict = trial.JudgeOutputs(*implementation);
      EXPECT_EQ(verdict.outcome, Outcome::kFailed)
          << fault << ", " << implementation->id << " " << verdict.reason;
    }
  }
}

// Test names must not depend on where a text lies in memory.
std::string NameOf(
    const testing::TestParamInfo<std::tuple<Planted, int64_t>>& info) {
  const auto& [planted, n] = info.param;
  std::string name(planted.id);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name + "_" + std::to_string(n);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, PlantedFaults,
    testing::Combine(
        testing::Values(
            Planted{"softmax_attention:d=8,e=8,with=bias",
                    {"bias left out", "bias kept in the nearest tile only",
                     "bias shifted by 1", "bias shifted by 64",
                     "bias shifted by 128", "a tile of keys left out",
                     "last tile of keys left out", "a tile of keys twice"}},
            Planted{"softmax_attention:d=8,e=8,with=bias,causal=1",
                    {"bias left out", "bias kept in the nearest tile only",
                     "last tile of keys left out"}},
            Planted{"softmax_attention:d=8,e=8,heads=2",
                    {"another head's k", "another head's v",
                     "a tile of keys left out"}},
            Planted{"kernelized_rpe_attention:d=8,e=8,heads=2",
                    {"bias left out", "bias kept in the nearest tile only",
                     "another head's k", "another head's v",
                     "a tile of keys left out"}},
            Planted{
                "toeplitz_1d:e=64,heads=2",
                {"weights left out", "weights kept in the nearest tile only",
                 "weights shifted by 1", "another head's rows",
                 "a tile of rows of values left out"}},
            Planted{"softmax_attention:d=8,e=8,causal=1,window_left=100,"
                    "query_offset=3",
                    {"window_left too large by 1", "window_left too small by 1",
                     "window_left left out",
                     "window measured from the query's index and not from its "
                     "position",
                     "causal mask aligned at the last query and key instead of "
                     "the first"}},
            Planted{"softmax_attention:d=8,e=8,softcap=0.75",
                    {"softcap left out", "scores not divided by the softcap"}},
            Planted{"softmax_attention:d=8,e=8,softcap=0.75,with=bias",
                    {"softcap applied after the bias"}},
            // Without a window, a sink has a weight of one key among 65536,
            // which rounding errors hide.
            Planted{
                "softmax_attention:d=8,e=8,heads=3,per_head=1,with=sinks,"
                "causal=1,window_left=100",
                {"sinks left out", "sinks of 0: a key of zeros with weight 1",
                 "another head's sink"}},
            Planted{"softmax_attention:d=8,e=8,with=sinks+lse,causal=1,"
                    "window_left=100",
                    {"lse in base 2", "lse without the largest score",
                     "lse without the sink"}},
            Planted{"softmax_attention:d=8,e=8,heads=3,per_head=1,with=slopes",
                    {"slopes left out", "slopes doubled",
                     "another head's slope", "slopes in reverse order"}},
            Planted{"softmax_attention:d=8,e=8,heads=3,per_head=1,with=buckets,"
                    "B=16,max_distance=64",
                    {"buckets left out", "buckets of another head",
                     "the default max_distance instead of the given one",
                     "distances on the edge of a bucket in the previous bucket",
                     "buckets rounded instead of cut off",
                     "bidirectional the other way"}},
            Planted{"softmax_attention:d=8,e=8,heads=3,per_head=1,with=mask,"
                    "shared=mask:queries",
                    {"mask left out", "mask inverted", "mask one key late",
                     "mask of another head"}},
            Planted{
                "softmax_attention:d=8,e=8,with=pair_bias,"
                "shared=pair_bias:queries",
                {"pair_bias left out", "pair_bias multiplied by the scale"}},
            Planted{"softmax_attention:d=8,e=8,causal=1,query_offset=-9",
                    {"rows that see no key averaged over all keys"}},
            Planted{"softmax_attention:d=8,e=8",
                    {"parts of the keys merged with weights of base 2",
                     "parts of the keys merged with equal weights",
                     "last part of the keys merged without its weight"}},
            Planted{"softmax_attention:d=8,e=8,causal=1,packed_q={0}+{1},"
                    "packed_k={0}+{1},query_offset=0+1",
                    {"packed sequences that see their neighbours",
                     "lengths of the next packed sequence",
                     "query_offset of the next packed sequence",
                     "a boundary of packed sequences one late"}},
            Planted{"linear_attention:d=8,e=8,feature_map=elu1,causal=1,"
                    "window_left=100,query_offset=3",
                    {"window_left too large by 1", "window_left too small by 1",
                     "window_left left out"}},
            Planted{"kernelized_rpe_attention:d=8,e=8,with=mask,"
                    "shared=mask:queries",
                    {"mask left out", "mask inverted", "mask one key late"}}),
        testing::Values(int64_t{300}, int64_t{65536})),
    NameOf);

}  // namespace

}  // namespace subquad
