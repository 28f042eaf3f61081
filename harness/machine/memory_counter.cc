#include "harness/machine/memory_counter.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUBQUAD_COUNTS_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SUBQUAD_COUNTS_MEMORY 0
#endif
#endif
#if !defined(SUBQUAD_COUNTS_MEMORY) && defined(__GLIBC__)
#define SUBQUAD_COUNTS_MEMORY 1
#endif

namespace {

std::atomic<int64_t> current_bytes{0};
std::atomic<int64_t> peak_bytes{0};

#if SUBQUAD_COUNTS_MEMORY
void Count(int64_t bytes) {
  const int64_t now =
      current_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(
                           peak, now, std::memory_order_relaxed)) {
  }
}

int64_t Usable(void* memory) {
  return static_cast<int64_t>(malloc_usable_size(memory));
}
#endif

}  // namespace

#if SUBQUAD_COUNTS_MEMORY
// Replaces glibc's functions, which stay available under their internal names.
// The replacements are visible to shared libraries.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

void* malloc(size_t size) {
  void* memory = __libc_malloc(size);
  if (memory) Count(Usable(memory));
  return memory;
}

void free(void* memory) {
  if (memory) Count(-Usable(memory));
  __libc_free(memory);
}

void* calloc(size_t count, size_t size) {
  void* memory = __libc_calloc(count, size);
  if (memory) Count(Usable(memory));
  return memory;
}

void* realloc(void* memory, size_t size) {
  const int64_t before = memory ? Usable(memory) : 0;
  void* moved = __libc_realloc(memory, size);
  if (moved)
    Count(Usable(moved) - before);
  else if (size == 0)
    Count(-before);
  return moved;
}

void* memalign(size_t alignment, size_t size) {
  void* memory = __libc_memalign(alignment, size);
  if (memory) Count(Usable(memory));
  return memory;
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0)
    return EINVAL;
  void* block = memalign(alignment, size);
  if (!block) return ENOMEM;
  *memory = block;
  return 0;
}
}
#pragma GCC visibility pop
#endif

namespace subquad {

bool MemoryCounter::Available() { return SUBQUAD_COUNTS_MEMORY; }
int64_t MemoryCounter::CurrentBytes() {
  return current_bytes.load(std::memory_order_relaxed);
}
void MemoryCounter::ResetPeak() {
  peak_bytes.store(CurrentBytes(), std::memory_order_relaxed);
}
int64_t MemoryCounter::PeakBytes() {
  return peak_bytes.load(std::memory_order_relaxed);
}

}  // namespace subquad
