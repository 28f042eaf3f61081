#include "harness/judging/confusions.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

// One entry for each judged row; empty if the confusion does not define it.
using Rows = std::vector<std::optional<std::vector<long double>>>;

class Confuser {
 public:
  Confuser(const Problem& problem, Inputs& inputs, const Answer& answer,
           size_t most_rows)
      : problem_(problem), inputs_(inputs), answer_(answer.outputs.front()) {
    chosen_ = SpreadRows(answer_.selection.rows.size(), most_rows);
  }

  std::vector<WrongAnswer> Take() {
    ChangeScale();
    ScaleBias();
    ChangeFeatureMap();
    MoveMask();
    MoveOffsets();
    MoveOrigin();
    WrapAround();
    ExchangeImageAxes();
    SwapKeysAndValues();
    ExchangeHeads();
    ReshapeHeads();
    AttendOverHeads();
    GroupHeadsOtherwise();
    MisplaceEps();
    return std::move(list_);
  }

 private:
  std::vector<GivenShape> Shapes() const {
    std::vector<GivenShape> shapes;
    for (const Tensor& tensor : inputs_.tensors)
      shapes.push_back({tensor.name, tensor.shape});
    return shapes;
  }

  std::optional<ParamRule> RuleOf(const std::string& name) const {
    for (const ParamRule& rule : problem_.op->ParamRules(problem_.params))
      if (rule.name == name) return rule;
    return std::nullopt;
  }

  // Returns the chosen rows of another problem, each at the place at(row). Rows
  // that the other problem does not have stay empty.
  template <typename At>
  std::optional<Rows> EvaluateAt(const Problem& problem, const At& at) const {
    try {
      return problem.scalar == Scalar::kFloat64
                 ? EvaluateIn(
                       problem, at,
                       *problem.op->ReferenceLongDouble(problem, inputs_))
                 : EvaluateIn(problem, at,
                              *problem.op->ReferenceDouble(problem, inputs_));
    } catch (const InvalidInput&) {
      return std::nullopt;  // the formula has no value
    }
  }

  // Returns the rows of `problem`, moved by `shift`.
  std::optional<Rows> Evaluate(const Problem& problem,
                               int64_t shift = 0) const {
    return EvaluateAt(problem, [shift](RowId id) {
      id.row += shift;
      return id;
    });
  }

  template <typename At, typename Real>
  Rows EvaluateIn(const Problem& problem, const At& at,
                  Reference<Real>& reference) const {
    const int64_t last = LayoutOf(problem, 0).rows - 1;
    Rows rows(answer_.selection.rows.size());
    std::vector<Real> row(static_cast<size_t>(answer_.width));
    for (size_t r : chosen_) {
      const RowId id = at(answer_.selection.rows[r]);
      if (id.row < 0 || id.row > last) continue;
      reference.Row(id, row.data(), nullptr);
      rows[r] = std::vector<long double>(row.begin(), row.end());
    }
    return rows;
  }

  std::optional<Rows> EvaluateWith(const Params& params) const {
    try {
      return Evaluate(ResolveProblem(*problem_.op, params, problem_.scalar,
                                     Shapes(), problem_.leading));
    } catch (const InvalidInput&) {
      return std::nullopt;
    }
  }

  void Add(const std::string& name, const std::optional<Rows>& rows) {
    if (!rows) return;
    std::vector<size_t> known;
    std::vector<long double> values;
    for (size_t r = 0; r < rows->size(); ++r) {
      const auto& row = (*rows)[r];
      if (!row) continue;
      known.push_back(r);
      values.insert(values.end(), row->begin(), row->end());
    }
    if (known.empty()) return;
    list_.push_back(
        {name,
         {KeptRows(0, std::move(known), static_cast<size_t>(answer_.width),
                   std::move(values))}});
  }

