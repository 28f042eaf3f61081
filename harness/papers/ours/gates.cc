// What the tests of others accept: the formulas by which published harnesses
// decide that an output is right, on answers with known mistakes and on answers
// of right programs. Outputs are in bfloat16. `x` is the output of a program,
// `y` the right answer; each formula is written with the defaults of its source
// for bfloat16, read in 2026, and with y rounded to bfloat16 where the source
// rounds it. Sums are in float64, also where a source has them in 16 bits, and
// y is exact also where a source has an answer of its own program.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "harness/cases/generate.h"
#include "harness/judging/low_precision.h"
#include "harness/judging/power.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/ours/ours.h"

namespace subquad {
namespace {

constexpr double kUnit = 0x1p-8;  // half the distance from 1 to the next number

// One output, or some rows of it, against the right answer.
struct Returned {
  const std::vector<double>&x, &y, &y_rounded;
  // The largest errors of a program whose every result is in bfloat16, against
  // y and against y_rounded.
  double eager, eager_rounded;
  bool backward;
};

// Tells whether |x - y| is within the tolerance at a share of the elements.
template <typename Within>
bool AtShare(const Returned& one, const std::vector<double>& y, double share,
             const Within& within) {
  int64_t right = 0;
  for (size_t i = 0; i < one.x.size(); ++i)
    right += within(std::abs(one.x[i] - y[i]), y[i], one.x[i]);
  return static_cast<double>(right) >=
         share * static_cast<double>(one.x.size());
}

// allclose with relative and absolute tolerances for outputs and for gradients.
struct Tolerances {
  double relative, absolute;
};
bool IsClose(const Returned& one, const std::vector<double>& y,
             Tolerances most) {
  return AtShare(one, y, 1, [&](double error, double right, double) {
    return error <= most.absolute + most.relative * std::abs(right);
  });
}

double LargestError(const std::vector<double>& x,
                    const std::vector<double>& y) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i)
    largest = Worst(largest, std::abs(x[i] - y[i]));
  return largest;
}

// |x - y|_2 / |z|_2.
double RelativeError(const std::vector<double>& x, const std::vector<double>& y,
                     const std::vector<double>& z) {
  double errors = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    errors += (x[i] - y[i]) * (x[i] - y[i]);
    squares += z[i] * z[i];
  }
  return std::sqrt(errors) / (std::sqrt(squares) + 1e-8);
}

bool OfFla(const Returned& one) {
  return LargestError(one.x, one.y_rounded) <= 1e-6 ||
         RelativeError(one.x, one.y_rounded, one.y_rounded) <
             (one.backward ? 0.008 : 0.005);
}

struct Gate {
  const char *name, *formula, *source;
  // What the source compares with, and for which operators it has the formula.
  const char *against, *made_for;
  // Whether the source tests gradients by it.
  bool gradients;
  bool (*accepts)(const Returned&);
};

constexpr char kWider[] = "float32", kOwnType[] = "bfloat16",
               kAuthors[] = "author", kAny[] = "any",
               kAttention[] = "attention";
