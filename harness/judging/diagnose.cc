#include "harness/judging/diagnose.h"

#include <algorithm>
#include <set>

#include "harness/judging/resemblance.h"
#include "harness/judging/verdict.h"

namespace subquad {
namespace {

WrongElements WrongOf(const Problem& problem, size_t output,
                      const OutputAnswer& right, const OutputAnswer& answer,
                      const std::vector<double>& units,
                      double yardstick_factor) {
  const auto width = static_cast<size_t>(answer.width);
  const std::vector<double> over = OverTolerance(
      problem, answer,
      [&](size_t r, int64_t c) {
        return static_cast<double>(
            right.value[r * width + static_cast<size_t>(c)]);
      },
      units, yardstick_factor);
  const OutputLayout layout = LayoutOf(problem, static_cast<int>(output));
  WrongElements wrong{.output = answer.name,
                      .elements = std::ssize(over),
                      .first_row = layout.rows,
                      .rows = layout.rows,
                      .of_heads = layout.heads};
  if (answer.heads_of_item > 0) {
    wrong.of_heads = answer.heads_of_item;
    wrong.of_items = layout.heads / answer.heads_of_item;
  }
  std::set<int64_t> heads, items;
  for (size_t at = 0; at < over.size(); ++at) {
    if (over[at] <= 1) continue;
    ++wrong.wrong;
    const RowId& id = answer.selection.rows[at / width];
    wrong.first_row = std::min(wrong.first_row, id.row);
    wrong.last_row = std::max(wrong.last_row, id.row);
    heads.insert(id.head % wrong.of_heads);
    items.insert(id.head / wrong.of_heads);
  }
  wrong.heads.assign(heads.begin(), heads.end());
  wrong.items.assign(items.begin(), items.end());
  return wrong;
}

}  // namespace

Diagnosis Diagnose(const Problem& problem, const Inputs& inputs,
                   const Answer& right,
                   const std::vector<WrongAnswer>& wrong_answers,
                   const Answer& answer, const Tolerance& tolerance,
                   bool bound_alone) {
  Diagnosis diagnosis;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    if (answer.outputs[o].value.empty()) continue;
    WrongElements wrong =
        WrongOf(problem, o, right.outputs[o], answer.outputs[o],
                tolerance.units[o], bound_alone ? 0 : kYardstickFactor);
    diagnosis.elements += wrong.elements;
    if (wrong.wrong > 0) diagnosis.outputs.push_back(std::move(wrong));
  }
  diagnosis.looks_like =
      LooksLike(problem, inputs, right, wrong_answers, answer, tolerance);
  return diagnosis;
}

}  // namespace subquad
