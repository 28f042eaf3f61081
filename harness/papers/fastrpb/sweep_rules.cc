// Claims of FastRPB that records of sweeps answer. Each rule looks at one
// machine's records.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/digits.h"
#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/fastrpb/tables.h"
#include "harness/papers/frame/sweep_parts.h"

namespace subquad {
namespace {

RecipeCurve Toeplitz(const Machine& machine, const std::string& id) {
  return CurveOf(
      machine, "fastrpb-toeplitz",
      {{"operator", "toeplitz_1d"}, {"implementation", id}, {"causal", false}});
}

Finding Time(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    for (const char* id : {"fft", "fft_columns"}) {
      const RecipeCurve curve = Toeplitz(machine, id);
      if (!curve.empty())
        AddGrowth(finding, curve, CurveValue::kSeconds, kNearLinear,
                  std::string("time of ") + id);
      else if (std::string(id) == "fft")  // our own transform is no claim
        finding.Add(Holds::kMissing, Missing(curve));
    }
  });
}

Finding Memory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    const RecipeCurve curve = Toeplitz(machine, "fft");
    if (curve.empty()) {
      finding.Add(Holds::kMissing, Missing(curve));
      return;
    }
    AddGrowth(finding, curve, CurveValue::kWorkspace, kExactLinear,
              "workspace of fft");
    double off = 0;
    for (const CurvePoint& point : curve.points) {
      // Small change: a plan's own list.
      const double change = 65536 / point.formula;
      const double gap = std::abs(point.workspace / point.formula - 1);
      const double more = std::max(0.0, gap - change);
      off = std::isfinite(gap) && more <= off ? off
            : std::isfinite(gap)              ? more
                                              : HUGE_VAL;
    }
    const Measured beyond = finding.Measure("off the formula", off);
    finding.Add(!std::isfinite(beyond) ? Holds::kMissing
                : beyond <= 0.1        ? Holds::kYes
                                       : Holds::kNo,
                std::isfinite(beyond)
                    ? fmt::format("it is within {} of its formula (limit: 0.1, "
                                  "and 64 KiB)",
                                  beyond)
                    : "no workspace or no formula at some size");
    const CurvePoint& last = curve.points.back();
    finding.Note(fmt::format(
        "padded columns and spectra, which the text leaves out, are {} numbers "
        "per token at n = {:.10g}",
        finding.Mention("numbers per token", last.workspace / 4 / last.n),
        last.n));
  });
}

Finding Fig3(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    // The recipe of the times; that of the memory has the same points.
    const std::string recipe = "fastrpb-fig3a";
    const RecipeCurve fast = CurveOf(
        machine, recipe,
        {{"operator", "fastrpb_attention"}, {"implementation", "linear_xy"}});
    if (fast.empty()) {
      finding.Add(Holds::kMissing, Missing(fast));
      return;
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
  });
}

const std::vector<std::string> kMaps = {"elu1", "relu", "sikf", "dpfp",
                                        "prf_hyperbolic"};

// Every pair of records of SPE and FastRPB that differ in nothing else.
template <typename Visit>
void AgainstSpe(const Machine& machine, Finding& finding, Visit visit) {
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
      visit(kind, pairs, mixed);
  }
}

using Pairs = std::vector<std::pair<CurvePoint, CurvePoint>>;

Finding Table3(const Evidence& evidence) {
  namespace table = fastrpb_tables;
  Finding all = PerMachine(evidence, [](const Machine& machine,
                                        Finding& finding) {
    AgainstSpe(
        machine, finding,
        [&](const std::string& kind, const Pairs& pairs, bool mixed) {
          Quotient most = {0, {0, 0}};
          double n = 0;
          for (const auto& [slow, fast] : pairs) {
            const Quotient ratio = RatioOf(slow, fast, CurveValue::kSeconds);
            if (!(ratio.ratio > most.ratio)) continue;
            most = ratio;
            n = slow.n;
          }
          if (n == 0 || mixed) most = {0, {std::nan(""), std::nan("")}};
          const Measured ratio = Measure(finding, "time of " + kind, most);
          const double said =
              kind == "conv" ? table::kSaidConv : table::kSaidSine;
          const Holds holds = UpTo(ratio, said);
          const double printed = kind == "conv" ? table::kConv : table::kSine;
          finding.Add(
              holds,
              holds == Holds::kMissing
                  ? kind + "SPE: not measured"
                  : fmt::format("{}SPE takes up to {} times as long, at n = "
                                "{:.10g} ({} pairs; claimed: up to {:.10g}, "
                                "agreement within a factor of {:.10g}; table "
                                "3: up to {})",
                                kind, ratio, n, pairs.size(), said, kUpTo,
                                ThreeDigits(printed)));
        });
  });
  all.Note(
      "the noise is an input here: drawing it, as a model does for every "
      "batch, is in none of the times");
  return all;
}

// Two dozens, the least that "dozens" says.
constexpr double kDozens = 24;