// The sources are repositories and files with the commit that was read.
constexpr Gate kGates[] = {
    {"SOL-ExecBench", "99 % of |x-y| <= 1e-2 + 1e-2 |y|, not all of x 0",
     "NVIDIA/SOL-ExecBench/src/sol_execbench/core/bench/correctness.py, "
     "8d2237d2",
     kAuthors, kAny, true,
     [](const Returned& one) {
       return std::ranges::any_of(one.x, [](double x) { return x != 0; }) &&
              AtShare(one, one.y_rounded, 0.99,
                      [](double error, double y, double) {
                        return error <= 1e-2 + 1e-2 * std::abs(y);
                      });
     }},
    {"FlashInfer-Bench", "|x-y| <= 1e-2 or |x-y|/|y| <= 1e-2",
     "flashinfer-ai/flashinfer-bench/flashinfer_bench/bench/utils.py, 40e6ca78",
     kAuthors, kAny, false,
     [](const Returned& one) {
       return AtShare(
           one, one.y_rounded, 1, [](double error, double y, double) {
             return error <= 1e-2 || error / (std::abs(y) + 1e-8) <= 1e-2;
           });
     }},
    {"KernelBench", "|x-y| <= 1e-2 + 1e-2 |x|",
     "ScalingIntelligence/KernelBench/src/kernelbench/eval.py, 423217d9",
     kOwnType, kAny, false,
     [](const Returned& one) {
       return AtShare(one, one.y_rounded, 1,
                      [](double error, double, double x) {
                        return error <= 1e-2 + 1e-2 * std::abs(x);
                      });
     }},
    {"fla in CI", "by hand, or relative error < 1e-2, or max |x-y| <= 0.3",
     "fla-org/flash-linear-attention/fla/utils/_testing.py, bc3b101d", kWider,
     kAny, true,
     [](const Returned& one) {
       return OfFla(one) ||
              RelativeError(one.x, one.y_rounded, one.y_rounded) < 1e-2 ||
              LargestError(one.x, one.y_rounded) <= 0.3;
     }},
    {"fla by hand", "|x-y|_2 / |y|_2 < 5e-3, gradients 8e-3",
     "fla-org/flash-linear-attention/tests/ops (attn, delta_rule), "
     "bc3b101d",
     kWider, kAny, true, OfFla},
    {"FlashAttention 2",
     "max |x-y| <= 2 max |p-y|, gradients 3; p: PyTorch in bfloat16",
     "Dao-AILab/flash-attention/tests/test_flash_attn.py, 0251105a", kWider,
     kAttention, true,
     [](const Returned& one) {
       return LargestError(one.x, one.y_rounded) <=
              (one.backward ? 3 : 2) * one.eager_rounded;
     }},
    {"ggml", "|x-y|^2 / |x|^2 <= 5e-4",
     "ggml-org/ggml/tests/test-backend-ops.cpp, d99724f2", kWider, kAttention,
     false,
     [](const Returned& one) {
       const double relative = RelativeError(one.x, one.y, one.x);
       return relative * relative <= 5e-4;
     }},
    {"oneDNN graph",
     "|x-y| or |x-y|/|y| <= 2^-7; else at most 1/1024 of the points beyond and "
     "|x-y|_2 / |y|_2 <= 3e-3",
     "uxlfoundation/oneDNN/tests/benchdnn/graph/ref_partition.cpp, 3f27bec2, "
     "as on a GPU",
     kWider, kAttention, true,
     [](const Returned& one) {
       const auto within = [](double error, double y, double) {
         return error <= 2 * kUnit || error <= 2 * kUnit * std::abs(y);
       };
       return AtShare(one, one.y_rounded, 1, within) ||
              (AtShare(one, one.y_rounded, 1 - 0x1p-10, within) &&
               RelativeError(one.x, one.y_rounded, one.y_rounded) <= 3e-3);
     }},
    {"torch.testing", "|x-y| <= 1e-5 + 1.6e-2 |y|",
     "PyTorch 2.15, torch/testing/_comparison.py", kAuthors, kAny, true,
     [](const Returned& one) {
       return IsClose(one, one.y_rounded, {1.6e-2, 1e-5});
     }},
    {"torchtitan", "|x-y| <= 1e-2 + 1e-2 |y|",
     "pytorch/torchtitan/tests/unit_tests/test_fused_mla_override.py, b5bcd76c",
     kOwnType, kAttention, true,
     [](const Returned& one) {
       return IsClose(one, one.y_rounded, {1e-2, 1e-2});
     }},
    {"torchtitan, for agents",
     "max |x-y| <= 2 max |p-y| + the rounding of y; p: PyTorch in bfloat16",
     "pytorch/torchtitan/.claude/skills/kernel-numerics-verifier, c988cc9a",
     kWider, kAny, true,
     [](const Returned& one) {
       return LargestError(one.x, one.y) <=
              2 * one.eager + LargestError(one.y_rounded, one.y);
     }},
    {"TritonBench", "|x-y| <= 2e-2 + 1e-2 |y|",
     "meta-pytorch/tritonbench/tritonbench/operators/flash_attention/"
     "operator.py, db2155c8",
     kOwnType, kAttention, false,
     [](const Returned& one) {
       return IsClose(one, one.y_rounded, {1e-2, 2e-2});
     }},
    {"onnxruntime", "|x-y| <= 1e-2 + 5e-2 |y|",
     "microsoft/onnxruntime/onnxruntime/test/python/transformers/test_gqa.py, "
     "00ba6003",
     kWider, kAttention, false,
     [](const Returned& one) {
       return IsClose(one, one.y_rounded, {5e-2, 1e-2});
     }},
    {"xformers", "|x-y| <= 2e-2 + 5e-3 |y|, gradients 0.9 + 0.1 |y|",
     "facebookresearch/xformers/xformers/ops/fmha/common.py, bed3978b", kWider,
     kAttention, true,
     [](const Returned& one) {
       return IsClose(
           one, one.y,
           one.backward ? Tolerances{0.1, 0.9} : Tolerances{5e-3, 2e-2});
     }},
};
// An answer by output, and whether our gates accept it.
struct Tried {
  std::string name;
  std::vector<ReturnedRows> outputs;
  bool in_float32, in_bfloat16;
};

