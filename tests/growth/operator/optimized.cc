// average_attention: out[i] = (v[0] + .. + v[i]) / (i + 1)
//
//   dense    the matrix of weights in memory times the values by GEMM
//   running  one sum that runs along the tokens
#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

template <typename T>
class Dense : public Prepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : n_(problem.Dim("n")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        product_(layout, n_, n_, problem.Dim("e")) {}

  void Run() override {
    const auto v = arrays_.In<T>("v");
    const auto out = arrays_.Out<T>("out");
    const auto fill_row = [&](int64_t i, T* row) {
      std::fill_n(row, i + 1, T{1} / static_cast<T>(i + 1));
      std::fill(row + i + 1, row + n_, T{0});
    };
    for (int64_t h = 0; h < heads_; ++h)
      product_.Run(pool_, fill_row, v.Head(h), out.Head(h));
  }

  double Flops() const override {
    return static_cast<double>(heads_) * product_.Flops();
  }

 private:
  const int64_t n_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
};

template <typename T>
class Running : public Prepared {
 public:
  Running(const Problem& problem, const Arrays& arrays, Layout& layout)
      : n_(problem.Dim("n")),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        sums_(layout, e_) {}

  void Run() override {
    const auto values = arrays_.In<T>("v");
    const auto out = arrays_.Out<T>("out");
    pool_.For(heads_, [&](int64_t h, int worker) {
      double* sums = sums_[worker];
      std::fill_n(sums, e_, 0.0);
      for (int64_t i = 0; i < n_; ++i)
        for (int64_t c = 0; c < e_; ++c) {
          sums[c] += values.Head(h)[i * e_ + c];
          out.Head(h)[i * e_ + c] =
              static_cast<T>(sums[c] / static_cast<double>(i + 1));
        }
    });
  }

  double Flops() const override {
    return 2.0 * static_cast<double>(heads_ * n_ * e_);
  }

 private:
  const int64_t n_, e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  PerThread<double> sums_;
};

}  // namespace

std::vector<Implementation> AverageAttentionImplementations() {
  return CpuTable("average_attention",
                  {{.id = "dense",
                    .what = "weights in memory, then a GEMM (Eigen)",
                    .source = "Zhang et al. 2018 eq. 1",
                    .time = {"O(e n^2)", "n^2"},
                    .memory = {"O(n^2)", "n^2"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Dense>},
                   {.id = "running",
                    .what = "one sum along the tokens, in double",
                    .source = "Zhang et al. 2018 section 3.2",
                    .time = {"O(e n)", "n"},
                    .memory = {"O(e) per thread", "1"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Running>}});
}

}  // namespace subquad
