#include "harness/generate.h"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <thread>

#include "optimized/thread_pool.h"

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

// Where an element of a tensor stands.
struct Place {
  const TensorRule& rule;
  int64_t row, rows;  // along the first axis of one head
};

// The recipes alter a normal draw z; u is an independent uniform one.
double Integers(const Place&, double z, double) {
  return std::clamp(std::round(2 * z), -4.0, 4.0);
}
double Equal(const Place&, double, double) { return 1; }
double Alternating(const Place& place, double z, double) {
  return (place.row % 2 ? -1 : 1) * (1 + z / 1024);
}
double Wide(const Place&, double z, double u) {
  return z * std::exp2(std::floor(24 * u) - 12);
}
double Dropping(const Place& place, double z, double) {
  return place.rule.role == Role::kData && 2 * place.row >= place.rows
             ? z * 1e-6
             : z;
}
double Decaying(const Place& place, double z, double) {
  if (place.rule.offset_axes.empty()) return z;
  const double half = static_cast<double>(place.rows) / 2;
  return z *
         std::exp(-16 * std::abs(static_cast<double>(place.row) - half) / half);
}
double Impulse(const Place& place, double z, double) {
  return place.row == place.rows / 3 ? z : 0;
}
double Tiny(const Place&, double z, double) { return z * 0x1p-50; }
double Huge(const Place&, double z, double) { return z * 0x1p+50; }
double Offset(const Place&, double z, double) { return 100 + z; }
double Normal(const Place&, double z, double) { return z; }

struct RecipeCode {
  Recipe recipe;
  double (*alter)(const Place&, double z, double u);
};

const std::vector<RecipeCode>& Codes() {
  static const std::vector<RecipeCode> codes = {
      {{"normal", "independent N(0, 1): any wrong index shows"}, Normal},
      {{"integers", "small integers: sums are exact, results bit-equal"},
       Integers},
      {{"equal", "all ones: a wrong count of terms shows alone"}, Equal},
      {{"alternating", "signs by row that nearly cancel"}, Alternating},
      {{"wide", "magnitudes over 24 powers of two in one tensor"}, Wide},
      {{"dropping", "data fall by 1e-6 in the second half"}, Dropping},
      {{"decaying", "weights fall by e^-16 away from the middle"}, Decaying},
      {{"impulse", "one row alone is not zero"}, Impulse},
      {{"tiny", "N(0, 1) times 2^-50"}, Tiny},
      {{"huge", "N(0, 1) times 2^50"}, Huge},
      {{"offset", "N(100, 1): a large mean that a transform mixes in"}, Offset},
  };
  return codes;
}

double (*CodeOf(std::string_view name))(const Place&, double, double) {
  for (const RecipeCode& code : Codes())
    if (code.recipe.name == name) return code.alter;
  return Normal;
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
  // Two draws to a block of words: the radius and the angle of both.
  const auto words = Philox(seed_, stream_, index / 2 | uint64_t{1} << 63);
  const double radius = std::sqrt(-2 * std::log(ToUniform(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * ToUniform(words[2], words[3]);
  return radius * (index % 2 ? std::sin(angle) : std::cos(angle));
}

const std::vector<Recipe>& Recipes() {
  static const std::vector<Recipe> recipes = [] {
    std::vector<Recipe> list;
    for (const RecipeCode& code : Codes()) list.push_back(code.recipe);
    return list;
  }();
  return recipes;
}

const Recipe& FindRecipe(std::string_view name) {
  std::string names;
  for (const Recipe& recipe : Recipes()) {
    if (recipe.name == name) return recipe;
    names += (names.empty() ? "" : ", ") + std::string(recipe.name);
  }
  throw InvalidInput("input", "one of " + names, "'" + std::string(name) + "'");
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
      // 11 bits of significand, fewer below 2^-14.
      const double unit = std::ldexp(1.0, std::max(exponent, -13) - 11);
      const double rounded = std::nearbyint(value / unit) * unit;
      return std::abs(rounded) > 65504 ? std::copysign(HUGE_VAL, value)
                                       : rounded;
    }
  }
  return value;
}

Inputs GenerateInputs(const Case& one, const Problem& problem) {
  Inputs inputs;
  const std::string id = one.DrawId();
  auto* const alter = CodeOf(one.input);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  for (size_t t = 0; t < problem.inputs.size(); ++t) {
    const TensorRule& rule = problem.inputs[t];
    Tensor tensor;
    tensor.name = rule.name;
    tensor.shape = problem.InputShape(t);
    const int64_t count = ElementCount(tensor.shape);
    const int64_t head_count =
        problem.input_per_head[t] ? count / problem.heads : count;
    tensor.head_stride = problem.input_per_head[t] ? head_count : 0;
    tensor.values.resize(static_cast<size_t>(count));
    const int64_t rows = tensor.shape[problem.input_per_head[t] ? 1 : 0];
    const int64_t row_size = head_count / rows;
    const Draws draws(one.seed, id + "/" + rule.name);
    constexpr int64_t kChunk = 1 << 14;
    pool.For((count + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
      const int64_t end = std::min(count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const uint64_t index = static_cast<uint64_t>(i);
        double value;
        if (rule.draw == Draw::kPositive) {
          value = draws.Uniform(index);
        } else {
          value = draws.Normal(index);
          const Place place{rule, i % head_count / row_size, rows};
          if (alter != Normal)
            value = alter(place, value, draws.Uniform(index));
          if (rule.draw == Draw::kMixing)
            value /= std::sqrt(static_cast<double>(tensor.shape.back()));
        }
        tensor.values[static_cast<size_t>(i)] = RoundTo(one.scalar, value);
      }
    });
    inputs.tensors.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace subquad
