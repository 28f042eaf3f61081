// Claims of NPRF that the command computes itself.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

// ---- equations 10 to 13, footnote 3 ----------------------------------------

Finding Eq10(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kFeatures = 8;
  OperatorRun run = TriedAttention("kernelized_rpe_attention");
  run.Set("feature_map", std::string("prf"))
      .Set("normalize", true)
      .Give("bias", {2 * kTriedN - 1}, NormalNumbers(2 * kTriedN - 1, 4))
      .Give("omega", {kFeatures, kTriedD},
            NormalNumbers(kFeatures * kTriedD, 5));
  AddPrograms(finding, run, "normalised rows, prf", {"fft", "fft_streamed"});
  return finding;
}

// With phi = elu + 1 and values of width one, for which the printed first row
// of D_2 has the right number of entries.
struct Kernelized {
  static constexpr int64_t kN = 10, kD = 3;

  Kernelized() : run("kernelized_rpe_attention") {
    run.Set("feature_map", std::string("elu1"))
        .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
        .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
        .Give("v", {kN, 1}, NormalNumbers(kN, 3))
        .Give("bias", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 4));
    q = Elu1(run["q"]);
    k = Elu1(run["k"]);
  }
  double c(int64_t offset) { return std::exp(run["bias"][offset + kN - 1]); }

  OperatorRun run;
  Numbers q, k;
};

// The second matrix of eq. 13 as the text has it: phi(x_1)^T (x_2 W^V) first,
// then phi(x_2)^T in every row.
Finding Eq13(const Evidence& evidence) {
  Finding finding(evidence);
  Kernelized nprf;
  constexpr int64_t kN = Kernelized::kN, kD = Kernelized::kD;
  const Numbers& v = nprf.run["v"];
  const auto attention = [&](const Numbers& second) {
    Numbers out;
    for (int64_t i = 0; i < kN; ++i) {
      double above = 0, below = 0;
      for (int64_t j = 0; j < kN; ++j) {
        above += nprf.c(j - i) * Dot(nprf.q, i, nprf.k, j, kD) * v[j];
        below += nprf.c(j - i) * Dot(nprf.q, i, second, j, kD);
      }
      out.push_back(above / below);
    }
    return out;
  };
  Numbers printed = nprf.k;
  for (int64_t a = 0; a < kD; ++a) printed[a] *= v[1];
  for (int64_t j = 2; j < kN; ++j)
    std::copy_n(nprf.k.begin() + kD, kD, printed.begin() + j * kD);
  const Numbers definition = nprf.run.Definition();
  finding.Add(Erratum{
      "in eq. 13 as the text has it the first row of the second matrix has a "
      "factor (x_2 W^V), and every later row is phi(x_2 W^K); correct is "
      "phi(x_j W^K) in row j",
      LargestDifference(attention(printed), definition),
      LargestDifference(attention(nprf.k), definition), 0.01});
  return finding;
}

// b_{i-j} = -inf for i > j, so b_t for every t > 0, which eq. 10 reads at
// t = j - i.
Finding CausalBias(const Evidence& evidence) {
  Finding finding(evidence);
  Kernelized nprf;
  constexpr int64_t kN = Kernelized::kN, kD = Kernelized::kD;
  const auto attention = [&](int64_t sign) {
    return Normalised(kN, nprf.run["v"], [&](int64_t i, int64_t j) {
      const int64_t t = j - i;
      return sign * t > 0 ? 0.0 : nprf.c(t) * Dot(nprf.q, i, nprf.k, j, kD);
    });
  };
  const Numbers literal = attention(1), mirrored = attention(-1);
  nprf.run.Set("causal", true);
  const Numbers definition = nprf.run.Definition();
  const Measured gap = finding.Measure("difference from causal attention",
                                       LargestDifference(literal, definition)),
                 other =
                     finding.Measure("difference with the past masked",
                                     LargestDifference(mirrored, definition));
  finding.Add(gap <= kTriedRounding && other > 0.01,
              fmt::format("eq. 10 with b_t = -inf for every t > 0 is causal "
                          "attention within {}; with b_t = -inf for t < 0 it "
                          "differs by {}",
                          gap, other));
  return finding;
}

