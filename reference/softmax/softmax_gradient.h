// The backward pass of a softmax over scores and of the weighted mean of
// values, shared by all operators that have one: an operator only adds the
// adjoint of its scores. With g = dL/dout and P = softmax(S) over the keys that
// a query sees,
//
//   dL/dv_j  = sum_i P_ij g_i
//   dL/ds_ij = P_ij (g_i.v_j - D_i),   D_i = sum_l P_il g_i.v_l = g_i.out_i
//
// The values of a query that all rows of the gradients need (its largest score,
// the sum of its weights, D_i) are computed once for a head, by all threads
// that need them.
//
// Bound of the plain program, u the unit roundoff. With eta_j of
// softmax_rows.h, the computed weights are P_j (1+x_j) / sum P_l (1+x_l), |x_j|
// <= exp(eta_j u) - 1, so that P_j is off by at most
//   P_j (X_j + sum P_l X_l) / sum P_l exp(-eta_l u),   X = exp(eta u) - 1,
// and by n + 18 roundings of P_j: the sum, the quotient, and partial sums
// rescaled as there. Nothing is linearised; an error is never more than one, as
// both weights are between zero and one. Then
//   t_j  = g.v_j - D   is off by (e+1) u G_j + u |t_j| and the error of D,
//   D                  by sum (dP_l + (n+e+20) u P_l) G_l, in whichever order
//                      it is summed, and never by more than 2 max G_l,
//   P_j t_j            by (P_j + dP_j) dt_j + dP_j |t_j| + u |P_j t_j|,
// G_j = sum_c |g_c||v_jc|, with the errors of values that are computed
// themselves on top. A sum of m such terms adds m roundings of its magnitude.
// Products below the smallest normal number may be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/problem.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {

// A value and the bound of its error, in units of the roundoff.
template <typename Real>
struct Bounded {
  Real value = 0;
  double units = 0;
};

// The weight and the score's gradient for a query and a key that it sees.
template <typename Real>
struct GradientPair {
  Bounded<Real> weight;  // P_ij
  Bounded<Real> score;   // dL/ds_ij
};

// Sums of products, as in rows of gradients: value += factor * source.
template <typename Real>
class GradientRow {
 public:
  // Computes bounds if `units` is not null.
  GradientRow(int64_t width, Real* value, double* units)
      : width_(width), value_(value), units_(units) {
    std::fill_n(value, width, Real{0});
    if (!units) return;
    std::fill_n(units, width, 0.0);
    magnitudes_.resize(static_cast<size_t>(width));
  }

  bool bounded() const { return units_ != nullptr; }

  template <typename Source>
  void Add(const Bounded<Real>& factor, const Source* source,
           const double* source_units = nullptr) {
    ++terms_;
    for (int64_t x = 0; x < width_; ++x)
      value_[x] += factor.value * static_cast<Real>(source[x]);
    if (!units_) return;
    const double size = std::abs(static_cast<double>(factor.value));
    for (int64_t x = 0; x < width_; ++x) {
      const double of_source = std::abs(static_cast<double>(source[x]));
      magnitudes_[static_cast<size_t>(x)] += size * of_source;
      if (of_source > 0) units_[x] += factor.units * of_source;
      if (source_units) units_[x] += size * source_units[x];
    }
  }

  void Add(const Bounded<Real>& number) {
    constexpr double kOne = 1;
    Add(number, &kOne);
  }

  // Multiplies all sums by a factor once all terms are added.
  void Finish(Real factor = 1) {
    if (units_) {
      const double size = std::abs(static_cast<double>(factor));
      for (int64_t x = 0; x < width_; ++x)
        units_[x] = 1.01 * size *
                    (units_[x] + static_cast<double>(terms_ + 3) *
                                     magnitudes_[static_cast<size_t>(x)]);
    }
    for (int64_t x = 0; x < width_; ++x) value_[x] *= factor;
  }

 private:
  const int64_t width_;
  Real* const value_;
  double* const units_;
  int64_t terms_ = 0;
  std::vector<double> magnitudes_;
};

// `Scores` defines which keys a query sees, their scores and their values:
//   std::optional<Score<Real>> See(head, i, j): nothing where it does not
//   const Number* Value(head, j): e numbers
//   const double* ValueUnits(head, j): bounds of their errors, or null
template <typename Real, typename Scores>
class SoftmaxGradient {
 public:
  SoftmaxGradient(const Problem& problem, const Scores& scores,
                  const Tensor& grad, int64_t queries, int64_t keys, int64_t e)
      : problem_(problem),
        scores_(scores),
        grad_(grad),
        queries_(queries),
        keys_(keys),
        e_(e),
        roundoff_(Info(problem.scalar).unit_roundoff),
        least_(problem.scalar == Scalar::kFloat64 ? 0x1p-1021 : 0x1p-125) {
    for (auto& heads : heads_)
      heads = std::make_unique<Head[]>(static_cast<size_t>(problem.heads));
  }

