// Properties of sparse attention: the patterns drawn by hand, the fast lists of
// keys compared with the rule pair by pair, and identities with dense
// attention.
#include "reference/contract/sparse_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/judging/operator_run.h"
#include "reference/softmax/sparse_pattern.h"
#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;
constexpr int64_t kApart = 70;  // global tokens of etc: more than a tile

using Table = std::map<std::string, ParamValue>;

OperatorRun Sparse(int64_t n, const Table& params, bool causal = false,
                   int64_t d = 12, int64_t e = 7) {
  OperatorRun run("sparse_attention");
  run.Set("causal", causal)
      .Give("q", {n, d}, NormalNumbers(n * d, 1))
      .Give("k", {n, d}, NormalNumbers(n * d, 2))
      .Give("v", {n, e}, NormalNumbers(n * e, 3));
  for (const auto& [name, value] : params) run.Set(name, value);
  const auto pattern = params.find("pattern");
  if (pattern != params.end() && ToString(pattern->second) == "etc")
    run.Give("q_global", {kApart, d}, NormalNumbers(kApart * d, 4))
        .Give("k_global", {kApart, d}, NormalNumbers(kApart * d, 5))
        .Give("v_global", {kApart, e}, NormalNumbers(kApart * e, 6));
  return run;
}

OperatorRun WithBias(OperatorRun run, int64_t n) {
  return run.Give("bias", {2 * n - 1}, NormalNumbers(2 * n - 1, 7));
}

std::string Name(const Table& params, bool causal) {
  std::string text = causal ? "causal" : "both";
  for (const auto& [name, value] : params)
    if (value.index() < 5) text += " " + name + "=" + ToString(value);
  return text;
}

int64_t I(int64_t x) { return x; }
std::string S(const char* text) { return text; }

// Returns difficult variants of every pattern for n positions: windows of
// nothing and of everything, steps beyond the end, lists with duplicates, empty
// lists.
std::vector<Table> Awkward(int64_t n) {
  std::vector<Table> all;
  for (int64_t block : {I(1), I(3), I(16), I(64), I(100), n, 5 * n})
    all.push_back({{"pattern", S("local")}, {"block", block}});
  for (int64_t window : {I(0), I(1), I(70), n})
    for (int64_t dilation : {I(1), I(3), I(7), n + 1}) {
      all.push_back({{"pattern", S("sliding")},
                     {"window", window},
                     {"dilation", dilation}});
      for (const IntegerList& globals :
           {IntegerList{}, IntegerList{n - 1, 0, 0, n / 2, n - 1}})
        all.push_back({{"pattern", S("longformer")},
                       {"window", window},
                       {"dilation", dilation},
                       {"globals", globals}});
    }
  IntegerList many;  // more than a block of queries and a tile of keys
  for (int64_t x = 0; x<n; x += n> 300 ? 2 : 1) many.push_back(n - 1 - x);
  all.push_back({{"pattern", S("longformer")},
                 {"window", I(2)},
                 {"dilation", I(2)},
                 {"globals", many}});
  for (int64_t window : {I(0), I(5), n})
    for (int64_t stride : {I(1), I(2), I(7), n + 1})
      all.push_back(
          {{"pattern", S("strided")}, {"window", window}, {"stride", stride}});
  for (int64_t window : {I(0), I(5), n}) {
    all.push_back({{"pattern", S("etc")}, {"window", window}});
    for (int64_t stride : {I(1), I(2), I(7), n, n + 1, 3 * n})
      all.push_back({{"pattern", S("periodic_full")},
                     {"window", window},
                     {"stride", stride}});
  }
  for (int64_t block : {I(1), I(16), I(70), n + 1})
    for (int64_t window_blocks : {I(0), I(2), kMaxInteger})
      for (int64_t global_blocks : {I(0), I(2), kMaxInteger}) {
        const int64_t blocks = (n + block - 1) / block;
        IntegerTable random;
        for (int64_t b = 0; b < blocks; ++b) {
          random.push_back({});
          if (b % 3 != 0)
            random.back() = {(7 * b) % blocks, blocks - 1, (7 * b) % blocks};
        }
        all.push_back({{"pattern", S("bigbird")},
                       {"block", block},
                       {"window_blocks", window_blocks},
                       {"global_blocks", global_blocks},
                       {"random", random}});
      }
  return all;
}

