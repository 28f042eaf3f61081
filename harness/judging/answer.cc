#include "harness/judging/answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <numeric>
#include <set>
#include <thread>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "optimized/base/thread_pool.h"
#include "reference/base/term_order.h"
#include "reference/base/work.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {
namespace {

// Returns `most` entries of a list, including the first and the last.
std::vector<int64_t> Thinned(const std::vector<int64_t>& list, int64_t most) {
  const auto count = static_cast<int64_t>(list.size());
  if (count <= most) return list;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < most; ++i)
    kept.push_back(list[static_cast<size_t>(i * (count - 1) / (most - 1))]);
  return kept;
}

std::vector<int64_t> RowsOf(int64_t rows, uint64_t seed,
                            const std::string& name, int64_t most) {
  std::set<int64_t> chosen;
  const auto add = [&](int64_t row) {
    if (row >= 0 && row < rows) chosen.insert(row);
  };
  for (int64_t edge : {int64_t{0}, rows / 2, rows - 1})
    for (int64_t row = edge - 2; row <= edge + 2; ++row) add(row);
  // With a causal mask, a missing last tile of keys affects only the last rows.
  for (int64_t back = 8; back < 64; back += 8) add(rows - back);
  // Blocks are powers of two: the first and last row of some of each size.
  for (int64_t block = 16; block < rows; block *= 2)
    for (int64_t edge :
         {block - 1, block, rows / block * block - 1, rows / block * block})
      add(edge);
  const Draws draws(seed, "rows/" + name);
  for (uint64_t i = 0; chosen.size() < kSampledRows && i < 4 * kSampledRows;
       ++i)
    add(static_cast<int64_t>(draws.Uniform(i) * static_cast<double>(rows)));
  if (static_cast<int64_t>(chosen.size()) <= most || most < 6)
    return Thinned({chosen.begin(), chosen.end()}, most);
  // Three neighbours in the middle are always kept: they reveal rows that are
  // shifted by one and offsets with the wrong sign.
  const std::array middle{rows / 2 - 1, rows / 2, rows / 2 + 1};
  for (const int64_t row : middle) chosen.erase(row);
  std::vector<int64_t> kept = Thinned({chosen.begin(), chosen.end()}, most - 3);
  kept.insert(kept.end(), middle.begin(), middle.end());
  std::ranges::sort(kept);
  return kept;
}

// Measures the plain program's error with its terms in another order, on some
// of the rows.
template <typename Plain>
void AddErrorInAnotherOrder(const Problem& problem, OutputAnswer& answer,
                            const std::unique_ptr<Reference<Plain>>& plain,
                            double most_work) {
  const auto rows = static_cast<int64_t>(answer.selection.rows.size());
  const double work =
      WorkOfRow(problem, static_cast<int>(answer.selection.rows[0].output));
  const auto most = static_cast<int64_t>(std::clamp(
      most_work / work, 2.0, static_cast<double>(kRowsInAnotherOrder)));
  const int64_t step = (rows - 1) / most + 1;
  const auto width = static_cast<size_t>(answer.width);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<double> largest(static_cast<size_t>(pool.threads()));
  pool.For((rows - 1) / step + 1, [&](int64_t index, int worker) {
    const EvenTermsFirst order;
    const auto r = static_cast<size_t>(index * step);
    std::vector<Plain> row(width);
    plain->Row(answer.selection.rows[r], row.data(), nullptr);
    double& error = largest[static_cast<size_t>(worker)];
    for (size_t c = 0; c < width; ++c) {
      const size_t at = r * width + c;
      const auto difference = static_cast<double>(
          std::abs(static_cast<long double>(row[c]) - answer.value[at]));
      if (std::isfinite(answer.units[at]) && std::isfinite(difference))
        error = std::max(error, difference);
    }
  });
  answer.plain_error =
      std::max(answer.plain_error, *std::ranges::max_element(largest));
}

