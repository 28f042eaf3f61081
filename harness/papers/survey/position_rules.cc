// Claims of the survey on positions, computed by the command itself. Each comes
// with a control that lacks the property.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/frame/spectrum.h"
#include "harness/papers/survey/survey.h"
#include "reference/softmax/position_scheme.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// ---- schemes ---------------------------------------------------------------

// Of an empty scheme: plain self-attention.
OperatorRun PositionRun(const std::string& scheme, int64_t n, int64_t wide,
                        int64_t e) {
  constexpr int64_t kD = 6;
  OperatorRun run("position_attention");
  // Plain self-attention is scheme `bias` with a bias of zero.
  const std::string used = scheme.empty() ? "bias" : scheme;
  run.Set("scheme", used)
      .Give("x", {n, wide}, NormalNumbers(n * wide, 1))
      .Give("w_q", {wide, kD}, NormalNumbers(wide * kD, 2, 0.4))
      .Give("w_k", {wide, kD}, NormalNumbers(wide * kD, 3, 0.4))
      .Give("w_v", {wide, e}, NormalNumbers(wide * e, 4, 0.4));
  const int64_t offsets = 2 * n - 1;
  if (used == "absolute" || used == "absolute_scores" || used == "untied")
    run.Give("pos", {n, wide}, NormalNumbers(n * wide, 5));
  if (used == "shaw")
    run.Give("rel", {offsets, kD}, NormalNumbers(offsets * kD, 6));
  if (used == "deberta")
    run.Give("rel", {offsets, wide}, NormalNumbers(offsets * wide, 6));
  if (used == "bias" || used == "multiplicative")
    run.Give("bias", {offsets},
             scheme.empty() ? Numbers(static_cast<size_t>(offsets))
                            : NormalNumbers(offsets, 7));
  if (used == "untied" || used == "deberta")
    run.Give("u_q", {wide, kD}, NormalNumbers(wide * kD, 8, 0.4))
        .Give("u_k", {wide, kD}, NormalNumbers(wide * kD, 9, 0.4));
  return run;
}

Finding Equivariance(const Evidence& evidence) {
  Finding finding(evidence);
  // How far the output for permuted tokens is from the permuted output.
  const auto gap = [](const std::string& scheme) {
    constexpr int64_t kN = 24, kWide = 7, kE = 5;
    OperatorRun run = PositionRun(scheme, kN, kWide, kE);
    const std::vector<int64_t> order = Rotated(kN, 7);
    OperatorRun permuted = run;
    permuted["x"] = Reordered(run["x"], kWide, order);
    return LargestDifference(permuted.Definition(),
                             Reordered(run.Definition(), kE, order));
  };
  const Measured plain =
      finding.Measure("difference without positions", gap(""));
  finding.Add(
      plain <= kRounding,
      fmt::format("permuted tokens give permuted outputs within {}", plain));
  for (const std::string& scheme : PositionSchemeNames()) {
    const Measured broken =
        finding.Measure("difference with " + scheme, gap(scheme));
    finding.Add(broken > kClear,
                fmt::format("{} breaks this by {}", scheme, broken));
  }
  return finding;
}

Finding Schemes(const Evidence& evidence) {
  Finding finding(evidence);
  for (const std::string& scheme : PositionSchemeNames()) {
    const OperatorRun run = PositionRun(scheme, 24, 7, 5);
    AddPrograms(finding, run, scheme, run.Programs());
  }
  return finding;
}

// Rows of eq. 3.
Numbers Sinusoids(int64_t positions, int64_t width) {
  Numbers rows;
  for (int64_t i = 0; i < positions; ++i)
    for (int64_t f = 0; f < width / 2; ++f) {
      const double angle = static_cast<double>(i) *
                           std::pow(10000.0, -2 * static_cast<double>(f) /
                                                 static_cast<double>(width));
      rows.push_back(std::sin(angle));
      rows.push_back(std::cos(angle));
    }
  return rows;
}

// A linear map of a row, the same for all positions: it moves a position by an
// offset (eq. 4).
void Rotate(double* row, int64_t width, double offset) {
  for (int64_t f = 0; f < width / 2; ++f) {
    const double angle =
        offset * std::pow(10000.0, -2 * static_cast<double>(f) /
                                       static_cast<double>(width));
    const double sine = row[2 * f], cosine = row[2 * f + 1];
    row[2 * f] = std::cos(angle) * sine + std::sin(angle) * cosine;
    row[2 * f + 1] = -std::sin(angle) * sine + std::cos(angle) * cosine;
  }
}

