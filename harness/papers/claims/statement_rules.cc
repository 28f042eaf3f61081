// Claims about attention that are computed on the spot (statements.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/memory_counter.h"
#include "harness/papers/claims/properties.h"
#include "harness/papers/claims/rules.h"
#include "harness/papers/claims/statements.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

Holds YesIf(bool holds) { return holds ? Holds::kYes : Holds::kNo; }

// Bytes that a program takes beyond its inputs and its output.
double BytesOf(const std::string& op, const std::string& program, int64_t n,
               std::vector<std::pair<std::string, std::string>> values) {
  CaseRequest request;
  request.op = &FindOperator(op);
  request.n = n;
  request.values = {values.begin(), values.end()};
  const Case one = MakeCase(request);
  Problem problem = ProblemOf(one);
  Inputs inputs = GenerateInputs(one, problem);
  Trial trial(std::move(problem), std::move(inputs), 1);
  const PeakOf peak;
  FindImplementation(op, program)
      .Prepare(trial.problem(), trial.arrays(), {1})
      ->Run();
  return static_cast<double>(peak.bytes());
}

double LinearBytes(int64_t n, int64_t d, bool causal) {
  const std::string width = std::to_string(d);
  return BytesOf("linear_attention", causal ? "recurrent" : "associative", n,
                 {{"d", width},
                  {"e", width},
                  {"feature_map", "elu1"},
                  {"causal", causal ? "1" : "0"}});
}

}  // namespace

Finding FrpbLinearMemory(const Evidence&) {
  Finding finding;
  if (!MemoryCounter::Available()) {
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
    return finding;
  }
  return Judge(LinearMemory{4096, 64, LinearBytes(4096, 64, false),
                            LinearBytes(4096, 128, false)});
}

Finding Judge(const LinearMemory& memory) {
  Finding finding;
  const double n = static_cast<double>(memory.n),
               d = static_cast<double>(memory.d), printed = 4 * n * d * d,
               ratio = memory.twice_as_wide / memory.bytes;
  finding.Require(
      ratio < 3 && memory.bytes > 0 && memory.bytes < printed / 4,
      fmt::format(
          "at n = {} twice the width takes {} times the workspace, "
          "where N D^2 would take 4 times; at width {} it is {} of N "
          "D^2 numbers: O(N D + D^2)",
          memory.n, finding.Number("workspace of twice the width", ratio),
          memory.d,
          finding.Number("workspace over N D^2", memory.bytes / printed)));
  return finding;
}

Finding FrpbSikfMemory(const Evidence&) {
  Finding finding;
  if (!MemoryCounter::Available()) {
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
    return finding;
  }
  const auto bytes = [](const char* map) {
    return BytesOf("linear_attention", "associative", 4096,
                   {{"d", "64"}, {"e", "64"}, {"feature_map", map}});
  };
  const double ratio = bytes("sikf") / bytes("elu1"),
               dpfp = bytes("dpfp") / bytes("elu1");
  finding.Add(YesIf(ratio <= 1.01 && dpfp > 1.01),
              fmt::format("sikf takes {} times the workspace of elu1 at n = "
                          "4096 and width 64 (dpfp, with twice the features, "
                          "{} times)",
                          finding.Number("workspace of sikf", ratio),
                          finding.Number("workspace of dpfp", dpfp)));
  return finding;
}

Finding FrpbConstantMemory(const Evidence&) {
  Finding finding;
  if (!MemoryCounter::Available()) {
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
    return finding;
  }
  const double growth =
      LinearBytes(8192, 64, true) / LinearBytes(512, 64, true);
  finding.Add(YesIf(growth <= 1.01),
              fmt::format("`recurrent`, token by token, takes {} times the "
                          "workspace for 16 times the tokens",
                          finding.Number("growth of the workspace", growth)));
  return finding;
}

Finding Judge(const SoftmaxShift& shift) {
  Finding finding;
  finding.Require(
      shift.queries > kClear && shift.keys <= kRounding,
      fmt::format("adding 0.7 to all queries changes softmax attention by {}; "
                  "it is invariant (within {}) only to what is added to keys, "
                  "which adds one number to all scores of a row",
                  finding.Number("change by the queries", shift.queries),
                  finding.Number("change by the keys", shift.keys)));
  return finding;
}
Finding FrpbShiftSoftmax(const Evidence&) { return Judge(ShiftSoftmax()); }

