#include "harness/judging/resemblance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "harness/cases/draws.h"
#include "harness/judging/factor_fit.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/wrong_answers.h"

namespace subquad {
namespace {

// Root mean square distances over the elements: from the output to a mistake's
// answer and to the right one.
class Distance {
 public:
  void Add(long double actual, long double wrong, long double right) {
    if (std::isnan(actual) || std::isnan(wrong)) {
      (std::isnan(actual) && std::isnan(wrong) ? nothing_ : differ_) = true;
      return;
    }
    from_wrong_ += (actual - wrong) * (actual - wrong);
    from_right_ += (actual - right) * (actual - right);
  }
  double Ratio() const {
    // An element that was not written is infinitely far from the right answer.
    if (differ_) return 1;
    if (nothing_) return from_wrong_ > from_right_ ? 1 : 0;
    if (!(from_right_ > 0)) return 1;
    const double ratio =
        std::sqrt(static_cast<double>(from_wrong_ / from_right_));
    return std::isfinite(ratio) ? ratio : 1;
  }

 private:
  long double from_wrong_ = 0, from_right_ = 0;
  // Elements that both, or only one of the two, did not write.
  bool nothing_ = false, differ_ = false;
};

class Matcher {
 public:
  Matcher(const Problem& problem, const Answer& right, const Answer& answer,
          const Tolerance& tolerance)
      : problem_(problem),
        right_(right),
        found_(answer),
        tolerance_(tolerance) {}

  void Try(const WrongAnswer& wrong) {
    Distance distance;
    for (const FoundRows& part : wrong.parts) {
      const OutputAnswer& right = right_.outputs[part.output];
      if (found_.outputs[part.output].value.empty()) continue;
      const size_t rows = right.selection.rows.size();
      std::vector<bool> altered(rows);
      for (size_t i = 0; i < part.rows.size(); ++i) {
        altered[part.rows[i]] = true;
        for (int64_t c = 0; c < right.width; ++c)
          distance.Add(Found(part.output, part.rows[i], c),
                       Finite(part.output, part.rows[i], c, part.value(i, c)),
                       RightOf(part.output, part.rows[i], c));
      }
      if (!wrong.right_elsewhere) continue;
      for (size_t r = 0; r < rows; ++r)
        for (int64_t c = 0; !altered[r] && c < right.width; ++c)
          distance.Add(Found(part.output, r, c), RightOf(part.output, r, c),
                       RightOf(part.output, r, c));
    }
    known_.insert(wrong.name);
    const double ratio = distance.Ratio();
    // If two mistakes have the same answer, the first one is simpler.
    if (!(ratio < 0.99 * best_.ratio)) return;
    best_ = {wrong.name, ratio};
    if (ratio <= kAlike) best_.tolerances = TolerancesTo(wrong);
  }

  bool HasMatch() const { return best_.ratio <= kAlike; }

  // Tries NaN in the rows that should be zero, as 0/0 gives it in rows that see
  // no key; the other rows, of which some are not zero, are right.
  void TryEmptyRows(size_t o) {
    const OutputAnswer& right = right_.outputs[o];
    known_.insert("NaN in rows that should be zero");
    if (HasMatch()) return;
    size_t missing = 0;
    long double squares = 0, errors = 0;
    for (size_t r = 0; r < right.selection.rows.size(); ++r) {
      const Products row = ProductsOf(o, r);
      if (row.squares > 0 || !std::isnan(row.errors)) {
        squares += row.squares;
        errors += row.errors;
        continue;
      }
      ++missing;
    }
    if (missing > 0 && squares > 0 && errors <= kRounding * squares)
      best_ = {
          "NaN in rows that should be zero, as of 0/0 where no key is seen" +
              OfOutput(o),
          0};
  }

