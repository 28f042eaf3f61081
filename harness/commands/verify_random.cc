#include "harness/commands/verify_random.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>

#include "harness/base/exit_status.h"
#include "harness/base/interrupts.h"
#include "harness/base/output_file.h"
#include "harness/base/tell.h"
#include "harness/base/text.h"
#include "harness/cases/generate.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/random_case.h"
#include "harness/commands/tally.h"
#include "harness/judging/shrink.h"
#include "harness/judging/trial.h"

namespace subquad {
namespace {

using Clock = std::chrono::steady_clock;

// The requested amount: one of the two is not zero.
struct Amount {
  uint64_t cases = 0;
  double seconds = 0;
};

Amount ParseAmount(const std::string& text) {
  const InvalidInput wrong("--random",
                           "a number of cases, or a time like 90s, 15m or 2h",
                           "'" + text + "'");
  if (const auto cases = ParseNumber<int64_t>(text)) {
    if (*cases < 1) throw wrong;
    return {static_cast<uint64_t>(*cases), 0};
  }
  if (text.empty()) throw wrong;
  const auto number = ParseNumber<double>(text.substr(0, text.size() - 1));
  const std::map<char, double> units = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const auto unit = units.find(text.back());
  if (!number || unit == units.end() || !(*number > 0) || !(*number < 1e6))
    throw wrong;
  return {0, *number * unit->second};
}

uint64_t FreshSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 1;  // an id has 63 bits
}

class RandomRun {
 public:
  explicit RandomRun(const RandomOptions& options)
      : options_(options), amount_(ParseAmount(options.amount)) {
    options_.filters.Check();
    options_.filters.TellOfUnusableDevice();
    if (options_.input) FindHardInput(*options_.input);
    for (const Operator* op : Operators())
      if (!AbleFor(*op).empty()) cases_.operators.push_back(op);
    for (const ScalarInfo& info : kScalars)
      for (const Operator* op : cases_.operators)
        if (!AbleFor(*op, info.scalar).empty()) {
          cases_.scalars.push_back(info.scalar);
          break;
        }
    CheckOutputFolder("--out", options_.out);
    if (cases_.operators.empty())
      throw Filters::LeaveNothing("that runs on this machine");
    cases_.input = options_.input;
    cases_.seed = options_.seed ? *options_.seed : FreshSeed();
  }

  int Run() {
    fmt::print("seed {}; to repeat: subquad verify --random {} --seed {}{}\n",
               cases_.seed, options_.amount, cases_.seed,
               options_.filters.ToArguments() +
                   (options_.input ? " --input " + *options_.input : ""));
    std::fflush(stdout);
    CatchInterrupts();
    uint64_t index = 0;
    for (; !Interrupted() && !Done(index); ++index) {
      Step(index);
      ShowProgress(index + 1);
    }
    if (terminal_) Tell("\r{:70}\r", "");
    table_.Print();
    fmt::print(
        "{} checked in {:.0f} s, seed {}; {} of {} draws gave no valid case of "
        "a selected implementation\n",
        Counted(checked_, "case"), Seconds(), cases_.seed, index - checked_,
        index);
    for (const std::string& failure : failures_) fmt::print("{}\n", failure);
    if (Interrupted()) {
      Tell("interrupted after {} draws; all failures are listed and written\n",
           index);
      return kInterrupted;
    }
    return table_.total().passed > 0 && table_.total().failed == 0
               ? kFine
               : kCheckFailed;
  }

 private:
  std::vector<const Implementation*> AbleFor(
      const Operator& op, std::optional<Scalar> scalar = {}) const {
    std::vector<const Implementation*> able;
    for (const Implementation* implementation : ImplementationsOf(op)) {
      if (!options_.filters.Takes(*implementation) ||
          !IsAvailable(implementation->backend))
        continue;
      const auto takes = [&](Scalar type) {
        return options_.filters.Takes(type) && (!scalar || type == *scalar);
      };
      if (std::ranges::any_of(implementation->scalars, takes))
        able.push_back(implementation);
    }
    return able;
  }

  double Seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  bool Done(uint64_t index) const {
    return amount_.cases > 0 ? index >= amount_.cases
                             : Seconds() >= amount_.seconds;
  }