Finding Judge(const Permuted& permuted) {
  Finding finding;
  finding.Require(
      permuted.invariance > kClear && permuted.equivariance <= kRounding,
      fmt::format(
          "permuted tokens change the output by {}; it is equivariant: "
          "within {} of the permuted output",
          finding.Number("difference from the output", permuted.invariance),
          finding.Number("difference from the permuted output",
                         permuted.equivariance)));
  return finding;
}
Finding FrpbInvariant(const Evidence&) { return Judge(PermuteAttention()); }

Finding Judge(const Reversal& reversal) {
  Finding finding;
  finding.Require(
      reversal.by_distance <= kRounding && reversal.by_offset > kClear,
      fmt::format(
          "|i-j| is printed beside i-j for one quantity; with a bias "
          "by |i-j| a reversed sequence gives the reversed output "
          "within {}, so before and after are the same to it, with one "
          "by i-j it differs by {}",
          finding.Number("difference by distance", reversal.by_distance),
          finding.Number("difference by offset", reversal.by_offset)));
  return finding;
}
Finding BlogOffset(const Evidence&) { return Judge(ReverseAttention()); }

Finding Judge(const Sharpness& sharp) {
  Finding finding;
  finding.Add(
      YesIf(sharp.drawn <= sharp.bound &&
            sharp.arranged > 0.999 * sharp.bound &&
            sharp.arranged < 1.001 * sharp.bound),
      fmt::format("with rows of length 1 no weight over {} keys is above e^2 / "
                  "(n - 1 + e^2) = {}: drawn rows reach {}, the best "
                  "arrangement {}",
                  sharp.keys, finding.Number("bound", sharp.bound),
                  finding.Number("largest weight drawn", sharp.drawn),
                  finding.Number("largest weight arranged", sharp.arranged)));
  finding.Add(YesIf(sharp.with_bias > 0.99),
              fmt::format("with a bias of 20 at one offset the same rows reach "
                          "{}",
                          finding.Number("largest weight with a bias",
                                         sharp.with_bias)));
  return finding;
}
Finding NprfSharp(const Evidence&) { return Judge(SharpestRow(128)); }

Finding Judge(const std::vector<MapMean>& means) {
  Finding finding;
  for (const MapMean& one : means) {
    const double off = std::abs(one.mean - 1) / one.error;
    finding.Add(
        YesIf(off <= 5 && std::abs(one.half - 1) > 5 * one.error),
        fmt::format("{}: mean over exp(x y) of {}, {} standard errors from 1 "
                    "(with half the norm in the exponent {})",
                    one.map, finding.Number("mean of " + one.map, one.mean),
                    finding.Number("standard errors of " + one.map, off),
                    finding.Number("control of " + one.map, one.half)));
  }
  return finding;
}
Finding MapsUnbiased(const Evidence&) { return Judge(MeansOfMaps(200000)); }

Finding JudgeDistinct(double least, double repeated) {
  Finding finding;
  finding.Add(YesIf(least > kClear && repeated <= kRounding),
              fmt::format("the nearest two of 512 sinusoidal positions of "
                          "width 64 are {} apart; with one frequency of period "
                          "8 positions repeat, within {}",
                          finding.Number("least distance", least),
                          finding.Number("with one frequency", repeated)));
  return finding;
}
Finding BlogUnique(const Evidence&) {
  return JudgeDistinct(NearestPositions(512, 64), NearestOfOneFrequency(512));
}

Finding BlogNullSpace(const Evidence&) {
  return JudgeRank(PositionRank(512, 1024), 512, 1024);
}
Finding JudgeRank(int64_t rank, int64_t positions, int64_t width) {
  Finding finding;
  finding.Add(
      YesIf(rank > 0 && rank < width / 2),
      fmt::format("{} sinusoidal positions of width {} span {} dimensions "
                  "(singular values above 1e-6 of the largest)",
                  positions, width,
                  finding.Number("rank", static_cast<double>(rank))));
  return finding;
}

Finding BlogQueryShift(const Evidence&) {
  Finding finding;
  constexpr int64_t kWidth = 64, kPositions = 200, kOffset = 7;
  const int64_t off = QueriesOffTheShift(kWidth, kPositions, kOffset),
                unmoved = QueriesOffTheShift(kWidth, kPositions, 0);
  finding.Add(YesIf(off == 0 && unmoved == 0),
              fmt::format("with queries rotated by {} positions the largest "
                          "product is at offset {} for all but {} of {} "
                          "queries, unrotated at 0",
                          kOffset, kOffset,
                          finding.Number("queries with another maximum",
                                         static_cast<double>(off)),
                          kPositions - kOffset));
  return finding;
}

