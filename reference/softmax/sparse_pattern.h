// The sparse patterns (Transformers II, "Making the attention matrix sparse"):
// the rule of each that decides, pair by pair, pattern of the keys that a query
// sees. The global tokens of etc follow the n positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "reference/base/operator.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/block_sizes.h"

namespace subquad {

class SparsePattern {
 public:
  // Keeps a reference to the parameters' lists, which must outlive this object.
  SparsePattern(const Params& params, int64_t queries, int64_t keys)
      : queries_(queries),
        keys_(keys),
        name_(params.Text("pattern")),
        causal_(params.Flag("causal")),
        offset_(QueryOffset(params)),
        block_(BlockSizesOf(params)),
        window_(Optional(params, "window", 0)),
        dilation_(Optional(params, "dilation", 1)),
        stride_(Optional(params, "stride", 1)),
        window_blocks_(Optional(params, "window_blocks", 0)),
        global_blocks_(Optional(params, "global_blocks", 0)) {
    if (name_ == "longformer") globals_ = &params.List("globals");
    if (name_ == "bigbird") random_ = &params.Table("random");
  }

  // True if query i sees key j. `block_mask` is that of the head, which the
  // pattern blocks alone reads.
  bool Sees(int64_t i, int64_t j, const double* block_mask = nullptr) const {
    if (i >= queries_ || j >= keys_) return true;  // a global token
    const int64_t position = i + offset_;
    if (causal_ && j > position) return false;
    if (name_ == "blocks") {
      const int64_t key_blocks = (keys_ + block_.keys - 1) / block_.keys;
      return block_mask[i / block_.queries * key_blocks + j / block_.keys] != 0;
    }
    if (name_ == "local")
      return position >= 0 && position / block_.keys == j / block_.keys;
    if (name_ == "sliding") return Sliding(position, j);
    if (name_ == "etc") return std::abs(j - i) <= window_;
    if (name_ == "periodic_full")
      return std::abs(j - i) <= window_ || i % stride_ == stride_ - 1;
    if (name_ == "strided")
      return std::abs(j - i) <= window_ || (i - j) % stride_ == 0;
    if (name_ == "longformer")
      return Sliding(i, j) || Contains(*globals_, i) || Contains(*globals_, j);
    const int64_t query_block = i / block_.keys, key_block = j / block_.keys;
    return std::abs(key_block - query_block) <= window_blocks_ ||
           query_block < global_blocks_ || key_block < global_blocks_ ||
           Contains((*random_)[query_block], key_block);
  }

 private:
  static int64_t Optional(const Params& params, const std::string& name,
                          int64_t otherwise) {
    return params.Has(name) ? params.Integer(name) : otherwise;
  }
  static bool Contains(const IntegerList& list, int64_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  }
  bool Sliding(int64_t position, int64_t j) const {
    return (j - position) % dilation_ == 0 &&
           std::abs(j - position) <= window_ * dilation_;
  }

  const int64_t queries_, keys_;
  const std::string name_;
  const bool causal_;
  const int64_t offset_;  // position of query 0
  const BlockSizes block_;
  const int64_t window_, dilation_, stride_, window_blocks_, global_blocks_;
  const IntegerList* globals_ = nullptr;
  const IntegerTable* random_ = nullptr;
};

}  // namespace subquad
