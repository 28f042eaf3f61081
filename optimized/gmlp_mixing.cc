// gmlp_mixing: out = (sigmoid(x phi_u1) o (Psi x phi_u2)) phi_v (Transformers
// II eq. 24, 25; Liu et al. 2021)
//
//   dense  Psi times the values of all tokens by GEMM, a Toeplitz matrix
//          formed in memory: O(n^2 m). Without Psi nothing is mixed and all is
//          linear in n.
//   fft    the mixing by fft_columns of toeplitz_1d: O(n (m log n + D m +
//          m e)). Only for weights by offset.
//
// Both begin with x phi_u2 for all tokens and end with blocks of rows: their
// gates, the products with the mixed values, and phi_v.
#include "reference/contract/gmlp_mixing.h"

#include <algorithm>
#include <memory>

#include "optimized/base/elementwise.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "optimized/toeplitz/materialized.h"
#include "reference/contract/find_implementation.h"

namespace subquad {
namespace {

constexpr int64_t kRowBlock = 128;

// Computes the values to mix, [heads, n, m], and the output rows from the mixed
// values, for both algorithms.
template <typename T>
class Gmlp : public Prepared {
 public:
  Gmlp(const Problem& problem, const Arrays& arrays, Layout& layout)
      : heads_(problem.heads),
        n_(problem.Dim("n")),
        token_(problem.Dim("D")),
        m_(problem.Dim("m")),
        e_(problem.Dim("e")),
        arrays_(arrays),
        pool_(layout),
        gates_(layout, WholeLines<T>(kRowBlock * m_)) {}

 protected:
  double FlopsOfRows() const {
    return static_cast<double>(heads_ * n_ * m_) *
           static_cast<double>(4 * token_ + 2 * e_ + 1);
  }

  // Computes numbers [n, m] = x phi_u2.
  void MakeNumbers(int64_t head, T* numbers) {
    pool_.ForRows(n_, kRowBlock, [&](int64_t first, int64_t rows, int) {
      Project(head, "phi_u2", first, rows, numbers + first * m_);
    });
  }

  // Computes out from mixed rows [n, m].
  void WriteRows(int64_t head, const T* mixed) {
    const T* phi_v = arrays_.In<T>("phi_v").Head(head);
    T* out = arrays_.Out<T>("out").Head(head);
    pool_.ForRows(n_, kRowBlock, [&](int64_t first, int64_t rows, int worker) {
      T* gates = gates_[worker];
      Project(head, "phi_u1", first, rows, gates);
      Elementwise(gates, rows * m_, gates,
                  [](const auto& z) { return (1 + (-z).exp()).inverse(); });
      for (int64_t i = 0; i < rows * m_; ++i) gates[i] *= mixed[first * m_ + i];
      MultiplyInOrder(gates, m_, rows, m_, phi_v, e_, out + first * e_);
    });
  }

  const int64_t heads_, n_, token_, m_, e_;
  const Arrays arrays_;
  ThreadPool pool_;

 private:
  // Multiplies some rows of x by a matrix [D, m].
  void Project(int64_t head, const char* matrix, int64_t first, int64_t rows,
               T* out) {
    MultiplyInOrder(arrays_.In<T>("x").Head(head) + first * token_, token_,
                    rows, token_, arrays_.In<T>(matrix).Head(head), m_, out);
  }

  PerThread<T> gates_;
};

template <typename T>
class Dense : public Gmlp<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Gmlp<T>(problem, arrays, layout),
        has_psi_(problem.HasInput("psi")),
        mixes_(has_psi_ || problem.HasInput("weights")),
        numbers_(layout, this->n_ * this->m_),
        mixed_(layout, mixes_ ? this->n_ * this->m_ : 0),
        matrix_(layout, mixes_ ? this->n_ : 0, this->n_, this->m_) {}