std::string Picture(const Table& params, bool causal, int64_t n) {
  const OperatorRun run = Sparse(n, params, causal);
  const Problem problem = run.Resolve(Scalar::kFloat64);
  const SparsePattern pattern(problem.params, n, n);
  std::string picture;
  const int64_t total = SparseKeys(problem).all_keys();
  for (int64_t i = 0; i < total; ++i) {
    for (int64_t j = 0; j < total; ++j)
      picture += pattern.Sees(i, j) ? 'x' : '.';
    picture += ' ';
  }
  return picture;
}

TEST(SparsePattern, IsAsDrawnByHand) {
  EXPECT_EQ(Picture({{"pattern", S("local")}, {"block", I(2)}}, false, 5),
            "xx... xx... ..xx. ..xx. ....x ");
  EXPECT_EQ(Picture({{"pattern", S("local")}, {"block", I(2)}}, true, 5),
            "x.... xx... ..x.. ..xx. ....x ");
  EXPECT_EQ(
      Picture({{"pattern", S("sliding")}, {"window", I(1)}, {"dilation", I(2)}},
              false, 6),
      "x.x... .x.x.. x.x.x. .x.x.x ..x.x. ...x.x ");
  EXPECT_EQ(
      Picture({{"pattern", S("strided")}, {"window", I(1)}, {"stride", I(3)}},
              false, 6),
      "xx.x.. xxx.x. .xxx.x x.xxx. .x.xxx ..x.xx ");
  EXPECT_EQ(
      Picture({{"pattern", S("strided")}, {"window", I(1)}, {"stride", I(3)}},
              true, 6),
      "x..... xx.... .xx... x.xx.. .x.xx. ..x.xx ");
  EXPECT_EQ(Picture({{"pattern", S("longformer")},
                     {"window", I(1)},
                     {"dilation", I(1)},
                     {"globals", IntegerList{4, 0}}},
                    false, 6),
            "xxxxxx xxx.x. xxxxx. x.xxx. xxxxxx x...xx ");
  EXPECT_EQ(
      Picture(
          {{"pattern", S("periodic_full")}, {"window", I(0)}, {"stride", I(3)}},
          false, 6),
      "x..... .x.... xxxxxx ...x.. ....x. xxxxxx ");
  EXPECT_EQ(
      Picture(
          {{"pattern", S("periodic_full")}, {"window", I(1)}, {"stride", I(3)}},
          true, 6),
      "x..... xx.... xxx... ..xx.. ...xx. xxxxxx ");
  const std::string all(kApart, 'x');
  const std::string etc = "xx." + all + " xxx" + all + " .xx" + all + " ";
  EXPECT_EQ(Picture({{"pattern", S("etc")}, {"window", I(1)}}, false, 3)
                .substr(0, etc.size()),
            etc);
  EXPECT_EQ(Picture({{"pattern", S("etc")}, {"window", I(1)}}, true, 3)
                .substr(etc.size()),
            Picture({{"pattern", S("etc")}, {"window", I(3)}}, false, 3)
                .substr(etc.size()));
  // Query block 1 draws key block 3; the draw is not symmetric.
  EXPECT_EQ(Picture({{"pattern", S("bigbird")},
                     {"block", I(2)},
                     {"window_blocks", I(0)},
                     {"global_blocks", I(1)},
                     {"random", IntegerTable{{}, {3}, {}, {}}}},
                    false, 7),
            "xxxxxxx xxxxxxx xxxx..x xxxx..x xx..xx. xx..xx. xx....x ");
}

