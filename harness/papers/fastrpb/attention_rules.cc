// Claims of FastRPB on attention: kernels, shifts, permutations and memory,
// computed by the command itself.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "reference/kernelized/feature_map.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// ---- kernels ---------------------------------------------------------------

// Sets the map and what it needs. relu needs a feature that is not zero in
// every row.
void SetMap(OperatorRun& run, const std::string& map) {
  run.Set("feature_map", map);
  if (map == "dpfp") run.Set("nu", int64_t{1});
  if (map == "prf_hyperbolic")
    run.Give("omega", {8, kTriedD}, NormalNumbers(8 * kTriedD, 5));
  if (map == "relu")
    for (const char* name : {"q", "k"})
      for (double& x : run[name]) x += 1.5;
}

Finding KernelForm(const Evidence& evidence) {
  Finding finding(evidence);
  for (const char* map : {"elu1", "relu", "sikf", "dpfp", "prf_hyperbolic"}) {
    OperatorRun run = TriedAttention("linear_attention");
    SetMap(run, map);
    AddPrograms(finding, run, map, {"associative"});
  }
  return finding;
}

Finding Independent(const Evidence& evidence) {
  Finding finding(evidence);
  const Numbers weights = NormalNumbers(2 * kTriedN - 1, 4);
  OperatorRun softmax = TriedAttention("fastrpb_attention");
  softmax.Set("attention", std::string("softmax"))
      .Give("weights", {2 * kTriedN - 1}, weights);
  AddPrograms(finding, softmax, "softmax", {"softmax_fft"});
  for (const char* map : {"elu1", "relu", "sikf", "dpfp", "prf_hyperbolic"}) {
    OperatorRun linear = TriedAttention("fastrpb_attention");
    linear.Set("attention", std::string("linear"))
        .Give("weights", {2 * kTriedN - 1}, weights);
    SetMap(linear, map);
    AddPrograms(finding, linear, map, {"linear_fft"});
  }
  return finding;
}

// The mean of phi(x) phi(y) / exp(x y) over draws of Omega, by the definition
// of a feature map, and its standard error; `half`: the mean with the exponent
// of the norms halved, as a control.
struct MapMean {
  double mean, error, half;
};
MapMean MeanOfMap(const std::string& name, FeatureMapId id, int64_t draws) {
  constexpr int64_t kD = 4;
  const Numbers x = {0.5, -0.3, 0.2, 0.1}, y = {0.1, 0.4, -0.2, 0.3};
  const double exact = std::exp(Dot(x, 0, y, 0, kD)),
               norms = (Dot(x, 0, x, 0, kD) + Dot(y, 0, y, 0, kD)) / 2;
  FeatureMapSpec spec;
  spec.id = id;
  spec.d = kD;
  spec.root_scale = 1;
  spec.projections = 1;
  const Draws stream(1, "means/" + name);
  double sum = 0, squares = 0;
  for (int64_t draw = 0; draw < draws; ++draw) {
    double omega[kD];
    for (int64_t c = 0; c < kD; ++c)
      omega[c] = stream.Normal(static_cast<uint64_t>(draw * kD + c));
    const FeatureMap<double> map(spec, omega);
    std::vector<Scaled<double>> a, b;
    map.Row(x.data(), a);
    map.Row(y.data(), b);
    double product = 0;
    for (size_t f = 0; f < a.size(); ++f)
      product += std::ldexp(a[f].mantissa, a[f].exponent) *
                 std::ldexp(b[f].mantissa, b[f].exponent);
    // The map leaves out 1/sqrt(2p) where there are two features to a row.
    if (id == FeatureMapId::kPrfHyperbolic) product /= 2;
    const double ratio = product / exact;
    sum += ratio;
    squares += ratio * ratio;
  }
  const auto count = static_cast<double>(draws);
  const double mean = sum / count;
  // exp(-|x|^2/2) of the positive features, exp(+|x|^2/2) of the others.
  const double sign = id == FeatureMapId::kTrf ? -1 : 1;
  return {mean, std::sqrt((squares / count - mean * mean) / (count - 1)),
          mean * std::exp(sign * norms / 2)};
}

