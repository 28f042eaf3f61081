#include "harness/judging/wrong_answers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/cases/draws.h"
#include "harness/judging/input_rounding.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/verdict.h"

namespace subquad {
namespace {

// Makes wrong answers from one output of the right one.
class WrongOutput {
 public:
  WrongOutput(const Problem& problem, const Answer& answer, size_t output,
              std::vector<WrongAnswer>& list)
      : answer_(answer.outputs[output]),
        output_(output),
        layout_(LayoutOf(problem, static_cast<int>(output))),
        by_offset_(problem.backward &&
                   problem.outputs[output].RunsOverOffsets(0)),
        several_(answer.outputs.size() > 1),
        narrow_(Info(problem.scalar).bytes == 2),
        list_(list) {
    const std::vector<RowId>& rows = answer_.selection.rows;
    for (size_t r = 0; r < rows.size(); ++r)
      index_[{rows[r].head, rows[r].row}] = r;
  }

  // Scales every judged row by a factor.
  void Scaled(const std::string& name, double factor) {
    std::vector<size_t> rows(answer_.selection.rows.size());
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = r;
    Add(name, rows, rows, factor);
  }

  // Replaces rows by other rows, if both are judged.
  template <typename From>
  void Moved(const std::string& name, const From& from) {
    std::vector<size_t> rows, sources;
    for (size_t r = 0; r < answer_.selection.rows.size(); ++r) {
      const RowId& id = answer_.selection.rows[r];
      const auto source = index_.find(from(id));
      if (source == index_.end()) continue;
      rows.push_back(r);
      sources.push_back(source->second);
    }
    if (rows != sources) Add(name, rows, sources, 1);
  }

  // Scales one row; NaN means that it was never written.
  void OneRow(const std::string& name, int64_t row, double factor) {
    const auto position = index_.find({layout_.heads - 1, row});
    if (position == index_.end()) return;
    Add(name, {position->second}, {position->second}, factor, true);
  }

  const OutputLayout& layout() const { return layout_; }
  // Tells whether rows are offsets, as in the gradient of a bias.
  bool by_offset() const { return by_offset_; }
  // Tells whether the type has 16 bits, in which rounding hides a factor of
  // 1.001.
  bool narrow() const { return narrow_; }

 private:
  void Add(std::string name, const std::vector<size_t>& rows,
           const std::vector<size_t>& sources, double factor,
           bool right_elsewhere = false) {
    if (rows.empty()) return;
    if (several_) name += " (" + answer_.name + ")";
    const auto value = [&right = answer_, sources, factor](size_t r,
                                                           int64_t c) {
      const size_t at = sources[r] * static_cast<size_t>(right.width) +
                        static_cast<size_t>(c);
      return factor == 0 ? 0 : factor * right.value[at];
    };
    list_.push_back({name, {{output_, rows, value}}, right_elsewhere});
  }

