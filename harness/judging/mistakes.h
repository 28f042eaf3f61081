// Wrong answers that are the reference's answers to an altered problem: a bias
// left out, the last tile of keys missing, another head's keys, a mask off by
// one. The mistakes are rows of one table and are derived from what the
// operator declares about its tensors. They are evaluated in parallel.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// The usual number of keys in a tile; for an image, of pixels along an axis.
inline constexpr int64_t kTileKeys = 64;
inline constexpr int64_t kTilePixels = 8;

// Number of rows per output on which altered problems are evaluated. It is
// smaller than the number of judged rows, so that margins are underestimated
// rather than overestimated.
inline constexpr size_t kMisreadRows = 24;

// Estimates the work of one mistake on this many rows of each output. Each has
// a reference of its own, which does the work of some rows of every head before
// its first row.
double MistakeWork(const Problem& problem, size_t rows);

// Returns the misreadings of this problem, on which margins depend: all of
// them, or those named in `only`, on up to `most_rows` rows. Misreadings that
// coincide with the right answer are included. Rows that are not finite are
// left out, since any check rejects them. If the answer has expected outputs
// from outside, the effect of the misreading is added to them, so that their
// own error does not count. Returns nothing if the formula has no value at
// these inputs.
std::vector<WrongAnswer> MisreadAnswers(const Problem& problem,
                                        const Inputs& inputs,
                                        const Answer& answer,
                                        size_t most_rows = kMisreadRows,
                                        const std::set<std::string>& only = {});

// Returns the confusions that apply to the first output, on up to `most_rows`
// of the answer's rows; none for gradients. They are used only to name a
// mistake. No verdict depends on them, because some are as close to the right
// answer as rounding errors.
std::vector<WrongAnswer> UsualConfusions(const Problem& problem,
                                         const Inputs& inputs,
                                         const Answer& answer,
                                         size_t most_rows = kMisreadRows);

}  // namespace subquad
