#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "harness/base/tell.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/verification.h"
#include "harness/commands/commands.h"
#include "harness/commands/tally.h"
#include "harness/commands/verify_random.h"
#include "harness/commands/verify_spikes.h"
#include "harness/judging/trial.h"
#include "harness/machine/free_memory.h"

namespace subquad {
namespace {

struct Options {
  Filters filters;
  std::string n, case_id, input, random, out = "failed-cases";
  std::optional<uint64_t> seed;
  int threads = 1;
  bool verbose = false, spikes = false;
};

constexpr uint64_t kUsualSeed = 1;

// The largest size of --n. Some cases have 4/3 as many queries or keys, and
// extents have 31 bits.
constexpr int64_t kMostTokens = 1'000'000'000;

void PrintVerdict(const Implementation& implementation, const Case& test_case,
                  const Verdict& verdict) {
  std::string errors;
  if (verdict.outcome != Outcome::kSkipped) {
    errors = fmt::format("  error/bound {:.3g}  error/plain {:.3g}",
                         verdict.comparison.max_over_bound,
                         verdict.comparison.over_plain);
    if (!verdict.margin.nearest.empty())
      errors += fmt::format("  margin {:.3g} ({})", verdict.margin.value,
                            verdict.margin.nearest);
  }
  fmt::print("{:<10} {:<12} {}{}{}{}\n", ToString(verdict.outcome),
             implementation.id, test_case.Id(), errors,
             verdict.reason.empty() ? "" : "  " + verdict.reason,
             verdict.gates.empty() ? "" : "  " + verdict.gates);
  if (verdict.diagnosis)
    fmt::print("{:10} {}\n", "", verdict.diagnosis->looks_like.Text());
}

std::vector<Case> CasesFor(const Options& options) {
  if (!options.case_id.empty()) {
    const CaseRequest request = ParseCaseId(options.case_id);
    const Case test_case = MakeCase(request);
    CheckImageSize(request, test_case);
    if (!options.filters.Takes(*test_case.op) ||
        !options.filters.Takes(test_case.scalar))
      throw InvalidInput(
          "--case", "a case that" + options.filters.ToArguments() + " selects",
          fmt::format("one of {} in {}", test_case.op->description().id,
                      Info(test_case.scalar).name));
    return {test_case};
  }
  const std::vector<int64_t> sizes =
      options.n.empty() ? AwkwardSizes()
                        : ParseIntegerAxis("--n", options.n, kMostTokens);
  std::vector<Case> cases;
  for (const Operator* op : Operators()) {
    if (!options.filters.Takes(*op)) continue;
    for (const ScalarInfo& info : kScalars) {
      if (!options.filters.Takes(info.scalar)) continue;
      for (Case& shown_case : VerificationCases(
               *op, sizes, info.scalar, options.seed.value_or(kUsualSeed))) {
        if (!options.input.empty()) shown_case.input = options.input;
        cases.push_back(std::move(shown_case));
      }
    }
  }
  return cases;
}

int Verify(const Options& options) {
  options.filters.Check();
  options.filters.TellOfUnusableDevice();
  if (!options.input.empty()) FindHardInput(options.input);
  TallyTable table;
  const bool terminal = isatty(fileno(stderr));
  const std::vector<Case> cases = CasesFor(options);
  int64_t done = 0;
  for (const Case& test_case : cases) {
    if (terminal && ++done % 16 == 0)
      Tell("\r{} of {} cases", done, cases.size());
    std::vector<const Implementation*> able;
    for (const Implementation* implementation :
         ImplementationsOf(*test_case.op))
      if (options.filters.Takes(*implementation) &&
          std::ranges::count(implementation->scalars, test_case.scalar))
        able.push_back(implementation);
    if (able.empty()) continue;
    Problem problem = ProblemOf(test_case);
    CheckFitsMemory(test_case.Id(), problem);
    Inputs inputs = GenerateInputs(test_case, problem);
    Trial trial(std::move(problem), std::move(inputs), test_case.seed);
    for (const Implementation* implementation : able) {
      Verdict verdict;
      try {
        verdict = Verify(*implementation, trial, {.threads = options.threads});
        trial.Explain(*implementation, verdict);
      } catch (const InvalidInput& undefined) {
        // The formula has no value on these generated inputs. This is not a
        // user's error, so the run continues.
        if (!options.case_id.empty()) throw;
        verdict = Verdict::Skipped(
            fmt::format("the reference is undefined: {}", undefined.what()));
        if (!options.verbose) PrintVerdict(*implementation, test_case, verdict);
      }
      table.Add(*implementation, test_case.scalar, verdict);
      const bool bad = verdict.outcome == Outcome::kFailed ||
                       verdict.outcome == Outcome::kMistrusted;
      if (bad || options.verbose || !options.case_id.empty())
        PrintVerdict(*implementation, test_case, verdict);
      if (bad && options.case_id.empty())
        fmt::print(
            "           repeat: subquad verify --implementation {} "
            "--case {}\n",
            implementation->id, test_case.Id());
    }
  }
  if (terminal) Tell("\r{:40}\r", "");
  if (table.empty())
    throw Filters::LeaveNothing(
        "of this combination of operator, implementation, backend and scalar "
        "type");
  table.Print();
  const Tally& total = table.total();
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
  AddTargetOption(*command);
  auto* n = command->add_option(
      "--n", options->n,
      "sizes: a list (1024,4096) or a range (16:4096:x2, 16:64:+8)");
  auto* test_case =
      command->add_option("--case", options->case_id,
                          "one case by its id, as printed in result files");
  std::string kinds;
  for (const HardInput& kind : HardInputs())
    kinds += (kinds.empty() ? "" : ", ") + std::string(kind.name);
  auto* input = command->add_option("--input", options->input,
                                    "kind of values: " + kinds);
  auto* seed = AddSeedOption(*command, options->seed);
  auto* random = command->add_option(
      "--random", options->random,
      "draw N random cases, or as many as a TIME (90s, 15m, 2h) allows, and "
      "check them: operators, shapes,\nparameters and inputs come from a seed, "
      "which is printed; about half of the draws are no valid case,\nwhich the "
      "summary counts; a failing case is shrunk");
  command
      ->add_option("--out", options->out,
                   "with --random: folder for the case folders of failures")
      ->needs(random)
      ->capture_default_str();
  // An id determines all of these.
  test_case->excludes(n, input, seed, random);
  random->excludes(n);
  command
      ->add_option("--threads", options->threads,
                   "threads used by each implementation")
      ->check(IntegerFromTo(1, 1024));
  command->add_flag("--verbose", options->verbose,
                    "print a line for every case");
  command
      ->add_flag("--spikes", options->spikes,
                 "impulse test: tensors indexed by offset (biases, weights) "
                 "that are zero except at one\noffset, at every edge of a "
                 "tile, with all rows judged by a "
                 "closed form (default --n 4096:1048576:x4)")
      ->excludes(test_case, input, seed, random);
  command->footer(
      "Verdicts: passed; failed; mistrusted (the comparison could not have\n"
      "failed); skipped (with a reason). An output must pass two gates. Gate "
      "1\n"
      "is a bound on the rounding error of the algorithm; error/bound is the\n"
      "largest error divided by it. Gate 2 allows 8 times the error of a "
      "plain\n"
      "dense program in the same scalar type; error/plain is the largest "
      "error\n"
      "divided by that program's. Algorithms with an FFT have a bound on the\n"
      "norm of the output; for them gate 1 decides alone (\"only the "
      "norm-wise\n"
      "gate holds\"). The margin is how many tolerances the nearest known\n"
      "mistake is away (for example a bias left out); below 1 the verdict is\n"
      "mistrusted. Exit status: 0 at least one passed and none failed or is\n"
      "mistrusted, 1 otherwise, 2 invalid arguments.\n"
      "--random draws half of the cases from N(0, 1) and half from other kinds "
      "of\n"
      "values. `subquad check` reads the folders that it writes. Mistrusted "
      "cases do\n"
      "not change its exit status. Ctrl-C stops it after the current case and "
      "keeps the failures "
      "(130).");
  command->callback([options, &status] {
    if (options->spikes) {
      status = VerifySpikes(
          options->filters,
          ParseIntegerAxis("--n",
                           options->n.empty() ? "4096:1048576:x4" : options->n),
          options->threads);
      return;
    }
    if (options->random.empty()) {
      status = Verify(*options);
      return;
    }
    RandomOptions random_options{
        options->random,  options->filters, {}, options->seed, options->out,
        options->threads, options->verbose};
    if (!options->input.empty()) random_options.input = options->input;
    status = VerifyRandom(random_options);
  });
}

}  // namespace subquad
