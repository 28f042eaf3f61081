// The parts that the CPU algorithms of kernelized attention share: tensors by
// head, and the wrapper that turns an algorithm into a Prepared.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/kernelized/feature_rows.h"
#include "reference/contract/kernelized.h"

namespace subquad {

// The tensors of one head. omega and bias are null if absent.
template <typename T>
struct HeadTensors {
  const T* q;
  const T* k;
  const T* v;
  const T* omega;
  const T* bias;
  T* out;
  int64_t index;  // of the head
  int64_t keys;   // without padding
};

template <typename T>
std::vector<HeadTensors<T>> TensorsByHead(const Problem& problem,
                                          const Arrays& arrays) {
  const auto array_of = [&](const std::string& name, int64_t head) {
    return problem.HasInput(name) ? arrays.In<T>(name).Head(head) : nullptr;
  };
  const SeenKeys seen(problem);
  std::vector<HeadTensors<T>> heads;
  for (int64_t h = 0; h < problem.heads; ++h)
    heads.push_back({array_of("q", h), array_of("k", h), array_of("v", h),
                     array_of("omega", h), array_of("bias", h),
                     arrays.Out<T>("out").Head(h), h, seen.Of(h)});
  return heads;
}

// The number mantissa 2^exponent, which may be beyond the range of any type.
struct SumScale {
  double mantissa = 1;
  int exponent = 0;
};

// Returns exp of the common bias that CommonBias subtracts from every entry.
// Beyond the limits there are only zeros and infinities.
template <typename T>
SumScale CommonWeight(const T* bias, int64_t count) {
  // ln 2 in two parts, the first with so few bits that its products are exact.
  constexpr double kHigh = 0x1.62e42p-1;
  constexpr double kLow =
      static_cast<double>(std::numbers::ln2_v<long double> - kHigh);
  const double common =
      std::clamp(static_cast<double>(CommonBias(bias, count)), -1e8, 1e8);
  const double steps = std::nearbyint(common * std::numbers::log2e);
  return {std::exp((common - steps * kHigh) - steps * kLow),
          static_cast<int>(steps)};
}

// Returns 2^top common: the factor from an implementation's sums of weights to
// the true ones, except for the features' constants.
inline SumScale ScaleOfSums(double top, SumScale common = {}) {
  return {common.mantissa,
          static_cast<int>(std::clamp(top, -1e8, 1e8)) + common.exponent};
}

// Writes an output row from its sums of weights times values [e] and of
// weights. Empty sums are a row of zeros, whatever the normaliser is.
template <typename T, typename Sum>
void WriteRow(const Normaliser& form, const Sum* sums, Sum total,
              const SumScale& scale, int64_t e, T* out) {
  if (!form.normalized) {
    const double factor = form.constant * scale.mantissa;
    for (int64_t c = 0; c < e; ++c)
      out[c] = static_cast<T>(
          std::ldexp(static_cast<double>(sums[c]) * factor, scale.exponent));
    return;
  }
  if (form.eps > 0) {
    // Computes relative to eps if that is above the scale: it may be larger by
    // more than the type's range.
    const double eps = form.epsilon() / scale.mantissa;
    const int over = std::max(0, std::ilogb(eps) - scale.exponent);
    total = std::ldexp(total, -over) +
            static_cast<Sum>(std::ldexp(eps, -scale.exponent - over));
    if (over > 0) {
      for (int64_t c = 0; c < e; ++c)
        out[c] = static_cast<T>(std::ldexp(sums[c], -over) / total);
      return;
    }
  }
  if (total == 0) return void(std::fill_n(out, e, T{0}));
  for (int64_t c = 0; c < e; ++c) out[c] = static_cast<T>(sums[c] / total);
}

// Extends values by a column of ones for the normaliser, and by zeros up to
// whole vectors. Numerator and normaliser then go through the same additions in
// the same order, and common rounding errors cancel in their quotient: equal
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

// Makes an Implementation's `prepare` for such an algorithm.
template <template <typename> typename Algorithm>
std::unique_ptr<Prepared> PrepareKernelized(const Problem& problem,
                                            const Arrays& arrays,
                                            Layout& layout) {
  return ForScalar(problem, [&]<typename T>() -> std::unique_ptr<Prepared> {
    return std::make_unique<KernelizedPrepared<T, Algorithm>>(problem, arrays,
                                                              layout);
  });
}

}  // namespace subquad
