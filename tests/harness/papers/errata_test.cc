// Formulas that are wrong as printed (harness/papers/claims/errata.h): each
// disagrees with the definition, and its correction agrees. The names
// are those of the list of claims.
#include "harness/papers/claims/errata.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void ExpectConfirmed(const Erratum& erratum) {
  EXPECT_GT(erratum.printed, erratum.least) << erratum.what;
  EXPECT_LE(erratum.corrected, kRounding) << erratum.what;
  EXPECT_TRUE(erratum.Confirmed()) << erratum.what;
}

TEST(Errata, AreConfirmedByTheirNumbersOnly) {
  EXPECT_TRUE((Erratum{"", 1, 1e-13, 0.1}).Confirmed());
  EXPECT_TRUE((Erratum{"another shape", HUGE_VAL, 0, 0.1}).Confirmed());
  EXPECT_FALSE((Erratum{"printed agrees", 1e-13, 1e-13, 0.1}).Confirmed());
  EXPECT_FALSE((Erratum{"correction wrong", 1, 0.01, 0.1}).Confirmed());
  EXPECT_FALSE((Erratum{"", kNaN, 0, 0.1}).Confirmed());
  EXPECT_FALSE((Erratum{"", 1, kNaN, 0.1}).Confirmed());
}

TEST(Errata, DifferencesKeepNaN) {
  EXPECT_TRUE(std::isnan(LargestDifference({kNaN, 0}, {0, 1})));
  EXPECT_EQ(LargestDifference({1, 2}, {1, 4}), 2);
  EXPECT_EQ(LargestDifference({1}, {1, 1}), HUGE_VAL);
}

TEST(Errata, FrpbSlices) {
  ExpectConfirmed(FrpbBlockErratum());
  ExpectConfirmed(FrpbRowsErratum());
  ExpectConfirmed(FrpbFlatErratum());
  ExpectConfirmed(FrpbEntriesErratum());
}

TEST(Errata, FrpbTwoDimensionsReadEveryPixel) {
  EXPECT_EQ(PixelsThatCount(1), 1);
  EXPECT_EQ(PixelsThatCount(6), 36);
}

TEST(Errata, LrpeSign) { ExpectConfirmed(LrpeSignErratum()); }

// The right term up to sup = min(L_Q + k, L_K) loses the tail when there are
// keys beyond L_Q + k, and only then; up to L_K it is right everywhere.
TEST(Errata, LrpeTail) {
  const LrpeTail tail = TryLrpeTails(16, 8);
  EXPECT_EQ(tail.problems, 16 * 16 * 8 * 2);
  EXPECT_GT(tail.losing, 0);
  EXPECT_GT(tail.printed_losing, 1e-4);
  EXPECT_LE(tail.printed_elsewhere, kRounding);
  EXPECT_LE(tail.corrected, kRounding);
  ExpectConfirmed(LrpeTailErratum(tail));
}

TEST(Errata, LrpePhi) { ExpectConfirmed(LrpePhiErratum()); }

// Without phi, or with embeddings that are not positive, weights have signs and
// the normaliser may vanish; with phi and positive embeddings it cannot.
TEST(Errata, LrpePhiKeepsTheNormaliserFromVanishing) {
  const LrpeVanishing result = LrpePhiVanishing();
  EXPECT_FALSE(std::isfinite(result.without_phi));
  EXPECT_TRUE(std::isfinite(result.with_phi));
  EXPECT_TRUE(result.negative_refused);
  EXPECT_FALSE(result.positive_refused);
  EXPECT_TRUE(result.shown());
}

TEST(Errata, TxlMatrix) {
  const TxlMatrix matrix = TryTxlMatrix();
  EXPECT_LE(matrix.corrected, kRounding);
  EXPECT_LE(matrix.in_terms_of_q, kRounding);
  EXPECT_LE(matrix.printed_other_rows, kRounding);
  EXPECT_GT(matrix.printed_last_row, 0.01);
  ExpectConfirmed(TxlMatrixErratum(matrix));
}

TEST(Errata, NprfEq13) {
  ExpectConfirmed(NprfFirstRowErratum());
  ExpectConfirmed(NprfCausalErratum());
}

TEST(Errata, BlogRnn) { ExpectConfirmed(BlogStateErratum()); }

}  // namespace
}  // namespace subquad
