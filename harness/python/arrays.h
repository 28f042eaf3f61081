// Converts arrays and values from and to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "harness/python/given.h"

namespace subquad {

// Reads [(name, array, scalar type or ""), ..]: contiguous row-major arrays on
// the CPU, by DLPack or the buffer protocol. The scalar type is given if the
// array's own type does not determine it (bfloat16 as uint16). `kept` keeps the
// arrays alive; nothing is copied. Booleans need no scalar type.
using ReadOnlyArray =
    nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
std::vector<GivenArray> ArraysOf(nanobind::list tensors,
                                 std::vector<ReadOnlyArray>& kept);

// Reads parameters {name: value}, with values such as True, 12, 0.25, "elu1",
// [0, 5] or [[4, 1], [6]].
Params ParamsOf(nanobind::dict values);
nanobind::object ToPython(const Params& params);

// Returns a NumPy array that owns its values. bfloat16 and float16 are returned
// as uint16, which the package then views as their own type.
nanobind::object NumPyOf(const std::vector<double>& values, const Shape& shape,
                         Scalar scalar);
nanobind::object BooleansOf(const std::vector<double>& values,
                            const Shape& shape);
// Returns a NumPy array that takes ownership of memory allocated by new char[].
nanobind::object NumPyOwning(char* data, const Shape& shape, Scalar scalar);

}  // namespace subquad
