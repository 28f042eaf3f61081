// Device memory that frees itself, is surrounded by guard words, is filled with
// NaN before a checked run, and is counted.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/base/check.h"
#include "reference/contract/layout.h"

namespace subquad::device {

enum class DeviceUse {
  kTensor,     // inputs and outputs: not counted as workspace
  kWorkspace,  // values do not survive to the next run
  kTable,      // filled during set-up and kept
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws OutOfDeviceMemory.
  DeviceMemory(int64_t bytes, DeviceUse use);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory() { Release(); }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  DeviceUse use() const { return use_; }

  void Poison() const;
  bool GuardsIntact() const;

 private:
  void Release();

  unsigned char* data_ = nullptr;
  int64_t bytes_ = 0;
  DeviceUse use_ = DeviceUse::kWorkspace;
};

// An array of `count` elements from a layout.
template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Layout& layout, int64_t count,
               DeviceUse use = DeviceUse::kWorkspace)
      : size_(count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    layout.Add(static_cast<double>(bytes));
    if (!layout.counting()) memory_ = DeviceMemory(bytes, use);
  }

  T* data() const { return static_cast<T*>(memory_.data()); }
  int64_t size() const { return size_; }

  // Copies from the host and waits for the device. For tables; DevicePrepared
  // uploads the tensors.
  void Upload(const T* host) const {
    SUBQUAD_CUDA_CHECK(cudaMemcpy(memory_.data(), host,
                                  static_cast<size_t>(memory_.bytes()),
                                  cudaMemcpyHostToDevice));
  }

 private:
  int64_t size_ = 0;
  DeviceMemory memory_;
};

}  // namespace subquad::device
