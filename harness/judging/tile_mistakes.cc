// Mistakes of tiles of keys or queries, left out or counted twice, and of rows
// that see no key.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/judging/mistake.h"
#include "harness/judging/mistakes.h"
#include "reference/base/gradients.h"

namespace subquad {
namespace {

// A smaller share of the weights is rounding error.
constexpr long double kNoShare = 1e-12L;

// A tensor with one row per key (or query) that the answer adds up.
struct AddedRows {
  std::string name;
  int64_t count, width;  // of a slice
  std::string remedy;
};

// Changes the values of rows [first, end) of every slice.
template <typename Changed>
void ChangeRows(const AddedRows& rows, int64_t first, int64_t end,
                AlteredProblem& altered, const Changed& changed) {
  std::vector<double>& values = altered.Change(rows.name).values;
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t row = i / rows.width % rows.count;
    double& value = values[static_cast<size_t>(i)];
    if (row >= first && row < end) value = changed(value, i % rows.width);
  }
}

// Returns the share of the weights that keys [first, end) have in each row. It
// is the change of out[., 0] when the first column of their values grows by
// one.
std::optional<std::vector<long double>> Shares(const Subject& subject,
                                               const AddedRows& rows,
                                               const OutputRows& right,
                                               int64_t first, int64_t end) {
  auto grown = subject.AnswerTo([&](AlteredProblem& altered) {
    ChangeRows(rows, first, end, altered, [](double value, int64_t column) {
      return column == 0 ? value + 1 : value;
    });
  });
  if (!grown) return std::nullopt;
  std::vector<long double>& shares = grown->front().values;
  for (size_t i = 0; i < shares.size(); ++i) shares[i] -= right.values[i];
  return std::move(shares);
}

// If every row of the answer is a mean of values, whose weights add up to one
// (with the weight of a sink, if there is one), or sees no key, returns whether
// it sees one, row by row.
std::optional<std::vector<bool>> SeeingRows(const Subject& subject,
                                            const AddedRows& rows,
                                            const OutputRows& right) {
  constexpr long double kRounding = 1e-4L;
  const Problem& problem = subject.problem;
  if (problem.backward || LayoutOf(problem, 0).width != rows.width)
    return std::nullopt;
  const auto sums = Shares(subject, rows, right, 0, rows.count);
  if (!sums) return std::nullopt;
  const bool has_sinks = subject.Input("sinks") != nullptr;
  std::vector<bool> seeing;
  for (size_t at = 0; at < sums->size();
       at += static_cast<size_t>(rows.width)) {
    const long double sum = (*sums)[at];
    seeing.push_back(sum != 0);
    if (seeing.back() && !(std::abs(sum - 1) < kRounding) &&
        !(has_sinks && sum > 0 && sum < 1))
      return std::nullopt;
  }
  return seeing;
}

// Tells whether the answer is a mean of values in every row that sees a key.
bool IsMean(const Subject& subject, const AddedRows& rows,
            const OutputRows& right) {
  const auto seeing = SeeingRows(subject, rows, right);
  return seeing && std::ranges::count(*seeing, true) > 0;
}

// Adds the misreading in which rows [first, end) are seen `times` times. With s
// their share of the weights and N their part of the answer, a mean becomes
// (out + (times - 1) N) / (1 + (times - 1) s), and a sum out + (times - 1) N.
void SeeTile(Subject& subject, const AddedRows& rows, bool mean, int64_t first,
             int64_t end, int times, const std::string& name) {
  Mistake& mistake = subject.Add(name, [=](AlteredProblem& altered) {
    ChangeRows(rows, first, end, altered,
               [&](double value, int64_t) { return times * value; });
  });
  mistake.remedy = rows.remedy;
  if (!mean) return;
  mistake.finish = [=, &subject](RowsByOutput& program) {
    const auto shares =
        Shares(subject, rows, subject.right.front(), first, end);
    if (!shares) return false;
    const auto width = static_cast<size_t>(rows.width);
    std::vector<long double>& out = program.front().values;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] /= 1 + (times - 1) * (*shares)[i - i % width];
    return true;
  };
}

}  // namespace

const Tensor* AddedTensor(const Subject& subject) {
  const Problem& problem = subject.problem;
  const auto signature = [&](bool backward) {
    return problem.op->SignatureFor(problem.params, backward);
  };
  const std::string keys = signature(problem.backward).keys;
  const std::string width = signature(false).outputs.front().shape.back();
  for (const bool as_wide : {true, false})
    for (const TensorRule& rule : problem.inputs)
      if (rule.role == Role::kData && rule.shape.size() == 2 &&
          rule.shape.front() == keys && !IsCotangent(rule.name) &&
          (!as_wide || rule.shape.back() == width) && rule.name != "q" &&
          rule.name != "k")
        return subject.Input(rule.name);
  return nullptr;
}

void MiscountTiles(Subject& subject) {
  const int64_t keys = subject.problem.keys;
  const Tensor* tensor = AddedTensor(subject);
  if (!tensor || keys <= kTileKeys) return;
  const AddedRows rows{tensor->name, keys, tensor->shape.back(), "fewer keys"};
  const bool mean = IsMean(subject, rows, subject.right.front());
  const std::string tile =
      "tile of " + (mean ? std::string("keys") : "rows of " + rows.name);
  const int64_t last = (keys - 1) / kTileKeys * kTileKeys;
  SeeTile(subject, rows, mean, last, keys, 0, "last " + tile + " left out");
  // The tile in the middle, so that even a narrow window includes it for some
  // queries.
  const int64_t middle = keys / 2 / kTileKeys * kTileKeys;
  const int64_t end = std::min(middle + kTileKeys, keys);
  SeeTile(subject, rows, mean, middle, end, 0, "a " + tile + " left out");
  SeeTile(subject, rows, mean, middle, end, 2, "a " + tile + " twice");
}