  const OutputAnswer& answer_;
  const size_t output_;
  const OutputLayout layout_;
  const bool by_offset_, several_, narrow_;
  std::map<std::pair<int64_t, int64_t>, size_t> index_;  // head, row
  std::vector<WrongAnswer>& list_;
};

// A row of the table of altered outputs.
struct OutputMistake {
  const char* name;
  void (*make)(const char* name, WrongOutput& output);
};

constexpr OutputMistake kOutputMistakes[] = {
    {"all zero",
     [](const char* name, WrongOutput& output) { output.Scaled(name, 0); }},
    {"sign flipped",
     [](const char* name, WrongOutput& output) { output.Scaled(name, -1); }},
    {"scaled by 1.001",
     [](const char* name, WrongOutput& output) {
       if (!output.narrow()) output.Scaled(name, 1.001);
     }},
    {"scaled by 1.02",
     [](const char* name, WrongOutput& output) {
       if (output.narrow()) output.Scaled(name, 1.02);
     }},
    {"rows shifted by one",
     [](const char* name, WrongOutput& output) {
       output.Moved(name, [rows = output.layout().rows](const RowId& id) {
         return std::pair(id.head, (id.row + 1) % rows);
       });
     }},
    {"one row zeroed",
     [](const char* name, WrongOutput& output) {
       output.OneRow(name, output.layout().rows / 2, 0);
     }},
    {"last row left out",
     [](const char* name, WrongOutput& output) {
       output.OneRow(name, output.layout().rows - 1, std::nan(""));
     }},
    {"by i - j for j - i",
     [](const char* name, WrongOutput& output) {
       if (!output.by_offset()) return;
       output.Moved(name, [rows = output.layout().rows](const RowId& id) {
         return std::pair(id.head, rows - 1 - id.row);
       });
     }},
    {"another head's rows",
     [](const char* name, WrongOutput& output) {
       output.Moved(name, [heads = output.layout().heads](const RowId& id) {
         return std::pair((id.head + 1) % heads, id.row);
       });
     }},
};

}  // namespace

bool Coincides(const Problem& problem, const Answer& answer,
               const WrongAnswer& wrong) {
  const double roundoff = Info(problem.scalar).unit_roundoff;
  // Values below the smallest normal number are rounded like that number.
  const long double least = SmallestNormal(problem.scalar);
  for (const FoundRows& part : wrong.parts) {
    const OutputAnswer& right = answer.outputs[part.output];
    long double largest = least;
    for (long double value : right.value)
      if (!std::isinf(value)) largest = std::max(largest, std::abs(value));
    for (size_t r = 0; r < part.rows.size(); ++r)
      for (int64_t c = 0; c < right.width; ++c) {
        const size_t at = part.rows[r] * static_cast<size_t>(right.width) +
                          static_cast<size_t>(c);
        const double wrong_value =
            RoundTo(problem.scalar, static_cast<double>(part.value(r, c)));
        if (wrong_value != right.value[at] &&
            !(std::abs(wrong_value - right.value[at]) <=
              2 * roundoff * largest))
          return false;
      }
  }
  return true;
}

std::vector<WrongAnswer> AlteredAnswers(const Problem& problem,
                                        const Answer& answer) {
  std::vector<WrongAnswer> list;
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    WrongOutput output(problem, answer, o, list);
    for (const OutputMistake& mistake : kOutputMistakes)
      mistake.make(mistake.name, output);
  }
  return list;
}

std::vector<WrongAnswer> MakeWrongAnswers(const Problem& problem,
                                          const Inputs& inputs,
                                          const Answer& answer,
                                          double most_work) {
  constexpr double kMisreadings = 20;
  std::vector<WrongAnswer> list = AlteredAnswers(problem, answer);
  if (kMisreadings * MistakeWork(problem, kMisreadRows) <= most_work)
    for (WrongAnswer& misread : MisreadAnswers(problem, inputs, answer))
      list.push_back(std::move(misread));
  std::erase_if(list, [&](const WrongAnswer& wrong) {
    return !wrong.small_by_design && Coincides(problem, answer, wrong);
  });
  return list;
}

Margin MarginOf(const Problem& problem, const Inputs& inputs,
                const Answer& answer,
                const std::vector<WrongAnswer>& wrong_answers,
                const Tolerance& tolerance, bool bound_alone) {
  const auto compare = [&](const WrongAnswer& mistake) {
    return CompareRows(problem, answer, mistake.parts, tolerance);
  };
  const auto distance = [&](const WrongAnswer& mistake) {
    return DistanceOf(compare(mistake), bound_alone);
  };
  Margin margin;
  const auto count = [&](const std::string& name, double value) {
    ++margin.wrong_answers;
    if (value >= margin.value) return;
    margin.value = value;
    margin.nearest = name;
  };
  std::vector<BlindSpot> spots;
  std::vector<std::string> names;
  for (const WrongAnswer& wrong : wrong_answers) {
    const Comparison comparison = compare(wrong);
    // Any tolerance rejects elements that are not written.
    if (comparison.not_finite > 0) continue;
    const double value = DistanceOf(comparison, bound_alone);
    if (wrong.small_by_design) {
      if (value < 1)
        margin.too_small.push_back({wrong.name, value, wrong.remedy});
      continue;
    }
    if (!(value < 1)) {
      count(wrong.name, value);
      continue;
    }
    spots.push_back({wrong.name, value, wrong.remedy});
    names.push_back(wrong.name);
  }
  if (spots.empty()) return margin;
  std::map<std::string, double> rounding;
  for (const WrongAnswer& moved :
       MovedByRounding(problem, inputs, answer, names))
    rounding[moved.name] = std::max(rounding[moved.name], distance(moved));
  for (BlindSpot& spot : spots) {
    if (spot.distance <= rounding[spot.name]) continue;
    count(spot.name, spot.distance);
    margin.blind_to.push_back(std::move(spot));
  }
  std::ranges::sort(margin.blind_to, {}, &BlindSpot::distance);
  return margin;
}

}  // namespace subquad
