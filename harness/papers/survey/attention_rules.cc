// Claims of the survey on attention and its relations, computed by the command
// itself. Each comes with a control that lacks the property.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/frame/spectrum.h"
#include "harness/papers/survey/survey.h"
#include "reference/softmax/sparse_pattern.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// ---- fewer keys, sparse patterns -------------------------------------------

Finding Compressed(const Evidence& evidence) {
  Finding finding(evidence);
  OperatorRun compressed = TriedAttention("memory_compressed_attention");
  compressed.Set("stride", int64_t{4})
      .Give("theta_k", {4}, NormalNumbers(4, 4))
      .Give("theta_v", {4}, NormalNumbers(4, 5));
  AddPrograms(finding, compressed,
              fmt::format("memory compressed attention, {} keys for {}",
                          kTriedN / 4, kTriedN),
              compressed.Programs());
  OperatorRun linformer = TriedAttention("linformer_attention");
  linformer
      .Give("proj_k", {kTriedN / 4, kTriedN},
            NormalNumbers(kTriedN / 4 * kTriedN, 4))
      .Give("proj_v", {kTriedN / 4, kTriedN},
            NormalNumbers(kTriedN / 4 * kTriedN, 5));
  AddPrograms(finding, linformer, "Linformer", linformer.Programs());
  return finding;
}

// Rows of sparse attention's output that another value of token `j` changes.
std::vector<bool> RowsThatSee(const OperatorRun& run,
                              const std::string& program, int64_t j) {
  OperatorRun other = run;
  for (int64_t c = 0; c < kTriedE; ++c) other["v"][j * kTriedE + c] += 1;
  const Numbers before = run.Run(program), after = other.Run(program);
  std::vector<bool> rows;
  for (int64_t i = 0; i < kTriedN; ++i)
    rows.push_back(!std::equal(before.begin() + i * kTriedE,
                               before.begin() + (i + 1) * kTriedE,
                               after.begin() + i * kTriedE));
  return rows;
}

Finding SomeQueries(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kPeriod = 6, kWindow = 2;
  OperatorRun run = TriedAttention("sparse_attention");
  run.Set("pattern", std::string("periodic_full"))
      .Set("window", kWindow)
      .Set("stride", kPeriod)
      .Set("causal", true);
  int64_t wrong = 0, full = 0, programs = 0;
  for (const std::string& program : run.Programs()) {
    ++programs;
    for (int64_t j = 0; j < kTriedN; ++j) {
      const std::vector<bool> rows = RowsThatSee(run, program, j);
      for (int64_t i = 0; i < kTriedN; ++i) {
        const bool reader = i % kPeriod == kPeriod - 1;
        const bool seen = j <= i && (reader || i - j <= kWindow);
        wrong += rows[static_cast<size_t>(i)] != seen;
        full += seen && reader && i - j > kWindow;
      }
    }
  }
  const Measured others =
      finding.Measure("wrong pairs", static_cast<double>(wrong));
  finding.Add(others == 0 && full > 0 && programs > 0,
              fmt::format("of the pairs of {} tokens, read from {} programs by "
                          "changed values, {} are other than one reader of all "
                          "previous tokens in {} and a window of {} for the "
                          "rest",
                          kTriedN, programs, others, kPeriod, kWindow));
  return finding;
}

Finding Etc(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kGlobals = 3;
  OperatorRun run = TriedAttention("sparse_attention");
  run.Set("pattern", std::string("etc"))
      .Set("window", int64_t{2})
      .Give("q_global", {kGlobals, kTriedD},
            NormalNumbers(kGlobals * kTriedD, 4))
      .Give("k_global", {kGlobals, kTriedD},
            NormalNumbers(kGlobals * kTriedD, 5))
      .Give("v_global", {kGlobals, kTriedE},
            NormalNumbers(kGlobals * kTriedE, 6));
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
  const Measured change = finding.Measure("least change", least),
                 seen = finding.Measure("rows that see the first input",
                                        static_cast<double>(std::count(
                                            rows.begin(), rows.end(), true)));
  finding.Add(change > 0 && seen == 3,
              fmt::format("other values of the global tokens change every row, "
                          "by {} or more; another value of the first input "
                          "changes {} rows, those of its window",
                          change, seen));
  return finding;
}

