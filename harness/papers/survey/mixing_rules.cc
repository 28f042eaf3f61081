// Claims of the survey on what mixes tokens by other means than products of
// queries and keys, computed by the command itself. Each comes with a control.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/survey/survey.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// Over a window of `taps` places; `of_data`: weights from the tokens, otherwise
// an average.
OperatorRun Convolution(int64_t taps, bool of_data) {
  OperatorRun run("dynamic_convolution");
  run.Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi_k", {kTriedD, taps},
            of_data ? NormalNumbers(kTriedD * taps, 2)
                    : Numbers(static_cast<size_t>(kTriedD * taps)))
      .Give("phi_v", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 3));
  return run;
}

// The output for permuted tokens against the permuted output.
double PermutationGap(const OperatorRun& run) {
  const std::vector<int64_t> order = Rotated(kTriedN, 5);
  OperatorRun permuted = run;
  permuted["x"] = Reordered(permuted["x"], kTriedD, order);
  return LargestDifference(permuted.Definition(),
                           Reordered(run.Definition(), kTriedE, order));
}

Finding DynamicConvolution(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = Convolution(7, true);
  AddPrograms(finding, run, "dynamic convolution over 7 tokens",
              run.Programs());
  const Measured gap = finding.Measure("difference of a window of 7",
                                       PermutationGap(run)),
                 single = finding.Measure("difference of a window of 1",
                                          PermutationGap(Convolution(1, true))),
                 average =
                     finding.Measure("difference of an average over 7",
                                     PermutationGap(Convolution(7, false)));
  finding.Add(gap > kClear && single <= kRounding,
              fmt::format("permuted tokens change the output by {} over a "
                          "window of 7 tokens and by {} over one of 1",
                          gap, single));
  finding.Add(average > kClear,
              fmt::format("so do they, by {}, with weights that are all the "
                          "same: it is the window that knows the order, not "
                          "that the weights are determined by the inputs",
                          average));
  return finding;
}

OperatorRun Synthesizer(const std::string& kind) {
  OperatorRun run("synthesizer_attention");
  run.Set("kind", kind)
      .Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi_v", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 2));
  if (kind == "dense")
    run.Give("phi_1", {kTriedD, kTriedD}, NormalNumbers(kTriedD * kTriedD, 3))
        .Give("phi_2", {kTriedD, kTriedN}, NormalNumbers(kTriedD * kTriedN, 4));
  if (kind == "random")
    run.Give("logits", {kTriedN, kTriedN}, NormalNumbers(kTriedN * kTriedN, 3));
  if (kind == "factorized")
    run.Give("factor_q", {kTriedN, kTriedD},
             NormalNumbers(kTriedN * kTriedD, 3))
        .Give("factor_k", {kTriedN, kTriedD},
              NormalNumbers(kTriedN * kTriedD, 4));
  return run;
}

// How far the output of the other tokens is from a straight line as one token
// changes: zero where its value alone changes, and no weight.
double Bend(const OperatorRun& run, const std::vector<std::string>& inputs) {
  constexpr int64_t kToken = 20;
  const auto output = [&](double step) {
    OperatorRun other = run;
    for (const std::string& name : inputs) {
      const int64_t width = static_cast<int64_t>(other[name].size()) / kTriedN;
      for (int64_t c = 0; c < width; ++c)
        other[name][kToken * width + c] += step;
    }
    return other.Definition();
  };
  const Numbers before = output(0), middle = output(1), after = output(2);
  double most = 0;
  for (int64_t i = 0; i < kTriedN * kTriedE; ++i)
    if (i / kTriedE != kToken)
      most = std::max(most, std::abs(before[i] - 2 * middle[i] + after[i]));
  return most;
}

Finding SynthesizerRule(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = Synthesizer("dense");
  AddPrograms(finding, run, "the synthesizer", run.Programs());
  const Measured bend = finding.Measure("bend of the synthesizer",
                                        Bend(run, {"x"})),
                 control = finding.Measure(
                     "bend of attention",
                     Bend(TriedAttention("softmax_attention"), {"k", "v"}));
  finding.Add(bend <= kTriedRounding && control > kClear,
              fmt::format("as one token changes, the output of the others "
                          "follows a straight line within {}, as its value "
                          "does: no weight of theirs changes (attention to "
                          "queries and keys bends by {})",
                          bend, control));
  return finding;
}

// The output for a sum of two inputs against the sum of their outputs.
double GapOfSums(const OperatorRun& run) {
  OperatorRun other = run, both = run;
  other["x"] = NormalNumbers(kTriedN * kTriedD, 7);
  for (size_t c = 0; c < both["x"].size(); ++c) both["x"][c] += other["x"][c];
  Numbers sum = run.Definition();
  const Numbers second = other.Definition();
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += second[c];
  return LargestDifference(both.Definition(), sum);
}

Finding RandomSynthesizer(const Evidence& evidence) {
  Finding finding(evidence);
  double most = 0;
  for (const char* kind : {"random", "factorized"}) {
    const OperatorRun run = Synthesizer(kind);
    AddPrograms(finding, run, fmt::format("the {} synthesizer", kind),
                run.Programs());
    most = std::max(most, GapOfSums(run));
  }
  const Measured gap = finding.Measure("difference from the sum", most),
                 control = finding.Measure("difference with weights from data",
                                           GapOfSums(Synthesizer("dense")));
  finding.Add(
      gap <= kTriedRounding && control > kClear,
      fmt::format("with scores that are given, or a product of factors, "
                  "the output of a sum of inputs is the sum of their "
                  "outputs within {} (with scores from the tokens the "
                  "difference is {})",
                  gap, control));
  return finding;
}

}  // namespace

std::vector<NamedRule> SurveyMixingRules() {
  return {{"survey-dynamic-convolution", DynamicConvolution},
          {"survey-synthesizer", SynthesizerRule},
          {"survey-random-synthesizer", RandomSynthesizer}};
}

}  // namespace subquad
