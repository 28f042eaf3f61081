// Numbers of operations of the papers' algorithms, counted while they run
// (counted.h), with the difference of their results from the definition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/papers/claims/finding.h"

namespace subquad {

struct Counts {
  std::vector<double> sizes, operations;
};

// A growth, and its formula in {0}.
struct Theory {
  std::string text;
  double (*of)(double n);
};
extern const Theory kLinearGrowth, kNLogN, kSquare;

// Whether operations over theory stay within a factor of 1.25 from the first
// size to the last, which are at least 8 times apart: n^1.45 over n log n is
// no constant, and n log n over n is none. False where a count is missing.
bool GrowsAs(const Counts& counts, const Theory& theory);

// FastRPB B.1 and B.2, by tokens; gap: from toeplitz_1d.
struct ToeplitzCounts {
  Counts transform, direct;
  double gap;
};
ToeplitzCounts CountToeplitz();

// FastRPB B.3, by the side of the image; gap: from toeplitz_2d_xy.
struct ImageCounts {
  Counts sums;
  double gap;
};
ImageCounts CountImage();

// Kernelized attention, by tokens and by its width (features and channels);
// gap: of both ways.
struct LinearCounts {
  Counts shared, pairs, width;
  double gap;
};
LinearCounts CountLinear();

// NPRF algorithm 1, by tokens; gap: of both ways.
struct BiasCounts {
  Counts transform, direct;
  double gap;
};
BiasCounts CountBias();

// LRPE section III by numbers of embeddings, queries and keys; gap: from
// clipped_rpe_product.
struct ClippedCounts {
  Counts products_k, products_q, window_k, sums_keys;
  double gap;
};
ClippedCounts CountClipped();

// Transformer-XL appendix B: products w_kr r made once for every distance, and
// for every pair; all operations, by L = M.
struct DistanceCounts {
  int64_t segment, memory;
  double once, pairs, distances, visible;
  Counts all;
  double gap;
};
DistanceCounts CountDistances();

// One Toeplitz product of one column by transforms.
double TransformOperations(int64_t n);

Finding JudgeToeplitzCounts(const ToeplitzCounts& counts);
Finding JudgeNaiveCounts(const ToeplitzCounts& counts);
Finding JudgeImageCounts(const ImageCounts& counts);
Finding JudgeLinearCounts(const LinearCounts& counts);
Finding JudgeBiasCounts(const BiasCounts& counts);
Finding JudgeClippedCounts(const ClippedCounts& counts);
void AddDistanceCounts(Finding& finding, const DistanceCounts& counts);

}  // namespace subquad
