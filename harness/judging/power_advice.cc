#include "harness/judging/power_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/cases/draws.h"
#include "harness/cases/input_source.h"
#include "harness/judging/mistakes.h"

namespace subquad {
namespace {

// Tiles in the middle and at the end, and a shift by two tiles, need this many
// keys.
constexpr int64_t kFewestKeys = 3 * kTileKeys;
// A suggested tolerance exceeds the error of right programs by this factor.
constexpr double kRoom = 2;

// Rounds up to the next of 1, 2 and 5 times a power of ten.
double RoundedUp(double x) {
  const double power = std::pow(10.0, std::floor(std::log10(x)));
  for (const double digit : {1.0, 2.0, 5.0})
    if (x <= digit * power) return digit * power;
  return 10 * power;
}

// Draws a tensor as in generated cases and keeps -inf where it is.
void DrawAnew(const TensorRule& rule, const Problem& problem, Tensor& tensor) {
  const Draws draws(1, "power/" + rule.name);
  const Shape shape(
      tensor.shape.end() - static_cast<std::ptrdiff_t>(rule.shape.size()),
      tensor.shape.end());
  const int64_t block = ElementCount(shape);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    if (std::isinf(tensor.values[i])) continue;
    double drawn = rule.draw.from == Draw::From::kUniform ? draws.Uniform(i)
                                                          : draws.Normal(i);
    if (rule.draw.number)
      drawn = rule.draw.number(
          drawn, {shape, static_cast<int64_t>(i) % block, problem.dims});
    tensor.values[i] = RoundTo(problem.scalar, drawn);
  }
}

std::string Distribution(const TensorRule& rule) {
  return rule.name + (rule.draw.from == Draw::From::kUniform
                          ? " drawn uniformly on (0, 1)"
                      : rule.draw.number ? " drawn as in generated cases"
                                         : " drawn from N(0, 1)");
}

// A changed test, with its changes in words.
struct Changed {
  OwnTest test;
  std::vector<std::string> changes;
};

void Redraw(const TensorRule& rule, size_t index, OwnTest& test) {
  Tensor& tensor = test.inputs.tensors[index];
  DrawAnew(rule, test.problem, tensor);
  if (!test.backward) return;
  const auto at = static_cast<size_t>(test.backward->InputIndex(rule.name));
  test.backward_inputs.tensors[at].values = tensor.values;
}

// Each of the following functions changes a test, or returns nothing if there
// is nothing to change. The first one draws tensors indexed by offset and other
// optional parameters, such as slopes and sinks.
std::optional<Changed> DrawBias(Changed changed) {
  std::string what;
  for (size_t t = 0; t < changed.test.problem.inputs.size(); ++t) {
    const TensorRule& rule = changed.test.problem.inputs[t];
    const bool is_option = rule.optional && rule.role == Role::kParameter;
    if (rule.offset_axes.empty() && !is_option) continue;
    Redraw(rule, t, changed.test);
    what += (what.empty() ? "" : ", ") + Distribution(rule);
  }
  if (what.empty()) return std::nullopt;
  changed.changes.push_back(what);
  return changed;
}

std::optional<Changed> DrawGradient(Changed changed) {
  if (!changed.test.backward) return std::nullopt;
  const auto at =
      static_cast<size_t>(changed.test.backward->InputIndex("grad"));
  DrawAnew(changed.test.backward->inputs[at], *changed.test.backward,
           changed.test.backward_inputs.tensors[at]);
  changed.changes.push_back("a random cotangent: grad drawn from N(0, 1)");
  return changed;
}

// Draws the tensors of data that are not indexed by offset.
std::optional<Changed> DrawData(Changed changed) {
  std::string what;
  for (size_t t = 0; t < changed.test.problem.inputs.size(); ++t) {
    const TensorRule& rule = changed.test.problem.inputs[t];
    if (rule.role != Role::kData || !rule.offset_axes.empty()) continue;
    Redraw(rule, t, changed.test);
    what += (what.empty() ? "" : ", ") + rule.name;
  }
  if (what.empty()) return std::nullopt;
  changed.changes.push_back(what + " drawn from N(0, 1)");
  return changed;
}

std::optional<Changed> KeepKeys(Changed changed, int64_t keys) {
  auto out = FirstKeys(changed.test.problem, changed.test.inputs, keys);
  if (!out) return std::nullopt;
  changed.test.problem = std::move(out->problem);
  changed.test.inputs = std::move(out->inputs);
  if (changed.test.backward) {
    auto back =
        FirstKeys(*changed.test.backward, changed.test.backward_inputs, keys);
    if (!back) return std::nullopt;
    changed.test.backward = std::move(back->problem);
    changed.test.backward_inputs = std::move(back->inputs);
  }
  changed.changes.push_back(fmt::format("fewer keys: {}", keys));
  return changed;
}

// The result for each mistake by name, gradients apart.
struct Outcome {
  std::string name;
  TriedAnswer tried;
};

std::vector<Outcome> OutcomesOf(const TestPower& power) {
  std::vector<Outcome> outcomes;
  for (const TriedAnswer& tried : power.out.tried)
    outcomes.push_back({tried.name, tried});
  if (power.gradients)
    for (const TriedAnswer& tried : power.gradients->tried)
      outcomes.push_back({"gradients: " + tried.name, tried});
  return outcomes;
}

double RightOf(const TestPower& power) {
  return std::max(power.out.right,
                  power.gradients ? power.gradients->right : 0);
}

class Adviser {
 public:
  Adviser(const OwnTest& test, const TestPower& power, double most_work)
      : test_(test), power_(power), most_work_(most_work) {
    for (const Outcome& outcome : OutcomesOf(power)) {
      // No change of values or of the tolerance reveals what the shapes hide.
      if (!outcome.tried.accepted() || !outcome.tried.revealing_shapes.empty())
        continue;
      best_.still_accepted.push_back(outcome.name);
      // Leaves out a mistake that is small by design, such as a missing eps, if
      // our gates accept it too: no change of the tensors would reveal it.
      if (!outcome.tried.small_by_design || outcome.tried.ours > 1)
        accepted_.push_back(outcome.name);
    }
    best_.tolerance = test.tolerance;
  }