Finding RotationRule(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kWidth = 64, kPositions = 128;
  const Numbers rows = Sinusoids(kPositions, kWidth);
  double right = 0, wrong = 0;
  for (int64_t i = 0; i < kPositions; ++i)
    for (int64_t j = 0; i + j < kPositions; ++j)
      for (const bool mirrored : {false, true}) {
        Numbers moved = RowsOf(rows, kWidth, i, i + 1);
        Rotate(moved.data(), kWidth, static_cast<double>(mirrored ? -j : j));
        const double gap =
            LargestDifference(moved, RowsOf(rows, kWidth, i + j, i + j + 1));
        (mirrored ? wrong : right) = LargestOf(mirrored ? wrong : right, gap);
      }
  const Measured gap = finding.Measure("difference", right),
                 other = finding.Measure("difference the other way", wrong);
  finding.Add(gap <= 1e-11 && other > kClear,
              fmt::format("rotated and shifted positions differ by at most {} "
                          "(128 positions, width 64), and by up to {} when "
                          "rotated the other way",
                          gap, other));
  return finding;
}

double Nearest(const Numbers& rows, int64_t width) {
  const auto count = static_cast<int64_t>(rows.size()) / width;
  double least = HUGE_VAL;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < i; ++j) {
      double square = 0;
      for (int64_t c = 0; c < width; ++c) {
        const double gap = rows[i * width + c] - rows[j * width + c];
        square += gap * gap;
      }
      least = std::min(least, std::sqrt(square));
    }
  return least;
}

Finding Unique(const Evidence& evidence) {
  Finding finding(evidence);
  Numbers repeated;  // one frequency, of period 8
  for (int64_t i = 0; i < 512; ++i) {
    const double angle = static_cast<double>(i) * std::numbers::pi / 4;
    repeated.push_back(std::sin(angle));
    repeated.push_back(std::cos(angle));
  }
  const Measured least = finding.Measure("least distance",
                                         Nearest(Sinusoids(512, 64), 64)),
                 one = finding.Measure("with one frequency",
                                       Nearest(repeated, 2));
  finding.Add(least > kClear && one <= kRounding,
              fmt::format("the nearest two of 512 sinusoidal positions of "
                          "width 64 are {} apart; with one frequency of period "
                          "8 positions repeat, within {}",
                          least, one));
  return finding;
}

// Numerical rank by singular values above 1e-6 of the largest, which are roots
// of these eigenvalues.
Finding NullSpace(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kPositions = 512, kWidth = 1024;
  const std::vector<double> values = Eigenvalues(
      GramMatrix(Sinusoids(kPositions, kWidth), kPositions), kPositions);
  const Measured rank = finding.Measure(
      "rank",
      static_cast<double>(std::ranges::count_if(values, [&](double value) {
        return value > 1e-12 * values.back();
      })));
  finding.Add(rank > 0 && rank < kPositions,
              fmt::format("{} sinusoidal positions of width {} span {} "
                          "dimensions (singular values above 1e-6 of the "
                          "largest); no more than {} could be",
                          kPositions, kWidth, rank, kPositions));
  return finding;
}

Finding QueryShift(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kWidth = 64, kPositions = 200, kOffset = 7;
  const Numbers rows = Sinusoids(kPositions, kWidth);
  // Queries, moved by `offset`, whose largest product is at another one.
  const auto off = [&](int64_t offset) {
    int64_t count = 0;
    for (int64_t i = 0; i + offset < kPositions; ++i) {
      Numbers query = RowsOf(rows, kWidth, i, i + 1);
      Rotate(query.data(), kWidth, static_cast<double>(offset));
      int64_t best = 0;
      for (int64_t j = 1; j < kPositions; ++j)
        if (Dot(query, 0, rows, j, kWidth) > Dot(query, 0, rows, best, kWidth))
          best = j;
      count += best != i + offset;
    }
    return static_cast<double>(count);
  };
  const Measured moved = finding.Measure("queries with another maximum",
                                         off(kOffset)),
                 still = finding.Measure("the same, not rotated", off(0));
  finding.Add(
      moved == 0 && still == 0,
      fmt::format("with queries rotated by {} positions the largest "
                  "product is at offset {} for all but {} of {} "
                  "queries, unrotated at 0 for all but {}",
                  kOffset, kOffset, moved, kPositions - kOffset, still));
  return finding;
}