// Layers until every one of n tokens depends on all others; `limit` if it takes
// more.
int64_t LayersToReachAll(const Params& pattern, int64_t n, int64_t limit) {
  const SparsePattern rule(pattern, n, n);
  const auto size = static_cast<size_t>(n);
  std::vector<std::vector<bool>> reached(size, std::vector<bool>(size));
  for (size_t i = 0; i < size; ++i) reached[i][i] = true;
  for (int64_t layer = 1; layer <= limit; ++layer) {
    auto next = reached;
    bool all = true;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        if (!rule.Sees(static_cast<int64_t>(i), static_cast<int64_t>(j)))
          continue;
        for (size_t k = 0; k < size; ++k)
          if (reached[j][k]) next[i][k] = true;
      }
      all = all && std::ranges::all_of(next[i], [](bool one) { return one; });
    }
    reached = std::move(next);
    if (all) return layer;
  }
  return limit;
}

Finding Propagation(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kN = 256, kLimit = 300, kBlock = 16;
  Params window;
  window.Set("pattern", std::string("sliding"));
  window.Set("causal", false);
  window.Set("window", int64_t{8});
  window.Set("dilation", int64_t{1});
  Params local = window;
  local.Set("pattern", std::string("local"));
  local.Set("block", kBlock);
  Params globals = window;
  globals.Set("pattern", std::string("longformer"));
  globals.Set("globals", IntegerList{0});
  Params random = window;
  random.Set("pattern", std::string("bigbird"));
  random.Set("block", kBlock);
  random.Set("window_blocks", int64_t{1});
  random.Set("global_blocks", int64_t{0});
  Params blocks = random;
  IntegerTable links, own;
  std::mt19937_64 generator(1);
  for (int64_t block = 0; block < kN / kBlock; ++block) {
    const auto first = static_cast<int64_t>(generator() % (kN / kBlock));
    const auto step = static_cast<int64_t>(generator() % (kN / kBlock - 1));
    links.push_back({first, (first + 1 + step) % (kN / kBlock)});
    own.push_back({block});
  }
  random.Set("random", links);
  blocks.Set("random", own);
  const auto layers = [&](const char* name, const Params& pattern) {
    return finding.Measure(
        name, static_cast<double>(LayersToReachAll(pattern, kN, kLimit)));
  };
  const Measured by_window = layers("layers of a window", window),
                 by_global = layers("layers with a global token", globals),
                 by_blocks = layers("layers of blocks", blocks),
                 by_random = layers("layers with random links", random),
                 by_local = layers("layers of disjoint blocks", local);
  finding.Add(
      by_window >= kN / 8 - 1 && by_global == 2 && 2 * by_random <= by_blocks,
      fmt::format("until each of {} tokens depends on all others, a "
                  "window of 8 to each side takes {} layers, one more "
                  "global token {}, neighbouring blocks of 16 {}, with "
                  "two random blocks more for each {}",
                  kN, by_window, by_global, by_blocks, by_random));
  finding.Add(by_local == kLimit,
              fmt::format("disjoint blocks never reach each other ({} layers "
                          "tried)",
                          by_local));
  return finding;
}

// ---- kernels ---------------------------------------------------------------

// exp(x y) on points in two dimensions: its smallest eigenvalue over its
// largest. Scaled to ones on the diagonal: the same rank, and numbers of one
// size. A map to m features cannot give a matrix of higher rank.
double LeastOverLargest(int64_t points, bool exponential) {
  constexpr int64_t kD = 2;
  const Numbers x = NormalNumbers(points * kD, 5, 1.5);
  Numbers matrix;
  for (int64_t i = 0; i < points; ++i)
    for (int64_t j = 0; j < points; ++j) {
      const double dot = Dot(x, i, x, j, kD),
                   norms = Dot(x, i, x, i, kD) + Dot(x, j, x, j, kD);
      matrix.push_back(exponential ? std::exp(dot - norms / 2) : 1 + dot);
    }
  const std::vector<double> values = Eigenvalues(matrix, points);
  return std::abs(values.front() / values.back());
}

