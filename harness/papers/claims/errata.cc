#include "harness/papers/claims/errata.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

// NaN stays.
double Least(double a, double b) { return std::isnan(a) || b >= a ? a : b; }
double Largest(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

double Elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }

Numbers Elu1(Numbers x) {
  for (double& value : x) value = Elu1(value);
  return x;
}

// Row i of a [., d] with row j of b [., d].
double Dot(const Numbers& a, int64_t i, const Numbers& b, int64_t j,
           int64_t d) {
  double sum = 0;
  for (int64_t x = 0; x < d; ++x) sum += a[i * d + x] * b[j * d + x];
  return sum;
}

// m [rows, inner] times x [inner, e].
Numbers Times(const Numbers& m, const Numbers& x, int64_t inner) {
  const int64_t rows = static_cast<int64_t>(m.size()) / inner;
  const int64_t e = static_cast<int64_t>(x.size()) / inner;
  Numbers out(rows * e);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < inner; ++j)
      for (int64_t c = 0; c < e; ++c)
        out[i * e + c] += m[i * inner + j] * x[j * e + c];
  return out;
}

// The entries of m that an index keeps, row by row.
Numbers Block(const Numbers& m, int64_t columns, int64_t first_row,
              int64_t end_row, int64_t first_column, int64_t end_column) {
  Numbers out;
  for (int64_t i = first_row; i < end_row; ++i)
    for (int64_t j = first_column; j < end_column; ++j)
      out.push_back(m[i * columns + j]);
  return out;
}

// sum_j A_ij v_j / sum_j A_ij.
Numbers Normalised(int64_t n, const Numbers& v,
                   const std::function<double(int64_t, int64_t)>& weight) {
  const int64_t e = static_cast<int64_t>(v.size()) / n;
  Numbers out(v.size());
  for (int64_t i = 0; i < n; ++i) {
    double normaliser = 0;
    for (int64_t j = 0; j < n; ++j) {
      normaliser += weight(i, j);
      for (int64_t c = 0; c < e; ++c)
        out[i * e + c] += weight(i, j) * v[j * e + c];
    }
    for (int64_t c = 0; c < e; ++c) out[i * e + c] /= normaliser;
  }
  return out;
}

// ---- FastRPB appendix B ----------------------------------------------------

// Weights of a line of n tokens, and the circulant matrix of eq. 15 that
// contains their matrix W: its first row is w_{-N+1} .. w_{N-1}, and each
// further row is shifted to the right.
struct Line {
  static constexpr int64_t kN = 7, kE = 3, kWide = 2 * kN - 1;

  Line() : run("toeplitz_1d") {
    run.Give("weights", {kWide}, NormalNumbers(kWide, 1))
        .Give("values", {kN, kE}, NormalNumbers(kN * kE, 2));
    for (int64_t i = 0; i < kWide; ++i)
      for (int64_t j = 0; j < kWide; ++j)
        circulant.push_back(run["weights"][(j - i + kWide) % kWide]);
    // Eq. 16: N-1 rows of zeros above the values.
    extended = Numbers((kN - 1) * kE);
    extended.insert(extended.end(), run["values"].begin(), run["values"].end());
  }

  OperatorRun run;
  Numbers circulant, extended;
};

// Weights by the offset of rows alone on an image of 3 x 3 pixels: X of eq. 19
// to 29. w(-2) .. w(2).
struct Square {
  explicit Square(Numbers values) : run("toeplitz_2d_xy") {
    const int64_t e = static_cast<int64_t>(values.size()) / 9;
    run.Set("height", int64_t{3})
        .Set("width", int64_t{3})
        .Give("weights_rows", {5}, NormalNumbers(5, 3))
        .Give("weights_cols", {5}, Numbers(5))
        .Give("values", {9, e}, std::move(values));
  }
  double w(int64_t offset) { return run["weights_rows"][offset + 2]; }
  // Three of each.
  Numbers Threes(int64_t first) {
    Numbers out;
    for (int64_t offset = first; offset < first + 3; ++offset)
      out.insert(out.end(), 3, w(offset));
    return out;
  }
  OperatorRun run;
};

}  // namespace