  void ChangeScale() {
    if (!RuleOf("scale")) return;
    Params params = problem_.params;
    const double given = params.Has("scale") ? params.Number("scale") : 0;
    params.Set("scale", 1.0);
    Add("scale left out", EvaluateWith(params));
    if (given > 0) {
      params.Set("scale", given * given);
      Add("scale applied twice", EvaluateWith(params));
      params.Erase("scale");
      Add("the default scale instead of the given one", EvaluateWith(params));
    }
  }

  // Computes softmax(scale (q k^T + bias)) instead of
  // softmax(scale q k^T + bias).
  void ScaleBias() {
    Tensor* bias = InputNamed("bias");
    const std::optional<ParamRule> rule = RuleOf("scale");
    const bool by_width = rule && rule->default_value != "1";
    if (!bias || !(problem_.params.Has("scale") || by_width)) return;
    const Altered altered(*bias, bias->values);
    for (double& value : bias->values) value *= SoftmaxScale<double>(problem_);
    Add("bias multiplied by the scale", Evaluate(problem_));
  }

  // Tries the other feature maps that have the same input tensors.
  void ChangeFeatureMap() {
    const std::optional<ParamRule> rule = RuleOf("feature_map");
    if (!rule) return;
    const std::string declared = problem_.params.Text("feature_map");
    for (const std::string& other : rule->choices) {
      if (other == declared) continue;
      Params params = problem_.params;
      params.Set("feature_map", other);
      params.Erase("nu");
      if (other == "dpfp") params.Set("nu", int64_t{1});
      Add("feature_map " + other + " for " + declared, EvaluateWith(params));
    }
  }

  // Replaces the values of tensors by offset: entry `index` of an axis becomes
  // entry from(index, count).
  template <typename From>
  void AlterOffsets(const From& from) {
    for (size_t t = 0; t < problem_.inputs.size(); ++t) {
      const TensorRule& rule = problem_.inputs[t];
      Tensor& tensor = inputs_.tensors[t];
      for (const auto& [axis, offset, of_indices] : rule.offset_axes) {
        const size_t first = tensor.shape.size() - rule.shape.size();
        const size_t at = first + static_cast<size_t>(axis);
        int64_t inner = 1;
        for (size_t a = at + 1; a < tensor.shape.size(); ++a)
          inner *= tensor.shape[a];
        const int64_t count = tensor.shape[at];
        const std::vector<double> before = tensor.values;
        for (int64_t i = 0; i < static_cast<int64_t>(before.size()); ++i) {
          const int64_t entry = i / inner % count;
          const auto value = [&](int64_t other) {
            return before[static_cast<size_t>(i + (other - entry) * inner)];
          };
          tensor.values[static_cast<size_t>(i)] = from(entry, count, value);
        }
      }
    }
  }

  // Moves the mask by one: row i + 1 of a problem whose queries are one row
  // further on and whose offsets are one smaller is row i with such a mask.
  void MoveMask() {
    if (!problem_.params.Flag("causal")) return;
    const Inputs kept = inputs_;
    for (const int64_t shift : {1, -1}) {
      for (size_t t = 0; t < problem_.inputs.size(); ++t) {
        const TensorRule& rule = problem_.inputs[t];
        // If queries and keys share a length symbol, only the name tells
        // whether a tensor belongs to the queries.
        const bool by_query = rule.name == "q" || rule.name == "r";
        if (!by_query) continue;
        Tensor& tensor = inputs_.tensors[t];
        const int64_t rows =
            tensor.shape[tensor.shape.size() - rule.shape.size()];
        const int64_t width = tensor.SliceSize() / rows;
        for (int64_t i = 0; i < static_cast<int64_t>(tensor.values.size());
             ++i) {
          const int64_t row = i / width % rows;
          const int64_t other = std::clamp<int64_t>(row - shift, 0, rows - 1);
          tensor.values[static_cast<size_t>(i)] =
              kept.tensors[t]
                  .values[static_cast<size_t>(i + (other - row) * width)];
        }
      }
      AlterOffsets([&](int64_t entry, int64_t count, const auto& value) {
        return value(std::clamp<int64_t>(entry + shift, 0, count - 1));
      });
      Add(shift > 0 ? "mask off by one: a key too many"
                    : "mask off by one: a key too few",
          Evaluate(problem_, shift));
      inputs_ = kept;
    }
  }

