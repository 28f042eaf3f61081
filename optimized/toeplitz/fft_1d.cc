// toeplitz_1d, fft: circulant embedding with FFTW, a group of contiguous
// columns at a time.
#include <algorithm>
#include <optional>

#include "optimized/base/prepare.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/toeplitz/fft_circulant.h"
#include "optimized/toeplitz/gradient_sums.h"
#include "optimized/toeplitz/programs_1d.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

template <typename T>
class Fft : public Prepared {
 public:
  Fft(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        length_(GoodFftLength(sizes_.weights())),
        fft_(layout, {length_}),
        group_(std::min(kColumnGroup, sizes_.e)),
        spectra_(layout, sizes_.vectors.count() * fft_.column_size(), OnLine{}),
        columns_(layout, (backward_ ? 2 : 1) * group_ * fft_.column_size(),
                 OnLine{}),
        sums_(layout, fft_.column_size(), backward_) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", sizes_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int) {
      TransformWeights(weights.Slice(vector), Spectrum(vector));
    });
    backward_ ? RunBackward() : RunForward();
  }

  double Flops() const override {
    const int64_t columns = sizes_.heads * sizes_.e * (backward_ ? 3 : 2);
    return static_cast<double>(columns + sizes_.vectors.count()) *
           fft_.TransformFlops();
  }

 private:
  T* Spectrum(int64_t vector) const {
    return spectra_.data() + vector * fft_.column_size();
  }
  int64_t GroupsPerHead() const { return (sizes_.e + group_ - 1) / group_; }

  void TransformWeights(const T* weights, T* spectrum) const {
    std::fill_n(spectrum, fft_.column_size(), T{0});
    EmbedOffsets(weights + sizes_.n_q - 1, sizes_.n_q,
                 sizes_.seen.Offsets() - sizes_.n_q + 1, length_, spectrum);
    fft_.Forward(spectrum);
  }

  // Fills with zeros from row n on.
  void Gather(const T* rows, int64_t n, int64_t count, T* column) const {
    GatherColumns(rows, n, sizes_.e, count, n, fft_.row_stride(),
                  fft_.column_size(), column);
    for (int64_t c = 0; c < count; ++c)
      fft_.Forward(column + c * fft_.column_size());
  }

  // Convolves the transformed columns and writes them to rows.
  void Finish(const T* spectrum, bool transposed, int64_t n, int64_t count,
              T* column, T* rows) const {
    for (int64_t c = 0; c < count; ++c) {
      T* own_column = column + c * fft_.column_size();
      fft_.Multiply(spectrum, transposed, own_column);
      fft_.Backward(own_column);
    }
    ScatterColumns(column, n, sizes_.e, count, n, fft_.row_stride(),
                   fft_.column_size(), rows);
  }

  void RunForward() {
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads * GroupsPerHead(), [&](int64_t task, int worker) {
      const int64_t h = task / GroupsPerHead();
      const int64_t first = task % GroupsPerHead() * group_;
      const int64_t count = std::min(group_, sizes_.e - first);
      T* column = columns_[worker];
      Gather(values.Head(h) + first, sizes_.seen.Of(h), count, column);
      Finish(Spectrum(sizes_.vectors.Of(h)), false, sizes_.n_q, count, column,
             out.Head(h) + first);
    });
  }

  void RunBackward() {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    const int64_t size = fft_.column_size();
    for (int64_t vector = 0; vector < sizes_.vectors.count(); ++vector) {
      const std::vector<int64_t> heads = sizes_.vectors.Readers(vector);
      const auto add = [&](int64_t task, T* sum, int worker) {
        const int64_t h = heads[task / GroupsPerHead()];
        const int64_t first = task % GroupsPerHead() * group_;
        const int64_t count = std::min(group_, sizes_.e - first);
        T* g = columns_[worker];
        T* v = g + group_ * size;
        Gather(grad.Head(h) + first, sizes_.n_q, count, g);
        Gather(values.Head(h) + first, sizes_.seen.Of(h), count, v);
        for (int64_t c = 0; c < count; ++c)
          fft_.AddProduct(g + c * size, v + c * size, sum);
        T* of_values = grad_values_->Head(h) + first;
        Finish(Spectrum(sizes_.vectors.Of(h)), true, sizes_.seen.Of(h), count,
               g, of_values);
        for (int64_t j = sizes_.seen.Of(h); j < sizes_.n_k; ++j)
          std::fill_n(of_values + j * sizes_.e, count, T{0});
      };
      const auto tasks = static_cast<int64_t>(heads.size()) * GroupsPerHead();
      T* sum = sums_.Run(pool_, tasks, add);
      fft_.Backward(sum);
      WriteWeightGradient(sum, grad_weights.Slice(vector));
    }
    grad_values_->AddUp(pool_);
  }

  void WriteWeightGradient(const T* sum, T* weights) const {
    for (int64_t m = 0; m < sizes_.n_q; ++m)
      weights[sizes_.n_q - 1 - m] = sum[m];
    const int64_t visible = sizes_.seen.Offsets();
    for (int64_t t = sizes_.n_q; t < visible; ++t)
      weights[t] = sum[length_ - (t - (sizes_.n_q - 1))];
    std::fill(weights + visible, weights + sizes_.weights(), T{0});
  }

  const Toeplitz1dSizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const int64_t length_;
  const CirculantFft<T> fft_;
  const int64_t group_;
  Buffer<T> spectra_;
  PerThread<T> columns_;
  GradientSums<T> sums_;
  std::optional<SharedGradient<T>> grad_values_;
};

}  // namespace

std::unique_ptr<Prepared> PrepareFft1d(const Problem& problem,
                                       const Arrays& arrays, Layout& layout) {
  return PrepareFor<Fft>(problem, arrays, layout);
}

}  // namespace subquad
