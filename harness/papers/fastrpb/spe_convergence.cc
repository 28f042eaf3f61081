// Stochastic positional encoding (Liutkus et al. 2021; FastRPB eq. 8): scores
// of noise against the scores of its covariance, by the number R of draws.
//   sine  P_a(i,j) = sum_k gains^2 cos(2 pi freqs (i-j) + phases)
//   conv  P_a(i,j) = sum over p, p' with i+p = j+p' of filters_q[p]
//   filters_k[p']
// The average of R independent draws, so the error falls like R^(-1/2).
//
// And the time of linear attention with such positions next to FastRPB's. The
// noise is an input: the time leaves out drawing it, which a model would do for
// every batch.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/fastrpb/tables.h"
#include "harness/papers/frame/grid.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/frame/sweep_parts.h"
#include "harness/papers/frame/timed_run.h"

namespace subquad {
namespace {

constexpr double kSlope = -0.5, kLargestDifference = 0.05;
constexpr double kPi = std::numbers::pi;

struct Positions {
  int64_t n, d, waves, taps;
  std::vector<double> freqs, phases, gains;  // [d, waves]
  std::vector<double> filters_q, filters_k;  // [d, taps]
};

double Covariance(const Positions& one, const std::string& kind, int64_t a,
                  int64_t i, int64_t j) {
  double sum = 0;
  if (kind == "sine") {
    for (int64_t k = 0; k < one.waves; ++k) {
      const auto at = static_cast<size_t>(a * one.waves + k);
      sum += one.gains[at] * one.gains[at] *
             std::cos(2 * kPi * one.freqs[at] * static_cast<double>(i - j) +
                      one.phases[at]);
    }
    return sum;
  }
  for (int64_t p = 0; p < one.taps; ++p) {
    const int64_t other = i + p - j;
    if (other >= 0 && other < one.taps)
      sum += one.filters_q[static_cast<size_t>(a * one.taps + p)] *
             one.filters_k[static_cast<size_t>(a * one.taps + other)];
  }
  return sum;
}

// What multiplies q_i[a] and k_i[a] in one draw, for all i.
void Encode(const Positions& one, const std::string& kind, int64_t a,
            const std::vector<double>& noise, double* for_q, double* for_k) {
  for (int64_t i = 0; i < one.n; ++i) {
    double q = 0, k = 0;
    if (kind == "sine") {
      for (int64_t w = 0; w < one.waves; ++w) {
        const auto at = static_cast<size_t>(a * one.waves + w);
        const double angle = 2 * kPi * one.freqs[at] * static_cast<double>(i);
        const double shifted = angle + one.phases[at];
        const double z0 = noise[static_cast<size_t>(2 * w)],
                     z1 = noise[static_cast<size_t>(2 * w + 1)];
        q += one.gains[at] * (std::cos(shifted) * z0 + std::sin(shifted) * z1);
        k += one.gains[at] * (std::cos(angle) * z0 + std::sin(angle) * z1);
      }
    } else {
      for (int64_t p = 0; p < one.taps; ++p) {
        const auto at = static_cast<size_t>(a * one.taps + p);
        const double z = noise[static_cast<size_t>(i + p)];
        q += one.filters_q[at] * z;
        k += one.filters_k[at] * z;
      }
    }
    for_q[i] = q;
    for_k[i] = k;
  }
}

namespace table = fastrpb_tables;

GivenTensor Normal(const StudyRun& run, const std::string& name,
                   std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return {name, std::move(shape),
          SampleNormal(run.DrawsOf("time/" + name), 0, count)};
}

struct Method {
  std::string_view name, op;
};
constexpr Method kMethods[] = {{"none", "linear_attention"},
                               {"fastrpb_linear", "fastrpb_attention"},
                               {"sine_spe", "stochastic_position_attention"},
                               {"conv_spe", "stochastic_position_attention"}};

std::unique_ptr<Trial> TrialOf(const StudyRun& run, const Json& parameters,
                               const Method& method, int64_t n) {
  const int64_t d = parameters.at("time_d"), draws = parameters.at("time_R"),
                waves = parameters.at("time_waves"),
                taps = parameters.at("time_taps");
  Params params;
  params.Set("feature_map", std::string("elu1"));
  std::vector<GivenTensor> tensors = {Normal(run, "q", {n, d}),
                                      Normal(run, "k", {n, d}),
                                      Normal(run, "v", {n, d})};
  if (method.name != "none") params.Set("attention", std::string("linear"));
  if (method.name == "fastrpb_linear")
    tensors.push_back(Normal(run, "weights", {2 * n - 1}));
  if (method.name == "sine_spe") {
    params.Set("kind", std::string("sine"));
    for (const char* name : {"freqs", "phases", "gains"})
      tensors.push_back(Normal(run, name, {d, waves}));
    tensors.push_back(Normal(run, "z", {d, 2 * waves, draws}));
  } else if (method.name == "conv_spe") {
    params.Set("kind", std::string("conv"));
    for (const char* name : {"filters_q", "filters_k"})
      tensors.push_back(Normal(run, name, {d, taps}));
    tensors.push_back(Normal(run, "z", {d, n + taps - 1, draws}));
  }
  return std::make_unique<Trial>(MakeTrial(
      FindOperator(method.op), params, Scalar::kFloat32, tensors, run.seed()));
}

// The fastest algorithm of one method among `runs`.
void AddFastest(StudyTable& times, const Method& method, int64_t n,
                const Trial& trial, const std::vector<TimedRun>& runs) {
  const TimedRun* best = nullptr;
  for (const TimedRun& run : runs)
    if (run.trial == &trial && std::isfinite(run.seconds.median) &&
        (!best || run.seconds.median < best->seconds.median))
      best = &run;
  if (!best) {
    times.Add({method.name, method.op, "none that passes", n, Json(), Json(),
               Json(), Json()});
    return;
  }
  times.Add({method.name, method.op, best->implementation->id, n,
             best->implementation->CostOf(trial.problem(), 1).workspace_bytes,
             best->seconds.median, best->seconds.interval.low,
             best->seconds.interval.high});
}

// The fastest algorithm of every method, float32, one thread.
StudyTable MatrixProduct(StudyRun& run, const Json& parameters) {
  StudyTable times{
      "time",
      {{"method", "name", "relative positions of linear attention"},
       {"operator", "name", "operator"},
       {"implementation", "name", "its fastest algorithm, float32"},
       {"n", "tokens", "queries and keys"},
       {"workspace", "bytes", "beyond inputs and output, by its formula"},
       {"seconds", "s", "median of a run on one thread, noise given"},
       {"low", "s", "95 % interval of the median"},
       {"high", "s", "95 % interval of the median"}},
      {}};
  times.repeatable = false;
  const auto sizes = parameters.at("time_n").get<std::vector<int64_t>>();
  run.InTurn(static_cast<int64_t>(sizes.size()), [&](int64_t index) {
    const int64_t n = sizes[static_cast<size_t>(index)];
    std::vector<std::unique_ptr<Trial>> trials;
    std::vector<TimedRun> runs;
    for (const Method& method : kMethods) {
      trials.push_back(TrialOf(run, parameters, method, n));
      for (const Implementation* one :
           CpuImplementations(trials.back()->problem()))
        if (one->time.order != "n^2")
          runs.push_back({one, trials.back().get(), {}, {}});
    }
    TimeInTurns(runs, 1, parameters.at("budget_seconds"));
    for (size_t m = 0; m < std::size(kMethods); ++m)
      AddFastest(times, kMethods[m], n, *trials[m], runs);
  });
  return times;
}

Positions DrawPositions(const StudyRun& run, const Json& parameters) {
  Positions one;
  one.n = parameters.at("n");
  one.d = parameters.at("d");
  one.waves = parameters.at("waves");
  one.taps = parameters.at("taps");
  const Draws uniform = run.DrawsOf("uniform");
  for (int64_t t = 0; t < one.d * one.waves; ++t) {
    const auto at = static_cast<uint64_t>(t);
    one.freqs.push_back(0.25 * uniform.Uniform(3 * at));
    one.phases.push_back(2 * kPi * uniform.Uniform(3 * at + 1));
    one.gains.push_back((0.5 + uniform.Uniform(3 * at + 2)) /
                        std::sqrt(static_cast<double>(one.waves)));
  }
  one.filters_q = SampleNormal(run.DrawsOf("filters_q"), 0, one.d * one.taps);
  one.filters_k = SampleNormal(run.DrawsOf("filters_k"), 0, one.d * one.taps);
  return one;
}

// Scores by the covariance [n, n], and the sum of their squares.
struct Scores {
  std::vector<double> q, k;  // [n, d]
  std::vector<double> expected;
  double size = 0;
};

Scores ScoresOf(const StudyRun& run, const Positions& one,
                const std::string& kind) {
  Scores scores;
  scores.q = SampleNormal(run.DrawsOf("q"), 0, one.n * one.d);
  scores.k = SampleNormal(run.DrawsOf("k"), 0, one.n * one.d);
  for (int64_t i = 0; i < one.n; ++i)
    for (int64_t j = 0; j < one.n; ++j) {
      double score = 0;
      for (int64_t a = 0; a < one.d; ++a)
        score += scores.q[static_cast<size_t>(i * one.d + a)] *
                 Covariance(one, kind, a, i, j) *
                 scores.k[static_cast<size_t>(j * one.d + a)];
      scores.expected.push_back(score);
      scores.size += score * score;
    }
  return scores;
}

// Adds the scores of one draw of noise to `sum`; `stream` is the draw's place
// among all draws.
void AddDraw(const Positions& one, const std::string& kind,
             const Scores& scores, const Draws& noise, int64_t stream,
             std::vector<double>& sum) {
  const auto n = static_cast<size_t>(one.n);
  const int64_t width = kind == "sine" ? 2 * one.waves : one.n + one.taps - 1;
  std::vector<double> sum_q(n), sum_k(n), for_q(n), for_k(n);
  for (int64_t a = 0; a < one.d; ++a) {
    Encode(one, kind, a, SampleNormal(noise, stream * one.d + a, width),
           for_q.data(), for_k.data());
    for (size_t i = 0; i < n; ++i) {
      const size_t at = i * static_cast<size_t>(one.d) + static_cast<size_t>(a);
      sum_q[i] += scores.q[at] * for_q[i];
      sum_k[i] += scores.k[at] * for_k[i];
    }
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) sum[i * n + j] += sum_q[i] * sum_k[j];
}

// Root mean square error of the scores over their size, by repeat and R.
Grid ErrorsOf(StudyRun& run, const Json& parameters, const Positions& one,
              const std::string& kind) {
  const int64_t repeats = parameters.at("repeats");
  const auto counts = parameters.at("R").get<std::vector<int64_t>>();
  const Scores scores = ScoresOf(run, one, kind);
  const Draws noise = run.DrawsOf("noise/" + kind);
  Grid errors({{"repeat", static_cast<size_t>(repeats)}, {"R", counts.size()}});
  run.For(repeats, [&](int64_t repeat) {
    std::vector<double> sum(scores.expected.size());
    int64_t draw = 0;
    for (size_t c = 0; c < counts.size(); ++c) {
      for (; draw < counts[c]; ++draw)
        AddDraw(one, kind, scores, noise, repeat * counts.back() + draw, sum);
      double square = 0;
      for (size_t t = 0; t < sum.size(); ++t) {
        const double off =
            sum[t] / static_cast<double>(counts[c]) - scores.expected[t];
        square += off * off;
      }
      errors(repeat, c) = std::sqrt(square / scores.size);
    }
  });
  return errors;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTable table{
      "error",
      {{"kind", "name", "of positional encoding"},
       {"R", "1", "draws"},
       {"repeats", "1", "independent sets of draws"},
       {"median", "1",
        "median over the repeats of the root mean square error of the scores "
        "over that of the scores"},
       {"low", "1", "95 % interval of the median"},
       {"high", "1", "95 % interval of the median"}},
      {}};
  StudyTable slopes{"slope",
                    {{"kind", "name", "of positional encoding"},
                     {"slope", "1", "p in error ~ R^p"},
                     {"low", "1", "95 % interval"},
                     {"high", "1", "95 % interval"}},
                    {}};
  const Positions positions = DrawPositions(run, parameters);
  const auto counts = parameters.at("R").get<std::vector<int64_t>>();
  for (const std::string kind : {"sine", "conv"}) {
    const Grid errors = ErrorsOf(run, parameters, positions, kind);
    std::vector<double> xs, medians, lows, highs;
    for (size_t c = 0; c < counts.size(); ++c) {
      std::vector<double> samples;
      for (size_t repeat = 0; repeat < errors.Size(0); ++repeat)
        samples.push_back(errors(repeat, c));
      const Median median = MedianWithInterval(samples);
      table.Add({kind, counts[c], samples.size(), median.median,
                 median.interval.low, median.interval.high});
      xs.push_back(static_cast<double>(counts[c]));
      medians.push_back(median.median);
      lows.push_back(median.interval.low);
      highs.push_back(median.interval.high);
    }
    const auto fit = FitExponent(xs, medians, lows, highs);
    if (fit)
      slopes.Add({kind, fit->exponent, fit->interval.low, fit->interval.high});
  }
  return {table, slopes, MatrixProduct(run, parameters)};
}

StudyVerdict JudgeTimes(const StudyTables& tables) {
  StudyVerdict verdict{
      "frpb-table3-time",
      "linear attention with FastRPB takes up to 3 times less time than with "
      "sine SPE and up to 30 times less than with conv SPE"};
  verdict.repeatable = false;
  const StudyTable& times = FindTable(tables, "time");
  const auto seconds = [&](const std::string& method, double n) {
    for (size_t r = 0; r < times.rows.size(); ++r)
      if (times.Text(r, "method") == method && times.Number(r, "n") == n)
        return times.Number(r, "seconds");
    return std::nan("");
  };
  // Largest and smallest time over FastRPB's.
  double most[2] = {0, 0}, least[2] = {HUGE_VAL, HUGE_VAL};
  const std::string kinds[2] = {"sine_spe", "conv_spe"};
  for (size_t r = 0; r < times.rows.size(); ++r) {
    const double n = times.Number(r, "n");
    for (int k = 0; k < 2; ++k) {
      const double ratio = seconds(kinds[k], n) / seconds("fastrpb_linear", n);
      most[k] = Worst(most[k], ratio);
      least[k] = Least(least[k], ratio);
    }
  }
  const auto as_claimed = [](double largest, double said) {
    return UpTo({largest, {largest, largest}, ""}, said) == Holds::kYes;
  };
  const bool faster = !times.rows.empty() && least[0] > 1 && least[1] > 1;
  verdict.outcome = Decide(faster && as_claimed(most[0], table::kSaidSine) &&
                               as_claimed(most[1], table::kSaidConv),
                           faster);
  verdict.numbers = fmt::format(
      "{:.3g} to {:.3g} times less than sine, {:.3g} to {:.3g} times less than "
      "conv SPE, on one CPU thread and with the noise given (table 3: up to "
      "{:.1f} and {:.1f})",
      least[0], most[0], least[1], most[1], table::kSine, table::kConv);
  return verdict;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& slopes = FindTable(tables, "slope");
  StudyVerdict verdict{"spe-convergence",
                       "scores of sine and conv SPE approach those of their "
                       "covariance like R^(-1/2)"};
  verdict.ours = true;
  bool all = slopes.rows.size() == 2;
  for (size_t r = 0; r < slopes.rows.size(); ++r) {
    const double slope = slopes.Number(r, "slope");
    all = all && std::abs(slope - kSlope) <= kLargestDifference;
    verdict.numbers +=
        fmt::format("{}{}: slope {:.3f}, interval {:.3f} to {:.3f}",
                    verdict.numbers.empty() ? "" : "; ", slopes.Text(r, "kind"),
                    slope, slopes.Number(r, "low"), slopes.Number(r, "high"));
  }
  const StudyTable& table = FindTable(tables, "error");
  const size_t last = table.rows.size() - 1;
  verdict.numbers += fmt::format(
      " (within {:g} of -1/2); at R = {:g} the error "
      "of conv is still {:.2g} of the scores",
      kLargestDifference, table.Number(last, "R"),
      table.Number(last, "median"));
  verdict.outcome = Decide(all);
  return {verdict, JudgeTimes(tables)};
}

}  // namespace

Finding SpeCovariances(const Evidence& evidence) {
  Finding finding(evidence);
  // One wave of period 8, and filters of 5 taps.
  const Positions one{64,
                      1,
                      1,
                      5,
                      {0.125},
                      {0.3},
                      {1},
                      NormalNumbers(5, 1),
                      NormalNumbers(5, 2)};
  double repeats = 0, beyond = 0, within = 0, within_period = 0;
  for (int64_t i = 16; i < 48; ++i) {
    const double at = Covariance(one, "sine", 0, 16, i);
    repeats =
        Worst(repeats, std::abs(Covariance(one, "sine", 0, 16, i + 8) - at));
    within_period = Worst(within_period,
                          std::abs(Covariance(one, "sine", 0, 16, i + 3) - at));
    const double conv = std::abs(Covariance(one, "conv", 0, 16, i));
    (i - 16 < 5 ? within : beyond) = Worst(i - 16 < 5 ? within : beyond, conv);
  }
  const Measured period = finding.Measure("change after a period", repeats),
                 other =
                     finding.Measure("change after 3 tokens", within_period),
                 gone = finding.Measure("largest beyond the filters", beyond),
                 there = finding.Measure("largest within them", within);
  finding.Add(period <= 1e-12 && other > 0.1,
              fmt::format("the covariance of one wave of period 8 repeats "
                          "within {} (after 3 tokens it has changed by {})",
                          period, other));
  finding.Add(gone == 0 && there > 0.1,
              fmt::format("that of filters of 5 taps is {} beyond 4 tokens and "
                          "up to {} within",
                          gone, there));
  return finding;
}

Study SpeConvergenceStudy() {
  Study study;
  study.name = "spe_convergence";
  study.purpose =
      "Error of stochastic positional encodings relative to their exact "
      "covariance as the number of draws grows, and their time compared with "
      "that of FastRPB.";
  study.source = "FastRPB eq. 8 and table 3; Liutkus et al. 2021";
  study.parameters = {{"n", 64},
                      {"d", 8},
                      {"waves", 5},
                      {"taps", 16},
                      {"repeats", 24},
                      {"R", {16, 32, 64, 128, 256, 512, 1024, 2048}},
                      {"time_n", {512, 1024, 2048, 4096, 8192}},
                      {"time_d", 64},
                      {"time_R", 64},
                      {"time_waves", 10},
                      {"time_taps", 128},
                      {"budget_seconds", 1.0}};
  study.tiny = {{"n", 16},         {"repeats", 12},  {"R", {16, 64, 256}},
                {"time_n", {64}},  {"time_d", 8},    {"time_R", 16},
                {"time_waves", 2}, {"time_taps", 8}, {"budget_seconds", 0.02}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