  // Shifts tensors by offset in the other direction than the misreading that
  // every check includes. Here the end wraps around or is repeated.
  void MoveOffsets() {
    const Inputs kept = inputs_;
    for (const TensorRule& rule : problem_.inputs) {
      if (rule.offset_axes.empty()) continue;
      for (const int64_t shift : {1, -1})
        for (const bool around : {true, false}) {
          AlterOffsets([&](int64_t entry, int64_t count, const auto& value) {
            const int64_t other = entry + shift;
            return value(around ? (other + count) % count
                                : std::clamp<int64_t>(other, 0, count - 1));
          });
          Add(rule.name + " shifted by 1", Evaluate(problem_));
          inputs_ = kept;
        }
      return;
    }
  }

  // Puts offset 0 at n_k - 1, which is right for as many queries as keys.
  // Beyond the ends the values wrap around or are repeated.
  void MoveOrigin() {
    const int64_t shift =
        problem_.keys - problem_.queries - QueryOffset(problem_.params);
    if (shift == 0) return;
    const Inputs kept = inputs_;
    for (const bool around : {true, false}) {
      bool any = false;
      AlterOffsets([&](int64_t entry, int64_t count, const auto& value) {
        if (count != problem_.queries + problem_.keys - 1) return value(entry);
        any = true;
        const int64_t other = entry + shift;
        return value(around ? ((other % count) + count) % count
                            : std::clamp<int64_t>(other, 0, count - 1));
      });
      if (any)
        Add("offset 0 at n_k - 1 instead of n_q - 1", Evaluate(problem_));
      inputs_ = kept;
    }
  }

  // Imitates a transform that is too short, whose ends wrap around.
  void WrapAround() {
    if (std::ranges::none_of(problem_.inputs, [](const TensorRule& rule) {
          return !rule.offset_axes.empty();
        }))
      return;
    const int64_t period = std::max(problem_.queries, problem_.keys);
    const Inputs kept = inputs_;
    const auto add = [&](const char* name, const auto& from) {
      AlterOffsets(from);
      for (size_t t = 0; t < kept.tensors.size(); ++t)
        if (inputs_.tensors[t].values != kept.tensors[t].values) {
          Add(name, Evaluate(problem_));
          break;
        }
      inputs_ = kept;
    };
    const auto inside = [](int64_t entry, int64_t count) {
      return entry >= 0 && entry < count;
    };
    const char* const name = "wrap-around of a transform without padding";
    add(name, [&](int64_t entry, int64_t count, const auto& value) {
      double sum = value(entry);
      for (const int64_t other : {entry - period, entry + period})
        if (inside(other, count)) sum += value(other);
      return sum;
    });
    // A tensor of logarithms: the sum is over their exponentials.
    add(name, [&](int64_t entry, int64_t count, const auto& value) {
      double sum = std::exp(value(entry));
      for (const int64_t other : {entry - period, entry + period})
        if (inside(other, count)) sum += std::exp(value(other));
      return std::log(sum);
    });
    // Reads only one half of the offsets, modulo the period.
    add(name, [&](int64_t entry, int64_t count, const auto& value) {
      const int64_t other = entry + period;
      return value(inside(other, count) ? other : entry);
    });
    add(name, [&](int64_t entry, int64_t count, const auto& value) {
      const int64_t other = entry - period;
      return value(inside(other, count) ? other : entry);
    });
    // A causal sum has no future offsets: they wrap around into the past.
    if (problem_.params.Flag("causal")) {
      Params params = problem_.params;
      params.Set("causal", false);
      try {
        const Problem open = ResolveProblem(
            *problem_.op, params, problem_.scalar, Shapes(), problem_.leading);
        AlterOffsets([&](int64_t entry, int64_t count, const auto& value) {
          const int64_t zero = problem_.queries - 1;
          const int64_t other = entry > zero ? entry - period : entry;
          return inside(other, count) ? value(other) : 0;
        });
        Add(name, Evaluate(open));
      } catch (const InvalidInput&) {
        // This operator requires its mask.
      }
      inputs_ = kept;
    }
  }

