#include "harness/papers/transformer_xl/transformer_xl.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/frame/sweep_parts.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

struct Xl {
  static constexpr int64_t kL = 5, kM = 3, kKeys = kL + kM, kD = 4, kP = 2;

  Xl() : run("transformer_xl_attention") {
    run.Give("q", {kL, kD}, NormalNumbers(kL * kD, 1))
        .Give("k", {kKeys, kD}, NormalNumbers(kKeys * kD, 2))
        .Give("v", {kKeys, kD}, NormalNumbers(kKeys * kD, 3))
        .Give("r", {kKeys, kP}, NormalNumbers(kKeys * kP, 4))
        .Give("w_kr", {kD, kP}, NormalNumbers(kD * kP, 5))
        .Give("u", {kD}, NormalNumbers(kD, 6))
        .Give("t", {kD}, NormalNumbers(kD, 7));
  }

  // x . (W R_distance)
  double Relative(const Numbers& x, int64_t row, int64_t distance) {
    double sum = 0;
    for (int64_t a = 0; a < kD; ++a)
      for (int64_t b = 0; b < kP; ++b)
        sum += x[row * kD + a] * run["w_kr"][a * kP + b] *
               run["r"][distance * kP + b];
    return sum;
  }

  // The attention with any matrix B [L, M+L] for the term (b), and any D for
  // (d).
  using Term = std::function<double(int64_t, int64_t)>;
  Numbers With(const Term& b) {
    return With(b, [&](int64_t i, int64_t j) {
      return Relative(run["t"], 0, kM + i - j);
    });
  }
  Numbers With(const Term& b, const Term& d) {
    Numbers out;
    for (int64_t i = 0; i < kL; ++i) {
      double sum = 0;
      Numbers row(kD);
      for (int64_t j = 0; j <= kM + i; ++j) {
        const double score = Dot(run["q"], i, run["k"], j, kD) +
                             Dot(run["u"], 0, run["k"], j, kD) + b(i, j) +
                             d(i, j);
        const double weight = std::exp(score / std::sqrt(double{kD}));
        sum += weight;
        for (int64_t c = 0; c < kD; ++c)
          row[c] += weight * run["v"][j * kD + c];
      }
      for (double x : row) out.push_back(x / sum);
    }
    return out;
  }

  OperatorRun run;
};

// The last row of B as printed has R_{M+L-1} in column M and R_{L-1} in column
// M+1; by the definition these are R_{L-1} and R_{L-2}. (B in terms of Q is
// correct in the paper.)
Finding Matrix(const Evidence& evidence) {
  Finding finding(evidence);
  Xl xl;
  const int64_t last = Xl::kL - 1;
  const auto corrected = [&](int64_t i, int64_t j) {
    return xl.Relative(xl.run["q"], i, Xl::kM + i - j);
  };
  const auto printed = [&](int64_t i, int64_t j) {
    if (i == last && j == Xl::kM)
      return xl.Relative(xl.run["q"], i, Xl::kM + Xl::kL - 1);
    if (i == last && j == Xl::kM + 1)
      return xl.Relative(xl.run["q"], i, Xl::kL - 1);
    return corrected(i, j);
  };
  // Q_x = W R_{M+L-1-x}; the last row of B in terms of it is q.Q_0, q.Q_1, ..
  const auto in_terms_of_q = [&](int64_t i, int64_t j) {
    const int64_t x = Xl::kL - 1 - i + j;
    return xl.Relative(xl.run["q"], i, Xl::kM + Xl::kL - 1 - x);
  };
  const Numbers definition = xl.run.Definition(), wrong = xl.With(printed);
  const auto gap = [&](const Numbers& x, int64_t first, int64_t end) {
    return LargestDifference(RowsOf(x, Xl::kD, first, end),
                             RowsOf(definition, Xl::kD, first, end));
  };
  finding.Add(Erratum{
      "the last row of B has R_{M+L-1} and R_{L-1} in columns M and M+1; "
      "correct are R_{L-1} and R_{L-2}",
      gap(wrong, last, Xl::kL), gap(xl.With(corrected), 0, Xl::kL), 0.01});
  const Measured others = finding.Measure("difference of the other rows",
                                          gap(wrong, 0, last)),
                 by_q = finding.Measure("difference in terms of Q",
                                        gap(xl.With(in_terms_of_q), 0, Xl::kL));
  finding.Require(others <= kRounding && by_q <= kRounding,
                  fmt::format("the other rows are off by at most {}, and all "
                              "rows written in terms of Q by at most {}",
                              others, by_q));
  return finding;
}

