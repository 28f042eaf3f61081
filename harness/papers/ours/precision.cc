// What float32 costs the fast algorithms: error against float64 as n and the
// range of exp(bias) grow. The error of an FFT is relative to the largest
// numbers that it mixes, so outputs much smaller than the largest lose digits.
// A bias that falls off symmetrically together with tokens whose scale drops is
// the known bad case: late outputs are sums of small terms, and the rounding of
// the early ones reaches them. And a causal FFT leaks: rounding of future
// tokens reaches the past.
//
// For kernelized_rpe_attention there is a remedy, transforms in float64; the
// table `cost` has its gain and its time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/frame/timed_run.h"
#include "harness/papers/ours/ours.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

// FFTs have lost digits where their error exceeds this many times the largest
// of a direct sum; and they leak at most this many roundings.
constexpr double kHarmless = 32;
// A remedy has to divide the error by at least this.
constexpr double kGain = 10;
constexpr const char* kToeplitz = "toeplitz_1d";
constexpr const char* kKernelized = "kernelized_rpe_attention";
// What the remedy's cost is compared with.
constexpr const char* kDirectRival = "tiled";
constexpr const char* kWithout = "fft_streamed";

// How the algorithm forms its sums over offsets in this problem.
std::string ClassOf(const Implementation& implementation,
                    const Problem& problem) {
  switch (implementation.sums(problem)) {
    case Sums::kDirect:
      return "direct";
    case Sums::kMixed:
      return "mixed";
    case Sums::kMixedWide:
      return "remedy";
  }
  return "";
}

std::vector<double> Positive(const Draws& draws, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + draws.Uniform(i);
  return values;
}

// Everything positive: no sum cancels, so a relative error says how many
// digits are left.
std::vector<double> Bias(const StudyRun& run, const std::string& kind,
                         int64_t n, double range) {
  std::vector<double> bias(static_cast<size_t>(2 * n - 1));
  const Draws draws = run.DrawsOf("bias");
  for (int64_t t = 0; t < 2 * n - 1; ++t)
    bias[static_cast<size_t>(t)] =
        kind == "random" ? -range * draws.Uniform(static_cast<uint64_t>(t))
                         : -range * static_cast<double>(std::abs(t - n + 1)) /
                               static_cast<double>(n);
  return bias;
}

struct Setting {
  std::string op;
  std::string kind;  // random, decaying, dropping
  int64_t n;
  double range;
};

std::vector<GivenTensor> TensorsFor(const StudyRun& run, const Setting& setting,
                                    int64_t d, int64_t e, double drop,
                                    double future) {
  const int64_t n = setting.n;
  std::vector<double> bias = Bias(
      run, setting.kind == "random" ? "random" : "decaying", n, setting.range);
  std::vector<double> values = Positive(run.DrawsOf("values"), n * e);
  for (int64_t j = n / 2; j < n; ++j)
    for (int64_t c = 0; c < e; ++c)
      values[static_cast<size_t>(j * e + c)] *= future;
  if (setting.op == kToeplitz) {
    for (int64_t j = n / 2; j < n; ++j)
      for (int64_t c = 0; c < e; ++c)
        values[static_cast<size_t>(j * e + c)] *= drop;
    for (double& value : bias) value = std::exp(value);
    return {{"weights", {2 * n - 1}, bias}, {"values", {n, e}, values}};
  }
  // relu of positive numbers: features scale as the keys do.
  std::vector<double> keys = Positive(run.DrawsOf("keys"), n * d);
  for (int64_t j = n / 2; j < n; ++j)
    for (int64_t c = 0; c < d; ++c)
      keys[static_cast<size_t>(j * d + c)] *= drop;
  return {{"q", {n, d}, Positive(run.DrawsOf("queries"), n * d)},
          {"k", {n, d}, keys},
          {"v", {n, e}, values},
          {"bias", {2 * n - 1}, bias}};
}

Params ParamsFor(const std::string& op, bool causal) {
  Params params;
  if (op == kKernelized) params.Set("feature_map", std::string("relu"));
  if (causal) params.Set("causal", true);
  return params;
}

