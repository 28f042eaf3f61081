// Scalar types of tensors: names, sizes and unit roundoffs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "reference/base/invalid_input.h"

namespace subquad {

enum class Scalar { kFloat32, kFloat64, kBFloat16, kFloat16 };

struct ScalarInfo {
  Scalar scalar;
  std::string_view name;
  int64_t bytes;
  double unit_roundoff;  // half the distance from 1 to the next value
};

inline constexpr std::array<ScalarInfo, 4> kScalars = {{
    {Scalar::kFloat32, "float32", 4, 0x1p-24},
    {Scalar::kFloat64, "float64", 8, 0x1p-53},
    {Scalar::kBFloat16, "bfloat16", 2, 0x1p-8},
    {Scalar::kFloat16, "float16", 2, 0x1p-11},
}};

constexpr const ScalarInfo& Info(Scalar scalar) {
  return kScalars[static_cast<size_t>(scalar)];
}

// Returns the type of sums and products of tensors of this type: 16-bit types
// are for storage, their arithmetic is in float32.
constexpr Scalar ArithmeticOf(Scalar scalar) {
  return scalar == Scalar::kFloat64 ? Scalar::kFloat64 : Scalar::kFloat32;
}
// Returns the type whose values are further apart.
constexpr Scalar Coarser(Scalar a, Scalar b) {
  return Info(a).unit_roundoff < Info(b).unit_roundoff ? b : a;
}
constexpr double ArithmeticRoundoff(Scalar scalar) {
  return Info(ArithmeticOf(scalar)).unit_roundoff;
}

// The smallest positive number with all digits.
constexpr double SmallestNormal(Scalar scalar) {
  switch (scalar) {
    case Scalar::kFloat64:
      return 0x1p-1022;
    case Scalar::kFloat16:
      return 0x1p-14;
    default:
      return 0x1p-126;  // bfloat16 has float32's exponents
  }
}

inline Scalar ParseScalar(std::string_view name) {
  for (const ScalarInfo& info : kScalars)
    if (info.name == name) return info.scalar;
  std::vector<std::string> names;
  for (const ScalarInfo& info : kScalars) names.emplace_back(info.name);
  throw UnknownName("scalar", names, std::string(name));
}

template <typename T>
constexpr Scalar ScalarOf();
template <>
constexpr Scalar ScalarOf<float>() {
  return Scalar::kFloat32;
}
template <>
constexpr Scalar ScalarOf<double>() {
  return Scalar::kFloat64;
}

}  // namespace subquad
