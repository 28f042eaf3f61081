#include "harness/judging/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "cuda/device.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/judging/diagnose.h"
#include "harness/machine/environment.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

// Emulated multiply-adds are this many times slower than native ones.
constexpr double kEmulated = 100;

}  // namespace

Trial::Trial(Problem problem, Inputs inputs, uint64_t seed, NumbersFrom from,
             double most_work)
    : problem_(std::move(problem)),
      inputs_(std::move(inputs)),
      seed_(seed),
      from_(from),
      most_work_(most_work) {
  const int64_t bytes = Info(problem_.scalar).bytes;
  for (const Tensor& tensor : inputs_.tensors) {
    const int64_t count = static_cast<int64_t>(tensor.values.size());
    GuardedMemory memory(count * bytes, false);
    for (size_t i = 0; i < tensor.values.size(); ++i)
      StoreAt(problem_.scalar, tensor.values[i], memory.data(), i);
    arrays_.inputs.push_back(
        {tensor.name, problem_.scalar, memory.data(), tensor.slices, count});
    input_memory_.push_back(std::move(memory));
  }
  for (size_t i = 0; i < problem_.outputs.size(); ++i) {
    const int64_t count = ElementCount(problem_.OutputShape(i));
    GuardedMemory memory(count * bytes, true);
    arrays_.outputs.push_back({problem_.outputs[i].name, problem_.scalar,
                               memory.data(), problem_.OutputSlices(i), count});
    output_memory_.push_back(std::move(memory));
  }
}

const Answer& Trial::answer() {
  if (!answer_)
    answer_ = std::make_unique<Answer>(ComputeAnswer(
        problem_, inputs_, SelectRows(problem_, seed_, most_work_),
        {.plain = std::min(WorkAgain().plain, most_work_),
         .emulated = std::min(WorkAgain().emulated, most_work_ / kEmulated)}));
  return *answer_;
}

void Trial::Poison() {
  GuardedMemory::PoisonAllWorkspaces();
  PoisonDeviceWorkspaces();
}

void Trial::SetOutputs(const std::vector<std::vector<double>>& outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    output_memory_[o].Poison();
    for (size_t i = 0; i < outputs[o].size(); ++i)
      if (!std::isnan(outputs[o][i]))
        StoreAt(problem_.scalar, RoundTo(problem_.scalar, outputs[o][i]),
                output_memory_[o].data(), i);
  }
}

Verdict Trial::RunAndJudge(const Implementation& implementation,
                           Prepared& prepared) {
  answer();
  Poison();
  try {
    prepared.Run();
  } catch (const OutOfDeviceMemory& refused) {
    return Verdict::Skipped(refused.what());
  } catch (const std::bad_alloc&) {
    return Verdict::Failed("it ran out of memory during the run");
  } catch (const std::exception& error) {
    return Verdict::Failed(error.what());
  }
  return JudgeOutputs(implementation);
}

const std::vector<WrongAnswer>& Trial::wrong_answers() {
  if (!wrong_answers_)
    wrong_answers_ = std::make_unique<std::vector<WrongAnswer>>(
        MakeWrongAnswers(problem_, inputs_, answer(), most_work_));
  return *wrong_answers_;
}

const Trial::Known& Trial::KnownOf(const Implementation& implementation) {
  const std::string name =
      std::string(ToString(implementation.backend)) + "/" + implementation.id;
  std::shared_ptr<const Known>& of_this = known_[name];
  if (of_this) return *of_this;
  const double factor = implementation.bound_factor;
  const RowBound bound = implementation.norm_bound
                             ? implementation.norm_bound(problem_, inputs_)
                             : RowBound();
  const std::string factor_name = fmt::format("factor {}", factor);
  if (!bound && known_[factor_name]) return *(of_this = known_[factor_name]);
  auto known = std::make_shared<Known>();
  known->norm_wise = static_cast<bool>(bound);
  known->bound = bound;
  known->tolerance = ToleranceOf(answer(), factor, bound);
  const auto margin = [&](bool bound_alone) {
    return MarginOf(problem_, inputs_, answer(), wrong_answers(),
                    known->tolerance, bound_alone);
  };
  known->margin = margin(false);
  if (known->norm_wise) known->of_bound_alone = margin(true);
  if (!bound) known_[factor_name] = known;
  return *(known_[name] = std::move(known));
}