// Largest over the compared rows of |error| / |row|, by the largest element.
double RelativeError(Trial& trial, const std::vector<double>& out) {
  const OutputAnswer& answer = trial.answer().outputs.front();
  double worst = 0;
  for (size_t r = 0; r < answer.selection.rows.size(); ++r) {
    const int64_t row = answer.selection.rows[r].row;
    double error = 0, size = 0;
    for (int64_t c = 0; c < answer.width; ++c) {
      const double wanted = static_cast<double>(
          answer.value[r * static_cast<size_t>(answer.width) +
                       static_cast<size_t>(c)]);
      const double off =
          std::abs(out[static_cast<size_t>(row * answer.width + c)] - wanted);
      error = Worst(error, off);
      size = std::max(size, std::abs(wanted));
    }
    worst = Worst(worst, error / size);
  }
  return worst;
}

// Those that run this problem within the memory that a study may take.
std::vector<const Implementation*> Able(const Problem& problem,
                                        double most_bytes) {
  std::vector<const Implementation*> able = CpuImplementations(problem);
  std::erase_if(able, [&](const Implementation* one) {
    return !(one->CostOf(problem, 1).workspace_bytes <= most_bytes);
  });
  return able;
}

StudyTable Errors(StudyRun& run, const Json& parameters) {
  StudyTable errors{
      "error",
      {{"operator", "name", "operator"},
       {"implementation", "name", "algorithm, in float32"},
       {"class", "name",
        "how it sums over offsets: direct; mixed: by transforms; or remedy: "
        "by transforms in a wider type"},
       {"case", "name",
        "random: bias uniform on [-range, 0]; decaying: falls by range from "
        "offset 0 to n, both ways; dropping: decaying, and tokens of the "
        "second half scaled down"},
       {"n", "tokens", "queries and keys"},
       {"range", "1", "exp(bias) goes from 1 down to exp(-range)"},
       {"relative_error", "1",
        "largest error of a row over its largest element"},
       {"over_plain", "1",
        "largest error over that of the plain dense program in float32"},
       {"over_bound", "1", "largest error over its bound; above 1 is wrong"},
       {"verdict", "name", "what verify says"}},
      {}};
  std::vector<Setting> settings;
  for (const char* op : {kToeplitz, kKernelized})
    for (const char* kind : {"random", "decaying", "dropping"})
      for (int64_t n : parameters.at("n").get<std::vector<int64_t>>())
        for (double range : parameters.at("range").get<std::vector<double>>())
          settings.push_back({op, kind, n, range});
  run.InTurn(static_cast<int64_t>(settings.size()), [&](int64_t index) {
    const Setting& setting = settings[static_cast<size_t>(index)];
    Trial trial = MakeTrial(
        FindOperator(setting.op), ParamsFor(setting.op, false),
        Scalar::kFloat32,
        TensorsFor(run, setting, parameters.at("d"), parameters.at("e"),
                   setting.kind == "dropping"
                       ? parameters.at("drop").get<double>()
                       : 1,
                   1),
        run.seed());
    trial.answer();
    for (const Implementation* implementation :
         Able(trial.problem(), parameters.at("most_bytes"))) {
      const std::vector<double> out =
          RunOnce(*implementation, trial, run.threads());
      const Verdict verdict = trial.JudgeOutputs(*implementation);
      errors.Add({setting.op, implementation->id,
                  ClassOf(*implementation, trial.problem()), setting.kind,
                  setting.n, setting.range, RelativeError(trial, out),
                  verdict.comparison.over_plain,
                  verdict.comparison.max_over_bound,
                  std::string(ToString(verdict.outcome))});
    }
  });
  return errors;
}

