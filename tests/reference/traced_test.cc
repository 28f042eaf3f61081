// Numbers that record how they were computed: derivatives against those of
// calculus, and bounds against the errors of float32.
#include "reference/base/traced.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/cases/draws.h"
#include "reference/base/long_sums.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

template <typename Base>
struct Derived {
  Base value = 0;
  double error = 0;
  std::vector<Base> derivatives;
  std::vector<double> errors;
};

constexpr double kRoundoff = 0x1p-24;

// Runs a function of the inputs on a tape and returns its derivatives.
template <typename Base, typename Function>
Derived<Base> Derive(const std::vector<double>& inputs,
                     const Function& function) {
  Tape<Base> tape(
      {.roundoff = kRoundoff, .smallest_normal = 0x1p-126, .bounds = true});
  const typename Tape<Base>::Recording recording(tape);
  const int32_t first = tape.AddInput(inputs);
  const Traced<Base> result =
      function.template operator()<Traced<Base>>(inputs.data());
  Derived<Base> derived{result.value(), result.Error(), {}, {}};
  tape.Seed(result.node(), Base{1}, 0);
  tape.SweepAndForget(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int32_t node = first + static_cast<int32_t>(i);
    derived.derivatives.push_back(tape.DerivativeOf(node));
    derived.errors.push_back(tape.ErrorOf(node).Total());
  }
  return derived;
}

struct Example {
  std::string name;
  // A function of x and y as a derived value, and its two derivatives.
  std::function<Derived<double>(const std::vector<double>&)> wide;
  std::function<Derived<float>(const std::vector<double>&)> narrow;
  std::function<std::pair<double, double>(double x, double y)> slopes;
};

template <typename Function, typename Slopes>
Example Make(std::string name, const Function& function, const Slopes& slopes) {
  return {std::move(name),
          [=](const auto& inputs) { return Derive<double>(inputs, function); },
          [=](const auto& inputs) { return Derive<float>(inputs, function); },
          slopes};
}

#define SUBQUAD_FUNCTION(expression)                  \
  []<typename Real>(const double* in) {               \
    [[maybe_unused]] const Real x = in[0], y = in[1]; \
    return Real(expression);                          \
  }

std::vector<Example> Examples() {
  using Pair = std::pair<double, double>;
  return {
      Make("sum", SUBQUAD_FUNCTION(x + y),
           [](double, double) { return Pair(1, 1); }),
      Make("difference", SUBQUAD_FUNCTION(x - y),
           [](double, double) { return Pair(1, -1); }),
      Make("product", SUBQUAD_FUNCTION(x * y),
           [](double x, double y) { return Pair(y, x); }),
      Make("quotient", SUBQUAD_FUNCTION(x / y),
           [](double x, double y) { return Pair(1 / y, -x / (y * y)); }),
      Make("negative", SUBQUAD_FUNCTION(-(x * y)),
           [](double x, double y) { return Pair(-y, -x); }),
      Make("with numbers", SUBQUAD_FUNCTION((2 * x - 3) / 4 + 1 - y / 2),
           [](double, double) { return Pair(0.5, -0.5); }),
      Make("number over", SUBQUAD_FUNCTION(1 / (x * x)),
           [](double x, double) { return Pair(-2 / (x * x * x), 0); }),
      Make("square", SUBQUAD_FUNCTION(x * x * y),
           [](double x, double y) { return Pair(2 * x * y, x * x); }),
      Make("exp", SUBQUAD_FUNCTION(exp(x * y)),
           [](double x, double y) {
             return Pair(y * std::exp(x * y), x * std::exp(x * y));
           }),
      Make("log", SUBQUAD_FUNCTION(log(x * y)),
           [](double x, double y) { return Pair(1 / x, 1 / y); }),
      Make("tanh", SUBQUAD_FUNCTION(tanh(x * y)),
           [](double x, double y) {
             const double slope = 1 - std::pow(std::tanh(x * y), 2);
             return Pair(y * slope, x * slope);
           }),
      Make("sqrt", SUBQUAD_FUNCTION(sqrt(x * y)),
           [](double x, double y) {
             const double root = std::sqrt(x * y);
             return Pair(y / (2 * root), x / (2 * root));
           }),
      Make("sin", SUBQUAD_FUNCTION(sin(x * y)),
           [](double x, double y) {
             return Pair(y * std::cos(x * y), x * std::cos(x * y));
           }),
      Make("cos", SUBQUAD_FUNCTION(cos(x * y)),
           [](double x, double y) {
             return Pair(-y * std::sin(x * y), -x * std::sin(x * y));
           }),
      Make("abs", SUBQUAD_FUNCTION(abs(x - 2 * y)),
           [](double x, double y) {
             const double sign = x - 2 * y < 0 ? -1 : 1;
             return Pair(sign, -2 * sign);
           }),
      Make("powers of two", SUBQUAD_FUNCTION(ldexp(x, 3) - ldexp(y, -2)),
           [](double, double) { return Pair(8, -0.25); }),
      Make("fma", SUBQUAD_FUNCTION(fma(x, y, x)),
           [](double x, double y) { return Pair(y + 1, x); }),
      Make("hypot", SUBQUAD_FUNCTION(hypot(x, y)),
           [](double x, double y) {
             return Pair(x / std::hypot(x, y), y / std::hypot(x, y));
           }),
      Make("larger", SUBQUAD_FUNCTION(std::max(x, y) * y),
           [](double x, double y) {
             return x > y ? Pair(y, x) : Pair(0, 2 * y);
           }),
      Make("as a constant", SUBQUAD_FUNCTION(AsConstant(x) * y),
           [](double x, double) { return Pair(0, x); }),
      Make("nearest integer", SUBQUAD_FUNCTION(nearbyint(8 * x) * y),
           [](double x, double) { return Pair(0, std::nearbyint(8 * x)); }),
      // exp(x)/(exp(x)+exp(y)), times x.
      Make("mean", SUBQUAD_FUNCTION(exp(x) / (exp(x) + exp(y)) * x),
           [](double x, double y) {
             const double p = 1 / (1 + std::exp(y - x));
             return Pair(p + x * p * (1 - p), -x * p * (1 - p));
           }),
  };
}
#undef SUBQUAD_FUNCTION

