// Products with weights by offset, by circulant embedding with FFTW, a few
// columns at a time: toeplitz_1d/fft on a line, toeplitz_2d/fft2 on an image.
// `Domain` has the rows and their layout:
//
//   heads, e, vectors          heads, width of a value, slices of weights
//   kColumns                   the largest number of columns in flight
//   Lengths()                  of the transform in each dimension
//   Inputs(head), AllInputs()  rows of the values that the head sees, and all
//   Outputs()                  rows of the output
//   LineLength(rows)           consecutive rows that stay consecutive
//   Embed(weights, spectrum, row_stride), Take(sums, row_stride, weights)
//                              the weights as a kernel, and back
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/toeplitz/fft_circulant.h"
#include "optimized/toeplitz/gradient_sums.h"

namespace subquad {

template <typename T, typename Domain>
class FftProduct : public Prepared {
 public:
  FftProduct(const Problem& problem, const Arrays& arrays, Layout& layout)
      : domain_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(layout),
        fft_(layout, domain_.Lengths()),
        group_(std::min(Domain::kColumns, domain_.e)),
        spectra_(layout, domain_.vectors.count() * fft_.column_size(),
                 OnLine{}),
        columns_(layout, (backward_ ? 2 : 1) * group_ * fft_.column_size(),
                 OnLine{}),
        sums_(layout, fft_.column_size(), backward_) {
    if (backward_)
      grad_values_.emplace(layout, arrays, "grad_values", domain_.heads);
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    pool_.For(domain_.vectors.count(), [&](int64_t vector, int) {
      T* spectrum = Spectrum(vector);
      std::fill_n(spectrum, fft_.column_size(), T{0});
      domain_.Embed(weights.Slice(vector), fft_.row_stride(), spectrum);
      fft_.Forward(spectrum);
    });
    backward_ ? RunBackward() : RunForward();
  }

  double Flops() const override {
    const int64_t columns = domain_.heads * domain_.e * (backward_ ? 3 : 2);
    return static_cast<double>(columns + domain_.vectors.count()) *
           fft_.TransformFlops();
  }

 private:
  T* Spectrum(int64_t vector) const {
    return spectra_.data() + vector * fft_.column_size();
  }
  int64_t GroupsPerHead() const { return (domain_.e + group_ - 1) / group_; }

  // Transforms columns of `n` rows; the rest of each column is zero.
  void Gather(const T* rows, int64_t n, int64_t count, T* columns) const {
    GatherColumns(rows, n, domain_.e, count, domain_.LineLength(n),
                  fft_.row_stride(), fft_.column_size(), columns);
    for (int64_t c = 0; c < count; ++c)
      fft_.Forward(columns + c * fft_.column_size());
  }

  // Convolves the transformed columns and writes them to rows.
  void Finish(const T* spectrum, bool transposed, int64_t n, int64_t count,
              T* columns, T* rows) const {
    for (int64_t c = 0; c < count; ++c) {
      T* column = columns + c * fft_.column_size();
      fft_.Multiply(spectrum, transposed, column);
      fft_.Backward(column);
    }
    ScatterColumns(columns, n, domain_.e, count, domain_.LineLength(n),
                   fft_.row_stride(), fft_.column_size(), rows);
  }

  void RunForward() {
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(domain_.heads * GroupsPerHead(), [&](int64_t task, int worker) {
      const int64_t h = task / GroupsPerHead();
      const int64_t first = task % GroupsPerHead() * group_;
      const int64_t count = std::min(group_, domain_.e - first);
      T* columns = columns_[worker];
      Gather(values.Head(h) + first, domain_.Inputs(h), count, columns);
      Finish(Spectrum(domain_.vectors.Of(h)), false, domain_.Outputs(), count,
             columns, out.Head(h) + first);
    });
  }

  void RunBackward() {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    const int64_t size = fft_.column_size();
    for (int64_t vector = 0; vector < domain_.vectors.count(); ++vector) {
      const std::vector<int64_t> heads = domain_.vectors.Readers(vector);
      const auto add = [&](int64_t task, T* sum, int worker) {
        const int64_t h = heads[task / GroupsPerHead()];
        const int64_t first = task % GroupsPerHead() * group_;
        const int64_t count = std::min(group_, domain_.e - first);
        const int64_t inputs = domain_.Inputs(h);
        T* g = columns_[worker];
        T* v = g + group_ * size;
        Gather(grad.Head(h) + first, domain_.Outputs(), count, g);
        Gather(values.Head(h) + first, inputs, count, v);
        for (int64_t c = 0; c < count; ++c)
          fft_.AddProduct(g + c * size, v + c * size, sum);
        T* of_values = grad_values_->Head(h) + first;
        Finish(Spectrum(domain_.vectors.Of(h)), true, inputs, count, g,
               of_values);
        for (int64_t j = inputs; j < domain_.AllInputs(); ++j)
          std::fill_n(of_values + j * domain_.e, count, T{0});
      };
      const auto tasks = static_cast<int64_t>(heads.size()) * GroupsPerHead();
      T* sum = sums_.Run(pool_, tasks, add);
      fft_.Backward(sum);
      domain_.Take(sum, fft_.row_stride(), grad_weights.Slice(vector));
    }
    grad_values_->AddUp(pool_);
  }

  const Domain domain_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const CirculantFft<T> fft_;
  const int64_t group_;
  Buffer<T> spectra_;
  PerThread<T> columns_;
  GradientSums<T> sums_;
  std::optional<SharedGradient<T>> grad_values_;
};

}  // namespace subquad