// NPRF algorithm 1 on given features: D_1 and D_2 as Toeplitz products, with
// f e and f columns; or every pair.
template <typename T>
Row<T> AlgorithmOne(const Row<T>& q, const Row<T>& k, const Row<T>& v,
                    const Row<T>& bias, size_t f, size_t e, bool transform) {
  const size_t n = q.size() / f, wide = f * (e + 1);
  Row<T> columns(n * wide);
  for (size_t j = 0; j < n; ++j)
    for (size_t a = 0; a < f; ++a) {
      for (size_t c = 0; c < e; ++c)
        columns[j * wide + a * e + c] = k[j * f + a] * v[j * e + c];
      columns[j * wide + f * e + a] = k[j * f + a];
    }
  const Row<T> sums = transform ? ToeplitzByTransform(bias, columns, wide)
                                : ToeplitzDirect(bias, columns, wide);
  Row<T> out(n * e);
  for (size_t i = 0; i < n; ++i) {
    T below = 0;
    for (size_t a = 0; a < f; ++a) {
      below += q[i * f + a] * sums[i * wide + f * e + a];
      for (size_t c = 0; c < e; ++c)
        out[i * e + c] += q[i * f + a] * sums[i * wide + a * e + c];
    }
    for (size_t c = 0; c < e; ++c) out[i * e + c] = out[i * e + c] / below;
  }
  return out;
}

Finding Operations(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kF = 3, kE = 2;
  const auto run = [&](auto as, int64_t n, bool transform) {
    return AlgorithmOne(
        as(Positive(NormalNumbers(n * kF, 1))),
        as(Positive(NormalNumbers(n * kF, 2))), as(NormalNumbers(n * kE, 3)),
        as(Positive(NormalNumbers(2 * n - 1, 4))), kF, kE, transform);
  };
  const Growth transform = JudgeGrowth(
                   finding, "by transforms", "n",
                   CountEach({256, 1024, 4096, 16384},
                             [&](int64_t n) { run(Counting, n, true); }),
                   kNLogN),
               direct = JudgeGrowth(
                   finding, "directly", "n",
                   CountEach({64, 256, 1024},
                             [&](int64_t n) { run(Counting, n, false); }),
                   kSquare);
  const auto plain = [](Numbers numbers) { return numbers; };
  const Measured gap = finding.Measure(
      "difference by transforms",
      LargestDifference(run(plain, 48, true), run(plain, 48, false)));
  finding.Add(transform.holds && gap <= 1e-10,
              fmt::format("algorithm 1, run on numbers that count, takes {} "
                          "(within {} of all pairs)",
                          transform.text, gap));
  finding.Add(direct.holds, "plain products with the matrix C " + direct.text);
  return finding;
}

