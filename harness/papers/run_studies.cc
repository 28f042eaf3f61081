#include "harness/papers/run_studies.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/cases/input_source.h"
#include "harness/machine/environment.h"
#include "harness/papers/frame/attention_heads.h"
#include "harness/papers/papers.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// verdicts.md from all studies in the folder, in their order.
void WriteVerdicts(const fs::path& folder) {
  std::vector<Json> files;
  for (const Study& study : Studies()) {
    std::ifstream file(folder / (study.name + ".json"));
    Json json = Json::parse(file, nullptr, false);
    if (json.is_object() && json.value("format", "") == "study/1")
      files.push_back(std::move(json));
  }
  WriteFileAtomically(folder / "verdicts.md", VerdictTable(files));
}

// Folders that cannot be read or hold no heads are refused before anything is
// measured.
Json InputsOf(const StudyOptions& options) {
  Json inputs = Json::array();
  for (const std::string& path : options.inputs) {
    const std::string name = InputSourceName(path);
    if (!InputSourceExists(name)) {
      std::error_code error;
      throw InvalidInput(
          "--input", "a case folder, which contains case.json and tensors",
          "'" + path + "', which " +
              (fs::exists(path, error) ? "is not a folder" : "does not exist"));
    }
    CheckHasHeads(*FindInputSource(name));
    inputs.push_back(name);
  }
  return inputs;
}

}  // namespace

int RunStudies(const StudyOptions& options) {
  std::vector<const Study*> chosen;
  for (const std::string& name : options.names) {
    if (name == "all")
      for (const Study& study : Studies()) chosen.push_back(&study);
    else
      chosen.push_back(&FindStudy(name));
  }
  const Json inputs = InputsOf(options);
  const auto takes_inputs = [](const Study* study) {
    return study->parameters.contains("input");
  };
  if (!inputs.empty() && std::ranges::none_of(chosen, takes_inputs)) {
    std::string names;
    for (const Study& study : Studies())
      if (takes_inputs(&study))
        names += (names.empty() ? "one of " : ", ") + study.name;
    throw InvalidInput("--input",
                       "a study that reads case folders" +
                           (names.empty() ? names : ": " + names),
                       chosen.front()->name);
  }
  for (const Study* study : chosen)
    if (!inputs.empty() && !takes_inputs(study))
      Tell("{}: this study reads no case folders; --input is ignored\n",
           study->name);
  CheckOutputFolder("--out", options.out);
  std::error_code error;
  fs::create_directory(options.out, error);
  if (error || !fs::is_directory(options.out))
    throw InvalidInput("--out", "a writable folder",
                       "'" + options.out.string() + "'");
  for (const Study* study : chosen)
    OutputFile("--out", options.out / (study->name + ".json"),
               Unless(options.force));
  // Made from all the studies in the folder, so it is always made again.
  OutputFile("--out", options.out / "verdicts.md", "");
  Json header = {
      {"command", options.command},
      {"created", CurrentTime()},
      {"seed", options.seed},
      {"environment", WriteJson(DescribeEnvironment(options.threads))}};
  CatchInterrupts();
  bool all_hold = true;
  size_t done = 0;
  const auto say_interrupted = [&](const std::string& where) {
    Tell("interrupted {}; {} finished in {}\n", where,
         done == 1 ? "1 study is" : fmt::format("{} studies are", done),
         options.out.string());
  };
  for (const Study* study : chosen) {
    const Clock::time_point start = Clock::now();
    if (chosen.size() > 1)
      Tell("[{}/{}] {}\n", done + 1, chosen.size(), study->name);
    StudyResult result;
    try {
      StudyRun run(study->name, options.seed, options.threads, true);
      Json changes = Json::object();
      if (!inputs.empty() && takes_inputs(study)) changes["input"] = inputs;
      result = RunStudy(*study, options.tiny, run, changes);
    } catch (const StudyInterrupted&) {
      say_interrupted("in " + study->name);
      return kInterrupted;
    }
    header["created"] = CurrentTime();
    const fs::path file = options.out / (study->name + ".json");
    WriteFileAtomically(file, StudyText(StudyJson(*study, result, header)));
    WriteVerdicts(options.out);
    ++done;
    fmt::print("{} ({:.1f} s) -> {}\n", study->name,
               std::chrono::duration<double>(Clock::now() - start).count(),
               file.string());
    for (const StudyVerdict& verdict : result.verdicts)
      fmt::print("  {:<21} {}: {}\n", ToString(verdict.outcome), verdict.claim,
                 verdict.numbers);
    if (options.tiny)
      fmt::print("  This was a smoke run: its verdicts mean nothing.\n");
    std::fflush(stdout);
    all_hold = all_hold && result.holds();
    if (Interrupted()) {
      say_interrupted("after " + study->name);
      return kInterrupted;
    }
  }
  fmt::print("to draw them: python3 -m reports.figures {} --out {}\n",
             options.out.string(), (options.out / "figures").string());
  return all_hold ? kFine : kCheckFailed;
}

}  // namespace subquad