template <typename Exact, typename Plain>
void FillAnswer(const Problem& problem, OutputAnswer& answer,
                const std::unique_ptr<Reference<Exact>>& reference,
                const std::unique_ptr<Reference<Plain>>& plain,
                double most_again) {
  const int64_t rows = static_cast<int64_t>(answer.selection.rows.size());
  const int64_t width = answer.width;
  answer.value.resize(static_cast<size_t>(rows * width));
  answer.units.resize(static_cast<size_t>(rows * width));
  answer.plain_diverges.resize(static_cast<size_t>(rows * width));
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<double> plain_error(static_cast<size_t>(pool.threads()));
  std::vector<double> largest(static_cast<size_t>(pool.threads()));
  std::vector<int64_t> overflows(static_cast<size_t>(pool.threads()));
  pool.For(rows, [&](int64_t r, int worker) {
    const RowId& id = answer.selection.rows[static_cast<size_t>(r)];
    std::vector<Exact> exact(static_cast<size_t>(width));
    std::vector<Plain> rounded(static_cast<size_t>(width));
    double* units = answer.units.data() + r * width;
    reference->Row(id, exact.data(), units);
    plain->Row(id, rounded.data(), nullptr);
    for (int64_t c = 0; c < width; ++c) {
      const long double value = exact[static_cast<size_t>(c)];
      answer.value[static_cast<size_t>(r * width + c)] = value;
      // Elements without a certain digit cannot be a yardstick for the others,
      // nor can logarithms of empty sums.
      const long double computed = rounded[static_cast<size_t>(c)];
      if (std::isinf(units[c]) || std::isinf(value)) {
        answer.plain_diverges[static_cast<size_t>(r * width + c)] =
            std::isinf(units[c]) &&
            !(std::abs(computed - value) < std::abs(value));
        continue;
      }
      if (!std::isfinite(rounded[static_cast<size_t>(c)]) &&
          std::isfinite(exact[static_cast<size_t>(c)]))
        ++overflows[static_cast<size_t>(worker)];
      double& error = plain_error[static_cast<size_t>(worker)];
      error = std::max(error, static_cast<double>(std::abs(computed - value)));
      double& top = largest[static_cast<size_t>(worker)];
      top = std::max(top, static_cast<double>(std::abs(value)));
    }
  });
  answer.plain_error = *std::ranges::max_element(plain_error);
  answer.largest = *std::ranges::max_element(largest);
  answer.plain_overflows =
      std::accumulate(overflows.begin(), overflows.end(), int64_t{0});
  AddErrorInAnotherOrder(problem, answer, plain, most_again);
}

// Uses one reference for all outputs, since gradients share much of their work.
template <typename Exact, typename Plain>
void FillAnswer(const Problem& problem, Answer& answer,
                const std::unique_ptr<Reference<Exact>>& reference,
                const std::unique_ptr<Reference<Plain>>& plain,
                double most_again) {
  for (OutputAnswer& output : answer.outputs)
    FillAnswer(problem, output, reference, plain, most_again);
}

// Returns the roundings that gate 2 assumes at least. A program that sums over
// keys before features adds up intermediate values that the plain program,
// which computes one weight per key, does not have. With few keys, the plain
// program is then almost exact and no yardstick. The random roundings of a sum
// of m terms add up to about sqrt(m) of them.
double RoundingsOf(const Problem& problem) {
  constexpr double kAtLeast = 2;
  if (!problem.params.Has("feature_map")) return kAtLeast;
  return std::max(
      kAtLeast,
      std::sqrt(static_cast<double>(FeatureMapOf(problem).features())));
}

// Returns the largest finite bound of each row, in descending order.
std::vector<std::pair<double, size_t>> RowsByBound(const OutputAnswer& answer) {
  std::vector<std::pair<double, size_t>> rows;
  const auto width = static_cast<size_t>(answer.width);
  for (size_t r = 0; r < answer.selection.rows.size(); ++r) {
    double bound = 0;
    for (size_t at = r * width; at < (r + 1) * width; ++at)
      if (std::isfinite(answer.units[at]))
        bound = std::max(bound, answer.units[at]);
    if (bound > 0) rows.push_back({bound, r});
  }
  std::ranges::sort(rows, std::ranges::greater{});
  return rows;
}

// The rows of an output to recompute, and how often; see kTellingRows.
struct RowsAgain {
  OutputAnswer* answer;
  std::vector<size_t> rows;
  int64_t runs;
  // No digit of the answer is certain, and yet the plain program has almost no
  // error, because sums and products of ones and powers of two are exact. This
  // is chance and no yardstick for other programs.
  bool cancels;
};