// A causal product whose tokens arrive one by one, each computed from the
// outputs so far. Operations of transforms are counted in a run (counts.h).
struct Generation {
  double gap = 0;        // blocks of doubling length against the definition
  double direct = 0;     // operations: plain sums, token by token
  double algorithm = 0;  // operations: a transform over the prefix every token
  double blocks = 0;     // operations: transforms of blocks of doubling length
};
Generation GenerateTokens(int64_t n, bool check) {
  // By the length that its transforms are padded to.
  std::map<uint64_t, double> products;
  const auto product = [&](int64_t length) {
    const uint64_t padded = std::bit_ceil(static_cast<uint64_t>(length));
    const auto [known, fresh] = products.try_emplace(padded, 0);
    if (fresh)
      known->second = TransformOperations(static_cast<int64_t>(padded));
    return known->second;
  };
  Generation result;
  const Numbers c = NormalNumbers(n, 1);  // c[t] for a key t before the query
  Numbers x(static_cast<size_t>(n)), y(static_cast<size_t>(n));
  if (check) x[0] = 1;
  for (int64_t i = 0; i < n; ++i) {
    result.direct += 2 * static_cast<double>(i + 1);
    result.algorithm += product(i + 1);
    if (check) y[i] += c[0] * x[i];
    const int64_t done = i + 1;
    // The largest power of two that divides the number of tokens so far: the
    // last block of that length contributes to as many of the next tokens.
    const int64_t length = done & -done;
    if (done < n) result.blocks += product(length);
    if (!check) continue;
    for (int64_t from = done - length; from < done; ++from)
      for (int64_t to = done; to < std::min(n, done + length); ++to)
        y[to] += c[to - from] * x[from];
    // The next token is made from this output, which is complete.
    if (done < n) x[done] = std::tanh(y[i]);
  }
  if (!check) return result;
  Numbers weights(static_cast<size_t>(2 * n - 1));
  for (int64_t t = 0; t < n; ++t) weights[n - 1 - t] = c[t];
  OperatorRun run("toeplitz_1d");
  run.Set("causal", true)
      .Give("weights", {2 * n - 1}, weights)
      .Give("values", {n, 1}, x);
  result.gap = LargestDifference(y, run.Definition());
  return result;
}

Finding Footnote3(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kTokens = 4096;
  const Generation one = GenerateTokens(kTokens, false);
  const Measured times = finding.Measure(
      "algorithm 1 at every token over plain sums", one.algorithm / one.direct);
  finding.Add(times > 1,
              fmt::format("generating {} tokens takes {} times the operations "
                          "of plain sums when each token repeats the transform "
                          "over its prefix",
                          kTokens, times));
  // The operator allows more: the same outputs by blocks (online convolution).
  finding.Note(fmt::format(
      "the limit is the method's: transforms of blocks of doubling length, "
      "each done once, give the same outputs (within {} for 100 tokens, each "
      "computed from the last output) with {} times the operations of plain "
      "sums",
      finding.Mention("difference by blocks", GenerateTokens(100, true).gap),
      finding.Mention("blocks over plain sums", one.blocks / one.direct)));
  return finding;
}

// ---- sections 2.1 and 3.3, footnotes 5 and 6 -------------------------------

Finding Scale(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kD = 4, kDraws = 200000;
  const Numbers x = {0.5, -0.3, 0.2, 0.4}, y = {0.4, -0.3, 0.3, 0.4};
  const double dot = Dot(x, 0, y, 0, kD), scaled = dot / std::sqrt(double{kD});
  // phi(x) phi(y) over exp(x y / sqrt(d)): of x and y themselves, and of both
  // times d^(-1/4).
  const auto mean = [&](double factor, double exact) {
    Numbers a = x, b = y;
    for (double& one : a) one *= factor;
    for (double& one : b) one *= factor;
    const Numbers omega = SampleOmega(OmegaSampler::kGaussian,
                                      Draws(1, "nprf-scale"), 0, kDraws, kD);
    Numbers ratios(static_cast<size_t>(kDraws));
    PrfRatios(omega.data(), kDraws, kD, a.data(), b.data(), ratios.data());
    return std::accumulate(ratios.begin(), ratios.end(), 0.0) / kDraws *
           std::exp(factor * factor * dot - exact);
  };
  const Measured plain = finding.Measure("mean over exp(q k)", mean(1, dot)),
                 divided = finding.Measure(
                     "mean over exp(q k / sqrt(d)), both over d^(1/4)",
                     mean(std::pow(double{kD}, -0.25), scaled));
  finding.Add(std::abs(plain - 1) <= 0.02 && std::abs(divided - 1) <= 0.02,
              fmt::format("the features of eq. 5 estimate exp(q k) (mean over "
                          "it {}); of rows divided by d^(1/4) the exponential "
                          "of eq. 1 ({})",
                          plain, divided));
  finding.Note(fmt::format(
      "of rows as they are {} times the exponential of eq. 1",
      finding.Mention("mean over exp(q k / sqrt(d))", mean(1, scaled))));
  return finding;
}

Numbers UnitRows(Numbers rows, int64_t d) {
  NormalizeRows(rows, d);
  return rows;
}