StudyTable Leaks(StudyRun& run, const Json& parameters) {
  const auto scales = parameters.at("future").get<std::vector<double>>();
  const int64_t d = parameters.at("d"), e = parameters.at("e"),
                n = parameters.at("leak_n");
  StudyTable leaks{
      "leak",
      {{"operator", "name", "operator, causal"},
       {"implementation", "name", "algorithm"},
       {"class", "name", "as in the table of errors"},
       {"scalar", "name", "type it computes in"},
       {"n", "tokens", "of which the second half is the future"},
       {"future", "1", "future values are scaled by this; 0 is the yardstick"},
       {"leak", "1",
        "largest change of a past output over the largest past output"},
       {"roundings", "1", "leak over (unit roundoff times log2 n)"}},
      {}};
  for (const char* id : {kToeplitz, kKernelized}) {
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
      const auto trial_with = [&](double future) {
        return MakeTrial(
            FindOperator(id), ParamsFor(id, true), scalar,
            TensorsFor(run, {id, "decaying", n, 8}, d, e, 1, future),
            run.seed());
      };
      for (const Implementation* implementation :
           CpuImplementations(trial_with(0).problem())) {
        std::vector<double> quiet;
        run.InTurn(static_cast<int64_t>(scales.size()) + 1, [&](int64_t s) {
          const double future = s == 0 ? 0 : scales[static_cast<size_t>(s - 1)];
          Trial trial = trial_with(future);
          const std::vector<double> out =
              RunOnce(*implementation, trial, run.threads());
          if (s == 0) {
            quiet = out;
            return;
          }
          double change = 0, size = 0;
          for (int64_t i = 0; i < n / 2 * e; ++i) {
            const auto at = static_cast<size_t>(i);
            const double off = std::abs(out[at] - quiet[at]);
            change = Worst(change, off);
            size = std::max(size, std::abs(quiet[at]));
          }
          const double roundoff =
              scalar == Scalar::kFloat32 ? 0x1p-24 : 0x1p-53;
          leaks.Add(
              {id, implementation->id,
               ClassOf(*implementation, trial.problem()),
               std::string(Info(scalar).name), n, future, change / size,
               change / size / (roundoff * std::log2(static_cast<double>(n)))});
        });
      }
    }
  }
  return leaks;
}

// Measures the FFTs of kernelized_rpe_attention in the bad case and the best
// direct sum alternately on one thread. Only programs that pass are timed.
StudyTable Costs(StudyRun& run, const Json& parameters) {
  StudyTable costs{
      "cost",
      {{"implementation", "name", "algorithm of kernelized_rpe_attention"},
       {"class", "name", "as in the table of errors"},
       {"n", "tokens", "queries and keys"},
       {"relative_error", "1",
        "largest error of a row over its largest element, case dropping at "
        "the largest range"},
       {"workspace", "bytes", "beyond inputs and output, by its formula"},
       {"seconds", "s", "median of a run on one thread"},
       {"low", "s", "95 % interval of the median"},
       {"high", "s", "95 % interval of the median"}},
      {}};
  costs.repeatable = false;
  const auto sizes = parameters.at("cost_n").get<std::vector<int64_t>>();
  run.InTurn(static_cast<int64_t>(sizes.size()), [&](int64_t index) {
    const int64_t n = sizes[static_cast<size_t>(index)];
    const double range = parameters.at("range").back();
    Trial trial =
        MakeTrial(FindOperator(kKernelized), ParamsFor(kKernelized, false),
                  Scalar::kFloat32,
                  TensorsFor(run, {kKernelized, "dropping", n, range},
                             parameters.at("cost_d"), parameters.at("cost_d"),
                             parameters.at("drop"), 1),
                  run.seed());
    trial.answer();
    std::vector<const Implementation*> able =
        Able(trial.problem(), parameters.at("most_bytes"));
    std::erase_if(able, [&](const Implementation* implementation) {
      return implementation->sums(trial.problem()) == Sums::kDirect &&
             implementation->id != kDirectRival;
    });
    std::vector<TimedRun> runs;
    std::vector<double> errors;
    for (const Implementation* implementation : able) {
      errors.push_back(
          RelativeError(trial, RunOnce(*implementation, trial, 1)));
      runs.push_back({implementation, &trial, {}, {}});
    }
    // A range this large hides most faults from a check: what it costs is shown
    // beside the error, whatever the check could have told.
    TimeInTurns(runs, 1, parameters.at("budget_seconds"), Verified::kNo);
    for (size_t i = 0; i < runs.size(); ++i) {
      const Median& time = runs[i].seconds;
      costs.Add({able[i]->id, ClassOf(*able[i], trial.problem()), n, errors[i],
                 able[i]->CostOf(trial.problem(), 1).workspace_bytes,
                 time.median, time.interval.low, time.interval.high});
    }
  });
  return costs;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  return {Errors(run, parameters), Leaks(run, parameters),
          Costs(run, parameters)};
}

