// libFuzzer target: no input may crash ParseNpy, make it allocate much more
// than its own size, or be accepted as an array that cannot be written again.
//
//   clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined
//     tests/harness/base/fuzz_npy.cc harness/base/npy.cc
//     harness/base/npy_header.cc -o fuzz_npy
//   ./fuzz_npy -malloc_limit_mb=64 -rss_limit_mb=2048 CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "harness/base/npy.h"
#include "reference/base/invalid_input.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  subquad::NpyArray array;
  try {
    array = subquad::ParseNpy(AsBytes(bytes), "fuzz.npy");
  } catch (const subquad::InvalidInput& refusal) {
    const std::string_view line = refusal.what();
    Require(line.starts_with("fuzz.npy: expected "));
    Require(line.size() < 400);
    for (const char c : line) Require(c >= 0x20 && c < 0x7f);
    return 0;
  }

  Require(!array.shape.empty() && array.shape.size() <= 3);
  size_t count = 1;
  for (const int64_t dimension : array.shape) {
    Require(dimension >= 1);
    count *= static_cast<size_t>(dimension);
  }
  Require(count == array.values.size());

  // Writing the same data with our own header and reading it gives the same
  // array, bit by bit.
  const size_t data_bytes = count * (array.is_float32 ? 4 : 8);
  Require(data_bytes < size);
  const std::string again = subquad::NpyHeader(array.shape, array.is_float32) +
                            bytes.substr(size - data_bytes);
  const subquad::NpyArray second =
      subquad::ParseNpy(AsBytes(again), "fuzz.npy");
  Require(second.shape == array.shape);
  Require(second.is_float32 == array.is_float32);
  Require(second.values.size() == count &&
          std::memcmp(second.values.data(), array.values.data(),
                      count * sizeof(double)) == 0);
  return 0;
}