  // Tries a range of rows that are zero or NaN, the same in all heads or in one
  // of them; the other rows are right.
  void TryRanges(size_t o) {
    known_.insert("rows left zero");
    if (best_.ratio < kAlike) return;
    const OutputAnswer& right = right_.outputs[o];
    std::set<int64_t> rows, heads;
    bool zero = true, missing = true;
    long double squares = 0, elsewhere = 0;
    size_t count = 0;
    for (size_t r = 0; r < right.selection.rows.size(); ++r) {
      const Products row = ProductsOf(o, r);
      bool all_zero = true, all_missing = true;
      for (int64_t c = 0; c < right.width; ++c) {
        all_zero = all_zero && Found(o, r, c) == 0;
        all_missing = all_missing && std::isnan(Found(o, r, c));
      }
      squares += row.squares;
      if (!(row.squares > 0) || !(all_zero || all_missing)) {
        elsewhere += row.errors;
        continue;
      }
      zero = zero && all_zero;
      missing = missing && all_missing;
      rows.insert(right.selection.rows[r].row);
      heads.insert(right.selection.rows[r].head);
      ++count;
    }
    // Rows beside the range that are wrong too are another mistake.
    if (rows.empty() || count == right.selection.rows.size() ||
        !(zero || missing) || !(elsewhere <= kRounding * squares) ||
        count != rows.size() * heads.size())
      return;
    // All judged rows between the first and the last one belong to the range.
    for (const RowId& id : right.selection.rows)
      if (id.row > *rows.begin() && id.row < *rows.rbegin() &&
          heads.contains(id.head) && !rows.contains(id.row))
        return;
    std::string name =
        rows.size() == 1
            ? fmt::format("row {}", *rows.begin())
            : fmt::format("rows {} to {}", *rows.begin(), *rows.rbegin());
    name += zero ? " zero" : " NaN";
    if (std::ssize(heads) < LayoutOf(problem_, static_cast<int>(o)).heads)
      name += heads.size() == 1 ? fmt::format(", of head {}", *heads.begin())
                                : ", of some heads";
    best_ = {name + OfOutput(o), 0};
  }

  // Tries one factor for all rows.
  void TryCommonFactor(size_t o) {
    // An output of almost only zeros would be a multiple too.
    if (best_.ratio < kAlike / 100) return;
    const OutputAnswer& right = right_.outputs[o];
    long double squares = 0, product = 0;
    size_t rows = 0;
    for (size_t r = 0; r < right.selection.rows.size(); ++r) {
      const Products row = ProductsOf(o, r);
      squares += row.squares;
      product += row.product;
      rows += row.squares > 0;
    }
    if (rows > 1) TryFactor(o, static_cast<double>(product / squares));
  }

  // Tries a factor for each row, as if the weights were right but their
  // normaliser were wrong.
  void TryRowFactors(size_t o) {
    known_.insert("another normaliser");
    if (best_.ratio < kAlike / 100) return;
    const OutputAnswer& right = right_.outputs[o];
    if (right.width < 2) return;
    long double errors = 0, left = 0;
    bool off = false;
    for (size_t r = 0; r < right.selection.rows.size(); ++r) {
      const Products row = ProductsOf(o, r);
      errors += row.errors;
      // A row of zeros has no multiples.
      const long double factor =
          row.squares > 0 ? row.product / row.squares : 0;
      for (int64_t c = 0; c < right.width; ++c)
        left += Square(Found(o, r, c) - factor * RightOf(o, r, c));
      off = off || (row.squares > 0 && factor != 1);
    }
    const double ratio = std::sqrt(static_cast<double>(left / errors));
    if (!off || !(ratio < std::min(0.01, kAlike * best_.ratio))) return;
    const std::vector<ParamRule> rules =
        problem_.op->ParamRules(problem_.params);
    const auto has = [&](const char* name) {
      return std::ranges::count(rules, name, &ParamRule::name) > 0;
    };
    std::string name = "rows scaled each by its own factor";
    // Operators with a scale of their scores compute a mean.
    if (!problem_.backward && (has("scale") || has("eps")))
      name = "another normaliser: " + name;
    if (!problem_.backward && has("eps"))
      name += ", as by an eps in the wrong place";
    best_ = {name + OfOutput(o), ratio};
  }

