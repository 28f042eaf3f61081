#include "harness/papers/lrpe/lrpe.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/machine/memory_counter.h"
#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/frame/sweep_parts.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

// ---- section III, typed in as printed --------------------------------------

struct Clipped {
  Clipped(int64_t queries, int64_t keys, int64_t clip, bool causal)
      : n_q(queries),
        n_k(keys),
        k(clip),
        masked(causal),
        run("clipped_rpe_product") {
    run.Set("causal", masked)
        .Give("q", {n_q, kD}, NormalNumbers(n_q * kD, 1))
        .Give("rpe", {2 * k + 1, kD}, NormalNumbers((2 * k + 1) * kD, 2))
        .Give("v", {n_k, kE}, NormalNumbers(n_k * kE, 3));
  }
  static constexpr int64_t kD = 3, kE = 2;

  int64_t n_q, n_k, k;
  bool masked;
  OperatorRun run;
};

// What of the printed algorithm is kept; the rest is corrected.
struct AsPrinted {
  bool mask = false;     // window[:, k+1:] = 0, not k:
  bool reverse = false;  // zeros before the sums of the right term, not after
  bool tail = false;     // sup = min(L_Q + k, L_K), not L_K
};

// Rows that the strided view reads beyond its printed buffer of max(0, k-1)
// zeros, V, and max(0, L_Q-L_K) rows.
int64_t MissingRows(const Clipped& one) {
  const int64_t there =
      one.k - 1 + one.n_k + std::max<int64_t>(0, one.n_q - one.n_k);
  return std::max<int64_t>(0, one.n_q + 2 * one.k - 2 - there);
}

Numbers SectionIii(Clipped& one, const AsPrinted& printed) {
  const int64_t n_q = one.n_q, n_k = one.n_k, k = one.k;
  constexpr int64_t kD = Clipped::kD, kE = Clipped::kE;
  const Numbers &q = one.run["q"], &rpe = one.run["rpe"], &v = one.run["v"];
  const auto weight = [&](int64_t i, int64_t column) {
    return Dot(q, i, rpe, column, kD);
  };
  // sum(V[first:end]); slices end where the matrix does.
  const auto sum = [&](int64_t first, int64_t end, int64_t c) {
    double total = 0;
    for (int64_t j = first; j < std::min(end, n_k); ++j) total += v[j * kE + c];
    return total;
  };
  const int64_t sup = printed.tail ? std::min(n_q + k, n_k) : n_k, inf = k - 1;
  // Rows of sum(V[inf:sup]) - cumsum(V[inf:sup-1]), and the zeros beside them.
  const int64_t rows = std::max<int64_t>(0, sup - 1 - inf),
                zeros =
                    std::max<int64_t>(0, n_q - std::max<int64_t>(0, n_k - k));
  Numbers out(static_cast<size_t>(n_q * kE));
  for (int64_t i = 0; i < n_q; ++i)
    for (int64_t c = 0; c < kE; ++c) {
      double& total = out[i * kE + c];
      // left = H_before * lower: k zeros, then cumsum(V), its last row
      // repeated.
      if (i >= k) total += weight(i, 0) * sum(0, i - k + 1, c);
      // middle: window of 2k-1 columns on a view that moves a row at a time.
      for (int64_t s = 0; s < 2 * k - 1; ++s) {
        if (one.masked && s >= (printed.mask ? k + 1 : k)) continue;
        const int64_t j = i + s - (k - 1);
        if (j >= 0 && j < n_k) total += weight(i, s + 1) * v[j * kE + c];
      }
      // right = H_after * reverse.
      const int64_t row = printed.reverse ? i - zeros : i;
      if (!one.masked && row >= 0 && row < rows)
        total +=
            weight(i, 2 * k) * (sum(inf, sup, c) - sum(inf, inf + row + 1, c));
    }
  return out;
}

double Gap(Clipped& one, const AsPrinted& printed) {
  return LargestDifference(SectionIii(one, printed), one.run.Definition());
}

