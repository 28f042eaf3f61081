// Claims of the survey on what mixes tokens by other means than products of
// queries and keys, computed by the command itself. Each comes with a control.
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

}  // namespace

std::vector<NamedRule> SurveyMixingRules() {
  return {{"survey-dynamic-convolution", DynamicConvolution}};
}

}  // namespace subquad
