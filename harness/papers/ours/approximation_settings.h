// Ways to approximate softmax attention that this project has, each at several
// settings from coarse to fine, as problems of its operators on a given head.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"

namespace subquad {

// A head of softmax attention over n tokens, without a bias and not causal.
struct PlainHead {
  int64_t n = 0, d = 0, e = 0;
  double scale = 0;
  Numbers q, k, v;  // [n, d], [n, d], [n, e]
};

// A program of an operator, and what it is given.
struct Approximation {
  std::string op, program;
  Params params;
  std::vector<GivenTensor> tensors;

  Trial MakeTrial() const;
  const Implementation& Find() const;
};

struct ApproximationSetting {
  std::string method;  // "random features"
  std::string what;    // what the level counts: "features"
  int64_t level = 0;
  // `seed`: of what is random in it.
  std::function<Approximation(const PlainHead& head, uint64_t seed)> make;
};

// In the order of methods, and of levels within each. Those whose level is no
// divisor of n, or not below it, are left out.
std::vector<ApproximationSetting> ApproximationSettings(int64_t n);

// Exact attention, for its time.
Approximation ExactAttention(const PlainHead& head);

// What needs no queries, or no keys: what an approximation has to beat.
struct NullBaseline {
  std::string name;
  Numbers (*output)(const PlainHead& head);
};
const std::vector<NullBaseline>& NullBaselines();

}  // namespace subquad
