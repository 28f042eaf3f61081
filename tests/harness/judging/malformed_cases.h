// All ways in which a case folder can be malformed, as corrupted golden cases.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/base/npy.h"
#include "tests/case_files.h"

namespace subquad {

// A folder of files that can be corrupted.
struct Spoilt {
  fs::path folder;
  Json json;

  void Save() const { Write(folder / "case.json", json.dump(1)); }
  std::string Bytes(const std::string& file) const {
    return Slurp(folder / file);
  }
  void SetBytes(const std::string& file, const std::string& bytes) const {
    Write(folder / file, bytes);
  }
  // Replaces text in a header, whose padding allows a replacement of equal
  // length.
  void Patch(const std::string& file, const std::string& from,
             const std::string& to) const {
    std::string bytes = Bytes(file);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size());
    SetBytes(file, bytes.replace(at, from.size(), to));
  }
  void SetArray(const std::string& file, const std::vector<int64_t>& shape,
                double value = 1) const {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    WriteNpy(folder / file, shape,
             std::vector<double>(static_cast<size_t>(count), value), false);
  }
  void SetNumber(const std::string& file, size_t index, double value) const {
    NpyArray array = ReadNpy(folder / file, NpyTypes::kNumbers);
    array.values.at(index) = value;
    WriteNpy(folder / file, array.shape, array.values, array.is_float32);
  }
};

struct Malformed {
  std::string name;
  std::string base;  // the golden case to corrupt
  std::function<void(Spoilt&)> spoil;
  std::vector<std::string> words;  // that the message must contain
};

inline void PrintTo(const Malformed& malformed, std::ostream* stream) {
  *stream << malformed.name;
}

std::vector<Malformed> AllMalformed();

}  // namespace subquad