// All (L_Q, L_K) up to 16, k from 1 to 8, with and without a mask. With k = 0
// the first and the last column coincide, and key i is in both tails.
Finding Tail(const Evidence& evidence) {
  Finding finding(evidence);
  int64_t problems = 0, losing = 0;
  double printed_losing = HUGE_VAL, printed_elsewhere = 0, corrected = 0;
  for (int64_t n_q = 1; n_q <= 16; ++n_q)
    for (int64_t n_k = 1; n_k <= 16; ++n_k)
      for (int64_t k = 1; k <= 8; ++k)
        for (bool masked : {false, true}) {
          Clipped one(n_q, n_k, k, masked);
          ++problems;
          corrected = LargestOf(corrected, Gap(one, {}));
          const double printed = Gap(one, {.tail = true});
          if (!masked && n_k > n_q + k) {
            ++losing;
            printed_losing = LeastOf(printed_losing, printed);
          } else {
            printed_elsewhere = LargestOf(printed_elsewhere, printed);
          }
        }
  finding.Add(Erratum{
      "the right term is summed up to sup = min(L_Q+k, L_K), which loses the "
      "keys beyond L_Q+k; correct is sup = L_K",
      losing > 0 ? printed_losing : 0, corrected, 1e-4});
  const Measured elsewhere =
      finding.Measure("difference where no key is lost", printed_elsewhere);
  finding.Require(elsewhere <= kRounding,
                  fmt::format("of {} problems (L_Q and L_K up to 16, k from 1 "
                              "to 8, with and without a mask) {} have such "
                              "keys; in the others this end is off by at most "
                              "{}, the other slips corrected",
                              problems, losing, elsewhere));
  return finding;
}

Finding Mask(const Evidence& evidence) {
  Finding finding(evidence);
  Clipped one(20, 20, 5, true);
  finding.Add(Erratum{
      "window[:, k+1:] = 0 leaves column k, of the next token; window begins "
      "with column 1 of the weights, so that correct is window[:, k:] = 0",
      Gap(one, {.mask = true}), Gap(one, {}), 0.1});
  return finding;
}

Finding Reverse(const Evidence& evidence) {
  Finding finding(evidence);
  Clipped one(20, 20, 5, false);
  finding.Add(Erratum{
      "`reverse` is printed with its zeros before the sums; the last queries "
      "have no keys after the window, so that correct is zeros after them",
      Gap(one, {.reverse = true}), Gap(one, {}), 0.1});
  return finding;
}

Finding Padding(const Evidence& evidence) {
  Finding finding(evidence);
  Clipped one(20, 20, 5, false);
  const Measured missing = finding.Measure(
      "rows beyond the buffer", static_cast<double>(MissingRows(one)));
  finding.Add(Erratum{"", ShapeGap(missing), Gap(one, {})},
              fmt::format("the strided view of L_Q x (2k-1) rows reads {} rows "
                          "beyond the printed buffer for L_Q = L_K = 20 and k "
                          "= 5: correct are max(0, L_Q-L_K+k-1) rows of zeros "
                          "after V",
                          missing));
  return finding;
}

Finding Strided(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kQueries = 512, kKeys = 512, kClip = 16;
  Clipped one(48, 48, 7, false);
  const Measured gap = finding.Measure("difference by views", Gap(one, {})),
                 fewer = finding.Measure(
                     "numbers copied over numbers in the view",
                     static_cast<double>(kQueries * (2 * kClip - 1)) /
                         (kKeys + 2 * (kClip - 1)));
  finding.Add(gap <= kRounding && fewer > 2,
              fmt::format("the middle term read from one padded copy agrees "
                          "within {}, and for L_Q = L_K = {} and k = {} that "
                          "copy has {} times fewer numbers than a copy of "
                          "every window",
                          gap, kQueries, kClip, fewer));
  return finding;
}

// S_ij = Q_i . RP[clip(i-j)], and column 0 weights the keys before the query,
// i - j >= k: the rows of RP then run from k down to -k.
Finding Sign(const Evidence& evidence) {
  Finding finding(evidence);
  Clipped one(20, 17, 4, false);
  const auto gap = [&](bool descending) {
    Numbers out(static_cast<size_t>(one.n_q * Clipped::kE));
    for (int64_t i = 0; i < one.n_q; ++i)
      for (int64_t j = 0; j < one.n_k; ++j) {
        const int64_t index = std::clamp(i - j, -one.k, one.k),
                      row = descending ? one.k - index : one.k + index;
        const double weight =
            Dot(one.run["q"], i, one.run["rpe"], row, Clipped::kD);
        for (int64_t c = 0; c < Clipped::kE; ++c)
          out[i * Clipped::kE + c] +=
              weight * one.run["v"][j * Clipped::kE + c];
      }
    return LargestDifference(out, one.run.Definition());
  };
  const Measured down =
                     finding.Measure("difference, rows descending", gap(true)),
                 up = finding.Measure("difference, rows ascending", gap(false));
  // The text does not state the order in which RP is stored. A public
  // implementation with its names, github.com/BFavier/Pygmalion (commit
  // 5f1397b), takes row clip(k + j - i).
  finding.Add(!(down <= kRounding) ? Holds::kNo
              : up <= kRounding    ? Holds::kYes
                                   : Holds::kBetween,
              fmt::format("with RP stored from k down to -k the scores agree "
                          "within {}; from -k up to k, as in a public "
                          "implementation of the note, they differ by {}, and "
                          "the text does not state the order",
                          down, up));
  return finding;
}

