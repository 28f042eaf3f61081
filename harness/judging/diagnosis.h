// Explains why an output failed: how many elements are wrong, which ones, and
// which known mistake the output resembles. No verdict depends on it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace subquad {

// The mistake that an output looks like.
struct Resemblance {
  std::string name;  // the mistake, in words; empty if it resembles none
  // Distance of the output to that mistake's answer divided by its distance to
  // the right one, both as root mean squares.
  double ratio = 1;
  // The largest error of the output if that mistake's answer were right,
  // divided by the tolerance. Infinite if the mistake has no single answer.
  double tolerances = std::numeric_limits<double>::infinity();
  int64_t known = 0;  // number of mistakes that it was compared with

  // Returns "looks like: bias left out (0.1 tolerances away)" or "resembles
  // none of the 31 mistakes tried".
  std::string Text() const;
};

// The elements of one output whose error exceeds the tolerance.
struct WrongElements {
  std::string output;
  int64_t wrong = 0, elements = 0;  // compared
  // Their position. Rows and heads are counted within a batch item.
  int64_t first_row = 0, last_row = 0, rows = 0;  // rows: rows of a head
  std::vector<int64_t> heads, items;              // in ascending order
  int64_t of_heads = 1, of_items = 1;             // how many exist

  // "rows 64 to 127 of 128, head 2 of 8"
  std::string Text() const;
};

struct Diagnosis {
  int64_t elements = 0;                // compared, of all outputs
  std::vector<WrongElements> outputs;  // with at least one wrong element
  Resemblance looks_like;

  // "100 % of elements"
  std::string ShareText() const;
  double Share() const;
};

}  // namespace subquad
