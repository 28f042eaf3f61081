// Selects one of the mutants planted in the copies of source files
// (plant_mutants.py). Only one is on at a time, and it is switched while
// nothing runs.
#pragma once

#include <atomic>

namespace subquad::mutants {

inline constexpr int kNone = 0;
extern int on;
// True if the selected mutant's code was ever reached.
extern std::atomic<bool> reached;

inline bool IsOn(int number) {
  if (number != on) return false;
  reached.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace subquad::mutants