Finding Phi(const Evidence& evidence) {
  Finding finding(evidence);
  Clipped one(12, 12, 2, false);
  const Numbers definition = one.run.Definition();
  const auto gap = [&](bool of_values) {
    Clipped other = one;
    if (of_values) other.run["v"] = Elu1(one.run["v"]);
    return LargestDifference(SectionIii(other, {}), definition);
  };
  finding.Add(
      Erratum{"section III lists phi(V), where its formulas and section "
              "IV have V itself (and phi(K))",
              gap(true), gap(false), 0.1});
  return finding;
}

// ---- operations ------------------------------------------------------------

// S_rel V for offsets clipped at r, key before query first. `operations`, if
// given, gets the sums of values, the products of queries with embeddings, and
// the window, in that order.
template <typename T>
Row<T> ClippedProduct(const Row<T>& q, const Row<T>& rpe, const Row<T>& v,
                      size_t d, size_t r, double* operations = nullptr) {
  const size_t rows = q.size() / d, keys = v.size() / d, wide = 2 * r + 1;
  const auto count = [&](int which) {
    if (operations)
      operations[which] = static_cast<double>(Counted::operations());
    Counted::Reset();
  };
  Counted::Reset();
  Row<T> before((keys + 1) * d);
  for (size_t j = 0; j < keys; ++j)
    for (size_t c = 0; c < d; ++c)
      before[(j + 1) * d + c] = before[j * d + c] + v[j * d + c];
  count(0);
  Row<T> weights(rows * wide);
  for (size_t i = 0; i < rows; ++i)
    for (size_t s = 0; s < wide; ++s)
      for (size_t c = 0; c < d; ++c)
        weights[i * wide + s] += q[i * d + c] * rpe[s * d + c];
  count(1);
  Row<T> out(rows * d);
  for (size_t i = 0; i < rows; ++i) {
    const T* const w = weights.data() + i * wide;
    // Keys up to i - r, those between, and those from i + r on.
    const size_t left = std::min(i >= r ? i - r + 1 : 0, keys),
                 right = std::max(left, std::min(i + r, keys));
    for (size_t c = 0; c < d; ++c) {
      T sum = w[0] * before[left * d + c];
      for (size_t j = left; j < right; ++j) sum += w[j + r - i] * v[j * d + c];
      out[i * d + c] =
          sum + w[2 * r] * (before[keys * d + c] - before[right * d + c]);
    }
  }
  count(2);
  return out;
}

constexpr int64_t kCountedD = 8;

// Operations of part `which` for each size; `size_of` is what the growth is in.
Counts CountPart(
    int which, const std::vector<std::tuple<int64_t, int64_t, int64_t>>& sizes,
    int64_t (*size_of)(int64_t rows, int64_t keys, int64_t r)) {
  Counts counts;
  for (const auto& [rows, keys, r] : sizes) {
    double operations[3] = {};
    ClippedProduct(Counting(NormalNumbers(rows * kCountedD, 1)),
                   Counting(NormalNumbers((2 * r + 1) * kCountedD, 2)),
                   Counting(NormalNumbers(keys * kCountedD, 3)), kCountedD,
                   static_cast<size_t>(r), operations);
    counts.sizes.push_back(static_cast<double>(size_of(rows, keys, r)));
    counts.operations.push_back(operations[which]);
  }
  return counts;
}

double CountedGap() {
  double gap = 0;
  for (const auto& [rows, keys, r] :
       {std::tuple<int64_t, int64_t, int64_t>{20, 20, 3},
        {9, 31, 4},
        {31, 9, 4},
        {12, 12, 40}}) {
    const Numbers q = NormalNumbers(rows * kCountedD, 1),
                  rpe = NormalNumbers((2 * r + 1) * kCountedD, 2),
                  v = NormalNumbers(keys * kCountedD, 3);
    OperatorRun run("clipped_rpe_product");
    run.Give("q", {rows, kCountedD}, q)
        .Give("rpe", {2 * r + 1, kCountedD}, rpe)
        .Give("v", {keys, kCountedD}, v);
    gap = LargestOf(
        gap, LargestDifference(
                 ClippedProduct(q, rpe, v, kCountedD, static_cast<size_t>(r)),
                 run.Definition()));
  }
  return gap;
}