std::vector<double> Point(uint64_t seed) {
  const Draws draws(seed, "point");
  return {0.25 + 2 * draws.Uniform(0), 0.25 + 2 * draws.Uniform(1)};
}

TEST(Traced, DerivativesAreThoseOfCalculus) {
  for (const Example& example : Examples())
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<double> at = Point(seed);
      const Derived<double> derived = example.wide(at);
      const auto [by_x, by_y] = example.slopes(at[0], at[1]);
      EXPECT_NEAR(derived.derivatives[0], by_x, 1e-13 * (1 + std::abs(by_x)))
          << example.name;
      EXPECT_NEAR(derived.derivatives[1], by_y, 1e-13 * (1 + std::abs(by_y)))
          << example.name;
    }
}

// The errors of float32 are within the bounds, and the bounds are not much
// larger than the largest errors of many points.
TEST(Traced, BoundsHold) {
  for (const Example& example : Examples()) {
    double most = 0, most_of_value = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      std::vector<double> at = Point(seed);
      for (double& x : at) x = static_cast<float>(x);
      const Derived<double> exact = example.wide(at);
      const Derived<float> rounded = example.narrow(at);
      const auto compare = [&](double value, double float_value, double units,
                               double& largest) {
        const double error = std::abs(value - float_value);
        ASSERT_LE(error, kRoundoff * units) << example.name << " " << seed;
        if (units > 0) largest = std::max(largest, error / (kRoundoff * units));
      };
      compare(exact.value, rounded.value, exact.error, most_of_value);
      for (size_t i = 0; i < 2; ++i)
        compare(exact.derivatives[i], rounded.derivatives[i], exact.errors[i],
                most);
      const double units_of_double = exact.errors[0] + exact.errors[1];
      const double units_of_float = rounded.errors[0] + rounded.errors[1];
      EXPECT_NEAR(units_of_float, units_of_double, 1e-5 * units_of_double);
    }
    EXPECT_TRUE(most == 0 || most > 0.03) << example.name << " " << most;
    EXPECT_TRUE(most_of_value == 0 || most_of_value > 0.05)
        << example.name << " " << most_of_value;
  }
}

// A divisor near the largest number may be infinite in a program, whose
// quotient is then zero: the bound is as large as the quotient.
TEST(Traced, DivisorsNearTheLargestNumberMayOverflow) {
  const auto bound_of = [](double divisor) {
    const auto quotient = Derive<double>(
        {3e38, divisor},
        []<typename Real>(const double* in) { return Real(in[0]) / in[1]; });
    return kRoundoff * quotient.error / quotient.value;
  };
  EXPECT_LT(bound_of(1e30), 1e-6);
  EXPECT_GE(bound_of(3e38), 1);
}

