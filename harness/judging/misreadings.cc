#include "harness/judging/misreadings.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "harness/judging/misreader.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

using Rows = Misreader::Rows;

// Replaces the values at first, first + stride, .. for the lifetime of this
// object. Only these values are copied, not the whole tensor.
class AlteredPart {
 public:
  AlteredPart(Tensor& tensor, int64_t first, int64_t end, int64_t stride)
      : tensor_(tensor), first_(first), stride_(stride) {
    for (int64_t i = first; i < end; i += stride)
      kept_.push_back(tensor.values[static_cast<size_t>(i)]);
  }
  ~AlteredPart() {
    for (size_t i = 0; i < kept_.size(); ++i)
      tensor_.values[static_cast<size_t>(first_) +
                     i * static_cast<size_t>(stride_)] = kept_[i];
  }
  AlteredPart(const AlteredPart&) = delete;
  AlteredPart& operator=(const AlteredPart&) = delete;

  template <typename Change>
  void Each(const Change& change) {
    for (size_t i = 0; i < kept_.size(); ++i) {
      double& value = tensor_.values[static_cast<size_t>(first_) +
                                     i * static_cast<size_t>(stride_)];
      value = change(value);
    }
  }

 private:
  Tensor& tensor_;
  const int64_t first_, stride_;
  std::vector<double> kept_;
};

// Returns the index of offset zero along an axis of offsets.
int64_t OriginOf(const Problem& problem, const OffsetAxis& axis) {
  return -Extent(axis.first).Evaluate(problem.dims).value() +
         (axis.of_indices ? QueryOffset(problem.params) : 0);
}

// A tensor whose axes run over offsets.
class OffsetTensor {
 public:
  OffsetTensor(const Problem& problem, size_t index, const Tensor& tensor)
      : rule_(problem.inputs[index]),
        shape_(tensor.shape.begin() + static_cast<std::ptrdiff_t>(
                                          problem.input_leading[index].size()),
               tensor.shape.end()) {
    for (const OffsetAxis& axis : rule_.offset_axes)
      origins_.push_back(OriginOf(problem, axis));
  }

  const std::string& name() const { return rule_.name; }
  int64_t LastExtent() const {
    return shape_[static_cast<size_t>(rule_.offset_axes.back().axis)];
  }

  // Returns the values that a reader would use: `read` may change the offsets
  // of each entry, or return false for an entry that it replaces by `neutral`.
  template <typename Read>
  std::vector<double> Mapped(const std::vector<double>& values, double missing,
                             const Read& read) const {
    std::vector<double> output(values.size());
    const auto block = static_cast<size_t>(ElementCount(shape_));
    std::vector<int64_t> place(shape_.size()), offsets(origins_.size());
    for (size_t i = 0; i < values.size(); ++i) {
      auto rest = static_cast<int64_t>(i % block);
      for (size_t axis = shape_.size(); axis-- > 0;) {
        place[axis] = rest % shape_[axis];
        rest /= shape_[axis];
      }
      for (size_t a = 0; a < offsets.size(); ++a)
        offsets[a] = place[AxisOf(a)] - origins_[a];
      if (!read(offsets)) {
        output[i] = missing;
        continue;
      }
      for (size_t a = 0; a < offsets.size(); ++a)
        place[AxisOf(a)] = std::clamp<int64_t>(offsets[a] + origins_[a], 0,
                                               shape_[AxisOf(a)] - 1);
      size_t at = 0;
      for (size_t axis = 0; axis < shape_.size(); ++axis)
        at = at * static_cast<size_t>(shape_[axis]) +
             static_cast<size_t>(place[axis]);
      output[i] = values[i - i % block + at];
    }
    return output;
  }

  // Returns the values with the offsets in reverse order.
  std::vector<double> Reversed(const std::vector<double>& values) const {
    return Mapped(values, 0, [&](std::vector<int64_t>& offsets) {
      for (size_t a = 0; a < offsets.size(); ++a)
        offsets[a] = shape_[AxisOf(a)] - 1 - 2 * origins_[a] - offsets[a];
      return true;
    });
  }

 private:
  size_t AxisOf(size_t a) const {
    return static_cast<size_t>(rule_.offset_axes[a].axis);
  }

  const TensorRule& rule_;
  Shape shape_;  // of one head
  std::vector<int64_t> origins_;
};

template <typename Use>
void ForOffsetTensors(Misreader& reader, const Use& use) {
  for (size_t t = 0; t < reader.problem().inputs.size(); ++t) {
    if (reader.problem().inputs[t].offset_axes.empty()) continue;
    Tensor& tensor = reader.inputs().tensors[t];
    use(OffsetTensor(reader.problem(), t, tensor), tensor);
  }
}

std::string RandomNumbers(const OffsetTensor& offsets) {
  return "a " + offsets.name() + " of random values";
}

