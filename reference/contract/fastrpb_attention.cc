#include "reference/contract/fastrpb_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "reference/inner_attention.h"
#include "reference/toeplitz_1d.h"
#include "reference/toeplitz_2d.h"
#include "reference/toeplitz_2d_xy.h"

namespace subquad {

Problem ProductOf(const Problem& problem) {
  Params params;
  std::vector<GivenShape> shapes;
  const auto shape = [&](const std::string& name) {
    return problem.InputShape(static_cast<size_t>(problem.InputIndex(name)));
  };
  shapes.push_back({"values", shape("v")});
  if (!IsImage(problem)) {
    for (const char* name : {"causal", "query_offset", "key_lengths"})
      if (problem.params.Has(name))
        params.Set(name, problem.params.values().at(name));
    shapes.push_back({"weights", shape("weights")});
    return ResolveProblem(Toeplitz1d(), params, problem.scalar, shapes,
                          problem.leading);
  }
  for (const char* name : {"height", "width"})
    params.Set(name, problem.params.Integer(name));
  if (!NeedsFullImage(problem)) {
    for (const char* name : {"weights_rows", "weights_cols"})
      shapes.push_back({name, shape(name)});
    return ResolveProblem(Toeplitz2dXy(), params, problem.scalar, shapes,
                          problem.leading);
  }
  Shape weights = {2 * problem.Dim("height") - 1, 2 * problem.Dim("width") - 1};
  // Weights of rows and columns together have as many slices as the problem.
  if (problem.SlicesOf("weights_rows").count() > 1 ||
      problem.SlicesOf("weights_cols").count() > 1)
    weights.insert(weights.begin(), problem.leading.begin(),
                   problem.leading.end());
  shapes.push_back({"weights", weights});
  return ResolveProblem(Toeplitz2d(), params, problem.scalar, shapes,
                        problem.leading);
}

Arrays PartOf(const Problem& term, const Arrays& whole) {
  Arrays part = whole;
  part.inputs.clear();
  for (size_t i = 0; i < term.inputs.size(); ++i) {
    const std::string& name = term.inputs[i].name;
    const std::string source = name == "values" ? "v" : name;
    const auto entry =
        std::ranges::find(whole.inputs, source, &Arrays::Entry::name);
    if (entry != whole.inputs.end()) {
      part.inputs.push_back(*entry);
      part.inputs.back().name = name;
      continue;
    }
    part.inputs.push_back({name, whole.outputs[0].scalar, nullptr,
                           term.InputSlices(i),
                           ElementCount(term.InputShape(i))});
  }
  return part;
}

template <typename T>
void FillImageWeights(int64_t height, int64_t width, const T* rows,
                      const T* columns, T* weights) {
  for (int64_t r = 1 - height; r < height; ++r)
    for (int64_t c = 1 - width; c < width; ++c) {
      const bool visible = r < 0 || (r == 0 && c <= 0);
      *weights++ =
          visible ? rows[r + height - 1] + columns[c + width - 1] : T{0};
    }
}

template void FillImageWeights(int64_t, int64_t, const float*, const float*,
                               float*);
template void FillImageWeights(int64_t, int64_t, const double*, const double*,
                               double*);

RowBound FastRpbBound(const Problem& problem, const Inputs& inputs,
                      const Implementation& product) {
  struct Parts {
    Problem product;
    Inputs product_inputs;
    RowBound product_bound;
    Problem attention;
    std::unique_ptr<Reference<double>> whole, attention_rows;
    int64_t e;
  };
  const auto parts = std::make_shared<Parts>();
  parts->product = ProductOf(problem);
  parts->e = problem.Dim("e");
  for (const TensorRule& rule : parts->product.inputs) {
    Tensor tensor;
    if (rule.name == "weights" && NeedsFullImage(problem)) {
      const size_t index =
          static_cast<size_t>(parts->product.InputIndex("weights"));
      tensor.shape = parts->product.InputShape(index);
      tensor.slices = parts->product.InputSlices(index);
      tensor.values.resize(static_cast<size_t>(ElementCount(tensor.shape)));
      for (int64_t slice = 0; slice < tensor.slices.count(); ++slice)
        FillImageWeights(problem.Dim("height"), problem.Dim("width"),
                         inputs["weights_rows"].Head(slice),
                         inputs["weights_cols"].Head(slice),
                         tensor.values.data() + slice * tensor.SliceSize());
    } else {
      tensor = inputs[rule.name == "values" ? "v" : rule.name];
    }
    tensor.name = rule.name;
    parts->product_inputs.tensors.push_back(std::move(tensor));
  }
  parts->product_bound =
      product.norm_bound(parts->product, parts->product_inputs);
  parts->attention = AttentionOf(problem);
  parts->whole = ReferenceIn<double>(problem, inputs);
  parts->attention_rows = ReferenceIn<double>(parts->attention, inputs);
  return [parts](const RowId& id, std::span<double> units) {
    std::vector<double> value(static_cast<size_t>(parts->e));
    std::vector<double> of_product(static_cast<size_t>(parts->e));
    parts->attention_rows->Row(id, value.data(), units.data());
    parts->whole->Row(id, value.data(), nullptr);
    parts->product_bound(id, of_product);
    for (size_t c = 0; c < units.size(); ++c)
      units[c] += of_product[c] + std::abs(value[c]);
  };
}

}  // namespace subquad
