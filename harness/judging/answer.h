// The reference's answers for a problem: all rows of every output, or enough of
// them, with the errors that the plain dense program makes on the same rows.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator.h"

namespace subquad {

// Whole outputs, in the order of Problem::outputs. NaN stands for an element
// that was never written.
using Outputs = std::vector<std::vector<double>>;

// Heads with up to this many rows are compared in full. Of longer ones, the
// first and last rows, rows at block edges and a random sample are compared.
inline constexpr int64_t kAllRows = 4096;
inline constexpr int64_t kSampledRows = 192;
// The sample is smaller if rows are expensive, but has at least this many rows
// over all heads.
inline constexpr int64_t kFewestSampledRows = 24;

struct RowSelection {
  std::vector<RowId> rows;
  bool all = true;
};

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Selects the rows of one output to compare. The sample depends on the seed.
// The reference needs at most about `most_work` multiply-adds for all outputs,
// unless the smallest sample already needs more.
RowSelection SelectRows(const Problem& problem, int output, uint64_t seed,
                        double most_work = kNoLimit);
// Selects the rows of every output.
std::vector<RowSelection> SelectRows(const Problem& problem, uint64_t seed,
                                     double most_work = kNoLimit);

struct OutputAnswer {
  std::string name;
  RowSelection selection;
  int64_t width = 1;  // numbers in a row
  // Heads of one batch item; 0 if there is no batch axis.
  int64_t heads_of_item = 0;
  std::vector<long double> value;  // [rows, width]
  std::vector<double> units;       // bound of the plain program, in roundoffs
  std::vector<double> slack;       // error of `value` itself; empty: none
  // Tells where the plain program has no finite bound and no right digit, so
  // that rounding may also lead to infinity or NaN; empty: nowhere.
  std::vector<char> plain_diverges;
  // Declared error of an answer that came from outside, per element. Both gates
  // add exactly this to their tolerance.
  double given_error = 0;
  // The next two cover the elements with a finite bound.
  double plain_error = 0;  // largest arithmetic error of the plain program
  double largest = 0;      // largest absolute value of the reference
  // Gate 2 assumes at least this many roundings of the largest value as the
  // plain program's error, even if it happened to be exact.
  double roundings = 2;
  // Elements for which the reference is finite and the plain program is not,
  // because its scalar type cannot represent an intermediate value.
  int64_t plain_overflows = 0;
};

struct Answer {
  std::vector<OutputAnswer> outputs;  // in the order of Problem::outputs
};

// Number of rows on which the plain program's error is also measured with its
// terms in another order (term_order.h).
inline constexpr int64_t kRowsInAnotherOrder = 64;

// If fewer rows than this were judged, the plain program's largest error may be
// small by chance: the elements of a row share the errors of its scores and of
// its normaliser, so that the error of a row is its usual error times one
// number, which is sometimes near zero. Rows whose bounds are much smaller than
// those of others do not count.
inline constexpr double kTellingRows = 24;
// In that case up to this many rows with the largest bounds are recomputed with
// random rounding (emulated.h). The largest error then counts as the plain
// program's.
inline constexpr int64_t kRowsAgain = 24;

// Multiply-adds to spend on finding the plain program's usual error.
struct WorkAgain {
  double plain = 2e9;     // in another order; at least two rows are computed
  double emulated = 2e9;  // no row is computed if this is less than two rows
};

// Evaluates the definition in float64 for narrower scalar types and in long
// double for float64, so that the error of the plain dense program in the
// problem's own type can be measured. Throws InvalidInput if the formula has no
// value.
Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     uint64_t seed);
// Evaluates only the given rows of each output.
Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     std::vector<RowSelection> selections,
                     WorkAgain again = {});

// Tells whether every value of the answer is within the range of the type, or
// an -inf that is right.
// Unnormalised outputs may be of any size.
bool FitsType(const Problem& problem, const Answer& answer);

// Adds to `answer` the rows of `more`, another answer to the same problem.
void AddRows(const Answer& more, Answer& answer);

}  // namespace subquad