// Eq. 5 as printed, with R rows: the mean of phi(x) phi(y) / exp(x y) over
// draws, and its standard error. `m` is the number below its root.
MapMean MeanOfEquation5(int64_t rows, double m, int64_t draws) {
  constexpr int64_t kD = 4;
  const Numbers x = {0.5, -0.3, 0.2, 0.1}, y = {0.1, 0.4, -0.2, 0.3};
  const auto h = [&](const Numbers& row) {
    return std::exp(-Dot(row, 0, row, 0, kD) / 2) / std::sqrt(2.0);
  };
  const Draws stream(1, "means/equation 5");
  double sum = 0, squares = 0;
  for (int64_t draw = 0; draw < draws; ++draw) {
    double product = 0;
    for (int64_t r = 0; r < rows; ++r) {
      double of_x = 0, of_y = 0;
      for (int64_t c = 0; c < kD; ++c) {
        const double omega =
            stream.Normal(static_cast<uint64_t>((draw * rows + r) * kD + c));
        of_x += omega * x[c];
        of_y += omega * y[c];
      }
      product += h(x) / std::sqrt(m) * std::exp(of_x) * h(y) / std::sqrt(m) *
                     std::exp(of_y) +
                 h(x) / std::sqrt(m) * std::exp(-of_x) * h(y) / std::sqrt(m) *
                     std::exp(-of_y);
    }
    const double ratio = product / std::exp(Dot(x, 0, y, 0, kD));
    sum += ratio;
    squares += ratio * ratio;
  }
  const auto count = static_cast<double>(draws);
  const double mean = sum / count;
  return {mean, std::sqrt((squares / count - mean * mean) / (count - 1)), 0};
}

Finding MapsUnbiased(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kRows = 8;
  const MapMean printed = MeanOfEquation5(kRows, kRows, 50000),
                of_features = MeanOfEquation5(kRows, 2 * kRows, 50000);
  const Measured by_rows = finding.Measure("mean of eq. 5", printed.mean),
                 off = finding.Measure(
                     "standard errors of eq. 5",
                     std::abs(printed.mean - 1) / printed.error),
                 half = finding.Mention("mean of eq. 5 by features",
                                        of_features.mean);
  finding.Add(off <= 5 && std::abs(by_rows - 1) < 0.1,
              fmt::format("eq. 5 with {} rows of R has a mean over exp(x y) of "
                          "{}, {} standard errors from 1, if m is their number "
                          "(the text has both m and R; if m is the number of "
                          "features, twice as many, the mean is {})",
                          kRows, by_rows, off, half));
  for (const auto& [map, id] :
       {std::pair{"prf", FeatureMapId::kPrf},
        {"prf_hyperbolic", FeatureMapId::kPrfHyperbolic},
        {"trf", FeatureMapId::kTrf}}) {
    const std::string name = map;
    const MapMean one = MeanOfMap(name, id, 200000);
    const Measured mean = finding.Mention("mean of " + name, one.mean),
                   errors = finding.Measure("standard errors of " + name,
                                            std::abs(one.mean - 1) / one.error),
                   control = finding.Measure("control of " + name, one.half);
    finding.Add(errors <= 5 && std::abs(control - 1) > 5 * one.error,
                fmt::format("{}: mean over exp(x y) of {}, {} standard errors "
                            "from 1 (with half the norm in the exponent {})",
                            name, mean, errors, control));
  }
  return finding;
}

// Drawing Omega: m D numbers for every batch, and another output for every
// draw.
Finding PerformerCost(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kRows = 8;
  const auto output = [&](uint64_t seed) {
    OperatorRun run = TriedAttention("linear_attention");
    run.Set("feature_map", std::string("prf_hyperbolic"))
        .Give("omega", {kRows, kTriedD}, NormalNumbers(kRows * kTriedD, seed));
    return run.Definition();
  };
  const Numbers one = output(5);
  const Measured change =
      finding.Measure("change by another draw",
                      LargestDifference(output(6), one) / LargestAbsolute(one));
  finding.Add(change > kClear,
              fmt::format("another draw of R changes the output by {} of its "
                          "largest number (n = {}, {} rows)",
                          change, kTriedN, kRows));
  finding.Add(Holds::kNotAttempted,
              "the computations that the draw takes are in no measured time: "
              "m D normal numbers, beside n m D products R x for the queries");
  return finding;
}

