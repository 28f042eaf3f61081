#include "harness/judging/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "cuda/device.h"
#include "harness/base/tell.h"
#include "harness/base/text.h"
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

// Returns the short form of a verdict for a line.
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

// Returns "passed, blind to: bias shifted by 1 (margin 0.02; a bias of random
// values would reveal it)".
std::string BlindSpots(const Margin& margin) {
  std::string text;
  for (const BlindSpot& spot : margin.blind_to)
    text += fmt::format(
        "{}{} (margin {:.3g}{})", text.empty() ? "" : ", ", spot.name,
        spot.distance,
        spot.remedy.empty() ? "" : "; " + spot.remedy + " would reveal it");
  return "passed, blind to: " + text;
}

// Returns the remarks that follow pass or FAIL.
std::string Remarks(const CaseFolder& folder, const CheckLine& line) {
  const Comparison& numbers = line.verdict.comparison;
  std::string text = fmt::format("  ({}{} rows, gate {}",
                                 numbers.all_rows ? "" : "a sample of ",
                                 numbers.rows, line.deciding.gate);
  if (folder.expected_error > 0)
    text += fmt::format(", expected_error {:g}", folder.expected_error);
  const Margin& margin = line.verdict.margin;
  if (!margin.nearest.empty())
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

// Returns the name and the scalar type of the outputs that a line judges.
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
  // For the user's own outputs the verdict comes first.
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
               {"check", ToJson(CheckOf(line.verdict))}};
  if (line.verdict.comparison.judged() > 0)
    json["deciding"] = {{"gate", line.deciding.gate},
                        {"error", line.deciding.error},
                        {"tolerance", line.deciding.tolerance}};
  // Adds what gate 2 compares, by output; see Yardstick.
  Json yardsticks = Json::array();
  for (const Yardstick& yardstick : line.verdict.comparison.yardsticks)
    yardsticks.push_back(
        {{"error", yardstick.error}, {"plain_error", yardstick.plain}});
  if (!yardsticks.empty()) json["yardsticks"] = yardsticks;
  return json;
}

