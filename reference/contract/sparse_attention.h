// The keys that a query sees under a sparse pattern, as a few arithmetic
// progressions: the same patterns as reference/softmax/sparse_pattern.h defines
// pair by pair. As there, the global tokens of etc are numbered from n on, the
// number of queries and of keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/base/problem.h"
#include "reference/softmax/block_sizes.h"

namespace subquad {

// Returns the quotient rounded down, also of negative numbers.
inline int64_t FloorOf(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0);
}

// `count` keys first, first + step, .. , either all positions or none.
struct KeyRun {
  int64_t first, step, count;
};

class SparseKeys {
 public:
  explicit SparseKeys(const Problem& problem)
      : queries_(problem.queries),
        keys_(problem.keys),
        apart_(problem.HasInput("q_global") ? problem.Dim("g") : 0),
        block_(BlockSizesOf(problem.params)) {
    const Params& params = problem.params;
    const auto take = [&](const char* name, int64_t& value) {
      if (params.Has(name)) value = params.Integer(name);
    };
    name_ = params.Text("pattern");
    causal_ = params.Flag("causal");
    take("query_offset", first_);
    take("window", window_);
    take("dilation", dilation_);
    take("stride", stride_);
    take("window_blocks", window_blocks_);
    take("global_blocks", global_blocks_);
    if (name_ == "longformer") {
      globals_ = params.List("globals");
      SortUnique(globals_);
      seeing_all_ = globals_;
    }
    if (name_ == "periodic_full")
      for (int64_t i = stride_ - 1; i < queries_; i += stride_)
        seeing_all_.push_back(i);
    if (name_ == "bigbird") {
      random_ = params.Table("random");
      for (IntegerList& list : random_) SortUnique(list);
    }
  }

