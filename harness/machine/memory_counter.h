// Counts the bytes on the heap. malloc and its relatives are interposed for the
// whole program, including FFTW, Eigen and the standard library. Unlike a
// resident set, the count is exact and repeatable.
#pragma once

#include <cstdint>

namespace subquad {

class MemoryCounter {
 public:
  // False under a sanitizer, which brings its own allocator; then all counts
  // are zero.
  static bool Available();

  static int64_t CurrentBytes();

  // Starts a new high-water mark at the current number of bytes.
  static void ResetPeak();
  static int64_t PeakBytes();
};

// Measures the peak of the bytes allocated during the lifetime of this object.
class PeakOf {
 public:
  PeakOf() : before_(MemoryCounter::CurrentBytes()) {
    MemoryCounter::ResetPeak();
  }
  int64_t bytes() const { return MemoryCounter::PeakBytes() - before_; }

 private:
  const int64_t before_;
};

}  // namespace subquad