// Returns notes on inputs whose slices are shared by neighbouring heads, in a
// folder without an axis for batch items. This is meant for grouped heads and
// wrong if the heads are batch items times heads.
Json SharingNotes(const Problem& problem) {
  Json notes = Json::array();
  if (problem.leading.size() != 1) return notes;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Shape& leading = problem.input_leading[i];
    if (leading.size() != 1 || leading[0] == 1 || leading[0] == problem.heads)
      continue;
    notes.push_back(
        fmt::format("each slice of {} {} is shared by {} neighbouring heads of "
                    "{}; if the heads are batch items times heads, write every "
                    "tensor as [b, h, ..]",
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
    CheckUsed();
    Finish();
    if (not_valid_ > 0) return kNotValid;
    return failed_ + mistrusted_ + below_margin_ > 0 || passed_ == 0
               ? kCheckFailed
               : kFine;
  }

 private:
  void CheckFolder(const std::string& path) {
    const CaseFolder folder = ReadCaseFolder(path);
    operators_.emplace(folder.op->description().id);
    if (!request_.filters.Takes(*folder.op)) {
      ++others_;
      return;
    }
    const Filters& filters = request_.filters;
    CheckChoice choice;
    choice.wanted = [&](const Implementation& implementation, Scalar scalar) {
      return filters.Takes(implementation) && filters.Takes(scalar);
    };
    // If the user selects implementations, the folder's own outputs are
    // reported only if they are wrong.
    choice.reference = filters.implementations.empty() &&
                       filters.backends.empty() && filters.scalars.empty();
    for (const Implementation* candidate : ImplementationsOf(*folder.op))
      if (!IsAvailable(candidate->backend))
        for (const Scalar scalar : candidate->scalars)
          without_device_ += choice.wanted(*candidate, scalar);
    Json lines = Json::array();
    const auto report = [&](const CheckLine& line) {
      if (request_.json)
        lines.push_back(JsonOf(line));
      else
        PrintLine(folder, line);
      const bool passed = line.verdict.passed();
      passed_ += passed;
      failed_ += line.verdict.outcome == Outcome::kFailed;
      mistrusted_ += line.verdict.outcome == Outcome::kMistrusted;
      skipped_ += line.verdict.outcome == Outcome::kSkipped;
      wrong_folders_ +=
          line.of_folder && line.verdict.outcome == Outcome::kFailed;
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

  // Throws InvalidInput if the filters select no implementation of any case.
  void CheckUsed() const {
    if (passed_ + failed_ + mistrusted_ + skipped_ + not_valid_ + others_ +
            without_device_ >
        0)
      return;
    throw InvalidInput(fmt::format(
        "the filters ({}) select no implementation of the operator{} of these "
        "cases ({}); "
        "`subquad list` shows which implementations each operator has",
        request_.filters.ToArguments().substr(1),
        operators_.size() == 1 ? "" : "s", fmt::join(operators_, ", ")));
  }

  void Finish() const {
    const std::string missing =
        without_device_ == 0
            ? ""
            : fmt::format("{} on a GPU: {}", Counted(without_device_, "check"),
                          Device().why_not);
    if (request_.json) {
      const Json file = {
          {"format", "check/1"},
          {"cases", cases_},
          {"passed", passed_},
          {"failed", failed_},
          {"mistrusted", mistrusted_},
          {"skipped", skipped_},
          {"below_margin", below_margin_},
          {"invalid", not_valid_},
          {"other_operators", others_},
          {"not_checked", missing.empty() ? Json(nullptr) : Json(missing)}};
      fmt::print("{}\n", file.dump(1));
      return;
    }
    if (!missing.empty()) fmt::print("not checked: {}\n", missing);
    if (wrong_folders_)
      fmt::print(
          "Lines of our implementations compare them with your outputs, so "
          "they fail too if these are wrong.\n");
    fmt::print("{} passed, {} failed, {} mistrusted, {} skipped{}{}{}\n",
               passed_, failed_, mistrusted_, skipped_,
               below_margin_
                   ? fmt::format(", {} that passed with a margin below the "
                                 "required {:g}",
                                 below_margin_, request_.require_margin)
                   : "",
               not_valid_ ? ", " + Counted(not_valid_, "invalid case") : "",
               others_ ? fmt::format(", {} of other operators (not checked)",
                                     Counted(others_, "case"))
                       : "");
  }

  const Request& request_;
  int64_t passed_ = 0, failed_ = 0, mistrusted_ = 0, skipped_ = 0;
  int64_t not_valid_ = 0, others_ = 0;
  int64_t wrong_folders_ = 0;  // folders whose own outputs are wrong
  int64_t without_device_ = 0, below_margin_ = 0;
  std::set<std::string> operators_;  // of all cases
  Json cases_ = Json::array();
};

}  // namespace

void AddCheckCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "check",
      "compare your outputs in case folders with the definition, and our "
      "implementations with your outputs");
  auto request = std::make_shared<Request>();
  command
      ->add_option("CASE", request->folders,
                   "case folders, each with case.json and .npy files")
      ->required();
  AddFilterOptions(*command, request->filters);
  AddTargetOption(*command);
  command->add_flag("--json", request->json,
                    "print one JSON object (format check/1)");
  command
      ->add_option(
          "--require-margin", request->require_margin,
          "exit with status 1 if a line that passes has a smaller margin")
      ->check(AtLeastZero());
  command->footer(
      R"(The first line of a case compares your outputs with the definition. The other
lines compare our implementations with your outputs, one for each scalar type.
(If you use a filter, the first line is printed only if your outputs are
wrong.) A line shows the largest error and its tolerance, pass or FAIL, the
number of rows compared, and the margin: how many tolerances the nearest known
mistake is away. If the margin is below 1, your inputs cannot reveal that
mistake, and "passed, blind to: .." names it. A failure is followed by the
positions of the wrong elements and the known mistake that it looks like.
"mistrusted" means that the check could not have failed.

An output must pass two gates. Gate 1 is a bound on the rounding error of the
algorithm, derived for each element. Gate 2 allows 8 times the largest error of
the plain dense program, which evaluates the definition in the same scalar type.
A line names the gate that is nearest to its limit.

"expected_error": X in case.json says that each expected value may be off by X
times the largest value in its tensor. Without it, the first line judges your
outputs as those of a program in their own type; the other lines take float64
files as exact, and float32 files as the output of a float32 program.

Exit status: 0 all passed, 1 a failure or nothing was checked, 2 an invalid or
unreadable case. `subquad list --operator X` shows how to write a case.)");
  command->callback([request, &status] { status = Checker(*request).Run(); });
}

}  // namespace subquad
