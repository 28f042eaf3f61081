#include "harness/results/times.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "reference/base/invalid_input.h"

namespace subquad {

double Times::Spent() const {
  return std::accumulate(samples.begin(), samples.end(), 0.0);
}

int Times::Processes() const {
  return std::max(1, static_cast<int>(processes.size()));
}

void Times::Add(const Times& more) {
  if (processes.empty()) processes = {std::ssize(samples)};
  samples.insert(samples.end(), more.samples.begin(), more.samples.end());
  if (more.processes.empty())
    processes.push_back(std::ssize(more.samples));
  else
    processes.insert(processes.end(), more.processes.begin(),
                     more.processes.end());
  stopped_by = more.stopped_by;
}

Median MedianOf(const Times& times) {
  if (times.processes.size() < 2) return MedianWithInterval(times.samples);
  std::span<const double> rest = times.samples;
  std::vector<double> medians;
  for (const int64_t count : times.processes) {
    const auto taken = static_cast<size_t>(count);
    if (count < 1 || taken > rest.size())
      throw InvalidInput("processes", "numbers of samples, each at least 1",
                         std::to_string(count));
    medians.push_back(MedianWithInterval(rest.first(taken)).median);
    rest = rest.subspan(taken);
  }
  if (!rest.empty())
    throw InvalidInput("processes", "as many samples as there are",
                       std::to_string(rest.size()) + " more");
  return MedianWithInterval(medians);
}

Json JsonValue<Times>::Write(const Times& times) {
  const Median median = MedianOf(times);
  Json seconds = {{"median", median.median},
                  {"low", median.interval.low},
                  {"high", median.interval.high},
                  {"min", *std::ranges::min_element(times.samples)},
                  {"max", *std::ranges::max_element(times.samples)},
                  {"samples", times.samples}};
  if (times.processes.size() > 1) seconds["processes"] = times.processes;
  seconds["stopped_by"] = times.stopped_by;
  return seconds;
}

void JsonValue<Times>::Read(const Json& json, const std::string& where,
                            Times& times) {
  double derived = 0;  // from the samples
  FieldReader fields(json, where);
  for (const char* name : {"median", "low", "high", "min", "max"})
    fields(name, derived, Empty::kNull);
  fields("samples", times.samples, Empty::kValue);
  fields("processes", times.processes, Empty::kOmitted);
  fields("stopped_by", times.stopped_by, Empty::kValue);
  fields.RefuseUnknown();
  if (times.samples.empty())
    throw InvalidInput(where + ": samples", "at least one", "none");
}

}  // namespace subquad
