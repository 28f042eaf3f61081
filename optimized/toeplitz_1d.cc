// toeplitz_1d: out[i] = sum_j w(j - i) v[j]   (FastRPB section 3.2.1)
//
//   dense   the matrix in memory times the values by GEMM: O(n^2 e) time,
//           O(n^2) memory. The baseline that speed-ups are quoted against.
//   fft     circulant embedding with FFTW, 16 contiguous columns at a time:
//           O(e n log n) time, O(n) memory per column in flight. The length is
//           a good one and not 2n-1, which costs up to 6.8 times as much.
//   fft_columns  our own FFT with the columns in the SIMD lanes
//           (column_fft.h): the same complexity, 4 to 8 times faster than fft.
//           A few rows are multiplied directly (toeplitz/direct_product.h).
//
// All have the backward pass; there the gradient of the weights is one sum
// over all columns of products of spectra, and one inverse transform.
#include <cmath>
#include <vector>

#include "algorithms/norms.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/circulant_fft.h"
#include "optimized/toeplitz/column_fft.h"
#include "optimized/toeplitz/direct_product.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n_q(problem.Dim("n_q")),
        n_k(problem.Dim("n_k")),
        e(problem.Dim("e")),
        heads(problem.heads),
        causal(problem.params.Flag("causal")) {}
  int64_t weights() const { return n_q + n_k - 1; }
  int64_t n_q, n_k, e, heads;
  bool causal;
};

template <typename T>
class Dense : public Prepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays,
        const PrepareOptions& options)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(options.threads),
        product_(sizes_.n_q, sizes_.n_k, sizes_.e) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    if (!backward_) {
      const auto out = arrays_.Out<T>("out");
      for (int64_t h = 0; h < sizes_.heads; ++h)
        product_.Run(pool_, FillFrom(weights.Head(h)), values.Head(h),
                     out.Head(h));
      return;
    }
    const auto grad = arrays_.In<T>("grad");
    const auto grad_values = arrays_.Out<T>("grad_values");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      product_.RunTransposed(pool_, FillFrom(weights.Head(h)), grad.Head(h),
                             grad_values.Head(h));
      const T* m = product_.RunOuter(pool_, grad.Head(h), values.Head(h));
      T* sums = grad_weights.Head(h);
      if (h == 0 || weights.head_stride != 0)
        std::fill_n(sums, sizes_.weights(), T{0});
      for (int64_t i = 0; i < sizes_.n_q; ++i) {
        const int64_t seen =
            sizes_.causal ? std::min(i + 1, sizes_.n_k) : sizes_.n_k;
        T* diagonals = sums + sizes_.n_q - 1 - i;
        for (int64_t j = 0; j < seen; ++j)
          diagonals[j] += m[i * sizes_.n_k + j];
      }
    }
  }

 private:
  // Row i of the matrix is a slice of the weights.
  auto FillFrom(const T* weights) const {
    return [this, weights](int64_t i, T* row) {
      const int64_t seen =
          sizes_.causal ? std::min(i + 1, sizes_.n_k) : sizes_.n_k;
      std::copy_n(weights + sizes_.n_q - 1 - i, seen, row);
      std::fill(row + seen, row + sizes_.n_k, T{0});
    };
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  MaterializedProduct<T> product_;
};

std::vector<int64_t> FftLengths(const Sizes& sizes) {
  return {GoodFftLength(sizes.weights())};
}

// Partial sums of the weights' gradient: a fixed number of them, each over a
// fixed set of columns, so that threads do not change the order of additions.
constexpr int64_t kGradientSums = 4;

