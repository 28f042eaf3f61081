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

namespace subquad {

class SparsePattern {
 public:
  // Keeps a reference to the parameters' lists, which must outlive this object.
  SparsePattern(const Params& params, int64_t n)
      : n_(n),
        name_(params.Text("pattern")),
        causal_(params.Flag("causal")),
        block_(Optional(params, "block", n)),
        window_(Optional(params, "window", 0)),
        dilation_(Optional(params, "dilation", 1)),
        stride_(Optional(params, "stride", 1)),
        window_blocks_(Optional(params, "window_blocks", 0)),
        global_blocks_(Optional(params, "global_blocks", 0)) {
    if (name_ == "longformer") globals_ = &params.List("globals");
    if (name_ == "bigbird") random_ = &params.Table("random");
  }

  // True if query i sees key j.
  bool Sees(int64_t i, int64_t j) const {
    if (i >= n_ || j >= n_) return true;  // a global token
    if (causal_ && j > i) return false;
    if (name_ == "local") return i / block_ == j / block_;
    if (name_ == "sliding") return Sliding(i, j);
    if (name_ == "etc") return std::abs(j - i) <= window_;
    if (name_ == "periodic_full")
      return std::abs(j - i) <= window_ || i % stride_ == stride_ - 1;
    if (name_ == "strided")
      return std::abs(j - i) <= window_ || (i - j) % stride_ == 0;
    if (name_ == "longformer")
      return Sliding(i, j) || Contains(*globals_, i) || Contains(*globals_, j);
    const int64_t query_block = i / block_, key_block = j / block_;
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
  bool Sliding(int64_t i, int64_t j) const {
    return (j - i) % dilation_ == 0 && std::abs(j - i) <= window_ * dilation_;
  }

  const int64_t n_;
  const std::string name_;
  const bool causal_;
  const int64_t block_, window_, dilation_, stride_, window_blocks_,
      global_blocks_;
  const IntegerList* globals_ = nullptr;
  const IntegerTable* random_ = nullptr;
};

}  // namespace subquad
