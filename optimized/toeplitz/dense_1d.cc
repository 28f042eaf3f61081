// toeplitz_1d, dense: the matrix in memory times the values by GEMM.
#include <algorithm>
#include <optional>

#include "optimized/base/prepare.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/toeplitz/materialized.h"
#include "optimized/toeplitz/programs_1d.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

template <typename T>
class Dense : public Prepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        product_(layout, sizes_.n_q, sizes_.n_k, sizes_.e) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    if (!backward_) {
      const auto out = arrays_.Out<T>("out");
      for (int64_t h = 0; h < sizes_.heads; ++h)
        product_.Run(pool_, FillFrom(h, weights.Head(h)), values.Head(h),
                     out.Head(h));
      return;
    }
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      product_.RunTransposed(pool_, FillFrom(h, weights.Head(h)), grad.Head(h),
                             grad_values_->Head(h));
      const T* m = product_.RunOuter(pool_, grad.Head(h), values.Head(h));
      T* sums = grad_weights.Head(h);
      if (sizes_.vectors.IsFirst(h)) std::fill_n(sums, sizes_.weights(), T{0});
      for (int64_t i = 0; i < sizes_.n_q; ++i) {
        T* diagonals = sums + sizes_.n_q - 1 - i;
        for (int64_t j = 0; j < sizes_.seen.By(h, i); ++j)
          diagonals[j] += m[i * sizes_.n_k + j];
      }
    }
    grad_values_->AddUp(pool_);
  }

  double Flops() const override {
    return (backward_ ? 2 : 1) * static_cast<double>(sizes_.heads) *
           product_.Flops();
  }

 private:
  // Row i of the matrix is a slice of the weights.
  auto FillFrom(int64_t h, const T* weights) const {
    return [this, h, weights](int64_t i, T* row) {
      const int64_t visible = sizes_.seen.By(h, i);
      std::copy_n(weights + sizes_.n_q - 1 - i, visible, row);
      std::fill(row + visible, row + sizes_.n_k, T{0});
    };
  }

  const Toeplitz1dSizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
  std::optional<SharedGradient<T>> grad_values_;
};

}  // namespace

std::unique_ptr<Prepared> PrepareDense1d(const Problem& problem,
                                         const Arrays& arrays, Layout& layout) {
  return PrepareFor<Dense>(problem, arrays, layout);
}

}  // namespace subquad
