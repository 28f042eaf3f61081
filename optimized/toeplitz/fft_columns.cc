// Plans of fft_columns.h: length, radices, twiddles. The passes are in
// fft_columns_kernels-inl.h.

#include "optimized/toeplitz/fft_columns.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

#include "optimized/toeplitz/fft_columns_kernels-inl.h"

namespace subquad {
namespace fft_columns {

// Computes exp(2 pi i p / order) from two short tables in extended precision:
// the product of two entries is accurate to a few units of long double, so
// rounding it to T is as good as a direct sine for all but ties.
class Roots {
 public:
  explicit Roots(int64_t order) : order_(order) {
    step_ = 1;
    while (step_ * step_ < order) step_ *= 2;
    for (int64_t p = 0; p < step_; ++p) fine_.push_back(Exact(p));
    for (int64_t p = 0; p < order; p += step_) coarse_.push_back(Exact(p));
  }

  template <typename T>
  void Append(int64_t power, std::vector<T>& table) const {
    power %= order_;
    if (power < 0) power += order_;
    const auto& [a, b] = coarse_[power / step_];
    const auto& [c, d] = fine_[power % step_];
    table.push_back(static_cast<T>(a * c - b * d));
    table.push_back(static_cast<T>(a * d + b * c));
  }

 private:
  using Pair = std::pair<long double, long double>;

  // Reduces to the first octant, so that symmetric roots agree bit for bit.
  Pair Exact(int64_t p) const {
    const int64_t octant = 8 * p / order_;
    const auto angle = [this](int64_t eighths) {
      return std::numbers::pi_v<long double> * eighths / (4.0L * order_);
    };
    const int64_t rest = 8 * p - octant * order_;
    const int64_t a = octant % 2 == 0 ? rest : order_ - rest;
    long double x = std::cos(angle(a)), y = std::sin(angle(a));
    if (octant % 4 == 1 || octant % 4 == 2) std::swap(x, y);
    if (octant >= 2 && octant < 6) x = -x;
    if (octant >= 4) y = -y;
    return {x, y};
  }

