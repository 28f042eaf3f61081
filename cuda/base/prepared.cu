#include "cuda/base/prepared.h"
#include "cuda/base/stopwatch.h"
#include "cuda/device.h"

namespace subquad::device {
DevicePrepared::DevicePrepared(const Problem& problem, const Arrays& arrays,
                               Layout& layout)
    : device_(arrays) {
  if (arrays.on_device || layout.counting()) return;
  host_ = arrays;
  const int64_t bytes = Info(problem.scalar).bytes;
  for (auto* list : {&device_.inputs, &device_.outputs})
    for (Arrays::Entry& entry : *list) {
      memory_.emplace_back(entry.count * bytes, DeviceUse::kTensor);
      entry.data = memory_.back().data();
    }
}

void DevicePrepared::Upload() {
  for (size_t i = 0; i < host_.inputs.size(); ++i)
    SUBQUAD_CUDA_CHECK(cudaMemcpy(memory_[i].data(), host_.inputs[i].data,
                                  static_cast<size_t>(memory_[i].bytes()),
                                  cudaMemcpyHostToDevice));
  for (size_t o = host_.inputs.size(); o < memory_.size(); ++o)
    memory_[o].Poison();
}

// Waits for the device; reports errors of kernels.
void DevicePrepared::Wait() { SUBQUAD_CUDA_CHECK(cudaDeviceSynchronize()); }

void DevicePrepared::Download() {
  Wait();
  for (size_t o = 0; o < host_.outputs.size(); ++o) {
    const DeviceMemory& memory = memory_[host_.inputs.size() + o];
    SUBQUAD_CUDA_CHECK(cudaMemcpy(host_.outputs[o].data, memory.data(),
                                  static_cast<size_t>(memory.bytes()),
                                  cudaMemcpyDeviceToHost));
  }
}

double DevicePrepared::Time() {
  if (!Device().has_clock)
    throw DeviceError("an emulated device cannot measure times");
  if (!cache_filler_.data())
    cache_filler_ = DeviceMemory(2 * Device().cache_bytes, DeviceUse::kTensor);
  // Writes twice the size of the cache, to evict the data of the previous run.
  cache_filler_.Poison();
  const Stopwatch watch;
  Launch();
  return watch.Seconds();
}

std::vector<Implementation> DeviceTable(std::string_view op,
                                        std::vector<Implementation> rows) {
  rows = CompleteTable(op, Backend::kCuda, kDeviceScalars, std::move(rows));
  for (Implementation& row : rows)
    row.why_not = [own = row.why_not](const Problem& problem) -> std::string {
      if (problem.backward) return "the backward pass runs on the CPU only";
      const std::string reason = own ? own(problem) : "";
      return reason.empty() ? Device().why_not : reason;
    };
  return rows;
}

}  // namespace subquad::device