  // Tries the noise of 16-bit arithmetic: errors of any sign, as large as the
  // rounding of such a type.
  void TryNoise(size_t o) {
    known_.insert("few digits");
    if (best_.ratio < kAlike) return;
    const OutputAnswer& right = right_.outputs[o];
    long double squares = 0, errors = 0, product = 0;
    size_t rows = 0;
    for (size_t r = 0; r < right.selection.rows.size(); ++r) {
      bool off = false;
      for (int64_t c = 0; c < right.width; ++c) {
        const long double value = RightOf(o, r, c);
        const long double error = Found(o, r, c) - value;
        squares += value * value;
        errors += error * error;
        product += error * value;
        off = off || std::abs(error) > 1e-5L * std::abs(value);
      }
      rows += off;
    }
    const double relative = std::sqrt(static_cast<double>(errors / squares));
    const double slant =
        static_cast<double>(std::abs(product) / std::sqrt(squares * errors));
    // A wrong factor and a few wrong rows are not noise.
    if (!(relative > 0x1p-16) || !(relative < 0x1p-5) || !(slant < 0.7) ||
        2 * rows < right.selection.rows.size())
      return;
    // Errors beyond the bound of such arithmetic are not noise (for example a
    // value that is not zero although all of its terms are), and neither are
    // errors that only a few rows have.
    const std::vector<double> over = OverBoundIn(o, Scalar::kBFloat16);
    const double most = std::ranges::max(over);
    if (!(most <= 1) || ShareOfFew(o, over) > 0.5) return;
    const bool beyond_float16 = most * Info(Scalar::kBFloat16).unit_roundoff >
                                Info(Scalar::kFloat16).unit_roundoff;
    std::string name =
        relative > 0x1p-9 || beyond_float16
            ? "the rounding of arithmetic in bfloat16, or long sums in float16"
            : "the rounding of arithmetic in float16 or TensorFloat32";
    for (const Scalar scalar : {Scalar::kFloat16, Scalar::kBFloat16})
      if (Info(problem_.scalar).bytes > 2 && HasNumbersOf(o, scalar))
        name = fmt::format(
            "values of {}: computed in it, or rounded to it at the end",
            Info(scalar).name);
    best_ = {name + OfOutput(o), kAlike};
  }

  Resemblance Best() const {
    Resemblance best =
        best_.ratio <= kAlike ? best_ : Resemblance{"", best_.ratio};
    best.known = std::ssize(known_);
    return best;
  }

 private:
  struct Products {
    long double squares = 0, product = 0, errors = 0;
  };

  // The largest ratio of squared errors to squared values of right rows.
  static constexpr long double kRounding = 1e-6L;

  static long double Square(long double x) { return x * x; }

  // Names the output if there are several.
  std::string OfOutput(size_t o) const {
    return right_.outputs.size() > 1
               ? fmt::format(" ({})", right_.outputs[o].name)
               : "";
  }

  Products ProductsOf(size_t o, size_t r) const {
    Products row;
    for (int64_t c = 0; c < right_.outputs[o].width; ++c) {
      row.squares += Square(RightOf(o, r, c));
      row.product += RightOf(o, r, c) * Found(o, r, c);
      row.errors += Square(Found(o, r, c) - RightOf(o, r, c));
    }
    return row;
  }

