// Measures how far an output is from the reference. This file computes errors
// and ratios; verdict.h decides what they mean.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/judging/answer.h"
#include "reference/contract/implementation.h"

namespace subquad {

// The place of an element in an output.
struct ElementPlace {
  std::string output;
  RowId id;
  int64_t column = 0;
  int64_t heads_of_item = 0;  // OutputAnswer::heads_of_item

  // "out batch 1 head 2 row 71 column 25"
  std::string Text() const;
  std::string RowText() const;  // without the column
};

// The plain dense program as a yardstick for one output. If values are stored
// in a narrower type than the arithmetic uses, the rounding of the stored value
// is first subtracted from the errors. What remains is the error of the
// arithmetic, which is float32 for the plain program.
struct Yardstick {
  double over_plain = 0;  // largest error / that of the plain program
  double error = 0;       // the largest error, absolute
  double given = 0;       // OutputAnswer::given_error, subtracted from `error`
  double plain = 0;       // what the rest is divided by
};

// The rows of one output in which gate 1 accepts anything of the usual size:
// the tolerance of every element exceeds `largest`.
struct OpenRows {
  int64_t count = 0;
  ElementPlace first;
  double largest = 0;    // OutputAnswer::largest
  double tolerance = 0;  // the smallest in these rows, absolute
};

struct Comparison {
  Scalar scalar = Scalar::kFloat32;
  int64_t rows = 0;      // compared
  int64_t elements = 0;  // compared
  bool all_rows = true;
  // NaN or infinite where the reference is finite and the plain program has a
  // bound or a right digit.
  int64_t not_finite = 0;
  int64_t untouched = 0;  // still the NaN that was there before the run
  // Elements that were written and are not judged: neither the algorithm nor
  // the plain dense program has a finite error bound there.
  int64_t without_digits = 0;
  ElementPlace first_without_digits;
  // Elements at which the plain program's bound is finite and the algorithm's
  // own is not.
  int64_t lost_bounds = 0;
  ElementPlace first_lost_bound;
  bool zero_reference = true;
  double max_error = 0;               // absolute, over all elements
  double max_over_bound = 0;          // gate 1: the largest error / bound
  double bound = 0;                   // at that element
  double plain_error = 0;             // of the plain dense program, absolute
  double over_plain = 0;              // gate 2: the largest of the yardsticks
  std::vector<Yardstick> yardsticks;  // by output
  std::vector<OpenRows> open_rows;    // by output
  ElementPlace worst;                 // the element nearest to gate 1's limit

  int64_t judged() const { return elements - without_digits; }
};

// The poison that outputs are filled with: all bits one, a NaN.
bool IsPoison(Scalar scalar, const void* data, int64_t index);
double ElementAt(Scalar scalar, const void* data, int64_t index);
// `value` is already rounded to the type.
void StoreAt(Scalar scalar, double value, void* data, size_t index);

// The error bound of an implementation, in unit roundoffs, for the rows of the
// answer.
struct Tolerance {
  std::vector<std::vector<double>> units;  // by output, [rows, width]
};

// Returns the tolerance from norm-wise units if there is a `bound`, otherwise
// bound_factor times the plain program's units.
Tolerance ToleranceOf(const Answer& answer, double bound_factor,
                      const RowBound& bound);

// Compares the outputs of a run with the answer. Gate 2 covers the elements for
// which the plain program has a finite bound.
Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, const Tolerance& tolerance);

// Rows of one output that a program might have written.
struct FoundRows {
  size_t output = 0;
  std::vector<size_t> rows;  // of OutputAnswer::selection
  // Returns an element of rows[r]; it is rounded to the problem's type when it
  // is compared.
  std::function<long double(size_t r, int64_t column)> value;
};

// Returns rows whose values are stored, [rows, width].
FoundRows KeptRows(size_t output, std::vector<size_t> rows, size_t width,
                   std::vector<long double> values);

// Returns up to `most` row indices below `rows` in increasing order: the first,
// the last, and one of each of as many equal parts between them as remain, at
// places that follow no period, so that no stride hides the others.
std::vector<size_t> SpreadRows(size_t rows, size_t most);

// The rows of the answer that a program with a certain mistake returns.
struct WrongAnswer {
  std::string name;  // the mistake, in words
  std::vector<FoundRows> parts;
  // True if the mistake leaves all other rows right. If false, they were not
  // computed.
  bool right_elsewhere = false;
  // Inputs that would reveal it, in words; empty if none are known.
  std::string remedy = {};
  // Small by design (for example a missing eps): the margin does not count it.
  bool small_by_design = false;
  // Some shapes hide it from every choice of values (for example equal numbers
  // of queries and keys). `remedy` names shapes that do not.
  bool hidden_by_shapes = false;
  // About an option that is given, such as a mask. A test whose values hide it
  // does not test the option.
  bool of_option = false;
};

// Compares an output that is right except in these rows.
Comparison CompareRows(const Problem& problem, const Answer& answer,
                       std::span<const FoundRows> parts,
                       const Tolerance& tolerance);

// Returns an element of one output; `r` counts the rows of the answer.
using FoundNumbers = std::function<double(size_t r, int64_t column)>;
// Returns the elements that a run has written into its arrays.
FoundNumbers FoundIn(const Arrays& arrays, size_t output,
                     const OutputAnswer& answer);

// Returns error divided by tolerance for every element of one output,
// [rows, width]; infinite for elements that are not finite. The tolerance is
// that of gate 1 with these units and, if `yardstick_factor` is not zero, also
// `yardstick_factor` times the plain program's error.
std::vector<double> OverTolerance(const Problem& problem,
                                  const OutputAnswer& answer,
                                  const FoundNumbers& element_of,
                                  const std::vector<double>& units,
                                  double yardstick_factor);

// Returns the largest ratio of each row; only gate 1 counts if there is a
// `bound`.
std::vector<double> RowsOverTolerance(const Problem& problem, size_t output,
                                      const OutputAnswer& answer,
                                      const Arrays& arrays, double bound_factor,
                                      const RowBound& bound,
                                      double yardstick_factor);

}  // namespace subquad
