// The keys that a query sees under a sparse pattern, as a few arithmetic
// progressions: the same patterns as reference/softmax/sparse_pattern.h defines
// pair by pair. As there, the global tokens of etc are numbered from n on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/base/problem.h"

namespace subquad {

// `count` keys first, first + step, .. , either all below n or none.
struct KeyRun {
  int64_t first, step, count;
};

class SparseKeys {
 public:
  explicit SparseKeys(const Problem& problem)
      : n_(problem.Dim("n")),
        apart_(problem.HasInput("q_global") ? problem.Dim("g") : 0) {
    const Params& params = problem.params;
    const auto take = [&](const char* name, int64_t& value) {
      if (params.Has(name)) value = params.Integer(name);
    };
    name_ = params.Text("pattern");
    causal_ = params.Flag("causal");
    take("block", block_);
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
      for (int64_t i = stride_ - 1; i < n_; i += stride_)
        seeing_all_.push_back(i);
    if (name_ == "bigbird") {
      random_ = params.Table("random");
      for (IntegerList& list : random_) SortUnique(list);
    }
  }

  const std::string& name() const { return name_; }
  bool causal() const { return causal_; }
  int64_t n() const { return n_; }
  int64_t block() const { return block_; }
  int64_t window() const { return window_; }
  int64_t dilation() const { return dilation_; }
  // Positions that all queries see; sorted, unique.
  const IntegerList& globals() const { return globals_; }
  // Positions that see all positions (with `causal`, all before them); sorted,
  // unique.
  const IntegerList& seeing_all() const { return seeing_all_; }
  // Global tokens in addition to the n positions.
  int64_t apart() const { return apart_; }
  // The number of queries and of keys: positions and additional tokens.
  int64_t total() const { return n_ + apart_; }

  // Writes disjoint runs to `runs`, replacing its content. Does not allocate if
  // the vector has room for MaxRuns().
  void Runs(int64_t i, std::vector<KeyRun>& runs) const {
    AllRuns(i, runs);
    if (!causal_ || i >= n_) return;
    size_t kept = 0;
    for (KeyRun run : runs) {
      if (run.first < n_) {
        if (run.first > i) continue;
        run.count = std::min(run.count, (i - run.first) / run.step + 1);
      }
      runs[kept++] = run;
    }
    runs.resize(kept);
  }

  // Ignores `causal`. Queries of the same block see the same keys.
  void AllRuns(int64_t i, std::vector<KeyRun>& runs) const {
    runs.clear();
    if (name_ == "local") return AddBlocks(i / block_, i / block_ + 1, runs);
    if (name_ == "sliding") return AddSliding(i, runs);
    if (name_ == "etc") return AddEtc(i, runs);
    if (name_ == "periodic_full") {
      if (i % stride_ == stride_ - 1) return runs.push_back({0, 1, n_});
      return AddSliding(i, runs);
    }
    if (name_ == "strided") return AddStrided(i, runs);
    if (name_ == "longformer") return AddLongformer(i, runs);
    AddBigBird(i / block_, runs);
  }

  int64_t MaxRuns() const {
    size_t max_runs = 3 + globals_.size();
    for (const IntegerList& list : random_)
      max_runs = std::max(max_runs, 3 + list.size());
    return static_cast<int64_t>(max_runs);
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
  // most.
  struct Totals {
    double pairs = 0;
    int64_t max_keys = 0;
  };
  Totals Count() const {
    Totals totals;
    std::vector<KeyRun> runs;
    for (int64_t i = 0; i < total(); ++i) {
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

  void AddBlocks(int64_t first, int64_t end, std::vector<KeyRun>& runs) const {
    const int64_t from = std::min(n_, std::max<int64_t>(0, first) * block_);
    const int64_t to = end >= (n_ + block_ - 1) / block_
                           ? n_
                           : std::max<int64_t>(0, end) * block_;
    if (from < to) runs.push_back({from, 1, to - from});
  }

  void AddSliding(int64_t i, std::vector<KeyRun>& runs) const {
    const int64_t before = std::min(window_, i / dilation_);
    const int64_t after = std::min(window_, (n_ - 1 - i) / dilation_);
    runs.push_back({i - before * dilation_, dilation_, before + after + 1});
  }

  void AddEtc(int64_t i, std::vector<KeyRun>& runs) const {
    if (i < n_)
      AddSliding(i, runs);
    else
      runs.push_back({0, 1, n_});
    runs.push_back({n_, 1, apart_});
  }

  // Adds the band, and the progressions before and after it.
  void AddStrided(int64_t i, std::vector<KeyRun>& runs) const {
    const int64_t from = std::max<int64_t>(0, i - window_);
    const int64_t to = std::min(n_, i + window_ + 1);
    runs.push_back({from, 1, to - from});
    const int64_t first = i % stride_;
    if (first < from)
      runs.push_back({first, stride_, (from - 1 - first) / stride_ + 1});
    const int64_t next = to + ((i - to) % stride_ + stride_) % stride_;
    if (next < n_)
      runs.push_back({next, stride_, (n_ - 1 - next) / stride_ + 1});
  }

  void AddLongformer(int64_t i, std::vector<KeyRun>& runs) const {
    if (std::ranges::binary_search(globals_, i))
      return runs.push_back({0, 1, n_});
    AddSliding(i, runs);
    for (int64_t position : globals_)
      if ((position - i) % dilation_ != 0 ||
          std::abs(position - i) / dilation_ > window_)
        runs.push_back({position, 1, 1});
  }

  void AddBigBird(int64_t query_block, std::vector<KeyRun>& runs) const {
    if (query_block < global_blocks_) return runs.push_back({0, 1, n_});
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

  int64_t n_, apart_;
  std::string name_;
  bool causal_ = false;
  int64_t block_ = 1, window_ = 0, dilation_ = 1, stride_ = 1;
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