// Runs contain the keys of the rule, each once; their number is the sum of
// Sees.
TEST(SparseKeys, RunsAreTheRule) {
  for (int64_t n : {I(1), I(2), I(37), I(150)})
    for (const Table& params : Awkward(n))
      for (bool causal : {false, true}) {
        const OperatorRun run = Sparse(n, params, causal);
        const Problem problem = run.Resolve(Scalar::kFloat64);
        const SparsePattern pattern(problem.params, n, n);
        const SparseKeys keys(problem);
        std::vector<KeyRun> runs;
        double pairs = 0;
        int64_t most = 0;
        for (int64_t i = 0; i < keys.all_keys(); ++i) {
          keys.Runs(i, runs);
          EXPECT_LE(static_cast<int64_t>(runs.size()), keys.MaxRuns());
          std::multiset<int64_t> listed;
          std::multiset<int64_t> seen;
          for (const KeyRun& key_run : runs)
            for (int64_t x = 0; x < key_run.count; ++x)
              listed.insert(key_run.first + x * key_run.step);
          for (int64_t j = 0; j < keys.all_keys(); ++j)
            if (pattern.Sees(i, j)) seen.insert(j);
          ASSERT_EQ(listed, seen)
              << Name(params, causal) << " n " << n << " query " << i;
          pairs += static_cast<double>(seen.size());
          most = std::max(most, static_cast<int64_t>(seen.size()));
        }
        EXPECT_EQ(keys.Count().pairs, pairs);
        EXPECT_EQ(keys.Count().max_keys, most);
      }
}

// Compares every implementation with the definition on every difficult pattern.
TEST(SparseAttention, AwkwardPatterns) {
  for (int64_t n : {I(1), I(37), I(150)})
    for (const Table& params : Awkward(n))
      for (bool causal : {false, true}) {
        const OperatorRun run = Sparse(n, params, causal);
        const Numbers expected = run.Definition();
        for (const std::string& program : run.Programs())
          ASSERT_LE(LargestDifference(run.Run(program), expected), kRounding)
              << program << " " << Name(params, causal) << " n " << n;
      }
}

// Adds a bias, and the harness's own verdict on both outputs.
TEST(SparseAttention, AwkwardPatternsWithBias) {
  for (int64_t n : {I(1), I(37), I(150)})
    for (const Table& params : Awkward(n))
      for (bool causal : {false, true}) {
        const OperatorRun run = WithBias(Sparse(n, params, causal), n);
        const Numbers expected = run.Definition();
        for (const std::string& program : run.Programs())
          ASSERT_LE(LargestDifference(run.Run(program), expected), kRounding)
              << program << " " << Name(params, causal) << " n " << n;
      }
}

// Queries at positions of their own among the keys, with tensors of two heads.
struct Rectangle {
  Table params;
  int64_t n_q, n_k;

  static constexpr int64_t kHeads = 2, kD = 12, kE = 7;