Finding Terms(const Evidence& evidence) {
  Finding finding(evidence);
  const Growth by_k = JudgeGrowth(
                   finding, "products", "(2k+1)",
                   CountPart(
                       1, {{512, 512, 4}, {512, 512, 16}, {512, 512, 64}},
                       [](int64_t, int64_t, int64_t r) { return 2 * r + 1; }),
                   kLinearGrowth),
               by_rows = JudgeGrowth(
                   finding, "products", "L_Q",
                   CountPart(
                       1, {{64, 300, 8}, {256, 300, 8}, {1024, 300, 8}},
                       [](int64_t rows, int64_t, int64_t) { return rows; }),
                   kLinearGrowth),
               window = JudgeGrowth(finding, "window", "(2k-1)",
                                    CountPart(2,
                                              {{1024, 1024, 8},
                                               {1024, 1024, 16},
                                               {1024, 1024, 32},
                                               {1024, 1024, 64}},
                                              [](int64_t, int64_t, int64_t r) {
                                                return 2 * r - 1;
                                              }),
                                    kLinearGrowth);
  const Measured gap = finding.Measure("difference", CountedGap());
  finding.Add(by_k.holds && by_rows.holds && gap <= 1e-10,
              fmt::format("run on numbers that count, products with the "
                          "embeddings take {}, and {} (result within {})",
                          by_k.text, by_rows.text, gap));
  finding.Add(window.holds, "the window takes " + window.text);
  return finding;
}

Finding Cumsum(const Evidence& evidence) {
  Finding finding(evidence);
  const Growth sums = JudgeGrowth(
      finding, "sums", "L_K",
      CountPart(0, {{300, 64, 8}, {300, 256, 8}, {300, 1024, 8}},
                [](int64_t, int64_t keys, int64_t) { return keys; }),
      kLinearGrowth);
  const Measured width = finding.Measure(
      "operations for a key", sums.known ? finding.quantities()[0].value : NAN);
  finding.Require(sums.holds && width >= kCountedD,
                  fmt::format("O(max(L_Q, L_K)) leaves out the width d, which "
                              "the other terms have: run on numbers that "
                              "count, sums of values of width {} take {}",
                              kCountedD, sums.text));
  return finding;
}

// ---- programs --------------------------------------------------------------

