// Claims that are properties, computed by the command itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/papers/claims/properties.h"
#include "harness/papers/claims/rules.h"
#include "reference/position_attention.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

Holds YesIf(bool holds) { return holds ? Holds::kYes : Holds::kNo; }

}  // namespace

Finding SikfShift(const Evidence&) {
  Finding finding;
  const double sikf = ChangeByShift("sikf");
  finding.Add(YesIf(sikf <= kRounding),
              "with exp features, adding 0.7 to all queries and -0.4 to all "
              "keys changes the output by " +
                  finding.Number("change with sikf", sikf));
  std::string others;
  double least = HUGE_VAL;
  for (const char* map : {"elu1", "relu", "dpfp"}) {
    const double change = ChangeByShift(map);
    least = change >= least ? least : change;
    others += (others.empty() ? "" : ", ") + std::string(map) + " by " +
              finding.Number(std::string("change with ") + map, change);
  }
  finding.Add(YesIf(least > kClear), "with the other maps: " + others);
  return finding;
}

Finding FrpbPad(const Evidence&) {
  Finding finding;
  const Padding small = PadToSquare(5, 9), tall = PadToSquare(11, 3);
  const double gap = std::max(small.gap, tall.gap);
  const bool could_fail = std::min(small.unpadded, tall.unpadded) > kClear;
  finding.Add(YesIf(gap <= kRounding && could_fail),
              fmt::format("images of 5 x 9 and 11 x 3 pixels, padded to "
                          "squares, agree within {} with the form with two "
                          "vectors of weights",
                          finding.Number("difference when padded", gap)));
  const Padding wide = PadToSquare(16, 64);
  finding.Note(fmt::format(
      "padding 16 x 64 pixels makes {} times as many, and the product reads "
      "and writes {} times as many bytes",
      finding.Number("times as many pixels for 16 x 64", wide.more_pixels),
      finding.Number("times as many bytes for 16 x 64", wide.more_bytes)));
  return finding;
}

Finding LrpeAuto(const Evidence&) {
  Finding finding;
  const std::vector<ChosenMemory> all = MeasureChoices();
  if (all.empty()) {
    finding.Add(Holds::kUntestable, "bytes cannot be counted in this build");
    return finding;
  }
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
    finding.Add(
        best == problems ? Holds::kYes
        : best == 0      ? Holds::kNo
                         : Holds::kBetween,
        fmt::format(
            "{}, `auto` takes no more than the better of the two algorithms in "
            "{} of {} problems{}; its worst choice ({}) takes {} times as "
            "much, "
            "at n = {}, d = {}, r = {}",
            name, best, problems,
            causal ? " (the formulas count a state for every position; the "
                     "program keeps one running state)"
                   : "",
            at->choice, finding.Number("worst choice " + name, worst), at->n,
            at->d, at->r));
  }
  return finding;
}

Finding NprfFootnote3(const Evidence&) {
  Finding finding;
  const Generation small = GenerateTokens(100, true);
  constexpr int64_t kTokens = 4096;
  const Generation one = GenerateTokens(kTokens, false);
  finding.Add(
      YesIf(one.algorithm > one.direct),
      fmt::format("generating {} tokens takes {} times the operations of plain "
                  "sums when each token repeats the transform over its prefix",
                  kTokens,
                  finding.Number("algorithm 1 at every token over plain sums",
                                 one.algorithm / one.direct)));
  // The operator allows more: the same outputs by blocks (online convolution).
  const bool lifted = small.gap <= kRounding && one.blocks < one.direct;
  finding.Add(lifted ? Holds::kNo : Holds::kYes,
              fmt::format("transforms of blocks of doubling length, each done "
                          "once, give the same outputs (within {} for 100 "
                          "tokens, each computed from the last output) with {} "
                          "times the operations of plain sums, so the limit is "
                          "the algorithm's, not the operator's",
                          finding.Number("difference by blocks", small.gap),
                          finding.Number("blocks over plain sums",
                                         one.blocks / one.direct)));
  return finding;
}

Finding BlogEquivariance(const Evidence&) {
  Finding finding;
  const double plain = EquivarianceGap("");
  finding.Add(YesIf(plain <= kRounding),
              "permuted tokens give permuted outputs within " +
                  finding.Number("difference without positions", plain));
  double least = HUGE_VAL;
  std::string names;
  for (const std::string& scheme : PositionSchemeNames()) {
    const double gap = EquivarianceGap(scheme);
    finding.Number("difference with " + scheme, gap);
    least = gap >= least ? least : gap;
    names += (names.empty() ? "" : ", ") + scheme;
  }
  finding.Add(YesIf(least > kClear),
              fmt::format("every scheme ({}) breaks this, by {} or more", names,
                          finding.Number("least difference", least)));
  return finding;
}

Finding BlogRotation(const Evidence&) {
  Finding finding;
  const Rotation rotation = RotatePositions(64, 128);
  finding.Add(YesIf(rotation.gap <= 1e-11 && rotation.other_way > kClear),
              fmt::format("rotated and shifted positions differ by at most {} "
                          "(128 positions, width 64), and by up to {} when "
                          "rotated the other way",
                          finding.Number("difference", rotation.gap),
                          finding.Number("difference the other way",
                                         rotation.other_way)));
  return finding;
}

Finding BlogConvolution(const Evidence&) {
  Finding finding;
  const Convolution one = HeadsAsConvolution();
  finding.Add(
      YesIf(one.shift <= kRounding && one.blunt > kClear),
      fmt::format("a head with a bias of 60 at one offset is a shift within {} "
                  "(with a bias of 1 the difference is {})",
                  finding.Number("difference from a shift", one.shift),
                  finding.Number("difference of a blunt head", one.blunt)));
  finding.Add(
      YesIf(one.convolution <= kRounding),
      "a weighted sum of three heads is a convolution within " +
          finding.Number("difference from a convolution", one.convolution));
  finding.Note(fmt::format(
      "this is for rows with all their neighbours: at the ends, where a "
      "convolution has zeros, a head becomes a mean over all tokens (a "
      "difference of {})",
      finding.Number("difference at the ends", one.ends)));
  return finding;
}

Finding BlogHopfield(const Evidence&) {
  Finding finding;
  const Hopfield one = HopfieldUpdate();
  // Central differences of step 1e-5 are right to about 1e-9.
  finding.Add(
      YesIf(one.gap <= 1e-7 && one.other > kClear),
      fmt::format("attention over stored patterns is a unit step down "
                  "the gradient of the Hopfield energy within {} (with values "
                  "other than the patterns the difference is {})",
                  finding.Number("difference from the step", one.gap),
                  finding.Number("difference with other values", one.other)));
  finding.Add(YesIf(one.rise <= kRounding),
              "in 20 updates the energy rises by at most " +
                  finding.Number("largest rise", one.rise));
  finding.Add(YesIf(one.retrieved <= 1e-6),
              "one sharp update retrieves a stored pattern within " +
                  finding.Number("distance", one.retrieved));
  return finding;
}

}  // namespace subquad
