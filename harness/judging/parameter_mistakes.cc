// Mistakes of parameters: a scale, a mask, a feature map, an eps.
#include <algorithm>
#include <cmath>

#include "harness/judging/mistake.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {

void FlipFlags(Subject& subject) {
  const Problem& problem = subject.problem;
  for (const ParamRule& rule : problem.op->ParamRules(problem.params)) {
    if (rule.type != ParamType::kFlag ||
        (!rule.of_input.empty() && !problem.HasInput(rule.of_input)))
      continue;
    Params params = problem.params;
    const bool value =
        params.Has(rule.name) ? params.Flag(rule.name) : rule.IsOnByDefault();
    params.Set(rule.name, !value);
    std::string name = rule.name + " the other way";
    if (rule.name == "causal")
      name =
          value ? "causal mask left out" : "causal mask that was not asked for";
    subject.Add(name, params);
  }
}

// Ignores query_offset, so that queries begin at position 0, and key lengths,
// so that padding is seen.
void LeaveVisibilityOut(Subject& subject) {
  constexpr struct {
    const char *name, *remedy;
  } kParameters[] = {
      {"query_offset", ""},
      {"key_lengths", "a key length shorter than the keys"},
  };
  for (const auto& [name, remedy] : kParameters) {
    Params params = subject.problem.params;
    if (!params.Has(name)) continue;
    params.Erase(name);
    Mistake& mistake = subject.Add(std::string(name) + " left out", params);
    mistake.remedy = remedy;
    mistake.hidden_by_shapes = !mistake.remedy.empty();
  }
}

// Scales the scores but not their gradients.
void LeaveScaleOut(Subject& subject) {
  const Problem& problem = subject.problem;
  if (!problem.dims.contains("d") || !subject.RuleOf("scale")) return;
  const auto scale = SoftmaxScale<long double>(problem);
  for (const std::string name : {"grad_q", "grad_k"}) {
    const int output = IndexOf(problem.outputs, name);
    if (output < 0) continue;
    subject.Add("scale left out of " + name, nullptr).finish =
        [=](RowsByOutput& program) {
          for (long double& x : program[static_cast<size_t>(output)].values)
            x /= scale;
          return true;
        };
  }
}

// Leaves the eps of out = numerator / (normaliser + eps) out.
void LeaveEpsOut(Subject& subject) {
  Params params = subject.problem.params;
  const bool divides = !params.Has("normalized") || params.Flag("normalized");
  if (!params.Has("eps") || !(params.Number("eps") > 0) || !divides) return;
  params.Erase("eps");
  Mistake& mistake = subject.Add("eps left out", params);
  mistake.remedy = "a larger eps";
  mistake.small_by_design = true;
}

void ChangeScale(Subject& subject) {
  if (!subject.RuleOf("scale")) return;
  Params params = subject.problem.params;
  const double given = params.Has("scale") ? params.Number("scale") : 0;
  params.Set("scale", 1.0);
  subject.Add("scale left out", params);
  if (!(given > 0)) return;
  params.Set("scale", given * given);
  subject.Add("scale applied twice", params);
  params.Erase("scale");
  subject.Add("the default scale instead of the given one", params);
}

// Computes softmax(scale (q k^T + bias)) for softmax(scale q k^T + bias), with
// any kind of bias.
void ScaleBias(Subject& subject) {
  const std::optional<ParamRule> rule = subject.RuleOf("scale");
  const bool by_width = rule && rule->default_value != "1";
  if (!(subject.problem.params.Has("scale") || by_width)) return;
  for (const std::string name : {"bias", "slopes", "buckets", "pair_bias"})
    if (subject.Input(name))
      subject.Add(name + " multiplied by the scale",
                  [name](AlteredProblem& altered) {
                    const auto scale = SoftmaxScale<double>(altered.problem);
                    for (double& value : altered.Change(name).values)
                      value *= scale;
                  });
}

// Uses another choice of a parameter, with the same input tensors.
void ChangeChoices(Subject& subject) {
  const Problem& problem = subject.problem;
  for (const ParamRule& rule : problem.op->ParamRules(problem.params)) {
    if (rule.type != ParamType::kText) continue;
    const std::string declared = problem.params.Has(rule.name)
                                     ? problem.params.Text(rule.name)
                                     : rule.default_value;
    for (const std::string& other : rule.choices) {
      if (other == declared) continue;
      Params params = problem.params;
      params.Set(rule.name, other);
      if (rule.name == "feature_map") {
        params.Erase("nu");
        if (other == "dpfp") params.Set("nu", int64_t{1});
      }
      subject.Add(rule.name + " " + other + " for " + declared, params);
    }
  }
}

