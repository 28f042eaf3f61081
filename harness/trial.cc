#include "harness/trial.h"

#include <bit>
#include <cmath>
#include <new>

#include "harness/generate.h"
#include "harness/registry.h"

namespace subquad {
namespace {

uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (std::isnan(value)) return 0x7E00;
  if (std::isinf(value)) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(size, &exponent);
  if (size < 0x1p-14)  // subnormal, or zero
    return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  const int fraction = static_cast<int>(std::ldexp(size, 11 - exponent)) - 1024;
  return sign | static_cast<uint16_t>((exponent + 14) << 10 | fraction);
}

// The numbers are already rounded to the type.
void StoreAt(Scalar scalar, double value, void* data, size_t index) {
  switch (scalar) {
    case Scalar::kFloat32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      break;
    case Scalar::kFloat64:
      static_cast<double*>(data)[index] = value;
      break;
    case Scalar::kBFloat16:
      static_cast<uint16_t*>(data)[index] = static_cast<uint16_t>(
          std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
      break;
    case Scalar::kFloat16:
      static_cast<uint16_t*>(data)[index] = ToHalf(value);
      break;
  }
}

}  // namespace

Trial::Trial(Problem problem, Inputs inputs, uint64_t seed)
    : problem_(std::move(problem)), inputs_(std::move(inputs)), seed_(seed) {
  const int64_t bytes = Info(problem_.scalar).bytes;
  for (const Tensor& tensor : inputs_.tensors) {
    const int64_t count = static_cast<int64_t>(tensor.values.size());
    GuardedMemory memory(count * bytes, false);
    for (size_t i = 0; i < tensor.values.size(); ++i)
      StoreAt(problem_.scalar, tensor.values[i], memory.data(), i);
    arrays_.inputs.push_back({tensor.name, problem_.scalar, memory.data(),
                              tensor.head_stride, count});
    input_memory_.push_back(std::move(memory));
  }
  for (size_t i = 0; i < problem_.outputs.size(); ++i) {
    const int64_t count = ElementCount(problem_.OutputShape(i));
    GuardedMemory memory(count * bytes, true);
    arrays_.outputs.push_back(
        {problem_.outputs[i].name, problem_.scalar, memory.data(),
         problem_.output_per_head[i] ? count / problem_.heads : 0, count});
    output_memory_.push_back(std::move(memory));
  }
}

const Answer& Trial::answer() {
  if (!answer_)
    answer_ = std::make_unique<Answer>(ComputeAnswer(problem_, inputs_, seed_));
  return *answer_;
}

void Trial::Poison() { GuardedMemory::PoisonAllWorkspaces(); }

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
  } catch (const std::bad_alloc&) {
    return Verdict::Failed("ran out of memory while running");
  } catch (const std::exception& error) {
    return Verdict::Failed(error.what());
  }
  return JudgeOutputs(implementation);
}

Verdict Trial::JudgeOutputs(const Implementation& implementation) {
  const RowBound bound = implementation.norm_bound
                             ? implementation.norm_bound(problem_, inputs_)
                             : RowBound();
  const bool norm_wise = static_cast<bool>(bound);
  return Judge(Compare(problem_, answer(), arrays_,
                       implementation.bound_factor, bound),
               norm_wise, GuardedMemory::CountBrokenGuards());
}

Verdict Verify(const Implementation& implementation, Trial& trial,
               const PrepareOptions& options) {
  const std::string reason = WhyNot(implementation, trial.problem());
  if (!reason.empty()) return Verdict::Skipped(reason);
  std::unique_ptr<Prepared> prepared;
  try {
    prepared = implementation.prepare(trial.problem(), trial.arrays(), options);
  } catch (const std::bad_alloc&) {
    return Verdict::Skipped("does not fit in memory");
  } catch (const std::exception& error) {
    return Verdict::Failed(error.what());
  }
  return trial.RunAndJudge(implementation, *prepared);
}

}  // namespace subquad
