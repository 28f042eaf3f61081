// The parts that the CPU algorithms of kernelized attention share: tensors by
// head, and the wrapper that turns an algorithm into a Prepared.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/kernelized/feature_rows.h"
#include "reference/contract/kernelized.h"
#include "reference/contract/pair_places.h"
#include "reference/contract/sequence_problems.h"

namespace subquad {

// The tensors of one head, or of one of its packed sequences. omega, bias and
// mask are null if absent.
template <typename T>
struct HeadTensors {
  const T* q;
  const T* k;
  const T* v;
  const T* omega;
  const T* bias;
  const T* mask;
  PairPlaces in_mask;
  T* out;
  int64_t index;  // of the head
  int64_t keys;   // without padding

  // True if the mask hides a key from some queries and not from others.
  bool has_pair_mask() const { return mask && in_mask.query > 0; }
  bool Hides(int64_t i, int64_t j) const {
    return mask && mask[in_mask.At(i, j)] == 0;
  }
  // Replaces the features [count, f] of keys from `first` on by zeros where the
  // mask hides them from all queries.
  void HideKeys(int64_t first, int64_t count, int64_t f, T* mantissa,
                T* exponent = nullptr) const {
    if (!mask || has_pair_mask()) return;
    for (int64_t t = 0; t < count; ++t) {
      if (!Hides(0, first + t)) continue;
      std::fill_n(mantissa + t * f, f, T{0});
      if (exponent) std::fill_n(exponent + t * f, f, kNoExponent<T>);
    }
  }
};

template <typename T>
std::vector<HeadTensors<T>> TensorsByHead(const Problem& problem,
                                          const Arrays& arrays,
                                          const SequenceProblem& sequence) {
  // Null while a layout counts.
  const auto part = [&](const std::string& name, int64_t head,
                        int64_t first) -> const T* {
    if (!problem.HasInput(name)) return nullptr;
    const T* whole = arrays.In<T>(name).Head(head);
    return whole ? whole + first : nullptr;
  };
  const int64_t d = problem.Dim("d"), e = problem.Dim("e");
  const int64_t query = sequence.first_query, key = sequence.first_key;
  PairPlaces places =
      problem.HasInput("mask") ? PairPlaces::Of(problem, "mask") : PairPlaces{};
  const int64_t first_pair = places.At(query, key);
  // One query sees what its mask of keys shows.
  if (sequence.problem.queries == 1) places.query = 0;
  const SeenKeys seen(sequence.problem);
  std::vector<HeadTensors<T>> heads;
  for (int64_t h = 0; h < problem.heads; ++h) {
    T* out = arrays.Out<T>("out").Head(h);
    heads.push_back({part("q", h, query * d), part("k", h, key * d),
                     part("v", h, key * e), part("omega", h, 0),
                     part("bias", h, sequence.first_bias),
                     part("mask", h, first_pair), places,
                     out ? out + query * e : nullptr, h, seen.Of(h)});
  }
  return heads;
}

// The number mantissa 2^exponent, which may be beyond the range of any type.
struct SumScale {
  double mantissa = 1;
  int exponent = 0;
};

// Returns exp of the common bias that CommonBias subtracts from every entry.
// Beyond the limits there are only zeros and infinities. One without a bias.
template <typename T>
SumScale CommonWeight(const T* bias, int64_t count) {
  if (!bias) return {};
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
// of a run, and Run(pool, heads). Packed sequences of the same sizes share one,
// to which they are further heads.
template <typename T, template <typename> typename Algorithm>
class KernelizedPrepared : public Prepared {
 public:
  KernelizedPrepared(const Problem& problem, const Arrays& arrays,
                     Layout& layout)
      : arrays_(arrays),
        pool_(layout),
        is_packed_(problem.params.Has("packed_q")) {
    for (const SequenceProblem& one : SequenceProblemsOf(problem)) {
      Group& group = GroupOf(KernelizedShape(one.problem), layout);
      ++group.sequences;
      std::ranges::move(TensorsByHead<T>(problem, arrays, one),
                        std::back_inserter(group.heads));
    }
  }

  void Run() override {
    // Rows of sequences without keys are zero.
    if (is_packed_) ClearOutput();
    for (const auto& group : groups_) group->algorithm.Run(pool_, group->heads);
  }

  double Flops() const override {
    double flops = 0;
    for (const auto& group : groups_)
      flops += static_cast<double>(group->sequences) * group->algorithm.Flops();
    return flops;
  }

  // Describes the choice for the longest sequences.
  std::string Choice() const override {
    if constexpr (requires(const Algorithm<T>& one) { one.Choice(); }) {
      const auto longest = std::ranges::max_element(
          groups_, {}, [](const auto& group) { return group->shape.n_k; });
      return longest == groups_.end() ? "" : (*longest)->algorithm.Choice();
    } else {
      return "";
    }
  }

 private:
  struct Group {
    Group(const KernelizedShape& of, Layout& layout)
        : shape(of), algorithm(of, layout) {}
    const KernelizedShape shape;
    Algorithm<T> algorithm;
    int64_t sequences = 0;
    std::vector<HeadTensors<T>> heads;
  };

  Group& GroupOf(const KernelizedShape& shape, Layout& layout) {
    for (const auto& group : groups_)
      if (group->shape.n_q == shape.n_q && group->shape.n_k == shape.n_k &&
          group->shape.seen.first() == shape.seen.first())
        return *group;
    groups_.push_back(std::make_unique<Group>(shape, layout));
    return *groups_.back();
  }

  void ClearOutput() const {
    const auto& out = arrays_.outputs[0];
    std::fill_n(static_cast<T*>(out.data), out.count, T{0});
  }

  const Arrays arrays_;
  ThreadPool pool_;
  const bool is_packed_;
  std::vector<std::unique_ptr<Group>> groups_;
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
