// Working memory of an algorithm: aligned to a cache line, surrounded by guard
// words and registered in a list, so that a checked run can fill every
// workspace with NaN first and look for writes outside of it at the end. Tables
// that belong to a plan, and must keep their values between runs, are kept in
// PlanTable.
//
// The alignment is for speed. No bit of a result may depend on it: a test moves
// the arrays off their cache lines (GuardedMemory::shift) and expects the same
// bits. Arrays that must be aligned, because a library or an aligned load reads
// them, say so.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "reference/contract/layout.h"

namespace subquad {

class GuardedMemory {
 public:
  static constexpr int64_t kGuardBytes = 64;

  GuardedMemory() = default;
  GuardedMemory(int64_t bytes, bool poisonable, bool on_line = false)
      : bytes_(bytes), poisonable_(poisonable) {
    const int64_t before = kGuardBytes + (on_line ? 0 : shift());
    const int64_t all = (before + bytes + kGuardBytes + 63) / 64 * 64;
    base_ = static_cast<unsigned char*>(std::aligned_alloc(64, all));
    if (!base_) throw std::bad_alloc();
    data_ = base_ + before;
    AskForHugePages(base_, all);
    std::memset(base_, kGuard, before);
    std::memset(data_ + bytes, kGuard, all - before - bytes);
    Register();
  }

  // Distance in bytes from a cache line to the arrays that are allocated after
  // it is set; 0 except in tests. Less than a line, and a multiple of an
  // element's size.
  static int64_t& shift();
  GuardedMemory(GuardedMemory&& other) noexcept { *this = std::move(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    if (this == &other) return *this;
    Release();
    if (other.base_) other.Unregister();
    base_ = std::exchange(other.base_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    poisonable_ = other.poisonable_;
    if (base_) Register();
    return *this;
  }
  ~GuardedMemory() { Release(); }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  bool GuardsIntact() const {
    for (int64_t i = 0; i < kGuardBytes; ++i)
      if (data_[i - kGuardBytes] != kGuard || data_[bytes_ + i] != kGuard)
        return false;
    return true;
  }

  // Sets all bytes to 0xFF: a NaN in every floating-point type.
  void Poison() { std::memset(data(), 0xFF, bytes_); }

  static void PoisonAllWorkspaces();
  static int64_t CountBrokenGuards();

 private:
  static constexpr unsigned char kGuard = 0xA5;

  // Asks for huge pages, so that fewer addresses are translated where a
  // transform strides through megabytes. Has no effect on systems without huge
  // pages.
  static void AskForHugePages(unsigned char* base, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    constexpr uintptr_t kPage = uintptr_t{1} << 21;
    const uintptr_t first = reinterpret_cast<uintptr_t>(base);
    const uintptr_t begin = (first + kPage - 1) / kPage * kPage;
    const uintptr_t end =
        (first + static_cast<uintptr_t>(bytes)) / kPage * kPage;
    if (begin < end)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a page of this memory.
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
  }

  void Register();
  void Unregister();
  void Release() {
    if (!base_) return;
    Unregister();
    std::free(base_);
    base_ = data_ = nullptr;
  }

  unsigned char* base_ = nullptr;  // the allocation
  unsigned char* data_ = nullptr;  // behind the guard
  int64_t bytes_ = 0;
  bool poisonable_ = true;
};

// Rounds up to whole cache lines, so that every worker's share has the same
// alignment: vectorised sums add in another order at another alignment.
template <typename T>
inline int64_t WholeLines(int64_t count) {
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  return (count + line - 1) / line * line;
}

// Marks an array that is read by aligned loads, or by a library that plans for
// an alignment.
struct OnLine {};

// An array of `count` elements from a layout. Workspace is poisoned before a
// checked run, so that its values do not survive to the next run. Tables that a
// plan computes once are not poisoned.
template <typename T, bool kPoisoned>
class GuardedArray {
 public:
  GuardedArray() = default;
  GuardedArray(Layout& layout, int64_t count)
      : GuardedArray(layout, count, false) {}
  GuardedArray(Layout& layout, int64_t count, OnLine)
      : GuardedArray(layout, count, true) {}
  // Makes an array that is not part of a run.
  explicit GuardedArray(int64_t count) : GuardedArray(count, true) {}

  T* data() const { return static_cast<T*>(memory_.data()); }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  GuardedArray(int64_t count, bool on_line)
      : size_(count),
        memory_(count * static_cast<int64_t>(sizeof(T)), kPoisoned, on_line) {}
  GuardedArray(Layout& layout, int64_t count, bool on_line) : size_(count) {
    layout.Add(static_cast<double>(count) * sizeof(T));
    if (!layout.counting()) *this = GuardedArray(count, on_line);
  }

  int64_t size_ = 0;
  GuardedMemory memory_;
};

template <typename T>
using Buffer = GuardedArray<T, true>;
template <typename T>
using PlanTable = GuardedArray<T, false>;

// A workspace of `count` elements for each thread.
template <typename T>
class PerThread {
 public:
  PerThread() = default;
  PerThread(Layout& layout, int64_t count)
      : count_(count), memory_(layout, layout.threads() * count) {}
  // `count` must fill whole cache lines.
  PerThread(Layout& layout, int64_t count, OnLine on_line)
      : count_(count), memory_(layout, layout.threads() * count, on_line) {}

  T* operator[](int worker) const { return memory_.data() + worker * count_; }

 private:
  int64_t count_ = 0;
  Buffer<T> memory_;
};

// Makes a part for each thread: Part(layout, sizes...).
template <typename Part, typename... Sizes>
std::vector<Part> PartPerThread(Layout& layout, const Sizes&... sizes) {
  std::vector<Part> parts;
  for (int worker = 0; worker < layout.threads(); ++worker)
    parts.emplace_back(layout, sizes...);
  return parts;
}

}  // namespace subquad