  const double* Grad(int64_t head, int64_t i) const {
    return grad_.Head(head) + i * e_;
  }

  // Calls use(j, pair) for every key that query i sees.
  template <typename Use>
  void ForKeys(int64_t head, int64_t i, bool bounds, const Use& use) const {
    const Query query = MakeQuery(head, i, bounds);
    for (int64_t j = 0; j < keys_; ++j)
      if (const auto score = scores_.See(head, i, j))
        use(j, MakePair(query, head, i, j, *score, bounds));
  }

  // Calls use(i, pair) for every query that sees key j.
  template <typename Use>
  void ForQueries(int64_t head, int64_t j, bool bounds, const Use& use) const {
    for (int64_t i = 0; i < queries_; ++i)
      if (const auto pair = At(head, i, j, bounds)) use(i, *pair);
  }

  // Returns nothing if query i does not see key j.
  std::optional<GradientPair<Real>> At(int64_t head, int64_t i, int64_t j,
                                       bool bounds) const {
    const auto score = scores_.See(head, i, j);
    if (!score) return std::nullopt;
    return MakePair(Queries(head, bounds)[static_cast<size_t>(i)], head, i, j,
                    *score, bounds);
  }

  // Computes row j of the gradient of values that these heads share.
  void ValueRow(const std::vector<int64_t>& heads, int64_t j, Real* value,
                double* units) const {
    GradientRow<Real> row(e_, value, units);
    for (int64_t head : heads)
      ForQueries(head, j, row.bounded(),
                 [&](int64_t i, const GradientPair<Real>& pair) {
                   row.Add(pair.weight, Grad(head, i));
                 });
    row.Finish();
  }

  // Computes row i of the gradient of queries that these heads share (and in
  // the next function row j of that of keys), for scores scale q_i.k_j plus
  // terms that do not depend on q and k.
  void QueryRow(const std::vector<int64_t>& heads, int64_t i, const Tensor& k,
                int64_t d, Real scale, Real* value, double* units) const {
    GradientRow<Real> row(d, value, units);
    for (int64_t head : heads)
      ForKeys(head, i, row.bounded(),
              [&](int64_t j, const GradientPair<Real>& pair) {
                row.Add(pair.score, k.Head(head) + j * d);
              });
    row.Finish(scale);
  }
  void KeyRow(const std::vector<int64_t>& heads, int64_t j, const Tensor& q,
              int64_t d, Real scale, Real* value, double* units) const {
    GradientRow<Real> row(d, value, units);
    for (int64_t head : heads)
      ForQueries(head, j, row.bounded(),
                 [&](int64_t i, const GradientPair<Real>& pair) {
                   row.Add(pair.score, q.Head(head) + i * d);
                 });
    row.Finish(scale);
  }

 private:
  // The values that all pairs of a query share.
  struct Query {
    Real largest = 0, sum = 0, dot = 0;  // dot: D
    // Hold sum P (exp(eta u) - 1) / u, sum P exp(-eta u), and the roundings of
    // a weight.
    double moved = 0, smallest = 1, roundings = 0;
    double dot_units = 0;
  };
  // The queries of a head, computed once while other threads wait for them.
  struct Head {
    std::vector<Query> queries;
    std::once_flag sized;
    std::atomic<int64_t> next{0}, done{0};
    std::mutex mutex;
    std::exception_ptr failure;
  };

  const std::vector<Query>& Queries(int64_t head, bool bounds) const {
    Head& cached = heads_[bounds][static_cast<size_t>(head)];
    if (cached.done.load(std::memory_order_acquire) < queries_) {
      std::call_once(cached.sized, [&] {
        cached.queries.resize(static_cast<size_t>(queries_));
      });
      for (int64_t i = cached.next++; i < queries_; i = cached.next++) {
        try {
          cached.queries[static_cast<size_t>(i)] = MakeQuery(head, i, bounds);
        } catch (...) {
          const std::lock_guard lock(cached.mutex);
          cached.failure = std::current_exception();
        }
        ++cached.done;
      }
      while (cached.done.load(std::memory_order_acquire) < queries_)
        std::this_thread::yield();
    }
    if (cached.failure) std::rethrow_exception(cached.failure);
    return cached.queries;
  }

