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

Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, double bound_factor,
                   const RowBound& bound) {
  Comparison total;
  total.scalar = problem.scalar;
  const double roundoff = Info(problem.scalar).unit_roundoff;
  const double arithmetic = ArithmeticRoundoff(problem.scalar);
  // Storing may lose more than a roundoff of the number where the type has no
  // more exponents to give.
  const bool narrow = arithmetic < roundoff;
  const double least = narrow ? roundoff * SmallestNormal(problem.scalar) : 0;
  bool any_judged = false;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& one = answer.outputs[o];
    const Arrays::Entry& entry = arrays.outputs[o];
    const bool per_head = problem.output_per_head[o];
    double gate_two_error = 0;
    double bounds = 0, largest_bound = 0;  // of rows
    std::vector<double> units(static_cast<size_t>(one.width));
    for (size_t r = 0; r < one.selection.rows.size(); ++r) {
      const RowId& id = one.selection.rows[r];
      const int64_t start =
          (per_head ? id.head * entry.head_stride : 0) + id.row * one.width;
      const size_t first = r * static_cast<size_t>(one.width);
      if (bound)
        bound(id, units);
      else
        for (int64_t c = 0; c < one.width; ++c)
          units[c] = bound_factor * one.units[first + c];
      double row_bound = 0;  // of the plain program, in roundoffs
      for (int64_t c = 0; c < one.width; ++c) {
        ++total.elements;
        const long double expected = one.value[first + c];
        const double found = ElementAt(entry.scalar, entry.data, start + c);
        if (expected != 0) total.zero_reference = false;
        if (!std::isfinite(found)) {
          ++total.not_finite;
          total.untouched += IsPoison(entry.scalar, entry.data, start + c);
          continue;
        }
        const double error = static_cast<double>(std::abs(found - expected));
        total.max_error = std::max(total.max_error, error);
        // Storing the exact answer may itself cost one rounding.
        const double storing =
            roundoff * std::abs(static_cast<double>(expected)) + least;
        const double allowed = arithmetic * units[c] + storing +
                               (one.slack.empty() ? 0 : one.slack[first + c]);
        const bool plain_has_bound = !std::isinf(one.units[first + c]);
        if (std::isfinite(error) && !std::isfinite(allowed)) {
          // A bound that is not a number allows nothing.
          int64_t& count =
              plain_has_bound ? total.lost_bounds : total.without_digits;
          if (count++ == 0)
            (plain_has_bound ? total.first_lost_bound
                             : total.first_without_digits) = {one.name, id, c};
          continue;
        }
        const double ratio = error == 0 ? 0
                             : std::isfinite(error)
                                 ? error / allowed
                                 : std::numeric_limits<double>::infinity();
        if (plain_has_bound) {
          gate_two_error =
              std::max(gate_two_error, narrow ? error - storing : error);
          row_bound = std::max(row_bound, one.units[first + c]);
        }
        if (!(ratio <= total.max_over_bound) || !any_judged) {
          any_judged = true;
          total.max_over_bound = ratio;
          total.bound = allowed;
          total.worst = {one.name, id, c};
        }
      }
      bounds += row_bound;
      largest_bound = std::max(largest_bound, row_bound);
    }
    total.rows += static_cast<int64_t>(one.selection.rows.size());
    total.all_rows = total.all_rows && one.selection.all;
    total.plain_error = std::max(total.plain_error, one.plain_error);
    // The plain program may be exact by luck; a few roundings of the largest
    // number are always allowed.
    const double yardstick =
        std::max(one.plain_error, 2 * arithmetic * one.largest);
    const Yardstick found = {
        gate_two_error > 0 ? gate_two_error / yardstick : 0,
        largest_bound > 0 ? bounds / largest_bound : 0};
    total.yardsticks.push_back(found);
    total.over_plain = std::max(total.over_plain, found.over_plain);
  }
  return total;
}

}  // namespace subquad
