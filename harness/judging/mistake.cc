#include "harness/judging/mistake.h"

#include <algorithm>

#include "optimized/base/thread_pool.h"
#include "reference/base/work.h"

namespace subquad {

AlteredProblem::AlteredProblem(const Problem& right, const Inputs& right_inputs)
    : problem(right) {
  inputs.tensors.reserve(problem.inputs.size() + 1);
  inputs.original = &right_inputs;
}

Tensor& AlteredProblem::Change(const std::string& name) {
  changed = true;
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == name) return tensor;
  return inputs.tensors.emplace_back((*inputs.original)[name]);
}

void AlteredProblem::Give(Tensor tensor, const std::string& in_place_of) {
  inputs.tensors.push_back(std::move(tensor));
  dropped_ = in_place_of;
}

void AlteredProblem::Resolve(Params params) {
  changed = true;
  std::vector<GivenShape> shapes;
  for (const TensorRule& rule : problem.inputs)
    if (rule.name != dropped_)
      shapes.push_back({rule.name, inputs[rule.name].shape});
  for (const Tensor& tensor : inputs.tensors)
    if (!problem.HasInput(tensor.name))
      shapes.push_back({tensor.name, tensor.shape});
  problem = ResolveProblem(*problem.op, std::move(params), problem.scalar,
                           shapes, problem.leading, WantedOutputs(problem));
  for (Tensor& tensor : inputs.tensors)
    tensor.slices = problem.SlicesOf(tensor.name);
}

std::optional<ParamRule> Subject::RuleOf(const std::string& parameter) const {
  for (const ParamRule& rule : problem.op->ParamRules(problem.params))
    if (rule.name == parameter) return rule;
  return std::nullopt;
}

template <typename Real>
RowsByOutput Subject::Evaluate(const Problem& altered, const Mistake& mistake,
                               Reference<Real>& reference) const {
  constexpr double kWorthThreads = 1e7;
  RowsByOutput outputs(chosen_.size());
  for (size_t o = 0; o < chosen_.size(); ++o) {
    const OutputAnswer& output = answer.outputs[o];
    const int64_t count = LayoutOf(altered, static_cast<int>(o)).rows;
    std::vector<RowId> sources;
    for (const size_t r : chosen_[o]) {
      RowId source = output.selection.rows[r];
      if (mistake.source) source = mistake.source(source);
      source.output = static_cast<int>(o);
      if (source.row < 0 || source.row >= count) continue;
      outputs[o].rows.push_back(r);
      sources.push_back(source);
    }
    const auto width = static_cast<size_t>(output.width);
    std::vector<long double>& values = outputs[o].values;
    values.resize(sources.size() * width);
    const double work = static_cast<double>(sources.size()) *
                        WorkOfRow(altered, static_cast<int>(o));
    ThreadPool pool(work < kWorthThreads ? 1 : threads);
    pool.For(std::ssize(sources), [&](int64_t index, int) {
      const auto at = static_cast<size_t>(index);
      std::vector<Real> row(width);
      reference.Row(sources[at], row.data(), nullptr);
      std::ranges::copy(row, &values[at * width]);
    });
  }
  return outputs;
}

std::optional<RowsByOutput> Subject::AnswerWith(const Mistake& mistake) const {
  try {
    RowsByOutput rows;
    if (mistake.alter) {
      AlteredProblem altered(problem, inputs);
      mistake.alter(altered);
      const auto is_same = [&](const Tensor& now) {
        return now.values == inputs[now.name].values;
      };
      if (!altered.changed ||
          (mistake.if_values_change &&
           std::ranges::all_of(altered.inputs.tensors, is_same)))
        return std::nullopt;
      const auto evaluate = [&](auto reference) {
        return Evaluate(altered.problem, mistake, *reference);
      };
      rows =
          problem.scalar == Scalar::kFloat64
              ? evaluate(
                    ReferenceIn<long double>(altered.problem, altered.inputs))
              : evaluate(ReferenceIn<double>(altered.problem, altered.inputs));
    } else {
      rows = right;
    }
    if (mistake.finish && !mistake.finish(rows)) return std::nullopt;
    return rows;
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

}  // namespace subquad
