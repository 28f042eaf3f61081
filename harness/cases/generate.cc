#include "harness/cases/generate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "harness/cases/draws.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/input_source.h"
#include "harness/cases/omega.h"
#include "optimized/base/thread_pool.h"
#include "reference/base/gradients.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

// Scales rows of `width` values to a length; rows of zeros stay.
void ScaleRows(double norm, int64_t width, std::vector<double>& values) {
  for (size_t first = 0; first < values.size();
       first += static_cast<size_t>(width)) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c)
      squares += values[first + c] * values[first + c];
    if (squares == 0) continue;
    const double factor = norm / std::sqrt(squares);
    for (int64_t c = 0; c < width; ++c) values[first + c] *= factor;
  }
}

// Returns `most` rows on both sides of the edges of tiles, whose sizes are
// powers of two, and in the middle, and others evenly spaced.
std::set<int64_t> RowsAtEdges(int64_t rows, int64_t most) {
  std::set<int64_t> chosen;
  const auto add = [&](int64_t row) {
    if (row >= 0 && row < rows && std::ssize(chosen) < most) chosen.insert(row);
  };
  for (const int64_t edge : {int64_t{0}, rows, rows / 2, rows / 128 * 128,
                             int64_t{64}, rows / 3 / 64 * 64})
    for (const int64_t row : {edge - 1, edge}) add(row);
  for (int64_t i = 0; i < most; ++i) add(i * rows / most);
  return chosen;
}

// Leaves a cotangent as it is if all gradients can be computed from it, and
// sets all but a few of its rows to zero otherwise.
void ThinOut(const Problem& problem, int64_t rows, Tensor& cotangent) {
  const int64_t heads = cotangent.slices.count();
  const int64_t kept = RowsWithCotangent(problem);
  if (kept >= heads * rows) return;
  const int64_t width = cotangent.SliceSize() / rows;
  const std::set<int64_t> chosen =
      RowsAtEdges(rows, std::max<int64_t>(1, kept / heads));
  for (int64_t row = 0; row < heads * rows; ++row)
    if (!chosen.contains(row % rows))
      std::fill_n(cotangent.values.begin() + row * width, width, 0);
}

}  // namespace

void RoundTensor(Scalar scalar, const std::string& subject, Tensor& tensor) {
  for (double& value : tensor.values) {
    const double rounded = RoundTo(scalar, value);
    if (std::isfinite(value) && !std::isfinite(rounded))
      throw InvalidInput(
          subject, "numbers in the range of " + std::string(Info(scalar).name),
          std::to_string(value));
    value = rounded;
  }
}

Inputs GenerateInputs(const Case& test_case, const Problem& problem) {
  Inputs inputs;
  const std::string id = test_case.DrawId();
  // Draws tensors that the folder lacks as if there were no folder.
  const HardInput& kind =
      FindHardInput(test_case.source ? "normal" : test_case.input);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  for (size_t t = 0; t < problem.inputs.size(); ++t) {
    const TensorRule& rule = problem.inputs[t];
    if (test_case.source) {
      if (auto tensor = TensorFromSource(*test_case.source, problem, t)) {
        RoundTensor(test_case.scalar, test_case.input + ": " + tensor->name,
                    *tensor);
        inputs.tensors.push_back(std::move(*tensor));
        continue;
      }
    }
    Tensor tensor;
    tensor.name = rule.name;
    tensor.shape = problem.InputShape(t);
    const int64_t count = ElementCount(tensor.shape);
    tensor.slices = problem.InputSlices(t);
    tensor.values.resize(static_cast<size_t>(count));
    const int64_t slice_size = tensor.SliceSize();
    const Shape slice_shape(
        tensor.shape.begin() +
            static_cast<std::ptrdiff_t>(problem.input_leading[t].size()),
        tensor.shape.end());
    const int64_t rows = slice_shape.empty() ? 1 : slice_shape.front();
    const int64_t row_size = slice_size / rows;
    const Draws draws(test_case.seed, id + "/" + rule.name);
    constexpr int64_t kChunk = 1 << 14;
    pool.For((count + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
      const int64_t end = std::min(count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const Place place{rule,     i % slice_size / row_size,
                          rows,     i % row_size,
                          row_size, static_cast<uint64_t>(i)};
        const double drawn = rule.draw.from == Draw::From::kInput
                                 ? kind.value(place, draws)
                             : rule.draw.from == Draw::From::kNormal
                                 ? draws.Normal(place.index)
                                 : draws.Uniform(place.index);
        tensor.values[static_cast<size_t>(i)] =
            rule.draw.number
                ? rule.draw.number(drawn,
                                   {slice_shape, i % slice_size, problem.dims})
                : drawn;
      }
    });
    if (kind.row_norm > 0 && rule.role == Role::kData)
      ScaleRows(kind.row_norm, tensor.shape.back(), tensor.values);
    // Gaussian rows have been filled in above.
    if (rule.draw.projection && test_case.omega != "gaussian") {
      const Draws lengths(test_case.seed, id + "/" + rule.name + "/lengths");
      for (int64_t start = 0; start < count; start += slice_size) {
        const auto omega = SampleOmega(test_case.omega, rows, row_size, draws,
                                       lengths, static_cast<uint64_t>(start));
        for (int64_t i = 0; i < slice_size; ++i)
          tensor.values[static_cast<size_t>(start + i)] =
              omega[static_cast<size_t>(i)];
      }
    }
    for (double& value : tensor.values)
      value = RoundTo(test_case.scalar, value);
    if (problem.backward && IsCotangent(rule.name))
      ThinOut(problem, rows, tensor);
    inputs.tensors.push_back(std::move(tensor));
  }
  problem.op->CheckNumbers(problem, inputs);
  return inputs;
}

}  // namespace subquad
