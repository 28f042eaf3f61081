#include <algorithm>

#include "cuda/softmax/sparse_mask.h"

namespace subquad::device {
namespace {

SparsePatternId PatternOf(const std::string& name) {
  if (name == "local") return SparsePatternId::kLocal;
  if (name == "sliding") return SparsePatternId::kSliding;
  if (name == "strided") return SparsePatternId::kStrided;
  if (name == "longformer") return SparsePatternId::kLongformer;
  if (name == "periodic_full") return SparsePatternId::kPeriodicFull;
  return SparsePatternId::kBigBird;
}

struct HostTables {
  explicit HostTables(const Problem& problem) {
    const Params& params = problem.params;
    if (params.Text("pattern") == "longformer") {
      global.resize(static_cast<size_t>(problem.keys));
      for (const int64_t at : params.List("globals"))
        global[static_cast<size_t>(at)] = 1;
    }
    if (params.Text("pattern") == "bigbird") {
      random_begin.push_back(0);
      for (const IntegerList& list : params.Table("random")) {
        for (const int64_t block : list)
          random.push_back(static_cast<int>(block));
        random_begin.push_back(static_cast<int>(random.size()));
      }
    }
  }
  std::vector<unsigned char> global;
  std::vector<int> random_begin, random;
};

}  // namespace

SparseMaskTables::SparseMaskTables(Layout& layout, const Problem& problem) {
  const HostTables host(problem);
  global_ = TableOf(layout, host.global);
  random_begin_ = TableOf(layout, host.random_begin);
  random_ = TableOf(layout, host.random);
  // Values larger than n show the same keys as n + 1.
  const int64_t n = problem.keys;
  const auto take = [&](const char* name, int64_t otherwise) {
    const Params& params = problem.params;
    return std::min(params.Has(name) ? params.Integer(name) : otherwise, n + 1);
  };
  const int64_t dilation = take("dilation", 1);
  mask_.pattern = PatternOf(problem.params.Text("pattern"));
  mask_.causal = problem.params.Flag("causal");
  mask_.unit =
      static_cast<int>(take("block", 1) * take("stride", 1) * dilation);
  mask_.reach = static_cast<int>(std::min(take("window", 0) * dilation, n));
  mask_.window_blocks = static_cast<int>(take("window_blocks", 0));
  mask_.global_blocks = static_cast<int>(take("global_blocks", 0));
  mask_.global = global_.data();
  mask_.random_begin = random_begin_.data();
  mask_.random = random_.data();
}

}  // namespace subquad::device
