// The reference's answers for a problem: all rows of every output, or enough of
// them, with the errors that the plain dense program makes on the same rows.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator.h"

namespace subquad {

// Up to this many rows of a head are compared in full; above, the first, the
// last, those at block edges and a random sample.
inline constexpr int64_t kAllRows = 4096;
inline constexpr int64_t kSampledRows = 192;
// Where rows take long, a smaller sample, but at least this many of all heads.
inline constexpr int64_t kFewestSampledRows = 24;

struct RowSelection {
  std::vector<RowId> rows;
  bool all = true;
};

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The rows of one output that are compared. The sample depends on the seed.
// The reference's multiply-adds for all outputs are at most about `most_work`,
// as far as the fewest rows allow.
RowSelection SelectRows(const Problem& problem, int output, uint64_t seed,
                        double most_work = kNoLimit);
// Those of every output.
std::vector<RowSelection> SelectRows(const Problem& problem, uint64_t seed,
                                     double most_work = kNoLimit);

struct OutputAnswer {
  std::string name;
  RowSelection selection;
  int64_t width = 1;  // numbers in a row
  // Of each batch item, where there are several; 0: the rows have no batch
  // axis.
  int64_t heads_of_item = 0;
  std::vector<long double> value;  // [rows, width]
  std::vector<double> units;       // bound of the plain program, in roundoffs
  std::vector<double> slack;       // error of `value` itself; empty: none
  // What an answer from outside says that each of its numbers may be off by.
  // Both gates allow exactly this more.
  double given_error = 0;
  // Over the elements with a finite bound:
  double plain_error = 0;  // the plain program's largest error, in arithmetic
  double largest = 0;      // of the reference, in absolute value
  // Of the largest number: an error that gate 2 takes the plain program to
  // have, however exact it was.
  double roundings = 2;
  // Elements for which the plain program has no finite number although the
  // reference has: its scalar type has no room for this problem.
  int64_t plain_overflows = 0;
};

struct Answer {
  std::vector<OutputAnswer> outputs;  // in the order of Problem::outputs
};

// Rows on which the plain program's error is measured in another order of terms
// too (term_order.h).
inline constexpr int64_t kRowsInAnotherOrder = 64;

// Where the plain program's largest error is the largest of fewer rows than
// this, it may be next to nothing by luck: the elements of a row share the
// errors of its scores and of its normaliser, so that a row is off by its usual
// error times one number, which is near zero now and then. Rows whose bounds
// are much smaller than others' do not count.
inline constexpr double kTellingRows = 24;
// There the rows with the largest bounds are computed again, up to this many in
// all, with roundings that fall at random (emulated.h): the largest of their
// errors is the plain program's.
inline constexpr int64_t kRowsAgain = 24;

// Multiply-adds that are spent to learn the plain program's usual error.
struct WorkAgain {
  double plain = 2e9;     // in another order, of two rows at least
  double emulated = 2e9;  // nothing where that is less than two rows
};

// Evaluates the definition: in float64 for narrower scalars, in long double for
// float64, so that the error of the plain dense program in the problem's own
// scalar type can be told. Throws InvalidInput where the formula has no value.
Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     uint64_t seed);
// The same for given rows of each output.
Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     std::vector<RowSelection> selections,
                     WorkAgain again = {});

// Is none of its numbers larger than any of the type? Unnormalised outputs may
// be of any size.
bool FitsType(Scalar scalar, const Answer& answer);

// Adds the rows of `more`, an answer to the same problem.
void AddRows(const Answer& more, Answer& answer);

// The shape of an output: [heads, rows, width]. Of the gradient of a
// tensor that heads share, `heads` counts its slices.
struct OutputLayout {
  int64_t heads, rows, width;
};
OutputLayout LayoutOf(const Problem& problem, int output);

}  // namespace subquad
