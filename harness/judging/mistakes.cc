#include "harness/judging/mistakes.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <thread>

#include "harness/judging/mistake.h"
#include "optimized/base/thread_pool.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

bool Always(const Problem&) { return true; }
bool IsGradient(const Problem& problem) { return problem.backward; }
bool IsOutput(const Problem& problem) { return !problem.backward; }
bool IsCausalOutput(const Problem& problem) {
  return IsOutput(problem) && problem.params.Flag("causal");
}
bool HasHeads(const Problem& problem) { return problem.heads > 1; }
bool HasHeadsOfOutput(const Problem& problem) {
  return IsOutput(problem) && HasHeads(problem);
}
bool HasLeadingAxesOfOutput(const Problem& problem) {
  return IsOutput(problem) && !problem.output_leading.front().empty();
}
bool HasSharedGradients(const Problem& problem) {
  return problem.backward && HasHeads(problem);
}
bool HasOffsets(const Problem& problem) {
  return std::ranges::any_of(problem.inputs, [](const TensorRule& rule) {
    return !rule.offset_axes.empty();
  });
}
bool HasOffsetsOfOutput(const Problem& problem) {
  return IsOutput(problem) && HasOffsets(problem);
}

enum class Use {
  kMargins,  // a misreading
  kNames,    // a confusion
  kOptions,  // a confusion about an option, which only applies if it is given
};

// One row for each kind of mistake. If two mistakes have the same answer, the
// first one names it.
struct Kind {
  Use use;
  bool (*applies)(const Problem&);
  void (*add)(Subject&);
};

constexpr Kind kKinds[] = {
    {Use::kMargins, HasOffsets, LeaveOffsetsOut},
    {Use::kMargins, HasOffsets, KeepNearestTile},
    {Use::kMargins, HasOffsets, ShiftOffsets},
    {Use::kMargins, HasOffsets, ReverseOffsets},
    {Use::kMargins, Always, MiscountTiles},
    {Use::kMargins, HasHeads, ReadOtherHeads},
    {Use::kMargins, Always, FlipFlags},
    {Use::kMargins, Always, LeaveVisibilityOut},
    {Use::kMargins, IsGradient, MiscountQueries},
    {Use::kMargins, IsGradient, TakeOneHead},
    {Use::kMargins, IsGradient, LeaveScaleOut},
    {Use::kMargins, Always, LeaveEpsOut},

    {Use::kNames, IsGradient, DetachNormaliser},
    {Use::kNames, HasSharedGradients, ReduceSharedOtherwise},
    {Use::kNames, IsGradient, SwapGradients},
    {Use::kNames, IsGradient, LeaveVisibilityOutOfOne},
    {Use::kNames, Always, ChangeScale},
    {Use::kNames, Always, ScaleBias},
    {Use::kNames, Always, ChangeChoices},
    {Use::kNames, Always, MiscountKeys},
    {Use::kNames, IsCausalOutput, AlignMaskAtEnd},
    {Use::kOptions, IsOutput, MisplaceWindow},
    {Use::kOptions, Always, MistakeSoftcap},
    {Use::kOptions, Always, MistakeSlopes},
    {Use::kOptions, Always, MistakeBuckets},
    {Use::kOptions, Always, MistakeMask},
    {Use::kOptions, Always, MistakeBlockMask},
    {Use::kOptions, Always, MistakePairBias},
    {Use::kOptions, Always, MistakeSinks},
    {Use::kNames, IsOutput, MistakeLogSums},
    {Use::kOptions, IsGradient, DifferentiateLogSumWithoutSink},
    {Use::kOptions, IsOutput, TakeOtherKeyLengths},
    {Use::kOptions, IsOutput, MistakePacking},
    {Use::kNames, IsCausalOutput, MoveMask},
    {Use::kNames, HasOffsetsOfOutput, MoveOffsets},
    {Use::kNames, HasOffsetsOfOutput, MoveOrigin},
    {Use::kNames, HasOffsetsOfOutput, WrapAround},
    {Use::kNames, HasOffsetsOfOutput, ExchangeImageAxes},
    {Use::kNames, HasOffsetsOfOutput, StrideTableByHeight},
    {Use::kNames, IsOutput, SwapKeysAndValues},
    {Use::kNames, HasHeadsOfOutput, ExchangeHeads},
    {Use::kNames, IsOutput, ReshapeHeads},
    {Use::kNames, HasHeadsOfOutput, AttendOverHeads},
    {Use::kNames, HasHeadsOfOutput, GroupHeadsOtherwise},
    {Use::kNames, HasLeadingAxesOfOutput, ReadOtherKeysAndValues},
    {Use::kNames, IsOutput, MergeParts},
    {Use::kNames, IsOutput, AverageOverHiddenKeys},
    {Use::kNames, IsOutput, MisplaceEps},
};

// Returns how many mistakes to evaluate at a time. Each of them copies at most
// all tensors.
int AtATime(const Subject& subject, size_t most_rows, int threads) {
  constexpr double kWorthThreads = 1e7, kMostBytes = 1 << 28;
  const auto mistakes = static_cast<double>(subject.mistakes.size());
  if (mistakes * MistakeWork(subject.problem, most_rows) < kWorthThreads)
    return 1;
  double bytes = 1;
  for (const Tensor& tensor : subject.inputs.tensors)
    bytes += static_cast<double>(tensor.values.size() * sizeof(double));
  return static_cast<int>(
      std::clamp(std::min(kMostBytes / bytes, mistakes), 1.0, 1.0 * threads));
}

