#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/verification.h"
#include "harness/commands/commands.h"
#include "harness/judging/trial.h"

namespace subquad {
namespace {

struct Options {
  Filters filters;
  std::string n, case_id, input = "normal";
  uint64_t seed = 1;
  int threads = 1;
  bool verbose = false;
};

// Counts for one implementation in one scalar type.
struct Tally {
  int64_t passed = 0, failed = 0, mistrusted = 0, skipped = 0, findings = 0;
  double over_bound = 0, over_plain = 0;

  void Add(const Verdict& verdict) {
    passed += verdict.outcome == Outcome::kPassed;
    failed += verdict.outcome == Outcome::kFailed;
    mistrusted += verdict.outcome == Outcome::kMistrusted;
    skipped += verdict.outcome == Outcome::kSkipped;
    findings += !verdict.gates.empty();
    over_bound = std::max(over_bound, verdict.comparison.max_over_bound);
    over_plain = std::max(over_plain, verdict.comparison.over_plain);
  }
};

using Key = std::pair<const Implementation*, Scalar>;

void PrintVerdict(const Implementation& implementation, const Case& one,
                  const Verdict& verdict) {
  const std::string errors =
      verdict.outcome == Outcome::kSkipped
          ? ""
          : fmt::format("  error/bound {:.3g}  error/plain {:.3g}",
                        verdict.comparison.max_over_bound,
                        verdict.comparison.over_plain);
  fmt::print("{:<10} {:<12} {}{}{}{}\n", ToString(verdict.outcome),
             implementation.id, one.Id(), errors,
             verdict.reason.empty() ? "" : "  " + verdict.reason,
             verdict.gates.empty() ? "" : "  " + verdict.gates);
}

std::vector<Case> CasesFor(const Options& options) {
  if (!options.case_id.empty()) {
    CaseRequest request = ParseCaseId(options.case_id);
    return {MakeCase(request)};
  }
  const std::vector<int64_t> sizes =
      options.n.empty() ? AwkwardSizes() : ParseIntegerAxis("--n", options.n);
  std::vector<Case> cases;
  for (const Operator* op : Operators()) {
    if (!options.filters.Takes(*op)) continue;
    for (const ScalarInfo& info : kScalars) {
      if (!options.filters.Takes(info.scalar)) continue;
      for (Case& one :
           VerificationCases(*op, sizes, info.scalar, options.seed)) {
        one.input = options.input;
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

int Verify(const Options& options) {
  options.filters.Check();
  FindHardInput(options.input);
  std::map<const Implementation*, std::map<Scalar, Tally>> tallies;
  Tally total;
  const bool terminal = isatty(fileno(stderr));
  const std::vector<Case> cases = CasesFor(options);
  int64_t done = 0;
  for (const Case& one : cases) {
    if (terminal && ++done % 16 == 0)
      fmt::print(stderr, "\r{} of {} cases", done, cases.size());
    std::vector<const Implementation*> able;
    for (const Implementation* implementation : ImplementationsOf(*one.op))
      if (options.filters.Takes(*implementation) &&
          std::ranges::count(implementation->scalars, one.scalar))
        able.push_back(implementation);
    if (able.empty()) continue;
    Problem problem = ProblemOf(one);
    Inputs inputs = GenerateInputs(one, problem);
    Trial trial(std::move(problem), std::move(inputs), one.seed);
    for (const Implementation* implementation : able) {
      Verdict verdict;
      try {
        verdict = Verify(*implementation, trial, {.threads = options.threads});
      } catch (const InvalidInput& undefined) {
        // Generated numbers without an answer, no user error: continue.
        if (!options.case_id.empty()) throw;
        verdict = Verdict::Skipped(
            fmt::format("the reference is undefined: {}", undefined.what()));
        if (!options.verbose) PrintVerdict(*implementation, one, verdict);
      }
      tallies[implementation][one.scalar].Add(verdict);
      total.Add(verdict);
      const bool bad = verdict.outcome == Outcome::kFailed ||
                       verdict.outcome == Outcome::kMistrusted;
      if (bad || options.verbose || !options.case_id.empty())
        PrintVerdict(*implementation, one, verdict);
      if (bad && options.case_id.empty())
        fmt::print(
            "           repeat: subquad verify --implementation {} "
            "--case {}\n",
            implementation->id, one.Id());
    }
  }
  if (terminal) fmt::print(stderr, "\r{:40}\r", "");
  for (const Implementation& implementation : Implementations()) {
    const auto found = tallies.find(&implementation);
    if (found == tallies.end()) continue;
    for (const auto& [scalar, tally] : found->second)
      fmt::print(
          "{:<34} {:<14} {:<5} {:<9} {:5} passed {:3} failed {:3} "
          "mistrusted {:4} skipped   error/bound <= {:.3g}  error/plain "
          "<= {:.3g}{}\n",
          implementation.op, implementation.id,
          ToString(implementation.backend), Info(scalar).name, tally.passed,
          tally.failed, tally.mistrusted, tally.skipped, tally.over_bound,
          tally.over_plain,
          tally.findings
              ? fmt::format("  (the gates disagree {} times)", tally.findings)
              : "");
  }
  fmt::print("{} passed, {} failed, {} mistrusted, {} skipped\n", total.passed,
             total.failed, total.mistrusted, total.skipped);
  if (tallies.empty())
    throw InvalidInput("filters", "at least one implementation and scalar type",
                       "none that matches");
  return total.passed > 0 && total.failed == 0 && total.mistrusted == 0
             ? kFine
             : kCheckFailed;
}

}  // namespace

void AddVerifyCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "verify",
      "check every implementation against its reference on generated cases");
  auto options = std::make_shared<Options>();
  AddFilterOptions(*command, options->filters);
  auto* n = command->add_option(
      "--n", options->n,
      "sizes: a list (1024,4096) or a range (16:4096:x2, 16:64:+8)");
  auto* one =
      command->add_option("--case", options->case_id,
                          "one case by its id, as printed in result files");
  std::string kinds;
  for (const HardInput& kind : HardInputs())
    kinds += (kinds.empty() ? "" : ", ") + std::string(kind.name);
  auto* input = command->add_option("--input", options->input,
                                    "kind of numbers: " + kinds);
  // An id contains all of these.
  one->excludes(n, input, AddSeedOption(*command, options->seed));
  command
      ->add_option("--threads", options->threads,
                   "threads used by each implementation")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--verbose", options->verbose,
                    "print a line for every case");
  command->footer(
      "Verdicts: passed; failed; mistrusted (the comparison could not have\n"
      "failed); skipped (with a reason). Exit status: 0 at least one passed "
      "and\n"
      "none failed or is mistrusted, 1 otherwise, 2 invalid arguments.");
  command->callback([options, &status] { status = Verify(*options); });
}

}  // namespace subquad
