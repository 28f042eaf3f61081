// Claims that FastRPB's own printed numbers answer (tables.h). What follows
// from them is computed.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/fastrpb/tables.h"

namespace subquad {
namespace {

namespace table = fastrpb_tables;

std::string NameOf(const auto& row) {
  return fmt::format("{}, {}", row.task, row.model);
}

// The largest ratio of two columns among the rows that have both, and its row.
struct Largest {
  double ratio = 0;
  std::string row;
};
template <typename Over, typename Under>
Largest LargestRatio(Over over, Under under) {
  Largest largest;
  for (const table::Row& row : table::kRows)
    if (const double ratio = over(row) / under(row); ratio > largest.ratio)
      largest = {ratio, NameOf(row)};
  return largest;
}

bool Is(const table::Row& row, const char* model) {
  return std::string_view(row.model) == model;
}

// The text has an "up to" that its own table exceeds or does not reach.
void AddUpTo(Finding& finding, const std::string& what, double said,
             const Largest& largest) {
  const Measured most = finding.Measure(what, largest.ratio);
  finding.Require(std::abs(most / said - 1) > 0.05,
                  fmt::format("{}: up to {:g} by the text, up to {} by table 3 "
                              "({})",
                              what, said, most, largest.row));
}

Finding Abstract(const Evidence& evidence) {
  Finding finding(evidence);
  AddUpTo(finding, "hours of the original over FastRPB's", 1.5,
          LargestRatio(
              [](const table::Row& row) -> double {
                return table::CellOf("Original", row, &table::Row::none);
              },
              [](const table::Row& row) -> double {
                return Is(row, "Original") ? NAN : row.fastrpb;
              }));
  const Largest memory = LargestRatio(
      [](const table::Row& row) -> double {
        return table::CellOf("Original", row, &table::Row::none_gb);
      },
      [](const table::Row& row) -> double {
        return Is(row, "Original") ? NAN : row.fastrpb_gb;
      });
  finding.Note(fmt::format(
      "the other factor, 10 times less memory, is table 3's: up to {} ({})",
      finding.Mention("memory of the original over FastRPB's", memory.ratio),
      memory.row));
  return finding;
}

Finding Slower(const Evidence& evidence) {
  Finding finding(evidence);
  const auto others = [](const table::Row& row) -> double {
    return Is(row, "DPFP") || Is(row, "Performer") ? row.none : NAN;
  };
  const auto sikf = [](const table::Row& row) -> double {
    return table::CellOf("SIKF", row, &table::Row::none);
  };
  AddUpTo(finding, "hours of DPFP and Performer over SIKF's", 1.4,
          LargestRatio(others, sikf));
  const Largest least = LargestRatio(sikf, others);
  finding.Note(fmt::format(
      "and it has SIKF slower, by up to {} times ({}), though the others are "
      "said to be slower constantly",
      finding.Mention("largest inverse", least.ratio), least.row));
  return finding;
}

Finding Table3Printed(const Evidence& evidence) {
  Finding finding(evidence);
  const auto fast = [](const table::Row& row) -> double { return row.fastrpb; };
  AddUpTo(finding, "hours with convSPE over FastRPB's", table::kSaidConv,
          LargestRatio([](const table::Row& row) -> double { return row.conv; },
                       fast));
  AddUpTo(finding, "hours with sineSPE over FastRPB's", table::kSaidSine,
          LargestRatio([](const table::Row& row) -> double { return row.sine; },
                       fast));
  return finding;
}

// "Very tight": within a tenth.
Finding TightMemory(const Evidence& evidence) {
  Finding finding(evidence);
  for (const char* model : {"ReLU", "DPFP", "Performer"}) {
    const Largest most = LargestRatio(
        [&](const table::Row& row) -> double {
          if (!Is(row, "SIKF")) return NAN;
          const double other = table::CellOf(model, row, &table::Row::none_gb);
          return std::max(other / row.none_gb, row.none_gb / other);
        },
        [](const table::Row&) -> double { return 1.0; });
    const Measured ratio =
        finding.Measure(std::string("memory against ") + model, most.ratio);
    finding.Add(ratio <= 1.1,
                fmt::format("by table 3 SIKF's memory and that of {} differ by "
                            "up to {} times ({})",
                            model, ratio, most.row));
  }
  return finding;
}

// "Without additional memory" within a tenth.
Finding Footprint(const Evidence& evidence) {
  Finding finding(evidence);
  const auto plain_gb = [](const table::Row& row) -> double {
    return Is(row, "Original") ? NAN : row.none_gb;
  };
  const auto plain = [](const table::Row& row) -> double {
    return Is(row, "Original") ? NAN : row.none;
  };
  const Largest memory = LargestRatio(
      [](const table::Row& row) -> double { return row.fastrpb_gb; }, plain_gb);
  const Largest hours = LargestRatio(
      [](const table::Row& row) -> double { return row.fastrpb; }, plain);
  const Measured ratio =
      finding.Measure("memory with FastRPB over without", memory.ratio);
  finding.Require(ratio > 1.1, fmt::format("by table 3, linear transformers "
                                           "with FastRPB take up to {} times "
                                           "the memory of those without ({})",
                                           ratio, memory.row));
  finding.Note(fmt::format(
      "and up to {} times the hours of training ({})",
      finding.Mention("hours with FastRPB over without", hours.ratio),
      hours.row));
  return finding;
}

// The factor is quoted from another paper; this one's table has a smaller one.
Finding LraSpeed(const Evidence& evidence) {
  Finding finding(evidence);
  const Largest most = LargestRatio(
      [](const table::Row& row) -> double {
        return table::CellOf("Original", row, &table::Row::none);
      },
      [](const table::Row& row) -> double {
        return Is(row, "Original") ? NAN : row.none;
      });
  const Measured ratio =
      finding.Measure("hours of the original over a linear one's", most.ratio);
  finding.Require(
      ratio < 5, fmt::format("5 times by the text, which quotes another paper, "
                             "and up to {} times by table 3 ({})",
                             ratio, most.row));
  return finding;
}

// ---- tables 1 and 2 --------------------------------------------------------

using Column = double table::Accuracy::*;
constexpr Column kColumns[] = {&table::Accuracy::none,
                               &table::Accuracy::fastrpb,
                               &table::Accuracy::sine, &table::Accuracy::conv};

// FastRPB above both kinds of SPE, kernel by kernel.
Finding Accuracy(const Evidence& evidence) {
  Finding finding(evidence);
  for (const char* task : table::kTasks) {
    int64_t rows = 0, better = 0;
    for (const table::Accuracy& row : table::AccuraciesByPublicRuns()) {
      if (std::string_view(row.task) != task || std::isnan(row.sine)) continue;
      ++rows;
      better += row.fastrpb > row.sine && !(row.fastrpb <= row.conv);
    }
    const Measured share = finding.Measure(
        fmt::format("share of kernels on {}", task),
        static_cast<double>(better) / static_cast<double>(rows));
    finding.Add(share == 1   ? Holds::kYes
                : share == 0 ? Holds::kNo
                             : Holds::kBetween,
                fmt::format("{}: with {} of {} kernels", task, better, rows));
  }
  finding.Note(
      "by table 1, with SPE's public runs for the copied cells of TC: accuracy "
      "above both kinds of SPE");
  return finding;
}

// How many results of other models are above the best of SIKF.
Finding SikfTopTwo(const Evidence& evidence) {
  Finding finding(evidence);
  for (const char* task : table::kTasks) {
    double best = 0;
    std::vector<double> others;
    for (const table::Accuracy& row : table::AccuraciesByPublicRuns()) {
      if (std::string_view(row.task) != task) continue;
      for (const Column column : kColumns)
        if (std::string_view(row.model) == "SIKF")
          best = std::max(best, row.*column);
        else if (!std::isnan(row.*column))
          others.push_back(row.*column);
    }
    const Measured above = finding.Measure(
        fmt::format("results above SIKF's best on {}", task),
        static_cast<double>(std::ranges::count_if(
            others, [&](double other) { return other > best; })));
    const bool cifar = std::string_view(task) == "CIFAR";
    if (above <= 1 && !cifar)
      finding.Note(fmt::format("on {} {:g} results are above SIKF's best", task,
                               above.value));
    else
      finding.Require(cifar ? above <= 1 : above > 1,
                      fmt::format("on {} {:g} results are above SIKF's best "
                                  "({:g} %)",
                                  task, above.value, best));
  }
  return finding;
}

Finding BetterThanOriginal(const Evidence& evidence) {
  Finding finding(evidence);
  for (const char* task : {"AAN", "TC"}) {
    double original = NAN, best = 0;
    for (const table::Accuracy& row : table::kAccuracies)
      if (std::string_view(row.task) == task) {
        if (std::string_view(row.model) == "Original")
          original = row.none;
        else
          best = std::max(best, row.fastrpb);
      }
    const Measured ahead = finding.Measure(
        fmt::format("points ahead on {}", task), best - original);
    finding.Add(
        std::isnan(ahead) ? Holds::kUntestable
        : ahead > 0       ? Holds::kYes
                          : Holds::kNo,
        std::isnan(ahead)
            ? fmt::format("{}: the original ran out of memory", task)
            : fmt::format("{}: {} points above the original", task, ahead));
  }
  return finding;
}

// Fastest: beside the other encodings. Most accurate: the best of each task.
Finding FastestAndBest(const Evidence& evidence) {
  Finding finding(evidence);
  double least = HUGE_VAL;
  for (const table::Row& row : table::kRows)
    if (!std::isnan(row.sine))
      least = std::min(least, std::min(row.sine, row.conv) / row.fastrpb);
  const Measured fastest =
      finding.Measure("least hours of an SPE over FastRPB's", least);
  finding.Add(fastest > 1, fmt::format("by table 3 every SPE takes longer, by "
                                       "{} times or more",
                                       fastest));
  int64_t best = 0;
  std::string elsewhere;
  for (const char* task : table::kTasks) {
    double fastrpb = 0, others = 0;
    for (const table::Accuracy& row : table::AccuraciesByPublicRuns())
      if (std::string_view(row.task) == task)
        for (const Column column : kColumns) {
          double& most = column == &table::Accuracy::fastrpb ? fastrpb : others;
          if (row.*column > most) most = row.*column;
        }
    if (fastrpb > others)
      ++best;
    else
      elsewhere += (elsewhere.empty() ? "" : ", ") + std::string(task);
  }
  const Measured tasks =
      finding.Measure("tasks led by FastRPB", static_cast<double>(best));
  finding.Add(tasks == 4, fmt::format("by table 1, with SPE's public runs for "
                                      "the copied cells of TC, a model with "
                                      "FastRPB is the best on {} of 4 tasks, "
                                      "not on {}",
                                      tasks, elsewhere));
  return finding;
}

// A wide margin: two deviations of the best result.
Finding CifarConv(const Evidence& evidence) {
  Finding finding(evidence);
  double conv = 0, others = 0;
  int64_t kernels = 0, gain = 0;
  for (const table::Accuracy& row : table::kAccuracies) {
    if (std::string_view(row.task) != "CIFAR") continue;
    if (row.conv > conv) conv = row.conv;
    for (const Column column : kColumns)
      if (column != &table::Accuracy::conv && row.*column > others)
        others = row.*column;
    if (std::isnan(row.conv)) continue;
    ++kernels;
    gain += row.conv > row.none;
  }
  const Measured ahead = finding.Measure("points ahead", conv - others),
                 margin = finding.Measure("points ahead over the deviation",
                                          ahead / table::kCifarBestDeviation),
                 share = finding.Measure("kernels that gain",
                                         static_cast<double>(gain));
  finding.Add(ahead > 0, fmt::format("the best result on CIFAR is with "
                                     "convSPE, {} points ahead",
                                     ahead));
  finding.Add(margin >= 2, fmt::format("its lead is {} times its standard "
                                       "deviation, {:g} points",
                                       margin, table::kCifarBestDeviation));
  finding.Add(share == static_cast<double>(kernels),
              fmt::format("of {} kernels {} gain by it over no positions",
                          kernels, share));
  return finding;
}

Finding CifarDrop(const Evidence& evidence) {
  Finding finding(evidence);
  int64_t models = 0, lower = 0;
  double most = 0;
  for (const table::Accuracy& row : table::kAccuracies) {
    if (std::string_view(row.task) != "CIFAR" || std::isnan(row.fastrpb))
      continue;
    ++models;
    lower += row.fastrpb < row.none;
    most = std::max(most, row.none - row.fastrpb);
  }
  const Measured share =
      finding.Measure("share of models that lose",
                      static_cast<double>(lower) / static_cast<double>(models));
  finding.Add(share == 1   ? Holds::kYes
              : share == 0 ? Holds::kNo
                           : Holds::kBetween,
              fmt::format("by table 1, {} of {} models lose accuracy on CIFAR "
                          "with FastRPB, up to {} points",
                          lower, models, finding.Mention("points lost", most)));
  return finding;
}

// Rows that two tasks have digit for digit in the columns without FastRPB, and
// cells that a row has twice.
Finding Table1Repeats(const Evidence& evidence) {
  Finding finding(evidence);
  int64_t rows = 0, cells = 0;
  std::string names;
  for (const table::Accuracy& a : table::kAccuracies) {
    if (std::isnan(a.none)) continue;
    cells += a.none == a.sine || a.none == a.conv || a.sine == a.conv;
    for (const table::Accuracy& b : table::kAccuracies)
      if (&a < &b && a.none == b.none && a.sine == b.sine && a.conv == b.conv) {
        ++rows;
        names += fmt::format("{}{} of {} and of {}", names.empty() ? "" : ", ",
                             a.model, a.task, b.task);
      }
  }
  const Measured twice =
                     finding.Measure("rows twice", static_cast<double>(rows)),
                 within = finding.Mention("rows with a number twice",
                                          static_cast<double>(cells));
  finding.Require(twice > 0,
                  fmt::format("{} rows of table 1 repeat another digit for "
                              "digit in the columns without FastRPB ({}), and "
                              "{} have a number twice",
                              twice, names, within));
  return finding;
}

// The cells of TC that table 1 has from AAN, beside the runs that they are said
// to be copied from.
Finding Table1Copied(const Evidence& evidence) {
  Finding finding(evidence);
  const std::vector<table::Accuracy> runs = table::AccuraciesByPublicRuns();
  double least = HUGE_VAL;
  std::string gains;
  for (size_t i = 0; i < runs.size(); ++i) {
    const table::Accuracy &printed = table::kAccuracies[i], &run = runs[i];
    if (run.none == printed.none || std::isnan(printed.none)) continue;
    least = std::min({least, std::abs(run.none - printed.none),
                      std::abs(run.sine - printed.sine)});
    gains += fmt::format(
        "{}{} on {} gains {:+.2f} points by FastRPB instead of "
        "{:+.2f}",
        gains.empty() ? "" : ", ", run.model, run.task, run.fastrpb - run.none,
        printed.fastrpb - printed.none);
  }
  const Measured off = finding.Measure("smallest difference in points", least);
  finding.Require(off > 1 && std::isfinite(off),
                  fmt::format("the copied cells of TC are {} points or more "
                              "from the runs that SPE's authors publish; by "
                              "those runs, {}",
                              off, gains));
  return finding;
}

// A model that gives one answer has the accuracy that several runs have with no
// deviation.
Finding ListOps(const Evidence& evidence) {
  Finding finding(evidence);
  double constant = 0;
  int64_t constant_runs = 0;
  for (const table::PublicRuns& runs : table::kPublicRuns)
    for (const auto& [mean, deviation] :
         {std::pair{runs.none, runs.none_deviation},
          {runs.sine, runs.sine_deviation}})
      if (deviation == 0) {
        constant = mean;
        ++constant_runs;
      }
  double without = 0, with = 0;
  int64_t cells = 0, above = 0;
  for (const table::Accuracy& row : table::kAccuracies)
    if (std::string_view(row.task) == "ListOps")
      for (const Column column : kColumns) {
        if (std::isnan(row.*column)) continue;
        ++cells;
        above += row.*column > constant;
        double& best = column == &table::Accuracy::none ? without : with;
        best = std::max(best, row.*column);
      }
  const Measured ahead = finding.Measure("points ahead", without - with),
                 better = finding.Measure("cells above a constant answer",
                                          static_cast<double>(above));
  finding.Add(ahead > 0, fmt::format("by table 1, the best model on ListOps "
                                     "has no positions, {} points ahead",
                                     ahead));
  finding.Add(
      2 * better > static_cast<double>(cells),
      fmt::format("{} of {} accuracies are above {:.2f}, which {} groups of "
                  "three public runs of SPE's authors have without any "
                  "deviation: the accuracy of one constant answer. By their "
                  "README the inputs lacked the brackets",
                  better, cells, constant, constant_runs));
  return finding;
}

// Welch's t of 10 runs each.
Finding Table2(const Evidence& evidence) {
  Finding finding(evidence);
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (const table::Mnist& row : table::kMnist) {
    const double t = (row.with - row.without) /
                     std::sqrt((row.with_deviation * row.with_deviation +
                                row.without_deviation * row.without_deviation) /
                               table::kMnistRuns);
    least = std::min(least, t);
    most = std::max(most, t);
  }
  const Measured smallest = finding.Measure("smallest t", least),
                 largest = finding.Mention("largest t", most);
  // One in a thousand, one-sided, with 9 degrees of freedom.
  finding.Add(smallest > 4.3,
              fmt::format("by table 2's means and deviations over {} runs, "
                          "Welch's t of the five gains is {} to {}",
                          table::kMnistRuns, smallest, largest));
  return finding;
}

}  // namespace

std::vector<NamedRule> FastRpbPrintedRules() {
  return {{"frpb-abstract", Abstract},
          {"frpb-slower", Slower},
          {"frpb-table3-printed", Table3Printed},
          {"frpb-tight-memory", TightMemory},
          {"frpb-footprint", Footprint},
          {"frpb-lra-speed", LraSpeed},
          {"frpb-accuracy", Accuracy},
          {"frpb-sikf-top-two", SikfTopTwo},
          {"frpb-better-than-original", BetterThanOriginal},
          {"frpb-fastest", FastestAndBest},
          {"frpb-cifar-drop", CifarDrop},
          {"frpb-cifar-conv", CifarConv},
          {"frpb-table1-repeats", Table1Repeats},
          {"frpb-table1-copied", Table1Copied},
          {"frpb-listops", ListOps},
          {"frpb-table2", Table2}};
}

}  // namespace subquad
