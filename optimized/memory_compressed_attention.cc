// memory_compressed_attention: softmax attention to floor(n_k/s) keys and
// values, each a weighted sum of s neighbours (Transformers II eq. 14; Liu et
// al. 2018)
//
//   dense       the sums, then two GEMMs with the scores [n_q, n_k/s] in
//               memory.
//   compressed  the sums, then blocks of queries against tiles of the fewer
//               keys, no scores stored (softmax_tiles.h): O((n_k/s) (d+e))
//               memory.
//
// With a fixed s both still take O(n^2/s (d+e)) time: the stride saves a
// constant factor, and gives linear time only if it grows with n.
#include <algorithm>
#include <memory>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/implementations.h"
#include "optimized/softmax/reduced_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// The number of sums per task.
constexpr int64_t kSumBlock = 64;

AttentionSizes SizesOf(const Problem& problem) {
  return {problem.Dim("n_q"),
          problem.Dim("n_k") / problem.params.Integer("stride"),
          problem.Dim("d"), problem.Dim("e")};
}

template <typename T, template <typename> class Attention>
class MemoryCompressed : public Prepared {
 public:
  MemoryCompressed(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(SizesOf(problem)),
        stride_(problem.params.Integer("stride")),
        heads_(problem.heads),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        attention_(layout, sizes_),
        keys_(layout, sizes_.keys * sizes_.d),
        values_(layout, sizes_.keys * sizes_.e) {}

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      pool_.For((sizes_.keys + kSumBlock - 1) / kSumBlock, [&](int64_t block,
                                                               int) {
        Compress(arrays_.In<T>("theta_k").Head(h), arrays_.In<T>("k").Head(h),
                 sizes_.d, block, keys_.data());
        Compress(arrays_.In<T>("theta_v").Head(h), arrays_.In<T>("v").Head(h),
                 sizes_.e, block, values_.data());
      });
      attention_.Run(pool_, scale_, arrays_.In<T>("q").Head(h), keys_.data(),
                     values_.data(), arrays_.Out<T>("out").Head(h));
    }
  }

  double Flops() const override {
    return 2 * static_cast<double>(heads_ * sizes_.keys) *
           static_cast<double>(sizes_.d + sizes_.e) *
           static_cast<double>(stride_ + sizes_.n_q);
  }

 private:
  void Compress(const T* theta, const T* rows, int64_t width, int64_t block,
                T* sums) const {
    const int64_t first = block * kSumBlock;
    const int64_t end = std::min(sizes_.keys, first + kSumBlock);
    std::fill(sums + first * width, sums + end * width, T{0});
    for (int64_t a = first; a < end; ++a)
      for (int64_t b = 0; b < stride_; ++b) {
        const T* row = rows + (a * stride_ + b) * width;
        for (int64_t x = 0; x < width; ++x)
          sums[a * width + x] += theta[b] * row[x];
      }
  }

  const AttentionSizes sizes_;
  const int64_t stride_, heads_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Attention<T> attention_;
  Buffer<T> keys_, values_;
};

template <typename T>
using Dense = MemoryCompressed<T, DenseToReduced>;
template <typename T>
using Compressed = MemoryCompressed<T, TiledToReduced>;

}  // namespace

std::vector<Implementation> MemoryCompressedAttentionImplementations() {
  return CpuTable(
      "memory_compressed_attention",
      {{.id = "dense",
        .what = "compressed keys, then two GEMMs (Eigen), scores in memory",
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "compressed",
        .what = "compressed keys, then online softmax without scores",
        .sums = DirectSums,
        .prepare = PrepareFor<Compressed>}});
}

}  // namespace subquad