// Returns the value that makes a bias ineffective: zero, or one if the scores
// are multiplied by it.
double Neutral(const Problem& problem) {
  return problem.params.Has("scheme") &&
                 problem.params.Text("scheme") == "multiplicative"
             ? 1
             : 0;
}

void LeaveOffsetsOut(Misreader& reader) {
  ForOffsetTensors(reader, [&](const OffsetTensor& offsets, Tensor& tensor) {
    const Altered altered(
        tensor,
        std::vector<double>(tensor.values.size(), Neutral(reader.problem())));
    reader.AddNow(offsets.name() + " left out", RandomNumbers(offsets));
  });
}

void KeepNearestTile(Misreader& reader) {
  const bool image = reader.problem().params.Has("height");
  const int64_t tile = image ? kTilePixels : kTileKeys;
  ForOffsetTensors(reader, [&](const OffsetTensor& offsets, Tensor& tensor) {
    bool all_near = true;
    const Altered altered(
        tensor, offsets.Mapped(tensor.values, Neutral(reader.problem()),
                               [&](const std::vector<int64_t>& offset) {
                                 const bool near = std::ranges::all_of(
                                     offset, [&](int64_t distance) {
                                       return std::abs(distance) < tile;
                                     });
                                 all_near = all_near && near;
                                 return near;
                               }));
    if (!all_near)
      reader.AddNow(offsets.name() + " kept in the nearest tile only",
                    RandomNumbers(offsets));
  });
}

void ShiftOffsets(Misreader& reader) {
  ForOffsetTensors(reader, [&](const OffsetTensor& offsets, Tensor& tensor) {
    for (const int64_t shift : {int64_t{1}, kTileKeys, 2 * kTileKeys}) {
      if (shift >= offsets.LastExtent()) continue;
      const Altered altered(
          tensor,
          offsets.Mapped(tensor.values, 0, [&](std::vector<int64_t>& offset) {
            offset.back() += shift;
            return true;
          }));
      reader.AddNow(offsets.name() + " shifted by " + std::to_string(shift),
                    RandomNumbers(offsets));
    }
  });
}

// Reverses all tensors by offset, as a program does that uses i - j for j - i.
void ReverseOffsets(Misreader& reader) {
  std::vector<std::unique_ptr<Altered>> altered;
  ForOffsetTensors(reader, [&](const OffsetTensor& offsets, Tensor& tensor) {
    altered.push_back(
        std::make_unique<Altered>(tensor, offsets.Reversed(tensor.values)));
  });
  if (!altered.empty()) reader.AddNow("offset i - j for j - i");
}

// The tensor whose rows the answer adds up: it has one row per key and the
// width of the output. If there is none (tokens that are queries and keys), the
// first tensor with one row per key.
struct ValueRows {
  Tensor* tensor = nullptr;
  std::string name;
  int64_t keys = 0, width = 0;
  const char* remedy = "fewer keys";
};

ValueRows ValueRowsOf(Misreader& reader) {
  const Problem& problem = reader.problem();
  const Signature signature =
      problem.op->SignatureFor(problem.params, problem.backward);
  const std::string width = problem.op->SignatureFor(problem.params, false)
                                .outputs.front()
                                .shape.back();
  ValueRows rows;
  for (const bool as_wide : {true, false})
    for (size_t t = 0; t < problem.inputs.size(); ++t) {
      const TensorRule& rule = problem.inputs[t];
      if (rule.role != Role::kData || rule.shape.size() != 2 ||
          rule.shape.front() != signature.keys || rule.name == "grad" ||
          (as_wide && rule.shape.back() != width) || rule.name == "q" ||
          rule.name == "k")
        continue;
      Tensor& tensor = reader.inputs().tensors[t];
      return {&tensor, rule.name, problem.keys, tensor.shape.back()};
    }
  return rows;
}

// Calls `use` while every `stride`-th value of rows [first, end) of every head
// is changed.
template <typename Change, typename Use>
void WithRows(const ValueRows& rows, int64_t first, int64_t end, int64_t stride,
              const Change& change, const Use& use) {
  std::vector<std::unique_ptr<AlteredPart>> parts;
  const int64_t head = rows.keys * rows.width;
  const auto count = static_cast<int64_t>(rows.tensor->values.size());
  for (int64_t start = 0; start < count; start += head) {
    parts.push_back(
        std::make_unique<AlteredPart>(*rows.tensor, start + first * rows.width,
                                      start + end * rows.width, stride));
    parts.back()->Each(change);
  }
  use();
}

