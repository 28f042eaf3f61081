// Claims that records of sweeps answer. Each rule looks at one machine's
// records.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/papers/claims/errata.h"
#include "harness/papers/claims/properties.h"
#include "harness/papers/claims/rules.h"
#include "harness/papers/claims/sweep_parts.h"
#include "harness/papers/studies/fastrpb_table3.h"

namespace subquad {
namespace {

Wanted Of(const std::string& op, const std::string& implementation,
          Json params = Json::object(), Json size = Json::object()) {
  return {op, implementation, std::move(params), std::move(size)};
}

}  // namespace

// ---- FastRPB ---------------------------------------------------------------

// Time and operations of an algorithm that is O(n log n).
void AddNearLinear(Finding& finding, const Measured& measured,
                   const std::string& id) {
  AddGrowth(finding, TimeGrowth(measured), kNearLinear, "time of " + id);
  AddGrowth(finding, FlopGrowth(measured), kExactNearLinear,
            "the count of operations of " + id);
}

Finding Frpb1dTime(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const char* id : {"fft", "fft_columns"}) {
      const Wanted wanted = Of("toeplitz_1d", id);
      const Measured measured = Find(machine, wanted);
      if (measured.empty()) {
        // Our own transform is no part of the claim.
        if (std::string(id) == "fft")
          finding.Add(Holds::kMissing, Missing(wanted, measured));
        continue;
      }
      AddNearLinear(finding, measured, id);
    }
    return finding;
  });
}

Finding Frpb1dMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    const Wanted wanted = Of("toeplitz_1d", "fft");
    const Measured measured = Find(machine, wanted);
    if (measured.empty()) {
      finding.Add(Holds::kMissing, Missing(wanted, measured));
      return finding;
    }
    AddGrowth(finding, WorkspaceGrowth(measured), kExactLinear,
              "workspace of fft");
    double off = 0;
    for (const MeasuredPoint& point : measured.points) {
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
                known ? fmt::format("it is within {} of its formula (limit "
                                    "0.1, and 64 KiB)",
                                    finding.Number("off the formula", off))
                      : "no workspace or no formula at some size");
    const MeasuredPoint& last = measured.points.back();
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
            const Wanted wanted = Of("toeplitz_2d_xy", "xy");
            const Measured measured = Find(machine, wanted);
            const Growth growth = TimeGrowth(measured);
            if (measured.empty() || !growth.known) {
              timed.Add(Holds::kMissing, measured.empty()
                                             ? Missing(wanted, measured)
                                             : growth.why_not);
              return timed;
            }
            // As claimed it would be 0.5 in pixels, and a logarithm.
            const double p = growth.exponent;
            const Interval in_n = {2 * growth.interval.low,
                                   2 * growth.interval.high};
            timed.Add(
                growth.interval.low > 0.75    ? Holds::kNo
                : growth.interval.high < 0.75 ? Holds::kYes
                                              : Holds::kBetween,
                fmt::format(
                    "time of xy grows with exponent {} in pixels and {} "
                    "in N, from {:.10g} to {:.10g} pixels",
                    timed.Number("exponent in pixels", p, growth.interval),
                    timed.Number("exponent in N", 2 * p, in_n), growth.n_min,
                    growth.n_max));
            return timed;
          }),
      "");
  return finding;
}