template <typename T>
class Fft : public Prepared {
 public:
  Fft(const Problem& problem, const Arrays& arrays,
      const PrepareOptions& options)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(options.threads),
        length_(FftLengths(sizes_)[0]),
        fft_({length_}, options.tune),
        group_(std::min(kColumnGroup, sizes_.e)),
        spectra_(SpectraCount(problem) * fft_.column_size()),
        columns_(pool_.threads() * ColumnsPerThread() * fft_.column_size()),
        sums_(backward_ ? kGradientSums * fft_.column_size() : 0) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const int64_t spectra = spectra_.size() / fft_.column_size();
    pool_.For(spectra, [&](int64_t h, int) {
      TransformWeights(weights.Head(h), Spectrum(h));
    });
    backward_ ? RunBackward() : RunForward();
  }

  static int64_t SpectraCount(const Problem& problem) {
    return problem.PerHead("weights") ? problem.heads : 1;
  }

 private:
  T* Spectrum(int64_t head) const {
    const int64_t size = fft_.column_size();
    return spectra_.data() + (spectra_.size() == size ? 0 : head * size);
  }
  int64_t ColumnsPerThread() const { return (backward_ ? 2 : 1) * group_; }
  int64_t GroupsPerHead() const { return (sizes_.e + group_ - 1) / group_; }

  void TransformWeights(const T* weights, T* spectrum) const {
    std::fill_n(spectrum, fft_.column_size(), T{0});
    EmbedOffsets(weights + sizes_.n_q - 1, sizes_.n_q,
                 sizes_.causal ? 1 : sizes_.n_k, length_, spectrum);
    fft_.Forward(spectrum);
  }

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
      T* one = column + c * fft_.column_size();
      fft_.Multiply(spectrum, transposed, one);
      fft_.Backward(one);
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
      T* column =
          columns_.data() + worker * ColumnsPerThread() * fft_.column_size();
      Gather(values.Head(h) + first, sizes_.n_k, count, column);
      Finish(Spectrum(h), false, sizes_.n_q, count, column,
             out.Head(h) + first);
    });
  }

  void RunBackward() {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_values = arrays_.Out<T>("grad_values");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    const int64_t size = fft_.column_size();
    const int64_t outputs = spectra_.size() / size;
    const int64_t heads_per_output = sizes_.heads / outputs;
    for (int64_t output = 0; output < outputs; ++output) {
      std::fill_n(sums_.data(), sums_.size(), T{0});
      const int64_t tasks = heads_per_output * GroupsPerHead();
      pool_.For(kGradientSums, [&](int64_t slot, int worker) {
        for (int64_t task = slot; task < tasks; task += kGradientSums) {
          const int64_t h = output * heads_per_output + task / GroupsPerHead();
          const int64_t first = task % GroupsPerHead() * group_;
          const int64_t count = std::min(group_, sizes_.e - first);
          T* g = columns_.data() + worker * ColumnsPerThread() * size;
          T* v = g + group_ * size;
          Gather(grad.Head(h) + first, sizes_.n_q, count, g);
          Gather(values.Head(h) + first, sizes_.n_k, count, v);
          for (int64_t c = 0; c < count; ++c)
            fft_.AddProduct(g + c * size, v + c * size,
                            sums_.data() + slot * size);
          Finish(Spectrum(h), true, sizes_.n_k, count, g,
                 grad_values.Head(h) + first);
        }
      });
      T* sum = sums_.data();
      for (int64_t slot = 1; slot < kGradientSums; ++slot)
        for (int64_t k = 0; k < size; ++k) sum[k] += sum[slot * size + k];
      fft_.Backward(sum);
      WriteWeightGradient(sum, grad_weights.Head(output));
    }
  }

  void WriteWeightGradient(const T* sum, T* weights) const {
    for (int64_t m = 0; m < sizes_.n_q; ++m)
      weights[sizes_.n_q - 1 - m] = sum[m];
    for (int64_t offset = 1; offset < sizes_.n_k; ++offset)
      weights[sizes_.n_q - 1 + offset] =
          sizes_.causal ? T{0} : sum[length_ - offset];
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const int64_t length_;
  const CirculantFft<T> fft_;
  const int64_t group_;
  Buffer<T> spectra_, columns_, sums_;
};