// Our own gates: for arithmetic in float32 whose results are rounded once, and
// for arithmetic in bfloat16. `check` tries the second after the first.
struct OwnGate {
  const char *name, *arithmetic;
  bool Tried::*accepts;
};
constexpr OwnGate kOfFloat32{"subquad, float32", "float32", &Tried::in_float32},
    kOfBFloat16{"subquad, bfloat16", "bfloat16", &Tried::in_bfloat16};

// The rows `some` of [rows, width].
std::vector<double> Rows(const std::vector<long double>& values,
                         const std::vector<size_t>& some, size_t width) {
  std::vector<double> chosen;
  for (const size_t row : some)
    chosen.insert(chosen.end(), values.begin() + row * width,
                  values.begin() + (row + 1) * width);
  return chosen;
}

// Accepts answers if every output is.
bool Accepts(const Gate& gate, const TestAnswers& answers, const Tried& tried,
             const Tried& eager, bool backward) {
  for (size_t o = 0; o < tried.outputs.size(); ++o) {
    const OutputAnswer &exact = answers.expected->outputs[o],
                       &stored = answers.stored->outputs[o];
    const auto width = static_cast<size_t>(exact.width);
    const auto& [rows, x] = tried.outputs[o];
    // Every source refuses outputs with NaN.
    if (!std::ranges::all_of(x, [](double one) { return std::isfinite(one); }))
      return false;
    const auto& [eager_rows, p] = eager.outputs[o];
    const std::vector<double> y = Rows(exact.value, rows, width),
                              y_rounded = Rows(stored.value, rows, width);
    if (!gate.accepts({x, y, y_rounded,
                       LargestError(p, Rows(exact.value, eager_rows, width)),
                       LargestError(p, Rows(stored.value, eager_rows, width)),
                       backward}))
      return false;
  }
  return true;
}

