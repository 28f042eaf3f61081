// Blocks, barriers and warps of the emulated device, and its runtime.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

namespace subquad::emulated {

Thread* current = nullptr;
bool broken = false;

namespace {

namespace context = boost::context;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Copy {
  const void* from;
  size_t bytes, to_bytes;
  void* to;
};

struct Lane {
  Thread thread;
  State state = State::kReady;
  unsigned mask = 0;                     // of the warp barrier it waits at
  uint64_t bits = 0;                     // passed in for an exchange
  const void* given = nullptr;           // passed in for a gather
  std::vector<Copy> copies;              // not in a group yet
  std::deque<std::vector<Copy>> groups;  // in progress
  context::fiber fiber, scheduler;
};

struct Block {
  std::vector<Lane> lanes;
  std::vector<unsigned char> shared;
  size_t shared_bytes = 0;
  std::exception_ptr thrown;
};

Block* block = nullptr;
Lane* running = nullptr;
std::mutex one_launch;

// Reports whether this launch breaks the device, for tests: the environment
// names a kernel and how many of its launches succeed before.
bool IsToBreak(const char* name) {
  static int left = [] {
    const char* good = std::getenv("SUBQUAD_EMULATED_BREAK_AFTER");
    return good ? std::atoi(good) : 0;
  }();
  const char* planted = std::getenv("SUBQUAD_EMULATED_BREAK");
  return planted && *planted && std::strstr(name, planted) && left-- <= 0;
}

constexpr size_t kStackBytes = 128 << 10;
// Launches that request more are refused by every device.
constexpr size_t kMostSharedBytes = 227 << 10;
constexpr unsigned kMostThreads = 1024;

void Wait(State state) {
  running->state = state;
  running->scheduler = std::move(running->scheduler).resume();
}

void Resume(Lane& lane) {
  running = &lane;
  current = &lane.thread;
  lane.fiber = std::move(lane.fiber).resume();
}

// Releases the lanes of a warp once all lanes named by a mask wait; lanes that
// the block does not have are ignored.
bool ReleaseWarp(Lane* lanes, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    if (lanes[i].state != State::kAtWarpBarrier) continue;
    const unsigned mask = lanes[i].mask;
    bool all = true;
    for (size_t j = 0; j < count; ++j)
      if (mask >> j & 1)
        all = all && lanes[j].state == State::kAtWarpBarrier &&
              lanes[j].mask == mask;
    if (!all) continue;
    any = true;
    for (size_t j = 0; j < count; ++j)
      if (mask >> j & 1) lanes[j].state = State::kReady;
  }
  return any;
}

// Runs threads, in a shuffled order, each up to its next barrier.
bool RunOnce(Block& own, std::span<size_t> turns, std::mt19937& order) {
  std::shuffle(turns.begin(), turns.end(), order);
  bool any = false;
  for (const size_t turn : turns) {
    Lane& lane = own.lanes[turn];
    if (lane.state != State::kReady) continue;
    any = true;
    Resume(lane);
    if (own.thrown) std::rethrow_exception(own.thrown);
  }
  return any;
}

// Runs all threads of a block in turn first, and then warps, in a shuffled
// order, each as far as it gets without the others.
void RunBlock(Block& own, std::mt19937& order, const char* name) {
  std::vector<size_t> all(own.lanes.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<size_t> in_turns = all;
  RunOnce(own, in_turns, order);
  std::vector<std::span<size_t>> warps;
  for (size_t first = 0; first < all.size(); first += 32)
    warps.push_back(std::span(all).subspan(
        first, std::min<size_t>(32, all.size() - first)));
  std::vector<size_t> turns(warps.size());
  std::iota(turns.begin(), turns.end(), size_t{0});
  while (true) {
    std::shuffle(turns.begin(), turns.end(), order);
    bool progress = false;
    for (const size_t turn : turns) {
      const std::span<size_t> warp = warps[turn];
      while (ReleaseWarp(&own.lanes[turn * 32], warp.size()) ||
             RunOnce(own, warp, order))
        progress = true;
    }
    size_t done = 0, waiting = 0;
    for (const Lane& lane : own.lanes) {
      done += lane.state == State::kDone;
      waiting += lane.state == State::kAtBlockBarrier;
    }
    if (done == own.lanes.size()) return;
    if (waiting == own.lanes.size()) {
      for (Lane& lane : own.lanes) lane.state = State::kReady;
      continue;
    }
    if (!progress)
      throw std::runtime_error(
          std::string(name) + ": " + std::to_string(waiting) + " of " +
          std::to_string(own.lanes.size()) +
          " threads wait at a barrier that the others do not reach");
  }
}

uint3 IndexIn(dim3 size, size_t index) {
  return {static_cast<unsigned>(index % size.x),
          static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}

}  // namespace

bool HasClock() {
  const char* wanted = std::getenv("SUBQUAD_EMULATED_CLOCK");
  return wanted && *wanted == '1';
}

void Run(const char* name, dim3 grid, dim3 size, size_t shared_bytes,
         const std::function<void()>& kernel) {
  std::lock_guard lock(one_launch);
  broken = broken || IsToBreak(name);
  if (broken) return;  // as on a device, it shows at the next synchronisation
  const size_t threads = size_t{size.x} * size.y * size.z;
  if (threads == 0 || threads > kMostThreads)
    throw std::runtime_error(std::string(name) + ": a block of " +
                             std::to_string(threads) + " threads");
  if (shared_bytes > kMostSharedBytes)
    throw std::runtime_error(std::string(name) + ": " +
                             std::to_string(shared_bytes) +
                             " bytes of shared memory");
  static context::pooled_fixedsize_stack stacks(kStackBytes);
  std::mt19937 order(1);
  Block own;
  own.shared_bytes = shared_bytes;
  own.lanes.resize(threads);
  block = &own;
  // Shuffled, so that a block that reads data another block of the same launch
  // writes may find it missing.
  std::vector<size_t> turns(size_t{grid.x} * grid.y * grid.z);
  std::iota(turns.begin(), turns.end(), size_t{0});
  std::shuffle(turns.begin(), turns.end(), order);
  for (const size_t turn : turns) {
    own.shared.assign(shared_bytes, 0xFF);
    for (size_t t = 0; t < threads; ++t) {
      Lane& lane = own.lanes[t];
      lane.state = State::kReady;
      lane.copies.clear();
      lane.groups.clear();
      lane.thread = {IndexIn(size, t), IndexIn(grid, turn), size, grid};
      lane.fiber =
          context::fiber(std::allocator_arg, stacks,
                         [&lane, &own, &kernel](context::fiber&& scheduler) {
                           lane.scheduler = std::move(scheduler);
                           try {
                             kernel();
                           } catch (const context::detail::forced_unwind&) {
                             throw;
                           } catch (...) {
                             own.thrown = std::current_exception();
                           }
                           lane.state = State::kDone;
                           return std::move(lane.scheduler);
                         });
    }
    RunBlock(own, order, name);
  }
}

void* Shared(size_t bytes) {
  if (bytes > block->shared_bytes)
    throw std::runtime_error("a kernel uses " + std::to_string(bytes) +
                             " bytes of shared memory and was launched with " +
                             std::to_string(block->shared_bytes));
  return block->shared.data();
}

void BlockBarrier() { Wait(State::kAtBlockBarrier); }

void WarpBarrier(unsigned mask) {
  const size_t first =
      static_cast<size_t>(running - block->lanes.data()) / 32 * 32;
  const size_t count = std::min<size_t>(32, block->lanes.size() - first);
  running->mask = count == 32 ? mask : mask & ((1u << count) - 1);
  Wait(State::kAtWarpBarrier);
}

uint64_t Exchange(unsigned mask, uint64_t bits, int lane) {
  const size_t first =
      static_cast<size_t>(running - block->lanes.data()) / 32 * 32;
  running->bits = bits;
  WarpBarrier(mask);
  const size_t from = first + static_cast<size_t>(lane);
  const uint64_t got =
      from < block->lanes.size() ? block->lanes[from].bits : ~uint64_t{0};
  WarpBarrier(mask);  // until every lane has read
  return got;
}

int LaneIndex() {
  return static_cast<int>((running - block->lanes.data()) % 32);
}

void Gather(unsigned mask, const void* own, size_t bytes, void* all) {
  const size_t first =
      static_cast<size_t>(running - block->lanes.data()) / 32 * 32;
  running->given = own;
  WarpBarrier(mask);
  auto* to = static_cast<unsigned char*>(all);
  for (size_t lane = first; lane < std::min(first + 32, block->lanes.size());
       ++lane, to += bytes)
    std::memcpy(to, block->lanes[lane].given, bytes);
  WarpBarrier(mask);  // until every lane has read
}

float AddAsTensorCore(const double (&products)[16], float sum) {
  double largest = std::abs(static_cast<double>(sum));
  for (const double product : products)
    largest = std::max(largest, std::abs(product));
  if (largest == 0 || !std::isfinite(largest)) {
    for (const double product : products) sum += static_cast<float>(product);
    return sum;
  }
  constexpr int kPlaces = 23 + 2;  // behind the first one
  const double unit = std::ldexp(1.0, std::ilogb(largest) - kPlaces);
  const auto cut = [=](double x) { return std::trunc(x / unit) * unit; };
  double all = cut(sum);
  for (const double product : products) all += cut(product);
  const auto near = static_cast<float>(all);
  return std::abs(static_cast<double>(near)) > std::abs(all)
             ? std::nextafter(near, 0.0f)
             : near;
}

void CopyLater(const void* from, size_t bytes, size_t to_bytes, void* to) {
  for (const void* end : {from, static_cast<const void*>(to)})
    if (reinterpret_cast<uintptr_t>(end) % to_bytes != 0)
      throw std::runtime_error("a copy of " + std::to_string(to_bytes) +
                               " bytes that is not aligned");
  running->copies.push_back({from, bytes, to_bytes, to});
}

void EndCopies() {
  running->groups.push_back(std::exchange(running->copies, {}));
}

void WaitForCopies(size_t left) {
  for (; running->groups.size() > left; running->groups.pop_front())
    for (const Copy& copy : running->groups.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(static_cast<unsigned char*>(copy.to) + copy.bytes, 0,
                  copy.to_bytes - copy.bytes);
    }
}

}  // namespace subquad::emulated

// ---- the runtime
namespace {

struct Pages {
  unsigned char* base;
  size_t bytes;
};
std::map<void*, Pages>& Allocations() {
  static auto* live = new std::map<void*, Pages>;
  return *live;
}
size_t MemoryBytes() {
  static const size_t bytes = [] {
    const char* text = std::getenv("SUBQUAD_EMULATED_BYTES");
    return text ? std::strtoull(text, nullptr, 10) : size_t{2} << 30;
  }();
  return bytes;
}
size_t in_use = 0;
cudaError_t last = cudaSuccess;

// Reads SUBQUAD_EMULATED_REFUSE, which names features that this device lacks.
bool Refuses(const char* feature) {
  const char* text = std::getenv("SUBQUAD_EMULATED_REFUSE");
  return text && std::strcmp(text, feature) == 0;
}

cudaError_t Remember(cudaError_t status) {
  if (status != cudaSuccess) last = status;
  return status;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
  }
  return "unknown error";
}

void sincospif(float x, float* sine, float* cosine) {
  const double turns = std::remainder(double{x}, 2.0);
  const double angle = std::numbers::pi * turns;
  *sine = std::abs(turns) == 1 ? 0 : static_cast<float>(std::sin(angle));
  *cosine = std::abs(turns) == 0.5 ? 0 : static_cast<float>(std::cos(angle));
}

cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Refuses("none") || Refuses("driver") ? 0 : 1;
  return Refuses("none")     ? Remember(cudaErrorNoDevice)
         : Refuses("driver") ? Remember(cudaErrorInsufficientDriver)
                             : cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)()) {
  return Refuses("kernels") ? Remember(cudaErrorNoKernelImageForDevice)
                            : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated by the host");
  properties->totalGlobalMem = MemoryBytes();
  properties->multiProcessorCount = 4;
  properties->l2CacheSize = 1 << 20;
  properties->major = 8;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char*, int, int) {
  return Remember(cudaErrorInvalidValue);
}

