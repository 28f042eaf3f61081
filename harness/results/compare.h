// Two result files of the same points: what became slower or faster.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

enum class Change {
  kSame,        // the ratio's interval lies within the threshold
  kFaster,      // it lies wholly below
  kRegression,  // it lies wholly above, or the point no longer passes
  kAmbiguous,   // it reaches across the threshold, or is not known
};
std::string_view ToString(Change change);

struct PointChange {
  std::string key;  // case|implementation|backend|threads
  Change change = Change::kSame;
  Ratio ratio;  // new / old
  std::string note;
};

struct FileComparison {
  std::vector<PointChange> points;  // measured or passed in the old file
  int64_t only_old = 0, only_new = 0;
  double confidence = 0;  // of each interval, after correction
};

// `threshold`: 0.05 lets medians differ by 5 % either way, which two runs of
// one build do on a shared machine. The intervals' confidence is corrected for
// the number of points (Bonferroni), so that all of them hold together at 95 %.
FileComparison CompareFiles(const nlohmann::ordered_json& old_file,
                            const nlohmann::ordered_json& new_file,
                            double threshold);

// Joins result files of one plan's shards. Throws InvalidInput where seeds
// differ or a point stands in two files with different numbers.
nlohmann::ordered_json MergeFiles(
    const std::vector<nlohmann::ordered_json>& files,
    const std::vector<std::string>& names, const std::string& command);

}  // namespace subquad