Erratum FrpbBlockErratum() {
  Line line;
  constexpr int64_t kN = Line::kN, kWide = Line::kWide;
  const Numbers definition = line.run.Definition();
  // The printed slice has N-1 rows and N+1 columns, so its product with V is
  // not defined. The N x N block in the corner that it points to:
  const Numbers printed =
      Times(Block(line.circulant, kWide, kN - 1, kWide, 0, kN),
            line.run["values"], kN);
  const Numbers corrected =
      Times(Block(line.circulant, kWide, 0, kN, kN - 1, kWide),
            line.run["values"], kN);
  return {
      "eq. 15 has W = W_ext[N:, :N+1], N-1 rows and N+1 columns of the "
      "lower left corner (its N x N block is tried); W is the upper right "
      "block, W_ext[:N, N-1:]",
      LargestDifference(printed, definition),
      LargestDifference(corrected, definition), 0.1};
}

Erratum FrpbRowsErratum() {
  Line line;
  constexpr int64_t kWide = Line::kWide;
  const Numbers definition = line.run.Definition();
  const Numbers product = Times(line.circulant, line.extended, kWide);
  const Numbers printed =
      Block(product, Line::kE, 0, Line::kN + 1, 0, Line::kE);
  const Numbers corrected = Block(product, Line::kE, 0, Line::kN, 0, Line::kE);
  return {
      "eq. 17 has W V = (W_ext V_ext)[:N+1], N+1 rows for N tokens; "
      "correct is [:N]",
      LargestDifference(printed, definition),
      LargestDifference(corrected, definition), 0.1};
}

Erratum FrpbFlatErratum() {
  Numbers identity(81);
  for (int64_t i = 0; i < 9; ++i) identity[i * 10] = 1;
  Square square(identity);
  const Numbers x = square.run.Definition();  // X itself
  // By eq. 21, 23 and 29 the pixels of the first row have C for their rows of
  // X, those of the last row A.
  const Numbers c = Block(x, 9, 0, 1, 0, 9), a = Block(x, 9, 6, 7, 0, 9);
  const Numbers printed_a = square.Threes(0), printed_c = square.Threes(-2);
  return {
      "eq. 28 gives a_flat the entries of C and c_flat those of A "
      "(eq. 20-26); they are swapped",
      Least(LargestDifference(printed_a, a), LargestDifference(printed_c, c)),
      Largest(LargestDifference(printed_c, a), LargestDifference(printed_a, c)),
      0.1};
}

Erratum FrpbEntriesErratum() {
  Square square(NormalNumbers(9, 4));
  const Numbers definition = square.run.Definition();
  // R times the sums over the rows of the image (eq. 39).
  Numbers sums(3), greek(3);
  for (int64_t i = 0; i < 9; ++i) sums[i / 3] += square.run["values"][i];
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j) greek[i] += square.w(j - i) * sums[j];
  const double alpha = greek[0], beta = greek[1], gamma = greek[2];
  const Numbers printed = {alpha, alpha, beta, beta, beta, gamma, gamma, gamma};
  const Numbers corrected = {alpha, alpha, alpha, beta, beta,
                             beta,  gamma, gamma, gamma};
  return {"eq. 38 and 41 list 8 of the 9 entries; the first occurs three times",
          LargestDifference(printed, definition),
          LargestDifference(corrected, definition), 0.1};
}

int64_t PixelsThatCount(int64_t side) {
  OperatorRun run("toeplitz_2d_xy");
  const int64_t pixels = side * side;
  const Numbers weights = NormalNumbers(2 * side - 1, 5);
  run.Set("height", side)
      .Set("width", side)
      .Give("weights_rows", {2 * side - 1}, weights)
      .Give("weights_cols", {2 * side - 1}, weights)
      .Give("values", {pixels, 1}, NormalNumbers(pixels, 6));
  const Numbers before = run.Definition();
  int64_t count = 0;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    OperatorRun changed = run;
    changed["values"][pixel] += 1;
    count += LargestDifference(changed.Definition(), before) > 1e-3;
  }
  return count;
}

// ---- LRPE section III: the product with clipped scores ---------------------

