// Which of the mutants that are planted in the copies of source files is
// switched on (plant_mutants.py). One at a time, while nothing runs.
#pragma once

#include <atomic>

namespace subquad::mutants {

inline constexpr int kNone = 0;
extern int on;
// Whether the one that is on was ever asked for.
extern std::atomic<bool> reached;

inline bool IsOn(int number) {
  if (number != on) return false;
  reached.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace subquad::mutants