  int64_t order_;
  int64_t step_;
  std::vector<Pair> fine_, coarse_;
};

// Counts vector operations of one row through one radix, forward and backward.
double CostOfRadix(int radix) {
  switch (radix) {
    case 8:
      return 2 * 72 / 8.0;
    case 5:
      return 2 * 56 / 5.0;
    case 4:
      return 2 * 24 / 4.0;
    default:
      return 2 * 18 / 3.0;
  }
}

// Chooses the radices of one length: a 4 or 8 at the top (real rows) and at the
// bottom (the fused product), the others between.
std::vector<int> Factor(int64_t length) {
  int twos = 0;
  std::vector<int> middle;
  for (; length % 2 == 0; length /= 2) ++twos;
  for (; length % 5 == 0; length /= 5) middle.push_back(5);
  for (; length % 3 == 0; length /= 3) middle.push_back(3);
  if (length != 1 || twos < 4) return {};
  // Solves twos = 3 * eights + 2 * fours with the fewest fours.
  int fours = (3 - twos % 3) % 3;
  int eights = (twos - 2 * fours) / 3;
  const auto take = [&] {
    if (eights > 0) return --eights, 8;
    return --fours, 4;
  };
  const int bottom = take();
  const int top = take();
  while (eights + fours > 0) middle.push_back(take());
  // Puts eights where rows come from far; fours innermost, where a node should
  // be a multiple of a vector for the sake of Spectrum.
  const auto rank = [](int radix) { return radix == 4 ? 0 : radix; };
  std::sort(middle.begin(), middle.end(),
            [&](int a, int b) { return rank(a) > rank(b); });
  std::vector<int> radices = {top};
  radices.insert(radices.end(), middle.begin(), middle.end());
  radices.push_back(bottom);
  return radices;
}

// Returns the cheapest length >= rows among 16 2^a 3^b 5^c.
int64_t ChooseLength(int64_t rows) {
  int64_t best = 0;
  double best_cost = 0;
  for (int64_t five = 16; five < 32 * rows; five *= 5)
    for (int64_t three = five; three < 32 * rows; three *= 3)
      for (int64_t length = three; length < 32 * rows; length *= 2) {
        if (length < rows) continue;
        double cost = 8;  // cost of the product, loads and stores
        for (int radix : Factor(length)) cost += CostOfRadix(radix);
        cost *= static_cast<double>(length);
        if (best == 0 || cost < best_cost) best = length, best_cost = cost;
        break;
      }
  return best;
}

template <typename T>
Plan<T> MakePlan(int64_t length) {
  Plan<T> plan;
  plan.length = length;
  const int64_t order = 4 * length;
  const Roots roots(order);
  std::vector<int64_t> frequency = {0};  // for every node of a level
  int64_t blocks = 1;
  for (int radix : Factor(length)) {
    Level<T> level;
    level.radix = radix;
    level.blocks = blocks;
    level.rows = length / (blocks * radix);
    level.constants = radix == 8 || radix == 5 ? 8 : 4;
    // Appends powers of omega in the order that the butterfly expects.
    const auto append = [&](int64_t omega, int sign, std::vector<T>& table) {
      if (radix == 8) {
        for (int power : {4, 2, 1}) roots.Append(power * omega, table);
        roots.Append(omega + sign * order / 8, table);
      } else if (radix == 4) {
        for (int power : {2, 1}) roots.Append(power * omega, table);
      } else {
        for (int power = 1; power < radix; ++power)
          roots.Append(power * omega, table);
      }
    };
    // Node b is X^L - exp(2 pi i (frequency + 1/4) / blocks); omega is the
    // radix-th root of that constant.
    level.forward.reserve(blocks * level.constants);
    for (int64_t f : frequency)
      append((4 * f + 1) * level.rows, 1, level.forward);
    level.backward.reserve(level.rows * level.constants);
    for (int64_t k = 0; k < level.rows; ++k)
      append(-4 * blocks * k, -1, level.backward);
    std::vector<int64_t> next;
    next.reserve(frequency.size() * radix);
    for (int64_t f : frequency)
      for (int j = 0; j < radix; ++j) next.push_back(f + blocks * j);
    frequency = std::move(next);
    blocks *= radix;
    plan.levels.push_back(std::move(level));
  }
  const Level<T>& top = plan.levels[0];
  plan.twist.reserve(2 * length);
  for (int64_t k = 0; k < top.rows; ++k)
    for (int j = 0; j < top.radix; ++j)
      roots.Append(-(k + j * top.rows), plan.twist);
  return plan;
}

}  // namespace fft_columns

template <typename T>
ToeplitzColumns<T>::ToeplitzColumns(int64_t n_q, int64_t n_k)
    : n_q_(n_q), n_k_(n_k) {
  if (n_q < 1 || n_k < 1)
    throw std::invalid_argument(
        "ToeplitzColumns: n_q and n_k must be at least 1, found " +
        std::to_string(n_q) + " and " + std::to_string(n_k));
  plan_ = fft_columns::MakePlan<T>(LengthFor(n_q, n_k));
}

template <typename T>
int64_t ToeplitzColumns<T>::LengthFor(int64_t n_q, int64_t n_k) {
  return fft_columns::ChooseLength(std::max(n_q, n_k));
}

template <typename T>
int64_t ToeplitzColumns<T>::BlockWidth(int64_t columns) {
  return fft_columns::WidthFor<T>(columns);
}

template <typename T>
int64_t ToeplitzColumns<T>::ScratchSize(int64_t columns) const {
  const int64_t width = BlockWidth(columns);
  return fft_columns::WorkspaceSize(plan_, width) +
         width * plan_.levels[0].radix * fft_columns::kTileRows;
}

template <typename T>
int64_t ToeplitzColumns<T>::GradientScratchSize(int64_t columns) const {
  return ScratchSize(columns) +
         fft_columns::WorkspaceSize(plan_, BlockWidth(columns));
}

template <typename T>
double ToeplitzColumns<T>::PlanBytes() const {
  size_t scalars = plan_.twist.size();
  for (const auto& level : plan_.levels)
    scalars += level.forward.size() + level.backward.size();
  return static_cast<double>(scalars * sizeof(T));
}

template <typename T>
double ToeplitzColumns<T>::Flops(int64_t columns) const {
  const double n = static_cast<double>(plan_.length);
  const int64_t rest = columns % kBlockColumns;
  const int64_t computed = columns - rest + (rest > 0 ? BlockWidth(rest) : 0);
  return static_cast<double>(computed) * (10 * n * std::log2(n) + 6 * n);
}

template <typename T>
void ToeplitzColumns<T>::Spectrum(const T* weights, int64_t visible,
                                  T* spectrum, T* scratch) const {
  // Fills in U modulo X^N - i: row k holds w(N - k) + i w(-k), divided by N
  // here so that the backward transform need not.
  const int64_t length = plan_.length;
  const T size = static_cast<T>(length);
  const T* center = weights + n_q_ - 1;  // the weight of offset 0
  const int64_t last = visible - n_q_;
  std::fill(spectrum, spectrum + 2 * length, T{0});
  for (int64_t k = 0; k < n_q_; ++k) spectrum[2 * k + 1] = center[-k] / size;
  for (int64_t offset = 1; offset <= last; ++offset)
    spectrum[2 * (length - offset)] = center[offset] / size;
  fft_columns::Transform(plan_, false, spectrum, scratch);
}

template <typename T>
void ToeplitzColumns<T>::Apply(const T* spectrum, const T* values,
                               int64_t value_stride, int64_t keys,
                               int64_t columns, T* out, int64_t out_stride,
                               bool accumulate, T* scratch) const {
  fft_columns::ProductColumns(plan_, spectrum, false, keys, values,
                              value_stride, columns, n_q_, out, out_stride,
                              accumulate, scratch);
}

template <typename T>
void ToeplitzColumns<T>::Apply(const T* spectrum, const RowSource<T>& values,
                               int64_t keys, int64_t columns,
                               const RowSink<T>& out, T* scratch) const {
  fft_columns::Product(plan_, spectrum, false, BlockWidth(columns), keys,
                       values, n_q_, out, scratch);
}

template <typename T>
void ToeplitzColumns<T>::ApplyTransposed(const T* spectrum, const T* grad,
                                         int64_t grad_stride, int64_t columns,
                                         T* out, int64_t out_stride,
                                         int64_t keys, bool accumulate,
                                         T* scratch) const {
  fft_columns::ProductColumns(plan_, spectrum, true, n_q_, grad, grad_stride,
                              columns, keys, out, out_stride, accumulate,
                              scratch);
}

template <typename T>
void ToeplitzColumns<T>::ApplyTransposed(const T* spectrum,
                                         const RowSource<T>& grad,
                                         int64_t columns, const RowSink<T>& out,
                                         int64_t keys, T* scratch) const {
  fft_columns::Product(plan_, spectrum, true, BlockWidth(columns), n_q_, grad,
                       keys, out, scratch);
}

template <typename T>
void ToeplitzColumns<T>::AccumulateWeightGradient(
    const T* grad, int64_t grad_stride, const T* values, int64_t value_stride,
    int64_t keys, int64_t columns, T* sum, T* scratch) const {
  fft_columns::AccumulateProductsOfColumns(plan_, n_q_, grad, grad_stride, keys,
                                           values, value_stride, columns, sum,
                                           scratch);
}

template <typename T>
void ToeplitzColumns<T>::AccumulateWeightGradient(const RowSource<T>& grad,
                                                  const RowSource<T>& values,
                                                  int64_t keys, int64_t columns,
                                                  T* sum, T* scratch) const {
  fft_columns::AccumulateProducts(plan_, BlockWidth(columns), n_q_, grad, keys,
                                  values, sum, scratch);
}

template <typename T>
void ToeplitzColumns<T>::WeightGradient(const T* sum, int64_t visible,
                                        T* grad_weights, T* scratch) const {
  // The polynomial conj(V) G is sum_s grad_weights(-s) X^s modulo X^2N + 1: s
  // >= 0 in the real part of row s, s < 0 negated in the imaginary part of row
  // N + s.
  const int64_t length = plan_.length;
  const auto& top = plan_.levels[0];
  T* sequence = scratch + ScratchSize(1);
  std::copy_n(sum, 2 * length, sequence);
  fft_columns::Transform(plan_, true, sequence, scratch);
  std::fill(grad_weights, grad_weights + n_q_ + n_k_ - 1, T{0});
  for (int64_t k = 0; k < length; ++k) {
    const T* twist =
        &plan_.twist[2 * (k % top.rows * top.radix + k / top.rows)];
    const T re = sequence[2 * k], im = sequence[2 * k + 1];
    if (k < n_q_)
      grad_weights[n_q_ - 1 - k] = (twist[0] * re - twist[1] * im) / length;
    if (k >= length - (visible - n_q_))
      grad_weights[n_q_ - 1 + length - k] =
          -(twist[0] * im + twist[1] * re) / length;
  }
}

template class ToeplitzColumns<float>;
template class ToeplitzColumns<double>;

}  // namespace subquad
