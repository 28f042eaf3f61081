// The CPU programs, compiled once for each instruction set. A program holds all
// of them, and runs those for the best set that the processor has unless it is
// told to take another one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

// What the files of optimized/ give, compiled for one instruction set: all of
// them that can be called from elsewhere (optimized/optimized.cmake).
struct Target {
  const char* name;  // "avx2"

  std::vector<Implementation> (*implementations)();

  // Multiply-adds on one thread, two flops each.
  double (*measure_flops_per_second)(bool float64);

  // Features as the programs compute them: of `rows` vectors x [rows, d] the
  // mantissas and the exponents of two [rows, f].
  void (*features)(const FeatureMapSpec& spec, const double* x, int64_t rows,
                   const double* omega, double* mantissas, double* exponents);
};

// Those that this program holds and this processor has, the best one first.
const std::vector<const Target*>& Targets();

// The one whose programs run: the best, what SUBQUAD_TARGET names, or what was
// chosen. Throws InvalidInput where SUBQUAD_TARGET names none of Targets().
const Target& CurrentTarget();

// Chooses it from here on, and for programs that this one starts. Throws
// InvalidInput unless it is one of Targets().
void ChooseTarget(std::string_view name);

}  // namespace subquad