// Kernelized attention on given features [n, f]: the two sums that all rows
// share (`shared`), or a weight for every pair.
template <typename T>
Row<T> ByFeatures(const Row<T>& q, const Row<T>& k, const Row<T>& v, size_t f,
                  size_t e, bool shared) {
  const size_t n = q.size() / f;
  Row<T> out(n * e);
  Row<T> sum(f * e), total(f);
  for (size_t j = 0; shared && j < n; ++j)
    for (size_t a = 0; a < f; ++a) {
      total[a] += k[j * f + a];
      for (size_t c = 0; c < e; ++c)
        sum[a * e + c] += k[j * f + a] * v[j * e + c];
    }
  for (size_t i = 0; i < n; ++i) {
    T below = 0;
    T* const row = out.data() + i * e;
    for (size_t a = 0; shared && a < f; ++a) {
      below += q[i * f + a] * total[a];
      for (size_t c = 0; c < e; ++c) row[c] += q[i * f + a] * sum[a * e + c];
    }
    for (size_t j = 0; !shared && j < n; ++j) {
      T weight = 0;
      for (size_t a = 0; a < f; ++a) weight += q[i * f + a] * k[j * f + a];
      below += weight;
      for (size_t c = 0; c < e; ++c) row[c] += weight * v[j * e + c];
    }
    for (size_t c = 0; c < e; ++c) row[c] = row[c] / below;
  }
  return out;
}

Finding LinearOperations(const Evidence& evidence) {
  Finding finding(evidence);
  const auto run = [&](int64_t n, size_t width, bool shared) {
    const auto count = n * static_cast<int64_t>(width);
    return ByFeatures(Counting(Positive(NormalNumbers(count, 1))),
                      Counting(Positive(NormalNumbers(count, 2))),
                      Counting(NormalNumbers(count, 3)), width, width, shared);
  };
  const Growth sums =
                   JudgeGrowth(finding, "shared", "n",
                               CountEach({128, 512, 2048},
                                         [&](int64_t n) { run(n, 8, true); }),
                               kLinearGrowth),
               pairs =
                   JudgeGrowth(finding, "pairs", "n",
                               CountEach({64, 256, 1024},
                                         [&](int64_t n) { run(n, 8, false); }),
                               kSquare),
               width = JudgeGrowth(finding, "width", "d",
                                   CountEach({16, 32, 64, 128},
                                             [&](int64_t d) {
                                               run(64, static_cast<size_t>(d),
                                                   true);
                                             }),
                                   kSquare);
  const Row<Counted> a = run(40, 6, true), b = run(40, 6, false);
  const Measured gap =
      finding.Measure("difference of both", LargestDifference(a, b));
  finding.Add(sums.holds && pairs.holds && gap <= 1e-10,
              fmt::format("run on numbers that count, shared sums take {}, a "
                          "weight for every pair {} (results within {})",
                          sums.text, pairs.text, gap));
  finding.Add(width.holds, "with as many features as channels, " + width.text);
  return finding;
}

// ---- shifts and permutations -----------------------------------------------

// FastRPB eq. 9: the largest change of linear attention's output when constants
// are added to all queries and to all keys.
double ChangeByShift(const std::string& map) {
  constexpr int64_t kN = 20, kD = 6;
  OperatorRun run("linear_attention");
  run.Set("feature_map", map)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3));
  if (map == "dpfp") run.Set("nu", int64_t{2});
  OperatorRun shifted = run;
  for (double& x : shifted["q"]) x += 0.7;
  for (double& x : shifted["k"]) x -= 0.4;
  return LargestDifference(shifted.Definition(), run.Definition());
}

Finding SikfShift(const Evidence& evidence) {
  Finding finding(evidence);
  const Measured sikf =
      finding.Measure("change with sikf", ChangeByShift("sikf"));
  finding.Add(sikf <= kRounding,
              fmt::format("with exp features, adding 0.7 to all queries and "
                          "-0.4 to all keys changes the output by {}",
                          sikf));
  for (const char* map : {"elu1", "relu", "dpfp"}) {
    const Measured change =
        finding.Measure(std::string("change with ") + map, ChangeByShift(map));
    finding.Add(change > kClear, fmt::format("with {} by {}", map, change));
  }
  return finding;
}

// softmax(x + c) = softmax(x): a key that adds one number to every score.
Finding SoftmaxShift(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = TriedAttention("softmax_attention");
  OperatorRun shifted = run, one = run;
  for (int64_t j = 0; j < kTriedN; ++j)
    for (int64_t c = 0; c < kTriedD; ++c) {
      shifted["k"][j * kTriedD + c] += 0.7;
      if (j == 0) one["k"][c] += 0.7;
    }
  const Numbers before = run.Definition();
  const Measured gap = finding.Measure(
                     "change by one number for all scores of a row",
                     LargestDifference(shifted.Definition(), before)),
                 other = finding.Measure(
                     "change by a number for one score",
                     LargestDifference(one.Definition(), before));
  finding.Add(gap <= kRounding && other > kClear,
              fmt::format("one number added to all scores of a row changes "
                          "attention by {}, to one score by {}",
                          gap, other));
  return finding;
}

