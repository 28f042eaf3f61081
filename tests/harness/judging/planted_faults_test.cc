// Faults that production kernels have shipped with, planted in the answer: a
// bias that is accepted and ignored, one that reaches the nearest tile only,
// heads that read each other's keys and values, a band of keys that is lost.
// Each is caught at a small size that is not a multiple of a tile, and at 65536
// keys, where its effect is small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/cases/generate.h"
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
  const char* id;  // without n
  std::vector<std::string> faults;
};

void PrintTo(const Planted& planted, std::ostream* stream) {
  *stream << planted.id;
}

class PlantedFaults
    : public testing::TestWithParam<std::tuple<Planted, int64_t>> {};

TEST_P(PlantedFaults, EachIsCaught) {
  const auto& [planted, n] = GetParam();
  const Case test_case = MakeCase(
      ParseCaseId(fmt::format("{},n={},scalar=float32,seed=5", planted.id, n)));
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    WriteRows(trial, trial.answer(), nullptr);
    const Verdict right = trial.JudgeOutputs(*implementation);
    EXPECT_TRUE(right.passed()) << implementation->id << " " << right.reason;
    EXPECT_GE(right.margin.value, kLeastMargin)
        << implementation->id << " " << right.margin.nearest;
    for (const std::string& fault : planted.faults) {
      const auto wrong =
          std::ranges::find(trial.wrong_answers(), fault, &WrongAnswer::name);
      ASSERT_NE(wrong, trial.wrong_answers().end()) << fault;
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
                 "a tile of rows of values left out"}}),
        testing::Values(int64_t{300}, int64_t{65536})),
    NameOf);

}  // namespace

}  // namespace subquad
