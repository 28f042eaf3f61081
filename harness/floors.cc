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

}  // namespace subquad
