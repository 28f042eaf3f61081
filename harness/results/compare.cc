#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/machine/environment.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

std::map<PointKey, const Record*> ByKey(const std::vector<Record>& records) {
  std::map<PointKey, const Record*> by_key;
  for (const Record& record : records) by_key.emplace(record.Key(), &record);
  return by_key;
}

PointChange CompareTimes(const PointKey& key, const Times& before,
                         const Times& after, double confidence,
                         double threshold) {
  PointChange point{key, Change::kAmbiguous, {}, ""};
  point.ratio = RatioOfMedians(before.samples, after.samples, confidence);
  if (!point.ratio.interval_known) {
    point.note = "too few samples for an interval";
    return point;
  }
  const Interval& interval = point.ratio.interval;
  const double slow = 1 + threshold, fast = 1 / slow;
  if (interval.low > slow)
    point.change = Change::kRegression;
  else if (interval.high < fast)
    point.change = Change::kFaster;
  else if (interval.low >= fast && interval.high <= slow)
    point.change = Change::kSame;
  return point;
}

}  // namespace

std::string_view ToString(Change change) {
  switch (change) {
    case Change::kSame:
      return "same";
    case Change::kFaster:
      return "faster";
    case Change::kRegression:
      return "REGRESSION";
    case Change::kAmbiguous:
      return "ambiguous";
  }
  return "";
}

FileComparison CompareFiles(const std::vector<Record>& old_records,
                            const std::vector<Record>& new_records,
                            double threshold) {
  const auto before = ByKey(old_records), after = ByKey(new_records);
  FileComparison result;
  int64_t timed = 0;
  for (const auto& [key, record] : before) {
    const auto position = after.find(key);
    if (position == after.end())
      ++result.only_old;
    else
      timed += record->seconds && position->second->seconds;
  }
  for (const auto& [key, record] : after)
    result.only_new += !before.contains(key);
  result.confidence =
      1 - 0.05 / static_cast<double>(std::max<int64_t>(1, timed));
  for (const auto& [key, record] : before) {
    const auto place = after.find(key);
    if (place == after.end() || !record->passed()) continue;
    const Record& now = *place->second;
    const Outcome verdict = now.check.verdict;
    if (verdict == Outcome::kFailed || verdict == Outcome::kMistrusted)
      result.points.push_back(
          {key,
           Change::kRegression,
           {},
           fmt::format("was passed, is {}: {}", ToString(verdict),
                       now.check.reason)});
    else if (record->seconds && now.seconds)
      result.points.push_back(CompareTimes(key, *record->seconds, *now.seconds,
                                           result.confidence, threshold));
    else if (record->seconds)
      result.points.push_back(
          {key,
           Change::kAmbiguous,
           {},
           fmt::format("was measured, is {}", ToString(verdict))});
  }
  return result;
}

Json MergeFiles(const std::vector<Json>& files,
                const std::vector<std::string>& names,
                const std::string& command) {
  std::vector<Record> records;
  std::vector<RunInfo> runs;
  std::map<PointKey, std::pair<Json, size_t>> seen;
  for (size_t i = 0; i < files.size(); ++i) {
    runs.push_back(RunInfo::Of(files[i], names[i]));
    if (runs[i].seed != runs.front().seed)
      throw InvalidInput(
          names[i],
          fmt::format("seed {} as {} has", runs.front().seed, names.front()),
          std::to_string(runs[i].seed));
    for (Record& record : RecordsOf(files[i], names[i])) {
      Json json = ToJson(record);
      const auto place = seen.find(record.Key());
      if (place == seen.end()) {
        seen.emplace(record.Key(), std::pair(std::move(json), i));
        records.push_back(std::move(record));
      } else if (place->second.first != json) {
        throw InvalidInput(
            names[i],
            "points that are not in " + names[place->second.second] + " too",
            record.Key().Text());
      }
    }
  }
  SortRecords(records);
  Json merged = MakeResultFile(
      {command, CurrentTime(), runs.front().seed, runs.front().environment},
      records);
  // Lists the machines of the parts if they differ.
  Json sources = Json::array();
  for (const RunInfo& run : runs)
    sources.push_back({{"command", run.command},
                       {"created", run.created},
                       {"environment", WriteJson(run.environment)}});
  merged["sources"] = std::move(sources);
  return merged;
}

}  // namespace subquad