// Returns the share of the weights that keys [first, end) have in each row, by
// output. It is the change of out[., 0] when the first column of their values
// grows by one.
std::optional<Rows> Shares(Misreader& reader, const ValueRows& rows,
                           int64_t first, int64_t end) {
  std::optional<Rows> shares;
  WithRows(
      rows, first, end, rows.width, [](double value) { return value + 1; },
      [&] { shares = reader.Evaluate(reader.problem()); });
  if (!shares) return shares;
  for (size_t i = 0; i < shares->front().size(); ++i)
    shares->front()[i] -= reader.right().front()[i];
  return shares;
}

// Tells whether the answer is a mean of values, whose weights add up to one.
bool IsMean(Misreader& reader, const ValueRows& rows) {
  constexpr long double kRounding = 1e-4L;
  const Problem& problem = reader.problem();
  if (problem.backward || LayoutOf(problem, 0).width != rows.width)
    return false;
  const std::optional<Rows> sums = Shares(reader, rows, 0, rows.keys);
  if (!sums) return false;
  const auto width = static_cast<size_t>(rows.width);
  for (size_t at = 0; at < sums->front().size(); at += width)
    if (!(std::abs(sums->front()[at] - 1) < kRounding)) return false;
  return true;
}

// Adds the misreading in which keys [first, end) are seen `times` times. With s
// their share of the weights and N their part of the answer, a mean becomes
// (out + (times - 1) N) / (1 + (times - 1) s), and a sum out + (times - 1) N.
void SeeTile(Misreader& reader, const ValueRows& rows, bool mean, int64_t first,
             int64_t end, int times, const std::string& name) {
  if (!reader.Wants(name)) return;
  std::optional<Rows> miscounted;
  WithRows(
      rows, first, end, 1, [&](double value) { return times * value; },
      [&] { miscounted = reader.Evaluate(reader.problem()); });
  if (!miscounted) return;
  if (mean) {
    const std::optional<Rows> shares = Shares(reader, rows, first, end);
    if (!shares) return;
    const auto width = static_cast<size_t>(rows.width);
    std::vector<long double>& out = miscounted->front();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] /= 1 + (times - 1) * shares->front()[i - i % width];
  }
  reader.Add(name, miscounted, rows.remedy);
}

void MiscountTiles(Misreader& reader) {
  const ValueRows rows = ValueRowsOf(reader);
  if (!rows.tensor || rows.keys <= kTileKeys) return;
  const bool mean = IsMean(reader, rows);
  const std::string counted =
      mean ? std::string("keys") : "rows of " + rows.name;
  const int64_t last = (rows.keys - 1) / kTileKeys * kTileKeys;
  SeeTile(reader, rows, mean, last, rows.keys, 0,
          "last tile of " + counted + " left out");
  // The tile in the middle, so that even a narrow window includes it for some
  // queries.
  const int64_t middle = rows.keys / 2 / kTileKeys * kTileKeys;
  const int64_t end = std::min(middle + kTileKeys, rows.keys);
  SeeTile(reader, rows, mean, middle, end, 0,
          "a tile of " + counted + " left out");
  SeeTile(reader, rows, mean, middle, end, 2,
          "a tile of " + counted + " twice");
}

// Lets every head read the next head's keys or values, as with wrong groups,
// another batch item or a wrong stride.
void ReadOtherHeads(Misreader& reader) {
  const Problem& problem = reader.problem();
  if (problem.heads < 2) return;
  const ValueRows rows = ValueRowsOf(reader);
  if (!rows.tensor || rows.tensor->slices.count() == 1) return;
  for (const char* name : {"k", "v"}) {
    const int index = IndexOf(problem.inputs, name);
    if (index < 0) continue;
    Tensor& tensor = reader.inputs().tensors[static_cast<size_t>(index)];
    std::vector<double>& values = tensor.values;
    const auto stride = static_cast<std::ptrdiff_t>(tensor.SliceSize());
    std::rotate(values.begin(), values.begin() + stride, values.end());
    reader.AddNow("another head's " + tensor.name);
    std::rotate(values.begin(), values.end() - stride, values.end());
  }
}

// Leaves a tile of queries out of gradients, which are sums over queries, or
// counts it twice. Gradients are linear in the incoming gradient.
void MiscountQueries(Misreader& reader) {
  const Problem& problem = reader.problem();
  if (!problem.backward || problem.queries <= kTileKeys) return;
  Tensor& grad =
      reader.inputs().tensors[static_cast<size_t>(problem.InputIndex("grad"))];
  const ValueRows rows{&grad, grad.name, problem.queries,
                       grad.SliceSize() / problem.queries, "fewer queries"};
  const int64_t last = (rows.keys - 1) / kTileKeys * kTileKeys;
  SeeTile(reader, rows, false, last, rows.keys, 0,
          "last tile of queries left out");
  SeeTile(reader, rows, false, 0, kTileKeys, 2, "first tile of queries twice");
}

