// The pairs that a sparse pattern shows, for kernels: the rules of
// reference/softmax/sparse_pattern.h, pair by pair.
#pragma once

#include "cuda/base/memory.h"
#include "reference/base/problem.h"
#include "reference/contract/sparse_attention.h"

namespace subquad::device {

enum class SparsePatternId {
  kLocal,
  kSliding,
  kStrided,
  kLongformer,
  kBigBird,
  kPeriodicFull
};

// A mask that is copied into kernels.
struct SparseMask {
  static constexpr int kGlobal = -1;

  SparsePatternId pattern;
  bool causal;
  int unit;   // positions of a block, or of a step
  int reach;  // positions that a window shows on each side
  int window_blocks, global_blocks;
  const unsigned char* global;  // [n]: nonzero if a position is global
  const int* random_begin;      // [blocks + 1], into `random`
  const int* random;

  // Returns everything that the pattern depends on for a single position: its
  // block, or its residue, or kGlobal.
  __device__ int Kind(int position) const {
    if (pattern == SparsePatternId::kLocal ||
        pattern == SparsePatternId::kBigBird)
      return position / unit;
    if (pattern == SparsePatternId::kLongformer && global[position])
      return kGlobal;
    return position % unit;
  }

  // True if query i sees key j.
  __device__ bool Sees(int i, int kind_i, int j, int kind_j) const {
    if (causal && j > i) return false;
    const bool near = max(j - i, i - j) <= reach;
    switch (pattern) {
      case SparsePatternId::kLocal:
        return kind_i == kind_j;
      case SparsePatternId::kSliding:
        return near && kind_i == kind_j;
      case SparsePatternId::kStrided:
        return near || kind_i == kind_j;
      case SparsePatternId::kLongformer:
        return (near && kind_i == kind_j) || kind_i == kGlobal ||
               kind_j == kGlobal;
      case SparsePatternId::kPeriodicFull:
        return near || kind_i == unit - 1;
      case SparsePatternId::kBigBird:
        break;
    }
    if (max(kind_j - kind_i, kind_i - kind_j) <= window_blocks ||
        kind_i < global_blocks || kind_j < global_blocks)
      return true;
    for (int r = random_begin[kind_i]; r < random_begin[kind_i + 1]; ++r)
      if (random[r] == kind_j) return true;
    return false;
  }
};

// The mask's lists in device memory, made from the parameters.
class SparseMaskTables {
 public:
  SparseMaskTables(Layout& layout, const Problem& problem);

  const SparseMask& mask() const { return mask_; }

 private:
  SparseMask mask_;
  DeviceBuffer<unsigned char> global_;
  DeviceBuffer<int> random_begin_, random_;
};

// Makes a table of a vector's elements; empty if it has none.
template <typename T>
DeviceBuffer<T> TableOf(Layout& layout, const std::vector<T>& host) {
  DeviceBuffer<T> table(layout, static_cast<int64_t>(host.size()),
                        DeviceUse::kTable);
  if (!host.empty() && !layout.counting()) table.Upload(host.data());
  return table;
}

}  // namespace subquad::device