  // Exchanges the axes of a tensor by two offsets, as an image has.
  void ExchangeImageAxes() {
    const Inputs kept = inputs_;
    bool any = false;
    for (size_t t = 0; t < problem_.inputs.size(); ++t) {
      if (problem_.inputs[t].offset_axes.size() != 2) continue;
      Tensor& tensor = inputs_.tensors[t];
      const int64_t columns = tensor.shape.back();
      const int64_t rows = tensor.shape[tensor.shape.size() - 2];
      if (rows != columns) continue;
      const std::vector<double>& before = kept.tensors[t].values;
      for (int64_t i = 0; i < std::ssize(before); ++i) {
        const int64_t in_image = i % (rows * columns);
        const int64_t from = in_image % columns * columns + in_image / columns;
        tensor.values[static_cast<size_t>(i)] =
            before[static_cast<size_t>(i - in_image + from)];
      }
      any = true;
    }
    if (any)
      Add("height and width of the offsets exchanged", Evaluate(problem_));
    inputs_ = kept;
  }

  Tensor* InputNamed(const char* name) {
    const int index = IndexOf(problem_.inputs, name);
    return index < 0 ? nullptr : &inputs_.tensors[static_cast<size_t>(index)];
  }

  void SwapKeysAndValues() {
    Tensor* k = InputNamed("k");
    Tensor* v = InputNamed("v");
    if (!k || !v || k->shape != v->shape) return;
    std::swap(k->values, v->values);
    Add("keys and values swapped", Evaluate(problem_));
    std::swap(k->values, v->values);
  }

  // Reorders slices of equal size: the slice at `to` comes from from(to).
  template <typename From>
  static void Reorder(std::vector<double>& values, int64_t size,
                      const From& from) {
    const std::vector<double> before = values;
    for (int64_t to = 0; to < std::ssize(before) / size; ++to)
      std::copy_n(before.begin() + from(to) * size, size,
                  values.begin() + to * size);
  }

  // Reads memory in the order [n, h, d] as [h, n, d] or the other way round,
  // with the output moved back or left as it is; also exchanges batch items and
  // heads.
  void ReshapeHeads() {
    const Inputs kept = inputs_;
    const auto for_each = [&](const auto& use) {
      for (const char* name : {"q", "k", "v"})
        if (Tensor* tensor = InputNamed(name)) use(*tensor);
    };
    // Returns the place of element (a, b) of [a, b] in memory order [b, a].
    const auto other_order = [](int64_t place, int64_t a, int64_t b) {
      const int64_t in_item = place % (a * b);
      return place - in_item + in_item % b * a + in_item / b;
    };
    const OutputLayout layout = LayoutOf(problem_, 0);
    const int64_t out_heads = layout.heads / problem_.Batch();
    for (const bool written_by_heads : {false, true}) {
      bool moved = false;
      // Exchanging rows and heads is its own inverse.
      const auto order = [&](int64_t place, int64_t heads, int64_t rows) {
        return written_by_heads ? other_order(place, heads, rows)
                                : other_order(place, rows, heads);
      };
      for_each([&](Tensor& tensor) {
        const Shape& shape = tensor.shape;
        if (shape.size() < 3) return;
        const int64_t rows = shape[shape.size() - 2];
        const int64_t heads = shape[shape.size() - 3];
        Reorder(tensor.values, shape.back(),
                [&](int64_t to) { return order(to, heads, rows); });
        moved = moved || (heads > 1 && rows > 1);
      });
      if (moved) {
        const char* const name = written_by_heads
                                     ? "[h, n, d] in memory read as [n, h, d]"
                                     : "[n, h, d] in memory read as [h, n, d]";
        Add(name, Evaluate(problem_));
        Add(name, EvaluateAt(problem_, [&](RowId id) {
              const int64_t from =
                  order(id.head * layout.rows + id.row, layout.rows, out_heads);
              return RowId{0, from / layout.rows, from % layout.rows};
            }));
      }
      inputs_ = kept;
    }
    bool items_moved = false;
    for_each([&](Tensor& tensor) {
      const Shape& shape = tensor.shape;
      if (shape.size() != 4 || tensor.name == "q") return;
      const int64_t items = shape[0], heads = shape[1];
      Reorder(tensor.values, tensor.SliceSize(),
              [&](int64_t to) { return to % items * heads + to / items; });
      items_moved = items_moved || (items > 1 && heads > 1);
    });
    if (items_moved)
      Add("batch items and heads of k and v exchanged", Evaluate(problem_));
    inputs_ = kept;
  }

