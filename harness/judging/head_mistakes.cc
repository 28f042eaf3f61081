// Mistakes of heads and of the order of axes in memory.
#include <algorithm>

#include "harness/judging/mistake.h"

namespace subquad {
namespace {

// The rows of the first output.
struct HeadLayout {
  explicit HeadLayout(const Problem& problem)
      : items(problem.Batch()),
        heads(LayoutOf(problem, 0).heads / items),
        rows(LayoutOf(problem, 0).rows) {}

  int64_t items, heads, rows;  // heads of a batch item, rows of a head
};

// Returns an extent of a tensor; `axis` counts from the last axis, 0. It is 1
// if there is no such axis.
int64_t FromLast(const Tensor& tensor, size_t axis) {
  const size_t axes = tensor.shape.size();
  return axis < axes ? tensor.shape[axes - 1 - axis] : 1;
}

// Returns those of q, k and v that there are, unchanged.
std::vector<const Tensor*> QueriesKeysValues(const AlteredProblem& altered) {
  std::vector<const Tensor*> tensors;
  for (const char* name : {"q", "k", "v"})
    if (const Tensor* tensor = altered.inputs.original->Find(name))
      tensors.push_back(tensor);
  return tensors;
}

// Returns the names of the tensors with a row per key: the keys, if the
// operator has any, and last the rows that the answer adds up.
std::vector<std::string> PerKey(const Subject& subject) {
  std::vector<std::string> names;
  if (subject.Input("k")) names.push_back("k");
  if (const Tensor* added = AddedTensor(subject)) names.push_back(added->name);
  return names;
}

}  // namespace

// Lets every head read the next head's keys or values, as with wrong groups,
// another batch item or a wrong stride.
void ReadOtherHeads(Subject& subject) {
  const Tensor* added = AddedTensor(subject);
  if (!added || added->slices.count() == 1) return;
  for (const std::string name : {"k", "v"}) {
    if (!subject.Input(name)) continue;
    subject.Add("another head's " + name, [name](AlteredProblem& altered) {
      Tensor& tensor = altered.Change(name);
      std::vector<double>& values = tensor.values;
      std::rotate(values.begin(), values.begin() + tensor.SliceSize(),
                  values.end());
    });
  }
}

// Takes only one head's part of the gradient of a tensor that heads share.
void TakeOneHead(Subject& subject) {
  const Problem& problem = subject.problem;
  for (size_t o = 0; problem.heads > 1 && o < problem.outputs.size(); ++o) {
    const Slices slices = problem.OutputSlices(o);
    if (slices.count() == problem.heads) continue;
    Mistake& mistake =
        subject.Add(problem.outputs[o].name + " of one head only",
                    [slices](AlteredProblem& altered) {
                      Tensor& grad = altered.Change("grad");
                      const int64_t size = grad.SliceSize();
                      for (int64_t h = 0; h < altered.problem.heads; ++h)
                        if (!slices.IsFirst(h))
                          std::fill_n(grad.values.begin() + h * size, size, 0);
                    });
    mistake.finish = [o, &subject](RowsByOutput& program) {
      for (size_t other = 0; other < program.size(); ++other)
        if (other != o) program[other] = subject.right[other];
      return true;
    };
  }
}

void SwapKeysAndValues(Subject& subject) {
  const Tensor *k = subject.Input("k"), *v = subject.Input("v");
  if (!k || !v || k->shape != v->shape) return;
  subject.Add("keys and values swapped", [](AlteredProblem& altered) {
    std::swap(altered.Change("k").values, altered.Change("v").values);
  });
}

// Places the rows of the answer as another order of axes would.
void ExchangeHeads(Subject& subject) {
  const OutputAnswer& answer = subject.answer.outputs.front();
  if (!answer.selection.all) return;
  const HeadLayout out(subject.problem);
  const int64_t items = out.items, heads = out.heads, rows = out.rows;
  const auto add = [&](const char* name, const auto& source) {
    subject.Add(name, nullptr).finish = [&answer,
                                         source](RowsByOutput& program) {
      OutputRows moved{{}, answer.value};
      for (size_t r = 0; r < answer.selection.rows.size(); ++r)
        moved.rows.push_back(r);
      Reorder(moved.values, answer.width, source);
      program = {std::move(moved)};
      return true;
    };
  };
  add("heads and rows exchanged",
      [=](int64_t to) { return Transposed(to, rows, heads); });
  if (items > 1 && heads > 1)
    add("batch items and heads exchanged", [=](int64_t to) {
      const int64_t head = to / rows;
      return (head % items * heads + head / items) * rows + to % rows;
    });
  add("heads in reverse order", [=](int64_t to) {
    const int64_t head = to / rows % heads;
    return to + (heads - 1 - 2 * head) * rows;
  });
}

// Reads memory in the order [n, h, d] as [h, n, d] or the other way round, with
// the output moved back or left as it is; also exchanges batch items and heads.
void ReshapeHeads(Subject& subject) {
  for (const bool written_by_heads : {false, true}) {
    // Exchanging rows and heads is its own inverse.
    const auto order = [=](int64_t place, int64_t heads, int64_t rows) {
      return written_by_heads ? Transposed(place, heads, rows)
                              : Transposed(place, rows, heads);
    };
    const auto alter = [=](AlteredProblem& altered) {
      for (const Tensor* right : QueriesKeysValues(altered)) {
        const int64_t heads = FromLast(*right, 2), rows = FromLast(*right, 1);
        if (heads > 1 && rows > 1)
          Reorder(altered.Change(right->name).values, FromLast(*right, 0),
                  [&](int64_t to) { return order(to, heads, rows); });
      }
    };
    const char* const name = written_by_heads
                                 ? "[h, n, d] in memory read as [n, h, d]"
                                 : "[n, h, d] in memory read as [h, n, d]";
    subject.Add(name, alter);
    subject.Add(name, alter).source =
        [=, out = HeadLayout(subject.problem)](const RowId& id) {
          const int64_t from =
              order(id.head * out.rows + id.row, out.rows, out.heads);
          return RowId{0, from / out.rows, from % out.rows};
        };
  }
  subject.Add(
      "batch items and heads of k and v exchanged",
      [](AlteredProblem& altered) {
        for (const Tensor* right : QueriesKeysValues(altered)) {
          const int64_t items = FromLast(*right, 3);
          const int64_t heads = FromLast(*right, 2);
          if (right->name != "q" && items > 1 && heads > 1)
            Reorder(altered.Change(right->name).values, right->SliceSize(),
                    [&](int64_t to) { return Transposed(to, heads, items); });
        }
      });
}

// Attends over heads: a program that expects [n, h, d] and gets [h, n, d] takes
// the heads for the sequence.
void AttendOverHeads(Subject& subject) {
  const int64_t heads = HeadLayout(subject.problem).heads;
  const int64_t rows = subject.problem.queries;
  if (heads < 2 || rows != subject.problem.keys) return;
  for (const Tensor& tensor : subject.inputs.tensors)
    if (FromLast(tensor, 1) != rows || FromLast(tensor, 2) != heads) return;
  subject
      .Add("attention over heads: [h, n, d] read as [n, h, d]",
           [=](AlteredProblem& altered) {
             for (const TensorRule& rule : altered.problem.inputs) {
               Tensor& tensor = altered.Change(rule.name);
               Reorder(tensor.values, tensor.shape.back(),
                       [&](int64_t to) { return Transposed(to, rows, heads); });
               std::swap(*(tensor.shape.end() - 2), *(tensor.shape.end() - 3));
             }
             altered.problem.leading.clear();
             altered.Resolve(altered.problem.params);
           })
      .source = [=](const RowId& id) {
    return RowId{0, id.head / heads * rows + id.row, id.head % heads};
  };
}

// Groups heads by h % h_k or h / h_k instead of h / (heads / h_k).
void GroupHeadsOtherwise(Subject& subject) {
  using Map = int64_t (*)(int64_t head, int64_t groups);
  const std::pair<const char*, Map> maps[] = {
      {"grouped heads interleaved (h % h_k) instead of consecutive",
       [](int64_t head, int64_t groups) { return head % groups; }},
      {"head divided by the number of key heads (h // h_k)",
       [](int64_t head, int64_t groups) {
         return std::min(head / groups, groups - 1);
       }}};
  const int64_t heads = HeadLayout(subject.problem).heads;
  const std::vector<std::string> names = PerKey(subject);
  for (const auto& [name, map] : maps) {
    Mistake& mistake =
        subject.Add(name, [=, map = map](AlteredProblem& altered) {
          for (const std::string& tensor_name : names) {
            const Tensor& right = (*altered.inputs.original)[tensor_name];
            const int64_t groups = FromLast(right, 2);
            if (groups < 2 || groups == heads) continue;
            Tensor& tensor = altered.Change(tensor_name);
            tensor.values.resize(tensor.values.size() /
                                 static_cast<size_t>(groups) *
                                 static_cast<size_t>(heads));
            Reorder(tensor.values, right.SliceSize(), [&](int64_t to) {
              return to / heads * groups + map(to % heads, groups);
            });
            tensor.shape[tensor.shape.size() - 3] = heads;
          }
          if (altered.changed) altered.Resolve(altered.problem.params);
        });
    mistake.remedy = "6 heads over 2 key heads";
    mistake.hidden_by_shapes = true;
  }
}

// Reads the keys and values of the first or the next head or batch item.
void ReadOtherKeysAndValues(Subject& subject) {
  const HeadLayout out(subject.problem);
  const size_t axes = subject.problem.output_leading.front().size();
  const std::vector<std::string> names = PerKey(subject);
  if (names.empty()) return;
  std::string tensors = names.front();
  if (names.size() > 1) tensors += " and " + names.back();
  const auto add = [&](const std::string& name, size_t axis, int64_t step,
                       const std::string& remedy) {
    Mistake& mistake = subject.Add(name, [=](AlteredProblem& altered) {
      for (const std::string& tensor_name : names) {
        const Tensor& right = (*altered.inputs.original)[tensor_name];
        const int64_t count = FromLast(right, axis);
        const int64_t inner = axis == 3 ? FromLast(right, 2) : 1;
        Reorder(altered.Change(tensor_name).values, right.SliceSize() * inner,
                [=](int64_t to) {
                  const int64_t item = to / count * count;
                  return step == 0 ? item : item + (to + step) % count;
                });
      }
    });
    mistake.remedy = remedy;
    mistake.hidden_by_shapes = true;
  };
  // Heads that share all keys and values have nothing to confuse.
  const auto shared = [&](size_t axis, int64_t count) {
    return count > 1 && FromLast(*subject.Input(names.back()), axis) == 1;
  };
  if (axes > 0 && !shared(2, out.heads)) {
    add("every head reads " + tensors + " of the first one", 2, 0,
        "several heads");
    add(tensors + " of the next head", 2, 1, "several heads");
  }
  if (axes > 1 && !shared(3, out.items)) {
    add("every batch item reads " + tensors + " of the first one", 3, 0,
        "several batch items");
    add(tensors + " of the next batch item", 3, 1, "several batch items");
  }
}

}  // namespace subquad
