// Which keys a query of linear_attention and kernelized_rpe_attention sees:
// windows, masks and packed sequences. Each is an identity between two runs,
// with a control that shows it can fail.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

// Allows for a few hundred keys and features of order one in float64, with
// room, and for transforms.
constexpr double kRounding = 1e-10;
constexpr int64_t kQueries = 150, kKeys = 170, kD = 8, kE = 5, kHeads = 2;
constexpr int64_t kEntries = kQueries + kKeys - 1;

constexpr char kLinear[] = "linear_attention";
constexpr char kBiased[] = "kernelized_rpe_attention";

OperatorRun Attention(const std::string& op, bool causal) {
  OperatorRun run(op);
  run.Set("feature_map", std::string("elu1"))
      .Set("causal", causal)
      .Give("q", {kHeads, kQueries, kD},
            NormalNumbers(kHeads * kQueries * kD, 1))
      .Give("k", {kHeads, kKeys, kD}, NormalNumbers(kHeads * kKeys * kD, 2))
      .Give("v", {kHeads, kKeys, kE}, NormalNumbers(kHeads * kKeys * kE, 3));
  if (op == kBiased) run.Give("bias", {kEntries}, NormalNumbers(kEntries, 4));
  return run;
}

using SeesKey = std::function<bool(int64_t i, int64_t j)>;

// Returns a mask of pairs [n_q, n_k].
Numbers MaskOf(const SeesKey& sees) {
  Numbers mask;
  for (int64_t i = 0; i < kQueries; ++i)
    for (int64_t j = 0; j < kKeys; ++j) mask.push_back(sees(i, j) ? 1 : 0);
  return mask;
}

// Expects that the programs and the definition give the answer of a mask of
// pairs, and zeros where a query sees nothing. Returns the programs.
std::set<std::string> ExpectMask(const std::string& op, bool causal,
                                 const OperatorRun& run, const SeesKey& sees) {
  OperatorRun masked = Attention(op, causal);
  masked.Give("mask", {kQueries, kKeys}, MaskOf(sees));
  const Numbers right = masked.Definition();
  for (int64_t i = 0; i < kQueries; ++i) {
    bool sees_nothing = true;
    for (int64_t j = 0; j < kKeys; ++j)
      sees_nothing &= !sees(i, j) || (causal && j > i);
    for (int64_t c = 0; c < kE; ++c)
      EXPECT_EQ(right[i * kE + c] == 0, sees_nothing) << op << " " << i;
  }
  EXPECT_LE(LargestDifference(run.Definition(), right), kRounding) << op;
  EXPECT_GT(LargestDifference(Attention(op, causal).Definition(), right), 1e-3)
      << op;
  std::set<std::string> programs;
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(run.Run(program), right), kRounding)
        << op << " " << program;
    EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), run.Run(program))
        << op << " " << program;
    programs.insert(program);
  }
  return programs;
}

TEST(KernelizedVisibility, WindowsHideAllOtherKeys) {
  for (const std::string op : {kLinear, kBiased})
    for (const bool causal : {false, true})
      for (const int64_t left : {0, 7, 64, 120}) {
        OperatorRun run = Attention(op, causal);
        run.Set("window_left", left).Set("window_right", int64_t{3});
        const auto programs = ExpectMask(
            op, causal, run,
            [&](int64_t i, int64_t j) { return j >= i - left && j <= i + 3; });
        EXPECT_TRUE(programs.contains("tiled")) << op;
        EXPECT_EQ(programs.contains("fft_streamed"), op == kBiased);
        EXPECT_FALSE(programs.contains("associative"));
        EXPECT_FALSE(programs.contains("recurrent"));
      }
}

// Queries begin behind all keys, so that the last ones see none of them.
TEST(KernelizedVisibility, WindowsBehindTheLastKeyAreEmpty) {
  for (const std::string op : {kLinear, kBiased}) {
    OperatorRun run = Attention(op, true);
    run.Set("window_left", int64_t{9}).Set("query_offset", int64_t{100});
    const Numbers right = run.Definition();
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, right), kRounding) << program;
      for (int64_t i = 0; i < kQueries; ++i)
        EXPECT_EQ(out[i * kE] == 0, i + 100 - 9 >= kKeys)
            << program << " " << i;
    }
  }
}

TEST(KernelizedVisibility, MasksOfKeysHideThemFromAllQueries) {
  // Left padding: with causality the first queries see nothing.
  const auto is_key = [](int64_t j) { return j >= 20 && j % 7 != 3; };
  Numbers keys;
  for (int64_t j = 0; j < kKeys; ++j) keys.push_back(is_key(j) ? 1 : 0);
  for (const std::string op : {kLinear, kBiased})
    for (const bool causal : {false, true}) {
      OperatorRun run = Attention(op, causal);
      run.Give("mask", {1, kKeys}, keys);
      const auto programs = ExpectMask(
          op, causal, run, [&](int64_t, int64_t j) { return is_key(j); });
      EXPECT_EQ(programs.contains("associative"), op == kLinear && !causal);
      EXPECT_EQ(programs.contains("chunked"), op == kLinear && causal);
      EXPECT_EQ(programs.contains("fft"), op == kBiased);
      // A hidden key has no effect, however large it is.
      for (double* const large : {&run["k"][0], &run["v"][0]})
        for (int64_t x = 0; x < 20 * std::min(kD, kE); ++x) large[x] = 1e30;
      for (const std::string& program : programs)
        EXPECT_LE(LargestDifference(run.Run(program), run.Definition()),
                  kRounding)
            << program;
    }
}