// Row i of q Q^T, shifted left by L-1-i, against term (b) pair by pair.
Finding TermB(const Evidence& evidence) {
  Finding finding(evidence);
  Xl xl;
  const Numbers& q = xl.run["q"];
  double shifted = 0, not_shifted = 0;
  for (int64_t i = 0; i < Xl::kL; ++i)
    for (int64_t j = 0; j <= Xl::kM + i; ++j) {
      // Entry k of the row is q_i . Q_k, and Q_k = w_kr r_{M+L-1-k}.
      const auto entry = [&](int64_t k) {
        return xl.Relative(q, i, Xl::kKeys - 1 - k);
      };
      const double exact = xl.Relative(q, i, Xl::kM + i - j);
      shifted = LargestOf(shifted, std::abs(entry(Xl::kL - 1 - i + j) - exact));
      not_shifted = LargestOf(not_shifted, std::abs(entry(j) - exact));
    }
  const Measured gap = finding.Measure("difference", shifted),
                 other = finding.Measure("difference unshifted", not_shifted);
  finding.Add(gap <= kRounding && other > 0.01,
              fmt::format("row i of q Q^T, shifted left by L-1-i, is term (b) "
                          "within {}; unshifted it is off by {}",
                          gap, other));
  return finding;
}

// The whole attention with term (d) taken from the one vector d~.
Finding TermD(const Evidence& evidence) {
  Finding finding(evidence);
  Xl xl;
  AddPrograms(finding, xl.run, "all four terms", {"shift"});
  Numbers once;
  for (int64_t k = 0; k < Xl::kKeys; ++k)
    once.push_back(xl.Relative(xl.run["t"], 0, Xl::kKeys - 1 - k));
  const auto output = [&](bool by_vector, int64_t by) {
    return xl.With(
        [&](int64_t i, int64_t j) {
          return xl.Relative(xl.run["q"], i, Xl::kM + i - j);
        },
        [&](int64_t i, int64_t j) {
          return by_vector
                     ? once[std::min(Xl::kL - 1 - i + j + by, Xl::kKeys - 1)]
                     : xl.Relative(xl.run["t"], 0, Xl::kM + i - j);
        });
  };
  const Numbers definition = xl.run.Definition();
  const Measured gap = finding.Measure(
                     "difference by d~",
                     LargestDifference(output(true, 0), definition)),
                 other = finding.Measure(
                     "difference by d~ shifted once more",
                     LargestDifference(output(true, 1), definition));
  finding.Add(gap <= kRounding && other > 1e-3,
              fmt::format("with term (d) from the {} entries of d~, shifted "
                          "left, the output is the definition's within {}; "
                          "shifted once more it is off by {}",
                          Xl::kKeys, gap, other));
  return finding;
}

// Transformer-XL appendix B, terms (b) and (d) of L queries after M positions:
// (q_i + t) . w_kr r[M+i-j] for the visible keys, 0 elsewhere. `once`: w_kr r
// for every distance; otherwise for every pair. `products`, if given, gets the
// operations in w_kr r.
template <typename T>
Row<T> DistanceScores(const Row<T>& q, const Row<T>& t, const Row<T>& r,
                      const Row<T>& w, size_t d, size_t p, bool once,
                      int64_t* products) {
  const size_t segment = q.size() / d, keys = r.size() / p,
               memory = keys - segment;
  Counted::Reset();
  int64_t counted = 0;
  const auto project = [&](size_t distance, T* to) {
    const int64_t from = Counted::operations();
    for (size_t a = 0; a < d; ++a) {
      to[a] = 0;
      for (size_t b = 0; b < p; ++b)
        to[a] += w[a * p + b] * r[distance * p + b];
    }
    counted += Counted::operations() - from;
  };
  Row<T> all(keys * d), one(d), out(segment * keys);
  for (size_t x = 0; once && x < keys; ++x) project(x, all.data() + x * d);
  for (size_t i = 0; i < segment; ++i) {
    Row<T> query(q.begin() + static_cast<std::ptrdiff_t>(i * d),
                 q.begin() + static_cast<std::ptrdiff_t>((i + 1) * d));
    for (size_t a = 0; a < d; ++a) query[a] += t[a];
    for (size_t j = 0; j <= memory + i; ++j) {
      const size_t distance = memory + i - j;
      if (!once) project(distance, one.data());
      const T* const row = once ? all.data() + distance * d : one.data();
      for (size_t a = 0; a < d; ++a) out[i * keys + j] += query[a] * row[a];
    }
  }
  if (products) *products = counted;
  return out;
}

