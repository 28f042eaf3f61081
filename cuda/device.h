// The harness's interface to a GPU; the only header of cuda/ that it includes.
// Three libraries implement it: cuda/ compiled by nvcc, no_device.cc without
// nvcc, and, for tests, cuda/ compiled for an emulated device.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

struct DeviceInfo {
  bool present = false;
  bool emulated = false;  // by the host, for testing kernels
  bool has_clock = true;  // whether it can measure times
  bool unusable = false;  // there is a device, but this program cannot use it
  // Says why no device is present; follows "expected a GPU, found ..".
  std::string why_not;
  std::string name;
  std::string driver, runtime, cufft, cublas;  // versions
  int64_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // last level
  int multiprocessors = 0;
  int compute_major = 0, compute_minor = 0;
  // Peak rates at the highest clocks; 0 if unknown.
  double peak_bytes_per_second = 0;
  double peak_flops_per_second = 0;  // float32 multiply-adds, two each
  // Peak rate of the tensor cores with 16-bit factors.
  double peak_matrix_flops_per_second = 0;
};

// Returns the first device; queried once.
const DeviceInfo& Device();

// Returns all implementations of cuda/.
std::vector<Implementation> CudaImplementations();

// ---- memory -----------------------------------------------------------------

// An allocation on the device failed: bytes needed and bytes available.
class OutOfDeviceMemory : public std::bad_alloc {
 public:
  OutOfDeviceMemory(int64_t needed, int64_t available);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Returns the bytes that are available now; 0 without a device.
int64_t AvailableDeviceBytes();

// Returns the bytes of workspaces, tables and work areas of libraries, counted
// when they are allocated. Inputs and outputs are not included.
int64_t DeviceWorkspaceBytes();
void ResetDevicePeak();
int64_t DevicePeakBytes();

// Support checked runs: fill every workspace with NaN; count the allocations
// whose guard bytes were overwritten.
void PoisonDeviceWorkspaces();
int64_t CountBrokenDeviceGuards();

// ---- state ------------------------------------------------------------------

// True if a kernel has failed so that nothing can run in this process any more.
bool DeviceIsBroken();

// Measures the bytes read and written per second by a large copy within the
// device, by the device's clock; 0 without a clock.
double MeasureDeviceCopyBandwidth();

// The state that nvidia-smi reports.
struct DeviceState {
  int processor_mhz = 0, memory_mhz = 0;
  std::string throttled;  // reasons for reduced clocks; may be empty
};

// Returns nothing if nvidia-smi does not answer.
std::optional<DeviceState> AskDeviceState();

}  // namespace subquad
