// Comparison of inputs: which cases are timed alternately, and the ratios of
// their times.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "harness/results/file_fits.h"
#include "harness/results/result_file.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {
namespace {

const std::string kReal = "reports/inputs/mpnet-layer0";

std::vector<PlannedCase> Plan(const std::string& sweeps) {
  return PlanSweep(ParseSweepConfig("test", "{\"sweeps\": [" + sweeps + "]}"),
                   {}, 1);
}

std::string Sweep(const std::string& rest) {
  return R"({"operator": "softmax_attention", "heads": 4, "with": "bias",
             "per_head": true, "input": ["normal", ")" +
         kReal + R"(", "wide"], )" + rest + "}";
}

TEST(Interleave, CasesThatDifferInTheirInputAreAGroup) {
  const auto plan = Plan(Sweep(R"("n": [8, 16], "interleave": true)"));
  ASSERT_EQ(plan.size(), 6u);
  for (size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].test_case.input, i % 3 == 0   ? "normal"
                                       : i % 3 == 1 ? kReal
                                                    : "wide");
    EXPECT_EQ(plan[i].test_case.Tokens(), i < 3 ? 8 : 16);
    EXPECT_GE(plan[i].group, 0);
    EXPECT_EQ(plan[i].group == plan[0].group, i < 3);
  }
}

TEST(Interleave, OnlyOnRequest) {
  for (const char* rest :
       {R"("n": [8, 16])", R"("n": [8, 16], "interleave": false)"})
    for (const PlannedCase& planned : Plan(Sweep(rest)))
      EXPECT_EQ(planned.group, -1);
  // A single input cannot be compared.
  const auto alone =
      Plan(R"({"operator": "toeplitz_1d", "n": [8, 16], "interleave": true})");
  for (const PlannedCase& planned : alone) EXPECT_EQ(planned.group, -1);
}

TEST(Interleave, ThreadsAndTypesAreSeparateGroups) {
  const auto plan = Plan(Sweep(R"("n": 8, "interleave": true, "threads": [1, 2],
               "scalar": ["float32", "float64"])"));
  ASSERT_EQ(plan.size(), 12u);
  std::map<int, int> sizes;
  for (const PlannedCase& planned : plan) {
    ++sizes[planned.group];
    for (const PlannedCase& other : plan)
      if (other.group == planned.group) {
        EXPECT_EQ(other.threads, planned.threads);
        EXPECT_EQ(other.test_case.scalar, planned.test_case.scalar);
      }
  }
  EXPECT_EQ(sizes.size(), 4u);
}

// Sweeps that share a case have its runs in one group, once.
TEST(Interleave, SweepsThatShareACaseShareTheGroup) {
  const auto plan = Plan(
      R"({"operator": "toeplitz_1d", "n": 8, "implementation": "fft_columns"},
         {"operator": "toeplitz_1d", "n": 9},
         {"operator": "toeplitz_1d", "n": 8, "input": ["wide", "normal"],
          "interleave": true},
         {"operator": "toeplitz_1d", "n": 8, "input": ["equal", "wide"],
          "interleave": true})");
  ASSERT_EQ(plan.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan[i].test_case.Tokens(), 8);
    EXPECT_EQ(plan[i].group, plan[0].group);
    EXPECT_GE(plan[i].group, 0);
    std::set<const Implementation*> once(plan[i].implementations.begin(),
                                         plan[i].implementations.end());
    EXPECT_EQ(once.size(), plan[i].implementations.size());
    EXPECT_GT(once.size(), 1u);
  }
  EXPECT_EQ(plan[3].test_case.Tokens(), 9);
  EXPECT_EQ(plan[3].group, -1);
}

TEST(Interleave, OtherShapesAreRefused) {
  for (const std::string left_out : {"heads", "with", "per_head", "n"}) {
    const std::map<std::string, std::string> all = {{"heads", "4"},
                                                    {"with", "\"bias\""},
                                                    {"per_head", "true"},
                                                    {"n", "512"}};
    std::string fields;
    for (const auto& [name, value] : all)
      if (name != left_out) fields += "\"" + name + "\": " + value + ", ";
    try {
      Plan(R"({"operator": "softmax_attention", )" + fields +
           R"("input": ["normal", ")" + kReal + R"("], "interleave": true})");
      FAIL() << left_out;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(kReal), std::string::npos)
          << error.what();
    }
  }
}

