// Samples with the noise of clocks, for tests of medians and ratios.
#pragma once

#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

using Random = std::mt19937_64;
using Samples = std::vector<double>;

// Noise as clocks have it: symmetric, with a tail, and accumulated at its
// minimum.
struct Noise {
  std::string name;
  double median;
  std::function<double(Random&)> draw;
};

inline std::vector<Noise> AllNoise() {
  return {
      {"normal", 5.0,
       [](Random& random) {
         return std::normal_distribution<double>(5.0, 1.0)(random);
       }},
      {"lognormal", 1.0,
       [](Random& random) {
         return std::lognormal_distribution<double>(0.0, 0.8)(random);
       }},
      {"exponential", 1.0 + std::numbers::ln2,
       [](Random& random) {
         return 1.0 + std::exponential_distribution<double>(1.0)(random);
       }},
  };
}

inline Samples Draw(const Noise& noise, size_t count, Random& random) {
  Samples samples(count);
  for (double& sample : samples) sample = noise.draw(random);
  return samples;
}

inline bool Covers(const Interval& interval, double value) {
  return interval.low <= value && value <= interval.high;
}

inline constexpr int kTrials = 8000;  // standard error of 95 % coverage: 0.24 %

}  // namespace subquad