  int64_t Offset() const {
    return params.contains("query_offset")
               ? std::get<int64_t>(params.at("query_offset"))
               : 0;
  }
  bool IsMasked() const { return ToString(params.at("pattern")) == "blocks"; }
  int64_t BlockOf(bool keys) const {
    const ParamValue& block = params.at("block");
    const IntegerList* list = std::get_if<IntegerList>(&block);
    return list ? (*list)[keys ? 1 : 0] : std::get<int64_t>(block);
  }
  int64_t Blocks(bool keys) const {
    return ((keys ? n_k : n_q) - 1) / BlockOf(keys) + 1;
  }
  // The mask of a head, the last row of which shows nothing, and neither does
  // the last column.
  bool Shows(int64_t head, int64_t row, int64_t column) const {
    return row + 1 < Blocks(false) && column + 1 < Blocks(true) &&
           (2 * row + 3 * column + head) % 4 < 2;
  }
  bool Sees(int64_t head, int64_t i, int64_t j, bool causal) const {
    const int64_t p = i + Offset();
    if (causal && j > p) return false;
    if (IsMasked()) return Shows(head, i / BlockOf(false), j / BlockOf(true));
    if (params.contains("block")) {
      const int64_t block = BlockOf(true);
      return p >= j / block * block && p < (j / block + 1) * block;
    }
    const auto window = std::get<int64_t>(params.at("window"));
    const auto dilation = std::get<int64_t>(params.at("dilation"));
    for (int64_t step = -window; step <= window; ++step)
      if (p + step * dilation == j) return true;
    return false;
  }
  OperatorRun Run(bool causal) const {
    OperatorRun run("sparse_attention");
    run.Set("causal", causal)
        .Give("q", {kHeads, n_q, kD}, NormalNumbers(kHeads * n_q * kD, 1))
        .Give("k", {kHeads, n_k, kD}, NormalNumbers(kHeads * n_k * kD, 2))
        .Give("v", {kHeads, n_k, kE}, NormalNumbers(kHeads * n_k * kE, 3))
        .Give("bias", {n_q + n_k - 1}, NormalNumbers(n_q + n_k - 1, 7));
    for (const auto& [name, value] : params) run.Set(name, value);
    if (!IsMasked()) return run;
    Numbers mask;
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t row = 0; row < Blocks(false); ++row)
        for (int64_t column = 0; column < Blocks(true); ++column)
          mask.push_back(Shows(h, row, column) ? 1 : 0);
    return run.Give("block_mask", {kHeads, Blocks(false), Blocks(true)}, mask);
  }
  // Returns softmax(q k^T / sqrt(d) + bias) v over the keys that are seen.
  Numbers Expected(OperatorRun& run, bool causal) const {
    Numbers out;
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < n_q; ++i) {
        Numbers row(kE, 0);
        double sum = 0;
        for (int64_t j = 0; j < n_k; ++j) {
          if (!Sees(h, i, j, causal)) continue;
          double dot = 0;
          for (int64_t a = 0; a < kD; ++a)
            dot += run["q"][(h * n_q + i) * kD + a] *
                   run["k"][(h * n_k + j) * kD + a];
          const double weight = std::exp(dot / std::sqrt(double{kD}) +
                                         run["bias"][j - i + n_q - 1]);
          sum += weight;
          for (int64_t c = 0; c < kE; ++c)
            row[c] += weight * run["v"][(h * n_k + j) * kE + c];
        }
        for (double& x : row) out.push_back(sum > 0 ? x / sum : 0);
      }
    return out;
  }
};

std::vector<Rectangle> Rectangles() {
  std::vector<Rectangle> all;
  for (const auto& [n_q, n_k] : {std::pair{I(1), I(90)},
                                 {I(37), I(150)},
                                 {I(150), I(37)},
                                 {I(90), I(90)}})
    for (const int64_t offset :
         {I(0), I(5), n_k - n_q, -n_q / 2, n_k + 20, -n_q - 20}) {
      for (const int64_t block : {I(1), I(16), I(100)})
        all.push_back({{{"pattern", S("local")},
                        {"block", block},
                        {"query_offset", offset}},
                       n_q,
                       n_k});
      for (const int64_t window : {I(0), I(3), I(70)})
        for (const int64_t dilation : {I(1), I(3), I(200)})
          all.push_back({{{"pattern", S("sliding")},
                          {"window", window},
                          {"dilation", dilation},
                          {"query_offset", offset}},
                         n_q,
                         n_k});
      for (const ParamValue& block :
           {ParamValue(I(1)), ParamValue(I(16)), ParamValue(I(200)),
            ParamValue(IntegerList{5, 16}), ParamValue(IntegerList{90, 3})})
        all.push_back({{{"pattern", S("blocks")},
                        {"block", block},
                        {"query_offset", offset}},
                       n_q,
                       n_k});
    }
  return all;
}

TEST(SparseAttention, RectanglesAndMasksOfBlocks) {
  for (const Rectangle& one : Rectangles())
    for (const bool causal : {false, true}) {
      OperatorRun run = one.Run(causal);
      const Numbers expected = one.Expected(run, causal);
      const std::string name = Name(one.params, causal) + " " +
                               std::to_string(one.n_q) + " x " +
                               std::to_string(one.n_k);
      ASSERT_LE(LargestDifference(run.Definition(), expected), kRounding)
          << name;
      ASSERT_TRUE(HasPrograms(run, {"dense", "gathered", "blocked"})) << name;
      for (const std::string& program : run.Programs()) {
        const Numbers out = run.Run(program);
        ASSERT_LE(LargestDifference(out, expected), kRounding)
            << program << " " << name;
        for (size_t x = 0; x < out.size(); ++x)
          ASSERT_EQ(out[x] == 0, expected[x] == 0) << program << " " << name;
        ASSERT_EQ(run.Run(program, Scalar::kFloat64, 3), out)
            << program << " " << name;
      }
    }
}