template <typename T>
class FftColumns : public Prepared {
 public:
  FftColumns(const Problem& problem, const Arrays& arrays,
             const PrepareOptions& options)
      : sizes_(problem),
        backward_(problem.backward),
        arrays_(arrays),
        pool_(options.threads),
        columns_(sizes_.n_q, sizes_.n_k),
        block_(columns_.BlockColumns()),
        spectrum_size_(static_cast<int64_t>(columns_.SpectrumSize())),
        scratch_size_(ScratchNumbers(columns_, backward_)),
        spectra_(Fft<T>::SpectraCount(problem) * spectrum_size_),
        scratch_(pool_.threads() * scratch_size_),
        sums_(backward_ ? kGradientSums * spectrum_size_ : 0) {}

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const int64_t spectra = spectra_.size() / spectrum_size_;
    pool_.For(spectra, [&](int64_t h, int worker) {
      columns_.Spectrum(weights.Head(h), sizes_.causal, Spectrum(h),
                        Scratch(worker));
    });
    backward_ ? RunBackward(spectra) : RunForward();
  }

  static Cost CostOf(const Problem& problem, int threads) {
    const Sizes sizes(problem);
    const ToeplitzColumns<T> columns(sizes.n_q, sizes.n_k);
    const int64_t block = columns.BlockColumns();
    const double blocks =
        static_cast<double>(sizes.heads * ((sizes.e + block - 1) / block));
    const double spectra = static_cast<double>(Fft<T>::SpectraCount(problem));
    const double numbers = (spectra + (problem.backward ? kGradientSums : 0)) *
                               static_cast<double>(columns.SpectrumSize()) +
                           threads * static_cast<double>(ScratchNumbers(
                                         columns, problem.backward));
    return {
        .flops = (problem.backward ? 2.5 : 1) * blocks * columns.BlockFlops(),
        .bytes = TensorBytes(problem),
        .workspace_bytes =
            numbers * sizeof(T) + static_cast<double>(columns.PlanBytes())};
  }

 private:
  static int64_t ScratchNumbers(const ToeplitzColumns<T>& columns,
                                bool backward) {
    return WholeLines<T>(static_cast<int64_t>(
        backward ? columns.GradientScratchSize() : columns.ScratchSize()));
  }
  T* Spectrum(int64_t head) const {
    const bool shared = spectra_.size() == spectrum_size_;
    return spectra_.data() + (shared ? 0 : head * spectrum_size_);
  }
  T* Scratch(int worker) const {
    return scratch_.data() + worker * scratch_size_;
  }
  int64_t BlocksPerHead() const { return (sizes_.e + block_ - 1) / block_; }

  void RunForward() {
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads * BlocksPerHead(), [&](int64_t task, int worker) {
      const int64_t h = task / BlocksPerHead();
      const int64_t first = task % BlocksPerHead() * block_;
      columns_.Apply(Spectrum(h), values.Head(h) + first, sizes_.e,
                     std::min(block_, sizes_.e - first), out.Head(h) + first,
                     sizes_.e, false, Scratch(worker));
    });
  }

  void RunBackward(int64_t outputs) {
    const auto values = arrays_.In<T>("values");
    const auto grad = arrays_.In<T>("grad");
    const auto grad_values = arrays_.Out<T>("grad_values");
    const auto grad_weights = arrays_.Out<T>("grad_weights");
    const int64_t heads_per_output = sizes_.heads / outputs;
    const int64_t tasks = heads_per_output * BlocksPerHead();
    for (int64_t output = 0; output < outputs; ++output) {
      std::fill_n(sums_.data(), sums_.size(), T{0});
      pool_.For(kGradientSums, [&](int64_t slot, int worker) {
        for (int64_t task = slot; task < tasks; task += kGradientSums) {
          const int64_t h = output * heads_per_output + task / BlocksPerHead();
          const int64_t first = task % BlocksPerHead() * block_;
          const int64_t count = std::min(block_, sizes_.e - first);
          const T* g = grad.Head(h) + first;
          columns_.AccumulateWeightGradient(
              g, sizes_.e, values.Head(h) + first, sizes_.e, count,
              sums_.data() + slot * spectrum_size_, Scratch(worker));
          columns_.ApplyTransposed(Spectrum(h), g, sizes_.e, count,
                                   grad_values.Head(h) + first, sizes_.e, false,
                                   Scratch(worker));
        }
      });
      T* sum = sums_.data();
      for (int64_t slot = 1; slot < kGradientSums; ++slot)
        for (int64_t k = 0; k < spectrum_size_; ++k)
          sum[k] += sum[slot * spectrum_size_ + k];
      columns_.WeightGradient(sum, sizes_.causal, grad_weights.Head(output),
                              Scratch(0));
    }
  }

  const Sizes sizes_;
  const bool backward_;
  const Arrays arrays_;
  ThreadPool pool_;
  const ToeplitzColumns<T> columns_;
  const int64_t block_, spectrum_size_, scratch_size_;
  Buffer<T> spectra_, scratch_, sums_;
};

