// Mistakes of parameters: a scale, a mask, a feature map, an eps.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

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

// Leaves the softcap out, or the division in softcap tanh(x / softcap), or
// applies it after the bias.
void MistakeSoftcap(Subject& subject) {
  const Params& right = subject.problem.params;
  if (!right.Has("softcap")) return;
  Params params = right;
  params.Erase("softcap");
  Mistake& mistake = subject.Add("softcap left out", params);
  mistake.remedy = "a smaller softcap, or larger scores";
  mistake.small_by_design = true;
  params = right;
  params.Set("scale",
             SoftmaxScale<double>(subject.problem) * right.Number("softcap"));
  subject.Add("scores not divided by the softcap", params);
  const std::array biases = {"bias", "slopes", "buckets", "pair_bias"};
  const bool has_bias = std::ranges::any_of(
      biases, [&](const char* name) { return subject.Input(name) != nullptr; });
  if (has_bias)
    subject.Add("softcap applied after the bias", [](AlteredProblem& altered) {
      altered.problem.caps_biased_scores = true;
      altered.changed = true;
    });
}

// Leaves slopes out, doubles them, or reads those of other heads.
void MistakeSlopes(Subject& subject) {
  const Tensor* slopes = subject.Input("slopes");
  if (!slopes) return;
  const auto add = [&](const char* name, void (*change)(std::vector<double>&)) {
    subject.Add(name, [change](AlteredProblem& altered) {
      change(altered.Change("slopes").values);
    });
  };
  add("slopes left out",
      [](std::vector<double>& values) { std::ranges::fill(values, 0); });
  add("slopes doubled", [](std::vector<double>& values) {
    for (double& value : values) value *= 2;
  });
  add("slopes of the other sign", [](std::vector<double>& values) {
    for (double& value : values) value = -value;
  });
  if (slopes->slices.count() == 1) return;
  add("another head's slope", [](std::vector<double>& values) {
    std::rotate(values.begin(), values.begin() + 1, values.end());
  });
  add("slopes in reverse order",
      [](std::vector<double>& values) { std::ranges::reverse(values); });
}

// Leaves sinks out, reads those of the next head, or adds a key of zeros.
void MistakeSinks(Subject& subject) {
  const Tensor* sinks = subject.Input("sinks");
  if (!sinks) return;
  const auto fill = [&](const char* name, double logit) {
    subject.Add(name, [logit](AlteredProblem& altered) {
      std::ranges::fill(altered.Change("sinks").values, logit);
    });
  };
  fill("sinks left out", std::numeric_limits<float>::lowest());
  fill("sinks of 0: a key of zeros with weight 1", 0);
  if (sinks->slices.count() > 1)
    subject.Add("another head's sink", [](AlteredProblem& altered) {
      std::vector<double>& values = altered.Change("sinks").values;
      std::rotate(values.begin(), values.begin() + 1, values.end());
    });
}

// Returns another logarithm of the sum of the weights beside the right output:
// in base 2, of the weights relative to the largest one, or without the sink.
void MistakeLogSums(Subject& subject) {
  const Problem& problem = subject.problem;
  const int index = IndexOf(problem.outputs, "lse");
  if (index < 0 || subject.right.size() <= static_cast<size_t>(index)) return;
  const auto lse = static_cast<size_t>(index);
  const auto add = [&](const char* name, std::vector<long double> values) {
    subject.Add(name, nullptr).finish =
        [lse, values = std::move(values)](RowsByOutput& program) {
          program[lse].values = values;
          return true;
        };
  };
  const std::vector<long double>& right = subject.right[lse].values;
  std::vector<long double> changed = right;
  for (long double& value : changed)
    value *= std::numbers::log2e_v<long double>;
  add("lse in base 2", std::move(changed));
  // If all scores are larger by a factor, so is the largest one, and little but
  // that is left of the logarithm.
  constexpr double kFactor = 0x1p40;
  const auto largest = subject.AnswerTo([&](AlteredProblem& altered) {
    Params params = problem.params;
    params.Set("scale", kFactor * SoftmaxScale<double>(problem));
    if (params.Has("softcap"))
      params.Set("softcap", kFactor * params.Number("softcap"));
    for (const char* name : {"bias", "slopes", "buckets", "pair_bias", "sinks"})
      if (subject.Input(name))
        for (double& value : altered.Change(name).values) value *= kFactor;
    altered.Resolve(std::move(params));
  });
  if (largest) {
    changed = right;
    for (size_t i = 0; i < changed.size(); ++i)
      if (!std::isinf(changed[i]))
        changed[i] -= (*largest)[lse].values[i] / kFactor;
    add("lse without the largest score", std::move(changed));
  }
  if (!subject.Input("sinks")) return;
  auto without = subject.AnswerTo([](AlteredProblem& altered) {
    std::ranges::fill(altered.Change("sinks").values,
                      std::numeric_limits<float>::lowest());
  });
  if (without) add("lse without the sink", std::move((*without)[lse].values));
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

// Reads the length of the next batch item.
void TakeOtherKeyLengths(Subject& subject) {
  Params params = subject.problem.params;
  if (!params.Has("key_lengths")) return;
  IntegerList lengths = params.List("key_lengths");
  std::ranges::rotate(lengths, lengths.begin() + 1);
  params.Set("key_lengths", lengths);
  Mistake& mistake = subject.Add("key_lengths of another batch item", params);
  mistake.remedy = "batch items with different key lengths";
  mistake.hidden_by_shapes = true;
}

// Sees other sequences, or reads lengths and positions of other ones.
void MistakePacking(Subject& subject) {
  const Params& right = subject.problem.params;
  if (!right.Has("packed_q")) return;
  const bool has_offsets =
      right.Has("query_offset") &&
      std::holds_alternative<IntegerList>(right.values().at("query_offset"));
  Params params = right;
  params.Erase("packed_q");
  params.Erase("packed_k");
  if (has_offsets) params.Erase("query_offset");
  // A batch of one sequence has no others to be confused with.
  const bool alone = right.List("packed_q").size() == 1;
  const auto hide = [alone](Mistake& mistake) {
    if (!alone) return;
    mistake.hidden_by_shapes = true;
    mistake.remedy = "two packed sequences or more";
  };
  hide(subject.Add("packed sequences that see their neighbours", params));
  const auto rotate = [](const std::string& name, Params& from) {
    IntegerList list = from.List(name);
    std::ranges::rotate(list, list.begin() + 1);
    from.Set(name, std::move(list));
  };
  params = right;
  for (const char* name : {"packed_q", "packed_k"}) rotate(name, params);
  hide(subject.Add("lengths of the next packed sequence", params));
  if (has_offsets) {
    params = right;
    rotate("query_offset", params);
    subject.Add("query_offset of the next packed sequence", params);
  }
  params = right;
  bool moved = false;
  for (const char* name : {"packed_q", "packed_k"}) {
    IntegerList list = params.List(name);
    for (size_t s = 1; s < list.size(); ++s) {
      if (list[s] == 0) continue;
      ++list[s - 1];
      --list[s];
      moved = true;
      break;
    }
    params.Set(name, std::move(list));
  }
  if (moved) subject.Add("a boundary of packed sequences one late", params);
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