// A mask of one head is read in place of one for each, and blocks of one query
// and one key are a mask of pairs.
TEST(SparseAttention, BlocksOfOnePairAreAMask) {
  constexpr int64_t kQueries = 40, kKeys = 70;
  OperatorRun dense("softmax_attention"), blocks("sparse_attention");
  Numbers mask(kQueries * kKeys);
  for (size_t x = 0; x < mask.size(); ++x) mask[x] = x % 7 < 3 ? 1 : 0;
  for (OperatorRun* run : {&dense, &blocks})
    run->Give("q", {2, kQueries, 12}, NormalNumbers(2 * kQueries * 12, 1))
        .Give("k", {2, kKeys, 12}, NormalNumbers(2 * kKeys * 12, 2))
        .Give("v", {2, kKeys, 7}, NormalNumbers(2 * kKeys * 7, 3));
  dense.Give("mask", {kQueries, kKeys}, mask);
  blocks.Set("pattern", S("blocks"))
      .Set("block", I(1))
      .Give("block_mask", {kQueries, kKeys}, mask);
  const Numbers expected = dense.Run("tiled");
  for (const std::string& program : blocks.Programs())
    EXPECT_LE(LargestDifference(blocks.Run(program), expected), kRounding)
        << program;
}

TEST(SparseAttention, GlobalTokensBesideThePositions) {
  constexpr int64_t kN = 150;
  // A window that shows everything: attention over positions and global tokens.
  OperatorRun etc = Sparse(kN, {{"pattern", S("etc")}, {"window", kN}}, false);
  OperatorRun dense("softmax_attention");
  const auto both = [&](const char* name) {
    Numbers rows = etc[name];
    const Numbers& apart = etc[std::string(name) + "_global"];
    rows.insert(rows.end(), apart.begin(), apart.end());
    return rows;
  };
  dense.Give("q", {kN, 12}, etc["q"])
      .Give("k", {kN + kApart, 12}, both("k"))
      .Give("v", {kN + kApart, 7}, both("v"));
  const Numbers expected = dense.Run("tiled");
  OperatorRun without = Sparse(
      kN, {{"pattern", S("sliding")}, {"window", kN}, {"dilation", I(1)}});
  for (const std::string& program : etc.Programs()) {
    EXPECT_LE(LargestDifference(etc.Run(program), expected), kRounding)
        << program;
    // The control: no global tokens.
    EXPECT_GT(LargestDifference(without.Run(program), expected), 1e-3)
        << program;
  }
  // Compares the second output, too.
  for (bool causal : {false, true})
    for (bool bias : {false, true}) {
      OperatorRun run =
          Sparse(kN, {{"pattern", S("etc")}, {"window", I(9)}}, causal);
      if (bias) run.Give("bias", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 7));
      EXPECT_TRUE(HasPrograms(run, {"dense", "gathered", "blocked"}));
      for (const std::string& program : run.Programs()) {
        const Verdict verdict = run.Judge(program);
        EXPECT_TRUE(verdict.passed()) << program << ": " << verdict.reason;
      }
    }
}

// A constant bias changes nothing; a bias that hides everything but the window
// equals the window.
TEST(SparseAttention, BiasByOffset) {
  constexpr int64_t kN = 150;
  const Table wide = {{"pattern", S("longformer")},
                      {"window", kN},
                      {"dilation", I(1)},
                      {"globals", IntegerList{3}}};
  const Table narrow = {
      {"pattern", S("sliding")}, {"window", I(9)}, {"dilation", I(1)}};
  OperatorRun level = Sparse(kN, wide);
  level.Give("bias", {2 * kN - 1}, Numbers(2 * kN - 1, 2.5));
  OperatorRun band = Sparse(kN, wide);
  Numbers hidden(2 * kN - 1, -std::numeric_limits<double>::infinity());
  std::fill_n(hidden.begin() + kN - 1 - 9, 19, 0.0);
  band.Give("bias", {2 * kN - 1}, hidden);
  for (const std::string& program : band.Programs()) {
    EXPECT_LE(
        LargestDifference(level.Run(program), Sparse(kN, wide).Run(program)),
        kRounding)
        << program;
    EXPECT_LE(
        LargestDifference(band.Run(program), Sparse(kN, narrow).Run(program)),
        kRounding)
        << program;
    EXPECT_GT(LargestDifference(WithBias(Sparse(kN, wide), kN).Run(program),
                                Sparse(kN, wide).Run(program)),
              1e-3)
        << program;
  }
}

