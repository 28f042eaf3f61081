#include "harness/registry/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "cuda/device.h"
#include "optimized/targets.h"
#include "reference/clipped_rpe_product.h"
#include "reference/clustered_attention.h"
#include "reference/dynamic_convolution.h"
#include "reference/fastrpb_attention.h"
#include "reference/gmlp_mixing.h"
#include "reference/graph_attention.h"
#include "reference/kernelized_clipped_rpe_attention.h"
#include "reference/kernelized_rpe_attention.h"
#include "reference/linear_attention.h"
#include "reference/linformer_attention.h"
#include "reference/memory_compressed_attention.h"
#include "reference/nystrom_attention.h"
#include "reference/position_attention.h"
#include "reference/relative_logits_attention.h"
#include "reference/sinkhorn_attention.h"
#include "reference/softmax_attention.h"
#include "reference/sparse_attention.h"
#include "reference/stochastic_position_attention.h"
#include "reference/synthesizer_attention.h"
#include "reference/toeplitz_1d.h"
#include "reference/toeplitz_2d.h"
#include "reference/toeplitz_2d_xy.h"
#include "reference/transformer_xl_attention.h"

namespace subquad {

const std::vector<const Operator*>& Operators() {
  static const std::vector<const Operator*> operators = {
      &Toeplitz1d(),
      &Toeplitz2dXy(),
      &Toeplitz2d(),
      &SoftmaxAttention(),
      &LinearAttention(),
      &FastRpbAttention(),
      &KernelizedRpeAttention(),
      &ClippedRpeProduct(),
      &KernelizedClippedRpeAttention(),
      &TransformerXlAttention(),
      &PositionAttention(),
      &RelativeLogitsAttention(),
      &SparseAttention(),
      &LinformerAttention(),
      &MemoryCompressedAttention(),
      &StochasticPositionAttention(),
      &DynamicConvolution(),
      &SynthesizerAttention(),
      &GmlpMixing(),
      &GraphAttention(),
      &ClusteredAttention(),
      &SinkhornAttention(),
      &NystromAttention(),
  };
  return operators;
}

namespace {

struct Tables {
  std::vector<Implementation> here, missing;
};

const Tables& TablesOfTarget() {
  static std::map<const Target*, Tables> by_target;
  static std::mutex mutex;
  const Target& target = CurrentTarget();
  std::lock_guard lock(mutex);
  const auto [entry, is_new] = by_target.try_emplace(&target);
  if (is_new) {
    auto& [here, missing] = entry->second;
    for (Implementation& row : target.implementations())
      (row.prepare ? here : missing).push_back(std::move(row));
    std::ranges::copy(CudaImplementations(), std::back_inserter(here));
  }
  return entry->second;
}

}  // namespace

const std::vector<Implementation>& Implementations() {
  return TablesOfTarget().here;
}

const std::vector<Implementation>& MissingImplementations() {
  return TablesOfTarget().missing;
}

std::string WhyMissing(const std::vector<std::string>& operators,
                       std::string_view id) {
  for (const Implementation& row : MissingImplementations())
    if (row.id == id &&
        (operators.empty() || std::ranges::count(operators, row.op)))
      return "needs " + row.needs +
             ", which this build lacks; build with -DSUBQUAD_FFTW=ON, or `pip "
             "install . -C cmake.define.SUBQUAD_FFTW=ON`";
  return "";
}

const Operator& FindOperator(std::string_view id) {
  std::vector<std::string> names;
  for (const Operator* op : Operators()) {
    if (op->description().id == id) return *op;
    names.emplace_back(op->description().id);
  }
  throw UnknownName("operator", names, std::string(id));
}

std::vector<const Implementation*> ImplementationsOf(const Operator& op) {
  std::vector<const Implementation*> list;
  for (const Implementation& implementation : Implementations())
    if (implementation.op == op.description().id)
      list.push_back(&implementation);
  return list;
}

bool HasBackward(const Operator& op) {
  return std::ranges::any_of(ImplementationsOf(op), &Implementation::backward);
}

const Implementation& FindImplementation(std::string_view op,
                                         std::string_view id, Backend backend) {
  std::vector<std::string> ids;
  for (const Implementation* implementation :
       ImplementationsOf(FindOperator(op))) {
    if (implementation->backend != backend) continue;
    if (implementation->id == id) return *implementation;
    ids.push_back(implementation->id);
  }
  const std::string why = WhyMissing({std::string(op)}, id);
  if (!why.empty() && backend == Backend::kCpu)
    throw InvalidInput(fmt::format("{}/{} {}", op, id, why));
  throw UnknownName(std::string(op) + ": implementation", ids, std::string(id));
}

bool IsAvailable(Backend backend) {
  return backend == Backend::kCpu || Device().present;
}

std::string WhyNot(const Implementation& implementation,
                   const Problem& problem) {
  if (!IsAvailable(implementation.backend)) return Device().why_not;
  const auto& scalars = implementation.scalars;
  if (std::find(scalars.begin(), scalars.end(), problem.scalar) ==
      scalars.end())
    return "no " + std::string(Info(problem.scalar).name) + " version";
  if (problem.backward && !implementation.backward)
    return "no backward pass: " + implementation.why_no_backward;
  return implementation.why_not ? implementation.why_not(problem) : "";
}

}  // namespace subquad
