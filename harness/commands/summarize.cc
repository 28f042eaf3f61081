// Commands that compute numbers for reports/: summarize and intervals.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "harness/base/output_file.h"
#include "harness/base/statistics.h"
#include "harness/commands/commands.h"
#include "harness/machine/build_info.h"
#include "harness/machine/environment.h"
#include "harness/results/summary.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

struct Request {
  std::vector<std::string> files, recipes;
  std::string out;
  bool force = false;
};

// Tells whether a JSON file of a folder is something other than a result file,
// such as a study or an older summary. ReadResultFile reports unreadable JSON.
bool IsSomethingElse(const fs::path& path, bool in_folder) {
  std::ifstream stream(path);
  const Json file = Json::parse(stream, nullptr, false);
  if (file.is_discarded()) return false;
  const Json format = file.is_object() ? file.value("format", Json()) : Json();
  return format == "study/1" || format == "summary/1" ||
         (in_folder && format != "results/1");
}

std::vector<std::pair<std::string, Json>> ReadResults(
    const std::vector<std::string>& paths) {
  std::vector<std::pair<std::string, Json>> files;
  for (const std::string& path : paths) {
    std::error_code error;
    std::vector<fs::path> found = {path};
    const bool folder = fs::is_directory(path, error);
    if (folder) {
      found.clear();
      for (const auto& entry : fs::directory_iterator(path))
        if (entry.path().extension() == ".json") found.push_back(entry.path());
      std::ranges::sort(found);
    }
    for (const fs::path& file : found) {
      if (IsSomethingElse(file, folder)) continue;
      files.emplace_back(file.filename().string(), ReadResultFile(file));
      RecordsOf(files.back().second, file.string());  // throws if invalid
    }
  }
  return files;
}

int Summarize(const Request& request, const std::string& command_line) {
  OutputFile("--out", request.out, Unless(request.force));
  RefuseInput("--out", request.out, request.files);
  const auto files = ReadResults(request.files);
  if (files.empty()) {
    std::string searched;
    for (const std::string& path : request.files)
      searched += (searched.empty() ? "" : ", ") + path;
    throw InvalidInput("FILE", "at least one result file (format results/1)",
                       "none in " + searched);
  }
  const std::vector<Recipe> chosen =
      request.recipes.empty() ? BuiltInRecipes() : ReadRecipes(request.recipes);
  const Json recipes = SummarizeRecipes(files, chosen);
  Json sources = Json::array();
  for (const auto& [name, file] : files)
    sources.push_back({{"file", name},
                       {"created", file.value("created", "")},
                       {"records", file.at("records").size()}});
  const Json header = {{"format", "summary/1"},    {"command", command_line},
                       {"created", CurrentTime()}, {"commit", kCommit},
                       {"dirty", kDirty},          {"files", sources}};
  // Writes one line per recipe instead of thousands of lines with one number
  // each.
  std::string text = header.dump(1);
  text.resize(text.size() - 2);  // the closing brace
  text += ",\n \"recipes\": [";
  for (size_t i = 0; i < recipes.size(); ++i)
    text += (i > 0 ? ",\n  " : "\n  ") + recipes[i].dump();
  WriteFileAtomically(request.out, text + "\n ]\n}\n");
  fmt::print("{}: {} recipe{} from {} file{}\n", request.out, recipes.size(),
             recipes.size() == 1 ? "" : "s", files.size(),
             files.size() == 1 ? "" : "s");
  if (recipes.empty())
    fmt::print(
        "no record in these files has the settings of a curve in the {} "
        "recipe{} of {}; `subquad sweep --preset RECIPE` measures a recipe\n",
        chosen.size(), chosen.size() == 1 ? "" : "s",
        request.recipes.empty() ? "reports/recipes" : "--recipes");
  return kFine;
}

// ---- intervals ----------------------------------------------------------

std::vector<double> SamplesOf(const Json& request, const char* name) {
  const Json list = request.value(name, Json());
  if (!list.is_array() || list.empty())
    throw InvalidInput(name, "a list of samples",
                       list.is_null() ? "none" : list.dump());
  for (const Json& entry : list)
    if (!entry.is_number())
      throw InvalidInput(name, "a list of numbers", entry.dump());
  return list.get<std::vector<double>>();
}

// Throws InvalidInput for a key that the request cannot have.
void CheckKeys(const Json& request, const std::vector<std::string>& names) {
  for (const auto& [name, value] : request.items())
    if (!std::ranges::count(names, name)) throw UnknownName("key", names, name);
}

Json IntervalOf(const Json& request) {
  if (!request.is_object())
    throw InvalidInput("expected a JSON object, found " +
                       (request.is_discarded() ? std::string("no valid JSON")
                                               : request.dump()));
  if (request.contains("samples")) {
    CheckKeys(request, {"samples"});
    const Median median = MedianWithInterval(SamplesOf(request, "samples"));
    return {median.median, median.interval.low, median.interval.high};
  }
  CheckKeys(request, {"samples", "a", "b", "in_turns"});
  const std::vector<double> a = SamplesOf(request, "a"),
                            b = SamplesOf(request, "b");
  const Json in_turns = request.value("in_turns", Json(false));
  if (!in_turns.is_boolean())
    throw InvalidInput("in_turns", "true or false", in_turns.dump());
  const Ratio ratio =
      in_turns.get<bool>() ? RatioInTurns(a, b) : RatioOfMedians(a, b);
  return {ratio.ratio, ratio.interval.low, ratio.interval.high};
}

int Intervals() {
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    try {
      std::cout << IntervalOf(Json::parse(line, nullptr, false)).dump()
                << std::endl;
    } catch (const InvalidInput& problem) {
      throw problem.In(fmt::format("standard input, line {}", number));
    }
  }
  return kFine;
}

}  // namespace

void AddSummarizeCommand(CLI::App& program, const std::string& command_line,
                         int& status) {
  auto* command = program.add_subcommand(
      "summarize",
      "fit exponents and compute crossovers and ratios for the curves of "
      "recipes");
  auto request = std::make_shared<Request>();
  command
      ->add_option("FILE", request->files,
                   "result files, or folders of them; a curve may combine "
                   "points of several files")
      ->required();
  command->add_option("--recipes", request->recipes,
                      "recipe files, or folders of them (default: the recipes "
                      "that were in reports/recipes when the program was "
                      "built)");
  command->add_option("--out", request->out, "summary file to write")
      ->required();
  AddForceOption(*command, request->force);
  command->footer(
      "Writes a summary file (format summary/1). Pass it to reports.figures "
      "together\n"
      "with the same result files, and the figures print its numbers:\n"
      "  python3 -m reports.figures FILE... SUMMARY --out DIR\n"
      "Exit status: 0 written, 2 invalid arguments or files.");
  command->callback([request, command_line, &status] {
    status = Summarize(*request, command_line);
  });
}

void AddIntervalsCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "intervals", "compute medians and ratios of samples from standard input");
  command->footer(
      "Reads one JSON object per line and answers each with [value, low, "
      "high]:\n"
      "  {\"samples\": [..]}                           their median\n"
      "  {\"a\": [..], \"b\": [..]}                      how many times larger "
      "b "
      "is\n"
      "  {\"a\": [..], \"b\": [..], \"in_turns\": true}  the same ratio, of "
      "samples that were\n"
      "                                              taken alternately, in "
      "pairs\n"
      "Intervals have a confidence of 95 %; with too few samples they are\n"
      "min and max.");
  command->callback([&status] { status = Intervals(); });
}

}  // namespace subquad