// Weights of softmax attention with scale 1 over n keys of width kWide.
constexpr int64_t kSharpKeys = 128, kWide = 8;
Numbers Weights(const Numbers& q, const Numbers& k, const Numbers& bias) {
  OperatorRun run("softmax_attention");
  run.Set("scale", 1.0)
      .Give("q", {kSharpKeys, kWide}, q)
      .Give("k", {kSharpKeys, kWide}, k)
      .Give("v", {kSharpKeys, kSharpKeys}, Identity(kSharpKeys));
  if (!bias.empty()) run.Give("bias", {2 * kSharpKeys - 1}, bias);
  return run.Definition();
}
// Key 0 along every query, the others against it.
struct Arranged {
  Numbers q = Numbers(kSharpKeys * kWide), k = q;
  Arranged() {
    for (int64_t i = 0; i < kSharpKeys; ++i) {
      q[i * kWide] = 1;
      k[i * kWide] = i == 0 ? 1 : -1;
    }
  }
};

Finding Sharp(const Evidence& evidence) {
  Finding finding(evidence);
  const Numbers q = UnitRows(NormalNumbers(kSharpKeys * kWide, 1), kWide),
                k = UnitRows(NormalNumbers(kSharpKeys * kWide, 2), kWide);
  const double e2 = std::exp(2.0);
  const Arranged best;
  Numbers bias(2 * kSharpKeys - 1);
  bias[kSharpKeys] = 20;  // the next token
  const Measured bound = finding.Measure("bound", e2 / (kSharpKeys - 1 + e2)),
                 drawn = finding.Measure("largest weight drawn",
                                         LargestAbsolute(Weights(q, k, {}))),
                 arranged = finding.Measure(
                     "largest weight arranged",
                     LargestAbsolute(Weights(best.q, best.k, {}))),
                 biased = finding.Measure("largest weight with a bias",
                                          LargestAbsolute(Weights(q, k, bias)));
  finding.Add(drawn <= bound && std::abs(arranged / bound - 1) < 1e-3,
              fmt::format("with rows of length 1 no weight over {} keys is "
                          "above e^2 / (n - 1 + e^2) = {}: drawn rows reach "
                          "{}, the best arrangement {}",
                          kSharpKeys, bound, drawn, arranged));
  finding.Add(biased > 0.99,
              fmt::format("with a bias of 20 at one offset the same rows reach "
                          "{}",
                          biased));
  return finding;
}

// Weights of two keys that have the same bias differ by what their content
// says; without normalised rows by any factor.
Finding ContextAgnostic(const Evidence& evidence) {
  Finding finding(evidence);
  const auto most = [](double length) {
    Arranged rows;
    for (double& x : rows.q) x *= length;
    const Numbers weights = Weights(rows.q, rows.k, {});
    return weights[0] / weights[1];
  };
  const double e2 = std::exp(2.0);
  const Measured unit = finding.Measure("largest ratio of weights", most(1)),
                 longer = finding.Measure("with queries of length 4", most(4));
  finding.Add(std::abs(unit / e2 - 1) < 1e-9,
              fmt::format("with rows of length 1 and one bias the content of "
                          "two keys changes their weights by at most e^2, "
                          "reached: {}",
                          unit));
  finding.Add(longer > 100,
              fmt::format("with queries of length 4 by {}", longer));
  return finding;
}

// The estimate phi_PRF(x) phi_PRF(y) of exp(x y) by one feature, for rows of
// this length: its deviation over its mean, and that of its gradient by x, w's
// estimate times (w - x), over the length of the exact one.
struct Deviation {
  double estimate, gradient;
};

constexpr int64_t kNormsWidth = 8;
struct Pair {
  explicit Pair(double length)
      : x(UnitRows(NormalNumbers(kNormsWidth, 3), kNormsWidth)),
        y(UnitRows(NormalNumbers(kNormsWidth, 4), kNormsWidth)) {
    for (double& one : x) one *= length;
    for (double& one : y) one *= length;
  }
  Numbers x, y;
};