// What fft_columns runs on a few rows.
template <typename T>
class FewRows : public Prepared {
 public:
  FewRows(const Problem& problem, const Arrays& arrays,
          const PrepareOptions& options)
      : sizes_(problem),
        arrays_(arrays),
        pool_(options.threads),
        product_(sizes_.n_q, sizes_.n_k, sizes_.e, sizes_.causal),
        work_size_(WorkSize(sizes_)),
        work_(pool_.threads() * work_size_) {}

  static bool Serves(const Problem& problem) {
    return !problem.backward &&
           DirectToeplitz<T>::Serves(problem.Dim("n_q"), problem.Dim("n_k"));
  }
  static Cost CostOf(const Problem& problem, int threads) {
    const Sizes sizes(problem);
    const DirectToeplitz<T> product(sizes.n_q, sizes.n_k, sizes.e,
                                    sizes.causal);
    return {.flops = static_cast<double>(sizes.heads) * product.Flops(),
            .bytes = TensorBytes(problem),
            .workspace_bytes =
                static_cast<double>(threads * WorkSize(sizes)) * sizeof(T)};
  }

  void Run() override {
    const auto weights = arrays_.In<T>("weights");
    const auto values = arrays_.In<T>("values");
    const auto out = arrays_.Out<T>("out");
    pool_.For(sizes_.heads, [&](int64_t h, int worker) {
      product_.Apply(weights.Head(h), values.Head(h), out.Head(h),
                     work_.data() + worker * work_size_);
    });
  }

 private:
  static int64_t WorkSize(const Sizes& sizes) {
    return WholeLines<T>(DirectToeplitz<T>::WorkSize(sizes.n_q, sizes.n_k));
  }

  const Sizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  const DirectToeplitz<T> product_;
  const int64_t work_size_;
  Buffer<T> work_;
};

template <typename T>
std::unique_ptr<Prepared> PrepareColumns(const Problem& problem,
                                         const Arrays& arrays, Layout& layout) {
  const PrepareOptions& options = layout.options();
  if (FewRows<T>::Serves(problem))
    return std::make_unique<FewRows<T>>(problem, arrays, options);
  return std::make_unique<FftColumns<T>>(problem, arrays, options);
}

template <typename T>
Cost CostOfColumns(const Problem& problem, int threads) {
  return FewRows<T>::Serves(problem) ? FewRows<T>::CostOf(problem, threads)
                                     : FftColumns<T>::CostOf(problem, threads);
}

Cost FftCost(const Problem& problem, int threads) {
  const Sizes sizes(problem);
  const auto lengths = FftLengths(sizes);
  const double bytes = static_cast<double>(Info(problem.scalar).bytes);
  const double transforms =
      static_cast<double>(sizes.heads * sizes.e * (problem.backward ? 3 : 2) +
                          Fft<float>::SpectraCount(problem));
  const double columns =
      static_cast<double>(Fft<float>::SpectraCount(problem)) +
      threads * (static_cast<double>(std::min(kColumnGroup, sizes.e)) *
                 (problem.backward ? 2 : 1)) +
      (problem.backward ? kGradientSums : 0);
  return {
      .flops = transforms * CirculantFft<float>::TransformFlops(lengths),
      .bytes = TensorBytes(problem),
      .workspace_bytes =
          bytes * (CirculantFft<float>::PlanNumbers(lengths) +
                   columns * static_cast<double>(
                                 CirculantFft<float>::ColumnSize(lengths)))};
}

