// Mistakes of tensors indexed by offset (biases, weights).
#include <algorithm>
#include <cmath>

#include "harness/judging/mistake.h"
#include "harness/judging/mistakes.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

struct Axis {
  size_t at;           // among all axes of the tensor
  int64_t count;       // of entries
  int64_t origin = 0;  // the entry of offset zero
  bool last = false;   // of the tensor's axes of offsets
};

struct OffsetTensor {
  std::string name;
  std::vector<Axis> axes;  // of offsets
};

// Returns those of a Subject or an AlteredProblem.
std::vector<OffsetTensor> OffsetTensors(const auto& source) {
  const Problem& problem = source.problem;
  std::vector<OffsetTensor> tensors;
  for (const TensorRule& rule : problem.inputs) {
    if (rule.offset_axes.empty()) continue;
    std::vector<Axis> axes;
    const Shape& shape = source.inputs[rule.name].shape;
    for (const OffsetAxis& axis : rule.offset_axes) {
      const size_t at =
          shape.size() - rule.shape.size() + static_cast<size_t>(axis.axis);
      axes.push_back({at, shape[at],
                      -Extent(axis.first).Evaluate(problem.dims).value() +
                          (axis.of_indices ? QueryOffset(problem.params) : 0)});
    }
    axes.back().last = true;
    tensors.push_back({rule.name, std::move(axes)});
  }
  return tensors;
}

// An entry of an axis, of which a program reads another value.
struct Entry {
  const Axis& axis;
  const int64_t index;
  const double* const value;
  const int64_t stride;

  bool Has(int64_t other) const { return other >= 0 && other < axis.count; }
  double At(int64_t other) const { return value[(other - index) * stride]; }
  // Returns the value of an entry further on. Beyond the ends, the first and
  // the last one are repeated.
  double Clamped(int64_t by) const {
    return At(std::clamp<int64_t>(index + by, 0, axis.count - 1));
  }
  double Wrapped(int64_t by) const {
    return At(((index + by) % axis.count + axis.count) % axis.count);
  }
};
using Read = std::function<double(const Entry&)>;

// Replaces the values along an axis by those that are read.
void AlterAxis(Tensor& tensor, const Axis& axis, const Read& read) {
  int64_t stride = 1;
  for (size_t a = axis.at + 1; a < tensor.shape.size(); ++a)
    stride *= tensor.shape[a];
  const std::vector<double> before = tensor.values;
  for (int64_t i = 0; i < std::ssize(before); ++i)
    tensor.values[static_cast<size_t>(i)] =
        read({axis, i / stride % axis.count, &before[static_cast<size_t>(i)],
              stride});
}

void AlterOffsets(AlteredProblem& altered, const Read& read,
                  const std::string& only = "") {
  for (const auto& [name, axes] : OffsetTensors(altered))
    for (const Axis& axis : axes)
      if (only.empty() || name == only)
        AlterAxis(altered.Change(name), axis, read);
}

// Adds the mistake of reading the tensors indexed by offset like this, one axis
// after the other.
Mistake& AddForAll(Subject& subject, const std::string& mistake,
                   const Read& read) {
  return subject.Add(mistake, [read](AlteredProblem& altered) {
    AlterOffsets(altered, read);
  });
}

// Adds the mistake of reading only this tensor like this.
void AddFor(const std::string& tensor, const std::string& what,
            const Read& read, Subject& subject) {
  subject
      .Add(
          tensor + what,
          [=](AlteredProblem& altered) { AlterOffsets(altered, read, tensor); })
      .remedy = "a " + tensor + " of random values";
}

Read ShiftedBy(int64_t by, bool around) {
  return [=](const Entry& entry) {
    return around ? entry.Wrapped(by) : entry.Clamped(by);
  };
}

// Returns the value that makes a bias ineffective: zero, or one if the scores
// are multiplied by it.
double Neutral(const Problem& problem) {
  return problem.params.Has("scheme") &&
                 problem.params.Text("scheme") == "multiplicative"
             ? 1
             : 0;
}

}  // namespace

void LeaveOffsetsOut(Subject& subject) {
  const double neutral = Neutral(subject.problem);
  for (const auto& [name, axes] : OffsetTensors(subject))
    AddFor(
        name, " left out", [=](const Entry&) { return neutral; }, subject);
}

void KeepNearestTile(Subject& subject) {
  const double neutral = Neutral(subject.problem);
  const bool image = subject.problem.params.Has("height");
  const int64_t tile = image ? kTilePixels : kTileKeys;
  const auto is_near = [=](const Axis& axis, int64_t index) {
    return std::abs(index - axis.origin) < tile;
  };
  const auto is_all_near = [&](const Axis& axis) {
    return is_near(axis, 0) && is_near(axis, axis.count - 1);
  };
  const Read read = [=](const Entry& entry) {
    return is_near(entry.axis, entry.index) ? entry.Clamped(0) : neutral;
  };
  for (const auto& [name, axes] : OffsetTensors(subject))
    if (!std::ranges::all_of(axes, is_all_near))
      AddFor(name, " kept in the nearest tile only", read, subject);
}

void ShiftOffsets(Subject& subject) {
  for (const auto& [name, axes] : OffsetTensors(subject))
    for (const int64_t shift : {int64_t{1}, kTileKeys, 2 * kTileKeys}) {
      const Read read = [=](const Entry& entry) {
        return entry.Clamped(entry.axis.last ? shift : 0);
      };
      if (shift < axes.back().count)
        AddFor(name, " shifted by " + std::to_string(shift), read, subject);
    }
}

