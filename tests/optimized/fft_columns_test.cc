// fft_columns.h against the definition summed in long double.
//
// Precondition: w, v, g of standard normal draws, rounded to T. Identity: out,
// grad_values and grad_weights are the sums of the definition. One number: the
// 2-norm of a column's error over c u log2(N) ||w||_2 ||v||_2, N the
// transform's length. Derivation of c: a butterfly output carries three
// roundings and one of its twiddle; independent and uniform, with mean square
// u^2 / 3 each, they make 2/sqrt(3) u per binary level, and three transforms of
// log2(N) levels sqrt(3 log2 N) times that: 2 u sqrt(log2 N) <= u log2 N for N
// >= 16. White data spread that evenly over the column. c = 2 is twice the
// mean, so that no draw of a few rows fails by chance; WrongAnswersAreRejected
// shows that it still rejects errors. Data that are not white have the
// element-wise bound of fft_columns_butterflies-inl.h, in HardInputs.

#include "optimized/toeplitz/fft_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/cases/hard_inputs.h"

namespace subquad {
namespace {

constexpr double kConstant = 2.0;

template <typename T>
struct Aligned {
  explicit Aligned(size_t count)
      : data(static_cast<T*>(
                 std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)),
             &std::free) {
    // The previous content of scratch must not matter.
    std::fill_n(data.get(), count, std::numeric_limits<T>::quiet_NaN());
  }
  T* get() const { return data.get(); }
  std::unique_ptr<T, void (*)(void*)> data;
};

template <typename T>
std::vector<T> Normal(int64_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<T> x(count);
  for (T& value : x) value = static_cast<T>(normal(generator));
  return x;
}

struct Size {
  int64_t n_q, n_k, columns;
  bool causal;
  std::string Name() const {
    return "n_q=" + std::to_string(n_q) + " n_k=" + std::to_string(n_k) +
           " columns=" + std::to_string(columns) +
           " causal=" + std::to_string(causal);
  }
};

template <typename T>
struct Problem {
  explicit Problem(const Size& s)
      : size(s),
        weights(Normal<T>(s.n_q + s.n_k - 1, 1)),
        values(Normal<T>(s.n_k * s.columns, 2)),
        grad(Normal<T>(s.n_q * s.columns, 3)) {}
  Size size;
  std::vector<T> weights, values, grad;
};

template <typename T>
struct Answer {
  std::vector<T> out, grad_values, grad_weights;
};

template <typename T>
Answer<long double> Reference(const Problem<T>& p) {
  const auto [n_q, n_k, e, causal] = p.size;
  Answer<long double> a{std::vector<long double>(n_q * e),
                        std::vector<long double>(n_k * e),
                        std::vector<long double>(n_q + n_k - 1)};
  for (int64_t i = 0; i < n_q; ++i)
    for (int64_t j = 0; j < (causal ? std::min(i + 1, n_k) : n_k); ++j) {
      const long double w = p.weights[j - i + n_q - 1];
      long double dot = 0;
      for (int64_t c = 0; c < e; ++c) {
        a.out[i * e + c] += w * p.values[j * e + c];
        a.grad_values[j * e + c] += w * p.grad[i * e + c];
        dot +=
            static_cast<long double>(p.grad[i * e + c]) * p.values[j * e + c];
      }
      a.grad_weights[j - i + n_q - 1] += dot;
    }
  return a;
}

template <typename T>
Answer<T> Fast(const Problem<T>& p) {
  const auto [n_q, n_k, e, causal] = p.size;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Answer<T> a{std::vector<T>(n_q * e, nan), std::vector<T>(n_k * e, nan),
              std::vector<T>(n_q + n_k - 1, nan)};
  const ToeplitzColumns<T> engine(n_q, n_k);
  Aligned<T> scratch(engine.ScratchSize());
  Aligned<T> gradient_scratch(engine.GradientScratchSize());
  std::vector<T> spectrum(engine.SpectrumSize(), nan);
  std::vector<T> sum(engine.SpectrumSize());
  const int64_t visible = causal ? n_q : n_q + n_k - 1;
  engine.Spectrum(p.weights.data(), visible, spectrum.data(), scratch.get());
  for (int64_t c = 0; c < e; c += engine.kBlockColumns) {
    const int64_t columns = std::min(engine.kBlockColumns, e - c);
    engine.Apply(spectrum.data(), &p.values[c], e, n_k, columns, &a.out[c], e,
                 false, scratch.get());
    engine.ApplyTransposed(spectrum.data(), &p.grad[c], e, columns,
                           &a.grad_values[c], e, n_k, false, scratch.get());
    engine.AccumulateWeightGradient(&p.grad[c], e, &p.values[c], e, n_k,
                                    columns, sum.data(),
                                    gradient_scratch.get());
  }
  engine.WeightGradient(sum.data(), visible, a.grad_weights.data(),
                        gradient_scratch.get());
  return a;
}

template <typename T>
double Norm(const std::vector<T>& x, int64_t first = 0, int64_t stride = 1) {
  long double sum = 0;
  for (size_t i = first; i < x.size(); i += stride)
    sum += static_cast<long double>(x[i]) * x[i];
  return std::sqrt(static_cast<double>(sum));
}

// Returns the largest ratio of a column's error to its bound; infinite for NaN.
template <typename T>
double WorstRatio(const std::vector<T>& got,
                  const std::vector<long double>& want, int64_t columns,
                  double scale, const std::vector<double>& column_scale) {
  double worst = 0;
  for (int64_t c = 0; c < columns; ++c) {
    long double sum = 0;
    for (size_t i = c; i < want.size(); i += columns)
      sum += (got[i] - want[i]) * (got[i] - want[i]);
    const double ratio =
        std::sqrt(static_cast<double>(sum)) / (scale * column_scale[c]);
    if (!(ratio <= worst))
      worst =
          std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
  }
  return worst;
}

struct Ratios {
  double out, grad_values, grad_weights;
};

template <typename T>
Ratios Compare(const Problem<T>& p, const Answer<T>& got,
               const Answer<long double>& want) {
  const auto [n_q, n_k, e, causal] = p.size;
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  const double levels = std::log2(ToeplitzColumns<T>(n_q, n_k).Length());
  const double scale = kConstant * unit * levels;
  const double w = Norm(p.weights);
  std::vector<double> v(e), g(e);
  double vg = 0;  // sum over columns of ||v|| ||g||
  for (int64_t c = 0; c < e; ++c) {
    v[c] = w * Norm(p.values, c, e);
    g[c] = w * Norm(p.grad, c, e);
    vg += v[c] / w * g[c] / w;
  }
  return {WorstRatio(got.out, want.out, e, scale, v),
          WorstRatio(got.grad_values, want.grad_values, e, scale, g),
          WorstRatio(got.grad_weights, want.grad_weights, 1, scale, {vg})};
}

template <typename T>
void Check(const Size& size) {
  const Problem<T> problem(size);
  const Ratios r = Compare(problem, Fast(problem), Reference(problem));
  EXPECT_TRUE(r.out <= 1) << size.Name() << " out " << r.out;
  EXPECT_TRUE(r.grad_values <= 1) << size.Name() << " values " << r.grad_values;
  EXPECT_TRUE(r.grad_weights <= 1)
      << size.Name() << " weights " << r.grad_weights;
}

template <typename T>
class ColumnFftTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ColumnFftTest, Scalars, );