// The error of an FFT is relative to the largest numbers that it mixes. Each of
// the three transforms of length L has a relative error in the 2-norm of
// O(log2 L) u (Higham 2002, section 24.1), and by Cauchy-Schwarz an entry of
// the product of two spectra, transformed back, is at most |w|_2 |v|_2 times
// that. The errors of the stages are independent enough for their sum to stay
// under 2 log2(L) u.
constexpr double kFftConstant = 2;

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  const Sizes sizes(problem);
  const double factor =
      kFftConstant *
      std::max(1.0, CirculantFft<float>::LogLength(FftLengths(sizes)));
  const Tensor& weights = inputs["weights"];
  std::vector<double> weight_norms;
  for (int64_t h = 0; h < sizes.heads; ++h)
    // The mask leaves offsets of at most 0: the first n_q entries.
    weight_norms.push_back(
        Norm(weights.Head(h), sizes.causal ? sizes.n_q : sizes.weights(), 1));
  const auto value_norms =
      ColumnNorms(inputs["values"], sizes.heads, sizes.n_k, sizes.e);
  if (!problem.backward)
    return [=](const RowId& id, std::span<double> units) {
      for (int64_t c = 0; c < sizes.e; ++c)
        units[c] =
            factor * weight_norms[id.head] * value_norms[id.head * sizes.e + c];
    };
  const auto grad_norms =
      ColumnNorms(inputs["grad"], sizes.heads, sizes.n_q, sizes.e);
  const bool shared = weights.head_stride == 0;
  return [=](const RowId& id, std::span<double> units) {
    if (id.output == 0) {
      for (int64_t c = 0; c < sizes.e; ++c)
        units[c] =
            factor * weight_norms[id.head] * grad_norms[id.head * sizes.e + c];
      return;
    }
    // A sum over columns: their errors add up, and the sum of `columns`
    // products adds its own.
    double sum = 0;
    const int64_t first = shared ? 0 : id.head * sizes.e;
    const int64_t last = shared ? sizes.heads * sizes.e : first + sizes.e;
    for (int64_t c = first; c < last; ++c)
      sum += grad_norms[c] * value_norms[c];
    units[0] = factor * sum;
  };
}

Sums SumsOfColumns(const Problem& problem) {
  const bool few_rows = problem.scalar == Scalar::kFloat64
                            ? FewRows<double>::Serves(problem)
                            : FewRows<float>::Serves(problem);
  return few_rows ? Sums::kDirect : Sums::kMixed;
}

}  // namespace

std::vector<Implementation> Toeplitz1dImplementations() {
  return CpuTable(
      "toeplitz_1d",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .backward = true,
        .cost =
            [](const Problem& problem, int) {
              const Sizes sizes(problem);
              return MaterializedCost(problem, static_cast<double>(sizes.n_q),
                                      static_cast<double>(sizes.n_k));
            },
        .prepare = PrepareFor<Dense<float>, Dense<double>>},
       {.id = "fft",
        .what = "circulant embedding, FFTW on 16 contiguous columns at a time",
        .sums = MixedSums,
        .backward = true,
        .cost = FftCost,
        .norm_bound = FftBound,
        .prepare = PrepareFor<Fft<float>, Fft<double>>},
       {.id = "fft_columns",
        .what = "right-angle convolution, our FFT with the columns in SIMD "
                "lanes; up to 32 rows the direct product",
        .source = "FastRPB proposition 3.1; Bernstein, multidigit "
                  "multiplication",
        .time = {"O(e n log n)", "n log n"},
        .memory = {"O(n) per block of columns", "n"},
        .sums = SumsOfColumns,
        .backward = true,
        .cost =
            [](const Problem& problem, int threads) {
              return problem.scalar == Scalar::kFloat64
                         ? CostOfColumns<double>(problem, threads)
                         : CostOfColumns<float>(problem, threads);
            },
        .norm_bound = FftBound,
        .prepare =
            [](const Problem& problem, const Arrays& arrays, Layout& layout) {
              return problem.scalar == Scalar::kFloat64
                         ? PrepareColumns<double>(problem, arrays, layout)
                         : PrepareColumns<float>(problem, arrays, layout);
            }}});
}

}  // namespace subquad
