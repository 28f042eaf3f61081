// Mistakes of the options of attention: softcap, slopes, sinks, log-sum-exp,
// key lengths and packed sequences.
#include <algorithm>
#include <limits>
#include <numbers>

#include "harness/judging/mistake.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

constexpr const char* kBiases[] = {"bias", "slopes", "buckets", "pair_bias"};

bool HasBias(const Subject& subject) {
  return std::ranges::any_of(
      kBiases, [&](const char* name) { return subject.Input(name); });
}

void LeaveSinksOut(AlteredProblem& altered) {
  std::ranges::fill(altered.Change("sinks").values,
                    std::numeric_limits<float>::lowest());
}

// Returns a bias of slope (j - i - query_offset), with the offset's sign.
Tensor SignedSlopes(const Problem& problem, const Tensor& slopes) {
  Tensor bias;
  bias.name = "bias";
  bias.shape = slopes.shape;
  bias.shape.push_back(problem.queries + problem.keys - 1);
  const int64_t middle = problem.queries - 1 + QueryOffset(problem.params);
  for (int64_t slice = 0; slice < slopes.slices.count(); ++slice)
    for (int64_t t = 0; t < bias.shape.back(); ++t)
      bias.values.push_back(*slopes.Slice(slice) *
                            static_cast<double>(t - middle));
  return bias;
}

// Adds the mistake of seeing keys of other sequences: those of the sequences
// from own + first to own + last, besides the keys that queries of sequence
// `own` see.
void SeeOtherSequences(Subject& subject, const char* name, int64_t first,
                       int64_t last) {
  subject.Add(name, [=](AlteredProblem& altered) {
    const Problem& problem = altered.problem;
    const VisibleKeys visible(problem);
    const std::vector<Sequence>& all = visible.sequences();
    Tensor mask;
    mask.name = "mask";
    mask.shape = {problem.queries, problem.keys};
    mask.values.resize(static_cast<size_t>(problem.queries * problem.keys));
    for (int64_t i = 0; i < problem.queries; ++i) {
      const auto row = mask.values.begin() + i * problem.keys;
      const auto see = [&](int64_t from, int64_t end) {
        if (from < end) std::fill(row + from, row + end, 1);
      };
      see(visible.First(0, i), visible.End(0, i));
      const auto own = static_cast<int64_t>(visible.SequenceIndex(i));
      const int64_t end = std::min(own + last, std::ssize(all) - 1);
      for (int64_t s = std::max<int64_t>(own + first, 0); s <= end; ++s) {
        if (s == own) continue;
        const Sequence& other = all[static_cast<size_t>(s)];
        see(other.first_key, other.first_key + other.keys);
      }
    }
    altered.Give(std::move(mask));
    Params params = problem.params;
    params.Set("causal", false);
    for (const char* replaced : {"packed_q", "packed_k", "query_offset",
                                 "window_left", "window_right"})
      params.Erase(replaced);
    altered.Resolve(std::move(params));
  });
}

// Adds mistakes that see some sequences besides the own one, where a mask can
// say which keys those are.
void SeeNeighbours(Subject& subject) {
  const Problem& problem = subject.problem;
  constexpr int64_t kMostPairs = 1 << 22;
  const bool takes_mask =
      IndexOf(problem.op->SignatureFor(problem.params, false).inputs, "mask") >=
      0;
  if (!takes_mask || subject.Input("mask") || HasBias(subject) ||
      problem.queries > kMostPairs / std::max<int64_t>(problem.keys, 1))
    return;
  constexpr int64_t kAll = 1 << 30;
  struct {
    const char* name;
    int64_t first, last;
  } constexpr kSeen[] = {
      {"packed sequences that see the one before them", -1, -1},
      {"packed sequences that see the one after them", 1, 1},
      {"packed sequences that see those on both sides", -1, 1},
      {"packed sequences that see all before them: a state that is not reset",
       -kAll, -1},
  };
  for (const auto& [name, first, last] : kSeen)
    SeeOtherSequences(subject, name, first, last);
}

}  // namespace

// Leaves the softcap, its derivative or the division in
// softcap tanh(x / softcap) out, or applies it after the bias.
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
  if (subject.problem.backward)
    subject.Add("the softcap not differentiated", [](AlteredProblem& altered) {
      altered.problem.ignores_softcap_slope = true;
      altered.changed = true;
    });
  if (HasBias(subject))
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
  const Problem& problem = subject.problem;
  // A bias by offset of packed sequences or of an image has other entries.
  if (!problem.backward && !problem.params.Has("packed_q") &&
      !problem.params.Has("height"))
    subject.Add(
        "slopes times j - i instead of -|j - i|", [](AlteredProblem& altered) {
          altered.Give(SignedSlopes(altered.problem, altered.inputs["slopes"]),
                       "slopes");
          altered.Resolve(altered.problem.params);
        });
  if (slopes->slices.count() == 1) return;
  add("another head's slope", [](std::vector<double>& values) {
    std::rotate(values.begin(), values.begin() + 1, values.end());
  });
  add("slopes in reverse order",
      [](std::vector<double>& values) { std::ranges::reverse(values); });
}