// Compares SPE with softmax attention in tiles.
Finding SpeDozens(const Evidence& evidence) {
  namespace table = fastrpb_tables;
  Finding all = PerMachine(evidence, [](const Machine& machine,
                                        Finding& finding) {
    const RecipeCurve softmax = CurveOf(
        machine, "fastrpb-table3",
        {{"operator", "softmax_attention"}, {"implementation", "tiled"}});
    AgainstSpe(
        machine, finding,
        [&](const std::string& kind, const Pairs& pairs, bool mixed) {
          Quotient most = {0, {std::nan(""), std::nan("")}};
          double n = 0;
          for (const auto& [slow, fast] : pairs) {
            const CurvePoint* original = softmax.At(slow.n);
            if (!original || mixed) continue;
            const Quotient ratio =
                RatioOf(slow, *original, CurveValue::kSeconds);
            if (!(ratio.ratio > most.ratio)) continue;
            most = ratio;
            n = slow.n;
          }
          const Measured ratio =
              Measure(finding, "time of " + kind + " over softmax", most);
          const Holds holds = AtLeast(ratio, kDozens);
          finding.Add(holds,
                      holds == Holds::kMissing
                          ? kind + "SPE: not measured beside softmax attention"
                          : fmt::format("{}SPE takes up to {} times as long as "
                                        "softmax attention, at n = {:.10g} "
                                        "(dozens: {:g} or more)",
                                        kind, ratio, n, kDozens));
        });
  });
  double conv = 0, sine = 0;
  for (const table::Row& row : table::kRows) {
    const double original = table::CellOf("Original", row, &table::Row::none);
    if (row.conv / original > conv) conv = row.conv / original;
    if (row.sine / original > sine) sine = row.sine / original;
  }
  all.Note(
      fmt::format("table 3 has up to {:.3g} times the original's hours for "
                  "convSPE and {:.3g} for sineSPE",
                  conv, sine));
  return all;
}

// Bytes of the noise that SPE draws for every run, by the shape of z.
double NoiseBytes(const Json& size) {
  const auto of = [&](const char* name) {
    return size.value(name, std::nan(""));
  };
  const double rows = size.contains("components") ? 2 * of("components")
                                                  : of("n") + of("taps") - 1;
  return 4 * of("d") * rows * of("draws");
}

Finding MemorySpe(const Evidence& evidence) {
  namespace table = fastrpb_tables;
  Finding all =
      PerMachine(evidence, [](const Machine& machine, Finding& finding) {
        AgainstSpe(
            machine, finding,
            [&](const std::string& kind, const Pairs& pairs, bool) {
              // Without the noise, and with it.
              Interval ranges[2] = {{HUGE_VAL, 0}, {HUGE_VAL, 0}};
              for (const auto& [slow, fast] : pairs)
                for (const bool drawn : {false, true}) {
                  CurvePoint counted = slow;
                  if (drawn) counted.workspace += NoiseBytes(slow.size);
                  const double ratio =
                      RatioOf(counted, fast, CurveValue::kWorkspace).ratio;
                  if (!std::isfinite(ratio)) continue;
                  ranges[drawn].low = std::min(ranges[drawn].low, ratio);
                  ranges[drawn].high = std::max(ranges[drawn].high, ratio);
                }
              constexpr double kClaimed = 1.5;
              const Measured with = finding.Measure(
                                 "workspace of " + kind + ", its noise counted",
                                 ranges[1].low, ranges[1]),
                             without = finding.Mention(
                                 "workspace of " + kind + ", its noise given",
                                 ranges[0].low, ranges[0]);
              const Holds holds = AtLeast(with, kClaimed);
              finding.Add(
                  holds,
                  holds == Holds::kMissing
                      ? kind + "SPE: no workspace"
                      : fmt::format(
                            "{}SPE needs {} to {} times the workspace with the "
                            "noise that it draws (claimed: {:g}; {} pairs), {} "
                            "to {} times without",
                            kind, ThreeDigits(with.interval.low),
                            ThreeDigits(with.interval.high), kClaimed,
                            pairs.size(), ThreeDigits(without.interval.low),
                            ThreeDigits(without.interval.high)));
            });
      });
  all.Note(fmt::format(
      "table 3 itself has {:.2f} to {:.2f} times for sineSPE and {:.2f} to "
      "{:.2f} for convSPE",
      table::LeastOver(&table::Row::sine_gb, &table::Row::fastrpb_gb),
      table::MostOver(&table::Row::sine_gb, &table::Row::fastrpb_gb),
      table::LeastOver(&table::Row::conv_gb, &table::Row::fastrpb_gb),
      table::MostOver(&table::Row::conv_gb, &table::Row::fastrpb_gb)));
  return all;
}

