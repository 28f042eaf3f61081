// Claims that records of sweeps answer. Each rule looks at one machine's
// records.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/digits.h"
#include "harness/papers/claims/errata.h"
#include "harness/papers/claims/properties.h"
#include "harness/papers/claims/rules.h"
#include "harness/papers/claims/sweep_parts.h"
#include "harness/papers/studies/fastrpb_table3.h"

namespace subquad {

// ---- FastRPB ---------------------------------------------------------------

namespace {

// Time and operations of an algorithm that is O(n log n).
void AddNearLinear(Finding& finding, const RecipeCurve& curve,
                   const std::string& id) {
  AddGrowth(finding, curve, CurveValue::kSeconds, kNearLinear, "time of " + id);
  AddGrowth(finding, curve, CurveValue::kFlops, kExactNearLinear,
            "number of operations of " + id);
}

RecipeCurve Toeplitz(const Machine& machine, const std::string& id) {
  return CurveOf(
      machine, "fastrpb-toeplitz",
      {{"operator", "toeplitz_1d"}, {"implementation", id}, {"causal", false}});
}

}  // namespace

Finding Frpb1dTime(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const char* id : {"fft", "fft_columns"}) {
      const RecipeCurve curve = Toeplitz(machine, id);
      if (!curve.empty())
        AddNearLinear(finding, curve, id);
      else if (std::string(id) == "fft")  // our own transform is no claim
        finding.Add(Holds::kMissing, Missing(curve));
    }
    return finding;
  });
}

Finding Frpb1dMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    const RecipeCurve curve = Toeplitz(machine, "fft");
    if (curve.empty()) {
      finding.Add(Holds::kMissing, Missing(curve));
      return finding;
    }
    AddGrowth(finding, curve, CurveValue::kWorkspace, kExactLinear,
              "workspace of fft");
    double off = 0;
    for (const CurvePoint& point : curve.points) {
      // Small change: a plan's own list.
      const double change = 65536 / point.formula;
      const double gap = std::abs(point.workspace / point.formula - 1);
      const double beyond = std::max(0.0, gap - change);
      off = std::isfinite(gap) && beyond <= off ? off
            : std::isfinite(gap)                ? beyond
                                                : HUGE_VAL;
    }
    const bool known = std::isfinite(off);
    finding.Add(!known       ? Holds::kMissing
                : off <= 0.1 ? Holds::kYes
                             : Holds::kNo,
                known ? fmt::format("it is within {} of its formula (limit: "
                                    "0.1, and 64 KiB)",
                                    finding.Number("off the formula", off))
                      : "no workspace or no formula at some size");
    const CurvePoint& last = curve.points.back();
    finding.Note(fmt::format(
        "padded columns and spectra, which the text leaves out, are {} numbers "
        "per token at n = {:.10g}",
        finding.Number("numbers per token", last.workspace / 4 / last.n),
        last.n));
    return finding;
  });
}

Finding Frpb2dTime(const Evidence& evidence) {
  Finding finding;
  constexpr int64_t kSide = 12;
  const double pixels = static_cast<double>(kSide * kSide);
  const double count = static_cast<double>(PixelsThatCount(kSide));
  const double claimed = kSide * std::log2(kSide);
  // Pixels that the claim leaves no time for, and those missing in the other.
  Erratum erratum;
  erratum.printed = count - claimed;
  erratum.corrected = std::abs(count - pixels);
  finding.Add(
      erratum,
      fmt::format(
          "O(D N log N) for N x N pixels, though {:.10g} of the {:.10g} "
          "pixels of an image of {} x {} change the product, and no "
          "algorithm may leave one out; with the sums it is O(D (N^2 + "
          "N log N))",
          count, pixels, kSide, kSide));
  finding.Append(
      PerMachine(
          evidence,
          [](const Machine& machine) {
            Finding timed;
            const RecipeCurve curve = CurveOf(
                machine, "fastrpb-toeplitz-2d",
                {{"operator", "toeplitz_2d_xy"}, {"implementation", "xy"}});
            const auto growth = GrowthOf(curve, CurveValue::kSeconds);
            if (!growth) {
              timed.Add(Holds::kMissing, curve.empty()
                                             ? Missing(curve)
                                             : NoGrowth(curve, "time of xy"));
              return timed;
            }
            // As claimed it would be 0.5 in pixels, and a logarithm.
            const double p = growth->exponent;
            const Interval in_n = {2 * growth->interval.low,
                                   2 * growth->interval.high};
            timed.Add(
                growth->interval.low > 0.75    ? Holds::kNo
                : growth->interval.high < 0.75 ? Holds::kYes
                                               : Holds::kBetween,
                fmt::format(
                    "time of xy grows with exponent {} in pixels and {} "
                    "in N, from {:.10g} to {:.10g} pixels",
                    timed.Number("exponent in pixels", p, growth->interval),
                    timed.Number("exponent in N", 2 * p, in_n), growth->n_min,
                    growth->n_max));
            return timed;
          }),
      "");
  return finding;
}

