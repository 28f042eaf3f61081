#include "harness/machine/floors.h"

#include <fmt/format.h>

namespace subquad {

std::string Impossible(const Cost& cost, int threads, Scalar scalar,
                       const Floors& floors, double seconds) {
  constexpr double kNoise = 1.5;  // of the measured limits themselves
  // The condition also rejects NaN.
  if (!(seconds > 0)) return fmt::format("impossible: {:.3g} s", seconds);
  const double peak =
      threads * (scalar == Scalar::kFloat64 ? floors.flops_per_second_float64
                                            : floors.flops_per_second_float32);
  if (peak > 0 && cost.flops / (kNoise * peak) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} flops on a machine whose peak is "
        "{:.3g} per "
        "second",
        seconds, cost.flops, peak);
  const double bandwidth = threads * floors.cached_bytes_per_second;
  if (bandwidth > 0 && cost.bytes / (kNoise * bandwidth) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} bytes on a machine that copies {:.3g} "
        "per second in its first cache",
        seconds, cost.bytes, bandwidth);
  return "";
}

std::string ImpossibleOnDevice(const Cost& cost, const DeviceInfo& device,
                               Scalar scalar, double seconds) {
  constexpr double kNoise = 1.1;  // of the clock; peaks cannot be exceeded
  if (!(seconds > 0)) return fmt::format("impossible: {:.3g} s", seconds);
  const double flops = Info(scalar).bytes == 2
                           ? device.peak_matrix_flops_per_second
                           : device.peak_flops_per_second;
  if (flops > 0 && cost.flops / (kNoise * flops) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} flops on a device whose peak is "
        "{:.3g} per "
        "second",
        seconds, cost.flops, flops);
  const double moved = cost.bytes - static_cast<double>(device.cache_bytes);
  const double bytes = device.peak_bytes_per_second;
  if (bytes > 0 && moved / (kNoise * bytes) > seconds)
    return fmt::format(
        "impossible: {:.3g} s for {:.3g} bytes on a device that moves {:.3g} "
        "per "
        "second",
        seconds, cost.bytes, bytes);
  return "";
}

}  // namespace subquad
