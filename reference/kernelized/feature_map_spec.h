// Feature maps of kernelized attention as a problem describes them: parameters,
// sizes, and the operands that a map needs. No arithmetic.
//
//   elu1            x+1 where x > 0, else exp(x)
//   relu            max(x, 0)
//   sikf            exp(x)
//   identity        x, signed: the normaliser may cancel
//   dpfp            u = relu([x, -x]); u[i] * u[(i + v) mod 2d], v = 1..nu
//   prf             exp(-|x|^2/2) exp(omega x) / sqrt(f)
//   prf_hyperbolic  exp(-|x|^2/2) [exp(omega x), exp(-omega x)] / sqrt(2p)
//   trf             exp(+|x|^2/2) [sin(omega x), cos(omega x)] / sqrt(p)
//
// Implementations leave out the constants of the last three and apply them
// where they do not cancel (Normaliser).
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/base/flag_on.h"
#include "reference/base/functions.h"
#include "reference/base/operator.h"

namespace subquad {

enum class FeatureMapId {
  kElu1,
  kRelu,
  kSikf,
  kIdentity,
  kDpfp,
  kPrf,
  kPrfHyperbolic,
  kTrf
};

// An operator's feature map.
struct FeatureMapSpec {
  FeatureMapId id = FeatureMapId::kElu1;
  int64_t d = 1;            // width of a row
  int64_t projections = 0;  // rows of omega
  int64_t nu = 0;
  double root_scale = 1;   // sqrt(scale)
  bool normalize = false;  // divide each row by its 2-norm first

  int64_t features() const {
    switch (id) {
      case FeatureMapId::kDpfp:
        return 2 * d * nu;
      case FeatureMapId::kPrf:
        return projections;
      case FeatureMapId::kPrfHyperbolic:
      case FeatureMapId::kTrf:
        return 2 * projections;
      default:
        return d;
    }
  }
  bool projects() const { return projections > 0; }
  // True if features have signs, so that weights may cancel.
  bool is_signed() const {
    return id == FeatureMapId::kTrf || id == FeatureMapId::kIdentity;
  }
  // Returns the product of the constants of a query's and a key's feature.
  double constant() const {
    switch (id) {
      case FeatureMapId::kPrf:
      case FeatureMapId::kTrf:
        return 1 / static_cast<double>(projections);
      case FeatureMapId::kPrfHyperbolic:
        return 0.5 / static_cast<double>(projections);
      default:
        return 1;
    }
  }
};

// Forms the output from a query's sums N of weights times values and D of
// weights (parameters eps and normalized): N / (D + eps), or N alone.
struct Normaliser {
  bool normalized = true;
  double eps = 0;
  double constant = 1;  // factor that the weights are computed without

  // True if the scales cancel.
  bool is_plain() const { return normalized && eps == 0; }
  // The summand of a D whose weights lack the constants.
  double epsilon() const { return eps / constant; }
};

inline const std::vector<std::string>& FeatureMapNames() {
  static const std::vector<std::string> names = {
      "elu1", "relu", "sikf",           "identity",
      "dpfp", "prf",  "prf_hyperbolic", "trf"};
  return names;
}

inline FeatureMapId ParseFeatureMap(const std::string& name) {
  const auto& names = FeatureMapNames();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw UnknownName("feature_map", names, name);
  return static_cast<FeatureMapId>(it - names.begin());
}

// Beyond 2d the shifts of dpfp repeat; the limit keeps the number of features
// in proportion to the inputs.
inline constexpr int64_t kMaxNu = 256;

inline std::vector<ParamRule> FeatureMapParams(const Params& params,
                                               bool identity = true) {
  std::vector<ParamRule> rules = {ParamRule::Choice(
      "feature_map", "map of queries and keys", FeatureMapNames())};
  if (!identity) std::erase(rules[0].choices, "identity");
  if (params.Has("feature_map") && params.Text("feature_map") == "dpfp") {
    rules.push_back(ParamRule::Integer("nu", "shifts of dpfp", 1));
    rules.back().max = kMaxNu;
  }
  return rules;
}

inline std::vector<ParamRule> NormaliserParams() {
  const ParamRule normalized =
      FlagOn("normalized", "divide by the sum of the weights; false: do not");
  ParamRule eps{"eps", ParamType::kNumber, "value added to the normaliser",
                false};
  eps.default_value = "0";
  eps.may_be_zero = true;
  return {normalized, eps};
}

// Fills in missing parameters of a generated case.
inline void CompleteFeatureMap(Params& params) {
  if (!params.Has("feature_map"))
    params.Set("feature_map", std::string("elu1"));
  if (params.Text("feature_map") == "dpfp" && !params.Has("nu"))
    params.Set("nu", int64_t{1});
  // The features of trf cancel: with rows of norm 8, typical of N(0, 1) draws
  // of width 64, the normaliser keeps no digit in float32, and with norm 1 few.
  if (params.Text("feature_map") == "trf" && !params.Has("scale"))
    params.Set("scale", 1.0 / 1024);
  // Sums of products of N(0, 1) draws cancel in the normaliser.
  if (params.Text("feature_map") == "identity" && !params.Has("normalized"))
    params.Set("normalized", false);
}

// Adds `omega` and its number of rows where the map needs it.
inline void AddOmega(const Params& params, Signature& signature) {
  const FeatureMapId id = ParseFeatureMap(params.Text("feature_map"));
  if (id < FeatureMapId::kPrf) return;
  const bool all = id == FeatureMapId::kPrf;
  signature.sizes.push_back(all ? SizeRule{"f", 64, "features"}
                                : SizeRule{"p", 32, "projections, f = 2p"});
  TensorRule omega{"omega", {all ? "f" : "p", "d"}, Role::kParameter};
  omega.draw = Draw::kProjection;
  omega.fixed = true;
  signature.inputs.push_back(omega);
}

inline FeatureMapSpec FeatureMapOf(const Problem& problem) {
  const Params& params = problem.params;
  FeatureMapSpec spec;
  spec.id = ParseFeatureMap(params.Text("feature_map"));
  spec.d = problem.Dim("d");
  if (spec.id == FeatureMapId::kDpfp) spec.nu = params.Integer("nu");
  if (spec.id == FeatureMapId::kPrf) spec.projections = problem.Dim("f");
  if (spec.id > FeatureMapId::kPrf) spec.projections = problem.Dim("p");
  spec.root_scale = params.Has("scale") ? sqrt(params.Number("scale")) : 1.0;
  spec.normalize = params.Flag("normalize");
  return spec;
}

inline Normaliser NormaliserOf(const Problem& problem) {
  const Params& params = problem.params;
  return {!params.Has("normalized") || params.Flag("normalized"),
          params.Has("eps") ? params.Number("eps") : 0,
          FeatureMapOf(problem).constant()};
}

// Returns the number of queries (and in the next function of keys); an image
// has its pixels for both.
inline int64_t QueriesOf(const Problem& problem) {
  return problem.params.Has("height")
             ? problem.Dim("height") * problem.Dim("width")
             : problem.Dim("n_q");
}
inline int64_t KeysOf(const Problem& problem) {
  return problem.params.Has("height") ? QueriesOf(problem) : problem.Dim("n_k");
}

}  // namespace subquad
