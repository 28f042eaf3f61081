#include "harness/judging/spikes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/cases/generate.h"
#include "harness/judging/comparison.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

constexpr int64_t kWidth = 8;
// A run with more floating-point operations than this is skipped.
constexpr double kMostFlops = 4e10;
// The roundings of a sum of n values add up like a random walk; the tolerance
// is this many of its standard deviations. An FFT spreads the rounding of the
// spike over all rows.
constexpr double kDeviations = 32;

// Returns the value of the spike. exp(bias) is about the number of keys, so
// that the spike's key and all other keys together have equal weight.
double SpikeFor(const SpikeSubject& subject, int64_t n_k) {
  return subject.mean && !subject.product
             ? static_cast<float>(std::log(static_cast<double>(n_k) + 1))
             : 1;
}

// Returns the query_offset of a causal problem in which the queries are the
// last tokens of the sequence.
int64_t QueryOffset(int64_t n_q, int64_t n_k) {
  return std::max<int64_t>(0, n_k - n_q);
}

// A mean of `seen` values, in which the spike's value counts `weight` times
// more.
struct Row {
  int64_t seen = 0;
  bool hit = false;  // the query sees the spike's key
  int64_t key = 0;
};

Row RowOf(int64_t i, int64_t n_q, int64_t n_k, bool causal, int64_t offset) {
  Row row;
  row.seen = causal ? std::min(i + 1 + QueryOffset(n_q, n_k), n_k) : n_k;
  row.key = i + offset;
  row.hit = row.key >= 0 && row.key < row.seen;
  return row;
}

}  // namespace

const std::vector<SpikeSubject>& SpikeSubjects() {
  static const std::vector<SpikeSubject> subjects = {
      {"toeplitz_1d", "", "weights", "values", false, true},
      {"softmax_attention", "d=8,with=bias", "bias", "v", true, false},
      {"kernelized_rpe_attention", "d=8,feature_map=elu1", "bias", "v", true,
       false},
      {"fastrpb_attention", "d=8,attention=linear,feature_map=elu1", "weights",
       "v", true, true},
  };
  return subjects;
}

std::vector<int64_t> SpikeOffsets(int64_t n_q, int64_t n_k) {
  std::set<int64_t> offsets;
  const auto add = [&](int64_t offset) {
    if (offset > -n_q && offset < n_k) offsets.insert(offset);
  };
  add(0);
  add(1 - n_q);
  add(n_k - 1);
  for (int64_t edge = 64; edge <= std::max(n_q, n_k); edge *= 2)
    for (int64_t near : {edge - 1, edge, edge + 1}) {
      add(near);
      add(-near);
    }
  return {offsets.begin(), offsets.end()};
}

std::vector<double> SpikeAnswer(const SpikeSubject& subject,
                                const std::vector<double>& values, int64_t n_q,
                                int64_t e, bool causal, int64_t offset,
                                double spike) {
  const int64_t n_k = static_cast<int64_t>(values.size()) / e;
  std::vector<double> out(static_cast<size_t>(n_q * e));
  std::vector<double> sums(static_cast<size_t>(e));
  int64_t summed = 0;
  for (int64_t i = 0; i < n_q; ++i) {
    const Row row = RowOf(i, n_q, n_k, causal, offset);
    if (subject.mean)
      for (; summed < row.seen; ++summed)
        for (int64_t c = 0; c < e; ++c)
          sums[static_cast<size_t>(c)] +=
              values[static_cast<size_t>(summed * e + c)];
    const double extra = subject.product || !row.hit ? 0 : std::expm1(spike);
    for (int64_t c = 0; c < e; ++c) {
      const double value =
          row.hit ? values[static_cast<size_t>(row.key * e + c)] : 0;
      double& to = out[static_cast<size_t>(i * e + c)];
      if (subject.mean)
        to = (sums[static_cast<size_t>(c)] + extra * value) /
             (static_cast<double>(row.seen) + extra);
      if (subject.product) to += spike * value;
    }
  }
  return out;
}

