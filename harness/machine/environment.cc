#include "harness/machine/environment.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef SUBQUAD_FFTW
#include <fftw3.h>
#endif

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

std::string FftwVersion() {
#ifdef SUBQUAD_FFTW
  return fftw_version;
#else
  return "not linked";
#endif
}

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

std::vector<CopyRate> MeasureCopies(std::initializer_list<int64_t> sizes) {
  std::vector<CopyRate> rates;
  for (const int64_t bytes : sizes)
    rates.push_back({bytes, MeasureCopyBandwidth(bytes)});
  return rates;
}

GpuDescription DescribeDevice() {
  const DeviceInfo& device = Device();
  return {.name = device.name,
          .driver = device.driver,
          .cuda = device.runtime,
          .cufft = device.cufft,
          .cublas = device.cublas,
          .memory_bytes = device.memory_bytes,
          .cache_bytes = device.cache_bytes,
          .multiprocessors = device.multiprocessors,
          .compute =
              fmt::format("{}.{}", device.compute_major, device.compute_minor),
          .emulated = device.emulated,
          .peak_bytes_per_second = device.peak_bytes_per_second,
          .peak_flops_per_second = device.peak_flops_per_second,
          .peak_matrix_flops_per_second = device.peak_matrix_flops_per_second,
          .copy_bytes_per_second = MeasureDeviceCopyBandwidth(),
          .state = AskDeviceState()};
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

BuildDescription DescribeBuild() {
  return {.commit = kCommit,
          .dirty = kDirty,
          .program = kProgram,
          .compiler = kCompiler,
          .flags = kFlags,
          .libraries = {{"eigen", SUBQUAD_EIGEN_VERSION},
                        {"fftw", FftwVersion()},
                        {"nlohmann_json",
                         fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                     NLOHMANN_JSON_VERSION_MINOR,
                                     NLOHMANN_JSON_VERSION_PATCH)},
                        {"cli11", CLI11_VERSION}}};
}

Environment DescribeEnvironment(int threads) {
  utsname system{};
  uname(&system);
  std::string os = Field("/etc/os-release", "PRETTY_NAME");
  os += fmt::format("{}{} {}", os.empty() ? "" : ", ", system.sysname,
                    system.machine);
  const std::string cpu = Field("/proc/cpuinfo", "model name");
  Environment environment{
      .build = DescribeBuild(),
      .cpu = cpu.empty() ? "unknown" : cpu,
      .target = CurrentTarget().name,
      .cores = std::thread::hardware_concurrency(),
      .memory_bytes = MemoryBytes(),
      .threads = threads,
      .os = os,
      .measured = {
          .copy_bytes_per_second = MeasureCopyBandwidth(int64_t{1} << 27),
          .cached_copy_bytes_per_second = MeasureCopyBandwidth(1 << 13),
          .copy_rates = MeasureCopies({1 << 18, 1 << 23}),
          .fma_flops_per_second = {
              CurrentTarget().measure_flops_per_second(false),
              CurrentTarget().measure_flops_per_second(true)}}};
  if (Device().present) environment.gpu = DescribeDevice();
  return environment;
}

// ---- JSON -------------------------------------------------------------------

template <FieldsOf<GpuDescription> T, typename Fields>
void VisitFields(T& gpu, Fields&& fields) {
  fields("name", gpu.name, Empty::kValue);
  fields("driver", gpu.driver, Empty::kValue);
  fields("cuda", gpu.cuda, Empty::kValue);
  fields("cufft", gpu.cufft, Empty::kValue);
  fields("cublas", gpu.cublas, Empty::kValue);
  fields("memory_bytes", gpu.memory_bytes, Empty::kValue);
  fields("cache_bytes", gpu.cache_bytes, Empty::kValue);
  fields("multiprocessors", gpu.multiprocessors, Empty::kValue);
  fields("compute", gpu.compute, Empty::kValue);
  fields("emulated", gpu.emulated, Empty::kValue);
  fields("peak_bytes_per_second", gpu.peak_bytes_per_second, Empty::kValue);
  fields("peak_flops_per_second", gpu.peak_flops_per_second, Empty::kValue);
  fields("peak_matrix_flops_per_second", gpu.peak_matrix_flops_per_second,
         Empty::kValue);
  fields("copy_bytes_per_second", gpu.copy_bytes_per_second, Empty::kValue);
  fields.Group(gpu.state);
}

template <FieldsOf<CopyRate> T, typename Fields>
void VisitFields(T& rate, Fields&& fields) {
  fields("bytes", rate.bytes, Empty::kValue);
  fields("bytes_per_second", rate.bytes_per_second, Empty::kValue);
}

template <FieldsOf<MultiplyAddRates> T, typename Fields>
void VisitFields(T& rates, Fields&& fields) {
  fields("float32", rates.float32, Empty::kValue);
  fields("float64", rates.float64, Empty::kValue);
}

template <FieldsOf<MeasuredRates> T, typename Fields>
void VisitFields(T& measured, Fields&& fields) {
  fields("copy_bytes_per_second", measured.copy_bytes_per_second,
         Empty::kValue);
  fields("cached_copy_bytes_per_second", measured.cached_copy_bytes_per_second,
         Empty::kValue);
  fields("copy_rates", measured.copy_rates, Empty::kValue);
  fields("fma_flops_per_second", measured.fma_flops_per_second, Empty::kValue);
}

template <FieldsOf<Environment> T, typename Fields>
void VisitFields(T& environment, Fields&& fields) {
  fields("commit", environment.build.commit, Empty::kNull);
  fields("dirty", environment.build.dirty, Empty::kNull);
  fields("program", environment.build.program, Empty::kValue);
  fields("compiler", environment.build.compiler, Empty::kValue);
  fields("flags", environment.build.flags, Empty::kValue);
  fields("libraries", environment.build.libraries, Empty::kValue);
  fields("cpu", environment.cpu, Empty::kValue);
  fields("target", environment.target, Empty::kValue);
  fields("cores", environment.cores, Empty::kValue);
  fields("memory_bytes", environment.memory_bytes, Empty::kValue);
  fields("threads", environment.threads, Empty::kValue);
  fields("os", environment.os, Empty::kValue);
  fields("gpu", environment.gpu, Empty::kNull);
  fields("measured", environment.measured, Empty::kValue);
}

Json JsonValue<Environment>::Write(const Environment& environment) {
  return WriteFields(environment);
}

void JsonValue<Environment>::Read(const Json& json, const std::string& where,
                                  Environment& environment) {
  ReadFields(json, where, environment);
}

}  // namespace subquad
