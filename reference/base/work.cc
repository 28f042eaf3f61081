#include "reference/base/work.h"

#include <algorithm>

#include "reference/base/derivative.h"

namespace subquad {
namespace {

// Recording an operation and handing its derivatives and their bounds down cost
// about this many times the operation: 10 to 35 times for most definitions that
// were measured. At 1e9 multiply-adds a second, the most work of generated
// cotangents takes one thread about a minute.
constexpr double kRecording = 20, kMostWork = 5e10;

// Returns the rows of an output in all heads.
int64_t RowsOf(const Problem& forward, int output) {
  const OutputLayout layout = LayoutOf(forward, output);
  return layout.heads * layout.rows;
}

}  // namespace

double WorkOfRow(const Problem& problem, int output) {
  // All gradients are made with the first row, and others are copied.
  return problem.backward ? 1 : problem.op->RowWork(problem, output);
}

double SharedWork(const Problem& problem) {
  if (!problem.backward) return 0;
  const Problem forward = ForwardOf(problem);
  const int64_t most = RowsWithCotangent(problem);
  double work = 0;
  for (int o = 0; o < std::ssize(forward.outputs); ++o)
    work += static_cast<double>(std::min(most, RowsOf(forward, o))) *
            WorkOfRow(forward, o);
  return kRecording * work;
}

int64_t RowsWithCotangent(const Problem& problem) {
  constexpr double kFewest = 16;
  const Problem forward = ForwardOf(problem);
  const int64_t all = RowsOf(forward, 0);
  const double affordable = kMostWork / (kRecording * WorkOfRow(forward, 0));
  return std::min(all, static_cast<int64_t>(std::max(kFewest, affordable)));
}

}  // namespace subquad
