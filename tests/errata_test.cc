// Formulas that are wrong as printed, typed in as printed: each disagrees with
// the definition, and what stands in its place agrees. The names are those of
// the list of claims.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/run_operator.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

double Elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }

double Dot(const Numbers& a, int64_t i, const Numbers& b, int64_t j,
           int64_t d) {
  double sum = 0;
  for (int64_t x = 0; x < d; ++x) sum += a[i * d + x] * b[j * d + x];
  return sum;
}

// ---- LRPE section III: the product with clipped scores ---------------------

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

// S_ij = Q_i . RP[clip(i - j, -k, k)] against clip(j - i, -k, k).
TEST(Errata, LrpeSign) {
  for (int64_t sign : {-1, 1}) {
    Lrpe lrpe(20, 17, 4, false);
    Numbers out(lrpe.n_q * Lrpe::kE);
    for (int64_t i = 0; i < lrpe.n_q; ++i)
      for (int64_t j = 0; j < lrpe.n_k; ++j) {
        const int64_t clipped =
            std::clamp(sign * (j - i), -lrpe.k, lrpe.k);
        lrpe.AddSum(lrpe.Weight(i, clipped + lrpe.k), i, j, j + 1, out);
      }
    const double gap = LargestDifference(out, lrpe.run.Definition());
    if (sign == -1) {
      EXPECT_GT(gap, 1) << "as printed";
    } else {
      EXPECT_LE(gap, kRounding) << "corrected";
    }
  }
}

// left + middle + right of the note; `sup` is where its right term ends. Needs
// k >= 1: with k = 0 the first and the last column are one, and the key at i
// would stand in both tails.
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

// The right term up to sup = min(L_Q + k, L_K) loses the tail when there are
// keys beyond L_Q + k, and only then; up to L_K it is right everywhere.
TEST(Errata, LrpeTail) {
  int64_t wrong = 0;
  for (int64_t n_q = 1; n_q <= 16; ++n_q)
    for (int64_t n_k = 1; n_k <= 16; ++n_k)
      for (int64_t k = 1; k <= 8; ++k)
        for (bool masked : {false, true}) {
          Lrpe lrpe(n_q, n_k, k, masked);
          const Numbers definition = lrpe.run.Definition();
          const auto gap = [&](int64_t sup) {
            return LargestDifference(ByThreeTerms(lrpe, masked, sup),
                                     definition);
          };
          ASSERT_LE(gap(n_k), kRounding) << "corrected";
          const bool loses = !masked && n_k > n_q + k;
          wrong += loses;
          if (loses) {
            ASSERT_GT(gap(std::min(n_q + k, n_k)), 1e-4)
                << "as printed " << n_q << " " << n_k << " " << k;
          } else {
            ASSERT_LE(gap(std::min(n_q + k, n_k)), kRounding)
                << "as printed " << n_q << " " << n_k << " " << k;
          }
        }
  EXPECT_GT(wrong, 0);
}

// ---- LRPE section IV: the kernelized attention -----------------------------

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

// phi of Q and "V" instead of Q and K.
TEST(Errata, LrpePhiIsOfQueriesAndKeys) {
  constexpr int64_t kN = 12, kD = 3, kR = 2;
  OperatorRun run("kernelized_clipped_rpe_attention");
  Numbers rpe = NormalNumbers((2 * kR + 1) * kD, 4);
  for (double& x : rpe) x = std::abs(x);
  run.Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3))
      .Give("rpe", {2 * kR + 1, kD}, rpe);
  const auto phi = [](Numbers x) {
    for (double& value : x) value = Elu1(value);
    return x;
  };
  const Numbers q = phi(run["q"]), k = phi(run["k"]), v = phi(run["v"]);
  const auto position = [&](int64_t i, int64_t j) {
    return Dot(q, i, rpe, std::clamp(j - i, -kR, kR) + kR, kD);
  };
  const Numbers printed = Normalised(kN, v, [&](int64_t i, int64_t j) {
    return Dot(q, i, run["k"], j, kD) + position(i, j);
  });
  const Numbers corrected =
      Normalised(kN, run["v"], [&](int64_t i, int64_t j) {
        return Dot(q, i, k, j, kD) + position(i, j);
      });
  const Numbers definition = run.Definition();
  EXPECT_GT(LargestDifference(printed, definition), 0.1);
  EXPECT_LE(LargestDifference(corrected, definition), kRounding);
}

// Without phi, or with embeddings that are not positive, weights have signs and
// the normaliser may vanish; with phi and positive embeddings it cannot.
TEST(Errata, LrpePhiKeepsTheNormaliserFromVanishing) {
  OperatorRun run("kernelized_clipped_rpe_attention");
  run.Give("q", {2, 1}, {1, 1})
      .Give("k", {2, 1}, {2, -2})
      .Give("v", {2, 1}, {3, 5})
      .Give("rpe", {1, 1}, {0});
  const Numbers without_phi =
      Normalised(2, run["v"], [&](int64_t i, int64_t j) {
        return Dot(run["q"], i, run["k"], j, 1);
      });
  EXPECT_FALSE(std::isfinite(without_phi[0]));
  EXPECT_TRUE(std::isfinite(run.Definition()[0]));

  // phi(0) = 1: two keys of 1, embeddings of -1.
  run["k"] = {0, 0};
  run["rpe"] = {-1};
  EXPECT_THROW(run.Definition(), InvalidInput);
  run["rpe"] = {1};
  EXPECT_NO_THROW(run.Definition());
}

// ---- Transformer-XL appendix B: the matrix B -------------------------------

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
        for (int64_t c = 0; c < kD; ++c) row[c] += weight * run["v"][j * kD + c];
      }
      for (double x : row) out.push_back(x / sum);
    }
    return out;
  }

  OperatorRun run;
};

// The last row of B as printed has R_{M+L-1} in column M and R_{L-1} in column
// M+1; by the definition these are R_{L-1} and R_{L-2}. (The paper's B in terms
// of its Q has them right.)
TEST(Errata, TxlMatrix) {
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
  EXPECT_LE(LargestDifference(xl.With(corrected), definition), kRounding);
  EXPECT_LE(LargestDifference(xl.With(in_terms_of_q), definition), kRounding);
  // All rows but the last agree.
  const auto row = [](const Numbers& x, int64_t first, int64_t end) {
    return Numbers(x.begin() + first * Xl::kD, x.begin() + end * Xl::kD);
  };
  EXPECT_LE(LargestDifference(row(wrong, 0, last), row(definition, 0, last)),
            kRounding);
  EXPECT_GT(LargestDifference(row(wrong, last, Xl::kL),
                              row(definition, last, Xl::kL)),
            0.01);
}

}  // namespace
}  // namespace subquad
