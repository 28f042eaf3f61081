// Properties that the papers claim of their formulas, computed from the
// definitions. Each comes with what would break it, so that it could fail.
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
  double unpadded;     // of the square's weights laid over the image instead
  double more_pixels;  // how many times as many
  double more_bytes;   // and as many bytes, by the algorithm's own count
};
Padding PadToSquare(int64_t height, int64_t width);

// Blog eq. 2: how far the output for permuted tokens is from the permuted
// output. Without a scheme plain self-attention.
double EquivarianceGap(const std::string& scheme);

// Blog eq. 4: how far rotated sinusoidal positions are from shifted ones, with
// the angle as printed, and turned the other way.
struct Rotation {
  double gap, other_way;
};
Rotation RotatePositions(int64_t width, int64_t positions);

// Blog eq. 22 and 23: a head with one large bias against a shift, and the sum
// of heads against a convolution, over the rows whose neighbours are all there;
// and how far the rows at the ends are from a convolution padded with zeros.
struct Convolution {
  double shift, convolution, ends;
  double blunt;  // a head whose bias is not sharp against the shift
};
Convolution HeadsAsConvolution();

// Blog, last section: a modern Hopfield network.
struct Hopfield {
  double gap;        // one attention from one step down the energy's gradient
  double other;      // the same with values that are not the keys
  double rise;       // largest rise of the energy in an update
  double retrieved;  // distance from the stored pattern after one update
};
Hopfield HopfieldUpdate();

// Transformer-XL appendix B: products w_kr r of one run, from the count of
// operations for two widths of r.
double CountedProjections(const std::string& implementation, int64_t segment,
                          int64_t memory);
// All operations of one run.
double CountedFlops(const std::string& implementation, int64_t segment,
                    int64_t memory);

// NPRF footnote 3: a causal product whose tokens come one by one, each made
// from the outputs so far. Operations by 5 L log2 L for a transform of length
// L.
struct Generation {
  double gap;        // by blocks of doubling length against the definition
  double direct;     // operations of sums, token by token
  double algorithm;  // of a transform over the prefix for every token
  double blocks;     // of transforms of blocks of doubling length
};
Generation GenerateTokens(int64_t n, bool check);

// LRPE section IV: bytes of both algorithms and of the one that was chosen.
struct ChosenMemory {
  int64_t n, d, r;
  bool causal;
  double naive, linear, chosen;
  std::string choice;
};
// Empty where bytes cannot be counted (under a sanitizer).
std::vector<ChosenMemory> MeasureChoices();

}  // namespace subquad