// The answer with the error that `check` expects of arithmetic in bfloat16.
Answer WithErrorOfType(const Answer& answer, bool backward) {
  Answer wider = answer;
  for (OutputAnswer& output : wider.outputs)
    output.given_error = (backward ? 8 : 4) * kUnit * output.largest;
  return wider;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTable table{
      "gates",
      {{"gate", "name", "whose formula"},
       {"own", "name",
        "of our gates, the arithmetic they are for; empty: of others"},
       {"operator", "name", "operator"},
       {"case", "name", "its case, without the length"},
       {"n", "tokens", "queries and keys"},
       {"pass", "name", "forward: the outputs; backward: all gradients"},
       {"rows", "1", "rows of the outputs that were compared"},
       {"wrong_answers", "1", "answers with a known mistake"},
       {"accepted", "1", "of them the formula accepts"},
       {"names", "name", "their mistakes, separated by semicolons"},
       {"refused", "name",
        "right programs that it refuses, separated by semicolons"}},
      {}};
  struct Setting {
    std::string text;
    int64_t n;
    bool backward;
  };
  std::vector<Setting> settings;
  for (const Json& one : parameters.at("cases"))
    for (const bool backward : {false, true})
      for (int64_t n : parameters.at("n").get<std::vector<int64_t>>())
        if (!backward || n <= parameters.at("most_n_backward").get<int64_t>())
          settings.push_back({one, n, backward});
  const double most_work = parameters.at("most_work");
  run.InTurn(static_cast<int64_t>(settings.size()), [&](int64_t index) {
    const Setting& setting = settings[static_cast<size_t>(index)];
    const Case one = MakeCase(ParseCaseId(fmt::format(
        "{},n={},scalar=bfloat16,seed={}{}", setting.text, setting.n,
        run.seed(), setting.backward ? ",backward=1" : "")));
    const Problem problem = ProblemOf(one);
    const Inputs inputs = GenerateInputs(one, problem);
    const TestAnswers answers = AnswersOfTest(problem, inputs, most_work);
    const Tolerance tolerance = ToleranceOf(*answers.expected, 1, {});
    const Answer of_type = WithErrorOfType(*answers.expected, setting.backward);
    const auto within = [&](const Answer& expected, const WrongAnswer& answer) {
      return DistanceOf(CompareRows(problem, expected, answer.parts, tolerance),
                        false) <= 1;
    };
    const auto tried_of = [&](const WrongAnswer& answer) -> Tried {
      return {answer.name, RowsOf(problem, *answers.stored, answer),
              within(*answers.expected, answer), within(of_type, answer)};
    };
    std::vector<Tried> wrong, right;
    for (const WrongAnswer& answer : answers.wrong)
      if (!answer.small_by_design && !IsSame(problem, *answers.stored, answer))
        wrong.push_back(tried_of(answer));
    // Some formulas need it; all are compared on the same cases.
    std::optional<Tried> eager;
    for (const RightAnswer& each :
         RightAnswersOfTest(problem, inputs, answers, most_work)) {
      right.push_back(tried_of(each.answer));
      if (each.arithmetic == RightArithmetic::kResultsInType)
        eager = right.back();
    }
    if (!eager) return;
    int64_t rows = 0;
    for (const OutputAnswer& output : answers.expected->outputs)
      rows += std::ssize(output.selection.rows);
    const auto add = [&](const char* gate, const char* own,
                         const auto& accepts) {
      std::set<std::string> names, refused;
      int64_t accepted = 0;
      for (const Tried& answer : wrong)
        if (accepts(answer)) {
          names.insert(answer.name);
          ++accepted;
        }
      for (const Tried& answer : right)
        if (!accepts(answer)) refused.insert(answer.name);
      table.Add({gate, own, std::string(one.op->description().id), setting.text,
                 setting.n, setting.backward ? "backward" : "forward", rows,
                 wrong.size(), accepted,
                 fmt::format("{}", fmt::join(names, "; ")),
                 fmt::format("{}", fmt::join(refused, "; "))});
    };
    for (const OwnGate& gate : {kOfFloat32, kOfBFloat16})
      add(gate.name, gate.arithmetic,
          [&](const Tried& answer) { return answer.*gate.accepts; });
    for (const Gate& gate : kGates)
      if (gate.gradients || !setting.backward)
        add(gate.name, "", [&](const Tried& answer) {
          return Accepts(gate, answers, answer, *eager, setting.backward);
        });
  });
  StudyTable formulas{
      "formulas",
      {{"gate", "name", "whose formula"},
       {"formula", "name", "x: an output, y: the right answer"},
       {"against", "name",
        "what the source compares with: a program in at least "
        "float32 or in bfloat16, or any that an author gives"},
       {"made_for", "name", "operators for which the source has the formula"},
       {"source", "name", "where it was read"}},
      {}};
  for (const Gate& gate : kGates)
    formulas.Add(
        {gate.name, gate.formula, gate.against, gate.made_for, gate.source});
  return {table, formulas};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "gates");
  StudyVerdict verdict{"gates",
                       "the gates for arithmetic in float32 accept no wrong "
                       "answer, and those for "
                       "arithmetic in bfloat16 refuse no right program"};
  verdict.ours = true;
  struct Total {
    double wrong = 0, accepted = 0, cases = 0, refused = 0;
  };
  std::map<std::string, Total> totals;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    Total& total = totals[table.Text(r, "gate")];
    total.wrong += table.Number(r, "wrong_answers");
    total.accepted += table.Number(r, "accepted");
    total.cases += 1;
    total.refused += !table.Text(r, "refused").empty();
  }
  for (const auto& [gate, total] : totals)
    verdict.numbers += fmt::format(
        "{}{}: {:g} of {:g} wrong answers accepted, a right program refused in "
        "{:g} of {:g} cases",
        verdict.numbers.empty() ? "" : "; ", gate, total.accepted, total.wrong,
        total.refused, total.cases);
  const Total &own = totals[kOfFloat32.name],
              &of_type = totals[kOfBFloat16.name];
  const bool refuses = own.wrong > 0 && own.accepted == 0,
             accepts = of_type.cases > 0 && of_type.refused == 0;
  verdict.outcome = Decide(refuses && accepts);
  return {verdict};
}

}  // namespace

Study GatesStudy() {
  Study study;
  study.name = "gates";
  study.purpose =
      "Which wrong answers the tests of published harnesses accept, and which "
      "right programs they refuse, in bfloat16.";
  study.source = "this project";
  study.parameters = {
      {"n", {256, 1024, 4096, 16384, 65536}},
      // For gradients of longer problems the program whose every result is in
      // bfloat16 takes too long.
      {"most_n_backward", 256},
      {"most_work", 4e9},
      {"cases",
       {"softmax_attention:d=64,e=64,with=bias",
        "softmax_attention:d=64,e=64,causal=1",
        "linear_attention:d=64,e=64,feature_map=elu1,causal=1",
        "kernelized_rpe_attention:d=64,e=64,feature_map=elu1",
        "fastrpb_attention:d=64,e=64", "toeplitz_1d:e=64",
        "transformer_xl_attention:d=64,e=64", "sparse_attention:d=64,e=64",
        "relative_logits_attention:d=64,e=64"}}};
  study.tiny = {{"n", {64}},
                {"most_n_backward", 64},
                {"most_work", 1e8},
                {"cases", {"softmax_attention:d=16,e=16,with=bias"}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
