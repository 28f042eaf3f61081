// Wrong answers that are right answers to a misread problem: a bias left out,
// the last tile of keys missing, another head's keys. They are derived from
// what the operator declares about its tensors.
#pragma once

#include <vector>

#include "harness/judging/misreader.h"

namespace subquad {

// The usual number of keys in a tile; for an image, of pixels along an axis.
inline constexpr int64_t kTileKeys = 64;
inline constexpr int64_t kTilePixels = 8;

// Returns all misreadings of this problem, or those named in `only`, on up to
// `most_rows` rows. Misreadings that coincide with the right answer are
// included. Returns nothing if the formula has no value at these inputs.
// `inputs` are altered temporarily and restored.
std::vector<WrongAnswer> MisreadAnswers(const Problem& problem, Inputs& inputs,
                                        const Answer& answer,
                                        size_t most_rows = kMisreadRows,
                                        std::set<std::string> only = {});

}  // namespace subquad
