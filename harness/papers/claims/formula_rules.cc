// Claims that are formulas which programs follow: every program named, in
// float64, against the definition in long double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "harness/papers/claims/properties.h"
#include "harness/papers/claims/rules.h"
#include "reference/position_attention.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-11;
constexpr int64_t kN = 48, kD = 6, kE = 5;

Numbers Normal(int64_t count, uint64_t seed) {
  return NormalNumbers(count, seed);
}

OperatorRun Attention(const std::string& op) {
  OperatorRun run(op);
  run.Give("q", {kN, kD}, Normal(kN * kD, 1))
      .Give("k", {kN, kD}, Normal(kN * kD, 2))
      .Give("v", {kN, kE}, Normal(kN * kE, 3));
  return run;
}

// The largest difference of all programs from the definition, relative to the
// definition's largest number.
void AddPrograms(Finding& finding, const OperatorRun& run,
                 const std::string& what,
                 const std::vector<std::string>& programs) {
  const Numbers exact = run.Definition();
  double largest = 0, worst = 0;
  for (double x : exact) largest = std::max(largest, std::abs(x));
  std::string names;
  for (const std::string& program : programs) {
    const double gap = LargestDifference(run.Run(program), exact) / largest;
    worst = gap <= worst ? worst : gap;
    names += (names.empty() ? "`" : ", `") + program + "`";
  }
  finding.Add(worst <= kRounding && largest > 0 ? Holds::kYes : Holds::kNo,
              fmt::format("{}: {} within {} of the definition", what, names,
                          finding.Number("difference, " + what, worst)));
}

}  // namespace

namespace {

// relu needs a feature that is not zero in every row.
void Lift(OperatorRun& run, const std::string& map) {
  if (map != "relu") return;
  for (const char* name : {"q", "k"})
    for (double& x : run[name]) x += 1.5;
}

}  // namespace

Finding KernelForm(const Evidence&) {
  Finding finding;
  for (const char* map : {"elu1", "relu", "sikf", "dpfp"}) {
    OperatorRun run = Attention("linear_attention");
    run.Set("feature_map", std::string(map));
    Lift(run, map);
    if (std::string(map) == "dpfp") run.Set("nu", int64_t{1});
    AddPrograms(finding, run, map, {"associative"});
  }
  return finding;
}

Finding FrpbIndependent(const Evidence&) {
  Finding finding;
  const Numbers weights = Normal(2 * kN - 1, 4);
  OperatorRun softmax = Attention("fastrpb_attention");
  softmax.Set("attention", std::string("softmax"))
      .Give("weights", {2 * kN - 1}, weights);
  AddPrograms(finding, softmax, "softmax", {"softmax_fft"});
  for (const char* map : {"elu1", "relu", "sikf"}) {
    OperatorRun linear = Attention("fastrpb_attention");
    linear.Set("attention", std::string("linear"))
        .Set("feature_map", std::string(map))
        .Give("weights", {2 * kN - 1}, weights);
    Lift(linear, map);
    AddPrograms(finding, linear, map, {"linear_fft"});
  }
  return finding;
}

Finding FrpbToeplitz(const Evidence&) {
  Finding finding;
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kN - 1}, Normal(2 * kN - 1, 1))
      .Give("values", {kN, kE}, Normal(kN * kE, 2));
  AddPrograms(finding, run,
              fmt::format("{} weights for {} tokens", 2 * kN - 1, kN),
              {"fft", "fft_columns"});
  return finding;
}

Finding FrpbPadLengths(const Evidence&) {
  Finding finding;
  constexpr int64_t kQueries = 20, kKeys = 33;
  const Numbers weights = Normal(kQueries + kKeys - 1, 1),
                values = Normal(kKeys * kE, 2);
  OperatorRun rectangle("toeplitz_1d");
  rectangle.Give("weights", {kQueries + kKeys - 1}, weights)
      .Give("values", {kKeys, kE}, values);
  // Offsets from 1 - kKeys: those of the queries that are not there are zero.
  Numbers padded(static_cast<size_t>(kKeys - kQueries), 0.0);
  padded.insert(padded.end(), weights.begin(), weights.end());
  OperatorRun square("toeplitz_1d");
  square.Give("weights", {2 * kKeys - 1}, padded)
      .Give("values", {kKeys, kE}, values);
  Numbers first = square.Definition();
  const Numbers exact = rectangle.Definition();
  first.resize(exact.size());
  const double gap = LargestDifference(first, exact);
  finding.Add(gap <= kRounding ? Holds::kYes : Holds::kNo,
              fmt::format("{} queries padded to the {} keys give the same rows "
                          "within {}",
                          kQueries, kKeys, finding.Number("difference", gap)));
  return finding;
}