// Reverses all tensors indexed by offset, as a program does that uses i - j for
// j - i.
void ReverseOffsets(Subject& subject) {
  AddForAll(subject, "offset i - j for j - i", [](const Entry& entry) {
    return entry.At(entry.axis.count - 1 - entry.index);
  });
}

// Moves the mask by one: row i + 1 of a problem whose queries are one row
// further on and whose offsets are one smaller is row i with such a mask.
void MoveMask(Subject& subject) {
  for (const int64_t shift : {1, -1}) {
    const char* const what = shift > 0 ? "a key too many" : "a key too few";
    Mistake& mistake = subject.Add(
        std::string("mask off by one: ") + what, [=](AlteredProblem& altered) {
          for (const TensorRule& rule : altered.problem.inputs) {
            // If queries and keys share a length symbol, only the name tells
            // whether a tensor belongs to the queries.
            if (rule.name != "q" && rule.name != "r") continue;
            Tensor& tensor = altered.Change(rule.name);
            const size_t at = tensor.shape.size() - rule.shape.size();
            AlterAxis(tensor, {at, tensor.shape[at]}, ShiftedBy(-shift, false));
          }
          AlterOffsets(altered, ShiftedBy(shift, false));
          altered.changed = true;  // other rows, even if no tensor is changed
        });
    mistake.source = [=](const RowId& id) {
      return RowId{id.output, id.head, id.row + shift};
    };
  }
}

// Shifts tensors indexed by offset in the other direction than the misreading
// that every check includes. Here the end wraps around or is repeated.
void MoveOffsets(Subject& subject) {
  const std::string first = OffsetTensors(subject).front().name;
  for (const int64_t shift : {1, -1})
    for (const bool around : {true, false})
      AddForAll(subject, first + " shifted by 1", ShiftedBy(shift, around));
}

// Puts offset 0 at n_k - 1, which is right for as many queries as keys.
void MoveOrigin(Subject& subject) {
  const Problem& problem = subject.problem;
  const int64_t offsets = problem.queries + problem.keys - 1;
  const int64_t shift =
      problem.keys - problem.queries - QueryOffset(problem.params);
  if (shift == 0) return;
  for (const bool around : {true, false})
    subject.Add(
        "offset 0 at n_k - 1 instead of n_q - 1", [=](AlteredProblem& altered) {
          for (const auto& [name, axes] : OffsetTensors(altered))
            for (const Axis& axis : axes)
              if (axis.count == offsets)
                AlterAxis(altered.Change(name), axis, ShiftedBy(shift, around));
        });
}

// Imitates a transform that is too short, whose ends wrap around.
void WrapAround(Subject& subject) {
  const Problem& problem = subject.problem;
  const int64_t period = std::max(problem.queries, problem.keys);
  const char* const name = "wrap-around of a transform without padding";
  // Adds up entries at this distance; of a tensor of logarithms, their
  // exponentials.
  for (const bool logarithms : {false, true}) {
    const auto sum = [=](const Entry& entry) {
      const auto term = [&](int64_t at) {
        return logarithms ? std::exp(entry.At(at)) : entry.At(at);
      };
      double terms = term(entry.index);
      for (const int64_t other : {entry.index - period, entry.index + period})
        if (entry.Has(other)) terms += term(other);
      return logarithms ? std::log(terms) : terms;
    };
    AddForAll(subject, name, sum).if_values_change = true;
  }
  // Reads only one half of the offsets, modulo the period.
  for (const int64_t distance : {period, -period}) {
    const auto half = [=](const Entry& entry) {
      const int64_t other = entry.index + distance;
      return entry.At(entry.Has(other) ? other : entry.index);
    };
    AddForAll(subject, name, half).if_values_change = true;
  }
  // A causal sum has no future offsets: they wrap around into the past.
  if (!problem.params.Flag("causal")) return;
  const auto past = [=, zero = problem.queries - 1](const Entry& entry) {
    const int64_t other =
        entry.index > zero ? entry.index - period : entry.index;
    return entry.Has(other) ? entry.At(other) : 0;
  };
  subject.Add(name, [=](AlteredProblem& altered) {
    AlterOffsets(altered, past);
    Params params = altered.problem.params;
    params.Set("causal", false);
    altered.Resolve(std::move(params));
  });
}

// Exchanges the axes of tensors indexed by two offsets, as an image has.
void ExchangeImageAxes(Subject& subject) {
  subject.Add(
      "height and width of the offsets exchanged", [](AlteredProblem& altered) {
        for (const auto& [name, axes] : OffsetTensors(altered)) {
          const int64_t side = axes.back().count;
          if (axes.size() != 2 || axes.front().count != side) continue;
          Reorder(altered.Change(name).values, 1,
                  [side](int64_t to) { return Transposed(to, side, side); });
        }
      });
}

// Finds an entry of a table of two offsets as if its rows were as long as its
// columns.
void StrideTableByHeight(Subject& subject) {
  for (const auto& [name, axes] : OffsetTensors(subject)) {
    if (axes.size() != 2) continue;
    Mistake& mistake = subject.Add(
        "rows of " + name + " counted with 2*height-1 for 2*width-1",
        [name = name, rows = axes.front().count,
         columns = axes.back().count](AlteredProblem& altered) {
          const int64_t table = rows * columns;
          Reorder(altered.Change(name).values, 1, [=](int64_t to) {
            const int64_t entry = to % table;
            return to - entry +
                   (entry / columns * rows + entry % columns) % table;
          });
        });
    mistake.remedy = "a height that differs from the width";
    mistake.hidden_by_shapes = true;
  }
}

}  // namespace subquad