RowsAgain ChooseRowsAgain(const Problem& problem, OutputAnswer& answer,
                          double most_work) {
  const auto by_bound = RowsByBound(answer);
  if (by_bound.empty()) return {&answer, {}, 0, false};
  double telling = 0;
  for (const auto& [bound, row] : by_bound)
    telling += bound / by_bound[0].first;
  // Rows of gradients of keys share the errors of the queries that see them.
  if (problem.backward && problem.queries > 0)
    telling =
        std::min(telling, static_cast<double>(problem.queries * problem.heads));
  const double bound = by_bound[0].first * ArithmeticRoundoff(problem.scalar);
  constexpr double kByLuck = 1e-3;
  const bool cancels =
      answer.largest < bound && answer.plain_error < kByLuck * bound;
  if (telling >= kTellingRows && !cancels) return {&answer, {}, 0, false};
  const double affordable =
      most_work / WorkOfRow(problem, answer.selection.rows[0].output);
  if (affordable < 2) return {&answer, {}, 0, false};
  const auto runs = static_cast<int64_t>(
      std::min(affordable, static_cast<double>(kRowsAgain)));
  const auto chosen =
      std::min<int64_t>({static_cast<int64_t>(by_bound.size()),
                         static_cast<int64_t>(std::ceil(telling)), runs});
  RowsAgain again{&answer, {}, runs / chosen, cancels};
  for (int64_t i = 0; i < chosen; ++i)
    again.rows.push_back(by_bound[static_cast<size_t>(i)].second);
  return again;
}

void ComputeAgain(Reference<Emulated>& reference, const RowsAgain& again) {
  OutputAnswer& answer = *again.answer;
  const auto width = static_cast<size_t>(answer.width);
  std::vector<Emulated> row(width);
  for (const size_t r : again.rows) {
    try {
      reference.Row(answer.selection.rows[r], row.data(), nullptr);
    } catch (const InvalidInput&) {
      continue;  // rounding has turned a small normaliser into zero
    }
    for (size_t c = 0; c < width; ++c) {
      const size_t at = r * width + c;
      const auto error = static_cast<double>(
          std::abs(static_cast<long double>(row[c]) - answer.value[at]));
      if (std::isfinite(answer.units[at]) && std::isfinite(error))
        answer.plain_error = std::max(answer.plain_error, error);
    }
  }
}

// Computes the rows in several runs with a reference of its own each, so that
// what the reference prepares first (features of keys) is rounded differently
// in each run, as far as that is affordable.
void ComputeAgain(const Problem& problem, const Inputs& inputs,
                  const Arithmetic& arithmetic,
                  const std::vector<RowsAgain>& again, double most_work) {
  int64_t runs = 0;
  double row_work = 0;
  for (const RowsAgain& rows : again) {
    runs = std::max(runs, rows.runs);
    row_work = std::max(
        row_work, WorkOfRow(problem, rows.answer->selection.rows[0].output));
  }
  if (runs == 0) return;
  // A reference does the work of up to about `kWidth` rows before its first
  // row.
  constexpr double kWidth = 64;
  const double before = row_work * kWidth + SharedWork(problem);
  const bool anew = (problem.params.Has("feature_map") || problem.backward) &&
                    before * static_cast<double>(runs) < most_work;
  const ArithmeticScope scope(arithmetic, 1);
  auto reference = problem.op->ReferenceEmulated(problem, inputs);
  for (int64_t run = 0; run < runs; ++run) {
    if (run > 0 && anew)
      reference = problem.op->ReferenceEmulated(problem, inputs);
    for (const RowsAgain& rows : again)
      if (run < rows.runs) ComputeAgain(*reference, rows);
  }
}

// Replaces a plain error that may be small by chance; see kTellingRows.
void AddUsualErrors(const Problem& problem, const Inputs& inputs,
                    double most_work, Answer& answer) {
  // Emulating more work than this would take minutes.
  if (SharedWork(problem) > most_work) return;
  std::vector<RowsAgain> usual, cancelling;
  for (OutputAnswer& output : answer.outputs) {
    RowsAgain again = ChooseRowsAgain(problem, output, most_work);
    (again.cancels ? cancelling : usual).push_back(std::move(again));
  }
  const Format format = ArithmeticOf(problem.scalar) == Scalar::kFloat64
                            ? Format::Float64()
                            : Format::Float32();
  Arithmetic at_random{format, format, format, true};
  ComputeAgain(problem, inputs, at_random, usual, most_work);
  at_random.exact_too = true;
  ComputeAgain(problem, inputs, at_random, cancelling, most_work);
}

}  // namespace

