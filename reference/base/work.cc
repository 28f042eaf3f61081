#include "reference/base/work.h"

#include <algorithm>

#include "reference/base/derivative.h"

namespace subquad {
namespace {

// Recording an operation and handing a derivative down cost this many times the
// operation.
constexpr double kRecording = 20;

// Returns the rows of an output in all heads.
int64_t RowsOf(const Problem& forward, size_t output) {
  return forward.OutputSlices(output).count() *
         forward.OutputShape(output)[forward.output_leading[output].size()];
}

}  // namespace

double WorkOfRow(const Problem& problem, int output) {
  // Rows of derived gradients are copied.
  if (problem.backward && !problem.op->HasGradientProgram()) return 1;
  return problem.op->RowWork(problem, output);
}

double SharedWork(const Problem& problem) {
  if (!problem.backward || problem.op->HasGradientProgram())
    return problem.op->SharedWorkOf(problem);
  const Problem forward = ForwardOf(problem);
  const int64_t most = RowsWithCotangent(problem);
  double work = 0;
  for (size_t o = 0; o < forward.outputs.size(); ++o)
    work += static_cast<double>(std::min(most, RowsOf(forward, o))) *
            WorkOfRow(forward, static_cast<int>(o));
  return kRecording * work;
}

int64_t RowsWithCotangent(const Problem& problem) {
  constexpr double kMostWork = 5e10, kFewest = 16;
  const Problem forward = ForwardOf(problem);
  const int64_t all = RowsOf(forward, 0);
  if (problem.op->HasGradientProgram()) return all;
  const double affordable = kMostWork / (kRecording * WorkOfRow(forward, 0));
  return std::min(all, static_cast<int64_t>(std::max(kFewest, affordable)));
}

}  // namespace subquad
