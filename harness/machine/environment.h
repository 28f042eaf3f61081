// Describes the build and the machine that a result comes from, as result files
// record them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "harness/base/json_fields.h"

namespace subquad {

struct BuildDescription {
  std::optional<std::string> commit;  // "unknown" outside a repository
  std::optional<bool> dirty;          // built with uncommitted changes
  std::string program;                // digest of the build
  std::string compiler, flags;
  Named<std::string> libraries;  // versions
};

struct GpuDescription {
  std::string name, driver, cuda, cufft, cublas;
  int64_t memory_bytes = 0, cache_bytes = 0;
  int multiprocessors = 0;
  std::string compute;  // "9.0"
  bool emulated = false;
  double peak_bytes_per_second = 0, peak_flops_per_second = 0;
  double peak_matrix_flops_per_second = 0, copy_bytes_per_second = 0;
  std::optional<DeviceState> state;  // unknown if nvidia-smi does not answer
};

// A copy of arrays that fit a cache.
struct CopyRate {
  int64_t bytes = 0;  // of the array
  double bytes_per_second = 0;
};

struct MultiplyAddRates {
  double float32 = 0,
         float64 = 0;  // operations per second, two per multiply-add
};

// The roofline of a processor. Copies count bytes read and written.
struct MeasuredRates {
  double copy_bytes_per_second = 0;  // of arrays that fit no cache
  double cached_copy_bytes_per_second = 0;
  std::vector<CopyRate> copy_rates;
  MultiplyAddRates fma_flops_per_second;
};

struct Environment {
  BuildDescription build;
  std::string cpu, target;
  int64_t cores = 1, memory_bytes = 0;
  int threads = 1;
  std::string os;
  std::optional<GpuDescription> gpu;  // if one was used
  MeasuredRates measured;
};

template <>
struct JsonValue<Environment> {
  static Json Write(const Environment& environment);
  static void Read(const Json& json, const std::string& where,
                   Environment& environment);
};

template <FieldsOf<DeviceState> T, typename Fields>
void VisitFields(T& state, Fields&& fields) {
  fields("processor_mhz", state.processor_mhz, Empty::kValue);
  fields("memory_mhz", state.memory_mhz, Empty::kValue);
  fields("throttled", state.throttled, Empty::kValue);
}

BuildDescription DescribeBuild();

// Describes build and machine, and measures the roofline, which takes a second.
Environment DescribeEnvironment(int threads);

int64_t MemoryBytes();  // of the machine, or of the group it is confined to
int64_t AvailableMemoryBytes();
std::string CurrentTime();  // ISO 8601, UTC

}  // namespace subquad
