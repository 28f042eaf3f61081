#include "harness/cases/hard_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "harness/cases/draws.h"

namespace subquad {
namespace {

bool IsData(const Place& place) { return place.rule.role == Role::kData; }

// Returns 0 at the first row, 1 at the last and values between.
double Along(const Place& place) {
  return place.rows == 1 ? 0
                         : static_cast<double>(place.row) /
                               static_cast<double>(place.rows - 1);
}

// Returns the distance of an offset from the middle of its axis, from 0 to 1.
double FromMiddle(const Place& place) {
  const double half = static_cast<double>(place.rows) / 2;
  return std::abs(static_cast<double>(place.row) - half) / half;
}

double Normal(const Place& place, const Draws& draws) {
  return draws.Normal(place.index);
}
double Integers(const Place& place, const Draws& draws) {
  return std::clamp(std::round(2 * draws.Normal(place.index)), -4.0, 4.0);
}
double Equal(const Place&, const Draws&) { return 1; }
double Alternating(const Place& place, const Draws& draws) {
  return (place.row % 2 ? -1 : 1) * (1 + draws.Normal(place.index) / 1024);
}
double Wide(const Place& place, const Draws& draws) {
  return draws.Normal(place.index) *
         std::exp2(std::floor(24 * draws.Uniform(place.index)) - 12);
}
double Dropping(const Place& place, const Draws& draws) {
  const double z = draws.Normal(place.index);
  return IsData(place) && 2 * place.row >= place.rows ? z * 1e-6 : z;
}
double Growing(const Place& place, const Draws& draws) {
  const double z = draws.Normal(place.index);
  return IsData(place) ? z * std::pow(1e6, Along(place) - 1) : z;
}
double Decaying(const Place& place, const Draws& draws) {
  const double z = draws.Normal(place.index);
  return place.rule.offset_axes.empty() ? z
                                        : z * std::exp(-16 * FromMiddle(place));
}
double Impulse(const Place& place, const Draws& draws) {
  return place.row == place.rows / 3 ? draws.Normal(place.index) : 0;
}
double Tiny(const Place& place, const Draws& draws) {
  return draws.Normal(place.index) * 0x1p-50;
}
double Huge(const Place& place, const Draws& draws) {
  return draws.Normal(place.index) * 0x1p+50;
}
double Offset(const Place& place, const Draws& draws) {
  return 100 + draws.Normal(place.index);
}
double OneHot(const Place& place, const Draws& draws) {
  if (!IsData(place)) return draws.Normal(place.index);
  return place.row % place.columns == place.column ? 16 : 0;
}
double Repeated(const Place& place, const Draws& draws) {
  return draws.Normal(
      static_cast<uint64_t>(place.row % 4 * place.columns + place.column));
}
double Sparse(const Place& place, const Draws& draws) {
  return draws.Uniform(place.index) < 0.9 ? 0 : draws.Normal(place.index);
}
double Spike(const Place& place, const Draws& draws) {
  const double z = draws.Normal(place.index);
  return place.row == 2 * place.rows / 3 && place.column == 0 ? z * 1e6 : z;
}
double Powers(const Place& place, const Draws& draws) {
  const double z = draws.Normal(place.index);
  return std::copysign(
      std::exp2(std::floor(9 * draws.Uniform(place.index)) - 4), z);
}
double Ramp(const Place& place, const Draws&) { return 2 * Along(place) - 1; }
double Sinusoid(const Place& place, const Draws&) {
  return std::sin(2 * std::numbers::pi *
                  (5 * Along(place) + static_cast<double>(place.column) / 8));
}
double Heavy(const Place& place, const Draws& draws) {
  return draws.Normal(place.index) / draws.Uniform(place.index);
}
double Positive(const Place& place, const Draws& draws) {
  return std::abs(draws.Normal(place.index));
}
double Opposite(const Place& place, const Draws& draws) {
  const uint64_t first =
      place.index - static_cast<uint64_t>(place.row % 2 * place.columns);
  return (place.row % 2 ? -1 : 1) * draws.Normal(first);
}
double Close(const Place& place, const Draws& draws) {
  return 1 + 0x1p-18 * draws.Normal(place.index);
}
double Masked(const Place& place, const Draws& draws) {
  if (place.rule.may_be_minus_infinity && FromMiddle(place) > 0.5)
    return -std::numeric_limits<double>::infinity();
  return draws.Normal(place.index);
}

}  // namespace

const std::vector<HardInput>& HardInputs() {
  static const std::vector<HardInput> inputs = {
      {"normal", "independent N(0, 1): any wrong index shows", Normal},
      {"integers", "small integers: sums are exact, results bit-equal",
       Integers},
      {"equal", "all ones: only a wrong number of terms shows", Equal},
      {"alternating", "signs by row that nearly cancel", Alternating},
      {"wide", "magnitudes over 24 powers of two in one tensor", Wide},
      {"dropping", "data fall by 1e-6 in the second half", Dropping},
      {"growing",
       "data grow by 1e6 along the sequence: the future drowns the "
       "past",
       Growing},
      {"decaying", "weights fall by e^-16 away from the middle", Decaying},
      {"impulse", "all rows but one are zero", Impulse},
      {"tiny", "N(0, 1) times 2^-50", Tiny},
      {"huge", "N(0, 1) times 2^50", Huge},
      {"offset", "N(100, 1): a large mean that a transform mixes in", Offset},
      {"onehot", "rows of one 16 and zeros: one key takes all the weight",
       OneHot},
      {"repeated", "four rows repeated: several scores are the largest",
       Repeated},
      {"sparse", "nine of ten values are zero", Sparse},
      {"spike", "one value is a million times larger", Spike},
      {"powers", "powers of two from 1/16 to 16: products are exact", Powers},
      {"ramp",
       "straight lines along the sequence: all energy in the lowest "
       "frequencies",
       Ramp},
      {"sinusoid", "five waves along the sequence: all energy at one frequency",
       Sinusoid},
      {"heavy", "N(0, 1) over a uniform: no variance, a few values decide",
       Heavy},
      {"positive", "|N(0, 1)|: nothing cancels, rounding adds up one way",
       Positive},
      {"opposite", "every second row is minus the one before: sums vanish",
       Opposite},
      {"close", "1 + N(0, 1) 2^-18: outputs differ in the last digits only",
       Close},
      {"masked", "bias is -inf for half of the offsets", Masked},
      {"unit", "rows of length 1, as after a normalisation", Normal, 1},
      {"long", "rows of length 16: random features span e^256", Normal, 16},
  };
  return inputs;
}

bool IsHardInput(std::string_view name) {
  return std::ranges::any_of(
      HardInputs(), [&](const HardInput& input) { return input.name == name; });
}

const HardInput& FindHardInput(std::string_view name) {
  std::vector<std::string> names;
  for (const HardInput& input : HardInputs()) {
    if (input.name == name) return input;
    names.emplace_back(input.name);
  }
  throw UnknownName("input", names, std::string(name));
}

}  // namespace subquad
