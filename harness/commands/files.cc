// Commands that read result files: merge and compare.
#include <fmt/format.h>

#include <map>

#include "harness/base/output_file.h"
#include "harness/commands/commands.h"
#include "harness/results/compare.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

int Merge(const std::vector<std::string>& paths, const std::string& out,
          bool force, const std::string& command_line) {
  OutputFile("--out", out, Unless(force));
  std::vector<Json> files;
  for (const std::string& path : paths) files.push_back(ReadResultFile(path));
  const Json merged = MergeFiles(files, paths, command_line);
  WriteFileAtomically(out, merged.dump(1) + "\n");
  fmt::print("{}: {} records from {} files\n", out, merged.at("records").size(),
             files.size());
  return kFine;
}

int Compare(const std::string& old_path, const std::string& new_path,
            double threshold, bool all) {
  const FileComparison result = CompareFiles(
      ReadResultFile(old_path), ReadResultFile(new_path), threshold);
  if (result.points.empty())
    throw InvalidInput("compare", "points measured in both files", "none");
  std::map<Change, int64_t> counts;
  for (const PointChange& point : result.points) {
    ++counts[point.change];
    if (!all && point.change == Change::kSame) continue;
    fmt::print("{:<10} {:.3f} [{:.3f}, {:.3f}]  {}{}\n", ToString(point.change),
               point.ratio.ratio, point.ratio.interval.low,
               point.ratio.interval.high, point.key,
               point.note.empty() ? "" : "  " + point.note);
  }
  fmt::print(
      "{} points: {} same, {} faster, {} regressions, {} ambiguous; {} "
      "only in {}, {} only in {}; new/old with intervals at {:.4g} % "
      "each, threshold {:.3g} %\n",
      result.points.size(), counts[Change::kSame], counts[Change::kFaster],
      counts[Change::kRegression], counts[Change::kAmbiguous], result.only_old,
      old_path, result.only_new, new_path, 100 * result.confidence,
      100 * threshold);
  return counts[Change::kRegression] > 0 ? kCheckFailed : kFine;
}

}  // namespace

void AddMergeCommand(CLI::App& program, const std::string& command_line,
                     int& status) {
  auto* command =
      program.add_subcommand("merge", "merge the result files of shards");
  auto files = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  command->add_option("FILE", *files, "result files of one sweep")->required();
  command->add_option("--out", *out, "result file (required)");
  AddForceOption(*command, *force);
  command->callback(
      [=, &status] { status = Merge(*files, *out, *force, command_line); });
}

void AddCompareCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "compare",
      "compare two result files: ratios with intervals, regressions");
  struct Request {
    std::string old_path, new_path;
    double threshold = 5;
    bool all = false;
  };
  auto request = std::make_shared<Request>();
  command->add_option("OLD", request->old_path, "result file")->required();
  command->add_option("NEW", request->new_path, "result file")->required();
  command
      ->add_option("--threshold", request->threshold,
                   "regression threshold in percent")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--all", request->all, "include unchanged points");
  command->footer(
      "A point is a regression if its whole interval of new/old is above the\n"
      "threshold, or if it no longer passes. Exit status: 0 no regression, 1 "
      "a\n"
      "regression, 2 invalid files.");
  command->callback([request, &status] {
    status = Compare(request->old_path, request->new_path,
                     request->threshold / 100, request->all);
  });
}

}  // namespace subquad