namespace {

struct Lrpe {
  Lrpe(int64_t queries, int64_t keys, int64_t clip, bool masked)
      : n_q(queries), n_k(keys), k(clip), run("clipped_rpe_product") {
    run.Set("causal", masked)
        .Give("q", {n_q, kD}, NormalNumbers(n_q * kD, 1))
        .Give("rpe", {2 * k + 1, kD}, NormalNumbers((2 * k + 1) * kD, 2))
        .Give("v", {n_k, kE}, NormalNumbers(n_k * kE, 3));
  }
  static constexpr int64_t kD = 3, kE = 2;

  double Weight(int64_t i, int64_t column) {
    return Dot(run["q"], i, run["rpe"], column, kD);
  }
  // out[i, c] += weight * sum of v[first .. end-1].
  void AddSum(double weight, int64_t i, int64_t first, int64_t end,
              Numbers& out) {
    for (int64_t j = std::max<int64_t>(0, first); j < std::min(end, n_k); ++j)
      for (int64_t c = 0; c < kE; ++c)
        out[i * kE + c] += weight * run["v"][j * kE + c];
  }

  int64_t n_q, n_k, k;
  OperatorRun run;
};

// left + middle + right term; `sup` is the end of the right one.
Numbers ByThreeTerms(Lrpe& lrpe, bool masked, int64_t sup) {
  const int64_t k = lrpe.k;
  Numbers out(lrpe.n_q * Lrpe::kE);
  for (int64_t i = 0; i < lrpe.n_q; ++i) {
    lrpe.AddSum(lrpe.Weight(i, 0), i, 0, i - k + 1, out);
    for (int64_t column = 1; column < 2 * k; ++column)
      if (!masked || column <= k)
        lrpe.AddSum(lrpe.Weight(i, column), i, i + column - k,
                    i + column - k + 1, out);
    if (!masked) lrpe.AddSum(lrpe.Weight(i, 2 * k), i, i + k, sup, out);
  }
  return out;
}

}  // namespace

Erratum LrpeSignErratum() {
  const auto gap = [](int64_t sign) {
    Lrpe lrpe(20, 17, 4, false);
    Numbers out(lrpe.n_q * Lrpe::kE);
    for (int64_t i = 0; i < lrpe.n_q; ++i)
      for (int64_t j = 0; j < lrpe.n_k; ++j) {
        const int64_t clipped = std::clamp(sign * (j - i), -lrpe.k, lrpe.k);
        lrpe.AddSum(lrpe.Weight(i, clipped + lrpe.k), i, j, j + 1, out);
      }
    return LargestDifference(out, lrpe.run.Definition());
  };
  return {
      "S_ij = Q_i . RP[clip(i-j, -k, k)], though the first column is for "
      "keys before the query; correct is clip(j-i, -k, k)",
      gap(-1), gap(1), 1};
}

LrpeTail TryLrpeTails(int64_t most, int64_t most_k) {
  LrpeTail tail;
  tail.printed_losing = HUGE_VAL;
  for (int64_t n_q = 1; n_q <= most; ++n_q)
    for (int64_t n_k = 1; n_k <= most; ++n_k)
      for (int64_t k = 1; k <= most_k; ++k)
        for (bool masked : {false, true}) {
          Lrpe lrpe(n_q, n_k, k, masked);
          const Numbers definition = lrpe.run.Definition();
          const auto gap = [&](int64_t sup) {
            return LargestDifference(ByThreeTerms(lrpe, masked, sup),
                                     definition);
          };
          ++tail.problems;
          tail.corrected = Largest(tail.corrected, gap(n_k));
          const double printed = gap(std::min(n_q + k, n_k));
          if (!masked && n_k > n_q + k) {
            ++tail.losing;
            tail.printed_losing = Least(tail.printed_losing, printed);
          } else {
            tail.printed_elsewhere = Largest(tail.printed_elsewhere, printed);
          }
        }
  return tail;
}

Erratum LrpeTailErratum(const LrpeTail& tail) {
  return {
      "the right term is summed up to sup = min(L_Q+k, L_K), which loses "
      "the keys beyond L_Q+k; correct is sup = L_K",
      tail.losing > 0 ? tail.printed_losing : 0, tail.corrected, 1e-4};
}

// ---- LRPE section IV: the kernelized attention -----------------------------