  // Tries all combinations of changes to the tensors, with and without another
  // tolerance, in the order of their number.
  Advice Take() {
    if (accepted_.empty() && RightOf(power_) <= 1) return best_;
    std::vector<Measured> before, now = {{{}, power_}};
    for (int size = 1; !now.empty(); ++size) {
      before = std::move(now);
      now.clear();
      for (unsigned set = 0; set < kSets; ++set) {
        if (std::popcount(set) != size) continue;
        for (const int64_t keys : KeysFor(set))
          if (auto measured = Measure(set, keys)) {
            if (Judge(*measured, false)) return best_;
            now.push_back(std::move(*measured));
          }
      }
      for (const Measured& measured : before)
        if (Judge(measured, true)) return best_;
    }
    return best_;
  }

 private:
  static constexpr unsigned kBias = 1, kGradient = 2, kFewerKeys = 4, kData = 8,
                            kSets = 16;

  // Returns the numbers of keys to try: repeated halvings, or only the last of
  // them in combination with other changes.
  std::vector<int64_t> KeysFor(unsigned set) const {
    if (!(set & kFewerKeys)) return {test_.problem.keys};
    std::vector<int64_t> halvings;
    for (int64_t keys = test_.problem.keys / 2; keys >= kFewestKeys; keys /= 2)
      halvings.push_back(keys);
    if (set != kFewerKeys && halvings.size() > 1) halvings = {halvings.back()};
    return halvings;
  }

  // The power of a test with changed tensors.
  struct Measured {
    std::vector<std::string> changes;
    TestPower power;
  };

