// What the algorithms of kernelized attention share: sizes, tensors by head,
// and the step from an algorithm to a Prepared.
#pragma once

#include <string>
#include <vector>

#include "optimized/buffer.h"
#include "optimized/feature_rows.h"
#include "optimized/implementations.h"
#include "optimized/thread_pool.h"
#include "reference/kernelized.h"

namespace subquad {

struct KernelizedShape {
  explicit KernelizedShape(const Problem& problem)
      : map(FeatureMapOf(problem)),
        n_q(QueriesOf(problem)),
        n_k(KeysOf(problem)),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        f(map.features()),
        heads(problem.heads),
        causal(problem.params.Flag("causal")),
        has_bias(problem.HasInput("bias")),
        image_width(problem.params.Has("width") ? problem.Dim("width") : 0) {}

  int64_t SeenBy(int64_t i) const {
    return causal ? std::min(i + 1, n_k) : n_k;
  }

  FeatureMapSpec map;
  int64_t n_q, n_k, d, e, f, heads;
  bool causal, has_bias;
  int64_t image_width;  // 0: no image
};

// The tensors of one head. omega and bias are null where there are none.
template <typename T>
struct HeadTensors {
  const T* q;
  const T* k;
  const T* v;
  const T* omega;
  const T* bias;
  T* out;
};

template <typename T>
std::vector<HeadTensors<T>> TensorsByHead(const Problem& problem,
                                          const Arrays& arrays) {
  const auto of = [&](const std::string& name, int64_t head) {
    return problem.HasInput(name) ? arrays.In<T>(name).Head(head) : nullptr;
  };
  std::vector<HeadTensors<T>> heads;
  for (int64_t h = 0; h < problem.heads; ++h)
    heads.push_back({of("q", h), of("k", h), of("v", h), of("omega", h),
                     of("bias", h), arrays.Out<T>("out").Head(h)});
  return heads;
}

// Values with a column of ones for the normaliser, and zeros up to whole
// vectors. Numerator and normaliser then go through the same additions in the
// same order, and what rounding does to both cancels in their quotient: equal
// values come out equal.
template <typename T>
int64_t ExtendedWidth(int64_t e) {
  constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  return (e + kLanes) / kLanes * kLanes;
}
template <typename T>
void ExtendValues(const T* values, int64_t rows, int64_t e, T* extended) {
  const int64_t width = ExtendedWidth<T>(e);
  for (int64_t j = 0; j < rows; ++j) {
    T* to = extended + j * width;
    std::copy_n(values + j * e, e, to);
    to[e] = 1;
    std::fill(to + e + 1, to + width, T{0});
  }
}

// An algorithm has a constructor from a KernelizedShape and a number of
// threads, and Run(pool, heads).
template <typename T, template <typename> typename Algorithm>
class KernelizedPrepared : public Prepared {
 public:
  KernelizedPrepared(const Problem& problem, const Arrays& arrays,
                     const PrepareOptions& options)
      : heads_(TensorsByHead<T>(problem, arrays)),
        pool_(options.threads),
        algorithm_(KernelizedShape(problem), pool_.threads()) {}

  void Run() override { algorithm_.Run(pool_, heads_); }

  std::string Choice() const override {
    if constexpr (requires { algorithm_.Choice(); })
      return algorithm_.Choice();
    else
      return "";
  }

 private:
  const std::vector<HeadTensors<T>> heads_;
  ThreadPool pool_;
  Algorithm<T> algorithm_;
};

// What an Implementation's `prepare` and `cost` are for such an algorithm.
template <template <typename> typename Algorithm>
std::unique_ptr<Prepared> PrepareKernelized(const Problem& problem,
                                            const Arrays& arrays,
                                            const PrepareOptions& options) {
  return PrepareFor<KernelizedPrepared<float, Algorithm>,
                    KernelizedPrepared<double, Algorithm>>(problem, arrays,
                                                           options);
}
template <template <typename> typename Algorithm>
Cost KernelizedCost(const Problem& problem, int threads) {
  const KernelizedShape shape(problem);
  Cost cost = problem.scalar == Scalar::kFloat64
                  ? Algorithm<double>::CostOf(shape, threads)
                  : Algorithm<float>::CostOf(shape, threads);
  cost.bytes = TensorBytes(problem);
  return cost;
}

}  // namespace subquad