TYPED_TEST(ColumnFftTest, EverySmallSize) {
  for (int64_t n_q = 1; n_q <= 24; ++n_q)
    for (int64_t n_k = 1; n_k <= 24; ++n_k)
      for (bool causal : {false, true})
        Check<TypeParam>({n_q, n_k, 1 + (n_q * 24 + n_k) % 19, causal});
}

TYPED_TEST(ColumnFftTest, EveryNumberOfColumns) {
  for (int64_t columns = 1; columns <= 70; ++columns)
    Check<TypeParam>({53, 61, columns, columns % 2 == 0});
}

// Tests every radix and every order of radices, one row short of and past a
// length.
TYPED_TEST(ColumnFftTest, LengthsAroundEveryFastLength) {
  for (int64_t n : {31,  32,  33,  47,  49,  63,  64,   65,   79,   81,   127,
                    128, 129, 144, 145, 211, 240, 241,  255,  256,  257,  400,
                    401, 509, 511, 512, 513, 720, 1023, 1024, 1025, 1200, 1201})
    Check<TypeParam>({n, n, 3, n % 2 == 0});
}

TYPED_TEST(ColumnFftTest, LargerAndOblong) {
  Check<TypeParam>({2039, 2039, 2, true});
  Check<TypeParam>({4095, 4096, 1, false});
  Check<TypeParam>({4999, 4999, 1, true});
  Check<TypeParam>({1, 4097, 2, false});
  Check<TypeParam>({4097, 1, 2, true});
  Check<TypeParam>({300, 2500, 3, false});
  Check<TypeParam>({2500, 300, 3, true});
  Check<TypeParam>({1500, 1500, 70, false});
}

