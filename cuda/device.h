// What the harness may know of a GPU without knowing CUDA. There are three
// libraries behind it: cuda/ compiled by nvcc, no_device.cc where there is no
// nvcc, and, for tests, cuda/ compiled for an emulated device.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/implementation.h"

namespace subquad {

struct DeviceInfo {
  bool present = false;
  bool emulated = false;  // by the host, to check kernels
  bool has_clock = true;  // its times mean something
  std::string why_not;    // in words, when there is none
  std::string name;
  std::string driver, runtime, cufft, cublas;  // versions
  int64_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // the last level's
  int multiprocessors = 0;
  int compute_major = 0, compute_minor = 0;
  // What it could do at most at its highest clocks; 0: unknown.
  double peak_bytes_per_second = 0;
  double peak_flops_per_second = 0;  // multiply-adds in float32, two each
  // Likewise of factors of two bytes, on the tensor cores.
  double peak_matrix_flops_per_second = 0;
};

// The first device; asked for once.
const DeviceInfo& Device();

// All implementations of cuda/.
std::vector<Implementation> CudaImplementations();

// ---- memory -----------------------------------------------------------------

// Memory of the device was refused: what was asked for and what there was.
class OutOfDeviceMemory : public std::bad_alloc {
 public:
  OutOfDeviceMemory(int64_t needed, int64_t available);
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Bytes that could be had now; 0 where there is no device.
int64_t AvailableDeviceBytes();

// Workspaces, tables and the areas of libraries, counted where they are asked
// for. Inputs and outputs are not in it.
int64_t DeviceWorkspaceBytes();
void ResetDevicePeak();
int64_t DevicePeakBytes();

// For checked runs: NaN into every workspace, and how many allocations have
// been written outside of.
void PoisonDeviceWorkspaces();
int64_t CountBrokenDeviceGuards();

// ---- its state --------------------------------------------------------------

// Whether a kernel has gone so wrong that nothing runs in this process any
// more.
bool DeviceIsBroken();

// Bytes read and written per second by a large copy within the device, by its
// own clock; 0 where there is none.
double MeasureDeviceCopyBandwidth();

// What nvidia-smi says just now.
struct DeviceState {
  int processor_mhz = 0, memory_mhz = 0;
  std::string throttled;  // why it runs slower than it could; empty if not
};

// Nothing where it cannot be asked.
std::optional<DeviceState> AskDeviceState();

}  // namespace subquad
