#include "harness/judging/comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

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

// What rounding costs in a scalar type.
struct Rounding {
  explicit Rounding(Scalar scalar)
      : storage(Info(scalar).unit_roundoff),
        arithmetic(ArithmeticRoundoff(scalar)),
        least(narrow() ? storage * SmallestNormal(scalar) : 0) {}
  bool narrow() const { return arithmetic < storage; }
  // Storing the exact number: one rounding, and more where the type has no
  // smaller exponents.
  double Storing(double expected) const {
    return storage * std::abs(expected) + least;
  }

  double storage, arithmetic, least;
};

// One element against the answer.
struct Element {
  bool finite = false;   // what was found; nothing else is known if not
  bool bounded = false;  // the error can be judged by a finite bound
  double error = 0;
  double arithmetic_error = 0;  // without what storing costs a narrow type
  double allowed = 0;           // gate 1
  double ratio = 0;             // error / allowed
};

Element CompareElement(double found, long double expected, double units,
                       double slack, const Rounding& rounding) {
  Element element;
  element.finite = std::isfinite(found);
  if (!element.finite) return element;
  element.error = static_cast<double>(std::abs(found - expected));
  const double storing = rounding.Storing(static_cast<double>(expected));
  element.arithmetic_error =
      rounding.narrow() ? element.error - storing : element.error;
  element.allowed = rounding.arithmetic * units + storing + slack;
  // A bound that is not a number allows nothing.
  const bool error_finite = std::isfinite(element.error);
  element.bounded = !error_finite || std::isfinite(element.allowed);
  element.ratio = element.error == 0 ? 0
                  : error_finite     ? element.error / element.allowed
                                     : std::numeric_limits<double>::infinity();
  return element;
}

// Adds the elements of one row. Returns the plain program's largest bound in
// the row, in roundoffs; `gate_two_error` is the largest error that counts for
// gate 2.
double CompareRow(const OutputAnswer& answer, size_t row,
                  const Arrays::Entry& entry, int64_t start,
                  const std::vector<double>& units, const Rounding& rounding,
                  double& gate_two_error, Comparison& total) {
  const size_t first = row * static_cast<size_t>(answer.width);
  double row_bound = 0;
  for (int64_t c = 0; c < answer.width; ++c) {
    const auto at = first + static_cast<size_t>(c);
    const long double expected = answer.value[at];
    ++total.elements;
    if (expected != 0) total.zero_reference = false;
    const Element element =
        CompareElement(ElementAt(entry.scalar, entry.data, start + c), expected,
                       units[static_cast<size_t>(c)],
                       answer.slack.empty() ? 0 : answer.slack[at], rounding);
    if (!element.finite) {
      ++total.not_finite;
      total.untouched += IsPoison(entry.scalar, entry.data, start + c);
      continue;
    }
    total.max_error = std::max(total.max_error, element.error);
    const auto place = [&] {
      return ElementPlace{answer.name, answer.selection.rows[row], c};
    };
    const bool plain_has_bound = !std::isinf(answer.units[at]);
    if (!element.bounded) {
      int64_t& count =
          plain_has_bound ? total.lost_bounds : total.without_digits;
      if (count++ == 0)
        (plain_has_bound ? total.first_lost_bound
                         : total.first_without_digits) = place();
      continue;
    }
    if (plain_has_bound) {
      gate_two_error = std::max(gate_two_error, element.arithmetic_error);
      row_bound = std::max(row_bound, answer.units[at]);
    }
    const bool first_judged = total.worst.output.empty();
    if (!(element.ratio <= total.max_over_bound) || first_judged) {
      total.max_over_bound = element.ratio;
      total.bound = element.allowed;
      total.worst = place();
    }
  }
  return row_bound;
}

Yardstick CompareOutput(const OutputAnswer& answer, const Arrays::Entry& entry,
                        double bound_factor, const RowBound& bound,
                        const Rounding& rounding, Comparison& total) {
  double gate_two_error = 0;
  double bounds = 0, largest_bound = 0;  // of rows
  std::vector<double> units(static_cast<size_t>(answer.width));
  for (size_t r = 0; r < answer.selection.rows.size(); ++r) {
    const RowId& id = answer.selection.rows[r];
    if (bound)
      bound(id, units);
    else
      for (size_t c = 0; c < units.size(); ++c)
        units[c] = bound_factor * answer.units[r * units.size() + c];
    const int64_t start = id.head * entry.SliceSize() + id.row * answer.width;
    const double row_bound = CompareRow(answer, r, entry, start, units,
                                        rounding, gate_two_error, total);
    bounds += row_bound;
    largest_bound = std::max(largest_bound, row_bound);
  }
  // The plain program may be exact by luck; a few roundings of the largest
  // number are always allowed.
  const double yardstick =
      std::max(answer.plain_error, 2 * rounding.arithmetic * answer.largest);
  return {gate_two_error > 0 ? gate_two_error / yardstick : 0,
          largest_bound > 0 ? bounds / largest_bound : 0};
}

}  // namespace

Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, double bound_factor,
                   const RowBound& bound) {
  Comparison total;
  total.scalar = problem.scalar;
  const Rounding rounding(problem.scalar);
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& one = answer.outputs[o];
    const Yardstick found = CompareOutput(one, arrays.outputs[o], bound_factor,
                                          bound, rounding, total);
    total.rows += static_cast<int64_t>(one.selection.rows.size());
    total.all_rows = total.all_rows && one.selection.all;
    total.plain_error = std::max(total.plain_error, one.plain_error);
    total.yardsticks.push_back(found);
    total.over_plain = std::max(total.over_plain, found.over_plain);
  }
  return total;
}

}  // namespace subquad
