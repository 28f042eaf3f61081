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
  const size_t records = merged.at("records").size();
  fmt::print("{}: {} record{} from {} file{}\n", out, records,
             records == 1 ? "" : "s", files.size(),
             files.size() == 1 ? "" : "s");
  return kFine;
}

int Compare(const std::string& old_path, const std::string& new_path,
            double threshold, bool all) {
  const auto records_of = [](const std::string& path) {
    return RecordsOf(ReadResultFile(path), path);
  };
  const std::vector<Record> old_records = records_of(old_path);
  const FileComparison result =
      CompareFiles(old_records, records_of(new_path), threshold);
  if (result.points.empty())
    throw InvalidInput(
        new_path, "at least one case that " + old_path + " has measured too",
        "none");
  std::map<Change, int64_t> counts;
  for (const PointChange& point : result.points) {
    ++counts[point.change];
    if (!all && point.change == Change::kSame) continue;
    fmt::print("{:<10} {:.3f} [{:.3f}, {:.3f}]  {}{}\n", ToString(point.change),
               point.ratio.ratio, point.ratio.interval.low,
               point.ratio.interval.high, point.key.Text(),
               point.note.empty() ? "" : "  " + point.note);
  }
  fmt::print(
      "{} point{}: {} same, {} faster, {} regression{}, {} ambiguous; {} "
      "only in {}, {} only in {}; ratios new/old with intervals at {:.4g} % "
      "each, threshold {:.3g} %\n",
      result.points.size(), result.points.size() == 1 ? "" : "s",
      counts[Change::kSame], counts[Change::kFaster],
      counts[Change::kRegression], counts[Change::kRegression] == 1 ? "" : "s",
      counts[Change::kAmbiguous], result.only_old, old_path, result.only_new,
      new_path, 100 * result.confidence, 100 * threshold);
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
      "compare", "compare the times of two result files and find regressions");
  struct Request {
    std::string old_path, new_path;
    double threshold = 5;
    bool all = false;
  };
  auto request = std::make_shared<Request>();
  command->add_option("OLD", request->old_path, "result file to compare with")
      ->required();
  command->add_option("NEW", request->new_path, "result file to judge")
      ->required();
  command
      ->add_option("--threshold", request->threshold,
                   "largest change of a time, in percent, that counts as the "
                   "same")
      ->capture_default_str()
      ->check(AtLeastZero());
  command->add_flag("--all", request->all,
                    "also print points that are the same");
  command->footer(
      "A point is one implementation on one case. Its ratio is the median time "
      "in NEW\n"
      "divided by that in OLD, with an interval. Changes, at a threshold of "
      "5 %:\n"
      "  same        the whole interval is between 1/1.05 and 1.05\n"
      "  faster      the whole interval is below 1/1.05\n"
      "  REGRESSION  the whole interval is above 1.05, or the point passed in "
      "OLD and\n"
      "              fails its check or is mistrusted in NEW\n"
      "  ambiguous   the interval contains a limit, there are too few samples "
      "for an\n"
      "              interval, or the point is not measured in NEW: measure "
      "again, longer\n"
      "The confidence of each interval is raised so that all of them together "
      "hold at\n"
      "95 % (Bonferroni): with 10 points, each interval is at 99.5 %.\n"
      "Exit status: 0 no regression, 1 a regression, 2 invalid arguments or "
      "files.");
  command->callback([request, &status] {
    status = Compare(request->old_path, request->new_path,
                     request->threshold / 100, request->all);
  });
}

}  // namespace subquad
