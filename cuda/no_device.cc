// The device of a program that was built without nvcc.
#include "cuda/device.h"

namespace subquad {

const DeviceInfo& Device() {
  static const DeviceInfo info = [] {
    DeviceInfo none;
    none.why_not = "no CUDA in this program";
    return none;
  }();
  return info;
}

std::vector<Implementation> CudaImplementations() { return {}; }

OutOfDeviceMemory::OutOfDeviceMemory(int64_t, int64_t) {}
int64_t AvailableDeviceBytes() { return 0; }
int64_t DeviceWorkspaceBytes() { return 0; }
void ResetDevicePeak() {}
int64_t DevicePeakBytes() { return 0; }
void PoisonDeviceWorkspaces() {}
int64_t CountBrokenDeviceGuards() { return 0; }
bool DeviceIsBroken() { return false; }
double MeasureDeviceCopyBandwidth() { return 0; }
std::optional<DeviceState> AskDeviceState() { return std::nullopt; }

}  // namespace subquad
