#include "harness/cases/omega.h"

#include <algorithm>
#include <cmath>

namespace subquad {
namespace {

using Row = std::vector<long double>;

long double Dot(const Row& a, const Row& b) {
  long double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

void Scale(long double factor, Row& row) {
  for (long double& x : row) x *= factor;
}

}  // namespace

const std::vector<std::string_view>& OmegaSamplers() {
  static const std::vector<std::string_view> names = {"gaussian", "orthogonal",
                                                      "sphere"};
  return names;
}

void CheckOmegaSampler(std::string_view name) {
  if (std::ranges::count(OmegaSamplers(), name) > 0) return;
  throw UnknownName("omega", {OmegaSamplers().begin(), OmegaSamplers().end()},
                    std::string(name));
}

std::vector<double> SampleOmega(std::string_view sampler, int64_t rows,
                                int64_t d, const Draws& draws,
                                const Draws& lengths, uint64_t first) {
  CheckOmegaSampler(sampler);
  std::vector<double> omega;
  std::vector<Row> basis;
  for (int64_t r = 0; r < rows; ++r) {
    Row row(static_cast<size_t>(d));
    const uint64_t at = first + static_cast<uint64_t>(r * d);
    for (int64_t c = 0; c < d; ++c) row[c] = draws.Normal(at + c);
    if (sampler == "sphere")
      Scale(std::sqrt(static_cast<long double>(d) / Dot(row, row)), row);
    if (sampler == "orthogonal") {
      if (r % d == 0) basis.clear();
      // Two passes are enough (Giraud et al. 2005).
      for (int pass = 0; pass < 2; ++pass)
        for (const Row& other : basis) {
          const long double along = Dot(row, other);
          for (int64_t c = 0; c < d; ++c) row[c] -= along * other[c];
        }
      Scale(1 / std::sqrt(Dot(row, row)), row);
      basis.push_back(row);
      long double square = 0;
      for (int64_t c = 0; c < d; ++c) {
        const long double z = lengths.Normal(at + c);
        square += z * z;
      }
      Scale(std::sqrt(square), row);
    }
    for (const long double x : row) omega.push_back(static_cast<double>(x));
  }
  return omega;
}

}  // namespace subquad
