// Numbers for generated cases. Every one is a function of seed, case, tensor
// and index (Philox4x32-10, Salmon et al. 2011, through Random123), so that
// they are the same on any number of threads and machines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.h"
#include "harness/recipes.h"

namespace subquad {

// Philox4x32-10 itself: four words for a counter under a key.
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

// To the nearest number of the scalar type, ties to even; overflow to infinity.
double RoundTo(Scalar scalar, double value);

// All inputs of a case, rounded to its scalar type: those of its folder, if it
// has one, and generated numbers for the rest. Throws InvalidInput where a
// number of the folder does not fit into the type.
Inputs GenerateInputs(const Case& one, const Problem& problem);

}  // namespace subquad
