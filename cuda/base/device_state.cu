// The device's clocks and reasons for reduced clocks, from nvidia-smi.
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "cuda/base/check.h"
#include "cuda/device.h"

namespace subquad {
namespace {

// Bits of clocks_throttle_reasons.active, from NVIDIA's documentation of its
// management library.
constexpr std::pair<unsigned long long, const char*> kReasons[] = {
    {0x2, "application clocks"},  {0x4, "power cap"},
    {0x8, "hardware slowdown"},   {0x10, "sync boost"},
    {0x20, "thermal (software)"}, {0x40, "thermal (hardware)"},
    {0x80, "power brake"},        {0x100, "display clocks"},
};

std::string Names(unsigned long long bits) {
  std::string names;
  for (const auto& [bit, name] : kReasons)
    if (bits & bit) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

// Returns the first line of a command's output; empty if it cannot be run.
std::string FirstLine(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(command.c_str(), "r"), ::pclose);
  std::array<char, 256> line{};
  if (!pipe || !std::fgets(line.data(), line.size(), pipe.get())) return "";
  return line.data();
}

}  // namespace

std::optional<DeviceState> AskDeviceState() {
  if (!Device().present || Device().emulated) return std::nullopt;
  char bus[32] = {};
  SUBQUAD_CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  const std::string line = FirstLine(
      "nvidia-smi -i " + std::string(bus) +
      " --format=csv,noheader,nounits --query-gpu=clocks.sm,clocks.mem,"
      "clocks_throttle_reasons.active 2>/dev/null");
  DeviceState state;
  unsigned long long reasons = 0;
  if (std::sscanf(line.c_str(), "%d, %d, %llx", &state.processor_mhz,
                  &state.memory_mhz, &reasons) != 3)
    return std::nullopt;
  state.throttled = Names(reasons);
  return state;
}

}  // namespace subquad
