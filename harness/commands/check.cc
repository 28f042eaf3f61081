#include "harness/judging/check.h"

#include <fmt/format.h>

#include <cstdio>

#include "cuda/device.h"
#include "harness/base/tell.h"
#include "harness/commands/commands.h"
#include "harness/results/result_file.h"

namespace subquad {
namespace {

struct Request {
  std::vector<std::string> folders;
  Filters filters;
  bool json = false;
};

// What is said behind pass or FAIL.
std::string Remarks(const CaseFolder& folder, const CheckLine& line) {
  const Comparison& numbers = line.verdict.comparison;
  std::string text = fmt::format("  ({}{} rows, gate {}",
                                 numbers.all_rows ? "" : "a sample of ",
                                 numbers.rows, line.deciding.gate);
  if (folder.expected_error > 0)
    text += fmt::format(", expected_error {:g}", folder.expected_error);
  const Margin& margin = line.verdict.margin;
  if (margin.wrong_answers > 0)
    text += fmt::format(", margin {:.3g}: {}", margin.value, margin.nearest);
  text += ")";
  if (!line.verdict.reason.empty())
    text += fmt::format("  {}: {}", ToString(line.verdict.outcome),
                        line.verdict.reason);
  else if (!line.verdict.gates.empty())
    text += "  (" + line.verdict.gates + ")";
  return text;
}

void PrintLine(const CaseFolder& folder, const CheckLine& line) {
  const Verdict& verdict = line.verdict;
  const std::string id =
      line.implementation + (line.backend == "cuda" ? " (cuda)" : "");
  fmt::print("{:<40} {:<14} {:<9} ", folder.path, id, Info(line.scalar).name);
  const Comparison& numbers = verdict.comparison;
  if (numbers.judged() == numbers.not_finite)
    fmt::print("{}: {}\n", ToString(verdict.outcome), verdict.reason);
  else
    fmt::print("error {:9.3e}  tolerance {:9.3e}  {}{}\n", line.deciding.error,
               line.deciding.tolerance, verdict.passed() ? "pass" : "FAIL",
               Remarks(folder, line));
}

Json JsonOf(const CheckLine& line) {
  Json json = {{"implementation", line.implementation},
               {"backend", line.backend},
               {"scalar", std::string(Info(line.scalar).name)},
               {"check", CheckJson(line.verdict)}};
  if (line.verdict.comparison.judged() > 0)
    json["deciding"] = {{"gate", line.deciding.gate},
                        {"error", line.deciding.error},
                        {"tolerance", line.deciding.tolerance}};
  // What gate 2 compares, by output: see Yardstick.
  Json yardsticks = Json::array();
  for (const Yardstick& one : line.verdict.comparison.yardsticks)
    yardsticks.push_back({{"error", one.error}, {"plain_error", one.plain}});
  if (!yardsticks.empty()) json["yardsticks"] = yardsticks;
  return json;
}

class Checker {
 public:
  explicit Checker(const Request& request) : request_(request) {}

  int Run() {
    request_.filters.Check();
    request_.filters.TellOfUnusableDevice();
    for (const std::string& path : request_.folders) {
      try {
        CheckFolder(path);
      } catch (const InvalidInput& problem) {
        std::fflush(stdout);
        Tell("subquad check: {}\n", problem.what());
        ++not_valid_;
        if (request_.json)
          cases_.push_back({{"case", path}, {"invalid", problem.what()}});
      }
    }
    Finish();
    if (not_valid_ > 0) return kNotValid;
    return failed_ > 0 || passed_ == 0 ? kCheckFailed : kFine;
  }

 private:
  void CheckFolder(const std::string& path) {
    const CaseFolder folder = ReadCaseFolder(path);
    if (!request_.filters.Takes(*folder.op)) {
      ++others_;
      return;
    }
    const Filters& filters = request_.filters;
    CheckChoice choice;
    choice.wanted = [&](const Implementation& one, Scalar scalar) {
      return filters.Takes(one) && filters.Takes(scalar);
    };
    // Asked for particular programs, it answers for them alone.
    choice.reference = filters.implementations.empty() &&
                       filters.backends.empty() && filters.scalars.empty();
    for (const Implementation* one : ImplementationsOf(*folder.op))
      if (!IsAvailable(one->backend))
        for (const Scalar scalar : one->scalars)
          without_device_ += choice.wanted(*one, scalar);
    Json lines = Json::array();
    const auto report = [&](const CheckLine& line) {
      if (request_.json)
        lines.push_back(JsonOf(line));
      else
        PrintLine(folder, line);
      const bool passed = line.verdict.passed();
      const bool skipped = line.verdict.outcome == Outcome::kSkipped;
      passed_ += passed;
      skipped_ += skipped;
      failed_ += !passed && !skipped;
    };
    try {
      CheckCaseFolder(folder, report, choice);
    } catch (const InvalidInput& problem) {
      throw problem.In("case " + folder.path);
    }
    if (request_.json)
      cases_.push_back({{"case", folder.path},
                        {"operator", std::string(folder.op->description().id)},
                        {"source", folder.source},
                        {"expected_error", folder.expected_error},
                        {"lines", lines}});
  }

  void Finish() const {
    const std::string missing =
        without_device_ == 0 ? ""
                             : fmt::format("{} checks need a GPU; found {}",
                                           without_device_, Device().why_not);
    if (request_.json) {
      const Json file = {
          {"format", "check/1"},
          {"cases", cases_},
          {"passed", passed_},
          {"failed", failed_},
          {"skipped", skipped_},
          {"invalid", not_valid_},
          {"other_operators", others_},
          {"not_checked", missing.empty() ? Json(nullptr) : Json(missing)}};
      fmt::print("{}\n", file.dump(1));
      return;
    }
    if (!missing.empty()) fmt::print("not checked: {}\n", missing);
    fmt::print(
        "{} passed, {} failed, {} skipped{}{}\n", passed_, failed_, skipped_,
        not_valid_ ? fmt::format(", {} invalid cases", not_valid_) : "",
        others_ ? fmt::format(", {} cases of other operators", others_) : "");
  }

  const Request& request_;
  int64_t passed_ = 0, failed_ = 0, skipped_ = 0, not_valid_ = 0, others_ = 0;
  int64_t without_device_ = 0;
  Json cases_ = Json::array();
};

}  // namespace

void AddCheckCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "check",
      "check every implementation against the answers in case folders");
  auto request = std::make_shared<Request>();
  command
      ->add_option("CASE", request->folders,
                   "case folders (case.json and .npy files)")
      ->required();
  AddFilterOptions(*command, request->filters);
  command->add_flag("--json", request->json,
                    "print one JSON object (format check/1)");
  command->footer(
      "Prints a line for each implementation and scalar type: the largest "
      "error\n"
      "and what it may be (of the gate that decides), pass or FAIL, and how "
      "many\n"
      "rows were compared. The margin is how many tolerances the nearest "
      "wrong\n"
      "answer is away; below 1 the verdict is mistrusted. \"expected_error\": "
      "X in case.json says that each\n"
      "expected number may be off by X times the largest in its tensor; "
      "without\n"
      "it float64 files count as exact, and float32 files as the answer of a\n"
      "float32 program.\n"
      "Exit status: 0 all pass, 1 a failure, or nothing was checked, 2 an "
      "invalid\n"
      "or unreadable case.\n"
      "`subquad list --operator X` shows how to write a case.");
  command->callback([request, &status] { status = Checker(*request).Run(); });
}

}  // namespace subquad
