#include "harness/papers/ours/ours.h"

#include <cmath>

#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/sweep_parts.h"

namespace subquad {
namespace {

RecipeCurve Kernelized(const Machine& machine, const std::string& id) {
  return CurveOf(machine, "nprf-memory",
                 {{"operator", "kernelized_rpe_attention"},
                  {"implementation", id},
                  {"f", 64}});
}

// Numbers of four bytes over n m d.
double ShareOf(const CurvePoint& point) {
  return point.workspace / 4 /
         (point.n * point.size.value("f", std::nan("")) *
          point.size.value("e", std::nan("")));
}

Finding AlgorithmOneMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    const RecipeCurve printed = Kernelized(machine, "fft"),
                      streamed = Kernelized(machine, "fft_streamed");
    if (printed.empty() || streamed.empty()) {
      finding.Add(Holds::kMissing,
                  Missing(printed.empty() ? printed : streamed));
      return;
    }
    double smallest = HUGE_VAL;
    for (const CurvePoint& point : printed.points)
      smallest = LeastOf(smallest, ShareOf(point));
    const Measured least =
        finding.Measure("numbers of fft over n m d", smallest);
    finding.Add(!std::isfinite(least) ? Holds::kMissing
                : least >= 1          ? Holds::kYes
                                      : Holds::kNo,
                fmt::format("fft, algorithm 1 as printed, keeps at least {} n "
                            "m d numbers",
                            least));
    AddGrowth(finding, printed, CurveValue::kWorkspace, kExactLinear,
              "workspace of fft");
    const CurvePoint& last = printed.points.back();
    const CurvePoint* other = streamed.At(last.n);
    if (!other) {
      finding.Add(Holds::kMissing, "no largest size in common");
      return;
    }
    const Measured fewer =
        Measure(finding, "fft over fft_streamed",
                RatioOf(last, *other, CurveValue::kWorkspace));
    finding.Add(
        AtLeast(fewer, 2),
        fmt::format("a few channels at a time take {} n m d numbers at n = "
                    "{:.10g}{}",
                    finding.Mention("numbers of fft_streamed over n m d",
                                    ShareOf(*other)),
                    last.n, RatioText(fewer, {",", "fewer", "more", ""})));
  });
}

}  // namespace

Paper Ours() {
  return {"ours",
          {{"ours-algorithm1-memory", AlgorithmOneMemory}},
          {BaselinesStudy(), ApproximationsStudy(), EmbeddingsStudy(),
           PrecisionStudy(), MarginsStudy(), GatesStudy()}};
}

}  // namespace subquad