Erratum LrpePhiErratum() {
  constexpr int64_t kN = 12, kD = 3, kR = 2;
  OperatorRun run("kernelized_clipped_rpe_attention");
  Numbers rpe = NormalNumbers((2 * kR + 1) * kD, 4);
  for (double& x : rpe) x = std::abs(x);
  run.Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3))
      .Give("rpe", {2 * kR + 1, kD}, rpe);
  const Numbers q = Elu1(run["q"]), k = Elu1(run["k"]), v = Elu1(run["v"]);
  const auto position = [&](int64_t i, int64_t j) {
    return Dot(q, i, rpe, std::clamp(j - i, -kR, kR) + kR, kD);
  };
  const Numbers printed = Normalised(kN, v, [&](int64_t i, int64_t j) {
    return Dot(q, i, run["k"], j, kD) + position(i, j);
  });
  const Numbers corrected = Normalised(kN, run["v"], [&](int64_t i, int64_t j) {
    return Dot(q, i, k, j, kD) + position(i, j);
  });
  const Numbers definition = run.Definition();
  return {"phi is applied to Q and V; correct is Q and K",
          LargestDifference(printed, definition),
          LargestDifference(corrected, definition), 0.1};
}

LrpeVanishing LrpePhiVanishing() {
  OperatorRun run("kernelized_clipped_rpe_attention");
  run.Give("q", {2, 1}, {1, 1})
      .Give("k", {2, 1}, {2, -2})
      .Give("v", {2, 1}, {3, 5})
      .Give("rpe", {1, 1}, {0});
  LrpeVanishing result;
  result.without_phi = Normalised(2, run["v"], [&](int64_t i, int64_t j) {
    return Dot(run["q"], i, run["k"], j, 1);
  })[0];
  result.with_phi = run.Definition()[0];
  const auto refused = [&](double embedding) {
    // phi(0) = 1 for both keys.
    run["k"] = {0, 0};
    run["rpe"] = {embedding};
    try {
      run.Definition();
    } catch (const InvalidInput&) {
      return true;
    }
    return false;
  };
  result.negative_refused = refused(-1);
  result.positive_refused = refused(1);
  return result;
}

bool LrpeVanishing::shown() const {
  return !std::isfinite(without_phi) && std::isfinite(with_phi) &&
         negative_refused && !positive_refused;
}

// ---- Transformer-XL appendix B: the matrix B -------------------------------

namespace {

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