void CompareSpike(const SpikeSubject& subject,
                  const std::vector<double>& values,
                  const std::vector<double>& output, int64_t n_q, int64_t e,
                  bool causal, int64_t offset, double spike, double roundoff,
                  bool mixes, SpikeVerdict& verdict) {
  const int64_t n_k = static_cast<int64_t>(values.size()) / e;
  const auto answer = [&](double at_offset) {
    return SpikeAnswer(subject, values, n_q, e, causal, offset, at_offset);
  };
  const std::vector<double> expected = answer(spike), without = answer(0);
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  const double tolerance =
      kDeviations * roundoff * std::sqrt(static_cast<double>(n_k)) * largest;
  const double extra = subject.mean && !subject.product ? std::expm1(spike) : 0;
  ++verdict.offsets;
  double moved = 0;  // largest change by the spike, divided by the tolerance
  bool any_hit = false;
  for (int64_t i = 0; i < n_q; ++i) {
    const Row row = RowOf(i, n_q, n_k, causal, offset);
    any_hit = any_hit || row.hit;
    // A transform's rounding is relative to the sum of all weights; the mean
    // divides by the weights that the row sees.
    const double weights =
        static_cast<double>(row.seen) + (row.hit ? extra : 0);
    const double allowed =
        mixes && extra > 0
            ? tolerance * (static_cast<double>(n_k) + extra) / weights
            : tolerance;
    for (int64_t c = 0; c < e; ++c) {
      const auto at = static_cast<size_t>(i * e + c);
      moved = std::max(moved, std::abs(expected[at] - without[at]) / allowed);
      const double error = std::abs(output[at] - expected[at]) / allowed;
      verdict.error = std::isnan(error)
                          ? std::numeric_limits<double>::infinity()
                          : std::max(verdict.error, error);
      if (error <= 1 || verdict.outcome == Outcome::kFailed) continue;
      verdict.outcome = Outcome::kFailed;
      verdict.reason = fmt::format(
          "spike at offset {}: row {} column {} is {:.6g}, expected {:.6g} "
          "({:.6g} without the spike)",
          offset, i, c, output[at], expected[at], without[at]);
    }
  }
  if (any_hit)
    verdict.margin =
        verdict.margin == 0 ? moved : std::min(verdict.margin, moved);
}

SpikeVerdict ProbeSpikes(const SpikeSubject& subject,
                         const Implementation& implementation, int64_t n_q,
                         int64_t n_k, bool causal, int threads) {
  SpikeVerdict verdict;
  std::string id = fmt::format(
      "{}:{}{}e={},n_q={},n_k={},causal={},scalar=float32", subject.operator_id,
      subject.settings, subject.settings.empty() ? "" : ",", kWidth, n_q, n_k,
      causal ? 1 : 0);
  if (causal && QueryOffset(n_q, n_k) > 0) {
    const auto rules = FindOperator(subject.operator_id).ParamRules({});
    if (std::ranges::find(rules, "query_offset", &ParamRule::name) ==
        rules.end()) {
      verdict.reason =
          "this operator has no query_offset, so it cannot be run on the last "
          "queries only";
      return verdict;
    }
    id += fmt::format(",query_offset={}", QueryOffset(n_q, n_k));
  }
  const Case test_case = MakeCase(ParseCaseId(id));
  const Problem problem = ProblemOf(test_case);
  verdict.reason = WhyNot(implementation, problem);
  if (!verdict.reason.empty()) return verdict;
  verdict.reason = DoesNotFit(implementation, problem, threads);
  if (!verdict.reason.empty()) return verdict;
  const double flops = implementation.CostOf(problem, threads).flops;
  if (flops > kMostFlops) {
    verdict.reason = fmt::format(
        "would take too long: {:.2g} operations for each offset", flops);
    return verdict;
  }
  Inputs inputs = GenerateInputs(test_case, problem);
  std::vector<double> values;
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == subject.values)
      values = tensor.values;
    else
      std::ranges::fill(tensor.values, 0);
  Trial trial(problem, std::move(inputs), test_case.seed);
  const auto weights = std::ranges::find(trial.arrays().inputs, subject.tensor,
                                         &Arrays::Entry::name);
  const Arrays::Entry& out = trial.arrays().outputs.front();
  const double spike = SpikeFor(subject, n_k);
  const auto prepared =
      implementation.Prepare(problem, trial.arrays(), {.threads = threads});
  std::vector<double> output(static_cast<size_t>(out.count));
  verdict.outcome = Outcome::kPassed;
  for (const int64_t offset : SpikeOffsets(n_q, n_k)) {
    const auto at = static_cast<size_t>(offset + n_q - 1);
    StoreAt(problem.scalar, spike, weights->data, at);
    trial.Poison();
    prepared->Run();
    StoreAt(problem.scalar, 0, weights->data, at);
    for (int64_t x = 0; x < out.count; ++x)
      output[static_cast<size_t>(x)] = ElementAt(problem.scalar, out.data, x);
    CompareSpike(subject, values, output, n_q, kWidth, causal, offset, spike,
                 Info(problem.scalar).unit_roundoff,
                 implementation.sums(problem) != Sums::kDirect, verdict);
    if (verdict.outcome == Outcome::kFailed) return verdict;
  }
  if (!(verdict.margin >= 1)) {
    verdict.outcome = Outcome::kMistrusted;
    verdict.reason = fmt::format(
        "a spike changes the output by only {:.3g} of the tolerance, "
        "so that this size cannot be checked",
        verdict.margin);
  }
  return verdict;
}

}  // namespace subquad
