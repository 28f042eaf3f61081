// Sinusoidal positions, Transformers II eq. 3 and 4, figures 1 and 2:
// Pi[i, 2f] = sin(w_f i), Pi[i, 2f+1] = cos(w_f i), w_f = 10000^(-2f/D).
// The dot product of two rows depends on their offset alone: the sum of
// cos(w_f delta). The figure does not give its D, so the question is for which
// D the products fall over the first 51 offsets, 0 to 50.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/survey/survey.h"

namespace subquad {
namespace {

constexpr int64_t kEntries = 51;
constexpr int64_t kFarthest = 512;
constexpr double kRounding = 1e-12;

double Frequency(int64_t f, int64_t width) {
  return std::pow(10000.0,
                  -2.0 * static_cast<double>(f) / static_cast<double>(width));
}

double Dot(int64_t offset, int64_t width) {
  double sum = 0;
  for (int64_t f = 0; f < width / 2; ++f)
    sum += std::cos(Frequency(f, width) * static_cast<double>(offset));
  return sum;
}

std::vector<double> Row(int64_t i, int64_t width) {
  std::vector<double> row(static_cast<size_t>(width));
  for (int64_t f = 0; f < width / 2; ++f) {
    const double angle = Frequency(f, width) * static_cast<double>(i);
    row[static_cast<size_t>(2 * f)] = std::sin(angle);
    row[static_cast<size_t>(2 * f + 1)] = std::cos(angle);
  }
  return row;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t shown = parameters.at("shown_D"),
                positions = parameters.at("positions");
  const auto widths = parameters.at("D").get<std::vector<int64_t>>();
  const int64_t largest = parameters.at("D_max");
  StudyTable matrix{"matrix",
                    {{"position", "tokens", "i"},
                     {"dimension", "1", "column of the matrix"},
                     {"value", "1", "Pi"}},
                    {}};
  for (int64_t i = 0; i < positions; ++i) {
    const std::vector<double> row = Row(i, shown);
    for (int64_t c = 0; c < shown; ++c)
      matrix.Add({i, c, row[static_cast<size_t>(c)]});
  }
  StudyTable dots{
      "dots",
      {{"D", "1", "width"},
       {"offset", "tokens", "between the two positions"},
       {"dot", "1", "product over that at offset 0"},
       {"spread", "1",
        "largest difference between products of rows at that offset"}},
      {}};
  for (int64_t width : widths) {
    const double half = static_cast<double>(width) / 2;
    for (int64_t offset = 0; offset < positions; ++offset) {
      const double dot = Dot(offset, width);
      double spread = 0;
      for (int64_t i : {int64_t{0}, int64_t{17}, int64_t{1000}}) {
        const std::vector<double> a = Row(i, width), b = Row(i + offset, width);
        double product = 0;
        for (size_t c = 0; c < a.size(); ++c) product += a[c] * b[c];
        spread = std::max(spread, std::abs(product - dot));
      }
      dots.Add({width, offset, dot / half, spread / half});
    }
  }
  StudyTable falling{
      "falling",
      {{"D", "1", "width"},
       {"entries", "tokens", "how many offsets from 0 the products fall over"}},
      {}};
  std::vector<int64_t> entries(static_cast<size_t>(largest / 2));
  run.For(largest / 2, [&](int64_t index) {
    const int64_t width = 2 * (index + 1);
    double last = Dot(0, width);
    int64_t count = 1;
    for (; count < kFarthest; ++count) {
      const double next = Dot(count, width);
      if (!(next < last)) break;
      last = next;
    }
    entries[static_cast<size_t>(index)] = count;
  });
  for (size_t index = 0; index < entries.size(); ++index)
    falling.Add({static_cast<int64_t>(2 * (index + 1)), entries[index]});
  StudyTable rotation{"rotation",
                      {{"D", "1", "width"},
                       {"offset", "tokens", "by which positions are shifted"},
                       {"error", "1",
                        "largest difference between the rotated row and the "
                        "row at the shifted position"}},
                      {}};
  for (int64_t width : widths)
    for (int64_t offset : {1, 7, 64, 500}) {
      double error = 0;
      for (int64_t i = 0; i < positions; ++i) {
        const std::vector<double> from = Row(i, width),
                                  to = Row(i + offset, width);
        for (int64_t f = 0; f < width / 2; ++f) {
          const double angle =
              Frequency(f, width) * static_cast<double>(offset);
          const size_t s = static_cast<size_t>(2 * f);
          const double sine =
              std::cos(angle) * from[s] + std::sin(angle) * from[s + 1];
          const double cosine =
              -std::sin(angle) * from[s] + std::cos(angle) * from[s + 1];
          error = std::max(
              {error, std::abs(sine - to[s]), std::abs(cosine - to[s + 1])});
        }
      }
      rotation.Add({width, offset, error});
    }
  return {matrix, dots, falling, rotation};
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& falling = FindTable(tables, "falling");
  int64_t first = 0, always_from = 0, exact = 0, enough = 0;
  double longest = 0;
  for (size_t r = 0; r < falling.rows.size(); ++r) {
    const auto width = static_cast<int64_t>(falling.Number(r, "D"));
    const double entries = falling.Number(r, "entries");
    longest = Worst(longest, entries);
    exact += entries == kEntries;
    if (entries >= kEntries) {
      ++enough;
      if (first == 0) first = width;
      if (always_from == 0) always_from = width;
    } else {
      always_from = 0;
    }
  }
  const StudyTable& dots = FindTable(tables, "dots");
  // Near products against far ones: the second half of the offsets.
  double near = HUGE_VAL, far = -HUGE_VAL, spread = 0;
  const double half = parameters.at("positions").get<double>() / 2;
  for (double width : parameters.at("D").get<std::vector<double>>()) {
    double near_sum = 0, far_sum = 0;
    for (size_t r = 0; r < dots.rows.size(); ++r) {
      if (dots.Number(r, "D") != width) continue;
      (dots.Number(r, "offset") < half ? near_sum : far_sum) +=
          dots.Number(r, "dot") / half;
      spread = Worst(spread, dots.Number(r, "spread"));
    }
    near = Least(near, near_sum - far_sum);
    far = Worst(far, far_sum);
  }
  StudyVerdict decay{"survey-decay",
                     "dot products of sinusoidal positions fall with the "
                     "offset, over all of the first 51"};
  const bool falls = near > 0 && spread <= kRounding;
  decay.outcome = Decide(
      falls && enough == static_cast<int64_t>(falling.rows.size()), falls);
  decay.numbers = fmt::format(
      "for every D near products exceed far ones, on average by at least "
      "{:.2f}; {}",
      near,
      enough > 0
          ? fmt::format("they fall over the first 51 for {} of {} widths, the "
                        "first D = {}{}; the longest run is {:g}, and {} have "
                        "51 exactly",
                        enough, falling.rows.size(), first,
                        always_from > 0
                            ? fmt::format(" and all from D = {}", always_from)
                            : "",
                        longest, exact == 0 ? "none" : std::to_string(exact))
          : fmt::format("no D up to {:g} has them fall over the first 51, the "
                        "longest run is {:g}",
                        parameters.at("D_max").get<double>(), longest));
  const StudyTable& table = FindTable(tables, "rotation");
  double error = 0;
  for (double value : table.Numbers("error")) error = Worst(error, value);
  StudyVerdict rotation{"survey-rotation",
                        "shifting a sinusoidal position is a rotation of every "
                        "pair of dimensions"};
  rotation.outcome = Decide(!table.rows.empty() && error <= kRounding);
  rotation.numbers = fmt::format(
      "rotated and shifted rows differ by at most {:.1e} in float64 (limit "
      "{:.0e})",
      error, kRounding);
  return {decay, rotation};
}

}  // namespace

Study SinusoidalStudy() {
  Study study;
  study.name = "sinusoidal";
  study.purpose =
      "Sinusoidal positions: their matrix, their dot products by offset, and "
      "the rotation that shifts them.";
  study.source = "Transformers II figures 1 and 2, eq. 3 and 4";
  study.parameters = {{"shown_D", 64},
                      {"positions", 128},
                      {"D", {64, 128, 256, 512, 1024}},
                      {"D_max", 1024}};
  study.tiny = {{"positions", 40}, {"D", {16, 64}}, {"D_max", 64}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