Finding FrpbFig3(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    const Wanted wanted =
        Of("fastrpb_attention", "linear_xy",
           {{"attention", "linear"}, {"feature_map", "elu1"}});
    const Measured fast = Find(machine, wanted);
    if (fast.empty()) {
      finding.Add(Holds::kMissing, Missing(wanted, fast));
      return finding;
    }
    for (const char* id : {"dense", "tiled"}) {
      const std::string name = std::string(id) + " softmax";
      const Wanted softmax = Of("softmax_attention", id, {}, WidthsOf(fast));
      const Measured slow = Find(machine, softmax);
      const MeasuredPoint* a = slow.At(2500);
      const MeasuredPoint* b = fast.At(2500);
      if (!a || !b) {
        finding.Add(Holds::kMissing,
                    slow.empty() ? Missing(softmax, slow)
                                 : name + ": not measured at 50 x 50 pixels");
        continue;
      }
      if (slow.mixed)
        finding.Add(Holds::kMissing, name + ": times of several processors");
      else
        AddRatio(finding, TimeRatio(*a, *b), 5, "time of " + name,
                 "at 50 x 50 pixels it is faster than " + name);
      AddRatio(finding, WorkspaceRatio(*a, *b), 10, "workspace of " + name,
               "and takes less memory by");
      const Crossover crossover = TimeCrossover(fast, slow);
      finding.Note("it overtakes " + name + " in time " +
                   Describe(finding, "crossover with " + name, crossover));
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
    std::vector<std::pair<MeasuredPoint, MeasuredPoint>> pairs;
    std::string missing;
    bool mixed = false;
    for (const std::string& map : kMaps) {
      const Wanted wanted = Of("fastrpb_attention", "linear_fft",
                               {{"attention", "linear"}, {"feature_map", map}});
      const Measured fast = Find(machine, wanted);
      const Wanted spe =
          Of("stochastic_position_attention", "associative",
             {{"kind", kind}, {"attention", "linear"}, {"feature_map", map}},
             WidthsOf(fast));
      const Measured slow = Find(machine, spe);
      if (missing.empty() && (fast.empty() || slow.empty()))
        missing = fast.empty() ? Missing(wanted, fast) : Missing(spe, slow);
      mixed = mixed || fast.mixed;
      for (const MeasuredPoint& point : slow.points)
        if (const MeasuredPoint* other = fast.At(point.n))
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

using Pairs = std::vector<std::pair<MeasuredPoint, MeasuredPoint>>;

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
        const Quotient ratio = TimeRatio(slow, fast);
        if (!(ratio.ratio > most.ratio)) continue;
        most = ratio;
        n = slow.n;
      }
      if (n == 0 || mixed) most = {0, {std::nan(""), std::nan("")}};
      AddRatio(finding, most,
               kind == "conv" ? table::kSaidConv : table::kSaidSine,
               "time of " + kind,
               fmt::format("{}SPE takes at most (n = {:.10g}, {} pairs)", kind,
                           n, pairs.size()));
      const double printed = kind == "conv" ? table::kConv : table::kSine;
      if (most.ratio > table::kFarBeyond * printed)
        finding.Add(Holds::kBetween,
                    fmt::format("which is {:.1f} times as much as in table 3",
                                most.ratio / printed));
    });
  });
  all.Note(fmt::format("table 3 itself has up to {:.1f} and {:.1f} times",
                       table::kConv, table::kSine));
  return all;
}

Finding FrpbMemorySpe(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding = AgainstSpe(
        machine,
        [](Finding& one, const std::string& kind, const Pairs& pairs, bool) {
          Quotient range = {std::nan(""), {HUGE_VAL, 0}};
          for (const auto& [slow, fast] : pairs) {
            const double ratio = WorkspaceRatio(slow, fast).ratio;
            if (!std::isfinite(ratio)) continue;
            range.interval.low = std::min(range.interval.low, ratio);
            range.interval.high = std::max(range.interval.high, ratio);
          }
          const double claimed = 1.5;
          const Holds holds = AtLeast(range, claimed);
          one.Add(holds,
                  holds == Holds::kMissing
                      ? kind + "SPE: no workspace"
                      : fmt::format("{}SPE takes {} to {} times the workspace "
                                    "(claimed: {:.10g}; {} pairs)",
                                    kind,
                                    one.Number("least workspace of " + kind,
                                               range.interval.low),
                                    one.Number("most workspace of " + kind,
                                               range.interval.high),
                                    claimed, pairs.size()));
        });
    finding.Note("the draws of SPE are inputs here and not counted");
    return finding;
  });
}

// ---- LRPE ------------------------------------------------------------------

Finding LrpeLinear(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (bool causal : {false, true}) {
      const Wanted wanted =
          Of("clipped_rpe_product", "windowed", {{"causal", causal}});
      const Measured measured = Find(machine, wanted);
      const std::string name = causal ? "windowed, masked" : "windowed";
      if (measured.empty()) {
        finding.Add(Holds::kMissing, Missing(wanted, measured));
        continue;
      }
      AddGrowth(finding, TimeGrowth(measured), kLinear, "time of " + name);
      AddGrowth(finding, WorkspaceGrowth(measured), kExactLinear,
                "workspace of " + name);
    }
    return finding;
  });
}

