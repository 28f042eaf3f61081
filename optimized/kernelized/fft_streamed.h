// Kernelized attention with a relative bias by Toeplitz products (NPRF
// algorithm 1): every product of a key feature and a value column is a channel,
// and the bias mixes each channel along the sequence.
#pragma once

#include <optional>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/kernelized/columns.h"
#include "optimized/toeplitz/fft_columns.h"
#include "optimized/toeplitz/image_sequence.h"

namespace subquad {

// Computes out[i, :] = sum_j c(j - i) in[j, :] for blocks of columns, c =
// exp(bias) relative to its largest visible entry, zero where masked. W is the
// type of the transforms.
template <typename W>
class LagProduct {
 public:
  LagProduct(const KernelizedShape& shape, Layout& layout);

  // Widths of a block and of its rows, as in ToeplitzColumns.
  static constexpr int64_t kBlockColumns = ToeplitzColumns<W>::kBlockColumns;
  static int64_t BlockWidth(int64_t columns) {
    return ToeplitzColumns<W>::BlockWidth(columns);
  }
  int64_t SpectrumSize() const { return product_.SpectrumSize(); }
  int64_t ScratchSize() const;
  double Flops(int64_t columns) const { return product_.Flops(columns); }

  // Returns the 2-norm of c; `scale` as in BiasWeights.
  template <typename T>
  double Spectrum(const T* bias, W* spectrum, W* scratch,
                  SumScale* scale) const;

  // Processes a block of `columns`: calls fill(row, count, rows) for rows of
  // the first `keys` tokens (on an image all of them), and take(row, count,
  // rows), as in fft_columns.h.
  template <typename Fill, typename Take>
  void Run(const W* spectrum, int64_t keys, int64_t columns, Fill& fill,
           Take& take, W* scratch) const;

 private:
  const KernelizedShape shape_;
  const std::optional<ImageSequence> image_;
  const ToeplitzColumns<W> product_;
};

// Computes c = exp(bias) relative to its largest entry that some query sees;
// zero where causality hides it. Returns the 2-norm, and in `scale` the divisor
// of exp.
template <typename T, typename W>
double BiasWeights(const KernelizedShape& shape, const T* bias, W* weights,
                   SumScale* scale);

// Computes algorithm 1 a block of channels at a time.
template <typename T, typename W>
class StreamedFft {
 public:
  StreamedFft(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  static constexpr int64_t kBlockColumns = LagProduct<W>::kBlockColumns;

  // Values and sums in rows of a block's width.
  struct Work {
    Work(Cut<W>& cut, const KernelizedShape& shape,
         const LagProduct<W>& product)
        : values(cut(WholeLines<W>(shape.n_k * Width(shape.e)))),
          sums(cut(WholeLines<W>(shape.n_q * Width(shape.e)))),
          scratch(cut(product.ScratchSize())) {}
    static int64_t Width(int64_t columns) {
      return LagProduct<W>::BlockWidth(std::min(columns, kBlockColumns));
    }
    W *values, *sums, *scratch;
  };
  Work WorkOf(int worker) const {
    return Cut<W>::template Make<Work>(work_[worker], shape_, product_);
  }
  void Normalisers(const HeadTensors<T>& head, const Work& work) const;
  void Numerators(const HeadTensors<T>& head, int64_t first,
                  const Work& work) const;

  const KernelizedShape shape_;
  const LagProduct<W> product_;
  FeatureColumns<T> features_;
  LostRows<T> lost_;
  Buffer<W> normalisers_, spectrum_;
  PerThread<W> work_;
};

}  // namespace subquad
