#include "harness/cases/draws.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace subquad {
namespace {

// FNV-1a, 64 bits.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream, uint64_t index) {
  return PhiloxWords(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

double ToUniform(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace

std::array<uint32_t, 4> PhiloxWords(const std::array<uint32_t, 4>& counter,
                                    const std::array<uint32_t, 2>& key) {
  const r123::Philox4x32::ctr_type from = {
      {counter[0], counter[1], counter[2], counter[3]}};
  const auto words = r123::Philox4x32()(from, {{key[0], key[1]}});
  return {words[0], words[1], words[2], words[3]};
}

Draws::Draws(uint64_t seed, std::string_view name)
    : seed_(seed), stream_(Hash(name)) {}

double Draws::Uniform(uint64_t index) const {
  const auto words = Philox(seed_, stream_, index);
  return ToUniform(words[2], words[3]);
}

double Draws::Normal(uint64_t index) const {
  // Two draws share a block of words, which gives their radius and angle.
  const auto words = Philox(seed_, stream_, index / 2 | uint64_t{1} << 63);
  const double radius = std::sqrt(-2 * std::log(ToUniform(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * ToUniform(words[2], words[3]);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

double RoundTo(Scalar scalar, double value) {
  switch (scalar) {
    case Scalar::kFloat64:
      return value;
    case Scalar::kFloat32:
      return static_cast<float>(value);
    case Scalar::kBFloat16: {
      uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      bits += 0x7FFF + (bits >> 16 & 1);
      return std::bit_cast<float>(bits & 0xFFFF0000u);
    }
    case Scalar::kFloat16: {
      int exponent = 0;
      std::frexp(value, &exponent);
      // float16 has 11 bits of significand, and fewer below 2^-14.
      const double unit = std::ldexp(1.0, std::max(exponent, -13) - 11);
      const double rounded = std::nearbyint(value / unit) * unit;
      return std::abs(rounded) > 65504 ? std::copysign(HUGE_VAL, value)
                                       : rounded;
    }
  }
  return value;
}

}  // namespace subquad