// Leaves a tile of queries out of gradients, which are sums over queries, or
// counts it twice. Gradients are linear in the incoming gradient.
void MiscountQueries(Subject& subject) {
  const int64_t queries = subject.problem.queries;
  if (queries <= kTileKeys) return;
  const AddedRows rows{"grad", queries,
                       subject.Input("grad")->SliceSize() / queries,
                       "fewer queries"};
  const int64_t last = (queries - 1) / kTileKeys * kTileKeys;
  SeeTile(subject, rows, false, last, queries, 0,
          "last tile of queries left out");
  SeeTile(subject, rows, false, 0, kTileKeys, 2, "first tile of queries twice");
}

// Gives rows that see no key the mean of all values, as a softmax of scores
// that are all the same large negative number does.
void AverageOverHiddenKeys(Subject& subject) {
  const Tensor* tensor = AddedTensor(subject);
  if (!tensor) return;
  const AddedRows rows{tensor->name, subject.problem.keys, tensor->shape.back(),
                       ""};
  auto right =
      subject.AnswerTo([](AlteredProblem& altered) { altered.changed = true; });
  if (!right) return;
  const auto seeing = SeeingRows(subject, rows, right->front());
  if (!seeing || std::ranges::count(*seeing, false) == 0) return;
  OutputRows averaged = std::move(right->front());
  for (size_t r = 0; r < averaged.rows.size(); ++r) {
    if ((*seeing)[r]) continue;
    const RowId& id =
        subject.answer.outputs.front().selection.rows[averaged.rows[r]];
    const double* values = tensor->Head(id.head);
    long double* const mean =
        &averaged.values[r * static_cast<size_t>(rows.width)];
    for (int64_t c = 0; c < rows.width; ++c) {
      for (int64_t j = 0; j < rows.count; ++j)
        mean[c] += values[j * rows.width + c];
      mean[c] /= static_cast<long double>(rows.count);
    }
  }
  subject.Add("rows that see no key averaged over all keys", nullptr).finish =
      [averaged = std::move(averaged)](RowsByOutput& program) {
        program = {averaged};
        return true;
      };
}

// Merges parts of the keys, each with its own normaliser Z, by wrong weights:
// with the logarithm of Z and a power of another base, Z^(ln 2) or Z^(log2 e),
// or without Z; or adds the last part as if it had all of the weights. With s
// the share of the weights of a part and N its part of the answer, the part's
// own answer is N / s, and s is a multiple of Z.
void MergeParts(Subject& subject) {
  constexpr int64_t kFewestKeys = 16;  // of a part
  const int64_t keys = subject.problem.keys;
  const Tensor* tensor = AddedTensor(subject);
  // Every part would count a sink once more.
  if (subject.problem.backward || !tensor || subject.Input("sinks") ||
      keys < 2 * kFewestKeys)
    return;
  const AddedRows rows{tensor->name, keys, tensor->shape.back(), ""};
  const auto right =
      subject.AnswerTo([](AlteredProblem& altered) { altered.changed = true; });
  if (!right || !IsMean(subject, rows, right->front())) return;
  struct Part {
    std::vector<long double> shares, sums;  // [rows, width]
  };
  for (int64_t count = 2; count <= 8 && keys >= count * kFewestKeys;
       count *= 2) {
    std::vector<Part> parts;
    for (int64_t p = 0; p < count; ++p) {
      const int64_t first = p * keys / count, end = (p + 1) * keys / count;
      auto shares = Shares(subject, rows, right->front(), first, end);
      auto sums = subject.AnswerTo([&](AlteredProblem& altered) {
        const auto zero = [](double, int64_t) { return 0.0; };
        ChangeRows(rows, 0, first, altered, zero);
        ChangeRows(rows, end, keys, altered, zero);
      });
      if (!shares || !sums) return;
      parts.push_back({std::move(*shares), std::move(sums->front().values)});
    }
    // Adds the mistake of these elements of the answer.
    const auto add = [&](const char* name, const auto& element) {
      subject.Add(name, nullptr).finish =
          [=, width = rows.width,
           chosen = right->front().rows](RowsByOutput& program) {
            OutputRows merged{
                chosen, std::vector<long double>(parts.front().sums.size())};
            for (size_t i = 0; i < merged.values.size(); ++i)
              merged.values[i] =
                  element(parts, i, i - i % static_cast<size_t>(width));
            program = {std::move(merged)};
            return true;
          };
    };
    const auto by_power = [](long double power) {
      return [power](const std::vector<Part>& all, size_t i, size_t row) {
        long double top = 0, bottom = 0;
        for (const Part& part : all) {
          const long double share = part.shares[row];
          if (!(share > kNoShare)) continue;  // sees no key of this part
          const long double weight = std::pow(share, power);
          top += weight * part.sums[i] / share;
          bottom += weight;
        }
        return bottom > 0 ? top / bottom : 0;
      };
    };
    add("parts of the keys merged with weights of base 2",
        by_power(std::numbers::ln2));
    add("parts of the keys merged with weights of base e for logarithms of "
        "base 2",
        by_power(std::numbers::log2e));
    add("parts of the keys merged with equal weights", by_power(0));
    add("last part of the keys merged without its weight",
        [](const std::vector<Part>& all, size_t i, size_t row) {
          long double sum = 0;
          for (const Part& part : all) sum += part.sums[i];
          const Part& last = all.back();
          const long double share = last.shares[row];
          return share > kNoShare ? sum + last.sums[i] * (1 / share - 1) : sum;
        });
  }
}

}  // namespace subquad
