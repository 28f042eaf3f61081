#include "harness/judging/misreader.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "optimized/base/thread_pool.h"

namespace subquad {

Misreader::Misreader(const Problem& problem, Inputs& inputs,
                     const Answer& answer, size_t most_rows,
                     std::set<std::string> only)
    : problem_(problem),
      inputs_(inputs),
      answer_(answer),
      only_(std::move(only)) {
  for (const OutputAnswer& output : answer.outputs) {
    // A gradient by offset has rows of one element.
    const size_t most = output.width == 1 ? 4 * most_rows : most_rows;
    chosen_.push_back(SpreadRows(output.selection.rows.size(), most));
  }
  right_ = Evaluate(problem_).value_or(Rows());
}

std::optional<Misreader::Rows> Misreader::Evaluate(
    const Problem& problem) const {
  try {
    return problem.scalar == Scalar::kFloat64
               ? EvaluateIn(problem,
                            *problem.op->ReferenceLongDouble(problem, inputs_))
               : EvaluateIn(problem,
                            *problem.op->ReferenceDouble(problem, inputs_));
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

template <typename Real>
Misreader::Rows Misreader::EvaluateIn(const Problem& problem,
                                      Reference<Real>& reference) const {
  constexpr double kWorthThreads = 1e7;
  Rows rows;
  for (size_t o = 0; o < chosen_.size(); ++o) {
    const OutputAnswer& output = answer_.outputs[o];
    const auto count = static_cast<int64_t>(chosen_[o].size());
    const auto width = static_cast<size_t>(output.width);
    std::vector<long double> values(chosen_[o].size() * width);
    const double work = static_cast<double>(count) *
                        problem.op->RowWork(problem, static_cast<int>(o));
    ThreadPool pool(
        work < kWorthThreads
            ? 1
            : static_cast<int>(std::thread::hardware_concurrency()));
    pool.For(count, [&](int64_t r, int) {
      const auto at = static_cast<size_t>(r);
      std::vector<Real> row(width);
      reference.Row(output.selection.rows[chosen_[o][at]], row.data(), nullptr);
      std::copy(row.begin(), row.end(),
                values.begin() + static_cast<std::ptrdiff_t>(at * width));
    });
    rows.push_back(std::move(values));
  }
  return rows;
}

void Misreader::Add(const std::string& name, const std::optional<Rows>& misread,
                    const std::string& remedy, bool small_by_choice) {
  if (!misread || !Wants(name)) return;
  WrongAnswer wrong{
      .name = name, .remedy = remedy, .small_by_choice = small_by_choice};
  for (size_t o = 0; o < chosen_.size(); ++o) {
    const auto width = static_cast<size_t>(answer_.outputs[o].width);
    std::vector<size_t> rows;
    std::vector<long double> values;
    for (size_t r = 0; r < chosen_[o].size(); ++r) {
      const auto first =
          (*misread)[o].begin() + static_cast<std::ptrdiff_t>(r * width);
      const auto last = first + static_cast<std::ptrdiff_t>(width);
      if (!std::all_of(first, last,
                       [](long double x) { return std::isfinite(x); }))
        continue;
      rows.push_back(chosen_[o][r]);
      const size_t expected = chosen_[o][r] * width;
      for (size_t c = 0; c < width; ++c)
        values.push_back(
            answer_.outputs[o].value[expected + c] +
            (first[static_cast<std::ptrdiff_t>(c)] - right_[o][r * width + c]));
    }
    if (!rows.empty())
      wrong.parts.push_back(
          KeptRows(o, std::move(rows), width, std::move(values)));
  }
  if (!wrong.parts.empty()) list_.push_back(std::move(wrong));
}

}  // namespace subquad