// A causal query 0 whose own key the bias hides sees nothing; with `alone`, no
// query does.
TEST(SparseAttention, QueriesThatTheBiasLeavesWithoutKeysAreZero) {
  constexpr int64_t kN = 90;
  for (const Table& pattern :
       {Table{{"pattern", S("sliding")}, {"window", I(1)}, {"dilation", I(1)}},
        Table{{"pattern", S("local")}, {"block", I(16)}}})
    for (const bool alone : {false, true}) {
      OperatorRun run = Sparse(kN, pattern, true);
      Numbers bias(2 * kN - 1, 0);
      bias[kN - 1] = -std::numeric_limits<double>::infinity();
      if (alone) std::fill(bias.begin(), bias.begin() + kN, bias[kN - 1]);
      run.Give("bias", {2 * kN - 1}, bias);
      const bool local = pattern.contains("block");
      for (const std::string& program : run.Programs()) {
        const Numbers out = run.Run(program);
        const auto width = static_cast<int64_t>(out.size()) / kN;
        for (int64_t i = 0; i < kN; ++i) {
          const auto row = out.begin() + i * width;
          EXPECT_EQ(
              std::all_of(row, row + width, [](double x) { return x == 0; }),
              alone || i == 0 || (local && i % 16 == 0))
              << program << " row " << i;
        }
        // An answer of zeros alone is mistrusted.
        EXPECT_EQ(run.Judge(program).outcome,
                  alone ? Outcome::kMistrusted : Outcome::kPassed)
            << program;
      }
    }
}

// Tests sizes beyond a tile, on several threads.
TEST(SparseAttention, LargerPatternsOnAnyNumberOfThreads) {
  constexpr int64_t kN = 701;
  IntegerList globals;
  for (int64_t x = 0; x < kN; x += 5) globals.push_back(x);
  const int64_t blocks = (kN + 129) / 130;
  const std::vector<Table> all = {
      {{"pattern", S("local")}, {"block", I(300)}},
      {{"pattern", S("sliding")}, {"window", I(150)}, {"dilation", I(2)}},
      {{"pattern", S("strided")}, {"window", I(40)}, {"stride", I(9)}},
      {{"pattern", S("longformer")},
       {"window", I(20)},
       {"dilation", I(3)},
       {"globals", globals}},
      {{"pattern", S("periodic_full")}, {"window", I(80)}, {"stride", I(5)}},
      {{"pattern", S("etc")}, {"window", I(90)}},
      {{"pattern", S("bigbird")},
       {"block", I(130)},
       {"window_blocks", I(1)},
       {"global_blocks", I(1)},
       {"random", IntegerTable(static_cast<size_t>(blocks), {5, 3})}}};
  for (const Table& params : all)
    for (bool causal : {false, true}) {
      const OperatorRun run = WithBias(Sparse(kN, params, causal), kN);
      const Numbers expected = run.Definition();
      for (const std::string& program : run.Programs()) {
        const Numbers out = run.Run(program);
        EXPECT_LE(LargestDifference(out, expected), kRounding)
            << program << " " << Name(params, causal);
        EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out)
            << program << " " << Name(params, causal);
      }
    }
}

