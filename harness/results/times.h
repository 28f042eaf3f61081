// The times of a record: samples of one process, or of several, each of which
// placed its buffers anew and ran at another moment.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

// Samples in the order measured; `processes` says how many of them each process
// took, and is empty where one took all.
struct Times {
  std::vector<double> samples;  // seconds per run
  std::vector<int64_t> processes;
  std::string stopped_by;  // interval, samples or budget

  // The sum of the samples: about how long measuring took.
  double Spent() const;
};

// Of one process: the median of its samples, with its interval. Of several: the
// median of their medians, and the interval of that, because samples of one
// process are nearer to each other than to those of the next. Throws
// InvalidInput where the numbers of samples do not add up.
Median MedianOf(const Times& times);

// A record's `seconds`, and back.
nlohmann::ordered_json TimesJson(const Times& times);
Times TimesOf(const nlohmann::ordered_json& seconds);

}  // namespace subquad
