#include "harness/base/digits.h"

#include <fmt/format.h>

#include <cmath>

namespace subquad {

std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  if (!(size >= 999.5 && size < 1e7)) return fmt::format("{:.3g}", value);
  const double unit = std::pow(10, std::floor(std::log10(size)) - 2);
  return fmt::format("{:.0f}", std::round(value / unit) * unit);
}

}  // namespace subquad
