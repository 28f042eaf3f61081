// The interaction matrices of the sparse patterns, read back from the program:
// with zero queries and keys every key that a query sees has the same weight,
// and with the identity matrix as values the output is the matrix of weights.
// Its nonzero places are drawn.
#include <fmt/format.h>

#include <vector>

#include "harness/judging/operator_run.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/survey/survey.h"
#include "reference/softmax/sparse_pattern.h"

namespace subquad {
namespace {

struct Pattern {
  std::string label;
  Params params;
  int64_t globals = 0;  // tokens behind the n positions
};

std::vector<Pattern> Patterns(int64_t n) {
  const int64_t step = n / 8;  // a block, and the width of a window
  std::vector<Pattern> patterns;
  const auto add = [&](const std::string& label, const std::string& name,
                       bool causal,
                       const std::vector<std::pair<std::string, int64_t>>& of) {
    Pattern pattern{label, {}};
    pattern.params.Set("pattern", name);
    pattern.params.Set("causal", causal);
    for (const auto& [key, value] : of) pattern.params.Set(key, value);
    patterns.push_back(std::move(pattern));
  };
  add("local", "local", false, {{"block", step}});
  add("local, causal", "local", true, {{"block", step}});
  add("window, causal", "sliding", true, {{"window", step}, {"dilation", 1}});
  add("dilated, causal", "sliding", true,
      {{"window", step / 2}, {"dilation", 3}});
  add("periodic, causal", "periodic_full", true,
      {{"window", step / 2}, {"stride", step}});
  add("Longformer", "longformer", false,
      {{"window", step / 2}, {"dilation", 1}});
  patterns.back().params.Set("globals", IntegerList{0, n / 2});
  add("ETC", "etc", false, {{"window", step / 2}});
  patterns.back().globals = 2;
  add("BigBird", "bigbird", false,
      {{"block", step / 2}, {"window_blocks", 1}, {"global_blocks", 1}});
  const int64_t blocks = (n + step / 2 - 1) / (step / 2);
  IntegerTable random;
  for (int64_t block = 0; block < blocks; ++block)
    random.push_back({(7 * block + 5) % blocks});
  patterns.back().params.Set("random", random);
  return patterns;
}

// Zero queries and keys, and the identity matrix as values, of the positions
// and of the global tokens behind them.
Trial TrialOf(const Pattern& pattern, int64_t n, uint64_t seed) {
  const int64_t g = pattern.globals, size = n + g;
  const auto zeros = [](int64_t count) {
    return std::vector<double>(static_cast<size_t>(count));
  };
  const auto impulses = [&](int64_t first, int64_t count) {
    std::vector<double> rows = zeros(count * size);
    for (int64_t i = 0; i < count; ++i)
      rows[static_cast<size_t>(i * size + first + i)] = 1;
    return rows;
  };
  std::vector<GivenTensor> tensors = {{"q", {n, 1}, zeros(n)},
                                      {"k", {n, 1}, zeros(n)},
                                      {"v", {n, size}, impulses(0, n)}};
  if (g > 0) {
    tensors.push_back({"q_global", {g, 1}, zeros(g)});
    tensors.push_back({"k_global", {g, 1}, zeros(g)});
    tensors.push_back({"v_global", {g, size}, impulses(n, g)});
  }
  return MakeTrial(FindOperator("sparse_attention"), pattern.params,
                   Scalar::kFloat64, tensors, seed);
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t n = parameters.at("n");
  StudyTable seen{"seen",
                  {{"pattern", "name", "pattern and its settings"},
                   {"query", "positions", "the query"},
                   {"key", "positions", "a key that it sees"}},
                  {}};
  StudyTable checks{"pairs",
                    {{"pattern", "name", "pattern and its settings"},
                     {"implementation", "name", "algorithm, in float64"},
                     {"pairs", "1", "pairs with nonzero weight"},
                     {"wrong", "1", "pairs that differ from the rule's"}},
                    {}};
  for (const Pattern& pattern : Patterns(n)) {
    const int64_t size = n + pattern.globals;
    Trial trial = TrialOf(pattern, n, run.seed());
    const SparsePattern rule(pattern.params, n, n);
    bool drawn = false;
    for (const Implementation* one : CpuImplementations(trial.problem())) {
      std::vector<double> out = RunOnce(*one, trial, run.threads());
      if (pattern.globals > 0) {
        const std::vector<double> more =
            RunOnce(*one, trial, run.threads(), "out_global");
        out.insert(out.end(), more.begin(), more.end());
      }
      // The pairs drawn are those of the first fast algorithm.
      const bool draws = !drawn && one->id != "dense";
      drawn = drawn || draws;
      int64_t pairs = 0, wrong = 0;
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j) {
          // NaN counts as nonzero.
          const bool shown = !(out[static_cast<size_t>(i * size + j)] == 0);
          pairs += shown;
          wrong += shown != rule.Sees(i, j);
          if (shown && draws) seen.Add({pattern.label, i, j});
        }
      checks.Add({pattern.label, one->id, pairs, wrong});
    }
  }
  return {seen, checks};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& checks = FindTable(tables, "pairs");
  double wrong = 0, fewest = checks.rows.empty() ? 0 : 1e300;
  for (size_t r = 0; r < checks.rows.size(); ++r) {
    wrong += checks.Number(r, "wrong");
    fewest = Least(fewest, checks.Number(r, "pairs"));
  }
  StudyVerdict verdict{"sparse-patterns",
                       "in every algorithm a query sees exactly the keys of "
                       "the pattern's rule"};
  verdict.ours = true;
  verdict.outcome = Decide(!checks.rows.empty() && wrong == 0 && fewest > 0);
  verdict.numbers =
      fmt::format("{} runs (algorithms times patterns): {:g} wrong pairs",
                  checks.rows.size(), wrong);
  return {verdict};
}

}  // namespace

Study SparsePatternsStudy() {
  Study study;
  study.name = "sparse_patterns";
  study.purpose =
      "Which keys each query sees in each sparse pattern, found by passing "
      "impulses through the operator.";
  study.source = "Transformers II figures 6 to 9";
  study.parameters = {{"n", 32}};
  study.tiny = {{"n", 16}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
