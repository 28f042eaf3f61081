// Statistics of samples from several processes, compared with those of one
// process.
#include "harness/results/times.h"

#include <gtest/gtest.h>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

// Makes six processes of five samples each, each steady, but apart from each
// other.
Times Apart() {
  Times times;
  for (int process = 0; process < 6; ++process) {
    for (int sample = 0; sample < 5; ++sample)
      times.samples.push_back(1 + 0.1 * process + 1e-4 * sample);
    times.processes.push_back(5);
  }
  times.stopped_by = "interval";
  return times;
}

TEST(Times, IntervalsCoverTheSpreadOfProcesses) {
  const Times times = Apart();
  const Median apart = MedianOf(times);
  EXPECT_NEAR(apart.median, 1.25, 0.001);
  EXPECT_TRUE(apart.interval_known);
  EXPECT_LT(apart.interval.low, 1.05);
  EXPECT_GT(apart.interval.high, 1.45);
  // Treated as samples of one process, they would seem far more certain.
  Times merged = times;
  merged.processes = {30};
  const Interval narrow = MedianOf(merged).interval;
  EXPECT_LT(narrow.high - narrow.low, 0.35);
}

TEST(Times, FewProcessesHaveARangeAndNoInterval) {
  Times times{{1, 1.01, 2, 2.01}, {2, 2}, "budget"};
  const Median median = MedianOf(times);
  EXPECT_FALSE(median.interval_known);
  EXPECT_DOUBLE_EQ(median.interval.low, 1.005);
  EXPECT_DOUBLE_EQ(median.interval.high, 2.005);
}

TEST(Times, OneProcessHasTheUsualInterval) {
  const Times times{{3, 1, 2, 4, 5, 6, 7}, {}, "samples"};
  EXPECT_EQ(MedianOf(times).median, 4);
  EXPECT_FALSE(WriteJson(times).contains("processes"));
  EXPECT_EQ(times.Processes(), 1);
}

TEST(Times, SurviveARoundTrip) {
  const Times times = Apart(),
              again = ReadJson<Times>(WriteJson(times), "seconds");
  EXPECT_EQ(again.samples, times.samples);
  EXPECT_EQ(again.processes, times.processes);
  EXPECT_EQ(again.stopped_by, times.stopped_by);
  EXPECT_NEAR(again.Spent(), 30 * 1.25, 0.1);
}

TEST(Times, OfTwoProcessesAreCounted) {
  Times times{{3, 1, 2}, {}, "samples"};
  times.Add({{4, 5}, {}, "budget"});
  EXPECT_EQ(times.samples, (std::vector<double>{3, 1, 2, 4, 5}));
  EXPECT_EQ(times.processes, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(times.stopped_by, "budget");
  times.Add({{6}, {}, "interval"});
  EXPECT_EQ(times.processes, (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(times.Processes(), 3);
}

TEST(Times, WithoutSamplesAreRefused) {
  const Json right = WriteJson(Apart());
  for (const char* name : {"samples", "stopped_by", "median"}) {
    Json wrong = right;
    wrong.erase(name);
    EXPECT_THROW(ReadJson<Times>(wrong, "seconds"), InvalidInput) << name;
  }
  for (const char* text : {"null", "{}", "[1, 2]"})
    EXPECT_THROW(ReadJson<Times>(Json::parse(text), "seconds"), InvalidInput)
        << text;
  Json empty = right;
  empty["samples"] = Json::array();
  EXPECT_THROW(ReadJson<Times>(empty, "seconds"), InvalidInput);
}

TEST(Times, SampleCountsMustAddUp) {
  for (const std::vector<int64_t>& processes :
       std::vector<std::vector<int64_t>>{{2, 2}, {2, 0, 1}, {1, 1}, {4, -1}})
    EXPECT_THROW(MedianOf({{1, 2, 3}, processes, "budget"}), InvalidInput);
}

}  // namespace
}  // namespace subquad