// A pattern that shows everything is attention without a pattern.
TEST(SparseAttention, FullPatternsAreSoftmaxAttention) {
  constexpr int64_t kN = 150;
  const std::vector<Table> full = {
      {{"pattern", S("local")}, {"block", kN}},
      {{"pattern", S("sliding")}, {"window", kN}, {"dilation", I(1)}},
      {{"pattern", S("strided")}, {"window", kN}, {"stride", I(7)}},
      {{"pattern", S("strided")}, {"window", I(0)}, {"stride", I(1)}},
      {{"pattern", S("longformer")},
       {"window", kN},
       {"dilation", I(1)},
       {"globals", IntegerList{3}}},
      {{"pattern", S("bigbird")},
       {"block", I(50)},
       {"window_blocks", I(2)},
       {"global_blocks", I(0)},
       {"random", IntegerTable{{}, {}, {}}}}};
  for (bool causal : {false, true}) {
    OperatorRun dense("softmax_attention");
    OperatorRun sparse = Sparse(kN, full[0], causal);
    dense.Set("causal", causal);
    for (const char* name : {"q", "k"})
      dense.Give(name, {kN, 12}, sparse[name]);
    dense.Give("v", {kN, 7}, sparse["v"]);
    const Numbers expected = dense.Run("tiled");
    for (const Table& params : full) {
      const OperatorRun run = Sparse(kN, params, causal);
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), expected), kRounding)
            << program << " " << Name(params, causal);
    }
    // The control: a window that leaves out one key.
    const OperatorRun less = Sparse(
        kN, {{"pattern", S("sliding")}, {"window", kN - 2}, {"dilation", I(1)}},
        causal);
    for (const std::string& program : less.Programs())
      EXPECT_GT(LargestDifference(less.Run(program), expected), 1e-4)
          << program;
  }
}

TEST(SparseAttention, WeightsSumToOne) {
  for (const Table& params : Awkward(150)) {
    OperatorRun run = Sparse(150, params, true);
    run["v"].assign(run["v"].size(), 1);
    if (ToString(params.at("pattern")) == "etc")
      run["v_global"].assign(run["v_global"].size(), 1);
    const Numbers ones(run["v"].size(), 1);
    for (const std::string& program : run.Programs())
      EXPECT_LE(LargestDifference(run.Run(program), ones), kRounding)
          << program << " " << Name(params, true);
  }
}

// A key that a query does not see changes no bit of its output; all other keys
// do.
TEST(SparseAttention, HiddenKeysChangeNoBit) {
  constexpr int64_t kN = 150, kKey = 71;
  for (const Table& params : Awkward(kN))
    for (bool causal : {false, true}) {
      const OperatorRun run = Sparse(kN, params, causal);
      OperatorRun other = run;
      for (int64_t c = 0; c < 7; ++c) other["v"][kKey * 7 + c] += 1e6;
      const Problem problem = run.Resolve(Scalar::kFloat32);
      const SparsePattern pattern(problem.params, kN, kN);
      for (const std::string& program : run.Programs()) {
        const Numbers a = run.Run(program, Scalar::kFloat32);
        const Numbers b = other.Run(program, Scalar::kFloat32);
        for (int64_t i = 0; i < kN; ++i)
          ASSERT_EQ(a[i * 7] != b[i * 7], pattern.Sees(i, kKey))
              << program << " " << Name(params, causal) << " query " << i;
      }
    }
}

// No workspace grows like n^2 except that of the baseline: from n to 2n it may
// at most double.
TEST(SparseAttention, WorkspaceIsNotQuadratic) {
  const Operator& op = FindOperator("sparse_attention");
  for (const char* pattern : {"local", "sliding", "strided", "longformer",
                              "bigbird", "periodic_full", "etc"})
    for (const Implementation* implementation : ImplementationsOf(op)) {
      if (implementation->backend != Backend::kCpu) continue;
      double bytes[2];
      bool runs = true;
      for (int64_t doubled : {I(0), I(1)}) {
        CaseRequest request;
        request.op = &op;
        request.n = 32768 << doubled;
        request.values = {{"pattern", pattern}};
        const Problem problem = ProblemOf(MakeCase(request));
        runs = !implementation->why_not ||
               implementation->why_not(problem).empty();
        bytes[doubled] = implementation->CostOf(problem, 1).workspace_bytes;
      }
      if (!runs) continue;
      ASSERT_GT(bytes[0], 0) << implementation->id << " " << pattern;
      if (implementation->id == "dense")
        EXPECT_GT(bytes[1], 3.9 * bytes[0]) << pattern;
      else
        EXPECT_LT(bytes[1], 2.1 * bytes[0])
            << implementation->id << " " << pattern;
    }
}

void ExpectInvalid(const Table& params, const std::string& words) {
  try {
    Sparse(20, params).Resolve(Scalar::kFloat64);
    FAIL() << "taken, expected: " << words;
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
        << error.what();
  }
}

