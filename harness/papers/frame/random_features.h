// Random features as the studies need them: many draws, many sizes at once, on
// whole rows of keys. The definition is in reference/kernelized/feature_map.h;
// the tests hold one against the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"

namespace subquad {

enum class OmegaSampler {
  kGaussian,    // rows iid N(0, I)
  kOrthogonal,  // blocks of d orthogonal rows of independent N(0, I) lengths
  kSphere,      // rows uniform on the sphere of radius sqrt(d)
};

enum class RandomMap { kPrf, kPrfHyperbolic, kTrf };

// A feature map with its sampler, by the name it has in tables.
struct RandomMapKind {
  std::string name;
  RandomMap map;
  OmegaSampler sampler;
  // Features to a row of Omega.
  int64_t per_row() const { return map == RandomMap::kPrf ? 1 : 2; }
};
const std::vector<RandomMapKind>& RandomMapKinds();

// N(0, 1) numbers draw * count .. of the stream.
std::vector<double> SampleNormal(const Draws& draws, int64_t draw,
                                 int64_t count);
// Rows of length one, uniform.
std::vector<double> SampleUnitRows(const Draws& draws, int64_t draw,
                                   int64_t rows, int64_t d);
std::vector<double> SampleOmega(OmegaSampler sampler, const Draws& draws,
                                int64_t draw, int64_t rows, int64_t d);
void NormalizeRows(std::vector<double>& rows, int64_t d);

// Queries and n keys, seen through Omega.
struct Projections {
  int64_t n = 0, p = 0;
  std::vector<double> queries;       // [queries, p]
  std::vector<double> keys;          // [p, n]
  std::vector<double> dots;          // [queries, n] query times key
  std::vector<double> half_squares;  // [queries, n] (|query|^2 + |key|^2) / 2
};
Projections Project(const std::vector<double>& queries,
                    const std::vector<double>& keys,
                    const std::vector<double>& omega, int64_t d);

// Gets an estimated attention row and the exact one, both of `count` weights.
using VisitEstimate =
    std::function<void(const double* estimate, const double* exact)>;

// One query's attention over the first `count` keys, all rescaled by `radius`,
// with the first rows[t] rows of Omega, for every t (ascending). `bias` is
// added to the logits, or null.
void AttentionEstimates(RandomMap map, const Projections& seen, int64_t query,
                        int64_t count, double radius, const double* bias,
                        const std::vector<int64_t>& rows,
                        const VisitEstimate& visit);

// |A - A^|_1 of each.
std::vector<double> AttentionErrors(RandomMap map, const Projections& seen,
                                    int64_t query, int64_t count, double radius,
                                    const double* bias,
                                    const std::vector<int64_t>& rows);
// The same for the first query and all keys.
inline std::vector<double> AttentionErrors(RandomMap map,
                                           const Projections& seen,
                                           double radius, const double* bias,
                                           const std::vector<int64_t>& rows) {
  return AttentionErrors(map, seen, 0, seen.n, radius, bias, rows);
}

// What needs no random features, and what they have to beat.
enum class Baseline {
  kUniform,        // every key alike: queries, keys and bias are ignored
  kBias,           // exp(bias) alone: queries and keys are ignored
  kTaylor,         // the d + 1 features (1, x): exp(q k) is about 1 + q k
  kTaylorClipped,  // the same without negative weights; not linear attention
};
struct BaselineKind {
  std::string name;
  Baseline map;
};
const std::vector<BaselineKind>& BaselineKinds();

struct BaselineError {
  double error;     // |A - A^|_1, 2 where no weight is left
  double negative;  // share of the weights below zero, before they are clipped
};
BaselineError ErrorOf(Baseline map, const Projections& seen, int64_t query,
                      int64_t count, double radius, const double* bias,
                      const VisitEstimate& visit = nullptr);

// phi(x) phi(y) / exp(x y) of prf for single rows of omega [count, d]: what is
// averaged over m of them.
void PrfRatios(const double* omega, int64_t count, int64_t d, const double* x,
               const double* y, double* ratio);

}  // namespace subquad
