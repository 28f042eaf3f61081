#include "harness/generate.h"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <thread>

#include "harness/input_source.h"
#include "harness/omega.h"
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

// Scales rows of `width` numbers to a length; rows of zeros stay.
void ScaleRows(double norm, int64_t width, std::vector<double>& values) {
  for (size_t first = 0; first < values.size();
       first += static_cast<size_t>(width)) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c)
      squares += values[first + c] * values[first + c];
    if (squares == 0) continue;
    const double factor = norm / std::sqrt(squares);
    for (int64_t c = 0; c < width; ++c) values[first + c] *= factor;
  }
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

namespace {

void RoundAll(const Case& one, Tensor& tensor) {
  for (double& value : tensor.values) {
    const double rounded = RoundTo(one.scalar, value);
    if (std::isfinite(value) && !std::isfinite(rounded))
      throw InvalidInput(
          one.input + ": " + tensor.name,
          "numbers that fit into " + std::string(Info(one.scalar).name),
          std::to_string(value));
    value = rounded;
  }
}

}  // namespace

Inputs GenerateInputs(const Case& one, const Problem& problem) {
  Inputs inputs;
  const std::string id = one.DrawId();
  // What the folder does not have is drawn as ever.
  const Recipe& recipe = FindRecipe(one.source ? "normal" : one.input);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  for (size_t t = 0; t < problem.inputs.size(); ++t) {
    const TensorRule& rule = problem.inputs[t];
    if (one.source) {
      if (auto tensor = TensorFromSource(*one.source, problem, t)) {
        RoundAll(one, *tensor);
        inputs.tensors.push_back(std::move(*tensor));
        continue;
      }
    }
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
        const Place place{rule,     i % head_count / row_size,
                          rows,     i % row_size,
                          row_size, static_cast<uint64_t>(i)};
        // Random projections have a distribution of their own.
        double value = rule.draw == Draw::kPositive ? draws.Uniform(place.index)
                       : rule.draw == Draw::kProjection
                           ? draws.Normal(place.index)
                           : recipe.value(place, draws);
        if (rule.draw == Draw::kMixing)
          value /= std::sqrt(static_cast<double>(tensor.shape.back()));
        tensor.values[static_cast<size_t>(i)] = value;
      }
    });
    if (recipe.row_norm > 0 && rule.role == Role::kData)
      ScaleRows(recipe.row_norm, tensor.shape.back(), tensor.values);
    // The gaussian one is what stands there.
    if (rule.draw == Draw::kProjection && one.omega != "gaussian") {
      const Draws lengths(one.seed, id + "/" + rule.name + "/lengths");
      for (int64_t start = 0; start < count; start += head_count) {
        const auto omega = SampleOmega(one.omega, rows, row_size, draws,
                                       lengths, static_cast<uint64_t>(start));
        for (int64_t i = 0; i < head_count; ++i)
          tensor.values[static_cast<size_t>(start + i)] =
              omega[static_cast<size_t>(i)];
      }
    }
    for (double& value : tensor.values) value = RoundTo(one.scalar, value);
    inputs.tensors.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace subquad
