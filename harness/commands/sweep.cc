#include "harness/sweeps/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/base/text.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/input_source.h"
#include "harness/commands/commands.h"
#include "harness/sweeps/presets.h"

namespace subquad {
namespace {

struct Request {
  Filters filters;
  std::string preset, config, out, shard;
  std::string n, d, e, f, heads, batch, threads;
  std::vector<std::string> params, inputs;
  uint64_t seed = 1;
  bool resume = false, force = false, no_resident = false, interleave = false;
  bool crossings = false;
  int processes = 1;
  double time_limit = 120, run_limit = 0, memory_limit = 0, budget = 2,
         width = 0.05;
};

// Leaves out case folders of a preset whose data is not installed, with a
// message. (In a user's own file, such a name is an error.)
void LeaveOutMissingFolders(std::vector<SweepAxes>& sweeps) {
  std::set<std::string> told;
  for (SweepAxes& sweep : sweeps)
    std::erase_if(sweep.inputs, [&](const std::string& input) {
      if (IsHardInput(input) || InputSourceExists(input)) return false;
      if (told.insert(input).second)
        Tell("skipped: the case folder {} does not exist\n", input);
      return true;
    });
  std::erase_if(sweeps,
                [](const SweepAxes& sweep) { return sweep.inputs.empty(); });
}

std::string FileText(const std::string& path) {
  std::ifstream stream(path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw InvalidInput("--config", "a file", "the folder '" + path + "'");
  if (!stream)
    throw InvalidInput("--config", "a file that can be read",
                       std::filesystem::exists(path, error)
                           ? "'" + path + "', which cannot be read"
                           : "no file '" + path + "'");
  return {std::istreambuf_iterator<char>(stream), {}};
}

void ParseShard(const std::string& text, SweepOptions& options) {
  if (text.empty()) return;
  const size_t slash = text.find('/');
  const auto wrong =
      InvalidInput("--shard", "I/K with 1 <= I <= K", "'" + text + "'");
  if (slash == std::string::npos) throw wrong;
  const auto shard = ParseNumber<int>(text.substr(0, slash));
  const auto shards = ParseNumber<int>(text.substr(slash + 1));
  if (!shard || !shards || *shard < 1 || *shard > *shards) throw wrong;
  options.shard = *shard;
  options.shards = *shards;
}

// Returns the options that define axes.
std::string AxesOf(const Request& request) {
  std::string text;
  const auto add = [&](const char* name, bool there) {
    if (there) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add("--n", !request.n.empty());
  add("--d", !request.d.empty());
  add("--e", !request.e.empty());
  add("--f", !request.f.empty());
  add("--heads", !request.heads.empty());
  add("--batch", !request.batch.empty());
  add("--param", !request.params.empty());
  add("--input", !request.inputs.empty());
  add("--interleave", request.interleave);
  add("--threads", !request.threads.empty());
  return text;
}

// Throws InvalidInput if two options define the same axis, such as --n 16 and
// --param n=8.
void CheckGivenOnce(const std::vector<SweepAxis>& axes) {
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    const auto first = std::ranges::find(axes, axis->name, &SweepAxis::name);
    if (first != axis)
      throw InvalidInput(
          axis->subject, "each axis once",
          fmt::format("{} too; write all values of {} as VALUE,VALUE",
                      first->subject == axis->subject ? "the same option"
                                                      : first->subject,
                      axis->name));
  }
}

// Throws InvalidInput for combinations in which an option would have no effect.
void CheckWays(const Request& request) {
  const std::string axes = AxesOf(request);
  const auto refuse = [](const std::string& text) {
    throw InvalidInput("sweep",
                       "either --preset, --config, or axes of cases, such as "
                       "--operator softmax_attention --n 1024,4096 (filters "
                       "can be combined with each of them)",
                       text);
  };
  if (!request.preset.empty() && !request.config.empty())
    refuse("both --preset and --config");
  if (!request.preset.empty() && !axes.empty())
    refuse("both --preset and " + axes);
  if (!request.config.empty() && !axes.empty())
    refuse("both --config and " + axes);
  const bool from_file = !request.preset.empty() || !request.config.empty();
  if (!from_file && request.n.empty() && request.filters.operators.empty() &&
      request.params.empty() && request.inputs.empty())
    refuse(axes.empty() ? "none of them"
                        : "only " + axes + ", without an operator or --n");
  if (request.filters.operators.empty())
    for (const std::string& input : request.inputs)
      if (!IsHardInput(input))
        throw InvalidInput("--input " + input,
                           "--operator with the operator of the case folder",
                           "none");
  if (request.interleave && request.inputs.size() < 2)
    throw InvalidInput("--interleave", "two or more inputs by --input",
                       std::to_string(request.inputs.size()));
}

int Sweep(const Request& request, const std::string& command) {
  SweepOptions options;
  if (request.out.empty())
    throw InvalidInput("--out", "the path of a result file to write", "none");
  CheckWays(request);
  // Fails before hours of measuring, not after them.
  options.out = OutputFile("--out", request.out,
                           request.resume || request.force
                               ? ""
                               : "--resume, which keeps its records, or "
                                 "--force, which replaces it");
  if (!request.preset.empty()) {
    options.sweeps = ParseSweepConfig("--preset " + request.preset,
                                      FindPreset(request.preset).text);
    LeaveOutMissingFolders(options.sweeps);
  } else if (!request.config.empty()) {
    options.sweeps = ParseSweepConfig(request.config, FileText(request.config));
  } else {
    SweepAxes sweep;
    if (!request.inputs.empty()) sweep.inputs = request.inputs;
    sweep.interleave = request.interleave;
    sweep.threads.clear();
    for (int64_t threads : ParseIntegerAxis(
             "--threads", request.threads.empty() ? "1" : request.threads,
             kMostThreads))
      sweep.threads.push_back(static_cast<int>(threads));
    const auto add = [&](const std::string& name, const std::string& text) {
      if (!text.empty()) sweep.axes.push_back({name, text, "--" + name});
    };
    add("n", request.n);
    add("d", request.d);
    add("e", request.e);
    add("f", request.f);
    add("heads", request.heads);
    add("batch", request.batch);
    for (const std::string& param : request.params) {
      const size_t equals = param.find('=');
      if (equals == std::string::npos || equals == 0)
        throw InvalidInput("--param", "NAME=VALUE", "'" + param + "'");
      const std::string name = param.substr(0, equals);
      sweep.axes.push_back({name, param.substr(equals + 1), "--param " + name});
    }
    CheckGivenOnce(sweep.axes);
    options.sweeps = {sweep};
  }
  options.filters = request.filters;
  options.command = command;
  options.seed = request.seed;
  options.resume = request.resume;
  options.force = request.force;
  options.resident = !request.no_resident;
  options.processes = request.processes;
  options.crossings = request.crossings;
  ParseShard(request.shard, options);
  options.sampling.budget_seconds = request.budget;
  options.sampling.relative_width = request.width;
  options.limits.case_seconds = request.time_limit;
  options.limits.run_seconds = request.run_limit;
  options.limits.memory_bytes =
      static_cast<int64_t>(request.memory_limit * (1 << 30));
  return RunSweep(options);
}

}  // namespace

void AddSweepCommand(CLI::App& program, const std::string& command_line,
                     int& status) {
  auto* command = program.add_subcommand(
      "sweep", "check, then measure time and memory over axes of sizes");
  auto request = std::make_shared<Request>();
  std::string presets;
  for (const Preset& preset : Presets()) presets += preset.name + ", ";
  command->add_option("--preset", request->preset,
                      presets + "or a recipe of reports/recipes");
  command->add_option("--config", request->config,
                      "JSON file: {\"sweeps\": [{\"operator\": .., \"n\": "
                      "\"256:65536:x4\", ..}]}");
  AddFilterOptions(*command, request->filters);
  AddTargetOption(*command);
  command->add_option("--n", request->n,
                      "axis of lengths (pixels for images): 1024,4096 or "
                      "1024:1048576:x2");
  command->add_option("--d", request->d, "axis of query widths");
  command->add_option("--e", request->e, "axis of value widths");
  command->add_option("--f", request->f, "axis of feature counts");
  command->add_option("--heads", request->heads, "axis of head counts");
  command->add_option("--batch", request->batch, "axis of batch sizes");
  command->add_option("--param", request->params,
                      "axis of a parameter, size or setting, as `subquad list "
                      "--operator X`\ndescribes them: NAME=VALUE[,VALUE..] "
                      "(repeatable)");
  command->add_option(
      "--input", request->inputs,
      "axis of inputs: kinds of values (see verify --help), or case folders, "
      "whose tensors are\ncropped or tiled to n; n, widths and heads default "
      "to the folder's");
  command->add_flag("--interleave", request->interleave,
                    "time cases that differ only in their input alternately");
  command->add_option("--out", request->out, "result file (required)");
  auto* resume = command->add_flag(
      "--resume", request->resume,
      "keep the records in FILE and its journal that this build measured, and "
      "measure the rest");
  command
      ->add_flag("--force", request->force,
                 "replace FILE if it exists, and delete its journal")
      ->excludes(resume);
  command->add_option("--threads", request->threads,
                      "axis of thread counts (default 1)");
  command
      ->add_option(
          "--time-limit", request->time_limit,
          "at most this many seconds for one implementation of one case")
      ->check(PositiveUpTo(1e7));
  command
      ->add_option("--run-limit", request->run_limit,
                   "skip implementations expected to take more than this many "
                   "seconds per run (default: a sixth of --time-limit)")
      ->check(PositiveUpTo(1e7));
  command
      ->add_option("--memory-limit", request->memory_limit,
                   "GiB for one case (default: four fifths of free memory)")
      ->check(PositiveUpTo(1e6));
  command
      ->add_option("--budget", request->budget,
                   "seconds of measuring for one implementation of one case")
      ->check(PositiveUpTo(1e7));
  command
      ->add_option(
          "--processes", request->processes,
          "number of processes that share the samples of a case, each in its\n"
          "own pass over all cases (default 1); with six or more, intervals\n"
          "include the variation between processes")
      ->check(IntegerFromTo(1, 100));
  command->add_flag(
      "--crossings", request->crossings,
      "also measure sizes around the crossovers of recipes' "
      "curves, until neighbouring sizes are within 8 % (at most 5 "
      "rounds)");
  command
      ->add_option("--width", request->width,
                   "target relative width of the median's confidence interval")
      ->check(PositiveUpTo(100));
  command->add_flag(
      "--no-resident", request->no_resident,
      "do not measure the peak resident set (a process for each case)");
  command->add_option(
      "--shard", request->shard,
      "I/K: run only part I of K of the cases; join with merge");
  AddSeedOption(*command, request->seed);
  command->footer(
      "Each record is on disk (FILE.journal) before the next case begins.\n"
      "Ctrl-C keeps finished records (exit status 130); --resume continues.\n"
      "Records of another build (other sources, compiler or flags; `subquad "
      "env`\n"
      "shows its digest) are measured again; the old ones are kept in "
      "FILE.old.\n"
      "Exit status: 0 all checks passed, 1 a check failed, 2 invalid "
      "arguments.\n"
      "Filters select from the cases of a preset or a configuration.\n"
      "Draw with: python3 -m reports.figures FILE --out DIR");
  command->callback([request, command_line, &status] {
    status = Sweep(*request, command_line);
  });

  // Adds the command of a sweep's child processes, hidden from --help.
  auto* worker = program.add_subcommand("worker", "");
  worker->group("");
  worker->callback([&status] { status = RunWorker(); });
}

}  // namespace subquad