// An impulse returns the weights in any row: a property that needs no
// reference, for a length that the sums above cannot reach.
TYPED_TEST(ColumnFftTest, ImpulseGivesTheWeightsBack) {
  using T = TypeParam;
  const int64_t n = 100003;
  const ToeplitzColumns<T> engine(n, n);
  const std::vector<T> weights = Normal<T>(2 * n - 1, 4);
  std::vector<T> values(n), out(n), spectrum(engine.SpectrumSize());
  Aligned<T> scratch(engine.ScratchSize());
  engine.Spectrum(weights.data(), 2 * n - 1, spectrum.data(), scratch.get());
  const int64_t j = 70001;
  values[j] = 1;
  engine.Apply(spectrum.data(), values.data(), 1, n, 1, out.data(), 1, false,
               scratch.get());
  long double error = 0;
  for (int64_t i = 0; i < n; ++i)
    error +=
        std::pow(static_cast<long double>(out[i]) - weights[j - i + n - 1], 2);
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  EXPECT_LE(std::sqrt(static_cast<double>(error)),
            kConstant * unit * std::log2(engine.Length()) * Norm(weights));
}

// Tests spectra far from white: constants, alternating signs, impulses, decays
// that lose every digit of the small outputs. Each element keeps the worst-case
// bound; small integers are exact after rounding.
TYPED_TEST(ColumnFftTest, HardInputs) {
  using T = TypeParam;
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  for (const int64_t n : {17, 128, 1000, 1025}) {
    const auto make = [&](int kind, int64_t count) {
      std::vector<T> x(count);
      for (int64_t k = 0; k < count; ++k)
        x[k] = kind == 0   ? T{1}
               : kind == 1 ? T(k % 2 == 0 ? 1 : -1)
               : kind == 2 ? T(k == count / 3 ? 1 : 0)
               : kind == 3 ? static_cast<T>(std::exp(-0.02 * k))
                           : static_cast<T>(k % 7 - 3);
      return x;
    };
    for (int w_kind = 0; w_kind < 5; ++w_kind)
      for (int v_kind = 0; v_kind < 5; ++v_kind) {
        Problem<T> p({n, n, 1, false});
        p.weights = make(w_kind, 2 * n - 1);
        p.values = make(v_kind, n);
        p.grad = make(v_kind, n);
        const Answer<T> got = Fast(p);
        const Answer<long double> want = Reference(p);
        const double levels = std::log2(ToeplitzColumns<T>(n, n).Length());
        const double bound =
            16 * unit * levels * Norm(p.weights) * Norm(p.values);
        const bool integers = w_kind != 3 && v_kind != 3;
        for (int64_t i = 0; i < n; ++i) {
          const double error = std::abs(static_cast<double>(
              static_cast<long double>(got.out[i]) - want.out[i]));
          ASSERT_TRUE(error <= bound) << n << w_kind << v_kind << " row " << i;
          if (integers) {
            ASSERT_EQ(std::round(got.out[i]), static_cast<double>(want.out[i]))
                << n << w_kind << v_kind << " row " << i;
          }
        }
      }
  }
}

// Checks <g, A v> = <A' g, v>, to the product of the bounds.
TYPED_TEST(ColumnFftTest, TransposedProductIsTheAdjoint) {
  using T = TypeParam;
  const Problem<T> p({3001, 2003, 5, false});
  const Answer<T> a = Fast(p);
  long double left = 0, right = 0;
  for (size_t i = 0; i < p.grad.size(); ++i)
    left += static_cast<long double>(p.grad[i]) * a.out[i];
  for (size_t i = 0; i < p.values.size(); ++i)
    right += static_cast<long double>(p.values[i]) * a.grad_values[i];
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  EXPECT_LE(std::abs(static_cast<double>(left - right)),
            2 * kConstant * unit * 12 * Norm(p.weights) * Norm(p.values) *
                Norm(p.grad));
}