// The largest relative error of a class in a case, and where it is.
struct Largest {
  double error = 0;
  std::string where;
};
Largest LargestOf(const StudyTable& errors, const std::string& group,
                  bool dropping, const std::string& op = "") {
  Largest largest;
  for (size_t r = 0; r < errors.rows.size(); ++r) {
    if (errors.Text(r, "class") != group ||
        (errors.Text(r, "case") == "dropping") != dropping ||
        (!op.empty() && errors.Text(r, "operator") != op))
      continue;
    const double error = errors.Number(r, "relative_error");
    const double worst = Worst(largest.error, error);
    if (worst == largest.error) continue;
    largest.error = worst;
    largest.where =
        fmt::format("{}/{} at n = {:g}, range {:g}", errors.Text(r, "operator"),
                    errors.Text(r, "implementation"), errors.Number(r, "n"),
                    errors.Number(r, "range"));
    if (std::isnan(worst)) break;
  }
  return largest;
}

StudyVerdict JudgeBounds(const StudyTable& errors) {
  StudyVerdict bounds{"precision-bounds",
                      "every error stays below the bound derived beside its "
                      "algorithm"};
  double worst = 0;
  for (double bound : errors.Numbers("over_bound")) worst = Worst(worst, bound);
  bounds.outcome = Decide(!errors.rows.empty() && worst <= 1);
  bounds.numbers =
      fmt::format("{} runs in float32: largest error / bound {:.3f}",
                  errors.rows.size(), worst);
  return bounds;
}

StudyVerdict JudgeDropping(const StudyTable& errors) {
  StudyVerdict verdict{
      "precision-dropping",
      "a symmetric decaying bias with tokens that drop costs the FFT its "
      "digits in small outputs; a direct sum keeps them, and so do both "
      "without the drop"};
  const Largest bad = LargestOf(errors, "mixed", true);
  const double direct = Worst(LargestOf(errors, "direct", true).error,
                              LargestOf(errors, "direct", false).error);
  const double wide = LargestOf(errors, "mixed", false).error;
  verdict.outcome = Decide(direct > 0 && bad.error >= kHarmless * direct &&
                               wide <= kHarmless * direct,
                           direct > 0 && bad.error >= kHarmless * direct);
  verdict.numbers = fmt::format(
      "largest relative error of a row: {:.1e} ({}), of direct sums {:.1e}; "
      "without the drop the FFTs' is {:.1e} (limit {:g} times the direct "
      "sums')",
      bad.error, bad.where, direct, wide, kHarmless);
  return verdict;
}

StudyVerdict JudgeLeak(const StudyTable& leaks) {
  StudyVerdict verdict{
      "precision-leak",
      "a causal FFT leaks rounding of the future into the past, in proportion "
      "to its scale; direct sums leak nothing"};
  double direct = 0, most = 0, rounds = 0;
  int sums = 0, ffts = 0, leaking = 0;
  for (size_t r = 0; r < leaks.rows.size(); ++r) {
    const double leak = leaks.Number(r, "leak");
    if (leaks.Text(r, "class") == "direct") {
      ++sums;
      direct = Worst(direct, leak);
      continue;
    }
    if (leaks.Text(r, "class") != "mixed") continue;
    ++ffts;
    leaking += leak > 0;
    if (leaks.Text(r, "scalar") == "float32") most = Worst(most, leak);
    // Over the scale of the future: the same number of roundings at any scale.
    rounds = Worst(rounds, leaks.Number(r, "roundings") /
                               std::max(1.0, leaks.Number(r, "future")));
  }
  verdict.outcome = Decide(sums > 0 && direct == 0 && ffts > 0 &&
                           leaking == ffts && rounds <= kHarmless);
  verdict.numbers = fmt::format(
      "{} runs of direct sums leak at most {:.3g}; {} of {} runs of FFTs leak, "
      "at "
      "most {:.3g} unit roundoffs times log2 n times the scale of the future, "
      "which in float32 at the largest scale is {:.2g} times the past's size",
      sums, direct, leaking, ffts, rounds, most);
  return verdict;
}