// Counts the keys of a window, block or stride wrong by one, or ignores them.
void MiscountKeys(Subject& subject) {
  const Problem& problem = subject.problem;
  for (const ParamRule& rule : problem.op->ParamRules(problem.params)) {
    if (!rule.counts_keys || !problem.params.Has(rule.name)) continue;
    const auto* const given =
        std::get_if<int64_t>(&problem.params.values().at(rule.name));
    if (!given) continue;  // a list, whose entries give the shape of a mask
    const int64_t declared = *given;
    const auto add = [&](const std::string& name, int64_t value) {
      if (value < rule.min) return;
      Params params = problem.params;
      params.Set(rule.name, value);
      Mistake& mistake = subject.Add(rule.name + name, params);
      mistake.remedy =
          "a " + rule.name + " that covers less than half of the keys";
      mistake.hidden_by_shapes = true;
    };
    add(" too large by 1", declared + 1);
    add(" too small by 1", declared - 1);
    add(" left out", std::max(declared, problem.keys));
  }
}

// Measures a window from the index of a query instead of its position.
void MisplaceWindow(Subject& subject) {
  Params params = subject.problem.params;
  const int64_t offset = QueryOffset(params);
  if (offset == 0) return;
  // The window's ends as distances from the position.
  const auto move = [&](const char* name, int64_t by) {
    if (!params.Has(name)) return true;
    const int64_t moved = params.Integer(name) + by;
    if (moved < 0) return false;
    params.Set(name, moved);
    return true;
  };
  if (!move("window_left", offset) || !move("window_right", -offset)) return;
  if (params == subject.problem.params) return;
  Mistake& mistake = subject.Add(
      "window measured from the query's index and not from its "
      "position",
      params);
  mistake.hidden_by_shapes = true;
  mistake.remedy = "a query_offset that differs from zero";
}

// Aligns the mask at the last query and the last key instead of the first ones.
void AlignMaskAtEnd(Subject& subject) {
  const Problem& problem = subject.problem;
  const int64_t offset = problem.keys - problem.queries;
  if (!subject.RuleOf("query_offset") || offset < 0) return;
  Params params = problem.params;
  params.Set("query_offset", offset);
  if (params.Has("packed_q")) {
    IntegerList offsets = params.List("packed_k");
    for (size_t s = 0; s < offsets.size(); ++s)
      offsets[s] -= params.List("packed_q")[s];
    params.Set("query_offset", std::move(offsets));
  }
  Mistake& mistake = subject.Add(
      "causal mask aligned at the last query and key instead of the first",
      params);
  mistake.remedy = offset == 0 ? "fewer queries than keys (n_q < n_k)"
                               : "a query_offset that differs from n_k - n_q";
  mistake.hidden_by_shapes = true;
}

// Misplaces the eps of out = numerator / (normaliser + eps).
void MisplaceEps(Subject& subject) {
  using Number = long double;
  static constexpr struct {
    const char* name;
    Number (*out)(Number top, Number bottom, Number eps, Number keys);
    bool of_eps = true;
  } kOut[] = {
      {"divided by the normaliser twice",
       [](Number top, Number bottom, Number eps, Number) {
         return top / (bottom + eps) / (bottom + eps);
       },
       false},
      {"eps twice", [](Number top, Number bottom, Number eps,
                       Number) { return top / (bottom + 2 * eps); }},
      {"eps as the least normaliser",
       [](Number top, Number bottom, Number eps, Number) {
         return top / std::max(bottom, eps);
       }},
      {"eps in the numerator too",
       [](Number top, Number bottom, Number eps, Number) {
         return (top + eps) / (bottom + eps);
       }},
      {"eps added to the quotient", [](Number top, Number bottom, Number eps,
                                       Number) { return top / bottom + eps; }},
      {"eps under a square root",
       [](Number top, Number bottom, Number eps, Number) {
         return top / std::sqrt(bottom * bottom + eps);
       }},
      {"eps for every key",
       [](Number top, Number bottom, Number eps, Number keys) {
         return top / (bottom + eps * keys);
       }},
  };
  if (!subject.RuleOf("eps") || !subject.RuleOf("normalized")) return;
  Params params = subject.problem.params;
  const Number eps = params.Has("eps") ? params.Number("eps") : 0;
  const auto keys = static_cast<Number>(subject.problem.keys);
  const auto answer = [&] {
    return subject.AnswerTo(
        [&](AlteredProblem& altered) { altered.Resolve(params); });
  };
  params.Erase("eps");
  const auto quotients = answer();
  params.Set("normalized", false);
  const auto numerators = answer();
  if (!quotients || !numerators) return;
  for (const auto& [name, out, of_eps] : kOut) {
    if (of_eps && !(eps > 0)) continue;
    Mistake& mistake = subject.Add(name, nullptr);
    mistake.small_by_design = of_eps;
    mistake.finish = [=, out = out, rows = quotients->front(),
                      top = numerators->front().values](RowsByOutput& program) {
      program = {rows};
      for (size_t i = 0; i < top.size(); ++i)
        program.front().values[i] =
            out(top[i], top[i] / rows.values[i], eps, keys);
      return true;
    };
  }
}

}  // namespace subquad
