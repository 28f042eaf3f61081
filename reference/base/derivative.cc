#include "reference/base/derivative.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/long_sums.h"
#include "reference/base/term_order.h"
#include "reference/base/traced.h"

namespace subquad {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// A row of an output of the forward pass and its cotangent.
struct OutputRow {
  RowId id;
  const double* cotangent;
};

int64_t WidthOf(const Problem& problem, size_t output) {
  return LayoutOf(problem, static_cast<int>(output)).width;
}

// Returns the rows whose cotangent is not zero.
std::vector<OutputRow> RowsToDerive(const Problem& forward,
                                    const Inputs& inputs) {
  std::vector<OutputRow> rows;
  for (size_t o = 0; o < forward.outputs.size(); ++o) {
    const Tensor* grad = inputs.Find(CotangentOf(forward.outputs, o));
    if (!grad) continue;
    const int64_t width = WidthOf(forward, o);
    const int64_t count = grad->SliceSize() / width;
    for (int64_t head = 0; head < forward.heads; ++head)
      for (int64_t row = 0; row < count; ++row) {
        const double* cotangent = grad->Head(head) + row * width;
        if (std::any_of(cotangent, cotangent + width,
                        [](double x) { return x != 0; }))
          rows.push_back({{static_cast<int>(o), head, row}, cotangent});
      }
  }
  return rows;
}

template <typename Real>
class Derivative final : public Reference<Real> {
 public:
  Derivative(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        forward_(ForwardOf(problem)),
        rows_(RowsToDerive(forward_, inputs)) {
    for (const TensorRule& output : problem.outputs)
      variables_.push_back(
          &inputs[problem
                      .inputs[static_cast<size_t>(
                          InputOfGradient(problem, output.name))]
                      .name]);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const Gradients& gradients = Complete(units != nullptr);
    const auto output = static_cast<size_t>(id.output);
    const Tensor& variable = *variables_[output];
    const int64_t width = WidthOf(problem_, output);
    const int64_t first = id.head * variable.SliceSize() + id.row * width;
    for (int64_t x = 0; x < width; ++x) {
      const auto at = static_cast<size_t>(first + x);
      // An entry of -inf hides a key and has no derivative.
      const bool hidden = std::isinf(variable.values[at]);
      const Sums& sums = gradients.sums[output];
      value[x] = hidden ? Real{0} : sums.values[at];
      if (!units) continue;
      units[x] = hidden ? 0 : sums.errors[at].Total();
      // Infinity times zero is no number.
      if (std::isnan(units[x])) units[x] = kUnbounded;
      // What is left of terms that cancel is rounding, and the derivative zero.
      const double rounding =
          static_cast<double>(std::numeric_limits<Real>::epsilon()) / 2 *
          units[x];
      if (std::isfinite(rounding) &&
          std::abs(static_cast<double>(value[x])) <= rounding)
        value[x] = Real{0};
    }
  }

 private:
  // The derivatives of one tensor.
  struct Sums {
    std::vector<Real> values;
    std::vector<SumError> errors;
  };
  // The gradients with or without bounds, in one order of terms.
  struct Gradients {
    std::vector<std::vector<Sums>> parts;
    std::vector<Sums> sums;
    std::once_flag sized;
    std::atomic<size_t> next{0}, done{0};
    std::atomic<bool> complete{false};
    std::mutex mutex;
    std::exception_ptr failure;
  };

  // Returns a number of parts that depends on the problem only: enough for the
  // threads of a large machine, and so few that their sums fit into memory.
  // Sums in parts have smaller errors, by up to the number of parts where
  // errors add up one way. Other programs need not split the same sums, so the
  // second order of terms has no more parts than other long sums.
  size_t Parts() const {
    constexpr double kMostParts = 16, kMostNumbers = 1 << 23;
    const double rows_of_a_part =
        EvenTermsFirst::On() ? LongSums<Real>::kTermsOfAPart : 64;
    double numbers = 1;
    for (const Tensor* variable : variables_)
      numbers += static_cast<double>(variable->values.size());
    return static_cast<size_t>(
        std::clamp(std::min(static_cast<double>(rows_.size()) / rows_of_a_part,
                            kMostNumbers / numbers),
                   1.0, kMostParts));
  }

  // Returns the gradients once all parts are there, with the work of this
  // thread for as many as others leave.
  const Gradients& Complete(bool bounds) {
    Gradients& gradients = gradients_[bounds][EvenTermsFirst::On()];
    std::call_once(gradients.sized, [&] { gradients.parts.resize(Parts()); });
    const size_t parts = gradients.parts.size();
    for (size_t part = gradients.next++; part < parts;
         part = gradients.next++) {
      try {
        gradients.parts[part] = Part(part, parts, bounds);
      } catch (...) {
        const std::lock_guard lock(gradients.mutex);
        gradients.failure = std::current_exception();
      }
      if (++gradients.done < parts) continue;
      if (!gradients.failure) Add(gradients);
      gradients.complete = true;
      gradients.complete.notify_all();
    }
    gradients.complete.wait(false);
    if (gradients.failure) std::rethrow_exception(gradients.failure);
    return gradients;
  }

  static void Add(Gradients& gradients) {
    gradients.sums = std::move(gradients.parts[0]);
    for (size_t part = 1; part < gradients.parts.size(); ++part)
      for (size_t v = 0; v < gradients.sums.size(); ++v) {
        Sums& to = gradients.sums[v];
        const Sums& from = gradients.parts[part][v];
        for (size_t x = 0; x < to.values.size(); ++x) {
          to.values[x] += from.values[x];
          if (!to.errors.empty())
            to.errors[x] = to.errors[x].Plus(from.errors[x]);
        }
      }
    gradients.parts.clear();
  }

  std::vector<Sums> Part(size_t part, size_t parts, bool bounds) {
    const Scalar arithmetic = ArithmeticOf(problem_.scalar);
    const double roundoff = Info(arithmetic).unit_roundoff;
    Tape<Real> tape({.roundoff = roundoff,
                     .smallest_normal = SmallestNormal(arithmetic),
                     .bounds = bounds,
                     .detaches_normalisers = problem_.detaches_normalisers});
    const typename Tape<Real>::Recording recording(tape);
    std::vector<int32_t> nodes;
    for (const Tensor* variable : variables_)
      nodes.push_back(tape.AddInput(variable->values));
    for (const TensorRule& rule : forward_.inputs)
      if (rule.fixed) tape.AddConstant(inputs_[rule.name].values);
    const auto definition = ReferenceIn<Traced<Real>>(forward_, inputs_);
    if (bounds)
      std::call_once(defined_, [this] {
        definition_ = ReferenceIn<Real>(forward_, inputs_);
      });
    std::vector<Traced<Real>> values;
    std::vector<Real> plain;
    std::vector<double> units;
    const size_t first = rows_.size() * part / parts;
    const size_t end = rows_.size() * (part + 1) / parts;
    ForTerms(end - first, [&](size_t term) {
      const OutputRow& row = rows_[first + term];
      const auto width = static_cast<size_t>(
          WidthOf(forward_, static_cast<size_t>(row.id.output)));
      values.assign(width, {});
      units.assign(width, 0);
      if (bounds) {
        plain.resize(width);
        definition_->Row(row.id, plain.data(), units.data());
      }
      const size_t mark = tape.Mark();
      definition->Row(row.id, values.data(), nullptr);
      for (size_t c = 0; c < width; ++c)
        tape.Seed(values[c].node(), static_cast<Real>(row.cotangent[c]),
                  std::isfinite(units[c]) ? 0 : kUnbounded);
      tape.SweepAndForget(mark);
    });
    tape.SweepAndForget(0);
    std::vector<Sums> sums(variables_.size());
    for (size_t v = 0; v < variables_.size(); ++v)
      for (size_t x = 0; x < variables_[v]->values.size(); ++x) {
        const int32_t node = nodes[v] + static_cast<int32_t>(x);
        sums[v].values.push_back(tape.DerivativeOf(node));
        if (bounds) sums[v].errors.push_back(tape.ErrorOf(node));
      }
    return sums;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Problem forward_;
  // The plain program, for its bounds.
  std::once_flag defined_;
  std::unique_ptr<Reference<Real>> definition_;
  const std::vector<OutputRow> rows_;
  std::vector<const Tensor*> variables_;  // of the outputs, in their order
  Gradients gradients_[2][2];             // [with bounds][even terms first]
};

}  // namespace

Problem ForwardOf(const Problem& problem) {
  std::vector<GivenShape> shapes;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (!IsCotangent(problem.inputs[i].name))
      shapes.push_back({problem.inputs[i].name, problem.InputShape(i)});
  const std::vector<TensorRule> outputs =
      problem.op->ForwardSignature(problem.params).outputs;
  std::vector<std::string> wanted;
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].optional && problem.HasInput(CotangentOf(outputs, o)))
      wanted.push_back(outputs[o].name);
  Problem forward = ResolveProblem(*problem.op, problem.params, problem.scalar,
                                   shapes, problem.leading, wanted);
  // Mistakes of the forward pass.
  forward.caps_biased_scores = problem.caps_biased_scores;
  forward.ignores_softcap_slope = problem.ignores_softcap_slope;
  forward.leaves_sinks_unshifted = problem.leaves_sinks_unshifted;
  return forward;
}

template <typename Real>
std::unique_ptr<Reference<Real>> MakeDerivative(const Problem& problem,
                                                const Inputs& inputs) {
  return std::make_unique<Derivative<Real>>(problem, inputs);
}

template std::unique_ptr<Reference<float>> MakeDerivative(const Problem&,
                                                          const Inputs&);
template std::unique_ptr<Reference<double>> MakeDerivative(const Problem&,
                                                           const Inputs&);
template std::unique_ptr<Reference<long double>> MakeDerivative(const Problem&,
                                                                const Inputs&);
template std::unique_ptr<Reference<Emulated>> MakeDerivative(const Problem&,
                                                             const Inputs&);

}  // namespace subquad