Finding Infinite(const Evidence& evidence) {
  Finding finding(evidence);
  const Measured four = finding.Measure("smallest over largest, 4 points",
                                        LeastOverLargest(4, true)),
                 eight = finding.Measure("smallest over largest, 8 points",
                                         LeastOverLargest(8, true)),
                 twelve = finding.Measure("smallest over largest, 12 points",
                                          LeastOverLargest(12, true)),
                 linear = finding.Measure("the same of three features",
                                          LeastOverLargest(12, false));
  const bool full =
      four > 1e-9 && eight > 1e-9 && twelve > 1e-9 && linear < 1e-13;
  // A number of points proves as many features, never infinitely many.
  finding.Add(full ? Holds::kBetween : Holds::kNo,
              fmt::format("the matrix of exp(x y) on 4, 8 and 12 points in 2 "
                          "dimensions has full rank (smallest eigenvalue {}, "
                          "{}, {} of the largest), so that it takes 12 "
                          "features at least; of 1 + x y, which has three, it "
                          "is {}",
                          four, eight, twelve, linear));
  return finding;
}

Erratum StateErratum() {
  constexpr int64_t kN = 9, kD = 3, kE = 2;
  OperatorRun run("linear_attention");
  run.Set("feature_map", std::string("elu1"))
      .Set("causal", true)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kE}, NormalNumbers(kN * kE, 3));
  const Numbers q = Elu1(run["q"]), k = Elu1(run["k"]);
  const Numbers& v = run["v"];
  // The state A [d, e] and b [d], token by token; `j` < 0: the token itself.
  const auto recurrence = [&](int64_t j) {
    Numbers a(kD * kE), b(kD), out;
    for (int64_t i = 0; i < kN; ++i) {
      const int64_t key = j < 0 ? i : j;
      for (int64_t x = 0; x < kD; ++x) {
        b[x] += k[key * kD + x];
        for (int64_t c = 0; c < kE; ++c)
          a[x * kE + c] += k[key * kD + x] * v[i * kE + c];
      }
      const double below = Dot(q, i, b, 0, kD);
      for (int64_t c = 0; c < kE; ++c) {
        double above = 0;
        for (int64_t x = 0; x < kD; ++x) above += q[i * kD + x] * a[x * kE + c];
        out.push_back(above / below);
      }
    }
    return out;
  };
  const Numbers definition = run.Definition();
  double closest = HUGE_VAL;
  for (int64_t j = 0; j < kN; ++j)
    closest = LeastOf(closest, LargestDifference(recurrence(j), definition));
  return {
      "eq. 20 adds z[x_j], with a j that is not defined (every position is "
      "tried); correct is z[x_i]",
      closest, LargestDifference(recurrence(-1), definition), 0.01};
}

Finding Rnn(const Evidence& evidence) {
  Finding finding(evidence);
  finding.Add(StateErratum());
  constexpr int64_t kN = 200, kD = 8;
  OperatorRun run("linear_attention");
  run.Set("feature_map", std::string("elu1"))
      .Set("causal", true)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3));
  const Measured gap = finding.Measure(
      "difference of `recurrent`",
      LargestDifference(run.Run("recurrent"), run.Definition()));
  finding.Require(gap <= kRounding,
                  fmt::format("the program `recurrent`, one state for 200 "
                              "tokens, is within {} of the definition",
                              gap));
  return finding;
}

// ---- relations to other models ---------------------------------------------

Finding CompleteGraph(const Evidence& evidence) {
  Finding finding(evidence);
  OperatorRun graph("sparse_attention"),
      dense = TriedAttention("softmax_attention");
  graph.Set("pattern", std::string("local"))
      .Set("causal", false)
      .Set("block", kTriedN)
      .Give("q", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("k", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 2))
      .Give("v", {kTriedN, kTriedE}, NormalNumbers(kTriedN * kTriedE, 3));
  OperatorRun fewer = graph;
  fewer.Set("block", kTriedN / 2);
  const Numbers exact = dense.Definition();
  const Measured gap = finding.Measure(
                     "difference",
                     LargestDifference(graph.Definition(), exact)),
                 other = finding.Measure(
                     "difference of half",
                     LargestDifference(fewer.Definition(), exact));
  finding.Add(gap <= kTriedRounding && other > kClear,
              fmt::format("attention over the neighbours in the complete graph "
                          "is softmax attention within {}; over half of them "
                          "it differs by {}",
                          gap, other));
  return finding;
}

// Weights read from attention with the values of the identity, and the same
// weights for every channel of other values.
Finding Hypernetwork(const Evidence& evidence) {
  Finding finding(evidence);
  OperatorRun run = TriedAttention("softmax_attention");
  const Numbers output = run.Definition(), values = run["v"];
  run.Give("v", {kTriedN, kTriedN}, Identity(kTriedN));
  const Numbers weights = run.Definition();
  const Measured least = finding.Measure("smallest weight",
                                         *std::ranges::min_element(weights)),
                 gap = finding.Measure(
                     "difference of every channel",
                     LargestDifference(MatrixProduct(weights, values, kTriedN),
                                       output));
  finding.Add(least >= 0 && gap <= kTriedRounding,
              fmt::format("weights are {} or more, and one matrix of them "
                          "gives every channel within {}",
                          least, gap));
  return finding;
}

