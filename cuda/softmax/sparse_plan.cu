#include <algorithm>
#include <functional>

#include "cuda/softmax/softmax_block.h"
#include "cuda/softmax/sparse_plan.h"

namespace subquad::device {
namespace {

// The most keys that a job processes: enough to be worth the sums that it
// leaves, few enough to finish with the others.
constexpr int64_t kMostKeys = 1024;

// Returns the queries in an order in which neighbours see nearly the same keys:
// residue by residue, with queries that see all keys at the end.
std::vector<int> OrderOfQueries(const SparseKeys& visible) {
  std::vector<int> order;
  const int64_t step =
      visible.InBlocks() ? 1 : std::min(visible.dilation(), visible.queries());
  for (int64_t residue = 0; residue < step; ++residue)
    for (int64_t i = residue; i < visible.queries(); i += step)
      if (!std::ranges::binary_search(visible.seeing_all(), i))
        order.push_back(static_cast<int>(i));
  for (const int64_t i : visible.seeing_all())
    order.push_back(static_cast<int>(i));
  return order;
}

// Returns the end of the group that begins at `first` of the order: whole
// blocks, or a piece of one.
int64_t EndOfGroup(const SparseKeys& visible, int64_t first) {
  const int64_t block = visible.block().queries;
  int64_t end = first + kSoftmaxQueries;
  if (visible.InBlocks())
    end = block > kSoftmaxQueries ? std::min(end, (first / block + 1) * block)
                                  : first + kSoftmaxQueries / block * block;
  else if (const auto locals =
               visible.queries() -
               static_cast<int64_t>(visible.seeing_all().size());
           first < locals)
    end = std::min(end, locals);
  return std::min(end, visible.queries());
}

}  // namespace

SparsePlan::SparsePlan(const SparseKeys& visible)
    : queries(OrderOfQueries(visible)) {
  std::vector<KeyRun> runs;
  std::vector<int64_t> last_group(static_cast<size_t>(visible.keys()), -1);
  int64_t end = 0;
  for (int64_t first = 0; first < visible.queries(); first = end) {
    end = EndOfGroup(visible, first);
    const auto first_key = static_cast<int64_t>(keys.size());
    for (int64_t x = first; x < end; ++x) {
      visible.Runs(queries[static_cast<size_t>(x)], runs);
      for (const KeyRun& run : runs)
        for (int64_t y = 0; y < run.count; ++y) {
          const int64_t key = run.first + y * run.step;
          int64_t& last = last_group[static_cast<size_t>(key)];
          if (last != first) keys.push_back(static_cast<int>(key));
          last = first;
        }
    }
    std::sort(keys.begin() + first_key, keys.end());
    const int64_t count = static_cast<int64_t>(keys.size()) - first_key;
    const auto pieces = static_cast<int>(PiecesOf(count, kMostKeys));
    const auto query = static_cast<int>(first);
    const auto rows = static_cast<int>(end - first);
    if (pieces > 1) splits.push_back({query, rows, parts, pieces});
    for (int piece = 0; piece < pieces; ++piece)
      jobs.push_back(
          {query, rows, static_cast<int>(first_key + piece * kMostKeys),
           static_cast<int>(std::min(kMostKeys, count - piece * kMostKeys)),
           pieces > 1 ? parts++ : -1});
  }
  std::ranges::stable_sort(jobs, std::greater(), &SparseJob::keys);
}

double SparsePlan::Pairs() const {
  double pairs = 0;
  for (const SparseJob& job : jobs)
    pairs += static_cast<double>(job.queries) * static_cast<double>(job.keys);
  return pairs;
}

SparseRuns::SparseRuns(const SparseKeys& visible) {
  std::vector<KeyRun> of_query;
  for (int64_t i = 0; i < visible.queries(); ++i) {
    begin.push_back(static_cast<int>(runs.size()));
    visible.Runs(i, of_query);
    int count = 0;
    for (const KeyRun& run : of_query) {
      const int before = count;
      count += static_cast<int>(run.count);
      runs.push_back({static_cast<int>(run.first), static_cast<int>(run.step),
                      before, count});
    }
  }
  begin.push_back(static_cast<int>(runs.size()));
}

}  // namespace subquad::device