  // g_i.v_j, with the sum of its magnitudes and of the value's errors.
  struct Product {
    Real value = 0;
    double magnitude = 0, inherited = 0;
  };
  Product GradTimesValue(int64_t head, int64_t i, int64_t j) const {
    const double* g = Grad(head, i);
    const auto* v = scores_.Value(head, j);
    const double* v_units = scores_.ValueUnits(head, j);
    Product product;
    for (int64_t c = 0; c < e_; ++c) {
      const Real term = static_cast<Real>(g[c]) * static_cast<Real>(v[c]);
      product.value += term;
      product.magnitude += std::abs(static_cast<double>(term));
      if (v_units) product.inherited += std::abs(g[c]) * v_units[c];
    }
    return product;
  }

  // The terms that one key adds to the error bounds.
  struct Moved {
    double weight, change, kept;  // P, P X / u, P exp(-eta u)
  };
  Moved MoveOf(const Query& query, const Score<Real>& score) const {
    const double gap = static_cast<double>(query.largest - score.value);
    const double weight =
        static_cast<double>(exp(score.value - query.largest) / query.sum);
    const double eta = score.units + 3 * gap + 4, u = roundoff_;
    const bool small = eta * u < 1e-3;
    double change = small ? eta * (1 + eta * u) : std::expm1(eta * u) / u;
    change = weight > 0 ? weight * change : 0;
    if (gap > -log(least_) - 3) change += 20 * least_ / u;
    return {weight, change, weight * (small ? 1 - eta * u : exp(-eta * u))};
  }

  // Returns the error bound of a weight.
  double WeightUnits(const Query& query, const Moved& moved) const {
    const double units =
        (moved.change + moved.weight * query.moved) / query.smallest +
        query.roundings * moved.weight;
    const double most = 1.01 / roundoff_;
    return units < most ? units : most;  // units may be infinite or NaN
  }

  Query MakeQuery(int64_t head, int64_t i, bool bounds) const {
    struct Seen {
      Score<Real> score;
      Product product;
    };
    std::vector<Seen> seen;
    for (int64_t j = 0; j < keys_; ++j)
      if (const auto score = scores_.See(head, i, j))
        seen.push_back({*score, GradTimesValue(head, i, j)});
    if (seen.empty()) ThrowSeesNothing(problem_, head, i);
    Query query;
    query.largest = seen[0].score.value;
    for (const Seen& pair : seen)
      query.largest = std::max(query.largest, pair.score.value);
    for (const Seen& pair : seen) {
      const Real weight = exp(pair.score.value - query.largest);
      query.sum += weight;
      query.dot += weight * pair.product.value;
    }
    query.dot /= query.sum;
    if (!bounds) return query;
    query.roundings = static_cast<double>(seen.size()) + 18;
    query.smallest = 0;
    for (const Seen& pair : seen) {
      const Moved moved = MoveOf(query, pair.score);
      query.moved += moved.change;
      query.smallest += moved.kept;
    }
    double units = 0, inherited = 0, largest = 0;
    for (const Seen& pair : seen) {
      const Moved moved = MoveOf(query, pair.score);
      const double of_weight = WeightUnits(query, moved);
      units += (of_weight + moved.weight * (query.roundings +
                                            static_cast<double>(e_ + 2))) *
               pair.product.magnitude;
      inherited +=
          (moved.weight + roundoff_ * of_weight) * pair.product.inherited;
      largest = std::max(largest, pair.product.magnitude);
    }
    const double most = 2.1 * largest / roundoff_;
    query.dot_units = 1.01 * ((units < most ? units : most) + inherited);
    return query;
  }

  GradientPair<Real> MakePair(const Query& query, int64_t head, int64_t i,
                              int64_t j, const Score<Real>& score,
                              bool bounds) const {
    const Product product = GradTimesValue(head, i, j);
    const Real weight = exp(score.value - query.largest) / query.sum;
    const Real centred = product.value - query.dot;
    GradientPair<Real> pair{{weight, 0}, {weight * centred, 0}};
    if (!bounds) return pair;
    const Moved moved = MoveOf(query, score);
    const double size = std::abs(static_cast<double>(centred));
    const double centred_units =
        1.01 * static_cast<double>(e_ + 1) * product.magnitude +
        product.inherited + 2 * size + query.dot_units;
    pair.weight.units = WeightUnits(query, moved);
    pair.score.units =
        (moved.weight + roundoff_ * pair.weight.units) * centred_units +
        pair.weight.units * size + 2 * moved.weight * size + 4 * least_;
    return pair;
  }

  const Problem& problem_;
  const Scores& scores_;
  const Tensor& grad_;
  const int64_t queries_, keys_, e_;
  const double roundoff_, least_;
  // The first array is without bounds, the second with bounds.
  std::unique_ptr<Head[]> heads_[2];
};

}  // namespace subquad
