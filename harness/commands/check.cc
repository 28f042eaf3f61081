#include "harness/judging/check.h"

#include <fmt/format.h>

#include <algorithm>
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
  double require_margin = 0;
};

// The line's own word for its verdict.
std::string Word(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kPassed:
      return "pass";
    case Outcome::kFailed:
      return verdict.diagnosis ? "FAIL, " + verdict.diagnosis->ShareText()
                               : "FAIL";
    default:
      return std::string(ToString(verdict.outcome));
  }
}

// "passed, blind to: bias shifted by 1 (margin 0.02; a bias of random numbers
// would show it)"
std::string BlindSpots(const Margin& margin) {
  std::string text;
  for (const BlindSpot& spot : margin.blind_to)
    text += fmt::format(
        "{}{} (margin {:.3g}{})", text.empty() ? "" : ", ", spot.name,
        spot.distance,
        spot.remedy.empty() ? "" : "; " + spot.remedy + " would show it");
  return "passed, blind to: " + text;
}

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
  if (line.verdict.blind()) text += "  " + BlindSpots(margin);
  return text;
}

// What the numbers are called whose verdict a line is, and their type.
std::pair<std::string, std::string_view> Subject(const CaseFolder& folder,
                                                 const CheckLine& line) {
  if (!line.of_folder)
    return {line.implementation + (line.backend == "cuda" ? " (cuda)" : ""),
            Info(line.scalar).name};
  const bool float32 =
      std::ranges::any_of(folder.expected, &ExpectedTensor::is_float32);
  return {folder.expected.size() == 1 ? "your " + folder.expected.front().name
                                      : "your outputs",
          Info(float32 ? Scalar::kFloat32 : Scalar::kFloat64).name};
}

void PrintLine(const CaseFolder& folder, const CheckLine& line) {
  const Verdict& verdict = line.verdict;
  const Comparison& numbers = verdict.comparison;
  const auto [subject, type] = Subject(folder, line);
  const bool compared = numbers.judged() != numbers.not_finite;
  // Of the user's numbers the verdict comes first.
  if (line.of_folder)
    fmt::print("{:<40} {:<24} {:<9} ", folder.path,
               subject + ": " + Word(verdict), type);
  else
    fmt::print("{:<40} {:<14} {:<9} ", folder.path, subject, type);
  if (!compared) {
    fmt::print("{}: {}\n", ToString(verdict.outcome), verdict.reason);
  } else {
    fmt::print("error {:9.3e}  tolerance {:9.3e}{}{}\n", line.deciding.error,
               line.deciding.tolerance,
               line.of_folder ? "" : "  " + Word(verdict),
               Remarks(folder, line));
  }
  if (!verdict.diagnosis) return;
  for (const WrongElements& wrong : verdict.diagnosis->outputs)
    fmt::print("    {}: {}\n", wrong.output, wrong.Text());
  fmt::print("    {}\n", verdict.diagnosis->looks_like.Text());
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

// Inputs of which neighbouring heads share a slice, in a folder without an axis
// for batch items: meant for grouped heads, and a trap where the heads are
// batch items times heads.
Json SharingNotes(const Problem& problem) {
  Json notes = Json::array();
  if (problem.leading.size() != 1) return notes;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Shape& leading = problem.input_leading[i];
    if (leading.size() != 1 || leading[0] == 1 || leading[0] == problem.heads)
      continue;
    notes.push_back(
        fmt::format("{} {} is shared by groups of {} neighbouring heads of {}; "
                    "if these are batch items times heads, give every tensor "
                    "as [b, h, ..]",
                    problem.inputs[i].name, ToString(problem.InputShape(i)),
                    problem.heads / leading[0], problem.heads));
  }
  return notes;
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
    return failed_ > 0 || below_margin_ > 0 || passed_ == 0 ? kCheckFailed
                                                            : kFine;
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
    // Asked for particular programs, it answers for them, and for the folder's
    // own numbers only where those are wrong.
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
      below_margin_ +=
          passed && line.verdict.margin.value < request_.require_margin;
    };
    try {
      CheckCaseFolder(folder, report, choice);
    } catch (const InvalidInput& problem) {
      throw problem.In("case " + folder.path);
    }
    const Json notes = SharingNotes(folder.problem);
    if (request_.json)
      cases_.push_back({{"case", folder.path},
                        {"operator", std::string(folder.op->description().id)},
                        {"source", folder.source},
                        {"expected_error", folder.expected_error},
                        {"notes", notes},
                        {"lines", lines}});
    else
      for (const Json& note : notes)
        fmt::print("    note: {}\n", note.get<std::string>());
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
          {"below_margin", below_margin_},
          {"invalid", not_valid_},
          {"other_operators", others_},
          {"not_checked", missing.empty() ? Json(nullptr) : Json(missing)}};
      fmt::print("{}\n", file.dump(1));
      return;
    }
    if (!missing.empty()) fmt::print("not checked: {}\n", missing);
    fmt::print(
        "{} passed, {} failed, {} skipped{}{}{}\n", passed_, failed_, skipped_,
        below_margin_ ? fmt::format(", {} of those that passed have less than "
                                    "the margin of {:g} that is required",
                                    below_margin_, request_.require_margin)
                      : "",
        not_valid_ ? fmt::format(", {} invalid cases", not_valid_) : "",
        others_ ? fmt::format(", {} cases of other operators", others_) : "");
  }

  const Request& request_;
  int64_t passed_ = 0, failed_ = 0, skipped_ = 0, not_valid_ = 0, others_ = 0;
  int64_t without_device_ = 0, below_margin_ = 0;
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
  AddTargetOption(*command);
  command->add_flag("--json", request->json,
                    "print one JSON object (format check/1)");
  command
      ->add_option(
          "--require-margin", request->require_margin,
          "exit status 1 where a line that passes has a smaller margin")
      ->check(CLI::NonNegativeNumber);
  command->footer(
      R"(The first line of a case is about its own numbers, held against the
definition (asked for particular programs, only where it says why they fail);
the others are our programs, held against its numbers, by scalar
type. A line has the largest error and what it may be (of the gate that
decides), pass or FAIL, how many rows were compared, and the margin: how many
tolerances the nearest wrong answer is away. Where it is below 1 the numbers
are such that a mistake would not show: "passed, blind to: .." names each.
Of a failure it says where the wrong elements are, and which known mistake it
looks like. "mistrusted" means that nothing could have failed.

"expected_error": X in case.json says that each expected number may be off by X
times the largest in its tensor; without it float64 files count as exact, and
float32 files as the answer of a float32 program.

Exit status: 0 all pass, 1 a failure, or nothing was checked, 2 an invalid or
unreadable case. `subquad list --operator X` shows how to write a case.)");
  command->callback([request, &status] { status = Checker(*request).Run(); });
}

}  // namespace subquad
