#include "harness/judging/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"

namespace subquad {
namespace {

double FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (std::isnan(value)) return 0x7E00;
  if (std::isinf(value)) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(size, &exponent);
  if (size < 0x1p-14)  // subnormal, or zero
    return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  const int fraction = static_cast<int>(std::ldexp(size, 11 - exponent)) - 1024;
  return sign | static_cast<uint16_t>((exponent + 14) << 10 | fraction);
}

}  // namespace

bool IsPoison(Scalar scalar, const void* data, int64_t index) {
  const int64_t bytes = Info(scalar).bytes;
  const auto* at = static_cast<const unsigned char*>(data) + index * bytes;
  return std::all_of(at, at + bytes,
                     [](unsigned char byte) { return byte == 0xFF; });
}

double ElementAt(Scalar scalar, const void* data, int64_t index) {
  switch (scalar) {
    case Scalar::kFloat32:
      return static_cast<const float*>(data)[index];
    case Scalar::kFloat64:
      return static_cast<const double*>(data)[index];
    case Scalar::kBFloat16:
      return std::bit_cast<float>(
          uint32_t{static_cast<const uint16_t*>(data)[index]} << 16);
    case Scalar::kFloat16:
      return FromHalf(static_cast<const uint16_t*>(data)[index]);
  }
  return 0;
}