TEST(Interleave, IsTrueOrFalse) {
  EXPECT_THROW(Plan(Sweep(R"("n": 8, "interleave": "input")")), InvalidInput);
  EXPECT_THROW(Plan(Sweep(R"("n": 8, "interleave": 1)")), InvalidInput);
}

// ---- ratios

Json RecordWith(const std::string& input, double seconds, int count = 20) {
  Json samples = Json::array();
  for (int i = 0; i < count; ++i)
    samples.push_back(seconds * (1 + 0.001 * ((i * 7) % count)));
  return {{"operator", "toeplitz_1d"},
          {"implementation", "fft_columns"},
          {"backend", "cpu"},
          {"scalar", "float32"},
          {"threads", 1},
          {"size", {{"n_q", 8}, {"n_k", 8}, {"heads", 1}}},
          {"tokens", 8},
          {"length_axes", {"n_q", "n_k"}},
          {"params", {{"causal", false}}},
          {"input", input},
          {"seconds", {{"samples", samples}}}};
}

TEST(InputRatios, AreRatiosOfTimes) {
  Json slow = RecordWith("wide", 3), same = RecordWith("equal", 1.5);
  slow["timed_with"] = {"equal", "normal"};
  same["timed_with"] = {"wide"};
  const Json ratios =
      ComputeInputRatios({slow, RecordWith("normal", 1.5), same});
  ASSERT_EQ(ratios.size(), 2u);
  EXPECT_EQ(ratios[0].at("input"), "wide");
  EXPECT_EQ(ratios[0].at("against"), "normal");
  EXPECT_NEAR(ratios[0].at("ratio").get<double>(), 2, 0.02);
  EXPECT_GT(ratios[0].at("low").get<double>(), 1.9);
  EXPECT_LT(ratios[0].at("high").get<double>(), 2.1);
  EXPECT_EQ(ratios[0].at("in_turns"), true);
  EXPECT_NEAR(ratios[1].at("ratio").get<double>(), 1, 0.01);
  EXPECT_LE(ratios[1].at("low").get<double>(), 1);
  EXPECT_GE(ratios[1].at("high").get<double>(), 1);
  EXPECT_EQ(ratios[1].at("in_turns"), false);
}

TEST(InputRatios, OnlyOfRecordsThatOtherwiseAgree) {
  for (const char* field : {"operator", "implementation", "backend", "scalar",
                            "threads", "size", "params"}) {
    Json other = RecordWith("wide", 3);
    other[field] = "another";
    EXPECT_TRUE(ComputeInputRatios({RecordWith("normal", 1), other}).empty())
        << field;
  }
  Json untimed = RecordWith("wide", 3);
  untimed["seconds"] = nullptr;
  EXPECT_TRUE(ComputeInputRatios({RecordWith("normal", 1), untimed}).empty());
  EXPECT_TRUE(
      ComputeInputRatios({RecordWith("equal", 1), RecordWith("wide", 1)})
          .empty());
  EXPECT_TRUE(ComputeInputRatios({RecordWith("normal", 1)}).empty());
  Json old = RecordWith("wide", 3);
  old.erase("input");
  EXPECT_TRUE(ComputeInputRatios({RecordWith("normal", 1), old}).empty());
}

TEST(InputRatios, TooFewSamplesHaveNoInterval) {
  const Json ratios = ComputeInputRatios(
      {RecordWith("normal", 1, 2), RecordWith("wide", 2, 2)});
  ASSERT_EQ(ratios.size(), 1u);
  EXPECT_TRUE(ratios[0].at("low").is_null());
  EXPECT_TRUE(ratios[0].at("high").is_null());
}

// All intervals must hold together: more pairs make them wider.
TEST(InputRatios, IntervalsAreCorrectedForTheirNumber) {
  std::vector<Json> records = {RecordWith("normal", 1), RecordWith("wide", 1)};
  const auto width = [](const Json& ratio) {
    return ratio.at("high").get<double>() - ratio.at("low").get<double>();
  };
  const double alone = width(ComputeInputRatios(records)[0]);
  for (int threads = 2; threads < 40; ++threads)
    for (const char* input : {"normal", "wide"}) {
      records.push_back(RecordWith(input, 1));
      records.back()["threads"] = threads;
    }
  EXPECT_GT(width(ComputeInputRatios(records)[0]), alone);
}

}  // namespace
}  // namespace subquad