// With s = x + y, the estimate over its mean is r = exp(w s - |s|^2 / 2), and
// E r^2 f(w) = exp(|s|^2) E f(w + 2 s). So the variance of r is exp(|s|^2) - 1
// (lemma 2), and that of r (w - x), whose mean is y, is
// exp(|s|^2) (d + |2 s - x|^2) - |y|^2.
Deviation DeviationOf(double length) {
  const Pair pair(length);
  double s2 = 0, shifted2 = 0, y2 = 0;
  for (size_t c = 0; c < pair.x.size(); ++c) {
    const double x = pair.x[c], y = pair.y[c];
    s2 += (x + y) * (x + y);
    shifted2 += (x + 2 * y) * (x + 2 * y);
    y2 += y * y;
  }
  return {std::sqrt(std::exp(s2) - 1),
          std::sqrt(std::exp(s2) * (kNormsWidth + shifted2) - y2) / length};
}

// The same from draws. Tails are so heavy that only short rows allow it.
Deviation SampledDeviation(double length) {
  constexpr int64_t kD = kNormsWidth, kDraws = 20000;
  const auto& [x, y] = Pair(length);
  const Numbers omega = SampleOmega(OmegaSampler::kGaussian,
                                    Draws(1, "nprf-norms"), 0, kDraws, kD);
  Numbers ratios(static_cast<size_t>(kDraws));
  PrfRatios(omega.data(), kDraws, kD, x.data(), y.data(), ratios.data());
  double of_estimate = 0, of_gradient = 0;
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    const double ratio = ratios[static_cast<size_t>(draw)];
    of_estimate += (ratio - 1) * (ratio - 1);
    for (int64_t c = 0; c < kD; ++c) {
      const double gap = ratio * (omega[draw * kD + c] - x[c]) - y[c];
      of_gradient += gap * gap;
    }
  }
  return {std::sqrt(of_estimate / kDraws),
          std::sqrt(of_gradient / kDraws) / length};
}

// Holds the closed form to draws for short rows.
void AddSampled(Finding& finding, double Deviation::*what) {
  constexpr double kLength = 0.25;
  const Measured ratio = finding.Measure(
      "sampled deviation over the closed form",
      SampledDeviation(kLength).*what / (DeviationOf(kLength).*what));
  finding.Add(std::abs(ratio - 1) < 0.05,
              fmt::format("for norms of {:g}, 20000 draws have {} times the "
                          "deviation of the closed form",
                          kLength, ratio));
}

Finding GradientsVary(const Evidence& evidence) {
  Finding finding(evidence);
  const Measured one = finding.Measure("deviation of the gradient at R = 1",
                                       DeviationOf(1).gradient),
                 two = finding.Measure("deviation of the gradient at R = 1.5",
                                       DeviationOf(1.5).gradient);
  finding.Add(one > 0 && two > 1.5 * one,
              fmt::format("the gradient of one feature's estimate by the query "
                          "deviates by {} of the exact gradient for norms of "
                          "1.5, by {} for norms of 1",
                          two, one));
  AddSampled(finding, &Deviation::gradient);
  return finding;
}

Finding LearnedScale(const Evidence& evidence) {
  Finding finding(evidence);
  const Measured one = finding.Measure("deviation at sigma = 1",
                                       DeviationOf(1).estimate),
                 two = finding.Measure("deviation at sigma = 1.5",
                                       DeviationOf(1.5).estimate);
  finding.Add(one > 0 && two > 1.5 * one,
              fmt::format("normalised rows times sigma = 1.5 have a kernel "
                          "estimate whose deviation is {} of its mean for one "
                          "feature, {} at sigma = 1: nothing bounds sigma",
                          two, one));
  AddSampled(finding, &Deviation::estimate);
  return finding;
}

// ---- printed numbers -------------------------------------------------------

