#include "harness/machine/environment.h"

#include <benchmark/benchmark.h>
#include <fftw3.h>
#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <thread>

#include "cuda/device.h"
#include "harness/machine/build_info.h"
#include "optimized/base/copy_bandwidth.h"
#include "optimized/targets.h"

namespace subquad {
namespace {

std::string Field(const std::string& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.rfind(key, 0) == 0) {
      const size_t colon = line.find_first_of(":=");
      if (colon == std::string::npos) continue;
      std::string value = line.substr(line.find_first_not_of(" \t", colon + 1));
      value.erase(std::remove(value.begin(), value.end(), '"'), value.end());
      return value;
    }
  return "";
}

int64_t Kilobytes(const std::string& key) {
  const std::string value = Field("/proc/meminfo", key);
  return value.empty() ? 0 : std::stoll(value) * 1024;
}

nlohmann::ordered_json CopyRates(std::initializer_list<int64_t> sizes) {
  auto rates = nlohmann::ordered_json::array();
  for (const int64_t bytes : sizes)
    rates.push_back(
        {{"bytes", bytes}, {"bytes_per_second", MeasureCopyBandwidth(bytes)}});
  return rates;
}

nlohmann::ordered_json DescribeDevice() {
  const DeviceInfo& device = Device();
  nlohmann::ordered_json gpu = {
      {"name", device.name},
      {"driver", device.driver},
      {"cuda", device.runtime},
      {"cufft", device.cufft},
      {"cublas", device.cublas},
      {"memory_bytes", device.memory_bytes},
      {"cache_bytes", device.cache_bytes},
      {"multiprocessors", device.multiprocessors},
      {"compute",
       fmt::format("{}.{}", device.compute_major, device.compute_minor)},
      {"emulated", device.emulated},
      {"peak_bytes_per_second", device.peak_bytes_per_second},
      {"peak_flops_per_second", device.peak_flops_per_second},
      {"peak_matrix_flops_per_second", device.peak_matrix_flops_per_second},
      {"copy_bytes_per_second", MeasureDeviceCopyBandwidth()}};
  if (const std::optional<DeviceState> state = AskDeviceState()) {
    gpu["processor_mhz"] = state->processor_mhz;
    gpu["memory_mhz"] = state->memory_mhz;
    gpu["throttled"] = state->throttled;
  }
  return gpu;
}

}  // namespace

int64_t MemoryBytes() {
  const int64_t total = Kilobytes("MemTotal");
  int64_t limit = 0;
  std::ifstream group("/sys/fs/cgroup/memory.max");
  if (group >> limit && limit > 0) return std::min(limit, total);
  return total;
}

int64_t AvailableMemoryBytes() {
  return std::min(MemoryBytes(), Kilobytes("MemAvailable"));
}

std::string CurrentTime() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

nlohmann::ordered_json DescribeBuild() {
  return {
      {"commit", kCommit},
      {"dirty", kDirty},
      {"program", kProgram},
      {"compiler", kCompiler},
      {"flags", kFlags},
      {"libraries",
       {{"eigen", SUBQUAD_EIGEN_VERSION},
        {"fftw", std::string(fftw_version)},
        {"nlohmann_json",
         fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                     NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
        {"cli11", CLI11_VERSION}}}};
}

nlohmann::ordered_json DescribeEnvironment(int threads) {
  utsname system{};
  uname(&system);
  std::string os = Field("/etc/os-release", "PRETTY_NAME");
  os += fmt::format("{}{} {}", os.empty() ? "" : ", ", system.sysname,
                    system.machine);
  std::string cpu = Field("/proc/cpuinfo", "model name");
  nlohmann::ordered_json environment = DescribeBuild();
  environment.update(nlohmann::ordered_json{
      {"cpu", cpu.empty() ? "unknown" : cpu},
      {"target", CurrentTarget().name},
      {"cores", static_cast<int64_t>(std::thread::hardware_concurrency())},
      {"memory_bytes", MemoryBytes()},
      {"threads", threads},
      {"os", os},
      {"gpu", nullptr},
      {"measured",
       {{"copy_bytes_per_second", MeasureCopyBandwidth(int64_t{1} << 27)},
        {"cached_copy_bytes_per_second", MeasureCopyBandwidth(1 << 13)},
        {"copy_rates", CopyRates({1 << 18, 1 << 23})},
        {"fma_flops_per_second",
         {{"float32", CurrentTarget().measure_flops_per_second(false)},
          {"float64", CurrentTarget().measure_flops_per_second(true)}}}}}});
  if (Device().present) environment["gpu"] = DescribeDevice();
  return environment;
}

}  // namespace subquad
