// What float32 costs the fast algorithms: error against float64 as n and the
// range of exp(bias) grow. An FFT's error is relative to the largest numbers it
// mixes, so outputs much smaller than the largest lose digits. A bias that
// falls off symmetrically together with tokens whose scale drops is the known
// bad case: late outputs are sums of small terms, and the rounding of the early
// ones reaches them. And a causal FFT leaks: rounding of future tokens reaches
// the past.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/studies/operator_run.h"
#include "harness/studies/studies.h"

namespace subquad {
namespace {

// A wide range alone is harmless when no error is more than this many times
// that of the plain dense program in float32; the bad case is one above it.
constexpr double kHarmless = 32;

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
  if (setting.op == "toeplitz_1d") {
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
  if (op == "kernelized_rpe_attention")
    params.Set("feature_map", std::string("relu"));
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

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const auto sizes = parameters.at("n").get<std::vector<int64_t>>();
  const auto ranges = parameters.at("range").get<std::vector<double>>();
  const auto scales = parameters.at("future").get<std::vector<double>>();
  const int64_t d = parameters.at("d"), e = parameters.at("e"),
                leak_n = parameters.at("leak_n");
  const double drop = parameters.at("drop");
  StudyTable errors{
      "error",
      {{"operator", "name", "operator"},
       {"implementation", "name", "algorithm, in float32"},
       {"case", "name",
        "random: bias uniform on [-range, 0]; decaying: falls by range from "
        "offset 0 to n, both ways; dropping: decaying, and tokens of the "
        "second "
        "half scaled down"},
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
  for (const char* op : {"toeplitz_1d", "kernelized_rpe_attention"})
    if (OperatorOrNull(op))
      for (const char* kind : {"random", "decaying", "dropping"})
        for (int64_t n : sizes)
          for (double range : ranges) settings.push_back({op, kind, n, range});
  std::vector<std::vector<std::vector<Json>>> rows(settings.size());
  run.For(static_cast<int64_t>(settings.size()), [&](int64_t index) {
    const Setting& setting = settings[static_cast<size_t>(index)];
    const Operator& op = *OperatorOrNull(setting.op);
    Trial trial =
        MakeTrial(op, ParamsFor(setting.op, false), Scalar::kFloat32,
                  TensorsFor(run, setting, d, e,
                             setting.kind == "dropping" ? drop : 1, 1),
                  run.seed());
    trial.answer();
    for (const Implementation* implementation :
         CpuImplementations(op, Scalar::kFloat32)) {
      if (implementation->why_not &&
          !implementation->why_not(trial.problem()).empty())
        continue;
      const std::vector<double> out = RunOnce(*implementation, trial, 1);
      const Verdict verdict = trial.JudgeOutputs(*implementation);
      rows[static_cast<size_t>(index)].push_back(
          {setting.op, implementation->id, setting.kind, setting.n,
           setting.range, RelativeError(trial, out),
           verdict.comparison.over_plain, verdict.comparison.max_over_bound,
           std::string(ToString(verdict.outcome))});
    }
  });
  for (auto& group : rows)
    for (auto& row : group) errors.Add(std::move(row));

  StudyTable leaks{
      "leak",
      {{"operator", "name", "operator, causal"},
       {"implementation", "name", "algorithm"},
       {"scalar", "name", "type it computes in"},
       {"n", "tokens", "of which the second half is the future"},
       {"future", "1", "future values are scaled by this; 0 is the yardstick"},
       {"leak", "1",
        "largest change of a past output over the largest past output"},
       {"roundings", "1", "leak over (unit roundoff times log2 n)"}},
      {}};
  for (const char* id : {"toeplitz_1d", "kernelized_rpe_attention"}) {
    const Operator* op = OperatorOrNull(id);
    if (!op) continue;
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (const Implementation* implementation :
           CpuImplementations(*op, scalar)) {
        std::vector<double> quiet;
        for (size_t s = 0; s <= scales.size(); ++s) {
          const double future = s == 0 ? 0 : scales[s - 1];
          Trial trial = MakeTrial(
              *op, ParamsFor(id, true), scalar,
              TensorsFor(run, {id, "decaying", leak_n, 8}, d, e, 1, future),
              run.seed());
          if (implementation->why_not &&
              !implementation->why_not(trial.problem()).empty())
            break;
          const std::vector<double> out = RunOnce(*implementation, trial, 1);
          if (s == 0) {
            quiet = out;
            continue;
          }
          double change = 0, size = 0;
          for (int64_t i = 0; i < leak_n / 2 * e; ++i) {
            const auto at = static_cast<size_t>(i);
            const double off = std::abs(out[at] - quiet[at]);
            change = Worst(change, off);
            size = std::max(size, std::abs(quiet[at]));
          }
          const double roundoff =
              scalar == Scalar::kFloat32 ? 0x1p-24 : 0x1p-53;
          leaks.Add({id, implementation->id, std::string(Info(scalar).name),
                     leak_n, future, change / size,
                     change / size /
                         (roundoff * std::log2(static_cast<double>(leak_n)))});
        }
      }
  }
  return {errors, leaks};
}

bool UsesFft(const std::string& implementation) {
  return implementation.find("fft") != std::string::npos;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& errors = FindTable(tables, "error");
  double worst_bound = 0, wide = 0, bad = 0, bad_error = 0, exact_bad = 0;
  std::string bad_where;
  bool finite = true;
  for (size_t r = 0; r < errors.rows.size(); ++r) {
    const double bound = errors.Number(r, "over_bound"),
                 plain = errors.Number(r, "over_plain"),
                 relative = errors.Number(r, "relative_error");
    finite = finite && std::isfinite(bound) && std::isfinite(relative);
    worst_bound = Worst(worst_bound, bound);
    if (!UsesFft(errors.Text(r, "implementation"))) {
      exact_bad = Worst(exact_bad, relative);
      continue;
    }
    if (errors.Text(r, "case") != "dropping") {
      wide = Worst(wide, relative);
    } else if (relative > bad_error) {
      bad_error = relative;
      bad = plain;
      bad_where = fmt::format("{}/{} at n = {:g}, range {:g}",
                              errors.Text(r, "operator"),
                              errors.Text(r, "implementation"),
                              errors.Number(r, "n"), errors.Number(r, "range"));
    }
  }
  StudyVerdict bounds{"precision-bounds",
                      "every error stays below the bound derived beside its "
                      "algorithm"};
  bounds.outcome = Decide(!errors.rows.empty() && finite && worst_bound <= 1);
  bounds.numbers =
      fmt::format("{} runs in float32: largest error / bound {:.3f}",
                  errors.rows.size(), worst_bound);
  StudyVerdict dropping{
      "precision-dropping",
      "a symmetric decaying bias with tokens that drop costs the FFT its "
      "digits in small outputs; a quadratic algorithm keeps them"};
  dropping.outcome =
      Decide(finite && bad_error >= kHarmless * exact_bad && bad > 0);
  dropping.numbers = fmt::format(
      "largest relative error of a row: {:.1e} ({}), quadratic algorithms "
      "{:.1e} at most; without the drop the FFTs' is {:.1e} at most",
      bad_error, bad_where, exact_bad, wide);

  const StudyTable& leaks = FindTable(tables, "leak");
  double dense = 0, most = 0, rounds = 0;
  bool fft_leaks = false;
  for (size_t r = 0; r < leaks.rows.size(); ++r) {
    const double leak = leaks.Number(r, "leak");
    if (!UsesFft(leaks.Text(r, "implementation"))) {
      dense = std::isfinite(leak) ? Worst(dense, leak) : HUGE_VAL;
      continue;
    }
    fft_leaks = fft_leaks || leak > 0;
    if (leaks.Text(r, "scalar") == "float32") most = Worst(most, leak);
    // Over the scale of the future: the same number of roundings at any scale.
    rounds = Worst(rounds, leaks.Number(r, "roundings") /
                                  std::max(1.0, leaks.Number(r, "future")));
  }
  StudyVerdict leak{"precision-leak",
                    "a causal FFT leaks rounding of the future into the past, "
                    "in proportion to its scale; others leak nothing"};
  leak.outcome = Decide(!leaks.rows.empty() && dense == 0 && fft_leaks &&
                        rounds <= kHarmless);
  leak.numbers = fmt::format(
      "quadratic and recurrent algorithms: {:g}; FFTs: at most {:.2f} unit "
      "roundoffs times log2 n times the scale of the future, {:.1e} of the "
      "past's size in float32 at the largest scale",
      dense, rounds, most);
  return {bounds, dropping, leak};
}

}  // namespace

Study PrecisionStudy() {
  Study study;
  study.name = "precision";
  study.purpose =
      "Error of the fast algorithms in float32 as n and the range of exp(bias) "
      "grow, and what of the future leaks into a causal past.";
  study.source = "this project; NPRF section 3.2, FastRPB section 3.2";
  study.parameters = {{"n", {256, 1024, 8192, 32768}},
                      {"range", {0.0, 4.0, 8.0, 16.0, 32.0}},
                      {"drop", 1e-6},
                      {"d", 16},
                      {"e", 4},
                      {"leak_n", 2048},
                      {"future", {1.0, 1e2, 1e4, 1e6}}};
  study.tiny = {
      {"n", {64, 512}}, {"range", {0.0, 16.0, 32.0}}, {"leak_n", 256}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
