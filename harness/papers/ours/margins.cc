// Can a check fail, at this length? For each operator and length, the wrong
// answers that apply, and how far the nearest one is from being taken: by the
// gates of this program, by torch.allclose with the tolerances in use, and by
// the rule that an error may be twice that of the formula in bfloat16.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/cases/generate.h"
#include "harness/judging/all_close.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/ours/ours.h"

namespace subquad {
namespace {

// A margin to trust, and up to which length every operator is to have it.
constexpr double kEnough = 10;
constexpr double kUpTo = 65536;
constexpr const char* kGates = "gates";
constexpr double kRelative = 1e-5;  // torch.allclose's default

// The largest error of the formula in bfloat16, its sums in float32 as matrix
// units have them, on some of the answer's rows.
double Bfloat16Error(const Problem& problem, const Inputs& inputs,
                     const Answer& answer, int64_t most_rows) {
  Arithmetic arithmetic;
  arithmetic.result = arithmetic.factor = Format::BFloat16();
  const ArithmeticScope scope(arithmetic, 1);
  const auto reference = problem.op->ReferenceEmulated(problem, inputs);
  double largest = 0;
  for (const OutputAnswer& one : answer.outputs) {
    const size_t rows = one.selection.rows.size();
    const auto width = static_cast<size_t>(one.width);
    const size_t step = std::max<size_t>(
        1, rows / static_cast<size_t>(std::max<int64_t>(1, most_rows)));
    std::vector<Emulated> row(width);
    for (size_t r = 0; r < rows; r += step) {
      reference->Row(one.selection.rows[r], row.data(), nullptr);
      for (size_t c = 0; c < width; ++c)
        largest = Worst(largest, static_cast<double>(
                                     std::abs(static_cast<long double>(row[c]) -
                                              one.value[r * width + c])));
    }
  }
  return largest;
}

// How far each wrong answer is from being taken; below 1 it is.
using Distances = std::vector<double>;

Distances OfGates(Trial& trial) {
  Distances nearest;
  for (const Implementation* implementation :
       CpuImplementations(trial.problem())) {
    const RowBound bound =
        implementation->norm_bound
            ? implementation->norm_bound(trial.problem(), trial.inputs())
            : RowBound();
    const Tolerance tolerance =
        ToleranceOf(trial.answer(), implementation->bound_factor, bound);
    Distances distances;
    for (const WrongAnswer& wrong : trial.wrong_answers())
      distances.push_back(DistanceOf(
          CompareRows(trial.problem(), trial.answer(), wrong.parts, tolerance),
          false));
    if (nearest.empty() ||
        std::ranges::min(distances) < std::ranges::min(nearest))
      nearest = std::move(distances);
  }
  return nearest;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTable table{
      "margin",
      {{"operator", "name", "operator"},
       {"case", "name", "its case, without the length"},
       {"n", "tokens", "queries and keys"},
       {"rule", "name",
        "gates: this program's, of the implementation on the CPU with the "
        "widest tolerance; allclose: by its absolute tolerance, with a "
        "relative one of 1e-5; bfloat16: twice the error of the formula in it"},
       {"margin", "1",
        "how many tolerances the nearest wrong answer is away; below 1 it is "
        "taken for right"},
       {"nearest", "name", "which wrong answer that is"},
       {"taken", "1", "wrong answers that are taken for right"},
       {"wrong_answers", "1", "that were tried"},
       {"plain", "1",
        "largest error of the plain program in float32 over the absolute "
        "tolerance; above 1 the rule refuses what is right"}},
      {}};
  struct Setting {
    std::string text;
    int64_t n;
  };
  std::vector<Setting> settings;
  for (const Json& one : parameters.at("cases"))
    for (int64_t n : parameters.at("n").get<std::vector<int64_t>>())
      if (n <= one.at("most_n").get<int64_t>())
        settings.push_back({one.at("case"), n});
  run.InTurn(static_cast<int64_t>(settings.size()), [&](int64_t index) {
    const Setting& setting = settings[static_cast<size_t>(index)];
    const Case one =
        MakeCase(ParseCaseId(fmt::format("{},n={},scalar=float32,seed={}",
                                         setting.text, setting.n, run.seed())));
    Problem problem = ProblemOf(one);
    Inputs inputs = GenerateInputs(one, problem);
    const Inputs same = inputs;
    Trial trial(problem, std::move(inputs), one.seed);
    const std::vector<WrongAnswer>& wrong_answers = trial.wrong_answers();
    double plain_error = 0;
    for (const OutputAnswer& answer : trial.answer().outputs)
      plain_error = std::max(plain_error, answer.plain_error);
    const auto add = [&](const std::string& rule, double tolerance,
                         const Distances& distances) {
      const auto nearest = std::ranges::min_element(distances);
      table.Add(
          {std::string(one.op->description().id), setting.text, setting.n, rule,
           *nearest,
           wrong_answers[static_cast<size_t>(nearest - distances.begin())].name,
           std::ranges::count_if(distances, [](double d) { return d < 1; }),
           distances.size(), plain_error / tolerance});
    };
    const auto by = [&](const AllClose& tolerance) {
      Distances distances;
      for (const WrongAnswer& wrong : wrong_answers)
        distances.push_back(
            LargestOver(tolerance, problem, trial.answer(), wrong));
      return distances;
    };
    add(kGates, kYardstickFactor * plain_error, OfGates(trial));
    for (double absolute : parameters.at("absolute").get<std::vector<double>>())
      add(fmt::format("allclose {:.0e}", absolute), absolute,
          by({.relative = kRelative, .absolute = absolute}));
    const double allowed = 2 * Bfloat16Error(problem, same, trial.answer(),
                                             parameters.at("bfloat16_rows"));
    add("twice bfloat16", allowed, by({.absolute = allowed}));
  });
  return {table};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "margin");
  StudyVerdict gates{
      "margins",
      "every wrong answer is at least ten tolerances away up to n = 65536"};
  gates.ours = true;
  // Up to each length, and beyond.
  struct Smallest {
    double up_to;
    double margin = HUGE_VAL;
    std::string where;
  };
  Smallest ranges[] = {{kUpTo}, {HUGE_VAL}};
  for (size_t r = 0; r < table.rows.size(); ++r) {
    if (table.Text(r, "rule") != kGates) continue;
    const double margin = table.Number(r, "margin"), n = table.Number(r, "n");
    Smallest& range = *std::ranges::find_if(
        ranges, [&](const Smallest& one) { return n <= one.up_to; });
    if (std::isnan(range.margin) || range.margin <= margin) continue;
    range.margin = margin;
    range.where =
        fmt::format("{:.3g} ({} at n = {:g}, \"{}\")", margin,
                    table.Text(r, "operator"), n, table.Text(r, "nearest"));
  }
  const auto& [near, far] = ranges;
  const bool all_refused = std::isfinite(near.margin) && near.margin > 1;
  gates.outcome = Decide(all_refused && near.margin >= kEnough, all_refused);
  gates.numbers = "smallest margin up to 65536: " + near.where;
  if (!far.where.empty())
    gates.numbers += "; beyond: " + far.where +
                     (far.margin < 1 ? ", where no answer passes" : "");

