#include "harness/sweeps/progress.h"

#include <fmt/format.h>

#include <utility>

#include "harness/base/clock.h"
#include "harness/base/tell.h"

namespace subquad {
namespace {

std::string ShortTime(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

}  // namespace

std::string Duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

Progress::Progress(size_t total, std::string pass)
    : total_(total), pass_(std::move(pass)), start_(SteadySeconds()) {}

void Progress::Report(const PlannedCase& planned,
                      const std::vector<Record>& records) {
  ++done_;
  std::string text;
  for (const Record& record : records) {
    std::string name = record.implementation;
    if (record.backend != Backend::kCpu)
      name += fmt::format(" ({})", ToString(record.backend));
    std::string result;
    if (record.seconds) {
      result = ShortTime(MedianOf(*record.seconds).median);
    } else {
      result = ToString(record.check.verdict);
      if (!record.check.reason.empty())
        result += " (" + record.check.reason + ")";
    }
    text += fmt::format("  {} {}", name, result);
  }
  // Cases grow along a sweep, so that the estimate weights late ones more.
  const double left = (SteadySeconds() - start_) / static_cast<double>(done_) *
                      static_cast<double>(total_ - done_);
  Tell("[{}{}/{}] {}{}{}\n", pass_, done_, total_, planned.test_case.Id(), text,
       done_ < total_ ? fmt::format("  (about {} left)", Duration(left)) : "");
}

}  // namespace subquad