Finding Judge(const FourTerms& terms) {
  Finding finding;
  finding.Add(
      YesIf(terms.four <= kRounding && terms.three > kClear),
      fmt::format("the four terms give the output within {}, without "
                  "the last one it differs by {}",
                  finding.Number("difference", terms.four),
                  finding.Number("difference of three terms", terms.three)));
  return finding;
}
Finding BlogEq8(const Evidence&) { return Judge(AddFourTerms()); }

Finding BlogPropagation(const Evidence&) {
  constexpr int64_t kN = 256, kLimit = 300;
  Params window;
  window.Set("pattern", std::string("sliding"));
  window.Set("causal", false);
  window.Set("window", int64_t{8});
  window.Set("dilation", int64_t{1});
  Params local = window;
  local.Set("pattern", std::string("local"));
  local.Set("block", int64_t{16});
  Params globals = window;
  globals.Set("pattern", std::string("longformer"));
  globals.Set("globals", IntegerList{0});
  Params random = window;
  random.Set("pattern", std::string("bigbird"));
  random.Set("block", int64_t{16});
  random.Set("window_blocks", int64_t{1});
  random.Set("global_blocks", int64_t{0});
  IntegerTable links;
  std::mt19937_64 generator(1);
  for (int64_t block = 0; block < kN / 16; ++block) {
    const auto first = static_cast<int64_t>(generator() % (kN / 16));
    const auto step = static_cast<int64_t>(generator() % (kN / 16 - 1));
    links.push_back({first, (first + 1 + step) % (kN / 16)});
  }
  Params blocks = random;
  random.Set("random", links);
  IntegerTable own;
  for (int64_t block = 0; block < kN / 16; ++block) own.push_back({block});
  blocks.Set("random", own);
  return Judge(Layers{kN, kLimit, LayersToReachAll(window, kN, kLimit),
                      LayersToReachAll(local, kN, kLimit),
                      LayersToReachAll(globals, kN, kLimit),
                      LayersToReachAll(blocks, kN, kLimit),
                      LayersToReachAll(random, kN, kLimit)});
}
Finding Judge(const Layers& layers) {
  Finding finding;
  finding.Add(
      YesIf(layers.window >= layers.tokens / 8 - 1 && layers.global == 2 &&
            2 * layers.random <= layers.blocks),
      fmt::format(
          "until each of {} tokens depends on all others, a window of 8 to "
          "each side takes {} layers, one more global token {}, neighbouring "
          "blocks of 16 {}, with two random blocks more for each {}",
          layers.tokens,
          finding.Number("layers of a window",
                         static_cast<double>(layers.window)),
          finding.Number("layers with a global token",
                         static_cast<double>(layers.global)),
          finding.Number("layers of blocks",
                         static_cast<double>(layers.blocks)),
          finding.Number("layers with random links",
                         static_cast<double>(layers.random))));
  finding.Add(YesIf(layers.local == layers.limit),
              fmt::format("disjoint blocks never reach each other ({} layers "
                          "tried)",
                          layers.limit));
  return finding;
}

Finding Judge(const KernelRank& rank) {
  Finding finding;
  finding.Add(
      YesIf(rank.exponential > 1e-9 && rank.linear < 1e-13),
      fmt::format(
          "the matrix of exp(x y) on {} points in 2 dimensions has "
          "full rank (smallest eigenvalue {} of the largest), so no "
          "map to fewer than {} features gives it; with {} features it "
          "would be {}",
          rank.points,
          finding.Number("smallest over largest eigenvalue", rank.exponential),
          rank.points, rank.features,
          finding.Number("the same with few features", rank.linear)));
  return finding;
}
Finding BlogInfinite(const Evidence&) { return Judge(RankOfExponential()); }

Finding Judge(const Gating& gating) {
  Finding finding;
  finding.Add(
      YesIf(gating.glu <= kRounding && gating.gmlp > kClear),
      fmt::format("permuted tokens give the permuted output of a gated "
                  "linear unit within {}, and change that of a gated "
                  "MLP with a Toeplitz matrix by {}",
                  finding.Number("difference of the unit", gating.glu),
                  finding.Number("difference of the MLP", gating.gmlp)));
  return finding;
}
Finding BlogGlu(const Evidence&) { return Judge(PermuteGating()); }

}  // namespace subquad