// ---- NPRF ------------------------------------------------------------------

Finding NprfTime(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const char* id : {"fft", "fft_streamed"}) {
      const Wanted wanted =
          Of("kernelized_rpe_attention", id, {{"feature_map", "prf"}});
      const Measured measured = Find(machine, wanted);
      if (measured.empty()) {
        finding.Add(Holds::kMissing, Missing(wanted, measured));
        continue;
      }
      AddNearLinear(finding, measured, id);
    }
    return finding;
  });
}

Finding NprfMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    const Json prf = {{"feature_map", "prf"}};
    const Wanted wanted = Of("kernelized_rpe_attention", "fft", prf);
    const Measured printed = Find(machine, wanted);
    if (printed.empty()) {
      finding.Add(Holds::kMissing, Missing(wanted, printed));
      return finding;
    }
    Json size = WidthsOf(printed);
    size["f"] = printed.points.front().size.value("f", Json());
    // Numbers of four bytes, over n m d.
    const auto share = [](const MeasuredPoint& point) {
      return point.workspace / 4 /
             (point.n * point.size.value("f", std::nan("")) *
              point.size.value("e", std::nan("")));
    };
    double least = HUGE_VAL;
    for (const MeasuredPoint& point : printed.points) {
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
    AddGrowth(finding, WorkspaceGrowth(printed), kExactLinear,
              "workspace of fft");
    const Measured streamed = Find(
        machine, Of("kernelized_rpe_attention", "fft_streamed", prf, size));
    const MeasuredPoint& last = printed.points.back();
    if (const MeasuredPoint* other = streamed.At(last.n))
      finding.Note(fmt::format(
          "the same sums a few channels at a time take {} n m d numbers at n = "
          "{:.10g}, {} times less",
          finding.Number("numbers of fft_streamed over n m d", share(*other)),
          last.n,
          finding.Number("fft over fft_streamed",
                         WorkspaceRatio(last, *other).ratio)));
    return finding;
  });
}

Finding NprfFig1a(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine) {
    Finding finding;
    for (const int m : {16, 32, 64, 128}) {
      const Wanted wanted = Of("kernelized_rpe_attention", "fft_streamed",
                               {{"feature_map", "prf"}}, {{"f", m}});
      const Measured fast = Find(machine, wanted);
      if (fast.empty()) {
        finding.Add(Holds::kMissing, Missing(wanted, fast));
        continue;
      }
      for (const char* id : {"dense", "tiled"}) {
        const Wanted softmax = Of("softmax_attention", id, {}, WidthsOf(fast));
        const Measured slow = Find(machine, softmax);
        if (slow.empty()) {
          finding.Add(Holds::kMissing, Missing(softmax, slow));
          continue;
        }
        const Crossover crossover = TimeCrossover(fast, slow);
        Holds holds = HoldsOf(crossover);
        std::string where =
            Describe(finding, fmt::format("crossover of m = {} with {}", m, id),
                     crossover);
        // The claim is about long sequences.
        const double longest =
            std::min(fast.points.back().n, slow.points.back().n);
        if (crossover.kind == CrossoverKind::kNever) {
          where += fmt::format(" (to n = {:.10g})", longest);
          if (longest < 10000) holds = Holds::kMissing;
        }
        finding.Add(
            holds, fmt::format("m = {} overtakes {} softmax {}", m, id, where));
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
                          "pair that is seen",
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
    const Measured shift =
        Find(machine, Of("transformer_xl_attention", "shift"));
    const Measured dense = Find(
        machine, Of("transformer_xl_attention", "dense", {}, WidthsOf(shift)));
    if (shift.empty()) return one;
    AddGrowth(one, TimeGrowth(shift), kNearLinear, "time of shift");
    for (auto point = dense.points.rbegin(); point != dense.points.rend();
         ++point)
      if (const MeasuredPoint* other = shift.At(point->n)) {
        const Quotient ratio = TimeRatio(*point, *other);
        if (std::isfinite(ratio.ratio) && !shift.mixed)
          one.Note(fmt::format(
              "at L = M = {:.10g} it is {} times faster than the "
              "naive way",
              point->n,
              one.Number("naive over shift", ratio.ratio, ratio.interval)));
        break;
      }
    return one;
  });
  finding.Append(timed, "");
  return finding;
}

}  // namespace subquad
