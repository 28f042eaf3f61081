// Case folders, format case/1: problems and answers from outside.
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
  bool is_float32 = false;  // then taken as the answer of a float32 program
};

struct CaseFolder {
  std::string name;  // the folder's own
  std::string path;  // as given: several folders may have one name
  const Operator* op = nullptr;
  Problem problem;  // with scalar float64
  Inputs inputs;    // as in the files, not rounded
  std::vector<ExpectedTensor> expected;
  bool has_float32 = false;  // in a file: then float32 programs are asked about
  // Every expected number may be off by this times the largest magnitude in its
  // tensor.
  double expected_error = 0;
  std::string source;
  // Of the inputs' names, shapes and numbers (FNV-1a, 16 hex digits): folders
  // of the same name and other contents are told apart by it.
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

// Throws InvalidInput that names the field. Every field but expected_error must
// be there.
CaseText ParseCaseText(const std::string& text);

// Reads and checks everything: the format, names, types and ranges, that files
// stay inside the folder and hold what they promise, shapes, finite numbers.
// Throws InvalidInput that names the case, the file or field, and what is
// wrong. Allocates no more than a small multiple of what the files hold.
CaseFolder ReadCaseFolder(const std::filesystem::path& folder);

}  // namespace subquad
