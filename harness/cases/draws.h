// Random numbers by index: each is a function of seed, stream and index
// (Philox4x32-10, Salmon et al. 2011, through Random123), so that the number of
// threads and the machine do not matter.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "reference/base/scalar.h"

namespace subquad {

// Philox4x32-10: returns four words for a counter under a key.
std::array<uint32_t, 4> PhiloxWords(const std::array<uint32_t, 4>& counter,
                                    const std::array<uint32_t, 2>& key);

// A stream of independent draws, by index.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name);

  double Uniform(uint64_t index) const;  // on (0, 1), 52 bits
  double Normal(uint64_t index) const;   // N(0, 1) by Box and Muller

 private:
  uint64_t seed_, stream_;
};

// Rounds to the nearest number of the scalar type, ties to even; overflow gives
// infinity.
double RoundTo(Scalar scalar, double value);

}  // namespace subquad