  // Whether it takes a margin to tell: the usual rules at the largest length.
  StudyVerdict usual{"margins-usual-rules",
                     "up to n = 65536 torch.allclose with an absolute "
                     "tolerance of 1e-2 or 1e-3, and twice the error of "
                     "bfloat16, take wrong answers for right where the gates "
                     "take none"};
  usual.ours = true;
  double ours = 0;
  std::vector<std::pair<std::string, double>> others;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const std::string rule = table.Text(r, "rule");
    const double taken = table.Number(r, "taken");
    if (table.Number(r, "n") > kUpTo) continue;
    if (rule == kGates) {
      ours += taken;
      continue;
    }
    const auto found =
        std::ranges::find(others, rule, &std::pair<std::string, double>::first);
    if (found == others.end())
      others.push_back({rule, taken});
    else
      found->second += taken;
  }
  bool all = !others.empty(), any = false;
  for (const auto& [rule, taken] : others) {
    usual.numbers += fmt::format(
        "{}{}: {:g}", usual.numbers.empty() ? "" : ", ", rule, taken);
    if (rule == "allclose 1e-05") continue;
    all = all && taken > 0;
    any = any || taken > 0;
  }
  std::set<std::string> refused;
  for (size_t r = 0; r < table.rows.size(); ++r)
    if (table.Number(r, "plain") > 1 &&
        table.Text(r, "rule") == "allclose 1e-05")
      refused.insert(table.Text(r, "operator"));
  usual.numbers += fmt::format(
      " wrong answers taken, over all operators and lengths; the gates: {:g}. "
      "allclose 1e-05 refuses the plain program of {} operators somewhere",
      ours, refused.size());
  usual.outcome = Decide(all && ours == 0, any && ours == 0);
  return {gates, usual};
}

}  // namespace

Study MarginsStudy() {
  Study study;
  study.name = "margins";
  study.purpose =
      "How far the nearest wrong answer is from being accepted, by the gates "
      "of this program and by common tolerances.";
  study.source = "this project";
  const auto one = [](const char* text, int64_t most_n) {
    return Json{{"case", text}, {"most_n", most_n}};
  };
  // Judging rows of a million terms, and what stands for them, takes minutes.
  // Two operators go further than what is claimed of all.
  constexpr int64_t kLongest = 1 << 20, kLong = 1 << 18, kMedium = 1 << 16;
  study.parameters = {
      {"n", {256, 1024, 4096, 16384, 65536, 262144, 1048576}},
      {"cases",
       {one("toeplitz_1d:e=16", kLong), one("toeplitz_2d:e=16", kMedium),
        one("toeplitz_2d_xy:e=16", kMedium),
        one("softmax_attention:d=16,e=16,with=bias", kMedium),
        one("linear_attention:d=16,e=16,feature_map=elu1,causal=1", kLongest),
        one("fastrpb_attention:d=16,e=16", kMedium),
        one("kernelized_rpe_attention:d=16,e=16,feature_map=elu1", kMedium),
        one("kernelized_clipped_rpe_attention:d=16,e=16", kMedium),
        one("clipped_rpe_product:d=16", kMedium),
        one("transformer_xl_attention:d=16,e=16", kMedium),
        one("position_attention:D=16,d=16,e=16,scheme=bias", kMedium),
        one("sparse_attention:d=16,e=16", kMedium),
        one("linformer_attention:d=16,e=16", kMedium),
        one("memory_compressed_attention:d=16,e=16", kMedium),
        one("stochastic_position_attention:d=16,e=16", kMedium),
        one("relative_logits_attention:d=16,e=16", kMedium)}},
      {"absolute", {1e-2, 1e-3, 1e-5}},
      {"bfloat16_rows", 24}};
  study.tiny = {{"n", {256}},
                {"cases",
                 {one("toeplitz_1d:e=4", kLong),
                  one("softmax_attention:d=4,e=4,with=bias", kLong)}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
