// Claims of NPRF that records of sweeps answer. Each rule looks at one
// machine's records.
#include <algorithm>
#include <cmath>

#include "harness/papers/frame/sweep_parts.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

RecipeCurve Kernelized(const Machine& machine, const std::string& recipe,
                       const std::string& id, int features,
                       const std::string& backend = "cpu") {
  return CurveOf(machine, recipe,
                 {{"operator", "kernelized_rpe_attention"},
                  {"implementation", id},
                  {"f", features}},
                 backend);
}

Finding Time(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    const RecipeCurve curve = Kernelized(machine, "nprf-memory", "fft", 64);
    if (curve.empty())
      finding.Add(Holds::kMissing, Missing(curve));
    else
      AddGrowth(finding, curve, CurveValue::kSeconds, kNearLinear,
                "time of fft, algorithm 1 as printed,");
  });
}

// Where the two are measured, and the programs for softmax attention.
struct Place {
  const char *recipe, *backend;
  std::vector<const char*> baselines;
};
const Place kCpu = {"nprf-fig1a", "cpu", {"dense", "tiled"}};
// In float32, and in bfloat16 on the tensor cores.
const Place kGpu = {"gpu-attention", "cuda", {"tiled", "tensor_cores"}};

// Whether a program with m features overtakes programs for softmax attention.
void AddOvertaking(const Machine& machine, const Place& place,
                   const std::string& id, int m, Finding& finding) {
  const RecipeCurve fast =
      Kernelized(machine, place.recipe, id, m, place.backend);
  if (fast.empty()) {
    finding.Add(Holds::kMissing, Missing(fast));
    return;
  }
  for (const std::string baseline : place.baselines) {
    const RecipeCurve slow = CurveOf(
        machine, place.recipe,
        {{"operator", "softmax_attention"}, {"implementation", baseline}},
        place.backend);
    if (slow.empty()) {
      finding.Add(Holds::kMissing, Missing(slow));
      continue;
    }
    // The claim is about long sequences: the longest that both have.
    const CurvePoint *dense = nullptr, *other = nullptr;
    for (const CurvePoint& point : slow.points)
      if (const CurvePoint* found = fast.At(point.n)) {
        dense = &point;
        other = found;
      }
    if (!dense || fast.mixed || slow.mixed) {
      finding.Add(Holds::kMissing, "no times of one processor at one size");
      continue;
    }
    const Measured ratio = Measure(
        finding, fmt::format("time of {} softmax over m = {}", baseline, m),
        RatioOf(*dense, *other, CurveValue::kSeconds));
    Holds holds = AtLeast(ratio, 1);
    // The figure goes up to 40k: what is behind before may still overtake.
    if (holds == Holds::kNo && dense->n < 40000)
      holds = dense->n < 10000 ? Holds::kMissing : Holds::kBetween;
    finding.Add(
        holds,
        fmt::format(
            "{}; {}",
            Overtakes(finding,
                      fmt::format("crossover of m = {} with {}", m, baseline),
                      fmt::format("m = {}", m),
                      fmt::format("{} softmax", baseline), fast, slow,
                      CrossoverOf(fast, slow, CurveValue::kSeconds)),
            RatioText(ratio, {fmt::format("at n = {:.10g} it is", dense->n),
                              "faster", "slower", ""})));
  }
}

Finding Fig1a(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    AddOvertaking(machine, kCpu, "fft", 64, finding);
  });
}

// The same sums with fewer channels at a time: our algorithm, not the paper's.
Finding Fig1aStreamed(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    for (const int m : {16, 32, 64, 128})
      AddOvertaking(machine, kCpu, "fft_streamed", m, finding);
  });
}

// On the GPU, too, the same sums with fewer channels at a time.
Finding Fig1aGpu(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    AddOvertaking(machine, kGpu, "fft_streamed", 64, finding);
  });
}

}  // namespace

std::vector<NamedRule> NprfSweepRules() {
  return {{"nprf-time", Time},
          {"nprf-fig1a", Fig1a},
          {"nprf-fig1a-streamed", Fig1aStreamed},
          {"nprf-fig1a-gpu", Fig1aGpu}};
}

}  // namespace subquad
