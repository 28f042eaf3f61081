// Claims that the papers' own printed numbers answer. The numbers are those of
// the tables; what follows from them is computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "harness/papers/claims/rules.h"
#include "harness/papers/studies/fastrpb_table3.h"

namespace subquad {
namespace {

namespace table = fastrpb_table3;

Holds YesIf(bool holds) { return holds ? Holds::kYes : Holds::kNo; }

// Hours of training: the largest of `slow` over `fast` among the rows that have
// both, and the row.
struct Largest {
  double ratio = 0;
  std::string row;
};

template <typename Slow, typename Fast>
Largest LargestRatio(Slow slow, Fast fast) {
  Largest largest;
  for (const table::Row& row : table::kRows) {
    const double ratio = slow(row) / fast(row);
    if (ratio > largest.ratio)
      largest = {ratio, fmt::format("{}, {}", row.task, row.model)};
  }
  return largest;
}

double HoursWithout(const std::string& task, const std::string& model) {
  for (const table::Row& row : table::kRows)
    if (task == row.task && model == row.model) return row.none;
  return NAN;
}

bool Rounds(double exact, double printed) {
  return std::abs(exact - printed) <= 0.05 + 1e-9;
}

}  // namespace

Finding FrpbAbstract(const Evidence&) {
  Finding finding;
  const Largest most = LargestRatio(
      [](const table::Row& row) { return HoursWithout(row.task, "Original"); },
      [](const table::Row& row) {
        return std::string(row.model) == "Original" ? NAN : row.fastrpb;
      });
  finding.Require(
      most.ratio > 1.5 * 1.05,
      fmt::format("section 5 has 5 times (evaluation, fig. 3), and "
                  "table 3, in hours of training, up to {} ({})",
                  finding.Number("original over FastRPB, table 3", most.ratio),
                  most.row));
  return finding;
}

Finding FrpbSlower(const Evidence&) {
  Finding finding;
  const Largest most =
      LargestRatio([](const table::Row& row) { return row.none; },
                   [](const table::Row& row) {
                     const std::string model = row.model;
                     return model == "DPFP" || model == "Performer"
                                ? HoursWithout(row.task, "SIKF")
                                : NAN;
                   });
  const Largest least = LargestRatio(
      [](const table::Row& row) { return HoursWithout(row.task, "SIKF"); },
      [](const table::Row& row) {
        const std::string model = row.model;
        return model == "DPFP" || model == "Performer" ? row.none : NAN;
      });
  finding.Require(
      most.ratio > 1.45,
      fmt::format("table 3 has up to {} times ({})",
                  finding.Number("largest ratio in table 3", most.ratio),
                  most.row));
  finding.Note(
      fmt::format("and it has SIKF slower, by up to {} times ({}), "
                  "though the others are said to be slower constantly",
                  finding.Number("largest inverse", least.ratio), least.row));
  return finding;
}

Finding FrpbSpeDozens(const Evidence&) {
  Finding finding;
  const auto original = [](const table::Row& row) {
    return HoursWithout(row.task, "Original");
  };
  const Largest sine = LargestRatio(
                    [](const table::Row&row) { return row.sine; }, original),
                conv = LargestRatio(
                    [](const table::Row&row) { return row.conv; }, original);
  finding.Add(
      YesIf(conv.ratio >= 12),
      fmt::format("by table 3 convSPE is up to {} times slower ({})",
                  finding.Number("convSPE over the original", conv.ratio),
                  conv.row));
  finding.Add(
      YesIf(sine.ratio >= 12),
      fmt::format("sineSPE up to {} times ({}): not a dozen",
                  finding.Number("sineSPE over the original", sine.ratio),
                  sine.row));
  return finding;
}

Finding FrpbTable1Repeats(const Evidence&) {
  // Without positions, sineSPE and convSPE; the deviations agree as well.
  const std::vector<double> relu_aan = {58.78, 62.39, 61.00},
                            relu_tc = {58.78, 62.39, 61.00},
                            performer_aan = {59.84, 60.00, 57.22},
                            performer_tc = {59.84, 60.00, 57.22};
  Finding finding;
  finding.Require(relu_aan == relu_tc && performer_aan == performer_tc,
                  "the rows ReLU and Performer of TC repeat those of AAN digit "
                  "for digit in the columns without FastRPB (58.78, 62.39, "
                  "61.00 and 59.84, 60.00, 57.22)");
  return finding;
}

Finding NprfGlueNine(const Evidence&) {
  const std::vector<std::string> listed = {"CoLA", "RTE",  "MRPC", "STS",
                                           "SST",  "QNLI", "QQP",  "MNLI"};
  Finding finding;
  finding.Require(
      listed.size() == 8,
      fmt::format("the text lists {} tasks, and table 1 has {} columns",
                  listed.size(), listed.size()));
  return finding;
}

Finding NprfAverages(const Evidence&) {
  struct Row {
    const char* what;
    std::vector<double> numbers;
    double printed;
  };
  const std::vector<Row> averages = {
      {"GLUE of NPRF", {64.7, 75.1, 88.5, 89.4, 86.4, 91.3, 91.7, 94.8}, 85.2},
      {"GLUE of SMYRF", {58.8, 68.6, 87.7, 89.7, 85.0, 91.1, 89.7, 93.2}, 83.0},
      {"GLUE of FCA", {59.8, 49.8, 43.6, 78.9, 79.4, 74.6, 89.4, 94.4}, 71.2},
      {"GLUE of improved FCA",
       {60.1, 70.4, 87.3, 90.0, 88.0, 93.0, 91.5, 94.7},
       84.4},
      {"BLEU of standard", {34.7, 29.2, 40.0, 40.2}, 36.0},
      {"BLEU with a PRF decoder", {34.6, 29.3, 40.3, 40.6}, 36.2},
      {"BLEU of PRF", {32.1, 27.6, 38.0, 38.2}, 34.0},
      {"BLEU of NPRF", {34.3, 29.4, 39.9, 40.4}, 36.0},
  };
  Finding finding;
  std::string wrong;
  for (const Row& row : averages) {
    const double mean =
        std::accumulate(row.numbers.begin(), row.numbers.end(), 0.0) /
        static_cast<double>(row.numbers.size());
    if (!Rounds(mean, row.printed))
      wrong +=
          fmt::format("{}{}: {:.2f}, printed {:.1f}", wrong.empty() ? "" : ", ",
                      row.what, mean, row.printed);
  }
  finding.Add(YesIf(wrong.empty()),
              wrong.empty()
                  ? fmt::format("{} averages are right to the digit printed",
                                averages.size())
                  : "not the averages: " + wrong);
  const bool differences = std::abs(33.6 - 30.6 - 3.0) < 1e-9 &&
                           std::abs(31.3 - 30.6 - 0.7) < 1e-9 &&
                           std::abs(4.04 - 3.68 - 0.36) < 1e-9;
  finding.Add(YesIf(differences),
              "the differences 3.0 and 0.7 of table 2 and 0.36 of table 6 "
              "follow from their rows");
  return finding;
}

}  // namespace subquad
