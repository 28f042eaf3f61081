// Properties that the papers claim for their formulas, computed from the
// definitions. Each comes with a control that lacks the property.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace subquad {

// FastRPB eq. 9: the largest change of linear attention's output when constants
// are added to all queries and to all keys.
double ChangeByShift(const std::string& feature_map);

// FastRPB footnote 9: a height x width image padded with zeros to a square.
struct Padding {
  double gap;          // from the form with two vectors of weights
  double unpadded;     // control: the square's first weights on the image
  double more_pixels;  // the square's pixels over the image's
  double more_bytes;   // the same for bytes, by the algorithm's own count
};
Padding PadToSquare(int64_t height, int64_t width);

// Transformers II eq. 2: how far the output for permuted tokens is from the
// permuted output. An empty scheme is plain self-attention.
double EquivarianceGap(const std::string& scheme);

// Transformers II eq. 5-13: the largest difference of any program of a scheme
// from the definition, relative to its largest number.
double SchemeGap(const std::string& scheme);

// Transformers II eq. 4: how far rotated sinusoidal positions are from shifted
// ones, with the angle as printed and, as a control, with its negative.
struct Rotation {
  double gap, other_way;
};
Rotation RotatePositions(int64_t width, int64_t positions);

// Transformers II eq. 22 and 23: a head with one large bias against a shift,
// and the sum of heads against a convolution, on the rows that have all their
// neighbours; `ends`: the other rows against a convolution padded with zeros.
struct Convolution {
  double shift, convolution, ends;
  double blunt;  // control: a head with a small bias against the shift
};
Convolution HeadsAsConvolution();

// Transformers II, last section: a modern Hopfield network.
struct Hopfield {
  double gap;        // attention against one step down the energy's gradient
  double other;      // control: with values that are not the keys
  double rise;       // largest rise of the energy in an update
  double retrieved;  // distance from the stored pattern after one update
};
Hopfield HopfieldUpdate();

// NPRF footnote 3: a causal product whose tokens arrive one by one, each
// computed from the outputs so far. Operations of transforms are counted in a
// run (counts.h).
struct Generation {
  double gap;        // blocks of doubling length against the definition
  double direct;     // operations: plain sums, token by token
  double algorithm;  // operations: a transform over the prefix for every token
  double blocks;     // operations: transforms of blocks of doubling length
};
Generation GenerateTokens(int64_t n, bool check);

// LRPE section IV: bytes of both algorithms and of the chosen one.
struct ChosenMemory {
  int64_t n, d, r;
  bool causal;
  double naive, linear, chosen;
  std::string choice;
};
// Empty where bytes cannot be counted (under a sanitizer).
std::vector<ChosenMemory> MeasureChoices();

}  // namespace subquad