constexpr int kRuntimeVersion = 13000, kOldDriverVersion = 12020;

cudaError_t cudaDriverGetVersion(int* version) {
  *version = Refuses("driver") ? kOldDriverVersion : kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return cudaSuccess;
}

// Puts the end of the allocation at the end of a page (except for alignment),
// with inaccessible pages before and after.
cudaError_t cudaMalloc(void** data, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t rounded = (bytes + 15) / 16 * 16;
  const size_t pages = (rounded + page - 1) / page * page;
  if (in_use + pages > MemoryBytes())
    return Remember(cudaErrorMemoryAllocation);
  void* base = ::mmap(nullptr, pages + 2 * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return Remember(cudaErrorMemoryAllocation);
  auto* first = static_cast<unsigned char*>(base) + page;
  ::mprotect(first, pages, PROT_READ | PROT_WRITE);
  std::memset(first, 0xFF, pages);
  *data = first + pages - rounded;
  Allocations()[*data] = {static_cast<unsigned char*>(base), pages + 2 * page};
  in_use += pages;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (!data)
    return Refuses("open") ? Remember(cudaErrorDevicesUnavailable)
                           : cudaSuccess;
  const auto it = Allocations().find(data);
  if (it == Allocations().end()) return Remember(cudaErrorInvalidValue);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  in_use -= it->second.bytes - 2 * page;
  ::munmap(it->second.base, it->second.bytes);
  Allocations().erase(it);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind) {
  if (const cudaError_t status = cudaDeviceSynchronize()) return status;
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* data, int byte, size_t bytes) {
  std::memset(data, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t) {
  return cudaMemset(data, byte, bytes);
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *available = MemoryBytes() - in_use;
  *total = MemoryBytes();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return subquad::emulated::broken ? Remember(cudaErrorIllegalAddress)
                                   : cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new cudaEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaDeviceSynchronize();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  const std::chrono::duration<float, std::milli> passed =
      end->time - start->time;
  *milliseconds = passed.count();
  return cudaSuccess;
}
