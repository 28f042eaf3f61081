// The CPU implementations, compiled once for each instruction set. A program
// contains all of them, and runs those for the best set that the processor has
// unless it is told to use another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

// The interface of the files of optimized/ compiled for one instruction set:
// everything that can be called from elsewhere (optimized/optimized.cmake).
struct Target {
  const char* name;  // "avx2"

  std::vector<Implementation> (*implementations)();

  // Measures multiply-adds on one thread, counting two flops each.
  double (*measure_flops_per_second)(bool float64);

  // Computes features as the implementations do: for `rows` vectors x [rows, d]
  // the mantissas and the exponents of two [rows, f].
  void (*features)(const FeatureMapSpec& spec, const double* x, int64_t rows,
                   const double* omega, double* mantissas, double* exponents);
};

// Lists the targets that this program contains and this processor supports, the
// best first.
const std::vector<const Target*>& Targets();

// Returns the target whose implementations run: the best, the one that
// SUBQUAD_TARGET names, or the chosen one. Throws InvalidInput if
// SUBQUAD_TARGET names none of Targets().
const Target& CurrentTarget();

// Chooses the target from here on, also for programs that this one starts.
// Throws InvalidInput unless it is one of Targets().
void ChooseTarget(std::string_view name);

}  // namespace subquad