StudyVerdict JudgeRemedy(const StudyTable& errors) {
  StudyVerdict verdict{
      "precision-remedy",
      "with transforms in float64, the FFT of kernelized_rpe_attention keeps "
      "the digits that float32 loses"};
  const Largest with = LargestOf(errors, "remedy", true, kKernelized),
                without = LargestOf(errors, "mixed", true, kKernelized),
                direct = LargestOf(errors, "direct", true, kKernelized);
  const bool known = with.error > 0 && without.error > 0 && direct.error > 0;
  verdict.outcome = Decide(known && with.error <= kHarmless * direct.error,
                           known && with.error <= without.error / kGain);
  verdict.numbers = fmt::format(
      "largest relative error of a row in the bad case: {:.1e} in float64 "
      "({}), {:.1e} in float32, {:.1e} by direct sums",
      with.error, with.where, without.error, direct.error);
  return verdict;
}

StudyVerdict JudgeCost(const StudyTable& costs) {
  StudyVerdict verdict{
      "precision-remedy-cost",
      "with transforms in float64, the FFT takes less time than the direct sum "
      "at the largest size"};
  verdict.repeatable = false;
  double largest_n = 0;
  for (double n : costs.Numbers("n")) largest_n = Worst(largest_n, n);
  const auto value = [&](double n, const std::string& name,
                         std::string_view column) {
    for (size_t r = 0; r < costs.rows.size(); ++r)
      if (costs.Number(r, "n") == n && costs.Text(r, "implementation") == name)
        return costs.Number(r, column);
    return std::nan("");
  };
  bool cheaper = largest_n > 0;
  for (size_t r = 0; r < costs.rows.size(); ++r) {
    if (costs.Text(r, "class") != "remedy") continue;
    const double n = costs.Number(r, "n"), time = costs.Number(r, "seconds");
    verdict.numbers += fmt::format(
        "{}{} at n = {:g}: {:.3g} times the time of {}, {:.3g} times its "
        "workspace, {:.3g} times the time of {}",
        verdict.numbers.empty() ? "" : "; ", costs.Text(r, "implementation"), n,
        time / value(n, kWithout, "seconds"), kWithout,
        costs.Number(r, "workspace") / value(n, kWithout, "workspace"),
        time / value(n, kDirectRival, "seconds"), kDirectRival);
    if (n == largest_n)
      cheaper = cheaper && time < value(n, kDirectRival, "seconds");
  }
  cheaper = cheaper && !verdict.numbers.empty();
  if (verdict.numbers.empty()) verdict.numbers = "nothing was measured";
  verdict.outcome = Decide(cheaper);
  return verdict;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& errors = FindTable(tables, "error");
  std::vector<StudyVerdict> verdicts = {
      JudgeBounds(errors), JudgeDropping(errors),
      JudgeLeak(FindTable(tables, "leak")), JudgeRemedy(errors),
      JudgeCost(FindTable(tables, "cost"))};
  for (StudyVerdict& verdict : verdicts) verdict.ours = true;
  return verdicts;
}

}  // namespace

Study PrecisionStudy() {
  Study study;
  study.name = "precision";
  study.purpose =
      "Error of the fast algorithms in float32 as n and the range of exp(bias) "
      "grow, and how much later tokens change earlier outputs of a causal "
      "product through rounding.";
  study.source = "this project; NPRF section 3.2, FastRPB section 3.2";
  study.parameters = {{"n", {256, 1024, 4096, 16384}},
                      {"range", {0.0, 4.0, 8.0, 16.0, 32.0}},
                      {"drop", 1e-6},
                      {"d", 16},
                      {"e", 4},
                      {"most_bytes", 600e6},
                      {"leak_n", 2048},
                      {"future", {1.0, 1e2, 1e4, 1e6}},
                      {"cost_n", {1024, 4096, 16384}},
                      {"cost_d", 64},
                      {"budget_seconds", 2.0}};
  study.tiny = {{"n", {64, 512}}, {"range", {0.0, 16.0, 32.0}},
                {"leak_n", 256},  {"cost_n", {64, 1024}},
                {"cost_d", 8},    {"budget_seconds", 0.05}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
