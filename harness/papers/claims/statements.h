// Statements that the papers make about attention, computed from the operators
// and from plain loops. Each comes with a control that lacks the property.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "harness/papers/claims/finding.h"

namespace subquad {

// Largest differences of softmax attention's output when 0.7 is added to every
// entry of all queries, or of all keys.
struct SoftmaxShift {
  double queries, keys;
};
SoftmaxShift ShiftSoftmax();

// How far the output for permuted tokens is from the output itself, and from
// the permuted output.
struct Permuted {
  double invariance, equivariance;
};
Permuted PermuteAttention();

// The output of attention for a reversed sequence against the reversed output:
// with a bias by |i-j|, and by i-j.
struct Reversal {
  double by_distance, by_offset;
};
Reversal ReverseAttention();

// Largest weight of an attention row over n keys: the largest of many draws and
// of the best arrangement with rows of length 1, its bound e^2 / (n - 1 + e^2),
// and what a relative bias of 20 at one offset makes of the same rows.
struct Sharpness {
  int64_t keys;
  double drawn, arranged, bound, with_bias;
};
Sharpness SharpestRow(int64_t n);

// The mean of phi(x) phi(y) / exp(x y) over draws of Omega, by the definition
// of a feature map in the reference, and its standard error; `half`: the mean
// with the exponent of the norms halved, as a control.
struct MapMean {
  std::string map;
  double mean, error, half;
};
std::vector<MapMean> MeansOfMaps(int64_t draws);

// Numerical rank of the matrix of sinusoidal positions, by singular values
// above 1e-6 of the largest.
int64_t PositionRank(int64_t positions, int64_t width);

// The least distance of two sinusoidal positions; and where there is one
// frequency, of period 8.
double NearestPositions(int64_t positions, int64_t width);
double NearestOfOneFrequency(int64_t positions);

// The offset of the largest product of sinusoidal positions after the queries'
// positions are rotated by `offset`, for every query that has such a key; the
// number of queries for which it is another one.
int64_t QueriesOffTheShift(int64_t width, int64_t positions, int64_t offset);

// Layers until every one of n tokens depends on all others; `limit` if it takes
// more.
int64_t LayersToReachAll(const Params& pattern, int64_t n, int64_t limit);

// exp(q k) on n points as a matrix: its smallest eigenvalue over its largest,
// and the same of a kernel with few features.
struct KernelRank {
  double exponential, linear;
  int64_t points, features;
};
KernelRank RankOfExponential();

// Gated linear unit and gated MLP: the output for permuted tokens against the
// permuted output.
struct Gating {
  double glu, gmlp;
};
Gating PermuteGating();

// The scores of positions added to content, by eq. 8's four terms, against the
// operator's output; `three`: without the last term, as a control.
struct FourTerms {
  double four, three;
};
FourTerms AddFourTerms();

// Bytes of linear attention beside its inputs and output.
struct LinearMemory {
  int64_t n, d;
  double bytes, twice_as_wide;
};

// LayersToReachAll by pattern.
struct Layers {
  int64_t tokens, limit;
  int64_t window, local, global, blocks, random;
};

// What follows from the numbers.
Finding Judge(const SoftmaxShift& shift);
Finding Judge(const Permuted& permuted);
Finding Judge(const Reversal& reversal);
Finding Judge(const FourTerms& terms);
Finding Judge(const KernelRank& rank);
Finding Judge(const Gating& gating);
Finding Judge(const Sharpness& sharp);
Finding Judge(const std::vector<MapMean>& means);
Finding Judge(const LinearMemory& memory);
// The distance of the nearest two positions, and of those that one frequency
// gives.
Finding JudgeDistinct(double least, double repeated);
Finding JudgeRank(int64_t rank, int64_t positions, int64_t width);
Finding Judge(const Layers& layers);

}  // namespace subquad