  // Tries the right rows times this factor.
  void TryFactor(size_t o, double factor) {
    const OutputAnswer& right = right_.outputs[o];
    if (!std::isfinite(factor) || factor == 1) return;
    // Prints as many digits as distinguish it from 1.
    std::string text;
    for (int digits = 4; digits <= 17; ++digits) {
      text = fmt::format("{:.{}g}", factor, digits);
      if (std::abs(std::stod(text) - factor) <= 0.001 * std::abs(factor - 1))
        break;
    }
    factor = std::stod(text);
    std::vector<size_t> all(right.selection.rows.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const Resemblance before = best_;
    const std::string name = "scaled by " + text + OfOutput(o);
    Try({name, {{o, std::move(all), [this, o, factor](size_t r, int64_t c) {
                   return factor * RightOf(o, r, c);
                 }}}});
    if (best_.name == name && best_.ratio < 0.01) return;
    best_ = before;
    known_.erase(name);
  }

  // Returns the error of each element divided by the plain program's bound in
  // the arithmetic of this type.
  std::vector<double> OverBoundIn(size_t o, Scalar scalar) const {
    const OutputAnswer& right = right_.outputs[o];
    std::vector<double> over(right.value.size());
    for (size_t at = 0; at < over.size(); ++at) {
      if (std::isinf(right.value[at])) continue;
      const auto error = static_cast<double>(
          std::abs(found_.outputs[o].value[at] - right.value[at]));
      const double units = tolerance_.units[o][at] +
                           static_cast<double>(std::abs(right.value[at]));
      // Values below the smallest normal number may have larger errors.
      if (error > SmallestNormal(Scalar::kFloat16) *
                      Info(Scalar::kFloat16).unit_roundoff)
        over[at] = error / (Info(scalar).unit_roundoff * units);
    }
    return over;
  }

  // Returns the share of the sum of squares that the largest sixteenth of the
  // rows has; 0 if there are fewer than 16 rows.
  double ShareOfFew(size_t o, const std::vector<double>& over) const {
    const auto width = static_cast<size_t>(right_.outputs[o].width);
    std::vector<double> rows;
    for (size_t at = 0; at < over.size(); ++at) {
      if (at % width == 0) rows.push_back(0);
      rows.back() += over[at] * over[at];
    }
    if (rows.size() < 16) return 0;
    std::ranges::sort(rows, std::greater());
    const auto few = static_cast<std::ptrdiff_t>(rows.size() / 16);
    const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
    if (!(all > 0)) return 0;
    return std::accumulate(rows.begin(), rows.begin() + few, 0.0) / all;
  }

  // Tells whether all values of the output are numbers of this type. Fewer than
  // eight values could be so by chance.
  bool HasNumbersOf(size_t o, Scalar scalar) const {
    const OutputAnswer& right = right_.outputs[o];
    const size_t rows = right.selection.rows.size();
    if (rows * static_cast<size_t>(right.width) < 8) return false;
    for (size_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < right.width; ++c) {
        const auto number = static_cast<double>(Found(o, r, c));
        if (RoundTo(scalar, number) != number) return false;
      }
    return true;
  }

  // Returns the largest error of the output divided by the tolerance, if the
  // mistake's answer were right.
  double TolerancesTo(const WrongAnswer& wrong) const {
    std::vector<FoundRows> parts;
    for (const FoundRows& part : wrong.parts)
      if (!found_.outputs[part.output].value.empty()) parts.push_back(part);
    return DistanceOf(CompareRows(problem_, found_, parts, tolerance_), false);
  }

  long double RightOf(size_t output, size_t r, int64_t c) const {
    const long double right = At(right_.outputs[output], r, c);
    return std::isinf(right) ? 0 : right;
  }
  long double Found(size_t output, size_t r, int64_t c) const {
    return Finite(output, r, c, At(found_.outputs[output], r, c));
  }
  // Returns a number in place of this element, so that distances are numbers:
  // where the right one is infinite, that is zero and every other one is one.
  long double Finite(size_t output, size_t r, int64_t c,
                     long double value) const {
    const long double right = At(right_.outputs[output], r, c);
    if (!std::isinf(right)) return value;
    return value == right ? 0 : 1;
  }
  static long double At(const OutputAnswer& output, size_t r, int64_t c) {
    return output
        .value[r * static_cast<size_t>(output.width) + static_cast<size_t>(c)];
  }

  const Problem& problem_;
  const Answer& right_;
  const Answer& found_;
  const Tolerance& tolerance_;
  std::set<std::string> known_;
  Resemblance best_;
};

}  // namespace

Answer WithNumbers(const Problem& problem, const Answer& right,
                   const Outputs& outputs) {
  Answer answer = right;
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputAnswer& output = answer.outputs[o];
    if (outputs[o].empty()) {
      output.value.clear();
      continue;
    }
    const OutputLayout layout = LayoutOf(problem, static_cast<int>(o));
    for (size_t r = 0; r < output.selection.rows.size(); ++r) {
      const RowId& id = output.selection.rows[r];
      const auto first =
          static_cast<size_t>((id.head * layout.rows + id.row) * layout.width);
      const auto width = static_cast<size_t>(output.width);
      for (size_t c = 0; c < width; ++c)
        output.value[r * width + c] = outputs[o][first + c];
    }
  }
  return answer;
}

Resemblance LooksLike(const Problem& problem, const Inputs& inputs,
                      const Answer& right,
                      const std::vector<WrongAnswer>& wrong_answers,
                      const Answer& answer, const Tolerance& tolerance) {
  Matcher matcher(problem, right, answer, tolerance);
  for (const WrongAnswer& wrong : wrong_answers) matcher.Try(wrong);
  // The outputs that were given and to which the other mistakes apply.
  std::vector<size_t> given;
  for (size_t o = 0; o < (problem.backward ? answer.outputs.size() : 1); ++o)
    if (!answer.outputs[o].value.empty()) given.push_back(o);
  if (given.empty()) return matcher.Best();
  for (const WrongAnswer& wrong : UsualConfusions(problem, inputs, right))
    if (!Coincides(problem, right, wrong)) matcher.Try(wrong);
  for (const size_t o : given) matcher.TryEmptyRows(o);
  for (const size_t o : given) matcher.TryRanges(o);
  for (const size_t o : given) matcher.TryCommonFactor(o);
  // The fit takes as long as many mistakes.
  if (!matcher.HasMatch())
    for (const WrongAnswer& wrong :
         FittedFactors(problem, inputs, right, answer, kMisreadRows))
      matcher.Try(wrong);
  for (const size_t o : given) matcher.TryRowFactors(o);
  for (const size_t o : given) matcher.TryNoise(o);
  return matcher.Best();
}

}  // namespace subquad
