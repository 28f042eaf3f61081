// Measured limits of the machine, with which impossible times are rejected.
#pragma once

#include <string>

#include "cuda/device.h"
#include "reference/contract/implementation.h"

namespace subquad {

// Limits of one thread. Zero means unknown, and rejects nothing.
struct Floors {
  double flops_per_second_float32 = 0, flops_per_second_float64 = 0;
  double cached_bytes_per_second = 0;
};

// Returns a message if `seconds` is impossible for one run of this cost, and
// nothing otherwise. An impossible time means that the work was not done or
// that the counts are wrong. Since small problems stay in caches, the bandwidth
// is that of a copy inside the first cache.
std::string Impossible(const Cost& cost, int threads, Scalar scalar,
                       const Floors& floors, double seconds);

// Returns such a message for a run on a device, by its peaks at its highest
// clock; for 16-bit types by the peak of the tensor cores. The device's cache
// may keep some of the written bytes.
std::string ImpossibleOnDevice(const Cost& cost, const DeviceInfo& device,
                               Scalar scalar, double seconds);

}  // namespace subquad