TEST(SparseAttention, ParametersThatDoNotFitAreNamed) {
  const Table longformer = {{"pattern", S("longformer")},
                            {"window", I(1)},
                            {"dilation", I(1)},
                            {"globals", IntegerList{20}}};
  ExpectInvalid(longformer, "globals");
  Table bigbird = {{"pattern", S("bigbird")},
                   {"block", I(8)},
                   {"window_blocks", I(1)},
                   {"global_blocks", I(1)},
                   {"random", IntegerTable{{0}, {1}}}};
  ExpectInvalid(bigbird, "one list for each of 3 query blocks");
  bigbird["random"] = IntegerTable{{0}, {3}, {0}};
  ExpectInvalid(bigbird, "random, list 1");
  bigbird["random"] = IntegerTable{{0}, {-1}, {0}};
  ExpectInvalid(bigbird, "random");
  ExpectInvalid(
      {{"pattern", S("sliding")}, {"window", I(-1)}, {"dilation", I(1)}},
      "window");
  ExpectInvalid(
      {{"pattern", S("sliding")}, {"window", I(1)}, {"dilation", I(0)}},
      "dilation");
  ExpectInvalid({{"pattern", S("sliding")}, {"window", I(1)}}, "dilation");
  ExpectInvalid({{"pattern", S("local")}, {"block", I(2)}, {"window", I(1)}},
                "window");
  ExpectInvalid({{"pattern", S("periodic_full")}, {"window", I(1)}}, "stride");
  ExpectInvalid(
      {{"pattern", S("periodic_full")}, {"window", I(1)}, {"stride", I(0)}},
      "stride");
  ExpectInvalid({{"pattern", S("etc")}}, "window");
  ExpectInvalid({{"pattern", S("etc")}, {"window", I(1)}, {"stride", I(2)}},
                "stride");
  try {
    Sparse(20, {{"pattern", S("etc")}, {"window", I(1)}})
        .Give("bias", {20}, Numbers(20))
        .Resolve(Scalar::kFloat64);
    FAIL() << "taken";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("bias"), std::string::npos)
        << error.what();
  }
  ExpectInvalid({{"pattern", S("blocks")}, {"block", IntegerList{4, 8, 2}}},
                "parameter block: expected an integer, or two");
  ExpectInvalid({{"pattern", S("local")}, {"block", IntegerList{4, 8}}},
                "block");
  ExpectInvalid({{"pattern", S("blocks")}, {"block", IntegerList{4, 0}}},
                "block");
  ExpectInvalid({{"pattern", S("blocks")}, {"block", I(4)}}, "block_mask");
  ExpectInvalid({{"pattern", S("strided")},
                 {"window", I(1)},
                 {"stride", I(2)},
                 {"query_offset", I(2)}},
                "query_offset");
  const auto give = [](const char* pattern, int64_t keys, const Shape& mask) {
    OperatorRun run = Sparse(20, {{"pattern", S(pattern)}});
    for (const char* name : {"k", "v"})
      run.Give(name, {keys, 12}, NormalNumbers(keys * 12, 2));
    if (mask.empty()) return run.Set("window", I(1)).Set("stride", I(2));
    return run.Set("block", IntegerList{4, 8})
        .Give("block_mask", mask, Numbers(ElementCount(mask), 1));
  };
  const auto expect_invalid = [](const OperatorRun& run,
                                 const std::string& words) {
    try {
      run.Resolve(Scalar::kFloat64);
      FAIL() << "taken, expected: " << words;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << error.what();
    }
  };
  expect_invalid(give("blocks", 30, {4, 5}), "block_mask");
  expect_invalid(give("strided", 30, {}),
                 "k: expected [n, d] = [20, 12], with these parameters as many "
                 "keys as queries, found [30, 12]");
  EXPECT_NO_THROW(give("blocks", 30, {5, 4}).Resolve(Scalar::kFloat64));
  ExpectInvalid({{"block", I(2)}}, "pattern");
  ExpectInvalid({{"pattern", S("blocky")}, {"block", I(2)}}, "pattern");
}

}  // namespace
}  // namespace subquad