TYPED_TEST(ColumnFftTest, AccumulateAddsAndLeavesOtherColumnsAlone) {
  using T = TypeParam;
  const int64_t n = 200, stride = 40;
  const ToeplitzColumns<T> engine(n, n);
  const std::vector<T> weights = Normal<T>(2 * n - 1, 5);
  const std::vector<T> values = Normal<T>(n * stride, 6);
  std::vector<T> spectrum(engine.SpectrumSize());
  Aligned<T> scratch(engine.ScratchSize());
  engine.Spectrum(weights.data(), n, spectrum.data(), scratch.get());
  for (int64_t columns : {int64_t{1}, int64_t{3}, engine.kBlockColumns / 2,
                          int64_t{engine.kBlockColumns}}) {
    std::vector<T> once(n * stride, T{7}), twice(n * stride, T{7});
    engine.Apply(spectrum.data(), &values[3], stride, n, columns, &once[5],
                 stride, false, scratch.get());
    engine.Apply(spectrum.data(), &values[3], stride, n, columns, &twice[5],
                 stride, true, scratch.get());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < stride; ++c) {
        const bool inside = c >= 5 && c < 5 + columns;
        const T value = once[i * stride + c];
        ASSERT_EQ(twice[i * stride + c], inside ? 7 + value : 7) << i << c;
        if (!inside) {
          ASSERT_EQ(value, 7) << i << c;
        }
      }
  }
}

// Rows passed in and out by functions give the result of the strided call, bit
// for bit, and every row passes once.
template <typename T>
struct Rows {
  const T* from;
  T* to;
  int64_t columns, width;
  std::vector<int>* visits;
  static void Fill(void* context, int64_t row, int64_t count, T* rows) {
    const Rows& self = *static_cast<const Rows*>(context);
    for (int64_t r = 0; r < count; ++r) {
      ++(*self.visits)[row + r];
      for (int64_t c = 0; c < self.width; ++c)
        rows[r * self.width + c] =
            c < self.columns ? self.from[(row + r) * self.columns + c] : T{0};
    }
  }
  static void Take(void* context, int64_t row, int64_t count, const T* rows) {
    const Rows& self = *static_cast<const Rows*>(context);
    for (int64_t r = 0; r < count; ++r) {
      ++(*self.visits)[row + r];
      for (int64_t c = 0; c < self.columns; ++c)
        self.to[(row + r) * self.columns + c] = rows[r * self.width + c];
    }
  }
};

// Blocks have one, two or four vectors, whole and partial.
TYPED_TEST(ColumnFftTest, RowsFromCallbacks) {
  using T = TypeParam;
  const int64_t n_q = 701, n_k = 450;
  const ToeplitzColumns<T> engine(n_q, n_k);
  const std::vector<T> weights = Normal<T>(n_q + n_k - 1, 7);
  std::vector<T> spectrum(engine.SpectrumSize());
  Aligned<T> spare(engine.ScratchSize());
  engine.Spectrum(weights.data(), n_q + n_k - 1, spectrum.data(), spare.get());
  for (int64_t columns = 1; columns <= engine.kBlockColumns; ++columns) {
    SCOPED_TRACE(columns);
    const int64_t width = engine.BlockWidth(columns);
    ASSERT_GE(width, columns);
    ASSERT_LE(width, engine.kBlockColumns);
    const std::vector<T> values = Normal<T>(n_k * columns, 8);
    const std::vector<T> grad = Normal<T>(n_q * columns, 9);
    std::vector<T> expected(n_q * columns), out(n_q * columns);
    Aligned<T> scratch(engine.GradientScratchSize(columns));
    std::vector<int> read(n_k), written(n_q), read_grad(n_q), written_back(n_k);
    Rows<T> from{values.data(), nullptr, columns, width, &read};
    Rows<T> to{nullptr, out.data(), columns, width, &written};
    Rows<T> from_grad{grad.data(), nullptr, columns, width, &read_grad};

    engine.Apply(spectrum.data(), values.data(), columns, n_k, columns,
                 expected.data(), columns, false, scratch.get());
    engine.Apply(spectrum.data(), {Rows<T>::Fill, &from}, n_k, columns,
                 {Rows<T>::Take, &to}, scratch.get());
    EXPECT_EQ(out, expected);
    EXPECT_EQ(read, std::vector<int>(n_k, 1));
    EXPECT_EQ(written, std::vector<int>(n_q, 1));

    std::vector<T> back(n_k * columns), expected_back(n_k * columns);
    Rows<T> to_back{nullptr, back.data(), columns, width, &written_back};
    engine.ApplyTransposed(spectrum.data(), grad.data(), columns, columns,
                           expected_back.data(), columns, n_k, false,
                           scratch.get());
    engine.ApplyTransposed(spectrum.data(), {Rows<T>::Fill, &from_grad},
                           columns, {Rows<T>::Take, &to_back}, n_k,
                           scratch.get());
    EXPECT_EQ(back, expected_back);
    EXPECT_EQ(written_back, std::vector<int>(n_k, 1));

    std::vector<T> sum(engine.SpectrumSize()), expected_sum = sum;
    engine.AccumulateWeightGradient(grad.data(), columns, values.data(),
                                    columns, n_k, columns, expected_sum.data(),
                                    scratch.get());
    engine.AccumulateWeightGradient({Rows<T>::Fill, &from_grad},
                                    {Rows<T>::Fill, &from}, n_k, columns,
                                    sum.data(), scratch.get());
    EXPECT_EQ(sum, expected_sum);
  }
}

