// linformer_attention: out = softmax(scale q (proj_k k)^T) (proj_v v)
// (Transformers II eq. 15; Wang et al. 2020)
//
//   dense      the projections, then two GEMMs with the scores [n_q, p] in
//              memory.
//   projected  the projections, then blocks of queries against the p keys
//              without keeping scores (softmax_tiles.h).
//
// Both take O(n p (d+e)) time, because no query is paired with one of the n_k
// keys. The projections sum over all keys; they are split into a fixed number
// of parts along the keys, whose sums are added in order. Eigen's products are
// not used for them: those add even and odd keys separately, and were 90 times
// less accurate than the plain program where signs alternate from key to key.
#include <algorithm>
#include <memory>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/implementations.h"
#include "optimized/softmax/reduced_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// The keys are split into enough parts for the threads, each large enough to be
// worth its cost.
constexpr int64_t kMostParts = 16;
constexpr int64_t kPartKeys = 512;

int64_t Parts(int64_t n_k) {
  return std::clamp<int64_t>(n_k / kPartKeys, 1, kMostParts);
}

AttentionSizes SizesOf(const Problem& problem) {
  return {problem.Dim("n_q"), problem.Dim("p"), problem.Dim("d"),
          problem.Dim("e")};
}

template <typename T, template <typename> class Attention>
class Linformer : public Prepared {
 public:
  Linformer(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(SizesOf(problem)),
        n_k_(problem.Dim("n_k")),
        heads_(problem.heads),
        parts_(Parts(n_k_)),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        attention_(layout, sizes_),
        keys_(layout, parts_ * sizes_.keys * sizes_.d),
        values_(layout, parts_ * sizes_.keys * sizes_.e) {}

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      pool_.For(2 * parts_, [&](int64_t index, int) {
        if (index % 2 == 0)
          Project(arrays_.In<T>("proj_k").Head(h), arrays_.In<T>("k").Head(h),
                  sizes_.d, index / 2, keys_.data());
        else
          Project(arrays_.In<T>("proj_v").Head(h), arrays_.In<T>("v").Head(h),
                  sizes_.e, index / 2, values_.data());
      });
      AddParts(sizes_.d, keys_.data());
      AddParts(sizes_.e, values_.data());
      attention_.Run(pool_, scale_, arrays_.In<T>("q").Head(h), keys_.data(),
                     values_.data(), arrays_.Out<T>("out").Head(h));
    }
  }

  double Flops() const override {
    return 2 * static_cast<double>(heads_ * sizes_.keys) *
           static_cast<double>(sizes_.d + sizes_.e) *
           static_cast<double>(n_k_ + sizes_.n_q);
  }

 private:
  void Project(const T* projection, const T* rows, int64_t width, int64_t part,
               T* sums) const {
    const int64_t first = part * n_k_ / parts_;
    const int64_t count = (part + 1) * n_k_ / parts_ - first;
    MultiplyInOrder(projection + first, n_k_, sizes_.keys, count,
                    rows + first * width, width,
                    sums + part * sizes_.keys * width);
  }

  void AddParts(int64_t width, T* sums) const {
    const int64_t size = sizes_.keys * width;
    for (int64_t part = 1; part < parts_; ++part)
      for (int64_t x = 0; x < size; ++x) sums[x] += sums[part * size + x];
  }

  const AttentionSizes sizes_;
  const int64_t n_k_, heads_, parts_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Attention<T> attention_;
  Buffer<T> keys_, values_;  // of each part; the sums in the first
};

template <typename T>
using Dense = Linformer<T, DenseToReduced>;
template <typename T>
using Projected = Linformer<T, TiledToReduced>;

}  // namespace

std::vector<Implementation> LinformerAttentionImplementations() {
  return CpuTable(
      "linformer_attention",
      {{.id = "dense",
        .what = "projections, then two GEMMs (Eigen), scores in memory",
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "projected",
        .what = "projections, then online softmax without scores",
        .sums = DirectSums,
        .prepare = PrepareFor<Projected>}});
}

}  // namespace subquad
