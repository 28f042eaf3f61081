// Reads case folders, format case/1: problems and outputs from outside.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reference/base/problem.h"

namespace subquad {

struct ExpectedTensor {
  std::string name;
  Shape shape;
  std::vector<double> values;
  bool is_float32 =
      false;  // if true, judged as the output of a float32 program
};

struct CaseFolder {
  std::string name;  // the folder's own
  std::string path;  // as given: several folders may have one name
  const Operator* op = nullptr;
  Problem problem;  // with scalar float64
  Inputs inputs;    // as in the files, not rounded
  std::vector<ExpectedTensor> expected;
  bool has_float32 =
      false;  // a file is float32: float32 programs are judged too
  // Every expected value may be off by this times the largest magnitude in its
  // tensor.
  double expected_error = 0;
  std::string source;
  // Digest of the inputs' names, shapes and values (FNV-1a, 16 hex digits),
  // which distinguishes folders of the same name.
  std::string digest;
};

// The content of case.json, before any array is read.
struct CaseText {
  const Operator* op = nullptr;
  Params params;                                        // not yet checked
  std::map<std::string, std::string> inputs, expected;  // tensor -> file
  double expected_error = 0;
  std::string source;
};

// Parses case.json. Throws InvalidInput that names the field. Every field
// except expected_error is required.
CaseText ParseCaseText(const std::string& text);

// Reads a folder and checks everything: format, names, types and ranges,
// shapes, finite values, and that all files are inside the folder and have the
// declared size. Throws InvalidInput that names the case, the file or field,
// and what is wrong. Allocates no more than a small multiple of the files'
// size.
CaseFolder ReadCaseFolder(const std::filesystem::path& folder);

}  // namespace subquad