  std::optional<Measured> Measure(unsigned set, int64_t keys) const {
    std::optional<Changed> changed = Changed{test_, {}};
    if (set & kBias) changed = DrawBias(std::move(*changed));
    if (changed && (set & kGradient))
      changed = DrawGradient(std::move(*changed));
    if (changed && (set & kData)) changed = DrawData(std::move(*changed));
    if (changed && (set & kFewerKeys))
      changed = KeepKeys(std::move(*changed), keys);
    if (!changed) return std::nullopt;
    try {
      return Measured{std::move(changed->changes),
                      PowerOf(changed->test, most_work_)};
    } catch (const InvalidInput&) {
      return std::nullopt;  // these tensors have no answer
    }
  }

  // Tells whether the test rejects every wrong answer that our gates reject and
  // accepts right programs.
  bool Judge(const Measured& measured, bool other_tolerance) {
    const double right = RightOf(measured.power);
    double factor = 1;
    Advice advice{measured.changes, test_.tolerance, {}, {}};
    if (other_tolerance) {
      if (!(right > 0) || std::isinf(right)) return false;
      factor = RoundedUp(kRoom * right);
      if (factor == 1) return false;
      advice.tolerance.relative *= factor;
      advice.tolerance.absolute *= factor;
      advice.changes.push_back(
          fmt::format("a {} tolerance: rtol {:.3g}, atol {:.3g}",
                      factor < 1 ? "tighter" : "wider",
                      advice.tolerance.relative, advice.tolerance.absolute));
    } else if (right > (RightOf(power_) > 1 ? 1 / kRoom : 1)) {
      return false;
    }
    const std::vector<Outcome> outcomes = OutcomesOf(measured.power);
    for (const Outcome& outcome : outcomes) {
      if (outcome.tried.over / factor > 1 ||
          !outcome.tried.revealing_shapes.empty())
        continue;
      const bool ours = outcome.tried.ours > 1 ||
                        (outcome.tried.same && !outcome.tried.small_by_design);
      (ours ? advice.still_accepted : advice.indistinguishable)
          .push_back(outcome.name);
    }
    for (const std::string& name : accepted_)
      if (std::ranges::find(outcomes, name, &Outcome::name) == outcomes.end())
        advice.still_accepted.push_back(name);
    const bool first = best_.changes.empty() && RightOf(power_) > 1;
    if (first || advice.still_accepted.size() < best_.still_accepted.size())
      best_ = std::move(advice);
    return best_.still_accepted.empty();
  }

  const OwnTest& test_;
  const TestPower& power_;
  const double most_work_;
  std::vector<std::string> accepted_;
  Advice best_;
};

}  // namespace

std::optional<Shortened> FirstKeys(const Problem& problem, const Inputs& inputs,
                                   int64_t most) {
  Dims dims = problem.dims;
  for (const std::string& axis : problem.length_axes) {
    if (problem.params.Has(axis)) return std::nullopt;  // an image
    dims[axis] = std::min(dims.at(axis), most);
  }
  std::vector<GivenShape> shapes;
  for (size_t t = 0; t < problem.inputs.size(); ++t)
    shapes.push_back(
        {problem.inputs[t].name,
         ShapeOf(problem.inputs[t], dims, problem.input_leading[t])});
  CaseFolder whole;
  whole.op = problem.op;
  whole.problem = problem;
  whole.inputs = inputs;
  try {
    Shortened shortened{
        ResolveProblem(*problem.op, problem.params, problem.scalar, shapes, {},
                       WantedOutputs(problem)),
        {}};
    for (size_t t = 0; t < problem.inputs.size(); ++t)
      shortened.inputs.tensors.push_back(
          TensorFromSource(whole, shortened.problem, t).value());
    return shortened;
  } catch (const InvalidInput&) {
    return std::nullopt;  // parameters refer to keys that were cut
  }
}

TestPower PowerOf(const OwnTest& test, double most_work) {
  TestPower power{PowerOf(test.problem, test.inputs, test.tolerance, most_work),
                  std::nullopt};
  if (test.backward)
    power.gradients = PowerOf(*test.backward, test.backward_inputs,
                              test.tolerance, most_work);
  return power;
}

Advice AdviseOn(const OwnTest& test, const TestPower& power, double most_work) {
  return Adviser(test, power, most_work).Take();
}

}  // namespace subquad