struct Hopfield {
  double gap;        // attention against one step down the energy's gradient
  double other;      // control: with values that are not the keys
  double rise;       // largest rise of the energy in an update
  double retrieved;  // distance from the stored pattern after one update
};
Hopfield HopfieldUpdate() {
  constexpr int64_t kStored = 6, kD = 8;
  constexpr double kBeta = 1.5;
  const Numbers patterns = NormalNumbers(kStored * kD, 1);
  const auto attend = [&](const Numbers& state, const Numbers& values,
                          double beta) {
    OperatorRun run("softmax_attention");
    run.Set("scale", beta)
        .Give("q", {1, kD}, state)
        .Give("k", {kStored, kD}, patterns)
        .Give("v", {kStored, kD}, values);
    return run.Definition();
  };
  // E = |state|^2 / 2 - log(sum_j exp(beta pattern_j.state)) / beta.
  const auto energy = [&](const Numbers& state) {
    double square = 0, sum = 0;
    for (double x : state) square += x * x;
    for (int64_t j = 0; j < kStored; ++j) {
      double dot = 0;
      for (int64_t x = 0; x < kD; ++x) dot += state[x] * patterns[j * kD + x];
      sum += std::exp(kBeta * dot);
    }
    return square / 2 - std::log(sum) / kBeta;
  };
  Hopfield result = {};
  Numbers state = NormalNumbers(kD, 2);
  Numbers down = state;
  constexpr double kStep = 1e-5;  // central differences: right to kStep^2
  for (int64_t x = 0; x < kD; ++x) {
    Numbers above = state, below = state;
    above[x] += kStep;
    below[x] -= kStep;
    down[x] -= (energy(above) - energy(below)) / (2 * kStep);
  }
  result.gap = LargestDifference(attend(state, patterns, kBeta), down);
  result.other = LargestDifference(
      attend(state, NormalNumbers(kStored * kD, 3), kBeta), down);
  for (int step = 0; step < 20; ++step) {
    const Numbers next = attend(state, patterns, kBeta);
    result.rise = std::max(result.rise, energy(next) - energy(state));
    state = next;
  }
  // From near a pattern, with a sharp attention.
  const Numbers stored = RowsOf(patterns, kD, 2, 3);
  Numbers near = stored;
  const Numbers noise = NormalNumbers(kD, 4, 0.05);
  for (int64_t x = 0; x < kD; ++x) near[x] += noise[x];
  result.retrieved = LargestDifference(attend(near, patterns, 40), stored);
  return result;
}

Finding HopfieldRule(const Evidence& evidence) {
  Finding finding(evidence);
  const Hopfield one = HopfieldUpdate();
  const Measured gap = finding.Measure("difference from the step", one.gap),
                 other =
                     finding.Measure("difference with other values", one.other),
                 rise = finding.Measure("largest rise", one.rise),
                 distance = finding.Measure("distance", one.retrieved);
  // Central differences of step 1e-5 are right to about 1e-9.
  finding.Add(gap <= 1e-7 && other > kClear,
              fmt::format("attention over stored patterns is a unit step down "
                          "the gradient of the Hopfield energy within {} (with "
                          "values other than the patterns the difference is "
                          "{})",
                          gap, other));
  finding.Add(
      rise <= kRounding,
      fmt::format("in 20 updates the energy rises by at most {}", rise));
  finding.Add(distance <= 1e-6,
              fmt::format("one sharp update retrieves a stored pattern within "
                          "{}",
                          distance));
  return finding;
}

}  // namespace

std::vector<NamedRule> SurveyAttentionRules() {
  return {{"survey-compressed", Compressed},
          {"survey-some-queries", SomeQueries},
          {"survey-etc", Etc},
          {"survey-propagation", Propagation},
          {"survey-infinite", Infinite},
          {"survey-rnn", Rnn},
          {"survey-complete-graph", CompleteGraph},
          {"survey-weights", Hypernetwork},
          {"survey-hopfield", HopfieldRule}};
}

}  // namespace subquad
