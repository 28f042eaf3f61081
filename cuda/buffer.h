// Device memory that frees itself.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/check.h"

namespace subquad {

template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(int64_t count) : count_(count) {
    if (count > 0)
      SUBQUAD_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_),
                                    static_cast<size_t>(count) * sizeof(T)));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  int64_t size() const { return count_; }

  void Upload(const T* host) const {
    SUBQUAD_CUDA_CHECK(cudaMemcpy(data_, host,
                                  static_cast<size_t>(count_) * sizeof(T),
                                  cudaMemcpyHostToDevice));
  }
  void Download(T* host) const {
    SUBQUAD_CUDA_CHECK(cudaMemcpy(host, data_,
                                  static_cast<size_t>(count_) * sizeof(T),
                                  cudaMemcpyDeviceToHost));
  }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace subquad
