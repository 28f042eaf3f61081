// The samplers of random projections.
#include "harness/cases/omega.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/cases/case.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

constexpr int64_t kD = 12, kRows = 40;  // three whole blocks and a part

std::vector<double> Sample(std::string_view sampler, uint64_t seed = 1,
                           uint64_t first = 0) {
  return SampleOmega(sampler, kRows, kD, Draws(seed, "a"), Draws(seed, "b"),
                     first);
}

double Dot(const std::vector<double>& omega, int64_t r, int64_t s) {
  double sum = 0;
  for (int64_t c = 0; c < kD; ++c) sum += omega[r * kD + c] * omega[s * kD + c];
  return sum;
}

TEST(Omega, OrthogonalInBlocksAndAsLongAsGaussianRows) {
  double squares = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto omega = Sample("orthogonal", seed);
    for (int64_t r = 0; r < kRows; ++r) {
      squares += Dot(omega, r, r);
      for (int64_t s = 0; s < r; ++s) {
        const double cosine =
            Dot(omega, r, s) / std::sqrt(Dot(omega, r, r) * Dot(omega, s, s));
        if (r / kD == s / kD) {
          EXPECT_NEAR(cosine, 0, 1e-14);
        }
      }
    }
    // Blocks are independent of each other.
    EXPECT_GT(std::abs(Dot(omega, 0, kD)), 1e-6);
    EXPECT_NE(Dot(omega, 0, 0), Dot(omega, 1, 1));
  }
  // The mean of |row|^2 is d, with a standard deviation of sqrt(2 d / 2000) =
  // 0.11.
  EXPECT_NEAR(squares / (50.0 * kRows), kD, 0.5);
}

TEST(Omega, SphereHasOneRadius) {
  const auto omega = Sample("sphere");
  for (int64_t r = 0; r < kRows; ++r) EXPECT_NEAR(Dot(omega, r, r), kD, 1e-13);
  EXPECT_GT(std::abs(Dot(omega, 0, 1)), 1e-6);
}

TEST(Omega, GaussianRowsAreTheDraws) {
  const Draws draws(1, "a");
  const auto omega = Sample("gaussian", 1, 480);
  for (uint64_t i = 0; i < omega.size(); ++i)
    EXPECT_EQ(omega[i], draws.Normal(480 + i));
}

TEST(Omega, CasesNameTheirSampler) {
  CaseRequest request;
  request.op = &FindOperator("linear_attention");
  request.n = 5;
  request.values = {{"feature_map", "prf"}, {"omega", "orthogonal"}};
  const Case test_case = MakeCase(request);
  EXPECT_NE(test_case.Id().find("omega=orthogonal"), std::string::npos);
  EXPECT_EQ(MakeCase(ParseCaseId(test_case.Id())).Id(), test_case.Id());
  const auto omega =
      GenerateInputs(test_case, ProblemOf(test_case))["omega"].values;
  double sum = 0;
  for (int c = 0; c < 64; ++c) sum += omega[c] * omega[64 + c];
  EXPECT_NEAR(sum, 0, 1e-4);  // rounded to float32

  request.values[1].second = "square";
  EXPECT_THROW(MakeCase(request), InvalidInput);
  request.values = {{"feature_map", "elu1"}, {"omega", "sphere"}};
  EXPECT_THROW(MakeCase(request), InvalidInput);
}

}  // namespace
}  // namespace subquad