  void Run() override {
    const int64_t n = this->n_;
    for (int64_t h = 0; h < this->heads_; ++h) {
      this->MakeNumbers(h, numbers_.data());
      if (!mixes_) {
        this->WriteRows(h, numbers_.data());
        continue;
      }
      // Row i begins `step` elements after row i - 1.
      const T* first =
          has_psi_ ? this->arrays_.template In<T>("psi").Head(h)
                   : this->arrays_.template In<T>("weights").Head(h) + n - 1;
      const int64_t step = has_psi_ ? n : -1;
      matrix_.Run(
          this->pool_,
          [&](int64_t i, T* row) { std::copy_n(first + i * step, n, row); },
          numbers_.data(), mixed_.data());
      this->WriteRows(h, mixed_.data());
    }
  }

  double Flops() const override {
    return this->FlopsOfRows() +
           static_cast<double>(this->heads_) * matrix_.Flops();
  }

 private:
  const bool has_psi_, mixes_;
  Buffer<T> numbers_, mixed_;
  MaterializedProduct<T> matrix_;
};

const Implementation& MixingProgram() {
  static const auto kPrograms = Toeplitz1dImplementations();
  return FindImplementation(kPrograms, "fft_columns");
}

template <typename T>
class Fft : public Gmlp<T> {
 public:
  Fft(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Gmlp<T>(problem, arrays, layout),
        numbers_(layout, this->heads_ * this->n_ * this->m_),
        mixed_(layout, this->heads_ * this->n_ * this->m_) {
    const Problem mixing = MixingOf(problem);
    Arrays parts;
    for (size_t i = 0; i < mixing.inputs.size(); ++i) {
      if (mixing.inputs[i].name == "weights")
        parts.inputs.push_back(
            arrays.inputs[static_cast<size_t>(problem.InputIndex("weights"))]);
      else
        parts.inputs.push_back({"values", mixing.scalar, numbers_.data(),
                                mixing.InputSlices(i), numbers_.size()});
    }
    parts.outputs.push_back({"out", mixing.scalar, mixed_.data(),
                             mixing.OutputSlices(0), mixed_.size()});
    mixing_ = MixingProgram().prepare(mixing, parts, layout);
  }

  void Run() override {
    const int64_t size = this->n_ * this->m_;
    for (int64_t h = 0; h < this->heads_; ++h)
      this->MakeNumbers(h, numbers_.data() + h * size);
    mixing_->Run();
    for (int64_t h = 0; h < this->heads_; ++h)
      this->WriteRows(h, mixed_.data() + h * size);
  }

  double Flops() const override {
    return this->FlopsOfRows() + mixing_->Flops();
  }

 private:
  Buffer<T> numbers_, mixed_;
  std::unique_ptr<Prepared> mixing_;
};

std::string WhyNotFft(const Problem& problem) {
  return problem.HasInput("weights") ? ""
                                     : "only for weights by offset, since it "
                                       "multiplies by a Toeplitz matrix";
}

Sums FftSums(const Problem& problem) {
  return problem.HasInput("weights") ? MixingProgram().sums(MixingOf(problem))
                                     : Sums::kDirect;
}

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  return GmlpBound(problem, inputs, MixingProgram());
}

}  // namespace

std::vector<Implementation> GmlpMixingImplementations() {
  return CpuTable("gmlp_mixing",
                  {{.id = "dense",
                    .what = "Psi times the values of all tokens by GEMM "
                            "(Eigen)",
                    .source = "Transformers II eq. 25",
                    .time = {"O(n^2 m)", "n^2"},
                    .memory = {"O(n^2)", "n^2"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Dense>},
                   {.id = "fft",
                    .what = "the mixing by FFT, with the columns in SIMD lanes",
                    .source = "Transformers II eq. 25; FastRPB proposition 3.1",
                    .time = {"O(n m (log n + D + e))", "n log n"},
                    .memory = {"O(n m)", "n"},
                    .sums = FftSums,
                    .why_not = WhyNotFft,
                    .norm_bound = FftBound,
                    .prepare = PrepareFor<Fft>}});
}

}  // namespace subquad
