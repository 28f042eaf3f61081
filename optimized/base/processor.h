// All differences between processors: the instruction sets that the CPU
// implementations can be compiled for ("targets"), and the properties of the
// current one that a loop may use. Their flags are in optimized.cmake.
#pragma once

#include <cstdint>

namespace subquad {

struct KnownTarget {
  const char* name;
  // Returns whether this processor has it; null on other kinds of processor.
  bool (*here)();
};

// Lists the best target of each kind of processor first.
inline constexpr KnownTarget kKnownTargets[] = {
#ifdef __x86_64__
    {"avx512", [] { return __builtin_cpu_supports("x86-64-v4") > 0; }},
    {"avx2", [] { return __builtin_cpu_supports("x86-64-v3") > 0; }},
    {"sse4", [] { return __builtin_cpu_supports("x86-64-v2") > 0; }},
#else
    {"avx512", nullptr},
    {"avx2", nullptr},
    {"sse4", nullptr},
#endif
#ifdef __aarch64__
    {"neon", [] { return true; }},
#else
    {"neon", nullptr},
#endif
};

#ifdef SUBQUAD_TARGET_NAME

#if defined(__AVX512F__)
inline constexpr int64_t kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int64_t kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int64_t kVectorBytes = 16;
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int64_t kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

#endif  // SUBQUAD_TARGET_NAME

}  // namespace subquad