void StoreAt(Scalar scalar, double value, void* data, size_t index) {
  switch (scalar) {
    case Scalar::kFloat32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      break;
    case Scalar::kFloat64:
      static_cast<double*>(data)[index] = value;
      break;
    case Scalar::kBFloat16:
      static_cast<uint16_t*>(data)[index] = static_cast<uint16_t>(
          std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
      break;
    case Scalar::kFloat16:
      static_cast<uint16_t*>(data)[index] = ToHalf(value);
      break;
  }
}

namespace {

// The rounding errors of one scalar type and of the arithmetic behind it.
struct Rounding {
  explicit Rounding(Scalar scalar)
      : storage(Info(scalar).unit_roundoff),
        arithmetic(ArithmeticRoundoff(scalar)),
        least(narrow() ? storage * SmallestNormal(scalar) : 0),
        underflow(arithmetic * SmallestNormal(ArithmeticOf(scalar))) {}
  bool narrow() const { return arithmetic < storage; }
  // Returns the error of storing an exact value: one rounding, or a fixed
  // amount below the smallest exponent of the type.
  double Storing(double expected) const {
    return storage * std::abs(expected) + least;
  }

  double storage, arithmetic, least;
  // The largest error of one product that underflows: half the distance between
  // the smallest numbers. Sums have no error there.
  double underflow;
};

// One element against the answer.
struct ComparedElement {
  // If false, the other fields have no meaning. A right -inf counts as finite.
  bool finite = false;
  bool bounded = false;  // the error can be judged by a finite bound
  double error = 0;
  double arithmetic_error = 0;  // without the rounding of the stored value
  double allowed = 0;           // gate 1
  double ratio = 0;             // error / allowed
};

// Compares one element. `products`: how many products behind this element may
// underflow.
ComparedElement CompareElement(double actual, long double expected,
                               double units, double slack, double products,
                               bool may_be_minus_infinity,
                               const Rounding& rounding) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  ComparedElement element;
  if (may_be_minus_infinity && !std::isnan(actual) &&
      (expected == kNothing || actual == kNothing)) {
    // The logarithm of an empty sum is exact.
    element.finite = element.bounded = true;
    if (actual != expected)
      element.error = element.arithmetic_error = element.ratio =
          std::numeric_limits<double>::infinity();
    return element;
  }
  element.finite = std::isfinite(actual);
  if (!element.finite) return element;
  element.error = static_cast<double>(std::abs(actual - expected));
  const double storing = rounding.Storing(static_cast<double>(expected));
  element.arithmetic_error =
      rounding.narrow() ? element.error - storing : element.error;
  element.allowed = rounding.arithmetic * units +
                    products * rounding.underflow + storing + slack;
  // A bound that is NaN allows no error at all.
  const bool error_finite = std::isfinite(element.error);
  element.bounded = !error_finite || std::isfinite(element.allowed);
  element.ratio = element.error == 0 ? 0
                  : error_finite     ? element.error / element.allowed
                                     : std::numeric_limits<double>::infinity();
  return element;
}

// Returns how many products may underflow. Bounds add up relative errors, which
// do not cover products below the smallest normal number. An output is a sum of
// `terms` products of at most four factors each (two features, a weight, a
// value) and one quotient. If a program's bound is a multiple of the plain one
// (as for a transform, which spreads errors over its outputs), this number
// grows by the same factor, at most by the number of outputs.
double UnderflowingProducts(double terms, double units, double plain_units) {
  const double wider = units > plain_units && plain_units > 0
                           ? std::min(units / plain_units, terms + 1)
                           : 1;
  return 4 * (terms + 1) * wider;
}

// Compares element `at` of an answer, [rows, width], with the units of gate 1.
ComparedElement ElementOf(const OutputAnswer& answer, size_t at, double actual,
                          const std::vector<double>& units, double terms,
                          bool may_be_minus_infinity,
                          const Rounding& rounding) {
  return CompareElement(
      actual, answer.value[at], units[at],
      (answer.slack.empty() ? 0 : answer.slack[at]) + answer.given_error,
      UnderflowingProducts(terms, units[at], answer.units[at]),
      may_be_minus_infinity, rounding);
}

// Tells whether -inf is a right value of elements of this output.
bool MayBeMinusInfinity(const Problem& problem, const OutputAnswer& answer) {
  const int index = IndexOf(problem.outputs, answer.name);
  return index >= 0 &&
         problem.outputs[static_cast<size_t>(index)].may_be_minus_infinity;
}

bool PlainDiverges(const OutputAnswer& answer, size_t at) {
  return !answer.plain_diverges.empty() && answer.plain_diverges[at];
}

// Compares the elements actual(column) of one row and adds them to `total`.
// `gate_two_error` becomes the largest error that counts for gate 2. Adds the
// row to `open` if it is one of these.
template <typename Actual, typename Untouched>
void CompareRow(const OutputAnswer& answer, size_t row, const Actual& actual,
                const Untouched& untouched, const std::vector<double>& units,
                double terms, bool may_be_minus_infinity,
                const Rounding& rounding, double& gate_two_error,
                OpenRows& open, Comparison& total) {
  const size_t first = row * static_cast<size_t>(answer.width);
  double least_allowed = std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < answer.width; ++c) {
    const auto at = first + static_cast<size_t>(c);
    const long double expected = answer.value[at];
    ++total.elements;
    if (expected != 0) total.zero_reference = false;
    const ComparedElement element = ElementOf(
        answer, at, actual(c), units, terms, may_be_minus_infinity, rounding);
    const auto place = [&] {
      return ElementPlace{answer.name, answer.selection.rows[row], c,
                          answer.heads_of_item};
    };
    if (!element.finite && (untouched(c) || !PlainDiverges(answer, at))) {
      ++total.not_finite;
      total.untouched += untouched(c);
      continue;
    }
    total.max_error = std::max(total.max_error, element.error);
    const bool plain_has_bound = !std::isinf(answer.units[at]);
    if (!element.bounded) {
      int64_t& count =
          plain_has_bound ? total.lost_bounds : total.without_digits;
      if (count++ == 0)
        (plain_has_bound ? total.first_lost_bound
                         : total.first_without_digits) = place();
      continue;
    }
    if (plain_has_bound)
      gate_two_error = std::max(gate_two_error, element.arithmetic_error);
    least_allowed = std::min(least_allowed, element.allowed);
    const bool first_judged = total.worst.output.empty();
    if (!(element.ratio <= total.max_over_bound) || first_judged) {
      total.max_over_bound = element.ratio;
      total.bound = element.allowed;
      total.worst = place();
    }
  }
  if (std::isinf(least_allowed) || !(least_allowed > answer.largest) ||
      answer.largest == 0)
    return;
  if (open.count++ == 0) {
    open.first = {answer.name, answer.selection.rows[row], 0,
                  answer.heads_of_item};
    open.largest = answer.largest;
    open.tolerance = least_allowed;
  }
  open.tolerance = std::min(open.tolerance, least_allowed);
}

