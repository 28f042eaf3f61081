// The times of a record: samples of one process, or of several that each
// allocated their own buffers and ran at another moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/json_fields.h"
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

// A record's `seconds`: the samples, and the median and its interval that
// follow from them.
template <>
struct JsonValue<Times> {
  static Json Write(const Times& times);
  // Throws InvalidInput that names `where` if there are no samples.
  static void Read(const Json& json, const std::string& where, Times& times);
};

}  // namespace subquad
