// Bytes on the heap, counted where they are asked for: malloc and its relatives
// are interposed for the whole program, so FFTW's, Eigen's and the standard
// library's requests are in it. Exact and repeatable, unlike a resident set.
#pragma once

#include <cstdint>

namespace subquad {

class MemoryCounter {
 public:
  // False under a sanitizer, which brings its own allocator; then all counts
  // are zero.
  static bool Available();

  static int64_t CurrentBytes();

  // Starts a new high-water mark at what is allocated now.
  static void ResetPeak();
  static int64_t PeakBytes();
};

// Bytes that something allocates at most beyond what was there before.
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