// A row of a matrix product as one node and as many has the same derivatives
// and nearly the same bounds.
TEST(Traced, RowsAreRecordedAsAWhole) {
  constexpr int64_t kWidth = 9, kRows = 5;
  std::vector<double> inputs;
  const Draws draws(3, "rows");
  for (uint64_t i = 0; i < kWidth * (kRows + 1); ++i)
    inputs.push_back(static_cast<float>(draws.Normal(i)));
  const auto function = [](bool as_rows) {
    return [as_rows]<typename Real>(const double* in) {
      const double* const q = in;
      LongSums<Real> sums(kWidth);
      std::vector<Real> plain(kWidth);
      for (int64_t r = 1; r <= kRows; ++r) {
        const double* const row = in + r * kWidth;
        Real weight = 0;
        if (as_rows) {
          weight = ScaledDot<Real>(q, row, kWidth, Real{1}).value;
          sums.AddRow(weight, row, kWidth);
          sums.Next();
          continue;
        }
        for (int64_t c = 0; c < kWidth; ++c)
          weight += static_cast<Real>(q[c]) * static_cast<Real>(row[c]);
        for (int64_t c = 0; c < kWidth; ++c)
          plain[c] += weight * static_cast<Real>(row[c]);
      }
      Real result = 0;
      for (int64_t c = 0; c < kWidth; ++c) {
        const Real sum = as_rows ? sums.Total(c) : plain[c];
        result += sum * sum * (c + 1);
      }
      return result;
    };
  };
  const auto as_rows = Derive<double>(inputs, function(true));
  const auto singly = Derive<double>(inputs, function(false));
  const auto rounded = Derive<float>(inputs, function(true));
  EXPECT_NEAR(as_rows.value, singly.value, 1e-13 * std::abs(singly.value));
  EXPECT_NEAR(as_rows.error, singly.error, 0.2 * singly.error);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_NEAR(as_rows.derivatives[i], singly.derivatives[i],
                1e-12 * std::abs(singly.value));
    EXPECT_NEAR(as_rows.errors[i], singly.errors[i], 0.2 * singly.errors[i]);
    EXPECT_LE(std::abs(rounded.derivatives[i] - as_rows.derivatives[i]),
              kRoundoff * as_rows.errors[i]);
  }
}

// So do rows of numbers that were computed: features, their products with each
// other and with inputs, and their sums.
TEST(Traced, ComputedRowsAreRecordedAsAWhole) {
  constexpr int64_t kWidth = 7;
  std::vector<double> inputs;
  const Draws draws(4, "rows");
  for (uint64_t i = 0; i < 3 * kWidth; ++i)
    inputs.push_back(static_cast<float>(draws.Normal(i)));
  // The rows are declared, or not, or are changed afterwards.
  enum class Kind { kRows, kNumbers, kChanged };
  const auto function = [](Kind kind) {
    return [kind]<typename Real>(const double* in) {
      const auto features = [&](const double* x) {
        std::vector<Real> row;
        for (int64_t a = 0; a < kWidth; ++a)
          row.push_back(exp(static_cast<Real>(x[a]) / 2));
        if (kind != Kind::kNumbers) AsRow(row.data(), kWidth);
        if (kind == Kind::kChanged) row[2] = row[2] + Real{0} * row[0];
        return row;
      };
      std::vector<Real> sums(kWidth);
      for (int64_t r = 0; r < 2; ++r) {
        const std::vector<Real> q = features(in), k = features(in + r * kWidth);
        const Real weight = Dot<Real>(q.data(), k.data(), kWidth) -
                            Dot<Real>(k.data(), in + 2 * kWidth, kWidth);
        AddScaledRow(sums.data(), weight, k.data(), kWidth);
      }
      if (kind != Kind::kNumbers) AsRow(sums.data(), kWidth);
      return Dot<Real>(in + kWidth, sums.data(), kWidth);
    };
  };
  const auto singly = Derive<double>(inputs, function(Kind::kNumbers));
  for (const Kind kind : {Kind::kRows, Kind::kChanged}) {
    const auto as_rows = Derive<double>(inputs, function(kind));
    const auto rounded = Derive<float>(inputs, function(kind));
    EXPECT_NEAR(as_rows.value, singly.value, 1e-13 * std::abs(singly.value));
    EXPECT_NEAR(as_rows.error, singly.error, 0.45 * singly.error);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_NEAR(as_rows.derivatives[i], singly.derivatives[i],
                  1e-13 * std::abs(singly.value));
      EXPECT_NEAR(as_rows.errors[i], singly.errors[i], 0.45 * singly.errors[i]);
      EXPECT_LE(std::abs(rounded.derivatives[i] - as_rows.derivatives[i]),
                kRoundoff * as_rows.errors[i]);
    }
  }
}

// Rows that are no inputs may be gone when derivatives are handed down.
TEST(Traced, CopiesTemporaryRows) {
  const std::vector<double> inputs = {0.5, 3};
  const auto derived =
      Derive<double>(inputs, []<typename Real>(const double* in) {
        LongSums<Real> sums(2);
        std::vector<double> row = {2, 5};
        sums.AddRow(static_cast<Real>(in[0]), row.data(), 2);
        row = {0, 0};
        sums.AddRow(static_cast<Real>(in[1]), row.data(), 2);
        return sums.Total(0) * sums.Total(1);
      });
  EXPECT_EQ(derived.value, 2.5);
  EXPECT_EQ(derived.derivatives, (std::vector<double>{10, 0}));
}

TEST(Traced, AnUnboundedErrorStaysUnbounded) {
  // The divisor may be zero.
  const std::vector<double> inputs = {1, 0x1p-23};
  const auto derived =
      Derive<double>(inputs, []<typename Real>(const double* in) {
        const Real x = in[0], y = in[1];
        return x / ((x + y) - x);
      });
  EXPECT_FALSE(std::isfinite(derived.errors[0]));
}

}  // namespace
}  // namespace subquad
