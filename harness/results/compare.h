// Compares two result files of the same points: which became slower or faster.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/results/record.h"

namespace subquad {

enum class Change {
  kSame,        // the ratio's interval lies within the threshold
  kFaster,      // it lies wholly below
  kRegression,  // it lies wholly above, or the point no longer passes
  kAmbiguous,   // it crosses the threshold or is unknown
};
std::string_view ToString(Change change);

struct PointChange {
  PointKey key;
  Change change = Change::kSame;
  Ratio ratio;  // new / old
  std::string note;
};

struct FileComparison {
  std::vector<PointChange> points;  // measured or passed in the old file
  int64_t only_old = 0, only_new = 0;
  double confidence = 0;  // of each interval, after correction
};

// Compares the records of two files. A `threshold` of 0.05 lets medians differ
// by 5 % either way, as two runs of one build do on a shared machine. The
// confidence of the intervals is corrected for the number of points
// (Bonferroni), so that all of them hold together at 95 %.
FileComparison CompareFiles(const std::vector<Record>& old_records,
                            const std::vector<Record>& new_records,
                            double threshold);

// Joins the result files of the shards of one plan. Throws InvalidInput if
// seeds differ or if two files have different values for one point.
nlohmann::ordered_json MergeFiles(
    const std::vector<nlohmann::ordered_json>& files,
    const std::vector<std::string>& names, const std::string& command);

}  // namespace subquad