// Returns the rows that a program with this mistake returns. Of misreadings, it
// leaves out rows that are not finite.
WrongAnswer WrongAnswerOf(const Subject& subject, const Mistake& mistake,
                          const RowsByOutput& program, Use use) {
  WrongAnswer wrong{.name = mistake.name,
                    .remedy = mistake.remedy,
                    .small_by_design = mistake.small_by_design,
                    .hidden_by_shapes = mistake.hidden_by_shapes,
                    .of_option = mistake.of_option};
  for (size_t o = 0; o < program.size(); ++o) {
    const OutputAnswer& output = subject.answer.outputs[o];
    const auto width = static_cast<size_t>(output.width);
    std::vector<size_t> rows;
    std::vector<long double> values;
    for (size_t i = 0; i < program[o].rows.size(); ++i) {
      const std::span row(&program[o].values[i * width], width);
      const size_t r = program[o].rows[i];
      if (use == Use::kMargins &&
          !std::ranges::all_of(row, [](auto x) { return std::isfinite(x); }))
        continue;
      rows.push_back(r);
      for (size_t c = 0; c < width; ++c)
        values.push_back(
            use == Use::kNames
                ? row[c]
                : output.value[r * width + c] +
                      (row[c] - subject.right[o].values[i * width + c]));
    }
    if (!rows.empty())
      wrong.parts.push_back(
          KeptRows(o, std::move(rows), width, std::move(values)));
  }
  return wrong;
}

// Evaluates the misreadings (kMargins) or all confusions (kNames), in the order
// of the table.
std::vector<WrongAnswer> AnswersOf(Use use, Subject& subject, size_t most_rows,
                                   const std::set<std::string>& only) {
  const int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  subject.threads = threads;
  if (use == Use::kMargins) {
    auto right = subject.AnswerTo(
        [](AlteredProblem& altered) { altered.changed = true; });
    if (!right) return {};
    subject.right = std::move(*right);
  }
  for (const Kind& kind : kKinds) {
    if ((kind.use == Use::kMargins) != (use == Use::kMargins) ||
        !kind.applies(subject.problem))
      continue;
    const size_t first = subject.mistakes.size();
    kind.add(subject);
    for (size_t at = first; at < subject.mistakes.size(); ++at)
      subject.mistakes[at].of_option = kind.use == Use::kOptions;
  }
  std::erase_if(subject.mistakes, [&](const Mistake& mistake) {
    return !only.empty() && !only.contains(mistake.name);
  });
  const std::vector<Mistake>& mistakes = subject.mistakes;
  std::vector<WrongAnswer> answers(mistakes.size());
  ThreadPool pool(AtATime(subject, most_rows, threads));
  subject.threads = std::max(1, threads / pool.threads());
  pool.For(std::ssize(mistakes), [&](int64_t index, int) {
    const auto at = static_cast<size_t>(index);
    if (const auto program = subject.AnswerWith(mistakes[at]))
      answers[at] = WrongAnswerOf(subject, mistakes[at], *program, use);
  });
  std::erase_if(answers,
                [](const WrongAnswer& wrong) { return wrong.parts.empty(); });
  return answers;
}

}  // namespace

double MistakeWork(const Problem& problem, size_t rows) {
  constexpr double kBefore = 64;
  double work = 0;
  for (size_t o = 0; o < problem.outputs.size(); ++o)
    work += (static_cast<double>(rows) +
             kBefore * static_cast<double>(problem.heads)) *
            WorkOfRow(problem, static_cast<int>(o));
  return work + SharedWork(problem);
}

std::vector<WrongAnswer> MisreadAnswers(const Problem& problem,
                                        const Inputs& inputs,
                                        const Answer& answer, size_t most_rows,
                                        const std::set<std::string>& only) {
  std::vector<std::vector<size_t>> chosen;
  for (const OutputAnswer& output : answer.outputs) {
    // A gradient indexed by offset has rows of one element.
    const size_t most = output.width == 1 ? 4 * most_rows : most_rows;
    chosen.push_back(SpreadRows(output.selection.rows.size(), most));
  }
  Subject subject(problem, inputs, answer, std::move(chosen));
  return AnswersOf(Use::kMargins, subject, most_rows, only);
}

std::vector<WrongAnswer> UsualConfusions(const Problem& problem,
                                         const Inputs& inputs,
                                         const Answer& answer,
                                         size_t most_rows) {
  // Those of an output are told by its first output alone, unless another one
  // was asked for.
  const bool all = problem.backward || !WantedOutputs(problem).empty();
  const size_t outputs = all ? answer.outputs.size() : 1;
  std::vector<std::vector<size_t>> chosen;
  RowsByOutput right;
  for (size_t o = 0; o < outputs; ++o) {
    const OutputAnswer& output = answer.outputs[o];
    chosen.push_back(SpreadRows(output.selection.rows.size(), most_rows));
    right.push_back({chosen.back(), {}});
    const auto width = static_cast<size_t>(output.width);
    for (const size_t r : chosen.back())
      std::copy_n(output.value.begin() + static_cast<int64_t>(r * width), width,
                  std::back_inserter(right.back().values));
  }
  Subject subject(problem, inputs, answer, std::move(chosen));
  subject.right = std::move(right);
  return AnswersOf(Use::kNames, subject, most_rows, {});
}

}  // namespace subquad
