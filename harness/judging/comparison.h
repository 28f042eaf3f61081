// How far an output is from the reference: numbers without policy.
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
};

// The plain dense program as a yardstick for one output. Where numbers are
// stored in a narrower type than the arithmetic's, errors are those beyond what
// storing may cost: of the arithmetic, which for the plain program is
// float32's.
struct Yardstick {
  double over_plain = 0;  // largest error / that of the plain program
  double error = 0;       // the largest error, absolute
  double given = 0;       // OutputAnswer::given_error, taken off it first
  double plain = 0;       // what the rest is divided by
};

struct Comparison {
  Scalar scalar = Scalar::kFloat32;
  int64_t rows = 0;      // compared
  int64_t elements = 0;  // compared
  bool all_rows = true;
  int64_t not_finite = 0;  // NaN or infinite where the reference is finite
  int64_t untouched = 0;   // still the poison of before the run
  // Written, and no error of theirs could be too large: neither the algorithm
  // nor the plain dense program has a finite bound there. Not judged.
  int64_t without_digits = 0;
  ElementPlace first_without_digits;
  // The algorithm's own bound is not finite where the plain program's is.
  int64_t lost_bounds = 0;
  ElementPlace first_lost_bound;
  bool zero_reference = true;
  double max_error = 0;               // absolute, over all elements
  double max_over_bound = 0;          // gate 1: the largest error / bound
  double bound = 0;                   // at that element
  double plain_error = 0;             // of the plain dense program, absolute
  double over_plain = 0;              // gate 2: the largest of the yardsticks
  std::vector<Yardstick> yardsticks;  // by output
  ElementPlace worst;                 // where gate 1 was tightest

  int64_t judged() const { return elements - without_digits; }
};

// The poison that outputs are filled with: all bits one, a NaN.
bool IsPoison(Scalar scalar, const void* data, int64_t index);
double ElementAt(Scalar scalar, const void* data, int64_t index);
// `value` is already rounded to the type.
void StoreAt(Scalar scalar, double value, void* data, size_t index);

// What an implementation is allowed, on the rows of the answer.
struct Tolerance {
  std::vector<std::vector<double>> units;  // by output, [rows, width]
};

// `bound` gives norm-wise units or is empty: then bound_factor times the plain
// program's units count.
Tolerance ToleranceOf(const Answer& answer, double bound_factor,
                      const RowBound& bound);

// Compares the outputs of a run with the answer. Gate 2 is taken over the
// elements for which the plain program has a finite bound.
Comparison Compare(const Problem& problem, const Answer& answer,
                   const Arrays& arrays, const Tolerance& tolerance);

// Rows of one output that a program might have written.
struct FoundRows {
  size_t output = 0;
  std::vector<size_t> rows;  // of OutputAnswer::selection
  // Of rows[r]; rounded to the problem's type when it is compared.
  std::function<long double(size_t r, int64_t column)> value;
};

// The same with its numbers, [rows, width].
FoundRows KeptRows(size_t output, std::vector<size_t> rows, size_t width,
                   std::vector<long double> values);

// Up to `most` of so many rows, spread over all of them, the first and the last
// included.
std::vector<size_t> SpreadRows(size_t rows, size_t most);

// Rows of an answer that a mistake makes.
struct WrongAnswer {
  std::string name;  // the mistake, in words
  std::vector<FoundRows> parts;
  // The other rows are as they should be, and not only left out here.
  bool right_elsewhere = false;
  // What would show it better, in words; empty: nothing is known.
  std::string remedy = {};
  // It leaves out a number that may be too small to matter, such as an eps: no
  // margin counts it.
  bool small_by_choice = false;
};

// The same for an answer that is right but in these rows.
Comparison CompareRows(const Problem& problem, const Answer& answer,
                       std::span<const FoundRows> parts,
                       const Tolerance& tolerance);

// The numbers of one output, by row of the answer.
using FoundNumbers = std::function<double(size_t r, int64_t column)>;
// Those in the arrays of a run.
FoundNumbers FoundIn(const Arrays& arrays, size_t output,
                     const OutputAnswer& answer);

// Error over tolerance of every element, [rows, width], of one output of the
// problem; infinite where it is not finite. The tolerance is that of gate 1
// with these units and, unless it is zero, `yardstick_factor` times the plain
// program's error.
std::vector<double> OverTolerance(const Problem& problem,
                                  const OutputAnswer& answer,
                                  const FoundNumbers& found,
                                  const std::vector<double>& units,
                                  double yardstick_factor);

// The same with the largest of each row alone; of gate 1 alone where there is
// a `bound`.
std::vector<double> RowsOverTolerance(const Problem& problem, size_t output,
                                      const OutputAnswer& answer,
                                      const Arrays& arrays, double bound_factor,
                                      const RowBound& bound,
                                      double yardstick_factor);

}  // namespace subquad