Finding FrpbFig3(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    // The recipe of the times; that of the memory has the same points.
    const std::string recipe = "fastrpb-fig3a";
    Finding finding;
    const RecipeCurve fast = CurveOf(
        machine, recipe,
        {{"operator", "fastrpb_attention"}, {"implementation", "linear_xy"}});
    if (fast.empty()) {
      finding.Add(Holds::kMissing, Missing(fast));
      return finding;
    }
    for (const char* id : {"dense", "tiled"}) {
      const std::string name = std::string(id) + " softmax";
      const RecipeCurve slow =
          CurveOf(machine, recipe,
                  {{"operator", "softmax_attention"}, {"implementation", id}});
      const CurvePoint* a = slow.At(2500);
      const CurvePoint* b = fast.At(2500);
      if (!a || !b) {
        finding.Add(Holds::kMissing,
                    slow.empty() ? Missing(slow)
                                 : name + ": not measured at 50 x 50 pixels");
        continue;
      }
      if (slow.mixed)
        finding.Add(Holds::kMissing, name + ": times of several processors");
      else
        AddRatio(
            finding, RatioOf(*a, *b, CurveValue::kSeconds), 5,
            "time of " + name,
            {"at 50 x 50 pixels it is", "faster", "slower", " than " + name});
      AddRatio(finding, RatioOf(*a, *b, CurveValue::kWorkspace), 10,
               "workspace of " + name,
               {"it needs", "less memory", "more memory", ""});
      finding.Note(Overtakes(finding, "crossover with " + name, "it", name,
                             fast, slow,
                             CrossoverOf(fast, slow, CurveValue::kSeconds)));
    }
    return finding;
  });
}

namespace {

const std::vector<std::string> kMaps = {"elu1", "relu", "sikf", "dpfp",
                                        "prf_hyperbolic"};

// Every pair of records of SPE and FastRPB that differ in nothing else.
template <typename Visit>
Finding AgainstSpe(const Machine& machine, Visit visit) {
  Finding finding;
  for (const char* kind : {"sine", "conv"}) {
    std::vector<std::pair<CurvePoint, CurvePoint>> pairs;
    std::string missing;
    bool mixed = false;
    for (const std::string& map : kMaps) {
      const RecipeCurve fast = CurveOf(machine, "fastrpb-table3",
                                       {{"operator", "fastrpb_attention"},
                                        {"implementation", "linear_fft"},
                                        {"feature_map", map}});
      const RecipeCurve slow =
          CurveOf(machine, "fastrpb-table3",
                  {{"operator", "stochastic_position_attention"},
                   {"implementation", "associative"},
                   {"kind", kind},
                   {"feature_map", map}});
      if (missing.empty() && (fast.empty() || slow.empty()))
        missing = Missing(fast.empty() ? fast : slow);
      mixed = mixed || fast.mixed;
      for (const CurvePoint& point : slow.points)
        if (const CurvePoint* other = fast.At(point.n))
          pairs.emplace_back(point, *other);
    }
    if (pairs.empty())
      finding.Add(Holds::kMissing,
                  missing.empty() ? "no size in common" : missing);
    else
      visit(finding, kind, pairs, mixed);
  }
  return finding;
}

using Pairs = std::vector<std::pair<CurvePoint, CurvePoint>>;

}  // namespace

