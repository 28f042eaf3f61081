// What the CPU algorithms of kernelized attention share: tensors by head, and
// the step from an algorithm to a Prepared.
#pragma once

#include <string>
#include <vector>

#include "algorithms/kernelized.h"
#include "optimized/base/buffer.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/kernelized/feature_rows.h"

namespace subquad {

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
  return WholeVectors<T>(e + 1);
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

// An algorithm has a constructor from a KernelizedShape and a layout, Flops()
// of a run, and Run(pool, heads).
template <typename T, template <typename> typename Algorithm>
class KernelizedPrepared : public Prepared {
 public:
  KernelizedPrepared(const Problem& problem, const Arrays& arrays,
                     Layout& layout)
      : heads_(TensorsByHead<T>(problem, arrays)),
        pool_(layout),
        algorithm_(KernelizedShape(problem), layout) {}

  void Run() override { algorithm_.Run(pool_, heads_); }
  double Flops() const override { return algorithm_.Flops(); }

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

// What an Implementation's `prepare` is for such an algorithm.
template <template <typename> typename Algorithm>
std::unique_ptr<Prepared> PrepareKernelized(const Problem& problem,
                                            const Arrays& arrays,
                                            Layout& layout) {
  if (problem.scalar == Scalar::kFloat64)
    return std::make_unique<KernelizedPrepared<double, Algorithm>>(
        problem, arrays, layout);
  return std::make_unique<KernelizedPrepared<float, Algorithm>>(problem, arrays,
                                                                layout);
}

}  // namespace subquad