Finding Invariant(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = TriedAttention("softmax_attention");
  const std::vector<int64_t> order = Rotated(kTriedN, 7);
  OperatorRun keys = run;
  keys["k"] = Reordered(keys["k"], kTriedD, order);
  keys["v"] = Reordered(keys["v"], kTriedE, order);
  OperatorRun tokens = keys, values = run;
  tokens["q"] = Reordered(tokens["q"], kTriedD, order);
  values["v"] = Reordered(values["v"], kTriedE, order);
  const Numbers before = run.Definition();
  const Measured gap = finding.Measure(
                     "change by permuted keys",
                     LargestDifference(keys.Definition(), before)),
                 queries = finding.Mention(
                     "difference from the permuted output",
                     LargestDifference(tokens.Definition(),
                                       Reordered(before, kTriedE, order))),
                 control = finding.Measure(
                     "change by permuted values alone",
                     LargestDifference(values.Definition(), before));
  finding.Add(gap <= kRounding && control > kClear,
              fmt::format("keys permuted with their values leave the output "
                          "within {} (values alone change it by {})",
                          gap, control));
  finding.Note(
      fmt::format("with queries permuted as well the output is "
                  "permuted, within {}: equivariance",
                  queries));
  return finding;
}

// ---- memory ----------------------------------------------------------------

double LinearBytes(const std::string& program, int64_t n, int64_t d,
                   const std::string& map = "elu1") {
  const std::string width = std::to_string(d);
  return BytesOf("linear_attention", program, n,
                 {{"d", width},
                  {"e", width},
                  {"feature_map", map},
                  {"causal", program == "recurrent" ? "1" : "0"}});
}

// False where bytes cannot be counted.
bool CountsBytes(Finding& finding, double bytes) {
  if (std::isnan(bytes))
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
  return !std::isnan(bytes);
}

Finding LinearMemory(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kN = 4096, kD = 64;
  const double bytes = LinearBytes("associative", kN, kD);
  if (!CountsBytes(finding, bytes)) return finding;
  const Measured share = finding.Measure("workspace over N D^2",
                                         bytes / (4.0 * kN * kD * kD)),
                 wider = finding.Mention(
                     "workspace of twice the width",
                     LinearBytes("associative", kN, 2 * kD) / bytes);
  finding.Add(share > 0 && share <= 1,
              fmt::format("at n = {} and width {} it takes {} of N D^2 "
                          "numbers, so that the bound holds",
                          kN, kD, share));
  finding.Note(
      fmt::format("and is loose: twice the width takes {} times the "
                  "workspace, as O(N D + D^2) does",
                  wider));
  return finding;
}

Finding SikfMemory(const Evidence& evidence) {
  Finding finding(evidence);
  const double elu1 = LinearBytes("associative", 4096, 64);
  if (!CountsBytes(finding, elu1)) return finding;
  const Measured sikf = finding.Measure(
                     "workspace of sikf",
                     LinearBytes("associative", 4096, 64, "sikf") / elu1),
                 dpfp = finding.Measure(
                     "workspace of dpfp",
                     LinearBytes("associative", 4096, 64, "dpfp") / elu1);
  finding.Add(sikf <= 1.01 && dpfp > 1.01,
              fmt::format("sikf takes {} times the workspace of elu1 at n = "
                          "4096 and width 64 (dpfp, with twice the features, "
                          "{} times)",
                          sikf, dpfp));
  return finding;
}

Finding ConstantMemory(const Evidence& evidence) {
  Finding finding(evidence);
  const double brief = LinearBytes("recurrent", 512, 64);
  if (!CountsBytes(finding, brief)) return finding;
  const Measured growth = finding.Measure(
      "growth of the workspace", LinearBytes("recurrent", 8192, 64) / brief);
  finding.Add(growth <= 1.01,
              fmt::format("`recurrent`, token by token, takes {} times the "
                          "workspace for 16 times the tokens",
                          growth));
  return finding;
}

}  // namespace

std::vector<NamedRule> FastRpbAttentionRules() {
  return {{"frpb-kernel-form", KernelForm},
          {"frpb-independent", Independent},
          {"frpb-performer-mean", MapsUnbiased},
          {"frpb-performer-cost", PerformerCost},
          {"frpb-linear-operations", LinearOperations},
          {"sikf-shift", SikfShift},
          {"frpb-softmax-shift", SoftmaxShift},
          {"frpb-invariant", Invariant},
          {"frpb-linear-memory", LinearMemory},
          {"frpb-sikf-memory", SikfMemory},
          {"frpb-constant-memory", ConstantMemory}};
}

}  // namespace subquad
