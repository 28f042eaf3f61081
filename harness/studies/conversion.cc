// NPRF figure 2 without a translation model: the attention rows of a softmax
// attention against those of its kernelized form, with the same queries and
// keys and nothing trained again. Standard attention takes scale 1/sqrt(d) (or
// the case's own), normalised attention rows of length 1 and scale 1. That is
// another attention, and a flat one: how much its largest weights stand out
// is told beside the errors.
//
// Queries and keys come from the case folders in reports/inputs/ where there
// are any with tensors q and k, and are made up otherwise: every query is a
// mixture of the key before it and of noise, heads from indifferent to sharp.
// Heads without a bias of their own get one that is made up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "harness/case_folder.h"
#include "harness/studies/random_features.h"
#include "harness/studies/studies.h"

namespace subquad {
namespace {

struct Head {
  std::string name;
  int64_t n = 0, d = 0;
  double scale = 0;
  bool causal = false, own_bias = false;
  std::vector<double> queries, keys;  // [n, d]
  std::vector<double> bias;           // [2n-1]
};

// A row is converted with little loss when |A - A^|_1, which is at most 2 for
// positive weights, is a tenth of that.
constexpr double kLittle = 0.2;

std::vector<double> MadeUpBias(const Draws& draws, int64_t n, uint64_t first) {
  std::vector<double> bias(static_cast<size_t>(2 * n - 1));
  for (int64_t t = 0; t < 2 * n - 1; ++t)
    bias[static_cast<size_t>(t)] =
        0.5 * draws.Normal(first + static_cast<uint64_t>(t)) -
        static_cast<double>(std::abs(t - n + 1)) / 16;
  return bias;
}

// The heads of the case folders given, or of all in reports/inputs/; folders
// without q and k of one length have none.
std::vector<Head> RealHeads(StudyRun& run, const Json& parameters) {
  namespace fs = std::filesystem;
  const int64_t most = parameters.at("most_heads");
  std::vector<fs::path> folders;
  for (const Json& given : parameters.at("input"))
    folders.emplace_back(given.get<std::string>());
  const fs::path inputs = fs::path(SUBQUAD_SOURCE_DIR) / "reports/inputs";
  if (folders.empty() && fs::is_directory(inputs)) {
    for (const auto& entry : fs::directory_iterator(inputs))
      if (fs::exists(entry.path() / "case.json"))
        folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
  }
  std::vector<Head> heads;
  for (const fs::path& path : folders) {
    const CaseFolder folder = ReadCaseFolder(path);
    const Problem& problem = folder.problem;
    if (!problem.HasInput("q") || !problem.HasInput("k")) continue;
    if (problem.Dim("n_q") != problem.Dim("n_k")) continue;
    for (int64_t h = 0; h < problem.heads; ++h) {
      if (static_cast<int64_t>(heads.size()) >= most) return heads;
      Head head;
      head.name = folder.name + "/" + std::to_string(h);
      head.n = problem.Dim("n_q");
      head.d = problem.Dim("d");
      head.scale = problem.params.Has("scale")
                       ? problem.params.Number("scale")
                       : 1 / std::sqrt(static_cast<double>(head.d));
      head.causal =
          problem.params.Has("causal") && problem.params.Flag("causal");
      const double* q = folder.inputs["q"].Head(h);
      const double* k = folder.inputs["k"].Head(h);
      head.queries.assign(q, q + head.n * head.d);
      head.keys.assign(k, k + head.n * head.d);
      head.own_bias =
          problem.HasInput("bias") &&
          problem.InputShape(static_cast<size_t>(problem.InputIndex("bias")))
                  .back() == 2 * head.n - 1;
      if (head.own_bias) {
        const double* bias = folder.inputs["bias"].Head(h);
        head.bias.assign(bias, bias + 2 * head.n - 1);
      } else {
        head.bias = MadeUpBias(run.DrawsOf("bias"), head.n, heads.size() << 32);
      }
      heads.push_back(std::move(head));
    }
  }
  return heads;
}

std::vector<Head> MadeUpHeads(StudyRun& run, const Json& parameters) {
  const int64_t n = parameters.at("n"), d = parameters.at("d");
  std::vector<Head> heads;
  for (double sharpness :
       parameters.at("sharpness").get<std::vector<double>>()) {
    const auto index = static_cast<int64_t>(heads.size());
    Head head;
    head.name = fmt::format("made up, sharpness {:g}", sharpness);
    head.n = n;
    head.d = d;
    head.scale = 1 / std::sqrt(static_cast<double>(d));
    head.keys = SampleNormal(run.DrawsOf("keys"), index, n * d);
    head.queries = SampleNormal(run.DrawsOf("queries"), index, n * d);
    for (int64_t i = 1; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) {
        const auto at = static_cast<size_t>(i * d + c);
        head.queries[at] =
            head.queries[at] * std::sqrt(1 - sharpness * sharpness) +
            sharpness * head.keys[at - static_cast<size_t>(d)];
      }
    head.bias = MadeUpBias(run.DrawsOf("bias"), n, heads.size() << 32);
    heads.push_back(std::move(head));
  }
  return heads;
}

// elu(x) + 1 has no randomness and no choice of f.
double EluError(const double* query, const std::vector<double>& keys, int64_t n,
                int64_t d, double scale, const double* bias) {
  const auto elu1 = [&](double x) {
    x *= std::sqrt(scale);
    return x > 0 ? x + 1 : std::exp(x);
  };
  std::vector<double> exact(static_cast<size_t>(n)), estimate(exact);
  double largest = -HUGE_VAL, exact_sum = 0, sum = 0, error = 0;
  for (int64_t j = 0; j < n; ++j) {
    double dot = 0, features = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double key = keys[static_cast<size_t>(j * d + c)];
      dot += query[c] * key;
      features += elu1(query[c]) * elu1(key);
    }
    const auto at = static_cast<size_t>(j);
    exact[at] = scale * dot + (bias ? bias[j] : 0);
    estimate[at] = features * (bias ? std::exp(bias[j]) : 1);
    largest = std::max(largest, exact[at]);
    sum += estimate[at];
  }
  for (double& value : exact) exact_sum += value = std::exp(value - largest);
  for (size_t j = 0; j < exact.size(); ++j)
    error += std::abs(exact[j] / exact_sum - estimate[j] / sum);
  return error;
}

// Largest weight of a row over the mean one: 1 for indifferent attention.
double Peak(const double* query, const std::vector<double>& keys, int64_t n,
            int64_t d, double scale) {
  double largest = -HUGE_VAL, sum = 0;
  std::vector<double> logits;
  for (int64_t j = 0; j < n; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < d; ++c)
      dot += query[c] * keys[static_cast<size_t>(j * d + c)];
    logits.push_back(scale * dot);
    largest = std::max(largest, logits.back());
  }
  for (double logit : logits) sum += std::exp(logit - largest);
  return static_cast<double>(n) / sum;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t draws = parameters.at("draws");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  std::vector<Head> heads = RealHeads(run, parameters);
  const bool real = !heads.empty();
  if (!real) heads = MadeUpHeads(run, parameters);
  std::vector<const RandomMapKind*> kinds;
  for (const RandomMapKind& kind : RandomMapKinds())
    if (kind.name == "prf" || kind.name == "orf" || kind.name == "trf")
      kinds.push_back(&kind);
  const size_t settings = 4;  // normalised * 2 + rpe
  struct Result {
    // [setting][kind; elu1 last][f]: mean over rows
    std::vector<std::vector<std::vector<double>>> errors;
    double peak[2] = {0, 0};  // standard, normalised
  };
  std::vector<Result> results(heads.size() * static_cast<size_t>(draws));
  run.For(static_cast<int64_t>(results.size()), [&](int64_t index) {
    const Head& head = heads[static_cast<size_t>(index / draws)];
    const int64_t n = head.n, d = head.d;
    const int64_t used = std::min(parameters.at("rows").get<int64_t>(), n);
    const double share = 1 / static_cast<double>(used);
    const auto position = [&](int64_t r) {
      return (2 * r + 1) * n / (2 * used);
    };
    Result& one = results[static_cast<size_t>(index)];
    one.errors.assign(
        settings, std::vector<std::vector<double>>(
                      kinds.size() + 1, std::vector<double>(features.size())));
    for (const bool normalised : {false, true}) {
      std::vector<double> keys = head.keys, queries;
      for (int64_t r = 0; r < used; ++r)
        queries.insert(queries.end(), head.queries.begin() + position(r) * d,
                       head.queries.begin() + (position(r) + 1) * d);
      if (normalised) {
        NormalizeRows(queries, d);
        NormalizeRows(keys, d);
      }
      const double scale = normalised ? 1 : head.scale;
      const auto each = [&](const auto& work) {
        for (const bool rpe : {false, true})
          for (int64_t r = 0; r < used; ++r) {
            const int64_t i = position(r);
            work(one.errors[static_cast<size_t>(normalised * 2 + rpe)], r,
                 head.causal ? i + 1 : n,
                 rpe ? head.bias.data() + n - 1 - i : nullptr);  // by key
          }
      };
      for (size_t k = 0; k < kinds.size(); ++k) {
        std::vector<int64_t> counts;
        for (int64_t f : features) counts.push_back(f / kinds[k]->per_row());
        const std::vector<double> omega = SampleOmega(
            kinds[k]->sampler, run.DrawsOf("omega"), index, counts.back(), d);
        const Projections seen = Project(queries, keys, omega, d);
        each([&](auto& errors, int64_t r, int64_t count, const double* bias) {
          const std::vector<double> found = AttentionErrors(
              kinds[k]->map, seen, r, count, std::sqrt(scale), bias, counts);
          for (size_t f = 0; f < found.size(); ++f)
            errors[k][f] += found[f] * share;
        });
      }
      each([&](auto& errors, int64_t r, int64_t count, const double* bias) {
        const double elu =
            EluError(queries.data() + r * d, keys, count, d, scale, bias);
        for (double& value : errors.back()) value += elu * share;
        if (!bias)
          one.peak[normalised] +=
              share * Peak(queries.data() + r * d, keys, count, d, scale);
      });
    }
  });
  StudyTable sources{
      "heads",
      {{"head", "name", "where its queries and keys come from"},
       {"real", "flag", "from a trained model"},
       {"own_bias", "flag", "its bias by offset is the model's own"},
       {"causal", "flag", "it sees no future"},
       {"n", "tokens", "of it"},
       {"d", "1", "width"},
       {"norm", "1", "mean length of queries and keys, scale in"},
       {"peak_standard", "1",
        "largest weight of a row over the mean one, mean over rows"},
       {"peak_normalised", "1", "the same of normalised attention"}},
      {}};
  for (size_t h = 0; h < heads.size(); ++h) {
    const Head& head = heads[h];
    double sum = 0;
    for (const auto* rows_of : {&head.queries, &head.keys})
      for (int64_t i = 0; i < head.n; ++i) {
        double square = 0;
        for (int64_t c = 0; c < head.d; ++c)
          square +=
              std::pow((*rows_of)[static_cast<size_t>(i * head.d + c)], 2);
        sum += std::sqrt(square * head.scale);
      }
    const Result& first = results[h * static_cast<size_t>(draws)];
    sources.Add({head.name, real, head.own_bias, head.causal, head.n, head.d,
                 sum / static_cast<double>(2 * head.n), first.peak[0],
                 first.peak[1]});
  }
  StudyTable table{
      "error",
      {{"normalised", "flag", "rows of length 1, scale 1"},
       {"rpe", "flag", "a bias by offset is added"},
       {"map", "name", "feature map"},
       {"f", "1", "features; elu1 has always d"},
       {"median", "1", "over heads and draws of the mean |A - A^|_1 of a row"},
       {"low", "1", "a tenth of heads and draws lies below"},
       {"high", "1", "a tenth of heads and draws lies above"}},
      {}};
  for (size_t setting = 0; setting < settings; ++setting)
    for (size_t k = 0; k <= kinds.size(); ++k)
      for (size_t f = 0; f < features.size(); ++f) {
        std::vector<double> samples;
        for (const Result& one : results)
          samples.push_back(one.errors[setting][k][f]);
        table.Add({setting >= 2, setting % 2 == 1,
                   k < kinds.size() ? kinds[k]->name : "elu1", features[f],
                   Quantile(samples, 0.5), Quantile(samples, 0.1),
                   Quantile(samples, 0.9)});
      }
  return {sources, table};
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "error");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  const auto median = [&](bool normalised, bool rpe, double f) {
    for (size_t r = 0; r < table.rows.size(); ++r)
      if (table.Flag(r, "normalised") == normalised &&
          table.Flag(r, "rpe") == rpe && table.Text(r, "map") == "prf" &&
          table.Number(r, "f") == f)
        return table.Number(r, "median");
    return std::nan("");
  };
  bool standard_loses = true, rpe_helps[2] = {true, true};
  for (int64_t count : features) {
    const double f = static_cast<double>(count);
    for (const bool normalised : {false, true})
      rpe_helps[normalised] =
          rpe_helps[normalised] &&
          median(normalised, true, f) < median(normalised, false, f);
    for (const bool rpe : {false, true})
      standard_loses = standard_loses && median(false, rpe, f) > kLittle;
  }
  const double f = static_cast<double>(features.back());
  const bool normalised_converts =
      median(true, false, f) <= kLittle && median(true, true, f) <= kLittle;
  StudyVerdict verdict{"nprf-convert",
                       "normalised attention converts with little loss, "
                       "standard attention does not; RPE helps both"};
  verdict.outcome = Decide(
      normalised_converts && standard_loses && rpe_helps[0] && rpe_helps[1],
      normalised_converts && standard_loses);
  const StudyTable& heads = FindTable(tables, "heads");
  double own = 0, standard = 0, flat = 0;
  const double count = static_cast<double>(heads.rows.size());
  for (size_t r = 0; r < heads.rows.size(); ++r) {
    own += heads.Flag(r, "own_bias");
    standard += heads.Number(r, "peak_standard") / count;
    flat += heads.Number(r, "peak_normalised") / count;
  }
  verdict.numbers = fmt::format(
      "{} {} heads, RPE {}: mean |A - A^|_1 of a row by prf at f = {:g} is "
      "{:.3f} with RPE and {:.3f} without for normalised, {:.3f} and {:.3f} "
      "for standard attention (little: up to {:g}); at every f RPE {} it for "
      "normalised and {} it for standard attention; normalised attention is "
      "flatter: its largest weights are {:.1f} times the mean one, standard "
      "ones {:.1f} times",
      heads.rows.size(),
      heads.Flag(0, "real") ? "real"
                            : "made-up (no real ones in reports/inputs)",
      own == count ? "the model's own"
      : own > 0    ? "made up for some"
                   : "made up",
      f, median(true, true, f), median(true, false, f), median(false, true, f),
      median(false, false, f), kLittle,
      rpe_helps[1] ? "lowers" : "does not lower",
      rpe_helps[0] ? "lowers" : "does not lower", flat, standard);
  return {verdict};
}

}  // namespace

Study ConversionStudy() {
  Study study;
  study.name = "conversion";
  study.purpose =
      "Softmax attention replaced by its kernelized form on given queries and "
      "keys, normalised or not, with and without relative positions.";
  study.source = "NPRF figure 2";
  study.parameters = {{"input", Json::array()},
                      {"n", 256},
                      {"d", 64},
                      {"sharpness", {0.0, 0.3, 0.6, 0.9}},
                      {"most_heads", 24},
                      {"rows", 32},
                      {"draws", 5},
                      {"f", {16, 32, 64, 128, 256}}};
  study.tiny = {
      {"n", 48},   {"d", 32},    {"most_heads", 2}, {"sharpness", {0.3, 0.6}},
      {"rows", 6}, {"draws", 2}, {"f", {16, 64}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
