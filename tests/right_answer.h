// The reference's answer as whole outputs, which tests alter.
#pragma once

#include <vector>

#include "harness/cases/draws.h"
#include "harness/judging/answer.h"

namespace subquad {

// Returns the reference's answer, rounded to the problem's scalar type. Throws
// InvalidInput unless all of its rows have been computed.
inline Outputs RightAnswer(const Problem& problem, const Answer& answer) {
  Outputs outputs;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    if (!output.selection.all)
      throw InvalidInput("wrong answers", "a problem with all rows computed",
                         "a sample of them");
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    std::vector<double> values(
        static_cast<size_t>(layout.heads * layout.rows * layout.width));
    for (size_t r = 0; r < output.selection.rows.size(); ++r) {
      const RowId& id = output.selection.rows[r];
      for (int64_t c = 0; c < output.width; ++c)
        values[static_cast<size_t>(
            (id.head * layout.rows + id.row) * output.width + c)] =
            RoundTo(problem.scalar,
                    static_cast<double>(
                        output.value[r * static_cast<size_t>(output.width) +
                                     static_cast<size_t>(c)]));
    }
    outputs.push_back(std::move(values));
  }
  return outputs;
}

}  // namespace subquad