// Only algorithms that compute pairs take a mask of pairs.
TEST(KernelizedVisibility, MasksOfPairsNeedPairs) {
  const auto sees = [](int64_t i, int64_t j) {
    return i % 16 != 13 && (3 * i + 5 * j) % 11 < 7;
  };
  for (const std::string op : {kLinear, kBiased})
    for (const bool causal : {false, true}) {
      OperatorRun run = Attention(op, causal);
      run.Give("mask", {kQueries, kKeys}, MaskOf(sees));
      std::set<std::string> programs;
      for (const std::string& program : run.Programs()) {
        EXPECT_LE(LargestDifference(run.Run(program), run.Definition()),
                  kRounding)
            << op << " " << program;
        programs.insert(program);
      }
      EXPECT_EQ(programs, (std::set<std::string>{"dense", "tiled"}));
    }
}

// A small key is exact beside a large one that a window or a mask hides.
TEST(KernelizedVisibility, HiddenKeysDoNotDetermineTheScale) {
  for (const std::string op : {kLinear, kBiased})
    for (const bool window : {false, true}) {
      OperatorRun run = Attention(op, true);
      run.Set("feature_map", std::string("sikf"));
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t x = 0; x < kD; ++x) {
          run["k"][h * kKeys * kD + x] = 600;  // key 0
          run["k"][(h * kKeys + 40) * kD + x] = -300;
        }
      if (window)
        run.Set("window_left", int64_t{0});
      else
        run.Give("mask", {kQueries, kKeys},
                 MaskOf([](int64_t i, int64_t j) { return i == j; }));
      const Numbers right = run.Definition();
      for (const std::string& program : run.Programs())
        EXPECT_LE(LargestDifference(run.Run(program), right), kRounding)
            << op << " " << program;
    }
}

// Copies rows [first, first + count) of every head of x [heads, rows, width].
Numbers RowsOfHeads(const Numbers& x, int64_t rows, int64_t width,
                    int64_t first, int64_t count) {
  Numbers part;
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto begin = x.begin() + (h * rows + first) * width;
    part.insert(part.end(), begin, begin + count * width);
  }
  return part;
}

// Packed sequences give the answers of each by itself, also without queries or
// without keys.
TEST(KernelizedVisibility, PackedSequencesDoNotSeeEachOther) {
  const IntegerList queries = {40, 0, 10, 1, 40, 59};
  const IntegerList keys = {40, 5, 0, 16, 40, 69},
                    offsets = {0, 3, 0, 15, 0, 10};
  constexpr int64_t kBefore = 68, kAfter = 58;
  for (const std::string op : {kLinear, kBiased})
    for (const bool causal : {false, true})
      for (const bool window : {false, true}) {
        OperatorRun all = Attention(op, causal);
        all.Set("packed_q", queries).Set("packed_k", keys);
        all.Set("query_offset", offsets);
        if (window) all.Set("window_left", int64_t{12});
        const Numbers bias = NormalNumbers(kBefore + kAfter + 1, 5);
        Numbers mask;
        for (int64_t j = 0; j < kKeys; ++j) mask.push_back(j % 9 != 4);
        all.Give("mask", {1, kKeys}, mask);
        if (op == kBiased) all.Give("bias", {kBefore + kAfter + 1}, bias);
        const Numbers right = all.Definition();
        int64_t query = 0, key = 0;
        for (size_t s = 0; s < queries.size(); ++s) {
          const int64_t n_q = queries[s], n_k = keys[s];
          const Numbers whole = RowsOfHeads(right, kQueries, kE, query, n_q);
          if (n_q > 0 && n_k == 0) {
            EXPECT_EQ(whole, Numbers(whole.size(), 0));
          }
          if (n_q > 0 && n_k > 0) {
            OperatorRun alone = Attention(op, causal);
            alone.Set("query_offset", offsets[s]);
            if (window) alone.Set("window_left", int64_t{12});
            alone
                .Give("q", {kHeads, n_q, kD},
                      RowsOfHeads(all["q"], kQueries, kD, query, n_q))
                .Give("k", {kHeads, n_k, kD},
                      RowsOfHeads(all["k"], kKeys, kD, key, n_k))
                .Give("v", {kHeads, n_k, kE},
                      RowsOfHeads(all["v"], kKeys, kE, key, n_k))
                .Give("mask", {1, n_k},
                      Numbers(mask.begin() + key, mask.begin() + key + n_k));
            if (op == kBiased) {
              // Entry 0 belongs to the last query and the first key.
              const auto begin =
                  bias.begin() + kBefore - offsets[s] - (n_q - 1);
              alone.Give("bias", {n_q + n_k - 1},
                         Numbers(begin, begin + n_q + n_k - 1));
            }
            EXPECT_LE(LargestDifference(alone.Definition(), whole), 1e-14)
                << op << " " << s;
          }
          query += n_q;
          key += n_k;
        }
        std::set<std::string> programs;
        for (const std::string& program : all.Programs()) {
          programs.insert(program);
          const Numbers out = all.Run(program);
          EXPECT_LE(LargestDifference(out, right), kRounding)
              << op << " " << program;
          const Verdict verdict = all.Judge(program, Scalar::kFloat32);
          EXPECT_TRUE(verdict.passed())
              << op << " " << program << ": " << verdict.reason;
        }
        EXPECT_TRUE(programs.contains("dense"));
        EXPECT_EQ(programs.contains("recurrent"),
                  op == kLinear && causal && !window);
        EXPECT_EQ(programs.contains("auto"), op == kBiased);
      }
}

}  // namespace
}  // namespace subquad