// Takes only one head's part of the gradient of a tensor that heads share.
void TakeOneHead(Misreader& reader) {
  const Problem& problem = reader.problem();
  if (!problem.backward || problem.heads < 2) return;
  Tensor& grad =
      reader.inputs().tensors[static_cast<size_t>(problem.InputIndex("grad"))];
  const auto size = static_cast<size_t>(grad.SliceSize());
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const Slices slices = problem.OutputSlices(o);
    if (slices.count() == problem.heads) continue;
    std::vector<double> first = grad.values;
    for (int64_t head = 0; head < problem.heads; ++head)
      if (!slices.IsFirst(head))
        std::fill_n(first.begin() + head * grad.SliceSize(), size, 0.0);
    const Altered altered(grad, std::move(first));
    std::optional<Rows> rows = reader.Evaluate(problem);
    if (!rows) continue;
    for (size_t other = 0; other < rows->size(); ++other)
      if (other != o) (*rows)[other] = reader.right()[other];
    reader.Add(problem.outputs[o].name + " of one head only", rows);
  }
}

// Scales the scores but not their gradients.
void LeaveScaleOut(Misreader& reader) {
  const Problem& problem = reader.problem();
  if (!problem.backward || !problem.dims.contains("d") ||
      std::ranges::count(problem.op->ParamRules(problem.params), "scale",
                         &ParamRule::name) == 0)
    return;
  for (const char* name : {"grad_q", "grad_k"}) {
    const int output = IndexOf(problem.outputs, name);
    if (output < 0) continue;
    Rows rows = reader.right();
    for (long double& x : rows[static_cast<size_t>(output)])
      x /= SoftmaxScale<long double>(problem);
    reader.Add(std::string("scale left out of ") + name, rows);
  }
}

// Adds the answer with other parameters, if these need the same tensors.
void AddWithParams(Misreader& reader, Params params, const std::string& name,
                   const std::string& remedy = "",
                   bool small_by_choice = false) {
  const Problem& problem = reader.problem();
  std::vector<GivenShape> shapes;
  for (const Tensor& tensor : reader.inputs().tensors)
    shapes.push_back({tensor.name, tensor.shape});
  try {
    const Problem other =
        ResolveProblem(*problem.op, std::move(params), problem.scalar, shapes);
    reader.Add(name, reader.Evaluate(other), remedy, small_by_choice);
  } catch (const InvalidInput&) {
    // These parameters need other tensors.
  }
}

// Names the mistake of using the opposite of `value`.
std::string FlippedName(const std::string& flag, bool value) {
  if (flag != "causal") return flag + " the other way";
  return value ? "causal mask left out" : "causal mask that was not asked for";
}

void FlipFlags(Misreader& reader) {
  const Problem& problem = reader.problem();
  for (const ParamRule& rule : problem.op->ParamRules(problem.params)) {
    if (rule.type != ParamType::kFlag) continue;
    Params params = problem.params;
    const bool value =
        params.Has(rule.name) ? params.Flag(rule.name) : rule.IsOnByDefault();
    params.Set(rule.name, !value);
    AddWithParams(reader, std::move(params), FlippedName(rule.name, value));
  }
}

// Ignores query_offset, so that queries begin at position 0, and key lengths,
// so that padding is seen.
void LeaveVisibilityOut(Misreader& reader) {
  for (const char* name : {"query_offset", "key_lengths"}) {
    Params params = reader.problem().params;
    if (!params.Has(name)) continue;
    params.Erase(name);
    AddWithParams(reader, std::move(params), std::string(name) + " left out");
  }
}

// Leaves the eps of out = numerator / (normaliser + eps) out.
void LeaveEpsOut(Misreader& reader) {
  Params params = reader.problem().params;
  const bool divides = !params.Has("normalized") || params.Flag("normalized");
  if (!params.Has("eps") || !(params.Number("eps") > 0) || !divides) return;
  params.Erase("eps");
  AddWithParams(reader, std::move(params), "eps left out", "a larger eps",
                true);
}

// One row for each kind of misreading.
constexpr void (*kMisreadings[])(Misreader&) = {
    LeaveOffsetsOut, KeepNearestTile, ShiftOffsets,  ReverseOffsets,
    MiscountTiles,   ReadOtherHeads,  FlipFlags,     LeaveVisibilityOut,
    MiscountQueries, TakeOneHead,     LeaveScaleOut, LeaveEpsOut,
};

}  // namespace

std::vector<WrongAnswer> MisreadAnswers(const Problem& problem, Inputs& inputs,
                                        const Answer& answer, size_t most_rows,
                                        std::set<std::string> only) {
  Misreader reader(problem, inputs, answer, most_rows, std::move(only));
  if (!reader.HasValue()) return {};
  for (const auto misread : kMisreadings) misread(reader);
  return reader.Take();
}

}  // namespace subquad
