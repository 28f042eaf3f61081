#include "harness/floors.h"

#include <fmt/format.h>

namespace subquad {

std::string Impossible(const Cost& cost, int threads, Scalar scalar,
                       const Floors& floors, double seconds) {
  constexpr double kNoise = 1.5;  // of the floors themselves
  // NaN is caught too.
  if (!(seconds > 0)) return fmt::format("impossible: {:.3g} s", seconds);
  const double peak =
      threads * (scalar == Scalar::kFloat64 ? floors.flops_per_second_float64
                                            : floors.flops_per_second_float32);
  if (peak > 0 && cost.flops / (kNoise * peak) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} flops on a machine that does {:.3g} a "
        "second",
        seconds, cost.flops, peak);
  const double bandwidth = threads * floors.cached_bytes_per_second;
  if (bandwidth > 0 && cost.bytes / (kNoise * bandwidth) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} bytes on a machine that copies {:.3g} "
        "a second in its first cache",
        seconds, cost.bytes, bandwidth);
  return "";
}

std::string ImpossibleOnDevice(const Cost& cost, double peak_flops_per_second,
                               double peak_bytes_per_second, double cache_bytes,
                               double seconds) {
  constexpr double kNoise = 1.1;  // of its clock; peaks cannot be exceeded
  if (!(seconds > 0)) return fmt::format("impossible: {:.3g} s", seconds);
  if (peak_flops_per_second > 0 &&
      cost.flops / (kNoise * peak_flops_per_second) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} flops on a device that does {:.3g} a "
        "second",
        seconds, cost.flops, peak_flops_per_second);
  const double moved = cost.bytes - cache_bytes;
  if (peak_bytes_per_second > 0 &&
      moved / (kNoise * peak_bytes_per_second) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} bytes on a device that moves {:.3g} a "
        "second",
        seconds, cost.bytes, peak_bytes_per_second);
  return "";
}

}  // namespace subquad
