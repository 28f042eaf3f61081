#include "reference/contract/gmlp_mixing.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "reference/gmlp_mixing_rows.h"
#include "reference/toeplitz_1d.h"

namespace subquad {

Problem MixingOf(const Problem& problem) {
  Shape values = problem.leading;
  values.push_back(problem.Dim("n"));
  values.push_back(problem.Dim("m"));
  const auto weights = static_cast<size_t>(problem.InputIndex("weights"));
  return ResolveProblem(
      Toeplitz1d(), {}, problem.scalar,
      {{"weights", problem.InputShape(weights)}, {"values", values}},
      problem.leading);
}

RowBound GmlpBound(const Problem& problem, const Inputs& inputs,
                   const Implementation& mixing) {
  struct Parts {
    Problem mixing;
    Inputs mixing_inputs;
    RowBound mixing_bound;
    std::unique_ptr<GmlpMixingReference<double>> reference;
  };
  const auto parts = std::make_shared<Parts>();
  parts->mixing = MixingOf(problem);
  parts->reference =
      std::make_unique<GmlpMixingReference<double>>(problem, inputs);
  const int64_t n = problem.Dim("n"), m = problem.Dim("m");
  for (size_t i = 0; i < parts->mixing.inputs.size(); ++i) {
    Tensor tensor;
    if (parts->mixing.inputs[i].name == "weights") {
      tensor = inputs["weights"];
    } else {
      tensor.name = "values";
      tensor.shape = parts->mixing.InputShape(i);
      tensor.slices = parts->mixing.InputSlices(i);
      for (int64_t head = 0; head < problem.heads; ++head) {
        const double* first = parts->reference->Numbers(head).Row(0);
        tensor.values.insert(tensor.values.end(), first, first + n * m);
      }
    }
    parts->mixing_inputs.tensors.push_back(std::move(tensor));
  }
  parts->mixing_bound = mixing.norm_bound(parts->mixing, parts->mixing_inputs);
  if (!parts->mixing_bound) return {};
  return [parts, m](const RowId& id, std::span<double> units) {
    std::vector<double> of_mixing(static_cast<size_t>(m));
    parts->mixing_bound(id, of_mixing);
    parts->reference->UnitsWithMixing(id, of_mixing.data(), units.data());
  };
}

}  // namespace subquad