Verdict Trial::JudgeOutputs(const Implementation& implementation) {
  const Known& known = KnownOf(implementation);
  const Comparison comparison =
      Compare(problem_, answer(), arrays_, known.tolerance);
  // A wrong answer that passes a norm-wise bound but not gate 2 would have been
  // judged by its bound alone.
  const bool bound_alone = known.norm_wise && !(OverYardstick(comparison) <= 1);
  return Judge(comparison, bound_alone ? known.of_bound_alone : known.margin,
               known.norm_wise,
               GuardedMemory::CountBrokenGuards() + CountBrokenDeviceGuards(),
               from_);
}

void Trial::Explain(const Implementation& implementation, Verdict& verdict) {
  if (verdict.outcome != Outcome::kFailed || verdict.comparison.elements == 0)
    return;
  const Known& known = KnownOf(implementation);
  try {
    Answer result = answer();
    for (size_t o = 0; o < result.outputs.size(); ++o) {
      OutputAnswer& output = result.outputs[o];
      const FoundNumbers numbers = FoundIn(arrays_, o, output);
      const auto width = static_cast<size_t>(output.width);
      for (size_t at = 0; at < output.value.size(); ++at)
        output.value[at] =
            numbers(at / width, static_cast<int64_t>(at % width));
    }
    verdict.diagnosis = Diagnose(problem_, inputs_, answer(), wrong_answers(),
                                 result, known.tolerance, known.norm_wise);
  } catch (const std::bad_alloc&) {
    // The verdict is valid without a diagnosis.
  }
}

std::string DoesNotFit(const Implementation& implementation,
                       const Problem& problem, int threads) {
  // Asking for the free memory takes longer than a small problem.
  constexpr double kUncheckedBytes = 1 << 28;
  double needed = implementation.CostOf(problem, threads).workspace_bytes;
  if (implementation.backend == Backend::kCuda) {
    needed += TensorBytes(problem);
    const auto free = static_cast<double>(AvailableDeviceBytes());
    if (free <= 0 || needed <= free) return "";
    return fmt::format(
        "does not fit in the device's memory: needs {:.3g} GiB for tensors and "
        "workspace, {:.3g} are available",
        needed / (1 << 30), free / (1 << 30));
  }
  if (!(needed > kUncheckedBytes)) return "";
  const double free = 0.8 * static_cast<double>(AvailableMemoryBytes());
  if (free <= 0 || needed <= free) return "";  // 0: unknown
  return fmt::format(
      "does not fit in memory: needs {:.3g} GiB of workspace, {:.3g} are free",
      needed / (1 << 30), free / (1 << 30));
}

Verdict Verify(const Implementation& implementation, Trial& trial,
               const PrepareOptions& options) {
  std::string reason = WhyNot(implementation, trial.problem());
  if (reason.empty())
    reason = DoesNotFit(implementation, trial.problem(), options.threads);
  if (reason.empty() && !FitsType(trial.problem(), trial.answer()))
    reason = fmt::format("the answer has values beyond the range of {}",
                         Info(trial.problem().scalar).name);
  if (!reason.empty()) return Verdict::Skipped(reason);
  std::unique_ptr<Prepared> prepared;
  try {
    prepared = implementation.Prepare(trial.problem(), trial.arrays(), options);
  } catch (const OutOfDeviceMemory& refused) {
    return Verdict::Skipped(refused.what());
  } catch (const std::bad_alloc&) {
    return Verdict::Skipped("does not fit in memory");
  } catch (const std::exception& error) {
    return Verdict::Failed(error.what());
  }
  return trial.RunAndJudge(implementation, *prepared);
}

}  // namespace subquad