  // Attends over heads: a program that expects [n, h, d] and gets [h, n, d]
  // takes the heads for the sequence.
  void AttendOverHeads() {
    const OutputLayout layout = LayoutOf(problem_, 0);
    const int64_t heads = layout.heads / problem_.Batch();
    if (heads < 2 || problem_.queries != problem_.keys) return;
    const int64_t rows = problem_.queries;
    Inputs transposed = inputs_;
    std::vector<GivenShape> shapes;
    for (Tensor& tensor : transposed.tensors) {
      Shape& shape = tensor.shape;
      const size_t axes = shape.size();
      if (axes < 3 || shape[axes - 2] != rows || shape[axes - 3] != heads)
        return;
      std::swap(shape[axes - 2], shape[axes - 3]);
      Reorder(tensor.values, shape.back(), [&](int64_t to) {
        const int64_t in_item = to % (heads * rows);
        return to - in_item + in_item % heads * rows + in_item / heads;
      });
      shapes.push_back({tensor.name, shape});
    }
    try {
      Params params = problem_.params;
      const Problem other =
          ResolveProblem(*problem_.op, params, problem_.scalar, shapes);
      for (size_t t = 0; t < transposed.tensors.size(); ++t)
        transposed.tensors[t].slices = other.InputSlices(t);
      std::swap(inputs_, transposed);
      const std::optional<Rows> changed_rows = EvaluateAt(other, [&](RowId id) {
        const int64_t item = id.head / heads;
        return RowId{0, item * rows + id.row, id.head % heads};
      });
      std::swap(inputs_, transposed);
      Add("attention over heads: [h, n, d] read as [n, h, d]", changed_rows);
    } catch (const InvalidInput&) {
      // The parameters are for another number of rows.
    }
  }

  // Groups heads by h % h_k: consecutive query heads use different key heads.
  void GroupHeadsOtherwise() {
    const Inputs kept = inputs_;
    const int64_t heads = problem_.heads / problem_.Batch();
    bool any = false;
    for (const char* name : {"k", "v"}) {
      Tensor* tensor = InputNamed(name);
      if (!tensor || tensor->shape.size() < 3) continue;
      int64_t& groups = tensor->shape[tensor->shape.size() - 3];
      if (groups < 2 || groups == heads) continue;
      const std::vector<double> before = tensor->values;
      const int64_t size = tensor->SliceSize();
      tensor->values.clear();
      for (int64_t item = 0; item < std::ssize(before) / (groups * size);
           ++item)
        for (int64_t head = 0; head < heads; ++head) {
          const auto first =
              before.begin() + (item * groups + head % groups) * size;
          tensor->values.insert(tensor->values.end(), first, first + size);
        }
      groups = heads;
      any = true;
    }
    if (any) {
      const Problem other =
          ResolveProblem(*problem_.op, problem_.params, problem_.scalar,
                         Shapes(), problem_.leading);
      for (size_t t = 0; t < inputs_.tensors.size(); ++t)
        inputs_.tensors[t].slices = other.InputSlices(t);
      Add("grouped heads interleaved (h % h_k) instead of consecutive",
          Evaluate(other));
    }
    inputs_ = kept;
  }

