// Helpers for the table rows of the CPU implementations.
#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/contract/table.h"

namespace subquad {

using PrepareProgram = std::unique_ptr<Prepared>(const Problem& problem,
                                                 const Arrays& arrays,
                                                 Layout& layout);

inline std::vector<Implementation> CpuTable(std::string_view op,
                                            std::vector<Implementation> rows) {
  return CompleteTable(op, Backend::kCpu, {Scalar::kFloat32, Scalar::kFloat64},
                       std::move(rows));
}

// Returns make<T>(), T being the problem's scalar type. Copies with planted
// faults (tests/mutants) are compiled and run in float32 only.
template <typename Make>
static std::unique_ptr<Prepared> ForScalar(const Problem& problem,
                                           const Make& make) {
#ifdef SUBQUAD_FLOAT32_ONLY
  if (problem.scalar != Scalar::kFloat32)
    throw std::logic_error("this build has only float32");
#else
  if (problem.scalar == Scalar::kFloat64)
    return make.template operator()<double>();
#endif
  return make.template operator()<float>();
}

// `prepare` of a class template over the scalar type, constructed from
// (problem, arrays, layout): PrepareFor<Fft>. It is static because GCC gives
// external linkage to instantiations with a template of an unnamed namespace:
// two files with a `Dense` each would share one instance.
template <template <typename> class Algorithm>
static std::unique_ptr<Prepared> PrepareFor(const Problem& problem,
                                            const Arrays& arrays,
                                            Layout& layout) {
  return ForScalar(problem, [&]<typename T>() -> std::unique_ptr<Prepared> {
    return std::make_unique<Algorithm<T>>(problem, arrays, layout);
  });
}

// `prepare` of an algorithm whose backward pass is a separate class.
template <template <typename> class Forward, template <typename> class Backward>
static std::unique_ptr<Prepared> PrepareForEither(const Problem& problem,
                                                  const Arrays& arrays,
                                                  Layout& layout) {
  return problem.backward ? PrepareFor<Backward>(problem, arrays, layout)
                          : PrepareFor<Forward>(problem, arrays, layout);
}

}  // namespace subquad
