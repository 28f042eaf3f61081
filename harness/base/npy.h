// Reads and writes NumPy .npy files, the arrays of a case folder.
//
// The format is numpy.lib.format, versions 1.0 and 2.0: a magic, two version
// bytes, the length of a header, the header (a Python dict literal with the
// keys descr, fortran_order and shape), then the raw values. Since files come
// from outside, the reader is strict about the header and compares every
// declared size with the file's size before it allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace subquad {

struct NpyArray {
  std::vector<int64_t> shape;  // 1 to 5 dimensions, each at least 1
  bool is_float32 = false;     // the file holds <f4
  std::vector<double> values;  // row-major, unchanged: NaN included
};

// The types of numbers that a file may hold: little-endian float32 and float64,
// or also booleans, integers and float16.
enum class NpyTypes { kFloats, kNumbers };

// Reads one file. Throws InvalidInput, which begins with the file's name
// (without its folders), for anything but a regular file that contains exactly
// one array of these types in C order with 1 to 5 dimensions.
// Never allocates more than a small multiple of the file's size, and never
// waits for a pipe or a device.
NpyArray ReadNpy(const std::filesystem::path& path,
                 NpyTypes types = NpyTypes::kFloats);

// Reads only the header; `values` stays empty. Throws InvalidInput for the same
// reasons as ReadNpy, except for those that concern the values.
NpyArray ReadNpyHeader(const std::filesystem::path& path,
                       NpyTypes types = NpyTypes::kFloats);

// Reads the bytes of a file that are already in memory; `name` is the file's
// name in messages.
NpyArray ParseNpy(std::span<const std::byte> bytes, const std::string& name,
                  NpyTypes types = NpyTypes::kFloats);

// Returns the bytes before the data of such an array, in version 1.0 and padded
// to a multiple of 64 bytes. Throws InvalidInput for a shape that the reader
// would reject.
std::string NpyHeader(std::span<const int64_t> shape, bool is_float32);

// Writes one file of version 1.0 under a temporary name in the same folder and
// renames it, so that an interruption never leaves half a file. Throws
// InvalidInput if the shape and the number of values differ, if a finite value
// is out of the range of float32, or if the file cannot be written.
void WriteNpy(const std::filesystem::path& path, std::span<const int64_t> shape,
              std::span<const double> values, bool is_float32);

}  // namespace subquad
