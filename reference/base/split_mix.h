// Pseudo-random numbers that depend on a counter alone, for data that an
// operator generates itself: they are the same for every seed, scalar type and
// machine.
#pragma once

#include <cstdint>

namespace subquad {

// Returns number `at` of SplitMix64 from the state `seed` (Steele, Lea and
// Flood 2014).
constexpr uint64_t SplitMix64(uint64_t at, uint64_t seed = 0) {
  uint64_t z = seed + (at + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace subquad