Finding GlueNine(const Evidence& evidence) {
  Finding finding(evidence);
  const std::vector<std::string> listed = {"CoLA", "RTE",  "MRPC", "STS",
                                           "SST",  "QNLI", "QQP",  "MNLI"};
  const Measured names =
      finding.Measure("names listed", static_cast<double>(listed.size()));
  // Footnote 10 counts MNLI-m/-mm, QQP and QNLI as four.
  finding.Add(names + 1 == 9,
              fmt::format("{} names are listed, which are nine tasks if "
                          "MNLI-m and MNLI-mm are two, as footnote 10 counts "
                          "them",
                          names));
  return finding;
}

Finding Averages(const Evidence& evidence) {
  Finding finding(evidence);
  struct Row {
    const char* what;
    std::vector<double> numbers;
    double printed;
  };
  const std::vector<Row> averages = {
      {"GLUE of NPRF", {64.7, 75.1, 88.5, 89.4, 86.4, 91.3, 91.7, 94.8}, 85.2},
      {"GLUE of SMYRF", {58.8, 68.6, 87.7, 89.7, 85.0, 91.1, 89.7, 93.2}, 83.0},
      {"GLUE of FCA", {59.8, 49.8, 43.6, 78.9, 79.4, 74.6, 89.4, 94.4}, 71.2},
      {"GLUE of improved FCA",
       {60.1, 70.4, 87.3, 90.0, 88.0, 93.0, 91.5, 94.7},
       84.4},
      {"BLEU of standard", {34.7, 29.2, 40.0, 40.2}, 36.0},
      {"BLEU with a PRF decoder", {34.6, 29.3, 40.3, 40.6}, 36.2},
      {"BLEU of PRF", {32.1, 27.6, 38.0, 38.2}, 34.0},
      {"BLEU of NPRF", {34.3, 29.4, 39.9, 40.4}, 36.0},
  };
  double most = 0;
  for (const Row& row : averages) {
    const double mean =
        std::accumulate(row.numbers.begin(), row.numbers.end(), 0.0) /
        static_cast<double>(row.numbers.size());
    most = LargestOf(most, std::abs(mean - row.printed));
  }
  const Measured off = finding.Measure("farthest average", most),
                 differences =
                     finding.Measure("farthest difference",
                                     std::max({std::abs(33.6 - 30.6 - 3.0),
                                               std::abs(31.3 - 30.6 - 0.7),
                                               std::abs(4.04 - 3.68 - 0.36)}));
  finding.Add(off <= 0.05 + 1e-9,
              fmt::format("{} averages are right to the digit printed (off by "
                          "at most {})",
                          averages.size(), off));
  finding.Add(differences <= 1e-9,
              "the differences 3.0 and 0.7 of table 2 and 0.36 of table 6 "
              "follow from their rows");
  return finding;
}

// Table 4, top-1: fine-tuned PRF, normalised without RPE, with both.
Finding NormalisedHelps(const Evidence& evidence) {
  Finding finding(evidence);
  const Measured alone = finding.Measure("normalised less not", 77.7 - 79.5),
                 rpe = finding.Measure("with RPE less without", 80.9 - 77.7);
  finding.Add(rpe > 0, fmt::format("table 4 gains {} points by RPE", rpe));
  finding.Add(alone > 0,
              fmt::format("normalised rows alone change its accuracy by {} "
                          "points, against a model that was fine-tuned from a "
                          "trained one",
                          alone));
  return finding;
}

}  // namespace

std::vector<NamedRule> NprfRules() {
  return {{"nprf-eq10", Eq10},
          {"nprf-eq13", Eq13},
          {"nprf-causal", CausalBias},
          {"nprf-operations", Operations},
          {"nprf-footnote3", Footnote3},
          {"nprf-scale", Scale},
          {"nprf-sharp", Sharp},
          {"nprf-gradients", GradientsVary},
          {"nprf-footnote5", LearnedScale},
          {"nprf-footnote6", ContextAgnostic},
          {"nprf-glue-nine", GlueNine},
          {"nprf-averages", Averages},
          {"nprf-table4-both", NormalisedHelps}};
}

}  // namespace subquad
