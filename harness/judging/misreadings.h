// The reference's answers to a problem misread: a bias left out, the last tile
// of keys not seen, another head's keys. Made generically, from what the
// operator declares about its tensors.
#pragma once

#include <vector>

#include "harness/judging/misreader.h"

namespace subquad {

// The keys that programs take at a time; of an image, pixels along an axis.
inline constexpr int64_t kTileKeys = 64;
inline constexpr int64_t kTilePixels = 8;

// All that can be made of this problem, those included that coincide with the
// right answer, on up to `most_rows` rows; those of the names `only`, if there
// are any. Nothing where the formula has no value at these inputs, which are
// altered on the way and given back as they were.
std::vector<WrongAnswer> MisreadAnswers(const Problem& problem, Inputs& inputs,
                                        const Answer& answer,
                                        size_t most_rows = kMisreadRows,
                                        std::set<std::string> only = {});

}  // namespace subquad