  // The attention with any matrix B [L, M+L] for the term (b).
  Numbers With(const std::function<double(int64_t, int64_t)>& b) {
    Numbers out;
    for (int64_t i = 0; i < kL; ++i) {
      double sum = 0;
      Numbers row(kD);
      for (int64_t j = 0; j <= kM + i; ++j) {
        const double score = Dot(run["q"], i, run["k"], j, kD) +
                             Dot(run["u"], 0, run["k"], j, kD) + b(i, j) +
                             Relative(run["t"], 0, kM + i - j);
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

}  // namespace

// The last row of B as printed has R_{M+L-1} in column M and R_{L-1} in column
// M+1; by the definition these are R_{L-1} and R_{L-2}. (B in terms of Q is
// correct in the paper.)
TxlMatrix TryTxlMatrix() {
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
  const Numbers definition = xl.run.Definition();
  const Numbers wrong = xl.With(printed);
  const auto gap = [&](const Numbers& x, int64_t first, int64_t end) {
    return LargestDifference(Block(x, Xl::kD, first, end, 0, Xl::kD),
                             Block(definition, Xl::kD, first, end, 0, Xl::kD));
  };
  return {.corrected = gap(xl.With(corrected), 0, Xl::kL),
          .in_terms_of_q = gap(xl.With(in_terms_of_q), 0, Xl::kL),
          .printed_last_row = gap(wrong, last, Xl::kL),
          .printed_other_rows = gap(wrong, 0, last)};
}

Erratum TxlMatrixErratum(const TxlMatrix& matrix) {
  return {
      "the last row of B has R_{M+L-1} and R_{L-1} in columns M and M+1; "
      "correct are R_{L-1} and R_{L-2}",
      matrix.printed_last_row, matrix.corrected, 0.01};
}

// ---- NPRF ------------------------------------------------------------------

namespace {

// With phi = elu + 1 and values of width one, for which the printed first row
// of D_2 has the right number of entries.
struct Nprf {
  static constexpr int64_t kN = 10, kD = 3;

  Nprf() : run("kernelized_rpe_attention") {
    run.Set("feature_map", std::string("elu1"))
        .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
        .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
        .Give("v", {kN, 1}, NormalNumbers(kN, 3))
        .Give("bias", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 4));
  }
  double c(int64_t offset) { return std::exp(run["bias"][offset + kN - 1]); }

  OperatorRun run;
};

}  // namespace

Erratum NprfFirstRowErratum() {
  Nprf nprf;
  constexpr int64_t kN = Nprf::kN, kD = Nprf::kD;
  const Numbers q = Elu1(nprf.run["q"]), k = Elu1(nprf.run["k"]);
  const Numbers& v = nprf.run["v"];
  // The matrix by which C is multiplied for D_2 (eq. 13).
  const auto attention = [&](bool as_printed) {
    Numbers second = k, out;
    if (as_printed)
      for (int64_t a = 0; a < kD; ++a) second[a] *= v[1];
    for (int64_t i = 0; i < kN; ++i) {
      double above = 0, below = 0;
      for (int64_t j = 0; j < kN; ++j) {
        above += nprf.c(j - i) * Dot(q, i, k, j, kD) * v[j];
        below += nprf.c(j - i) * Dot(q, i, second, j, kD);
      }
      out.push_back(above / below);
    }
    return out;
  };
  const Numbers definition = nprf.run.Definition();
  return {
      "the first row of eq. 13 has a factor (x_2 W^V), which makes it as "
      "long as a row of D_1 (tried with values of width one); correct is "
      "phi(x_1 W^K) alone",
      LargestDifference(attention(true), definition),
      LargestDifference(attention(false), definition), 0.01};
}

Erratum NprfCausalErratum() {
  Nprf nprf;
  constexpr int64_t kN = Nprf::kN, kD = Nprf::kD;
  const Numbers q = Elu1(nprf.run["q"]), k = Elu1(nprf.run["k"]);
  const auto attention = [&](bool as_printed) {
    return Normalised(kN, nprf.run["v"], [&](int64_t i, int64_t j) {
      const bool masked = as_printed ? i > j : j > i;
      return masked ? 0.0 : nprf.c(j - i) * Dot(q, i, k, j, kD);
    });
  };
  nprf.run.Set("causal", true);
  const Numbers definition = nprf.run.Definition();
  return {
      "footnote 3 masks b_{i-j} where i > j, which for query i and key j of "
      "eq. 10 is the past; correct is to mask b_{j-i} where j > i",
      LargestDifference(attention(true), definition),
      LargestDifference(attention(false), definition), 0.01};
}

// ---- Transformers II -------------------------------------------------------

Erratum BlogStateErratum() {
  constexpr int64_t kN = 9, kD = 3, kE = 2;
  OperatorRun run("linear_attention");
  run.Set("feature_map", std::string("elu1"))
      .Set("causal", true)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kE}, NormalNumbers(kN * kE, 3));
  const Numbers q = Elu1(run["q"]), k = Elu1(run["k"]);
  const Numbers& v = run["v"];
  // The state A [d, e] and b [d], token by token; `j` < 0: the token itself.
  const auto recurrence = [&](int64_t j) {
    Numbers a(kD * kE), b(kD), out;
    for (int64_t i = 0; i < kN; ++i) {
      const int64_t key = j < 0 ? i : j;
      for (int64_t x = 0; x < kD; ++x) {
        b[x] += k[key * kD + x];
        for (int64_t c = 0; c < kE; ++c)
          a[x * kE + c] += k[key * kD + x] * v[i * kE + c];
      }
      const double below = Dot(q, i, b, 0, kD);
      for (int64_t c = 0; c < kE; ++c) {
        double above = 0;
        for (int64_t x = 0; x < kD; ++x) above += q[i * kD + x] * a[x * kE + c];
        out.push_back(above / below);
      }
    }
    return out;
  };
  const Numbers definition = run.Definition();
  double closest = HUGE_VAL;
  for (int64_t j = 0; j < kN; ++j)
    closest = Least(closest, LargestDifference(recurrence(j), definition));
  return {
      "eq. 20 adds z[x_j], with a j that is not defined (every position is "
      "tried); correct is z[x_i]",
      closest, LargestDifference(recurrence(-1), definition), 0.01};
}

}  // namespace subquad
