#include "harness/commands/verify_spikes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "harness/base/tell.h"
#include "harness/commands/commands.h"
#include "harness/judging/spikes.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

// Quadratic implementations are tested with this many queries and all keys.
constexpr int64_t kMostQueries = 300;

bool IsQuadratic(const Implementation& implementation) {
  return implementation.time.order.find("n^2") != std::string::npos;
}

}  // namespace

int VerifySpikes(const Filters& filters, const std::vector<int64_t>& sizes,
                 int threads) {
  filters.Check();
  filters.TellOfUnusableDevice();
  int passed = 0, bad = 0, skipped = 0;
  const bool terminal = isatty(fileno(stderr));
  for (const SpikeSubject& subject : SpikeSubjects()) {
    const Operator& op = FindOperator(subject.operator_id);
    if (!filters.Takes(op) || !filters.Takes(Scalar::kFloat32)) continue;
    for (const Implementation* implementation : ImplementationsOf(op)) {
      if (!filters.Takes(*implementation)) continue;
      for (const int64_t n : sizes)
        for (const bool causal : {false, true}) {
          const int64_t n_q =
              IsQuadratic(*implementation) ? std::min(n, kMostQueries) : n;
          if (terminal)
            Tell("\r{:70}\r{} {} n = {}", "", subject.operator_id,
                 implementation->id, n);
          const SpikeVerdict verdict =
              ProbeSpikes(subject, *implementation, n_q, n, causal, threads);
          if (terminal) Tell("\r{:70}\r", "");
          if (verdict.outcome == Outcome::kSkipped) {
            ++skipped;
            fmt::print("skipped    {:<24} {:<12} n_k={}{}  {}\n",
                       subject.operator_id, implementation->id, n,
                       causal ? " causal" : "", verdict.reason);
            continue;
          }
          (verdict.outcome == Outcome::kPassed ? passed : bad) += 1;
          fmt::print(
              "{:<10} {:<24} {:<12} n_q={} n_k={}{}  {} offsets  error {:.3g} "
              "tolerances  smallest effect {:.3g} tolerances{}\n",
              ToString(verdict.outcome), subject.operator_id,
              implementation->id, n_q, n, causal ? " causal" : "",
              verdict.offsets, verdict.error, verdict.margin,
              verdict.reason.empty() ? "" : "  " + verdict.reason);
          std::fflush(stdout);
        }
    }
  }
  if (passed + bad + skipped == 0) {
    std::string tested;
    for (const SpikeSubject& subject : SpikeSubjects())
      tested += (tested.empty() ? "" : ", ") + subject.operator_id;
    throw InvalidInput(
        "the filters leave nothing to test: --spikes tests float32 programs of "
        "operators with an input indexed by offset (" +
        tested + ")");
  }
  fmt::print("{} passed, {} failed or mistrusted, {} skipped\n", passed, bad,
             skipped);
  return passed > 0 && bad == 0 ? kFine : kCheckFailed;
}

}  // namespace subquad