// Returns the plain program's error on one output. Since it may be exact by
// chance, a few roundings of the largest value are the minimum.
double PlainError(const OutputAnswer& answer, const Rounding& rounding) {
  return std::max(answer.plain_error,
                  answer.roundings * (rounding.arithmetic * answer.largest +
                                      rounding.underflow));
}

// Returns gate 2 of one output.
Yardstick YardstickOf(const OutputAnswer& answer, double gate_two_error,
                      const Rounding& rounding) {
  const double plain = PlainError(answer, rounding);
  const double beyond = gate_two_error - answer.given_error;
  return {.over_plain = beyond > 0 ? beyond / plain : 0,
          .error = gate_two_error,
          .given = answer.given_error,
          .plain = plain};
}

// Returns an upper limit for the number of products in a sum.
double TermsOf(const Problem& problem) {
  return static_cast<double>(std::max(problem.queries, problem.keys));
}

bool IsWritten(const Arrays& arrays, size_t output, const OutputAnswer& answer,
               size_t r, int64_t c) {
  const Arrays::Entry& entry = arrays.outputs[output];
  const RowId& id = answer.selection.rows[r];
  return !IsPoison(entry.scalar, entry.data,
                   id.head * entry.SliceSize() + id.row * answer.width + c);
}

// Returns the units of gate 1 for every element.
std::vector<double> UnitsOf(const OutputAnswer& answer, double bound_factor,
                            const RowBound& bound) {
  std::vector<double> units = answer.units;
  const auto width = static_cast<size_t>(answer.width);
  if (bound)
    for (size_t r = 0; r < answer.selection.rows.size(); ++r)
      bound(answer.selection.rows[r], {units.data() + r * width, width});
  else
    for (double& unit : units) unit *= bound_factor;
  return units;
}

void Add(const OutputAnswer& answer, Yardstick yardstick, OpenRows open,
         Comparison& total) {
  total.open_rows.push_back(std::move(open));
  total.plain_error = std::max(total.plain_error, answer.plain_error);
  total.over_plain = std::max(total.over_plain, yardstick.over_plain);
  total.yardsticks.push_back(yardstick);
}

}  // namespace

Tolerance ToleranceOf(const Answer& answer, double bound_factor,
                      const RowBound& bound) {
  Tolerance tolerance;
  for (const OutputAnswer& output : answer.outputs)
    tolerance.units.push_back(UnitsOf(output, bound_factor, bound));
  return tolerance;
}

Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, const Tolerance& tolerance) {
  Comparison total;
  total.scalar = problem.scalar;
  const Rounding rounding(problem.scalar);
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    const FoundNumbers element_of = FoundIn(arrays, o, output);
    double gate_two_error = 0;
    OpenRows open;
    for (size_t r = 0; r < output.selection.rows.size(); ++r)
      CompareRow(
          output, r, [&](int64_t c) { return element_of(r, c); },
          [&](int64_t c) { return !IsWritten(arrays, o, output, r, c); },
          tolerance.units[o], TermsOf(problem),
          MayBeMinusInfinity(problem, output), rounding, gate_two_error, open,
          total);
    total.rows += static_cast<int64_t>(output.selection.rows.size());
    total.all_rows = total.all_rows && output.selection.all;
    Add(output, YardstickOf(output, gate_two_error, rounding), std::move(open),
        total);
  }
  return total;
}

FoundRows KeptRows(size_t output, std::vector<size_t> rows, size_t width,
                   std::vector<long double> values) {
  return {output, std::move(rows),
          [width, kept = std::make_shared<const std::vector<long double>>(
                      std::move(values))](size_t r, int64_t c) {
            return (*kept)[r * width + static_cast<size_t>(c)];
          }};
}

std::vector<size_t> SpreadRows(size_t rows, size_t most) {
  std::vector<size_t> chosen;
  if (rows <= most) {
    for (size_t i = 0; i < rows; ++i) chosen.push_back(i);
    return chosen;
  }
  if (most == 0) return chosen;
  if (most > 1) chosen.push_back(0);
  // Multiples of the golden ratio, modulo one, follow no period.
  constexpr double kGoldenRatio = 0.6180339887498949;
  for (size_t part = 0; part + 2 < most; ++part) {
    const size_t inner = rows - 2, parts = most - 2;
    const size_t first = part * inner / parts;
    const size_t count = (part + 1) * inner / parts - first;
    const double place = kGoldenRatio * static_cast<double>(part + 1);
    chosen.push_back(1 + first +
                     static_cast<size_t>((place - std::floor(place)) *
                                         static_cast<double>(count)));
  }
  chosen.push_back(rows - 1);
  return chosen;
}