Finding LrpeProduct(const Evidence&) {
  Finding finding;
  for (const bool causal : {false, true})
    for (const int64_t r : {3, 60}) {
      OperatorRun run("clipped_rpe_product");
      run.Set("causal", causal)
          .Give("q", {kN, kD}, Normal(kN * kD, 1))
          .Give("rpe", {2 * r + 1, kD}, Normal((2 * r + 1) * kD, 2))
          .Give("v", {kN, kE}, Normal(kN * kE, 3));
      AddPrograms(finding, run,
                  fmt::format("k = {}{}", r, causal ? ", masked" : ""),
                  {"windowed"});
    }
  return finding;
}

Finding LrpeDenominator(const Evidence&) {
  Finding finding;
  // Values of one: the quotient of the two products is one.
  OperatorRun run("kernelized_clipped_rpe_attention");
  Numbers rpe = Normal(7 * kD, 4);
  for (double& x : rpe) x = std::abs(x);
  run.Give("q", {kN, kD}, Normal(kN * kD, 1))
      .Give("k", {kN, kD}, Normal(kN * kD, 2))
      .Give("v", {kN, 1}, Numbers(static_cast<size_t>(kN), 1.0))
      .Give("rpe", {7, kD}, rpe);
  AddPrograms(finding, run, "a column of ones", {"linear"});
  const double off = LargestDifference(run.Definition(),
                                       Numbers(static_cast<size_t>(kN), 1.0));
  finding.Add(
      off <= kRounding ? Holds::kYes : Holds::kNo,
      "its rows are one within " + finding.Number("difference from one", off));
  return finding;
}

Finding NprfEq10(const Evidence&) {
  Finding finding;
  constexpr int64_t kFeatures = 8;
  OperatorRun run = Attention("kernelized_rpe_attention");
  run.Set("feature_map", std::string("prf"))
      .Set("normalize", true)
      .Give("bias", {2 * kN - 1}, Normal(2 * kN - 1, 4))
      .Give("omega", {kFeatures, kD}, Normal(kFeatures * kD, 5));
  AddPrograms(finding, run, "normalised rows, prf", {"fft", "fft_streamed"});
  return finding;
}

Finding TxlTermD(const Evidence&) {
  Finding finding;
  constexpr int64_t kL = 12, kM = 7, kP = 5;
  OperatorRun run("transformer_xl_attention");
  run.Give("q", {kL, kD}, Normal(kL * kD, 1))
      .Give("k", {kM + kL, kD}, Normal((kM + kL) * kD, 2))
      .Give("v", {kM + kL, kE}, Normal((kM + kL) * kE, 3))
      .Give("r", {kM + kL, kP}, Normal((kM + kL) * kP, 4))
      .Give("w_kr", {kD, kP}, Normal(kD * kP, 5))
      .Give("u", {kD}, Normal(kD, 6))
      .Give("t", {kD}, Normal(kD, 7));
  AddPrograms(finding, run, "all four terms", {"shift"});
  // d~_k = (w_kr r_{M+L-1-k}) . t, and row i of D starts at d~_{L-1-i}.
  const Numbers r = run["r"], w = run["w_kr"], t = run["t"];
  const auto product = [&](int64_t distance) {
    double sum = 0;
    for (int64_t a = 0; a < kD; ++a)
      for (int64_t b = 0; b < kP; ++b)
        sum += w[a * kP + b] * r[distance * kP + b] * t[a];
    return sum;
  };
  Numbers once;
  for (int64_t k = 0; k < kM + kL; ++k)
    once.push_back(product(kM + kL - 1 - k));
  double gap = 0;
  for (int64_t i = 0; i < kL; ++i)
    for (int64_t j = 0; j <= kM + i; ++j)
      gap = std::max(gap, std::abs(once[kL - 1 - i + j] - product(kM + i - j)));
  finding.Add(gap == 0 ? Holds::kYes : Holds::kNo,
              fmt::format("the {} entries of d~, shifted left, are term (d) of "
                          "all {} pairs, difference {}",
                          kM + kL, kL * kM + kL * (kL + 1) / 2,
                          finding.Number("difference of term (d)", gap)));
  return finding;
}