// The columns of a block are independent of each other, however wide the block
// is.
TYPED_TEST(ColumnFftTest, ColumnsDoNotDependOnTheirBlock) {
  using T = TypeParam;
  const int64_t n = 333;
  const ToeplitzColumns<T> engine(n, n);
  const int64_t most = engine.kBlockColumns;
  const std::vector<T> weights = Normal<T>(2 * n - 1, 7);
  const std::vector<T> values = Normal<T>(n * most, 8);
  std::vector<T> spectrum(engine.SpectrumSize());
  std::vector<T> whole(n * most), alone(n * most);
  Aligned<T> scratch(engine.ScratchSize());
  engine.Spectrum(weights.data(), 2 * n - 1, spectrum.data(), scratch.get());
  engine.Apply(spectrum.data(), values.data(), most, n, most, whole.data(),
               most, false, scratch.get());
  for (int64_t c = 0; c < most; ++c)
    engine.Apply(spectrum.data(), &values[c], most, n, 1, &alone[c], most,
                 false, scratch.get());
  EXPECT_EQ(whole, alone);
}

TYPED_TEST(ColumnFftTest, AwkwardSizes) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 5, 17, 48, 80, 97, 240, 257, 500, 1025})
    Check<T>({n, n + n / 3, 21, n % 2 == 1});
  Check<T>({2039, 1500, 5, false});
}

// The comparison must be able to fail.
TYPED_TEST(ColumnFftTest, WrongAnswersAreRejected) {
  using T = TypeParam;
  for (const Size& size : {Size{16, 16, 3, false}, Size{700, 900, 17, true},
                           Size{4097, 4097, 2, false}}) {
    const Problem<T> p(size);
    const Answer<long double> want = Reference(p);
    const auto rejected = [&](const Answer<T>& wrong) {
      const Ratios r = Compare(p, wrong, want);
      return r.out > 1 && r.grad_values > 1 && r.grad_weights > 1;
    };
    const Answer<T> right = Fast(p);
    ASSERT_FALSE(rejected(right));
    const auto mutate = [&](auto&& change) {
      Answer<T> wrong = right;
      for (auto* x : {&wrong.out, &wrong.grad_values, &wrong.grad_weights})
        change(*x);
      return wrong;
    };
    using Values = std::vector<T>;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    EXPECT_TRUE(rejected(mutate([](Values& x) { x.assign(x.size(), 0); })));
    EXPECT_TRUE(rejected(mutate([](Values& x) {
      for (T& y : x) y = -y;
    })));
    EXPECT_TRUE(rejected(mutate([](Values& x) {
      for (T& y : x) y *= T(1.001);
    })));
    EXPECT_TRUE(rejected(mutate(
        [](Values& x) { std::rotate(x.begin(), x.begin() + 1, x.end()); })));
    EXPECT_TRUE(rejected(mutate([&](Values& x) { x.back() = nan; })));
    // Tests weights of the opposite offset, and a reversed mask.
    Problem<T> reversed = p;
    std::reverse(reversed.weights.begin(), reversed.weights.end());
    Problem<T> masked = p;
    masked.size.causal = !masked.size.causal;
    for (const Problem<T>& q : {reversed, masked}) {
      const Ratios r = Compare(p, Fast(q), want);
      EXPECT_TRUE(r.out > 1 && r.grad_values > 1) << size.Name();
    }
  }
}

TEST(ColumnFft, RefusesEmptySizes) {
  EXPECT_THROW(ToeplitzColumns<float>(0, 3), std::invalid_argument);
  EXPECT_THROW(ToeplitzColumns<double>(3, -1), std::invalid_argument);
}

TEST(ColumnFft, LengthIsNeverMuchLongerThanNeeded) {
  for (int64_t n = 64; n < 5000; n += 7) {
    const int64_t length = ToeplitzColumns<float>(n, 1).Length();
    ASSERT_GE(length, n);
    ASSERT_LE(length, n + n / 3) << n;
  }
}

}  // namespace
}  // namespace subquad