Comparison CompareRows(const Problem& problem, const Answer& answer,
                       std::span<const FoundRows> parts,
                       const Tolerance& tolerance) {
  Comparison total;
  total.scalar = problem.scalar;
  const Rounding rounding(problem.scalar);
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    double gate_two_error = 0;
    OpenRows open;
    for (const FoundRows& part : parts) {
      if (part.output != o) continue;
      for (size_t r = 0; r < part.rows.size(); ++r)
        CompareRow(
            output, part.rows[r],
            [&](int64_t c) {
              return RoundTo(problem.scalar,
                             static_cast<double>(part.value(r, c)));
            },
            [](int64_t) { return false; }, tolerance.units[o], TermsOf(problem),
            MayBeMinusInfinity(problem, output), rounding, gate_two_error, open,
            total);
      total.rows += static_cast<int64_t>(part.rows.size());
    }
    Add(output, YardstickOf(output, gate_two_error, rounding), std::move(open),
        total);
  }
  total.all_rows = false;
  return total;
}

FoundNumbers FoundIn(const Arrays& arrays, size_t output,
                     const OutputAnswer& answer) {
  const Arrays::Entry& entry = arrays.outputs[output];
  return [&entry, &answer](size_t r, int64_t c) {
    const RowId& id = answer.selection.rows[r];
    return ElementAt(entry.scalar, entry.data,
                     id.head * entry.SliceSize() + id.row * answer.width + c);
  };
}

std::vector<double> OverTolerance(const Problem& problem,
                                  const OutputAnswer& answer,
                                  const FoundNumbers& element_of,
                                  const std::vector<double>& units,
                                  double yardstick_factor) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Rounding rounding(problem.scalar);
  const double limit = yardstick_factor * PlainError(answer, rounding);
  const auto width = static_cast<size_t>(answer.width);
  std::vector<double> over(answer.value.size());
  for (size_t at = 0; at < over.size(); ++at) {
    const ComparedElement element = ElementOf(
        answer, at, element_of(at / width, static_cast<int64_t>(at % width)),
        units, TermsOf(problem), MayBeMinusInfinity(problem, answer), rounding);
    const bool plain_has_bound = !std::isinf(answer.units[at]);
    if ((!element.finite && !PlainDiverges(answer, at)) ||
        (!element.bounded && plain_has_bound))
      over[at] = kInfinity;
    else if (element.bounded)
      over[at] = element.ratio;
    if (yardstick_factor > 0 && element.bounded && plain_has_bound)
      over[at] = std::max(
          over[at], element.arithmetic_error / (limit + answer.given_error));
  }
  return over;
}

std::vector<double> RowsOverTolerance(const Problem& problem, size_t output,
                                      const OutputAnswer& answer,
                                      const Arrays& arrays, double bound_factor,
                                      const RowBound& bound,
                                      double yardstick_factor) {
  const std::vector<double> over = OverTolerance(
      problem, answer, FoundIn(arrays, output, answer),
      UnitsOf(answer, bound_factor, bound), bound ? 0 : yardstick_factor);
  const auto width = static_cast<std::ptrdiff_t>(answer.width);
  std::vector<double> rows;
  for (auto row = over.begin(); row != over.end(); row += width)
    rows.push_back(*std::max_element(row, row + width));
  return rows;
}

std::string ElementPlace::RowText() const {
  const std::string head =
      heads_of_item > 0
          ? fmt::format("batch {} head {}", id.head / heads_of_item,
                        id.head % heads_of_item)
          : fmt::format("head {}", id.head);
  return fmt::format("{} {} row {}", output, head, id.row);
}

std::string ElementPlace::Text() const {
  return fmt::format("{} column {}", RowText(), column);
}

}  // namespace subquad