  const std::string& name() const { return name_; }
  bool causal() const { return causal_; }
  // Without the global tokens of etc.
  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }
  // True if the queries of a block see the same keys, but for `causal`.
  bool InBlocks() const {
    return name_ == "local" || name_ == "bigbird" || IsMasked();
  }
  // True if a block mask tells what is seen.
  bool IsMasked() const { return name_ == "blocks"; }
  const BlockSizes& block() const { return block_; }
  // Returns the position of query i among the keys, which may be before or
  // after all of them.
  int64_t Position(int64_t i) const { return first_ + i; }
  int64_t window() const { return window_; }
  int64_t dilation() const { return dilation_; }
  // Positions that all queries see; sorted, unique.
  const IntegerList& globals() const { return globals_; }
  // Positions that see all positions (with `causal`, all before them); sorted,
  // unique.
  const IntegerList& seeing_all() const { return seeing_all_; }
  // Global tokens in addition to the n positions.
  int64_t apart() const { return apart_; }
  // Those with the global tokens.
  int64_t all_queries() const { return queries_ + apart_; }
  int64_t all_keys() const { return keys_ + apart_; }

  // Writes disjoint runs to `runs`, replacing its content. Does not allocate if
  // the vector has room for MaxRuns(). `block_mask` is that of the head, if
  // IsMasked(); null shows every block.
  template <typename T>
  void Runs(int64_t i, const T* block_mask, std::vector<KeyRun>& runs) const {
    AllRuns(i, block_mask, runs);
    if (!causal_ || i >= queries_) return;
    const int64_t position = Position(i);
    size_t kept = 0;
    for (KeyRun run : runs) {
      if (run.first < keys_) {
        if (run.first > position) continue;
        run.count = std::min(run.count, (position - run.first) / run.step + 1);
      }
      runs[kept++] = run;
    }
    runs.resize(kept);
  }
  void Runs(int64_t i, std::vector<KeyRun>& runs) const {
    Runs<double>(i, nullptr, runs);
  }

  // Ignores `causal`. Queries of the same block see the same keys.
  template <typename T>
  void AllRuns(int64_t i, const T* block_mask,
               std::vector<KeyRun>& runs) const {
    runs.clear();
    if (IsMasked()) return AddMasked(i, block_mask, runs);
    if (name_ == "local") {
      const int64_t block = FloorOf(Position(i), block_.keys);
      return AddBlocks(block, block + 1, runs);
    }
    if (name_ == "sliding") return AddSliding(Position(i), runs);
    if (name_ == "etc") return AddEtc(i, runs);
    if (name_ == "periodic_full") {
      if (i % stride_ == stride_ - 1) return runs.push_back({0, 1, keys_});
      return AddSliding(i, runs);
    }
    if (name_ == "strided") return AddStrided(i, runs);
    if (name_ == "longformer") return AddLongformer(i, runs);
    AddBigBird(i / block_.queries, runs);
  }

  int64_t MaxRuns() const {
    size_t max_runs = 3 + globals_.size();
    if (IsMasked()) max_runs += static_cast<size_t>(KeyBlocks() / 2);
    for (const IntegerList& list : random_)
      max_runs = std::max(max_runs, 3 + list.size());
    return static_cast<int64_t>(max_runs);
  }

  // Returns the memory of a query's runs.
  double RunBytes() const {
    return static_cast<double>(MaxRuns()) * sizeof(KeyRun);
  }

  // Returns the memory of the lists.
  double ListBytes() const {
    double bytes = static_cast<double>((globals_.size() + seeing_all_.size()) *
                                       sizeof(int64_t));
    for (const IntegerList& list : random_)
      bytes += static_cast<double>(sizeof(IntegerList) +
                                   list.size() * sizeof(int64_t));
    return bytes;
  }

  // Visible keys, summed over the queries, and those of the query with the
  // most, as if a block mask showed every block.
  struct Totals {
    double pairs = 0;
    int64_t max_keys = 0;
  };
  Totals Count() const {
    Totals totals;
    std::vector<KeyRun> runs;
    for (int64_t i = 0; i < all_queries(); ++i) {
      Runs(i, runs);
      int64_t keys = 0;
      for (const KeyRun& run : runs) keys += run.count;
      totals.pairs += static_cast<double>(keys);
      totals.max_keys = std::max(totals.max_keys, keys);
    }
    return totals;
  }

 private:
  static void SortUnique(IntegerList& list) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  int64_t KeyBlocks() const { return (keys_ + block_.keys - 1) / block_.keys; }

  void AddBlocks(int64_t first, int64_t end, std::vector<KeyRun>& runs) const {
    const int64_t size = block_.keys;
    const int64_t from = std::min(keys_, std::max<int64_t>(0, first) * size);
    const int64_t to =
        end >= KeyBlocks() ? keys_ : std::max<int64_t>(0, end) * size;
    if (from < to) runs.push_back({from, 1, to - from});
  }

  // Adds the blocks of the query's row of the mask, neighbours as one run.
  template <typename T>
  void AddMasked(int64_t i, const T* block_mask,
                 std::vector<KeyRun>& runs) const {
    const int64_t blocks = KeyBlocks();
    if (!block_mask) return AddBlocks(0, blocks, runs);
    const T* const row = block_mask + i / block_.queries * blocks;
    for (int64_t first = 0; first < blocks; ++first) {
      int64_t end = first;
      while (end < blocks && row[end] != 0) ++end;
      AddBlocks(first, end, runs);
      first = end;  // which is hidden
    }
  }

  void AddSliding(int64_t position, std::vector<KeyRun>& runs) const {
    const int64_t from = std::max(-window_, -FloorOf(position, dilation_));
    const int64_t to =
        std::min(window_, FloorOf(keys_ - 1 - position, dilation_));
    if (from <= to)
      runs.push_back({position + from * dilation_, dilation_, to - from + 1});
  }

  void AddEtc(int64_t i, std::vector<KeyRun>& runs) const {
    if (i < queries_)
      AddSliding(i, runs);
    else
      runs.push_back({0, 1, keys_});
    runs.push_back({keys_, 1, apart_});
  }

  // Adds the band, and the progressions before and after it.
  void AddStrided(int64_t i, std::vector<KeyRun>& runs) const {
    const int64_t from = std::max<int64_t>(0, i - window_);
    const int64_t to = std::min(keys_, i + window_ + 1);
    runs.push_back({from, 1, to - from});
    const int64_t first = i % stride_;
    if (first < from)
      runs.push_back({first, stride_, (from - 1 - first) / stride_ + 1});
    const int64_t next = to + ((i - to) % stride_ + stride_) % stride_;
    if (next < keys_)
      runs.push_back({next, stride_, (keys_ - 1 - next) / stride_ + 1});
  }

  void AddLongformer(int64_t i, std::vector<KeyRun>& runs) const {
    if (std::ranges::binary_search(globals_, i))
      return runs.push_back({0, 1, keys_});
    AddSliding(i, runs);
    for (int64_t position : globals_)
      if ((position - i) % dilation_ != 0 ||
          std::abs(position - i) / dilation_ > window_)
        runs.push_back({position, 1, 1});
  }

  void AddBigBird(int64_t query_block, std::vector<KeyRun>& runs) const {
    if (query_block < global_blocks_) return runs.push_back({0, 1, keys_});
    const int64_t from = query_block - window_blocks_;
    const int64_t to = query_block + window_blocks_ + 1;
    if (from <= global_blocks_) {
      AddBlocks(0, std::max(to, global_blocks_), runs);
    } else {
      AddBlocks(0, global_blocks_, runs);
      AddBlocks(from, to, runs);
    }
    for (int64_t block : random_[static_cast<size_t>(query_block)])
      if (block >= global_blocks_ && (block < from || block >= to))
        AddBlocks(block, block + 1, runs);
  }

  int64_t queries_, keys_, apart_;
  int64_t first_ = 0;  // position of query 0
  BlockSizes block_;
  std::string name_;
  bool causal_ = false;
  int64_t window_ = 0, dilation_ = 1, stride_ = 1;
  int64_t window_blocks_ = 0, global_blocks_ = 0;
  IntegerList globals_, seeing_all_;
  IntegerTable random_;
};

inline std::string WhyNotBlocked(const Problem& problem) {
  if (problem.params.Text("pattern") != "strided") return "";
  return "a strided pattern has no blocks of pairs: neighbouring queries have "
         "different far keys";
}

}  // namespace subquad
