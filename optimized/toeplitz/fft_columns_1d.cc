// toeplitz_1d, fft_columns: our own FFT with the columns in the SIMD lanes;
// a few rows are multiplied directly.
#include <algorithm>
#include <optional>

#include "optimized/base/prepare.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/toeplitz/direct_product.h"
#include "optimized/toeplitz/fft_columns.h"
#include "optimized/toeplitz/gradient_sums.h"
#include "optimized/toeplitz/programs_1d.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

template <typename T>
class FftColumns : public Prepared {
 public:
  FftColumns(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        columns_(layout, sizes_.n_q, sizes_.n_k),
        block_(std::min(sizes_.e, ToeplitzColumns<T>::kBlockColumns)),
        spectrum_size_(columns_.SpectrumSize()),
        spectra_(layout, sizes_.vectors.count() * spectrum_size_, OnLine{}),
        scratch_(layout,
                 WholeLines<T>(backward_ ? columns_.GradientScratchSize(block_)
                                         : columns_.ScratchSize(block_)),
                 OnLine{}),
        sums_(layout, spectrum_size_, backward_) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int worker) {
      columns_.Spectrum(weights.Slice(vector), sizes_.seen.Offsets(),
                        Spectrum(vector), scratch_[worker]);
    });
    backward_ ? RunBackward() : RunForward();
  }

  double Flops() const override {
    return (backward_ ? 2.5 : 1) * static_cast<double>(sizes_.heads) *
           columns_.Flops(sizes_.e);
  }

 private:
  T* Spectrum(int64_t vector) const {
    return spectra_.data() + vector * spectrum_size_;
  }
  int64_t BlocksPerHead() const { return (sizes_.e + block_ - 1) / block_; }

  void RunForward() {
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads * BlocksPerHead(), [&](int64_t task, int worker) {
      const int64_t h = task / BlocksPerHead();
      const int64_t first = task % BlocksPerHead() * block_;
      columns_.Apply(Spectrum(sizes_.vectors.Of(h)), values.Head(h) + first,
                     sizes_.e, sizes_.seen.Of(h),
                     std::min(block_, sizes_.e - first), out.Head(h) + first,
                     sizes_.e, false, scratch_[worker]);
    });
  }

  void RunBackward() {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    for (int64_t vector = 0; vector < sizes_.vectors.count(); ++vector) {
      const std::vector<int64_t> heads = sizes_.vectors.Readers(vector);
      const auto add = [&](int64_t task, T* sum, int worker) {
        const int64_t h = heads[task / BlocksPerHead()];
        const int64_t first = task % BlocksPerHead() * block_;
        const int64_t count = std::min(block_, sizes_.e - first);
        const T* g = grad.Head(h) + first;
        columns_.AccumulateWeightGradient(g, sizes_.e, values.Head(h) + first,
                                          sizes_.e, sizes_.seen.Of(h), count,
                                          sum, scratch_[worker]);
        T* of_values = grad_values_->Head(h) + first;
        columns_.ApplyTransposed(Spectrum(sizes_.vectors.Of(h)), g, sizes_.e,
                                 count, of_values, sizes_.e, sizes_.seen.Of(h),
                                 false, scratch_[worker]);
        for (int64_t j = sizes_.seen.Of(h); j < sizes_.n_k; ++j)
          std::fill_n(of_values + j * sizes_.e, count, T{0});
      };
      const auto tasks = static_cast<int64_t>(heads.size()) * BlocksPerHead();
      columns_.WeightGradient(sums_.Run(pool_, tasks, add),
                              sizes_.seen.Offsets(), grad_weights.Slice(vector),
                              scratch_[0]);
    }
    grad_values_->AddUp(pool_);
  }

  const Toeplitz1dSizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const ToeplitzColumns<T> columns_;
  const int64_t block_, spectrum_size_;
  Buffer<T> spectra_;
  PerThread<T> scratch_;
  GradientSums<T> sums_;
  std::optional<SharedGradient<T>> grad_values_;
};

// Multiplies directly, for problems of a few rows.
template <typename T>
class FewRows : public Prepared {
 public:
  FewRows(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        product_(layout, sizes_.n_q, sizes_.n_k, sizes_.e) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads, [&](int64_t h, int worker) {
      product_.Apply(weights.Head(h), sizes_.seen.Offsets(), values.Head(h),
                     sizes_.seen.Of(h), out.Head(h), worker);
    });
  }

  double Flops() const override {
    return static_cast<double>(sizes_.heads) * product_.Flops();
  }

 private:
  const Toeplitz1dSizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  const DirectToeplitz<T> product_;
};

bool HasFewRows(const Problem& problem) {
  return !problem.backward &&
         DirectToeplitz<float>::Serves(problem.Dim("n_q"), problem.Dim("n_k"));
}

}  // namespace

std::unique_ptr<Prepared> PrepareFftColumns1d(const Problem& problem,
                                              const Arrays& arrays,
                                              Layout& layout) {
  return HasFewRows(problem) ? PrepareFor<FewRows>(problem, arrays, layout)
                             : PrepareFor<FftColumns>(problem, arrays, layout);
}

Sums FftColumns1dSums(const Problem& problem) {
  return HasFewRows(problem) ? Sums::kDirect : Sums::kMixed;
}

}  // namespace subquad
