#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/base/memory.h"
#include "cuda/device.h"

namespace subquad {
namespace device {
namespace {

#ifdef SUBQUAD_EMULATED_CUDA
// No guard is needed: the emulated device protects the pages around
// allocations.
constexpr int64_t kGuardBytes = 0;
#else
constexpr int64_t kGuardBytes = 256;  // keeps cudaMalloc's alignment
#endif
constexpr int kGuard = 0xA5;

struct Ledger {
  std::mutex mutex;
  std::set<const DeviceMemory*> live;
  int64_t workspace = 0, peak = 0;
};

Ledger& TheLedger() {
  static auto* ledger = new Ledger;  // outlives every buffer
  return *ledger;
}

void Enter(const DeviceMemory* memory) {
  Ledger& ledger = TheLedger();
  std::lock_guard lock(ledger.mutex);
  ledger.live.insert(memory);
  if (memory->use() == DeviceUse::kTensor) return;
  ledger.workspace += memory->bytes();
  ledger.peak = std::max(ledger.peak, ledger.workspace);
}

void Leave(const DeviceMemory* memory) {
  Ledger& ledger = TheLedger();
  std::lock_guard lock(ledger.mutex);
  ledger.live.erase(memory);
  if (memory->use() != DeviceUse::kTensor) ledger.workspace -= memory->bytes();
}

}  // namespace

DeviceMemory::DeviceMemory(int64_t bytes, DeviceUse use)
    : bytes_(bytes), use_(use) {
  if (bytes <= 0) return;
  void* base = nullptr;
  const cudaError_t status =
      cudaMalloc(&base, static_cast<size_t>(bytes + 2 * kGuardBytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error for the next case
    throw OutOfDeviceMemory(bytes, AvailableDeviceBytes());
  }
  CheckCall(status, "cudaMalloc");
  data_ = static_cast<unsigned char*>(base) + kGuardBytes;
  if (kGuardBytes > 0) {
    SUBQUAD_CUDA_CHECK(cudaMemset(base, kGuard, kGuardBytes));
    SUBQUAD_CUDA_CHECK(cudaMemset(data_ + bytes, kGuard, kGuardBytes));
  }
  Enter(this);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this == &other) return *this;
  Release();
  if (other.data_) Leave(&other);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  use_ = other.use_;
  if (data_) Enter(this);
  return *this;
}

void DeviceMemory::Release() {
  if (!data_) return;
  Leave(this);
  cudaFree(data_ - kGuardBytes);
  data_ = nullptr;
}

// Sets all bytes to 0xFF: a NaN in every floating-point type.
void DeviceMemory::Poison() const {
  SUBQUAD_CUDA_CHECK(cudaMemset(data_, 0xFF, static_cast<size_t>(bytes_)));
}

bool DeviceMemory::GuardsIntact() const {
  std::vector<unsigned char> guards(2 * kGuardBytes);
  if (kGuardBytes == 0) return true;
  SUBQUAD_CUDA_CHECK(cudaMemcpy(guards.data(), data_ - kGuardBytes, kGuardBytes,
                                cudaMemcpyDeviceToHost));
  SUBQUAD_CUDA_CHECK(cudaMemcpy(guards.data() + kGuardBytes, data_ + bytes_,
                                kGuardBytes, cudaMemcpyDeviceToHost));
  for (const unsigned char byte : guards)
    if (byte != kGuard) return false;
  return true;
}

}  // namespace device

using device::DeviceMemory;
using device::DeviceUse;
using device::TheLedger;

OutOfDeviceMemory::OutOfDeviceMemory(int64_t needed, int64_t available)
    : text_("does not fit in the device's memory: an allocation of " +
            std::to_string(needed) + " bytes failed, " +
            std::to_string(available) + " are available") {}

int64_t AvailableDeviceBytes() {
  if (!Device().present) return 0;
  size_t free = 0, total = 0;
  SUBQUAD_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

int64_t DeviceWorkspaceBytes() {
  std::lock_guard lock(TheLedger().mutex);
  return TheLedger().workspace;
}

void ResetDevicePeak() {
  std::lock_guard lock(TheLedger().mutex);
  TheLedger().peak = TheLedger().workspace;
}

int64_t DevicePeakBytes() {
  std::lock_guard lock(TheLedger().mutex);
  return TheLedger().peak;
}

void PoisonDeviceWorkspaces() {
  std::lock_guard lock(TheLedger().mutex);
  for (const DeviceMemory* memory : TheLedger().live)
    if (memory->use() == DeviceUse::kWorkspace) memory->Poison();
}

int64_t CountBrokenDeviceGuards() {
  std::lock_guard lock(TheLedger().mutex);
  int64_t broken = 0;
  for (const DeviceMemory* memory : TheLedger().live)
    broken += !memory->GuardsIntact();
  return broken;
}

}  // namespace subquad
