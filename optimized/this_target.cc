// The only interface of optimized/ to the rest of the program: compiled once
// for each target, like everything that it calls.
#include <hwy/highway.h>

#include <iterator>
#include <ranges>
#include <vector>

#include "optimized/base/machine_peak.h"
#include "optimized/implementations.h"
#include "optimized/kernelized/feature_rows.h"
#include "optimized/targets.h"

namespace subquad {
namespace {

static_assert(HWY_TARGET == SUBQUAD_HIGHWAY_TARGET,
              "the compiler's flags are not those of this target");

std::vector<Implementation> AllImplementations() {
  std::vector<Implementation> list;
  for (auto* table : kTables)
    std::ranges::move(table(), std::back_inserter(list));
  return list;
}

void Features(const FeatureMapSpec& spec, const double* x, int64_t rows,
              const double* omega, double* mantissas, double* exponents) {
  const FeatureRows<double> features(spec);
  std::vector<double> scratch(static_cast<size_t>(features.ScratchSize(rows)));
  features.Compute(x, rows, omega, scratch.data(), mantissas, exponents);
}

}  // namespace
}  // namespace subquad

extern "C" {
extern const subquad::Target SUBQUAD_TARGET_SYMBOL;
const subquad::Target SUBQUAD_TARGET_SYMBOL = {
    SUBQUAD_TARGET_NAME, subquad::AllImplementations,
    subquad::MeasureFlopsPerSecond, subquad::Features};
}
