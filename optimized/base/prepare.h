// What rows of the tables of CPU programs share.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/table.h"

namespace subquad {

inline std::vector<Implementation> CpuTable(std::string_view op,
                                            std::vector<Implementation> rows) {
  return CompleteTable(op, Backend::kCpu, {Scalar::kFloat32, Scalar::kFloat64},
                       std::move(rows));
}

// `prepare` of a class template over the scalar type, constructed from
// (problem, arrays, layout): PrepareFor<Fft>. Static, because GCC takes what is
// made from a template of an unnamed namespace for visible everywhere: two
// files with a `Dense` each would share one.
template <template <typename> class Algorithm>
static std::unique_ptr<Prepared> PrepareFor(const Problem& problem,
                                            const Arrays& arrays,
                                            Layout& layout) {
  if (problem.scalar == Scalar::kFloat64)
    return std::make_unique<Algorithm<double>>(problem, arrays, layout);
  return std::make_unique<Algorithm<float>>(problem, arrays, layout);
}

}  // namespace subquad
