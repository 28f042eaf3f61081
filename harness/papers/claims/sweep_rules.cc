// Claims of the other papers that records of sweeps answer. Each rule looks at
// one machine's records.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/papers/claims/counts.h"
#include "harness/papers/claims/rules.h"
#include "harness/papers/claims/sweep_parts.h"

namespace subquad {

// ---- LRPE ------------------------------------------------------------------

Finding LrpeScalability(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const char* id : {"associative", "prefix_sum"}) {
      const RecipeCurve curve =
          CurveOf(machine, "lrpe-runtimes-ka",
                  {{"operator", "linear_attention"}, {"implementation", id}});
      if (curve.empty())
        finding.Add(Holds::kMissing, Missing(curve));
      else
        AddGrowth(finding, curve, CurveValue::kSeconds, kLinear,
                  std::string("time of ") + id);
    }
    return finding;
  });
}

Finding LrpeLinear(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (bool causal : {false, true}) {
      const RecipeCurve curve = CurveOf(machine, "lrpe-runtimes-rpe",
                                        {{"operator", "clipped_rpe_product"},
                                         {"implementation", "windowed"},
                                         {"causal", causal}});
      const std::string name = causal ? "windowed, masked" : "windowed";
      if (curve.empty()) {
        finding.Add(Holds::kMissing, Missing(curve));
        continue;
      }
      AddGrowth(finding, curve, CurveValue::kSeconds, kLinear,
                "time of " + name);
      AddGrowth(finding, curve, CurveValue::kWorkspace, kExactLinear,
                "workspace of " + name);
    }
    return finding;
  });
}

// ---- NPRF ------------------------------------------------------------------

namespace {

RecipeCurve Kernelized(const Machine& machine, const std::string& recipe,
                       const std::string& id, int features) {
  return CurveOf(machine, recipe,
                 {{"operator", "kernelized_rpe_attention"},
                  {"implementation", id},
                  {"f", features}});
}

}  // namespace

Finding NprfTime(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const auto& [id, recipe] :
         {std::pair{"fft", "nprf-memory"}, {"fft_streamed", "nprf-fig1a"}}) {
      const RecipeCurve curve = Kernelized(machine, recipe, id, 64);
      if (curve.empty())
        finding.Add(Holds::kMissing, Missing(curve));
      else
        AddGrowth(finding, curve, CurveValue::kSeconds, kNearLinear,
                  std::string("time of ") + id);
    }
    return finding;
  });
}

Finding NprfMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    const RecipeCurve printed = Kernelized(machine, "nprf-memory", "fft", 64);
    if (printed.empty()) {
      finding.Add(Holds::kMissing, Missing(printed));
      return finding;
    }
    // Numbers of four bytes, over n m d.
    const auto share = [](const CurvePoint& point) {
      return point.workspace / 4 /
             (point.n * point.size.value("f", std::nan("")) *
              point.size.value("e", std::nan("")));
    };
    double least = HUGE_VAL;
    for (const CurvePoint& point : printed.points) {
      const double one = share(point);
      least = one >= least ? least : one;
    }
    finding.Add(
        std::isnan(least) || std::isinf(least) ? Holds::kMissing
        : least >= 1                           ? Holds::kYes
                                               : Holds::kNo,
        fmt::format("fft, algorithm 1 as printed, keeps at least {} n m "
                    "d numbers",
                    finding.Number("numbers of fft over n m d", least)));
    AddGrowth(finding, printed, CurveValue::kWorkspace, kExactLinear,
              "workspace of fft");
    const RecipeCurve streamed =
        Kernelized(machine, "nprf-memory", "fft_streamed", 64);
    const CurvePoint& last = printed.points.back();
    if (const CurvePoint* other = streamed.At(last.n)) {
      const Quotient ratio = RatioOf(last, *other, CurveValue::kWorkspace);
      finding.Number("fft over fft_streamed", ratio.ratio);
      finding.Note(fmt::format(
          "the same sums a few channels at a time take {} n m d numbers at n = "
          "{:.10g}{}",
          finding.Number("numbers of fft_streamed over n m d", share(*other)),
          last.n, RatioText(ratio, {",", "fewer", "more", ""})));
    }
    return finding;
  });
}

Finding NprfFig1a(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const int m : {16, 32, 64, 128}) {
      const RecipeCurve fast =
          Kernelized(machine, "nprf-fig1a", "fft_streamed", m);
      if (fast.empty()) {
        finding.Add(Holds::kMissing, Missing(fast));
        continue;
      }
      for (const char* id : {"dense", "tiled"}) {
        const RecipeCurve slow = CurveOf(
            machine, "nprf-fig1a",
            {{"operator", "softmax_attention"}, {"implementation", id}});
        if (slow.empty()) {
          finding.Add(Holds::kMissing, Missing(slow));
          continue;
        }
        const Crossover crossover =
            CrossoverOf(fast, slow, CurveValue::kSeconds);
        Holds holds = HoldsOf(crossover);
        // The claim is about long sequences.
        const double longest =
            std::min(fast.points.back().n, slow.points.back().n);
        if (crossover.kind == CrossoverKind::kNever && longest < 10000)
          holds = Holds::kMissing;
        finding.Add(
            holds,
            Overtakes(finding,
                      fmt::format("crossover of m = {} with {}", m, id),
                      fmt::format("m = {}", m), fmt::format("{} softmax", id),
                      fast, slow, crossover));
      }
    }
    return finding;
  });
}

// ---- Transformer-XL --------------------------------------------------------

Finding TxlLinear(const Evidence& evidence) {
  Finding finding;
  AddDistanceCounts(finding, CountDistances());
  const Finding timed = PerMachine(evidence, [](const Machine& machine) {
    Finding one;
    const auto curve = [&](const char* id) {
      return CurveOf(
          machine, "txl-time",
          {{"operator", "transformer_xl_attention"}, {"implementation", id}});
    };
    const RecipeCurve shift = curve("shift"), dense = curve("dense");
    if (shift.empty()) return one;
    AddGrowth(one, shift, CurveValue::kSeconds, kNearLinear, "time of shift");
    for (auto point = dense.points.rbegin(); point != dense.points.rend();
         ++point)
      if (const CurvePoint* other = shift.At(point->n)) {
        const Quotient ratio = RatioOf(*point, *other, CurveValue::kSeconds);
        if (std::isfinite(ratio.ratio) && !shift.mixed) {
          one.Number("naive over shift", ratio.ratio, ratio.interval);
          one.Note(RatioText(ratio,
                             {fmt::format("at L = M = {:.10g} it is", point->n),
                              "faster", "slower", " than the naive way"}));
        }
        break;
      }
    return one;
  });
  finding.Append(timed, "");
  return finding;
}

}  // namespace subquad
