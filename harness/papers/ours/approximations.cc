// What an approximation of softmax attention costs and how near it comes: every
// one that this project has, at several settings, on heads of trained models
// and on generated ones, against exact attention and against baselines that
// need no queries or no keys. Error and time of the same programs on the same
// tensors: which one should I use?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/papers/frame/attention_heads.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/frame/timed_run.h"
#include "harness/papers/ours/approximation_settings.h"
#include "harness/papers/ours/ours.h"

namespace subquad {
namespace {

constexpr const char* kExact = "exact";

// Heads that are reported together: of one model, or generated in one way.
struct Input {
  std::string name;
  bool real = false;
  std::vector<PlainHead> heads;
};

PlainHead Generated(const StudyRun& run, int64_t index, int64_t n, int64_t d) {
  PlainHead head{n, d, d, 1 / std::sqrt(static_cast<double>(d)), {}, {}, {}};
  const auto draw = [&](const char* name) {
    return SampleNormal(run.DrawsOf(name), index, n * d);
  };
  head.q = draw("q");
  head.k = draw("k");
  head.v = draw("v");
  return head;
}

std::vector<Input> MakeInputs(const StudyRun& run, const Json& parameters) {
  auto folders = parameters.at("input").get<std::vector<std::string>>();
  if (folders.empty()) folders = FoldersInTree();
  std::vector<Input> inputs;
  const AttentionHeads all =
      HeadsOf(folders, parameters.at("heads").get<int64_t>());
  for (const AttentionHead& one : all.heads) {
    if (one.values.empty()) continue;
    if (inputs.empty() || inputs.back().name != one.model)
      inputs.push_back({one.model, one.real, {}});
    inputs.back().heads.push_back(
        {one.n, one.d, static_cast<int64_t>(one.values.size()) / one.n,
         one.scale, one.queries, one.keys, one.values});
  }
  Input normal{"normal", false, {}};
  for (int64_t index = 0; index < parameters.at("generated").get<int64_t>();
       ++index)
    normal.heads.push_back(Generated(run, index,
                                     parameters.at("n").get<int64_t>(),
                                     parameters.at("d").get<int64_t>()));
  inputs.push_back(normal);
  return inputs;
}

// |x - exact| / |exact|, in the 2-norm over a whole head.
double RelativeError(const Numbers& x, const Numbers& exact) {
  double off = 0, all = 0;
  for (size_t at = 0; at < exact.size(); ++at) {
    off += (x[at] - exact[at]) * (x[at] - exact[at]);
    all += exact[at] * exact[at];
  }
  return x.size() == exact.size() ? std::sqrt(off / all) : std::nan("");
}

// Over the heads of an input: by method and level.
struct Measured {
  std::string method, what, op, program;
  int64_t level = 0;
  std::vector<double> errors, seconds;
};

StudyTable InputTable() {
  return {"inputs",
          {{"input", "name", "model, or how it is generated"},
           {"real", "1", "whether it is of a trained model"},
           {"heads", "1", "heads"},
           {"n", "tokens", "queries and keys"},
           {"d", "1", "width of queries and keys"}},
          {}};
}
StudyTable ErrorTable() {
  return {"error",
          {{"input", "name", "model, or how it is generated"},
           {"method", "name", "the approximation"},
           {"level", "1", "its setting"},
           {"what", "name", "what that counts"},
           {"error", "1", "|out - exact| / |exact|, median over heads"},
           {"low", "1", "smallest of a head"},
           {"high", "1", "largest of a head"}},
          {}};
}
StudyTable TimeTable() {
  StudyTable table{
      "time",
      {{"input", "name", "model, or how it is generated"},
       {"method", "name", "the approximation"},
       {"level", "1", "its setting"},
       {"operator", "name", "operator"},
       {"implementation", "name", "program, float32"},
       {"seconds", "s", "of a head on one thread, median over heads"},
       {"low", "s", "fastest head"},
       {"high", "s", "slowest head"},
       {"speedup", "1", "exact tiled attention's seconds over these"}},
      {}};
  table.repeatable = false;
  return table;
}

// Measures all settings on one head, alternately.
void MeasureHead(const PlainHead& head, uint64_t seed, double budget,
                 std::vector<Measured>& all) {
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<TimedRun> runs;
  const auto add = [&](const Approximation& one) {
    trials.push_back(std::make_unique<Trial>(one.MakeTrial()));
    runs.push_back({&one.Find(), trials.back().get(), {}, {}});
  };
  add(ExactAttention(head));
  const std::vector<ApproximationSetting> settings =
      ApproximationSettings(head.n);
  for (const ApproximationSetting& setting : settings)
    add(setting.make(head, seed));
  // Nothing is verified here: tokens between two clusters have no right answer,
  // and a time.
  TimeInTurns(runs, 1, budget, Verified::kNo);
  const Numbers exact = RunOnce(*runs[0].implementation, *trials[0], 1);
  if (all.empty()) {
    all.resize(runs.size());
    all[0].method = kExact;
    for (size_t s = 0; s < settings.size(); ++s) {
      all[s + 1].method = settings[s].method;
      all[s + 1].what = settings[s].what;
      all[s + 1].level = settings[s].level;
    }
  }
  for (size_t r = 0; r < runs.size(); ++r) {
    all[r].op = runs[r].implementation->op;
    all[r].program = runs[r].implementation->id;
    all[r].seconds.push_back(runs[r].seconds.median);
    all[r].errors.push_back(
        r == 0 ? 0
               : RelativeError(RunOnce(*runs[r].implementation, *trials[r], 1),
                               exact));
  }
  size_t at = runs.size();
  for (const NullBaseline& baseline : NullBaselines()) {
    if (at == all.size()) all.push_back({baseline.name, "", "", "", 0, {}, {}});
    all[at++].errors.push_back(RelativeError(baseline.output(head), exact));
  }
}

Json OrNull(double number) {
  return std::isfinite(number) ? Json(number) : Json();
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTable inputs = InputTable(), errors = ErrorTable(), times = TimeTable();
  for (const Input& input : MakeInputs(run, parameters)) {
    std::vector<Measured> all;
    run.InTurn(static_cast<int64_t>(input.heads.size()), [&](int64_t index) {
      MeasureHead(input.heads[static_cast<size_t>(index)],
                  run.seed() + static_cast<uint64_t>(index),
                  parameters.at("budget_seconds").get<double>(), all);
    });
    const PlainHead& head = input.heads.front();
    inputs.Add({input.name, input.real,
                static_cast<int64_t>(input.heads.size()), head.n, head.d});
    for (const Measured& one : all) {
      if (one.method != kExact)
        errors.Add({input.name, one.method, one.level, one.what,
                    OrNull(Quantile(one.errors, 0.5)),
                    OrNull(*std::ranges::min_element(one.errors)),
                    OrNull(*std::ranges::max_element(one.errors))});
      if (one.seconds.empty()) continue;
      const double seconds = Quantile(one.seconds, 0.5);
      times.Add({input.name, one.method, one.level, one.op, one.program,
                 seconds, *std::ranges::min_element(one.seconds),
                 *std::ranges::max_element(one.seconds),
                 Quantile(all[0].seconds, 0.5) / seconds});
    }
  }
  return {inputs, errors, times};
}

// The smallest error of each method's settings that pass, and of the baselines.
std::map<std::string, double> Nearest(
    const StudyTable& errors, const std::string& input,
    const std::function<bool(const std::string&, double)>& passes) {
  std::map<std::string, double> nearest;
  for (size_t r = 0; r < errors.rows.size(); ++r) {
    const std::string method = errors.Text(r, "method");
    if (errors.Text(r, "input") != input ||
        !passes(method, errors.Number(r, "level")))
      continue;
    const double error = errors.Number(r, "error");
    const auto [entry, is_new] = nearest.try_emplace(method, error);
    if (!is_new) entry->second = Least(entry->second, error);
  }
  return nearest;
}

bool IsBaseline(const std::string& method) {
  return std::ranges::any_of(NullBaselines(), [&](const NullBaseline& one) {
    return one.name == method;
  });
}

// The baseline with the weights 1 + q k, the negative ones left out.
constexpr const char* kTaylor = "Taylor";
constexpr const char* kLandmarks = "landmarks";
// A third of the time of exact attention, and other shares, as the nearest
// method should not depend on the one that somebody chose.
constexpr double kSpeedup = 3, kOtherSpeedups[] = {2, 2.5, 4, 5};

// Whether more than half of the methods are farther than these weights at every
// setting; says which are not.
bool MostLoseToTaylor(const StudyTable& errors, const std::string& input,
                      std::string& numbers) {
  auto nearest =
      Nearest(errors, input, [](const std::string&, double) { return true; });
  const double taylor =
      nearest.contains(kTaylor) ? nearest[kTaylor] : std::nan("");
  int farther = 0, methods = 0;
  std::string nearer;
  for (const auto& [method, error] : nearest) {
    if (IsBaseline(method)) continue;
    ++methods;
    if (error > taylor)
      ++farther;
    else
      nearer +=
          fmt::format("{}{} {:.2g}", nearer.empty() ? "" : ", ", method, error);
  }
  numbers += fmt::format(
      "{}{}: 1 + q k without negative weights {:.2g}, nearer at some setting "
      "{}",
      numbers.empty() ? "" : "; ", input, taylor,
      nearer.empty() ? std::string("none") : nearer);
  return 2 * farther > methods;
}

// The two nearest methods of those that are `least` times as fast as exact
// attention or faster; empty where there are none, or an error is missing.
std::vector<std::pair<double, std::string>> NearestTwo(const StudyTable& errors,
                                                       const StudyTable& times,
                                                       const std::string& input,
                                                       double least) {
  const auto nearest =
      Nearest(errors, input, [&](const std::string& method, double level) {
        for (size_t r = 0; r < times.rows.size(); ++r)
          if (times.Text(r, "input") == input &&
              times.Text(r, "method") == method &&
              times.Number(r, "level") == level)
            return times.Number(r, "speedup") >= least;
        return false;
      });
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [method, error] : nearest) {
    if (std::isnan(error)) return {};
    sorted.emplace_back(error, method);
  }
  std::ranges::sort(sorted);
  sorted.resize(std::min<size_t>(sorted.size(), 2));
  return sorted;
}

// Whether landmarks are the nearest of what takes at most a third of the time;
// says with which other shares of it they are not.
bool LandmarksWin(const StudyTable& errors, const StudyTable& times,
                  const std::string& input, double heads,
                  std::string& numbers) {
  const auto two = NearestTwo(errors, times, input, kSpeedup);
  numbers += fmt::format("{}{} ({:g} heads): ", numbers.empty() ? "" : "; ",
                         input, heads);
  if (two.empty()) {
    numbers += "none is as fast";
    return false;
  }
  numbers += fmt::format("{} {:.2g}", two[0].second, two[0].first);
  if (two.size() > 1)
    numbers += fmt::format(", then {} {:.2g}", two[1].second, two[1].first);
  for (const double speedup : kOtherSpeedups) {
    const auto others = NearestTwo(errors, times, input, speedup);
    if (!others.empty() && others[0].second != kLandmarks)
      numbers += fmt::format(", at 1/{:g} of the time {} {:.2g}", speedup,
                             others[0].second, others[0].first);
  }
  return two[0].second == kLandmarks;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable &inputs = FindTable(tables, "inputs"),
                   &errors = FindTable(tables, "error"),
                   &times = FindTable(tables, "time");
  StudyVerdict nulls{"approximations-taylor",
                     "on heads of trained models most approximations are, at "
                     "every setting tried, farther from attention than "
                     "the weights 1 + q k without the negative ones, which "
                     "cost as much as exact attention"},
      fast{"approximations-landmarks",
           "of what takes at most a third of the time of exact attention, "
           "landmarks are the nearest to it on heads of trained models; with "
           "another share of the time it may be another method"};
  nulls.ours = fast.ours = true;
  fast.repeatable = false;
  bool any = false, lose = true, win = true;
  for (size_t i = 0; i < inputs.rows.size(); ++i) {
    if (!inputs.Flag(i, "real")) continue;
    any = true;
    const std::string input = inputs.Text(i, "input");
    lose = MostLoseToTaylor(errors, input, nulls.numbers) && lose;
    win = LandmarksWin(errors, times, input, inputs.Number(i, "heads"),
                       fast.numbers) &&
          win;
  }
  if (!any) nulls.numbers = fast.numbers = "no heads of trained models";
  nulls.outcome = Decide(any && lose);
  fast.outcome = Decide(any && win);
  return {nulls, fast};
}

}  // namespace

Study ApproximationsStudy() {
  Study study;
  study.name = "approximations";
  study.purpose =
      "Error and time of every approximation of softmax attention, on heads of "
      "trained models and on random heads, compared with exact attention and "
      "with null baselines.";
  study.source = "Transformers II, NPRF table 1";
  study.parameters = {{"input", Json::array()},
                      {"heads", 12},
                      {"generated", 2},
                      {"n", 2048},
                      {"d", 64},
                      {"budget_seconds", 0.05}};
  study.tiny = {
      {"heads", 2}, {"generated", 1}, {"n", 256}, {"budget_seconds", 0.002}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
