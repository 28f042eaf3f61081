// What is wrong with an output that failed: how much of it, where, and which
// mistake it looks like. For people; no verdict depends on it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace subquad {

// The mistake that an output looks like.
struct Resemblance {
  std::string name;  // the mistake, in words; empty: no mistake known here
  // The distance to that mistake's answer / the distance to the right one, both
  // root mean squares.
  double ratio = 1;
  // Largest error of what was found, if that mistake's answer were right, over
  // the tolerance. Infinite where the mistake has no one answer.
  double tolerances = std::numeric_limits<double>::infinity();
  int64_t known = 0;  // mistakes that it was held against

  // "looks like: bias left out (0.1 tolerances away)", or "like none of 31
  // known mistakes".
  std::string Text() const;
};

// The elements of one output that are beyond their tolerance.
struct WrongElements {
  std::string output;
  int64_t wrong = 0, elements = 0;  // compared
  // Where they are. Rows and heads are those of a batch item.
  int64_t first_row = 0, last_row = 0, rows = 0;  // rows: that a head has
  std::vector<int64_t> heads, items;              // in ascending order
  int64_t of_heads = 1, of_items = 1;             // that there are

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