Finding Linear(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kD = 4, kP = 5, kSegment = 96, kMemory = 32;
  const auto run = [](int64_t segment, int64_t memory, bool once,
                      int64_t* products) {
    const int64_t keys = segment + memory;
    return DistanceScores(
        Counting(NormalNumbers(segment * kD, 1)),
        Counting(NormalNumbers(kD, 2)), Counting(NormalNumbers(keys * kP, 3)),
        Counting(NormalNumbers(kD * kP, 4)), kD, kP, once, products);
  };
  int64_t by_distance = 0, by_pair = 0;
  const Row<Counted> a = run(kSegment, kMemory, true, &by_distance),
                     b = run(kSegment, kMemory, false, &by_pair);
  const Measured once = finding.Measure(
                     "products",
                     static_cast<double>(by_distance) / (2 * kD * kP)),
                 pairs = finding.Measure(
                     "products for every pair",
                     static_cast<double>(by_pair) / (2 * kD * kP)),
                 gap = finding.Measure("difference of scores",
                                       LargestDifference(a, b));
  constexpr int64_t kVisible =
      kSegment * kMemory + kSegment * (kSegment + 1) / 2;
  finding.Add(
      once == double{kSegment + kMemory} && pairs == double{kVisible} &&
          gap <= 1e-10,
      fmt::format("for L = {} and M = {} it makes {} products w_kr r, M + L, "
                  "where the naive way makes {:.0f}, one for every visible "
                  "pair (counted in a run; the scores agree within {})",
                  kSegment, kMemory, once, pairs.value, gap));
  const Counts all = CountEach({32, 64, 128, 256}, [&](int64_t size) {
    run(size, size, true, nullptr);
  });
  const Growth square = MentionGrowth(finding, "all", "L", all, kSquare),
               linear = JudgeGrowth(finding, "all", "L", all, kLinearGrowth);
  finding.Add(linear.known && !linear.holds ? Holds::kNo : Holds::kYes,
              fmt::format("B itself has L (M+L) entries of d products each: in "
                          "all {} for M = L",
                          square.text));
  finding.Append(
      PerMachine(evidence,
                 [](const Machine& machine, Finding& one) {
                   const auto curve = [&](const char* id) {
                     return CurveOf(machine, "txl-time",
                                    {{"operator", "transformer_xl_attention"},
                                     {"implementation", id}});
                   };
                   const RecipeCurve shift = curve("shift"),
                                     dense = curve("dense");
                   if (shift.empty()) return;
                   AddGrowth(one, shift, CurveValue::kSeconds, kNearLinear,
                             "time of shift");
                   for (auto point = dense.points.rbegin();
                        point != dense.points.rend(); ++point)
                     if (const CurvePoint* other = shift.At(point->n)) {
                       const Quotient ratio =
                           RatioOf(*point, *other, CurveValue::kSeconds);
                       if (std::isfinite(ratio.ratio) && !shift.mixed)
                         one.Note(RatioText(
                             one.Mention("naive over shift", ratio.ratio,
                                         ratio.interval),
                             {fmt::format("at L = M = {:.10g} it is", point->n),
                              "faster", "slower", " than the naive way"}));
                       break;
                     }
                 }),
      "");
  return finding;
}

}  // namespace

Paper TransformerXl() {
  return {"transformer_xl",
          {{"txl-linear", Linear},
           {"txl-matrix", Matrix},
           {"txl-b", TermB},
           {"txl-d", TermD}},
          {ShiftedScoresStudy()}};
}

}  // namespace subquad
