// Feature maps phi : R^d -> R^f of kernelized attention (Katharopoulos 2020;
// FastRPB eq. 4-6 and section 3.1; NPRF eq. 4-5), applied to sqrt(scale) * x,
// normalised first where asked. feature_map_spec.h has the formulas.
//
// The constants 1/sqrt(f), 1/sqrt(2p) and 1/sqrt(p) are left out: an attention
// is a quotient of two sums that are both linear in the key features and in the
// query features, so that a constant common to all features cancels. With eps,
// or unnormalised, it is applied at the end (value.h).
//
// Features may reach exp(95) and exp(-2000) although the attention is of
// ordinary size, so each has an exponent of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/kernelized/feature_map_spec.h"
#include "reference/kernelized/scaled.h"

namespace subquad {

template <typename Real>
class FeatureMap {
 public:
  // `omega` is [projections, d] or null.
  FeatureMap(const FeatureMapSpec& spec, const double* omega)
      : spec_(spec), omega_(omega) {}

  // Computes x' = root_scale * x [d], or root_scale * x / |x|. Returns false if
  // x must be normalised and is zero. The norm cannot overflow: the largest
  // entry is factored out as a power of two.
  template <typename Number>
  bool Scale(const Number* x, std::vector<Real>& row) const {
    const size_t d = static_cast<size_t>(spec_.d);
    Real factor = static_cast<Real>(spec_.root_scale);
    int top = 0;
    if (spec_.normalize) {
      double largest = 0;
      for (size_t c = 0; c < d; ++c)
        largest = std::max(largest, std::abs(static_cast<double>(x[c])));
      if (largest == 0) return false;
      top = ilogb(largest);
      Real sum = 0;
      for (size_t c = 0; c < d; ++c) {
        const Real value = ldexp(static_cast<Real>(x[c]), -top);
        sum += value * value;
      }
      factor /= sqrt(sum);
    }
    row.resize(d);
    for (size_t c = 0; c < d; ++c)
      row[c] = factor * ldexp(static_cast<Real>(x[c]), -top);
    AsRow(row.data(), spec_.d);
    return true;
  }

  // Computes phi(x) [f]. Returns false as Scale does.
  template <typename Number>
  bool Row(const Number* x, std::vector<Scaled<Real>>& phi) const {
    std::vector<Real> row;
    if (!Scale(x, row)) return false;
    phi.clear();
    phi.reserve(static_cast<size_t>(spec_.features()));
    const auto relu = [](Real y) { return Split(y <= 0 ? Real{0} : y); };
    const Real lowest = static_cast<Real>(-kMaxLogarithm);
    switch (spec_.id) {
      case FeatureMapId::kElu1:
        for (const Real y : row)
          phi.push_back(y > 0 ? Split(y + 1) : SplitExp(std::max(y, lowest)));
        break;
      case FeatureMapId::kRelu:
        for (const Real y : row) phi.push_back(relu(y));
        break;
      case FeatureMapId::kIdentity:
        for (const Real y : row) phi.push_back(Split(y));
        break;
      case FeatureMapId::kSikf:
        for (const Real y : row) phi.push_back(SplitExp(Checked(y)));
        break;
      case FeatureMapId::kDpfp: {
        std::vector<Scaled<Real>> u;
        for (const Real y : row) u.push_back(relu(y));
        for (const Real y : row) u.push_back(relu(-y));
        for (int64_t v = 1; v <= spec_.nu; ++v)
          for (size_t i = 0; i < u.size(); ++i)
            phi.push_back(u[i] * u[(i + static_cast<size_t>(v)) % u.size()]);
        break;
      }
      default:
        Random(row, phi);
    }
    return true;
  }

  // Returns omega_a . x' for projection a.
  Real Project(int64_t a, const std::vector<Real>& row) const {
    return Dot<Real>(omega_ + a * spec_.d, row.data(), spec_.d);
  }

  // Returns |x'|^2 / 2.
  static Real HalfSquare(const std::vector<Real>& row) {
    Real half_square = 0;
    for (const Real y : row) half_square += y * y / 2;
    return half_square;
  }

 private:
  Real Checked(Real logarithm) const {
    if (abs(logarithm) <= static_cast<Real>(kMaxLogarithm)) return logarithm;
    throw InvalidInput(
        "feature_map " + FeatureMapNames()[static_cast<size_t>(spec_.id)],
        "logarithms of features of at most 1e6 in size",
        std::to_string(static_cast<double>(logarithm)));
  }

  void Random(const std::vector<Real>& row,
              std::vector<Scaled<Real>>& phi) const {
    const Real half_square = HalfSquare(row);
    std::vector<Real> projected;
    for (int64_t a = 0; a < spec_.projections; ++a)
      projected.push_back(Project(a, row));
    if (spec_.id == FeatureMapId::kTrf) {
      const Scaled<Real> factor = SplitExp(Checked(half_square));
      for (const Real y : projected)
        phi.push_back({sin(y) * factor.mantissa, factor.exponent});
      for (const Real y : projected)
        phi.push_back({cos(y) * factor.mantissa, factor.exponent});
      return;
    }
    for (const Real y : projected)
      phi.push_back(SplitExp(Checked(y - half_square)));
    if (spec_.id == FeatureMapId::kPrfHyperbolic)
      for (const Real y : projected)
        phi.push_back(SplitExp(Checked(-y - half_square)));
  }

  const FeatureMapSpec spec_;
  const double* omega_;
};

}  // namespace subquad
