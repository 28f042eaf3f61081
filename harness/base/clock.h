#pragma once

#include <chrono>

namespace subquad {

// Returns the seconds since an arbitrary moment, by a clock that never goes
// back.
inline double SteadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace subquad