Finding TxlTermB(const Evidence&) {
  Finding finding;
  constexpr int64_t kL = 12, kM = 7, kP = 5;
  const Numbers q = Normal(kL * kD, 1), r = Normal((kM + kL) * kP, 2),
                w = Normal(kD * kP, 3);
  // Q in the text: row k is w_kr r_{M+L-1-k}. B~ = q Q^T.
  Numbers rows(static_cast<size_t>((kM + kL) * kD));
  for (int64_t k = 0; k < kM + kL; ++k)
    for (int64_t a = 0; a < kD; ++a)
      for (int64_t b = 0; b < kP; ++b)
        rows[k * kD + a] += w[a * kP + b] * r[(kM + kL - 1 - k) * kP + b];
  const auto entry = [&](int64_t i, int64_t k) {
    double sum = 0;
    for (int64_t a = 0; a < kD; ++a) sum += q[i * kD + a] * rows[k * kD + a];
    return sum;
  };
  double gap = 0, unshifted = 0;
  for (int64_t i = 0; i < kL; ++i)
    for (int64_t j = 0; j <= kM + i; ++j) {
      double exact = 0;
      for (int64_t a = 0; a < kD; ++a) {
        double key = 0;
        for (int64_t b = 0; b < kP; ++b)
          key += w[a * kP + b] * r[(kM + i - j) * kP + b];
        exact += q[i * kD + a] * key;
      }
      gap = std::max(gap, std::abs(entry(i, kL - 1 - i + j) - exact));
      unshifted = std::max(unshifted, std::abs(entry(i, j) - exact));
    }
  finding.Add(gap <= kRounding && unshifted > 0.01 ? Holds::kYes : Holds::kNo,
              fmt::format("row i of q Q^T, shifted left by L-1-i, is term (b) "
                          "within {}; unshifted it is off by {}",
                          finding.Number("difference", gap),
                          finding.Number("difference unshifted", unshifted)));
  return finding;
}

Finding LrpePrefixSum(const Evidence&) {
  Finding finding;
  OperatorRun run = Attention("linear_attention");
  run.Set("feature_map", std::string("elu1")).Set("causal", true);
  AddPrograms(finding, run, "masked", {"prefix_sum", "recurrent", "chunked"});
  return finding;
}

Finding FrpbPropB1(const Evidence&) {
  Finding finding;
  constexpr int64_t kSide = 5, kPixels = kSide * kSide;
  Numbers identity(static_cast<size_t>(kPixels * kPixels));
  for (int64_t p = 0; p < kPixels; ++p) identity[p * kPixels + p] = 1;
  // The matrix X, or with `columns` Y: its rows are those of pixels.
  const auto matrix = [&](bool columns) {
    const Numbers weights = Normal(2 * kSide - 1, 1),
                  none(static_cast<size_t>(2 * kSide - 1));
    OperatorRun run("toeplitz_2d_xy");
    run.Set("height", kSide)
        .Set("width", kSide)
        .Give("weights_rows", {2 * kSide - 1}, columns ? none : weights)
        .Give("weights_cols", {2 * kSide - 1}, columns ? weights : none)
        .Give("values", {kPixels, kPixels}, identity);
    return run.Definition();
  };
  const auto spread = [&](bool columns, bool along_row) {
    const Numbers all = matrix(columns);
    double most = 0;
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x)
        for (int64_t p = 0; p < kPixels; ++p) {
          const int64_t other = along_row ? y * kSide : x;
          most = std::max(most, std::abs(all[(y * kSide + x) * kPixels + p] -
                                         all[other * kPixels + p]));
        }
    return most;
  };
  const double x_along = spread(false, true), y_down = spread(true, false),
               control = std::min(spread(false, false), spread(true, true));
  finding.Add(
      x_along == 0 && y_down == 0 && control > 0.01 ? Holds::kYes : Holds::kNo,
      fmt::format("the rows of X that belong to one row of pixels differ by "
                  "{}, those of Y that belong to one column by {}; the other "
                  "way round by {} or more",
                  finding.Number("difference along a row", x_along),
                  finding.Number("difference down a column", y_down),
                  finding.Number("least difference the other way", control)));
  return finding;
}

namespace {

// Rows of sparse attention's output that another value of token `j` changes.
std::vector<bool> RowsThatSee(const OperatorRun& run,
                              const std::string& program, int64_t j) {
  OperatorRun other = run;
  for (int64_t c = 0; c < kE; ++c) other["v"][j * kE + c] += 1;
  const Numbers before = run.Run(program), after = other.Run(program);
  std::vector<bool> rows;
  for (int64_t i = 0; i < kN; ++i)
    rows.push_back(!std::equal(before.begin() + i * kE,
                               before.begin() + (i + 1) * kE,
                               after.begin() + i * kE));
  return rows;
}

}  // namespace

