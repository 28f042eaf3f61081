// The times of a record: samples of one process, or of several that each
// allocated their own buffers and ran at another moment.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

// Samples in the order of measurement. `processes` has the number of samples of
// each process and is empty if there was only one.
struct Times {
  std::vector<double> samples;  // seconds per run
  std::vector<int64_t> processes;
  std::string stopped_by;  // interval, samples or budget

  // Returns the number of processes that took samples.
  int Processes() const;
  // Returns the sum of the samples, about the time that measuring took.
  double Spent() const;
  // Appends the samples of another process.
  void Add(const Times& more);
};

// Returns the median with its interval: for one process of its samples, for
// several of their medians, because samples of one process are closer to each
// other than to those of the next. Throws InvalidInput if the numbers of
// samples do not add up.
Median MedianOf(const Times& times);

// Converts to a record's `seconds` and back. TimesOf throws InvalidInput that
// names `where` if there are no samples or a field is missing.
nlohmann::ordered_json TimesJson(const Times& times);
Times TimesOf(const nlohmann::ordered_json& seconds, const std::string& where);

}  // namespace subquad