// Nearer to n^2 than to n and to n^3.
void AddQuadratic(Finding& finding, const RecipeCurve& curve,
                  const std::string& id, bool memory) {
  if (curve.empty()) {
    finding.Add(Holds::kMissing, Missing(curve));
    return;
  }
  for (const auto& [quantity, what] : {std::pair{CurveValue::kSeconds, "time"},
                                       {CurveValue::kWorkspace, "workspace"}}) {
    if (quantity == CurveValue::kWorkspace && !memory) continue;
    const std::string name = fmt::format("{} of {}", what, id);
    const auto growth = GrowthOf(curve, quantity);
    if (!growth) {
      finding.Add(Holds::kMissing, NoGrowth(curve, name));
      continue;
    }
    const Exponent exponent =
        JudgeExponent(finding, "exponent of the " + name, *growth, 1.5, 2.5);
    finding.Add(exponent.holds,
                fmt::format("{} grows with {} (limits: 1.5 and 2.5)", name,
                            exponent.text));
  }
}

Finding Quadratic(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    AddQuadratic(finding,
                 CurveOf(machine, "nprf-fig1a",
                         {{"operator", "softmax_attention"},
                          {"implementation", "dense"}}),
                 "dense", true);
  });
}

Finding RpeQuadratic(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    for (const char* scheme : {"untied", "shaw", "bias"})
      AddQuadratic(finding,
                   CurveOf(machine, "survey-schemes",
                           {{"operator", "position_attention"},
                            {"implementation", "shift"},
                            {"scheme", scheme}}),
                   scheme, false);
  });
}

Finding ImageMemory(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    const RecipeCurve curve =
        CurveOf(machine, "fastrpb-toeplitz-2d",
                {{"operator", "toeplitz_2d_xy"}, {"implementation", "xy"}});
    if (curve.empty()) {
      finding.Add(Holds::kMissing, Missing(curve));
      return;
    }
    // O(N) for N^2 pixels: exponent 1/2 in pixels.
    AddGrowth(finding, curve, CurveValue::kWorkspace, kExactLinear / 2,
              "workspace of xy, in pixels,");
  });
}

RecipeCurve OfMap(const Machine& machine, const std::string& map) {
  return CurveOf(machine, "fastrpb-table3",
                 {{"operator", "linear_attention"},
                  {"implementation", "associative"},
                  {"feature_map", map}});
}

// Holds where linear attention with the map `fast` takes less time.
void AddFaster(const Machine& machine, Finding& finding,
               const std::string& fast, const std::string& slow) {
  const RecipeCurve a = OfMap(machine, slow), b = OfMap(machine, fast);
  const CurvePoint *first = a.At(4096), *second = b.At(4096);
  if (!first || !second) {
    finding.Add(Holds::kMissing, a.empty()   ? Missing(a)
                                 : b.empty() ? Missing(b)
                                             : "not measured at n = 4096");
    return;
  }
  AddRatio(finding, RatioOf(*first, *second, CurveValue::kSeconds), 1,
           fmt::format("time of {} over {}", slow, fast),
           {fmt::format("at n = 4096 {} is", fast), "faster", "slower",
            fmt::format(" than {}", slow)});
}

Finding SikfFaster(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    AddFaster(machine, finding, "sikf", "prf_hyperbolic");
    AddFaster(machine, finding, "sikf", "dpfp");
  });
}

Finding MapOrder(const Evidence& evidence) {
  return PerMachine(evidence, [](const Machine& machine, Finding& finding) {
    AddFaster(machine, finding, "dpfp", "prf_hyperbolic");
    AddFaster(machine, finding, "elu1", "dpfp");
    const RecipeCurve sikf = OfMap(machine, "sikf"),
                      elu1 = OfMap(machine, "elu1");
    const CurvePoint *a = sikf.At(4096), *b = elu1.At(4096);
    if (!a || !b) {
      finding.Add(Holds::kMissing, sikf.empty()   ? Missing(sikf)
                                   : elu1.empty() ? Missing(elu1)
                                                  : "not measured at n = 4096");
      return;
    }
    const Measured ratio = Measure(finding, "time of sikf over elu1",
                                   RatioOf(*a, *b, CurveValue::kSeconds));
    const Interval ends = ratio.interval;
    finding.Add(!std::isfinite(ends.low) || !std::isfinite(ends.high)
                    ? Holds::kMissing
                : ends.high <= 1.1 ? Holds::kYes
                : ends.low > 1.1   ? Holds::kNo
                                   : Holds::kBetween,
                fmt::format("sikf takes {} times as long as elu1 (as fast: at "
                            "most 1.1)",
                            ratio));
  });
}

}  // namespace

std::vector<NamedRule> FastRpbSweepRules() {
  return {{"frpb-1d-time", Time},
          {"frpb-1d-memory", Memory},
          {"frpb-quadratic", Quadratic},
          {"frpb-map-order", MapOrder},
          {"frpb-sikf-faster", SikfFaster},
          {"frpb-rpe-quadratic", RpeQuadratic},
          {"frpb-table3", Table3},
          {"frpb-spe-dozens", SpeDozens},
          {"frpb-memory-spe", MemorySpe},
          {"frpb-2d-memory", ImageMemory},
          {"frpb-fig3", Fig3}};
}

}  // namespace subquad