  // Places the rows of the answer as another order of axes would.
  void ExchangeHeads() {
    const OutputLayout layout = LayoutOf(problem_, 0);
    if (layout.heads < 2 || !answer_.selection.all) return;
    const int64_t heads = layout.heads / problem_.Batch();
    const auto add = [&](const char* name, const auto& source) {
      Rows rows(answer_.selection.rows.size());
      for (size_t r = 0; r < rows.size(); ++r) {
        const int64_t from = source(static_cast<int64_t>(r));
        const auto first = answer_.value.begin() +
                           static_cast<std::ptrdiff_t>(from * answer_.width);
        rows[r] = std::vector<long double>(first, first + answer_.width);
      }
      Add(name, rows);
    };
    const int64_t per_item = heads * layout.rows;
    add("heads and rows exchanged", [&](int64_t r) {
      const int64_t in_item = r % per_item;
      return r - in_item + in_item % heads * layout.rows + in_item / heads;
    });
    if (const int64_t items = problem_.Batch(); items > 1 && heads > 1)
      add("batch items and heads exchanged", [&](int64_t r) {
        const int64_t head = r / layout.rows;
        return (head % items * heads + head / items) * layout.rows +
               r % layout.rows;
      });
    add("heads in reverse order", [&](int64_t r) {
      const int64_t head = r % per_item / layout.rows;
      return r + (heads - 1 - 2 * head) * layout.rows;
    });
  }

  // Misplaces the eps of out = numerator / (normaliser + eps).
  void MisplaceEps() {
    if (!RuleOf("eps") || !RuleOf("normalized")) return;
    const double eps =
        problem_.params.Has("eps") ? problem_.params.Number("eps") : 0;
    Params params = problem_.params;
    params.Erase("eps");
    const std::optional<Rows> without = EvaluateWith(params);
    params.Set("normalized", false);
    const std::optional<Rows> numerator = EvaluateWith(params);
    if (!without || !numerator) return;
    const auto add = [&](const char* name, const auto& quotient) {
      Rows rows = *without;
      for (size_t r : chosen_)
        for (size_t c = 0; rows[r] && c < rows[r]->size(); ++c) {
          const long double top = (*(*numerator)[r])[c];
          (*rows[r])[c] = quotient(top, top / (*(*without)[r])[c]);
        }
      Add(name, rows);
    };
    using Number = long double;
    add("divided by the normaliser twice", [&](Number top, Number bottom) {
      return top / (bottom + eps) / (bottom + eps);
    });
    if (!(eps > 0)) return;
    const size_t of_eps = list_.size();
    add("eps twice",
        [&](Number top, Number bottom) { return top / (bottom + 2 * eps); });
    add("eps as the least normaliser", [&](Number top, Number bottom) {
      return top / std::max<Number>(bottom, eps);
    });
    add("eps in the numerator too", [&](Number top, Number bottom) {
      return (top + eps) / (bottom + eps);
    });
    add("eps added to the quotient",
        [&](Number top, Number bottom) { return top / bottom + eps; });
    add("eps under a square root", [&](Number top, Number bottom) {
      return top / std::sqrt(bottom * bottom + eps);
    });
    add("eps for every key", [&](Number top, Number bottom) {
      return top / (bottom + eps * static_cast<Number>(problem_.keys));
    });
    for (size_t at = of_eps; at < list_.size(); ++at)
      list_[at].small_by_choice = true;
  }

  const Problem& problem_;
  Inputs& inputs_;
  const OutputAnswer& answer_;
  std::vector<size_t> chosen_;
  std::vector<WrongAnswer> list_;
};

}  // namespace

std::vector<WrongAnswer> UsualConfusions(const Problem& problem, Inputs& inputs,
                                         const Answer& answer,
                                         size_t most_rows) {
  if (problem.backward) return {};
  return Confuser(problem, inputs, answer, most_rows).Take();
}

}  // namespace subquad