RowSelection SelectRows(const Problem& problem, int output, uint64_t seed,
                        double most_work) {
  const OutputLayout layout = LayoutOf(problem, output);
  const auto heads = static_cast<double>(layout.heads);
  // The number of rows per head.
  const double affordable = most_work / heads /
                            static_cast<double>(problem.outputs.size()) /
                            WorkOfRow(problem, output);
  RowSelection selection;
  // A gradient indexed by offset, with 2n-1 rows, counts as n rows.
  selection.all = layout.rows <= (layout.width == 1 ? 2 : 1) * kAllRows &&
                  static_cast<double>(layout.rows) <= affordable;
  std::vector<int64_t> rows;
  if (selection.all)
    for (int64_t row = 0; row < layout.rows; ++row) rows.push_back(row);
  else
    rows = RowsOf(
        layout.rows, seed, problem.outputs[static_cast<size_t>(output)].name,
        static_cast<int64_t>(std::clamp(
            affordable,
            std::max(2.0, std::ceil(static_cast<double>(kFewestSampledRows) /
                                    heads)),
            static_cast<double>(kSampledRows))));
  for (int64_t head = 0; head < layout.heads; ++head)
    for (int64_t row : rows) selection.rows.push_back({output, head, row});
  return selection;
}

std::vector<RowSelection> SelectRows(const Problem& problem, uint64_t seed,
                                     double most_work) {
  std::vector<RowSelection> selections;
  for (size_t o = 0; o < problem.outputs.size(); ++o)
    selections.push_back(
        SelectRows(problem, static_cast<int>(o), seed, most_work));
  return selections;
}

Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     uint64_t seed) {
  return ComputeAnswer(problem, inputs, SelectRows(problem, seed));
}

Answer ComputeAnswer(const Problem& problem, const Inputs& inputs,
                     std::vector<RowSelection> selections, WorkAgain again) {
  Answer answer;
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    OutputAnswer output;
    output.name = problem.outputs[i].name;
    output.selection = std::move(selections[i]);
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(i));
    output.width = layout.width;
    if (problem.output_leading[i].size() == 2)
      output.heads_of_item = layout.heads / problem.Batch();
    output.roundings = RoundingsOf(problem);
    answer.outputs.push_back(std::move(output));
  }
  const Operator& op = *problem.op;
  // Both references may take long to construct.
  const auto fill = [&](const auto& make_exact, const auto& make_plain) {
    auto plain = std::async(std::launch::async, make_plain);
    const auto exact = make_exact();
    FillAnswer(problem, answer, exact, plain.get(), again.plain);
  };
  if (problem.scalar == Scalar::kFloat64)
    fill([&] { return op.ReferenceLongDouble(problem, inputs); },
         [&] { return op.ReferenceDouble(problem, inputs); });
  else
    fill([&] { return op.ReferenceDouble(problem, inputs); },
         [&] { return op.ReferenceFloat(problem, inputs); });
  AddUsualErrors(problem, inputs, again.emulated, answer);
  return answer;
}

bool FitsType(const Problem& problem, const Answer& answer) {
  const Scalar scalar = problem.scalar;
  const long double largest =
      scalar == Scalar::kFloat64    ? Format::Float64().largest
      : scalar == Scalar::kFloat16  ? Format::Float16().largest
      : scalar == Scalar::kBFloat16 ? Format::BFloat16().largest
                                    : Format::Float32().largest;
  for (size_t o = 0; o < answer.outputs.size(); ++o)
    for (const long double value : answer.outputs[o].value) {
      const bool empty_sum = std::isinf(value) && value < 0 &&
                             problem.outputs[o].may_be_minus_infinity;
      if (std::abs(value) > largest && !empty_sum) return false;
    }
  return true;
}

void AddRows(const Answer& more, Answer& answer) {
  const auto append = [](const auto& from, auto& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    const OutputAnswer& from = more.outputs[o];
    OutputAnswer& to = answer.outputs[o];
    append(from.selection.rows, to.selection.rows);
    append(from.value, to.value);
    append(from.units, to.units);
    append(from.slack, to.slack);
    append(from.plain_diverges, to.plain_diverges);
    to.plain_error = std::max(to.plain_error, from.plain_error);
    to.largest = std::max(to.largest, from.largest);
    to.plain_overflows += from.plain_overflows;
  }
}

}  // namespace subquad