Finding FrpbTable3(const Evidence& evidence) {
  namespace table = fastrpb_table3;
  Finding all = PerMachine(evidence, [](const Machine& machine) {
    return AgainstSpe(machine, [](Finding& finding, const std::string& kind,
                                  const Pairs& pairs, bool mixed) {
      // "Up to": the largest ratio.
      Quotient most = {0, {0, 0}};
      double n = 0;
      for (const auto& [slow, fast] : pairs) {
        const Quotient ratio = RatioOf(slow, fast, CurveValue::kSeconds);
        if (!(ratio.ratio > most.ratio)) continue;
        most = ratio;
        n = slow.n;
      }
      if (n == 0 || mixed) most = {0, {std::nan(""), std::nan("")}};
      const double said = kind == "conv" ? table::kSaidConv : table::kSaidSine;
      const Holds holds = AtLeast(most, said);
      finding.Add(
          holds, holds == Holds::kMissing
                     ? kind + "SPE: not measured"
                     : fmt::format("{}SPE takes up to {} times as long, at n = "
                                   "{:.10g} (claimed: {:.10g}; {} pairs)",
                                   kind,
                                   finding.Number("time of " + kind, most.ratio,
                                                  most.interval),
                                   n, said, pairs.size()));
      const double printed = kind == "conv" ? table::kConv : table::kSine;
      if (most.ratio > table::kFarBeyond * printed)
        finding.Add(Holds::kBetween,
                    fmt::format("which is {} times as much as in table 3",
                                ThreeDigits(most.ratio / printed)));
    });
  });
  all.Note(
      fmt::format("table 3 itself has up to {:.1f} times for convSPE "
                  "and {:.1f} for sineSPE",
                  table::kConv, table::kSine));
  return all;
}

Finding FrpbMemorySpe(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding = AgainstSpe(machine, [](Finding& one,
                                             const std::string& kind,
                                             const Pairs& pairs, bool) {
      Quotient range = {std::nan(""), {HUGE_VAL, 0}};
      for (const auto& [slow, fast] : pairs) {
        const double ratio = RatioOf(slow, fast, CurveValue::kWorkspace).ratio;
        if (!std::isfinite(ratio)) continue;
        range.interval.low = std::min(range.interval.low, ratio);
        range.interval.high = std::max(range.interval.high, ratio);
      }
      const double claimed = 1.5;
      const Holds holds = AtLeast(range, claimed);
      one.Add(holds,
              holds == Holds::kMissing
                  ? kind + "SPE: no workspace"
                  : fmt::format("{}SPE needs {} to {} times the workspace "
                                "(claimed: {:.10g}; {} pairs)",
                                kind,
                                one.Number("least workspace of " + kind,
                                           range.interval.low),
                                one.Number("most workspace of " + kind,
                                           range.interval.high),
                                claimed, pairs.size()));
    });
    finding.Note("the draws of SPE are inputs here and are not counted");
    return finding;
  });
}

// ---- LRPE ------------------------------------------------------------------

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
        AddNearLinear(finding, curve, id);
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
  constexpr int64_t kL = 96, kM = 32;
  const double once = CountedProjections("shift", kL, kM);
  const double pairs = CountedProjections("dense", kL, kM);
  finding.Add(once == kL + kM && pairs > kL * kM ? Holds::kYes : Holds::kNo,
              fmt::format("for L = {} and M = {} it makes {} products w_kr r, "
                          "M + L, where the naive way makes {}, one for every "
                          "visible pair",
                          kL, kM, finding.Number("products", once),
                          finding.Number("products for every pair", pairs)));
  std::vector<double> n, flops;
  for (int64_t size = 256; size <= 16384; size *= 4) {
    n.push_back(static_cast<double>(size));
    flops.push_back(CountedFlops("shift", size, size));
  }
  const auto fit = FitExponent(n, flops, {}, {});
  finding.Add(
      fit && fit->interval.high <= kExactNearLinear ? Holds::kYes : Holds::kNo,
      fit ? fmt::format("B itself has L (M+L) entries of d products each: all "
                        "operations grow with exponent {}",
                        finding.Number("exponent of operations", fit->exponent,
                                       fit->interval))
          : "no exponent of operations");
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