// Leaves sinks out, reads those of the next head, adds a key of zeros, or adds
// exp(sink) to weights that are relative to the largest score.
void MistakeSinks(Subject& subject) {
  const Tensor* sinks = subject.Input("sinks");
  if (!sinks) return;
  subject.Add("sinks left out", LeaveSinksOut);
  subject.Add("sinks of 0: a key of zeros with weight 1",
              [](AlteredProblem& altered) {
                std::ranges::fill(altered.Change("sinks").values, 0);
              });
  subject.Add("exp(sink) without the largest score subtracted",
              [](AlteredProblem& altered) {
                altered.problem.leaves_sinks_unshifted = true;
                altered.changed = true;
              });
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
    const auto enlarge = [&](const char* name) {
      if (!subject.Input(name)) return;
      for (double& value : altered.Change(name).values) value *= kFactor;
    };
    std::ranges::for_each(kBiases, enlarge);
    enlarge("sinks");
    altered.Resolve(std::move(params));
  });
  if (largest) {
    changed = right;
    for (size_t i = 0; i < changed.size(); ++i)
      if (!std::isinf(changed[i]))
        changed[i] -= (*largest)[lse].values[i] / kFactor;
    add("lse without the largest score", std::move(changed));
  }
  changed = right;
  for (long double& value : changed)
    if (std::isinf(value)) value = 0;
  if (changed != right) add("lse of 0 where no key is seen", changed);
  if (!subject.Input("sinks")) return;
  auto without = subject.AnswerTo(LeaveSinksOut);
  if (without) add("lse without the sink", std::move((*without)[lse].values));
}

// Adds the gradients through lse with weights that leave the sink out.
void DifferentiateLogSumWithoutSink(Subject& subject) {
  if (!subject.Input("grad_lse") || !subject.Input("sinks")) return;
  const auto clear = [](AlteredProblem& altered, const char* cotangent) {
    std::ranges::fill(altered.Change(cotangent).values, 0);
  };
  const auto of_output = subject.AnswerTo(
      [&](AlteredProblem& altered) { clear(altered, "grad_lse"); });
  const auto of_lse = subject.AnswerTo([&](AlteredProblem& altered) {
    clear(altered, "grad");
    LeaveSinksOut(altered);
  });
  if (!of_output || !of_lse) return;
  subject.Add("gradients of lse without the sink", nullptr).finish =
      [sum = *of_output, more = *of_lse](RowsByOutput& program) {
        program = sum;
        for (size_t o = 0; o < program.size(); ++o)
          for (size_t i = 0; i < program[o].values.size(); ++i)
            program[o].values[i] += more[o].values[i];
        return true;
      };
}

// Reads the length of the next batch item, or counts keys wrong by one.
void TakeOtherKeyLengths(Subject& subject) {
  Params params = subject.problem.params;
  if (!params.Has("key_lengths")) return;
  IntegerList lengths = params.List("key_lengths");
  std::ranges::rotate(lengths, lengths.begin() + 1);
  params.Set("key_lengths", lengths);
  Mistake& mistake = subject.Add("key_lengths of another batch item", params);
  mistake.remedy = "batch items with different key lengths";
  mistake.hidden_by_shapes = true;
  const auto miscount = [&](const char* name, int64_t by,
                            const char* shown_by) {
    lengths = subject.problem.params.List("key_lengths");
    for (int64_t& length : lengths)
      length = std::clamp<int64_t>(length + by, 0, subject.problem.keys);
    params.Set("key_lengths", lengths);
    Mistake& miscounted = subject.Add(name, params);
    miscounted.remedy = shown_by;
    miscounted.hidden_by_shapes = true;
  };
  miscount("key_lengths too large by 1", 1,
           "a key length shorter than the keys");
  miscount("key_lengths too small by 1", -1, "a key length above zero");
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
    const auto add = [&](const char* name) {
      Mistake& mistake = subject.Add(name, params);
      mistake.remedy = "packed sequences with different query_offsets";
      mistake.hidden_by_shapes = true;
    };
    params = right;
    rotate("query_offset", params);
    add("query_offset of the next packed sequence");
    IntegerList offsets = right.List("query_offset");
    std::ranges::fill(offsets, offsets.front());
    params.Set("query_offset", std::move(offsets));
    add("query_offset of the first packed sequence for all");
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
  if (!alone) SeeNeighbours(subject);
}

}  // namespace subquad
