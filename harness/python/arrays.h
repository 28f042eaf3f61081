// Python's arrays and values in our terms, and ours in Python's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "harness/python/given.h"

namespace subquad {

// [(name, array, scalar type or ""), ..]: arrays on the CPU, row-major and
// without gaps, by DLPack or the buffer protocol. A scalar type is named where
// the array's own type cannot say it (bfloat16 as uint16). `kept` holds the
// arrays alive; nothing is copied.
using ReadOnlyArray =
    nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;
std::vector<GivenArray> ArraysOf(nanobind::list tensors,
                                 std::vector<ReadOnlyArray>& kept);

// {name: True, 12, 0.25, "elu1", [0, 5] or [[4, 1], [6]]}.
Params ParamsOf(nanobind::dict values);
nanobind::object ToPython(const Params& params);

// A NumPy array that owns its numbers. bfloat16 and float16 come as uint16, to
// be viewed as what they are.
nanobind::object NumPyOf(const std::vector<double>& values, const Shape& shape,
                         Scalar scalar);
// The same from memory that it takes over, allocated by new char[].
nanobind::object NumPyOwning(char* data, const Shape& shape, Scalar scalar);

}  // namespace subquad