  void Step(uint64_t index) {
    const std::optional<Case> test_case = cases_.Draw(index);
    if (!test_case) return;
    const auto able = AbleFor(*test_case->op, test_case->scalar);
    if (able.empty()) return;
    ++checked_;
    Problem problem = ProblemOf(*test_case);
    Inputs inputs = GenerateInputs(*test_case, problem);
    Trial trial(std::move(problem), std::move(inputs), test_case->seed);
    for (const Implementation* implementation : able) {
      Verdict verdict;
      try {
        verdict = Verify(*implementation, trial, {.threads = options_.threads});
      } catch (const InvalidInput& undefined) {
        verdict = Verdict::Skipped(
            fmt::format("the reference is undefined: {}", undefined.what()));
      }
      table_.Add(*implementation, test_case->scalar, verdict);
      if (options_.verbose)
        fmt::print("{:<10} {:<14} {}{}{}\n", ToString(verdict.outcome),
                   implementation->id, test_case->Id(),
                   verdict.reason.empty() ? "" : "  ", verdict.reason);
      if (verdict.outcome == Outcome::kFailed)
        Report(*implementation, *test_case, index, trial, verdict);
    }
  }

  static std::string Repeat(const Implementation& implementation,
                            const Case& test_case) {
    return fmt::format(
        "subquad verify --implementation {} --backend {} --case {}",
        implementation.id, ToString(implementation.backend), test_case.Id());
  }

  void Report(const Implementation& implementation, const Case& test_case,
              uint64_t index, Trial& trial, Verdict verdict) {
    // Shrinks only a few cases, since one bug can fail thousands.
    constexpr int kShrunk = 3;
    if (++failed_[{&implementation, test_case.scalar}] > kShrunk) return;
    if (terminal_) Tell("\r{:70}\r", "");
    fmt::print("failed: {} {}\n  repeat: {}\n", implementation.id,
               verdict.reason, Repeat(implementation, test_case));
    trial.Explain(implementation, verdict);
    if (verdict.diagnosis)
      fmt::print("  {}\n", verdict.diagnosis->looks_like.Text());
    std::fflush(stdout);
    const Case smallest = Shrink(
        test_case,
        [&](const Case& simpler) {
          return VerifyCase(implementation, simpler, options_.threads)
                     .outcome == Outcome::kFailed;
        },
        [] { return Interrupted(); });
    std::filesystem::path folder =
        options_.out /
        fmt::format("{}-{}-{}-{}-{}-{}", implementation.op, implementation.id,
                    ToString(implementation.backend),
                    Info(test_case.scalar).name, cases_.seed, index);
    const std::filesystem::path wanted = folder;
    for (int more = 2; std::filesystem::exists(folder); ++more)
      folder = fmt::format("{}-{}", wanted.string(), more);
    const Verdict result = WriteFailingCase(implementation, smallest, folder,
                                            "generated: " + smallest.Id());
    failures_.push_back(fmt::format(
        "failed: {} {} {}: smallest case {}{}", implementation.op,
        implementation.id, Info(test_case.scalar).name, folder.string(),
        result.outcome == Outcome::kFailed
            ? ""
            : fmt::format(" (check says {})", ToString(result.outcome))));
    fmt::print("  smallest: {}\n  subquad check {} --implementation {}: {}\n",
               Repeat(implementation, smallest), folder.string(),
               implementation.id,
               result.reason.empty() ? "passed" : result.reason);
    std::fflush(stdout);
  }

  void ShowProgress(uint64_t drawn) {
    if (Seconds() < next_) return;
    next_ = Seconds() + (terminal_ ? 0.5 : 60);
    const std::string left =
        amount_.cases > 0
            ? fmt::format("{} of {} draws", drawn, amount_.cases)
            : fmt::format("{} draws, {:.0f} s left", drawn,
                          std::max(0.0, amount_.seconds - Seconds()));
    Tell("{}{}, {} cases, {} failed{}", terminal_ ? "\r" : "", left, checked_,
         table_.total().failed, terminal_ ? "    " : "\n");
  }

  const RandomOptions& options_;
  const Amount amount_;
  RandomCases cases_;
  TallyTable table_;
  uint64_t checked_ = 0;
  std::map<std::pair<const Implementation*, Scalar>, int> failed_;
  std::vector<std::string> failures_;
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  const Clock::time_point start_ = Clock::now();
  double next_ = terminal_ ? 0.5 : 60;
};

}  // namespace

int VerifyRandom(const RandomOptions& options) {
  return RandomRun(options).Run();
}

}  // namespace subquad