Finding Product(const Evidence& evidence) {
  Finding finding(evidence);
  for (const bool causal : {false, true})
    for (const int64_t r : {3, 60}) {
      OperatorRun run("clipped_rpe_product");
      run.Set("causal", causal)
          .Give("q", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
          .Give("rpe", {2 * r + 1, kTriedD},
                NormalNumbers((2 * r + 1) * kTriedD, 2))
          .Give("v", {kTriedN, kTriedE}, NormalNumbers(kTriedN * kTriedE, 3));
      AddPrograms(finding, run,
                  fmt::format("k = {}{}", r, causal ? ", masked" : ""),
                  {"windowed"});
    }
  return finding;
}

// The sum of a row of scores is the product with one column of ones.
Finding Denominator(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kClip = 3;
  OperatorRun run("clipped_rpe_product");
  run.Give("q", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("rpe", {2 * kClip + 1, kTriedD},
            NormalNumbers((2 * kClip + 1) * kTriedD, 2))
      .Give("v", {kTriedN, 1}, Numbers(static_cast<size_t>(kTriedN), 1.0));
  Numbers sums(static_cast<size_t>(kTriedN));
  for (int64_t i = 0; i < kTriedN; ++i)
    for (int64_t j = 0; j < kTriedN; ++j)
      sums[i] += Dot(run["q"], i, run["rpe"],
                     std::clamp(j - i, -kClip, kClip) + kClip, kTriedD);
  const Measured gap =
      finding.Measure("difference from the sums of rows",
                      LargestDifference(run.Run("windowed"), sums));
  finding.Add(
      gap <= kTriedRounding,
      fmt::format("`windowed` on a column of ones gives the sums of the "
                  "rows of scores within {}",
                  gap));
  return finding;
}

Finding PrefixSum(const Evidence& evidence) {
  Finding finding(evidence);
  OperatorRun run = TriedAttention("linear_attention");
  run.Set("feature_map", std::string("elu1")).Set("causal", true);
  AddPrograms(finding, run, "masked", {"prefix_sum", "recurrent", "chunked"});
  return finding;
}

// Bytes of both algorithms and of the chosen one.
struct ChosenMemory {
  int64_t n, d, r;
  bool causal;
  double naive, linear, chosen;
  std::string choice;
};
std::vector<ChosenMemory> MeasureChoices() {
  std::vector<ChosenMemory> all;
  for (int64_t d : {16, 64})
    for (int64_t r : {2, 64})
      for (int64_t n : {32, 128, 512, 1024, 2048})
        for (bool causal : {false, true}) {
          CaseRequest request;
          request.op = &FindOperator("kernelized_clipped_rpe_attention");
          request.n = n;
          request.values = {{"d", std::to_string(d)},
                            {"e", std::to_string(d)},
                            {"r", std::to_string(r)},
                            {"causal", causal ? "1" : "0"}};
          const Case one = MakeCase(request);
          Problem problem = ProblemOf(one);
          Inputs inputs = GenerateInputs(one, problem);
          Trial trial(std::move(problem), std::move(inputs), 1);
          ChosenMemory chosen = {n, d, r, causal, 0, 0, 0, ""};
          const auto measure = [&](const char* id) {
            const PeakOf peak;
            const auto prepared =
                FindImplementation("kernelized_clipped_rpe_attention", id)
                    .Prepare(trial.problem(), trial.arrays(), {1});
            prepared->Run();
            if (std::string(id) == "auto") chosen.choice = prepared->Choice();
            return static_cast<double>(peak.bytes());
          };
          chosen.naive = measure("dense");
          chosen.linear = measure("linear");
          chosen.chosen = measure("auto");
          all.push_back(chosen);
        }
  return all;
}

Finding Auto(const Evidence& evidence) {
  Finding finding(evidence);
  if (!MemoryCounter::Available()) {
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
    return finding;
  }
  const std::vector<ChosenMemory> all = MeasureChoices();
  for (const bool causal : {false, true}) {
    int64_t problems = 0, best = 0;
    double worst = 0;
    const ChosenMemory* at = nullptr;
    for (const ChosenMemory& one : all) {
      if (one.causal != causal) continue;
      ++problems;
      const double times = one.chosen / std::min(one.naive, one.linear);
      best += times <= 1.01;
      if (times > worst) {
        worst = times;
        at = &one;
      }
    }
    const std::string name = causal ? "causal" : "without a mask";
    const Measured right = finding.Measure("right choices " + name,
                                           static_cast<double>(best)),
                   most = finding.Measure("worst choice " + name, worst);
    finding.Add(
        right == static_cast<double>(problems) ? Holds::kYes
        : right == 0                           ? Holds::kNo
                                               : Holds::kBetween,
        fmt::format("{}, `auto` takes no more than the better of the two "
                    "algorithms in {} of {} problems{}; its worst choice ({}) "
                    "takes {} times as much, at n = {}, d = {}, r = {}",
                    name, best, problems,
                    causal ? " (the formulas count a state for every position, "
                             "as plain tensor operations keep; this program "
                             "keeps one running state)"
                           : "",
                    at->choice, most, at->n, at->d, at->r));
  }
  return finding;
}

// ---- records ---------------------------------------------------------------

Finding Scalability(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    for (const char* id : {"associative", "prefix_sum"}) {
      const RecipeCurve curve =
          CurveOf(machine, "lrpe-runtimes-ka",
                  {{"operator", "linear_attention"}, {"implementation", id}});
      if (curve.empty())
        finding.Add(Holds::kMissing, Missing(curve));
      else
        AddGrowth(finding, curve, CurveValue::kSeconds, kLinear,
                  std::string("time of ") + id);
    }
  });
}

Finding Linear(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    for (bool causal : {false, true}) {
      const RecipeCurve curve = CurveOf(machine, "lrpe-runtimes-rpe",
                                        {{"operator", "clipped_rpe_product"},
                                         {"implementation", "windowed"},
                                         {"causal", causal}});
      const std::string name = causal ? "windowed, masked" : "windowed";
      if (curve.empty()) {
        finding.Add(Holds::kMissing, Missing(curve));
        continue;
      }
      AddGrowth(finding, curve, CurveValue::kSeconds, kLinear,
                "time of " + name);
      AddGrowth(finding, curve, CurveValue::kWorkspace, kExactLinear,
                "workspace of " + name);
    }
  });
}

}  // namespace

Paper Lrpe() {
  return {"lrpe",
          {{"lrpe-product", Product},
           {"lrpe-terms", Terms},
           {"lrpe-cumsum", Cumsum},
           {"lrpe-linear", Linear},
           {"lrpe-strided", Strided},
           {"lrpe-auto", Auto},
           {"lrpe-sign", Sign},
           {"lrpe-mask", Mask},
           {"lrpe-padding", Padding},
           {"lrpe-reverse", Reverse},
           {"lrpe-tail", Tail},
           {"lrpe-phi", Phi},
           {"lrpe-denominator", Denominator},
           {"lrpe-prefix-sum", PrefixSum},
           {"lrpe-scalability", Scalability}},
          {}};
}

}  // namespace subquad