Finding BlogSomeQueries(const Evidence&) {
  Finding finding;
  constexpr int64_t kPeriod = 6, kWindow = 2;
  OperatorRun run = Attention("sparse_attention");
  run.Set("pattern", std::string("periodic_full"))
      .Set("window", kWindow)
      .Set("stride", kPeriod)
      .Set("causal", true);
  int64_t wrong = 0, full = 0, programs = 0;
  for (const std::string& program : run.Programs()) {
    ++programs;
    for (int64_t j = 0; j < kN; ++j) {
      const std::vector<bool> rows = RowsThatSee(run, program, j);
      for (int64_t i = 0; i < kN; ++i) {
        const bool reader = i % kPeriod == kPeriod - 1;
        const bool seen = j <= i && (reader || i - j <= kWindow);
        wrong += rows[static_cast<size_t>(i)] != seen;
        full += seen && reader && i - j > kWindow;
      }
    }
  }
  finding.Add(
      wrong == 0 && full > 0 && programs > 0 ? Holds::kYes : Holds::kNo,
      fmt::format("of the pairs of {} tokens, read from {} programs by changed "
                  "values, {} are other than one reader of all previous tokens "
                  "in {} and a window of {} for the rest",
                  kN, programs,
                  finding.Number("wrong pairs", static_cast<double>(wrong)),
                  kPeriod, kWindow));
  return finding;
}

Finding BlogEtc(const Evidence&) {
  Finding finding;
  constexpr int64_t kGlobals = 3;
  OperatorRun run = Attention("sparse_attention");
  run.Set("pattern", std::string("etc"))
      .Set("window", int64_t{2})
      .Give("q_global", {kGlobals, kD}, Normal(kGlobals * kD, 4))
      .Give("k_global", {kGlobals, kD}, Normal(kGlobals * kD, 5))
      .Give("v_global", {kGlobals, kE}, Normal(kGlobals * kE, 6));
  AddPrograms(finding, run, fmt::format("{} global tokens", kGlobals),
              run.Programs());
  // Every input sees a global token; none sees an input beyond the window.
  OperatorRun other = run;
  for (double& x : other["v_global"]) x += 1;
  const Numbers before = run.Definition(), after = other.Definition();
  double least = HUGE_VAL;
  for (size_t i = 0; i < before.size(); ++i)
    least = std::min(least, std::abs(after[i] - before[i]));
  const std::vector<bool> rows = RowsThatSee(run, run.Programs().front(), 0);
  const auto seen = std::count(rows.begin(), rows.end(), true);
  finding.Add(least > 0 && seen == 3 ? Holds::kYes : Holds::kNo,
              fmt::format("other values of the global tokens change every row, "
                          "by {} or more; another value of the first input "
                          "changes {} rows, those of its window",
                          finding.Number("least change", least),
                          finding.Number("rows that see the first input",
                                         static_cast<double>(seen))));
  return finding;
}

Finding BlogSchemes(const Evidence&) {
  Finding finding;
  for (const std::string& scheme : PositionSchemeNames()) {
    const double gap = SchemeGap(scheme);
    finding.Add(gap <= kRounding ? Holds::kYes : Holds::kNo,
                fmt::format("{} within {}", scheme,
                            finding.Number("difference of " + scheme, gap)));
  }
  finding.Note("of all programs from the definition of its equation");
  return finding;
}

Finding BlogCompressed(const Evidence&) {
  Finding finding;
  OperatorRun compressed = Attention("memory_compressed_attention");
  compressed.Set("stride", int64_t{4})
      .Give("theta_k", {4}, Normal(4, 4))
      .Give("theta_v", {4}, Normal(4, 5));
  AddPrograms(
      finding, compressed,
      fmt::format("memory compressed attention, {} keys for {}", kN / 4, kN),
      compressed.Programs());
  OperatorRun linformer = Attention("linformer_attention");
  linformer.Give("proj_k", {kN / 4, kN}, Normal(kN / 4 * kN, 4))
      .Give("proj_v", {kN / 4, kN}, Normal(kN / 4 * kN, 5));
  AddPrograms(finding, linformer, "Linformer", linformer.Programs());
  return finding;
}

Finding BlogCompleteGraph(const Evidence&) {
  Finding finding;
  OperatorRun graph("sparse_attention"), dense = Attention("softmax_attention");
  graph.Set("pattern", std::string("local"))
      .Set("causal", false)
      .Set("block", kN)
      .Give("q", {kN, kD}, Normal(kN * kD, 1))
      .Give("k", {kN, kD}, Normal(kN * kD, 2))
      .Give("v", {kN, kE}, Normal(kN * kE, 3));
  OperatorRun fewer = graph;
  fewer.Set("block", kN / 2);
  const Numbers exact = dense.Definition();
  const double gap = LargestDifference(graph.Definition(), exact),
               other = LargestDifference(fewer.Definition(), exact);
  finding.Add(gap <= kRounding && other > 0.01 ? Holds::kYes : Holds::kNo,
              fmt::format("attention over the neighbours in the complete graph "
                          "is softmax attention within {}; over half of them "
                          "it differs by {}",
                          finding.Number("difference", gap),
                          finding.Number("difference of half", other)));
  return finding;
}

}  // namespace subquad
