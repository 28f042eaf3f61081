#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/machine/environment.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

bool Passed(const Json& record) {
  return record.at("check").at("verdict") == "passed";
}

bool Timed(const Json& record) { return !record.at("seconds").is_null(); }

std::map<std::string, const Json*> ByKey(const Json& file) {
  std::map<std::string, const Json*> records;
  for (const Json& record : file.at("records"))
    records.emplace(RecordKey(record), &record);
  return records;
}

PointChange CompareTimes(const std::string& key, const Json& before,
                         const Json& after, double confidence,
                         double threshold) {
  PointChange point{key, Change::kAmbiguous, {}, ""};
  const auto a = before.at("seconds").at("samples").get<std::vector<double>>();
  const auto b = after.at("seconds").at("samples").get<std::vector<double>>();
  point.ratio = RatioOfMedians(a, b, confidence);
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

FileComparison CompareFiles(const Json& old_file, const Json& new_file,
                            double threshold) {
  const auto before = ByKey(old_file), after = ByKey(new_file);
  FileComparison result;
  int64_t timed = 0;
  for (const auto& [key, record] : before) {
    const auto position = after.find(key);
    if (position == after.end())
      ++result.only_old;
    else
      timed += Timed(*record) && Timed(*position->second);
  }
  for (const auto& [key, record] : after)
    result.only_new += !before.contains(key);
  result.confidence =
      1 - 0.05 / static_cast<double>(std::max<int64_t>(1, timed));
  for (const auto& [key, record] : before) {
    const auto place = after.find(key);
    if (place == after.end() || !Passed(*record)) continue;
    const Json& now = *place->second;
    const std::string verdict = now.at("check").at("verdict");
    if (verdict == "failed" || verdict == "mistrusted") {
      const Json& reason = now.at("check").at("reason");
      result.points.push_back(
          {key,
           Change::kRegression,
           {},
           "was passed, is " + verdict + ": " +
               (reason.is_string() ? reason.get<std::string>() : "")});
    } else if (Timed(*record) && Timed(now)) {
      result.points.push_back(
          CompareTimes(key, *record, now, result.confidence, threshold));
    } else if (Timed(*record)) {
      result.points.push_back(
          {key, Change::kAmbiguous, {}, "was measured, is " + verdict});
    }
  }
  return result;
}

Json MergeFiles(const std::vector<Json>& files,
                const std::vector<std::string>& names,
                const std::string& command) {
  std::vector<Json> records;
  std::map<std::string, std::pair<const Json*, size_t>> seen;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].at("seed") != files.front().at("seed"))
      throw InvalidInput(
          names[i],
          fmt::format("seed {} as {} has", files.front().at("seed").dump(),
                      names.front()),
          files[i].at("seed").dump());
    for (const Json& record : files[i].at("records")) {
      const auto [found, added] =
          seen.try_emplace(RecordKey(record), &record, i);
      if (added)
        records.push_back(record);
      else if (*found->second.first != record)
        throw InvalidInput(
            names[i],
            "points that are not in " + names[found->second.second] + " too",
            RecordKey(record));
    }
  }
  SortRecords(records);
  Json merged =
      MakeResultFile({{"command", command},
                      {"created", CurrentTime()},
                      {"seed", files.front().at("seed")},
                      {"environment", files.front().at("environment")}},
                     records);
  // Lists the machines of the parts if they differ.
  Json sources = Json::array();
  for (const Json& file : files)
    sources.push_back({{"command", file.at("command")},
                       {"created", file.at("created")},
                       {"environment", file.at("environment")}});
  merged["sources"] = std::move(sources);
  return merged;
}

}  // namespace subquad