// ---- equations 8, 10 to 12 -------------------------------------------------

// By the four terms of eq. 8 against the operator's output; `three`: without
// the last one.
struct FourTerms {
  double four, three;
};
FourTerms AddFourTerms() {
  constexpr int64_t kN = 12, kWide = 5, kD = 4;
  const Numbers x = NormalNumbers(kN * kWide, 1),
                pos = NormalNumbers(kN * kWide, 2),
                w_q = NormalNumbers(kWide * kD, 3, 0.5),
                w_k = NormalNumbers(kWide * kD, 4, 0.5);
  Numbers identity(kWide * kWide);
  for (int64_t c = 0; c < kWide; ++c) identity[c * kWide + c] = 1;
  OperatorRun run("position_attention");
  run.Set("scheme", std::string("absolute_scores"))
      .Set("scale", 1.0)
      .Give("x", {kN, kWide}, x)
      .Give("pos", {kN, kWide}, pos)
      .Give("w_q", {kWide, kD}, w_q)
      .Give("w_k", {kWide, kD}, w_k)
      .Give("w_v", {kWide, kWide}, identity);
  const Numbers whole = run.Definition();
  const auto term = [&](const double* a, const double* b) {
    double sum = 0;
    for (int64_t c = 0; c < kD; ++c) {
      double q = 0, k = 0;
      for (int64_t s = 0; s < kWide; ++s) {
        q += a[s] * w_q[s * kD + c];
        k += b[s] * w_k[s * kD + c];
      }
      sum += q * k;
    }
    return sum;
  };
  const auto output = [&](bool last) {
    Numbers out(static_cast<size_t>(kN * kWide));
    for (int64_t i = 0; i < kN; ++i) {
      Numbers weights;
      double sum = 0;
      for (int64_t j = 0; j < kN; ++j) {
        const double *xi = x.data() + i * kWide, *xj = x.data() + j * kWide,
                     *pi = pos.data() + i * kWide, *pj = pos.data() + j * kWide;
        const double score = term(xi, xj) + term(xi, pj) + term(pi, xj) +
                             (last ? term(pi, pj) : 0);
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      for (int64_t j = 0; j < kN; ++j)
        for (int64_t c = 0; c < kWide; ++c)
          out[i * kWide + c] += weights[j] / sum * x[j * kWide + c];
    }
    return out;
  };
  return {LargestDifference(output(true), whole),
          LargestDifference(output(false), whole)};
}

Finding Eq8(const Evidence& evidence) {
  Finding finding(evidence);
  const FourTerms terms = AddFourTerms();
  const Measured four = finding.Measure("difference", terms.four),
                 three =
                     finding.Measure("difference of three terms", terms.three);
  finding.Add(four <= kRounding && three > kClear,
              fmt::format("the four terms give the output within {}, without "
                          "the last one it differs by {}",
                          four, three));
  return finding;
}

// The text of eq. 10 and 11 has pi_{|i-j|}, the formulas pi_{i-j}: the output
// of softmax attention with a bias of each kind.
Finding Offset(const Evidence& evidence) {
  Finding finding(evidence);
  const Numbers bias = NormalNumbers(2 * kTriedN - 1, 4);
  const auto output = [&](bool by_distance) {
    OperatorRun run = TriedAttention("softmax_attention");
    Numbers given = bias;
    if (by_distance)
      for (int64_t t = 0; t < kTriedN - 1; ++t)
        given[t] = bias[2 * kTriedN - 2 - t];
    return run.Give("bias", {2 * kTriedN - 1}, given).Definition();
  };
  const Measured gap = finding.Measure(
      "difference of the two", LargestDifference(output(true), output(false)));
  finding.Require(gap > kClear,
                  fmt::format("for eq. 10 and 11 the text has pi_{{|i-j|}} and "
                              "the formula pi_{{i-j}}: outputs with the one "
                              "and the other differ by {}",
                              gap));
  return finding;
}

// ---- equations 22 and 23 ---------------------------------------------------

// A head with one large bias against a shift, and the sum of heads against a
// convolution, on the rows that have all their neighbours; `ends`: the other
// rows against a convolution padded with zeros. `by_distance`: the bias depends
// on |i-j|.
struct Convolution {
  double shift, convolution, ends;
  double blunt;  // control: a head with a small bias against the shift
};
Convolution HeadsAsConvolution(bool by_distance) {
  constexpr int64_t kN = 16, kWide = 5;
  const Numbers x = NormalNumbers(kN * kWide, 1);
  // One head: w_q = w_k = 0, w_v = 1, a bias that is large for one offset.
  const auto head = [&](int64_t offset, double large) {
    OperatorRun run("position_attention");
    Numbers bias(2 * kN - 1);
    bias[offset + kN - 1] = large;
    if (by_distance) bias[kN - 1 - offset] = large;
    run.Set("scheme", std::string("bias"))
        .Set("scale", 1.0)
        .Give("x", {kN, kWide}, x)
        .Give("w_q", {kWide, 2}, Numbers(kWide * 2))
        .Give("w_k", {kWide, 2}, Numbers(kWide * 2))
        .Give("w_v", {kWide, kWide}, Identity(kWide))
        .Give("bias", {2 * kN - 1}, bias);
    return run.Definition();
  };
  // sum of taps times the row at an offset; rows beyond the ends are zero.
  const auto convolve = [&](const std::vector<int64_t>& offsets,
                            const Numbers& taps) {
    Numbers out(kN * kWide);
    for (int64_t i = 0; i < kN; ++i)
      for (size_t t = 0; t < offsets.size(); ++t)
        if (const int64_t j = i + offsets[t]; j >= 0 && j < kN)
          for (int64_t c = 0; c < kWide; ++c)
            out[i * kWide + c] += taps[t] * x[j * kWide + c];
    return out;
  };
  constexpr double kLarge = 60;
  const std::vector<int64_t> offsets = {-2, 0, 3};
  const Numbers taps = {0.5, -1.25, 2};
  Numbers mixed(kN * kWide);  // eq. 23 with weights that are equal in a head
  for (size_t t = 0; t < offsets.size(); ++t) {
    const Numbers out = head(offsets[t], kLarge);
    for (size_t c = 0; c < mixed.size(); ++c) mixed[c] += taps[t] * out[c];
  }
  const Numbers convolution = convolve(offsets, taps);
  const Numbers shift = convolve({3}, {1});
  const auto gap = [&](const Numbers& a, const Numbers& b, int64_t first,
                       int64_t end) {
    return LargestDifference(RowsOf(a, kWide, first, end),
                             RowsOf(b, kWide, first, end));
  };
  return {.shift = gap(head(3, kLarge), shift, 0, kN - 3),
          .convolution = gap(mixed, convolution, 2, kN - 3),
          .ends = std::max(gap(mixed, convolution, 0, 2),
                           gap(mixed, convolution, kN - 3, kN)),
          .blunt = gap(head(3, 1), shift, 0, kN - 3)};
}

Finding ConvolutionRule(const Evidence& evidence) {
  Finding finding(evidence);
  const Convolution one = HeadsAsConvolution(false);
  const Measured shift = finding.Measure("difference from a shift", one.shift),
                 blunt =
                     finding.Measure("difference of a blunt head", one.blunt),
                 sum = finding.Measure("difference from a convolution",
                                       one.convolution);
  finding.Add(shift <= kRounding && blunt > kClear,
              fmt::format("a head with a bias of 60 at one offset is a shift "
                          "within {} (with a bias of 1 the difference is {})",
                          shift, blunt));
  finding.Add(sum <= kRounding,
              fmt::format("a weighted sum of three heads is a convolution "
                          "within {}",
                          sum));
  finding.Note(fmt::format(
      "this is for rows with all their neighbours: at the ends, where a "
      "convolution has zeros, a head becomes a mean over all tokens (a "
      "difference of {})",
      finding.Mention("difference at the ends", one.ends)));
  return finding;
}

Finding Eq22(const Evidence& evidence) {
  Finding finding(evidence);
  finding.Add(Erratum{
      "eq. 22 has a value for each offset |i-j|, which makes two diagonals "
      "with "
      "weights of one half, so that a head is no shift; correct is a value for "
      "each i-j",
      HeadsAsConvolution(true).shift, HeadsAsConvolution(false).shift, kClear});
  return finding;
}

}  // namespace

std::vector<NamedRule> SurveyPositionRules() {
  return {{"survey-equivariance", Equivariance},
          {"survey-rotation", RotationRule},
          {"survey-unique", Unique},
          {"survey-null-space", NullSpace},
          {"survey-query-shift", QueryShift},
          {"survey-eq8", Eq8},
          {"survey-schemes", Schemes},
          {"survey-offset", Offset},
          {"survey-convolution", ConvolutionRule},
          {"survey-eq22", Eq22}};
}

}  // namespace subquad
