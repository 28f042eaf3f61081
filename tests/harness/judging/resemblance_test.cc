// Every known mistake is recognised by name, on every operator that it applies
// to; an output that resembles none is not assigned one.
#include "harness/judging/resemblance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>

#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/diagnose.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"

namespace subquad {
namespace {

struct Subject {
  explicit Subject(const Case& test_case)
      : problem(ProblemOf(test_case)),
        inputs(GenerateInputs(test_case, problem)),
        right(ComputeAnswer(problem, inputs, 1)),
        known(MakeWrongAnswers(problem, inputs, right)) {}
  explicit Subject(const std::string& id)
      : Subject(MakeCase(ParseCaseId(id))) {}

  Resemblance Like(const Answer& answer) {
    return LooksLike(problem, inputs, right, known, answer,
                     ToleranceOf(right, 1, {}));
  }

  // Returns the output of a program with this mistake.
  Answer With(const WrongAnswer& wrong) const {
    Answer answer = right;
    for (const FoundRows& part : wrong.parts) {
      OutputAnswer& output = answer.outputs[part.output];
      for (size_t r = 0; r < part.rows.size(); ++r)
        for (int64_t c = 0; c < output.width; ++c)
          output.value[part.rows[r] * static_cast<size_t>(output.width) +
                       static_cast<size_t>(c)] = part.value(r, c);
    }
    return answer;
  }

  // Returns all rows of every mistake.
  std::vector<WrongAnswer> Mistakes() {
    size_t rows = 0;
    for (const OutputAnswer& output : right.outputs)
      rows = std::max(rows, output.selection.rows.size());
    std::vector<WrongAnswer> list = AlteredAnswers(problem, right);
    for (std::vector<WrongAnswer> more :
         std::array{MisreadAnswers(problem, inputs, right, rows),
                    UsualConfusions(problem, inputs, right, rows)})
      std::ranges::move(more, std::back_inserter(list));
    std::erase_if(list, [&](const WrongAnswer& wrong) {
      return Coincides(problem, right, wrong);
    });
    return list;
  }

  Problem problem;
  Inputs inputs;
  Answer right;
  std::vector<WrongAnswer> known;
};

class EveryOperator : public testing::TestWithParam<const Operator*> {};

TEST_P(EveryOperator, HasEveryMistakeRecognised) {
  // Uses a few variants of operators with many.
  constexpr size_t kMost = 24;
  const std::vector<Case> all =
      VerificationCases(*GetParam(), {12}, Scalar::kFloat64, 1);
  const size_t step = (all.size() - 1) / kMost + 1;
  int64_t recognised = 0;
  for (size_t at = 0; at < all.size(); at += step) {
    Subject subject(all[at]);
    for (const WrongAnswer& wrong : subject.Mistakes()) {
      const Answer answer = subject.With(wrong);
      const Resemblance resemblance = subject.Like(answer);
      // Does not compare names: two mistakes may have the same wrong answer.
      EXPECT_FALSE(resemblance.name.empty())
          << all[at].Id() << ": " << wrong.name;
      EXPECT_LT(resemblance.ratio, kAlike)
          << all[at].Id() << ": " << wrong.name;
      ++recognised;
    }
  }
  EXPECT_GT(recognised, 40);
}

INSTANTIATE_TEST_SUITE_P(Operators, EveryOperator,
                         testing::ValuesIn(Operators()), OperatorId);

// Common mistakes, each recognised by its own name if no other mistake has the
// same answer.
TEST(Resemblance, NamesCommonMistakes) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> usual = {
      {"softmax_attention:with=bias,causal=1,n=40,d=8,e=8,heads=3,batch=2,"
       "per_head=1",
       {"scale left out", "bias left out", "bias multiplied by the scale",
        "offset i - j for j - i", "bias shifted by 1", "causal mask left out",
        "mask off by one: a key too many", "mask off by one: a key too few",
        "keys and values swapped", "another head's k", "another head's v",
        "heads and rows exchanged", "batch items and heads exchanged",
        "batch items and heads of k and v exchanged"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,batch=2",
       {"attention over heads: [h, n, d] read as [n, h, d]"}},
      {"linear_attention:feature_map=elu1,eps=0.1,n=40,d=8,e=8",
       {"eps left out", "eps twice", "divided by the normaliser twice",
        "eps for every key"}},
      {"linear_attention:feature_map=relu,n=40,d=8,e=8",
       {"feature_map elu1 for relu", "feature_map dpfp for relu"}},
      {"kernelized_rpe_attention:feature_map=elu1,scale=0.5,n_q=30,n_k=40,d=8,"
       "e=8",
       {"feature_map relu for elu1", "bias multiplied by the scale",
        "offset 0 at n_k - 1 instead of n_q - 1"}},
      {"sparse_attention:with=bias,n=40,d=8,e=8",
       {"bias multiplied by the scale"}},
      {"softmax_attention:with=bias,n_q=40,n_k=30,d=8,e=8",
       {"offset 0 at n_k - 1 instead of n_q - 1"}},
      {"toeplitz_1d:n_q=30,n_k=40,e=4",
       {"offset 0 at n_k - 1 instead of n_q - 1"}},
      {"toeplitz_1d:n_q=40,n_k=30,e=4",
       {"offset 0 at n_k - 1 instead of n_q - 1"}},
      {"softmax_attention:causal=1,n_q=30,n_k=40,d=8,e=8",
       {"causal mask aligned at the last query and key instead of the first"}},
      {"softmax_attention:n=40,d=8,e=8,batch=2,key_lengths=15+33",
       {"key_lengths left out", "key_lengths of another batch item",
        "key_lengths too large by 1", "key_lengths too small by 1"}},
      {"softmax_attention:n=40,d=8,e=8,causal=1,window_left=6,query_offset=3",
       {"window_left too large by 1", "window_left too small by 1",
        "window_left left out",
        "window measured from the query's index and not from its position"}},
      {"linear_attention:feature_map=elu1,n=40,d=8,e=8,causal=1,window_left=6,"
       "query_offset=3",
       {"window_left too large by 1", "window_left too small by 1",
        "window_left left out",
        "window measured from the query's index and not from its position"}},
      {"kernelized_rpe_attention:feature_map=elu1,scale=0.5,n=40,d=8,e=8,"
       "window_left=6,window_right=3",
       {"window_left too large by 1", "window_right too small by 1",
        "window_left left out"}},
      {"linear_attention:feature_map=elu1,d=8,e=8,causal=1,packed_q=12+9+20,"
       "packed_k=15+9+30,query_offset=3+0+10",
       {"packed sequences that see their neighbours",
        "packed sequences that see the one before them",
        "packed sequences that see the one after them",
        "packed sequences that see those on both sides",
        "packed sequences that see all before them: a state that is not reset",
        "lengths of the next packed sequence",
        "query_offset of the next packed sequence",
        "query_offset of the first packed sequence for all",
        "a boundary of packed sequences one late"}},
      {"linear_attention:feature_map=elu1,n=40,d=8,e=8,with=mask,"
       "shared=mask:queries",
       {"mask left out", "mask inverted", "mask one key late"}},
      {"kernelized_rpe_attention:feature_map=elu1,scale=0.5,n=40,d=8,e=8,"
       "heads=3,per_head=1,with=mask",
       {"mask left out", "mask inverted", "mask one key late",
        "mask transposed", "mask of another head"}},
      {"softmax_attention:n=40,d=8,e=8,softcap=0.5,scale=0.3",
       {"softcap left out", "scores not divided by the softcap"}},
      {"softmax_attention:n=40,d=8,e=8,softcap=0.5,scale=0.3,with=slopes",
       {"softcap applied after the bias"}},
      {"softmax_attention:n=40,d=8,e=8,softcap=0.5,scale=0.3,with=pair_bias",
       {"softcap applied after the bias", "softcap left out"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,per_head=1,with=sinks",
       {"sinks left out", "sinks of 0: a key of zeros with weight 1",
        "exp(sink) without the largest score subtracted",
        "another head's sink"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,per_head=1,with=slopes",
       {"slopes left out", "slopes doubled", "slopes of the other sign",
        "slopes times j - i instead of -|j - i|", "another head's slope",
        "slopes in reverse order"}},
      {"softmax_attention:n_q=20,n_k=30,d=8,e=8,heads=3,per_head=1,"
       "query_offset=7,with=slopes",
       {"slopes times j - i instead of -|j - i|"}},
      {"softmax_attention:d=8,e=8,causal=1,packed_q=12+9+20+7,"
       "packed_k=15+9+30+8,query_offset=3+0+10+1",
       {"packed sequences that see their neighbours",
        "packed sequences that see the one before them",
        "packed sequences that see the one after them",
        "packed sequences that see those on both sides",
        "packed sequences that see all before them: a state that is not reset",
        "query_offset of the first packed sequence for all",
        "lengths of the next packed sequence",
        "query_offset of the next packed sequence",
        "a boundary of packed sequences one late"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,per_head=1,with=buckets,B=16,"
       "max_distance=64,query_offset=5",
       {"buckets left out", "buckets of another head",
        "the default max_distance instead of the given one",
        "distances on the edge of a bucket in the previous bucket",
        "buckets rounded instead of cut off", "buckets of i - j for j - i",
        "buckets by the query's index and not by its position",
        "bidirectional the other way", "buckets multiplied by the scale"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,per_head=1,with=mask",
       {"mask left out", "mask inverted", "mask one key late",
        "mask transposed", "mask of another head",
        "mask added to the scores as numbers 0 and 1"}},
      {"softmax_attention:n=40,d=8,e=8,with=mask,shared=mask:queries",
       {"mask left out", "mask inverted", "mask one key late",
        "mask transposed"}},
      {"softmax_attention:n=40,d=8,e=8,heads=3,per_head=1,with=pair_bias,"
       "input=masked",
       {"pair_bias left out", "-inf of pair_bias taken for 0",
        "pair_bias multiplied by the scale", "pair_bias transposed",
        "pair_bias of another head"}},
      {"softmax_attention:n=40,d=8,e=8,with=sinks+lse",
       {"lse in base 2", "lse without the largest score",
        "lse without the sink"}},
      {"softmax_attention:n_q=20,n_k=30,d=8,e=8,causal=1,query_offset=-9,"
       "with=lse",
       {"lse of 0 where no key is seen"}},
      {"softmax_attention:n_q=20,n_k=30,d=8,e=8,causal=1,query_offset=-9",
       {"rows that see no key averaged over all keys"}},
      {"softmax_attention:n=20,d=8,e=8,batch=2,key_lengths=0+15",
       {"rows that see no key averaged over all keys"}},
      {"softmax_attention:n=64,d=8,e=8",
       {"parts of the keys merged with weights of base 2",
        "parts of the keys merged with weights of base e for logarithms of "
        "base 2",
        "parts of the keys merged with equal weights",
        "last part of the keys merged without its weight"}},
      {"softmax_attention:n=20,d=8,e=8,heads=6,leading=k:2+v:2",
       {"grouped heads interleaved (h % h_k) instead of consecutive",
        "head divided by the number of key heads (h // h_k)"}},
      {"softmax_attention:n=20,d=8,e=8,heads=3,batch=3",
       {"every head reads k and v of the first one", "k and v of the next head",
        "every batch item reads k and v of the first one",
        "k and v of the next batch item"}},
      {"sparse_attention:n=40,d=8,e=8,pattern=sliding,window=5,dilation=1",
       {"window too large by 1", "window too small by 1", "window left out"}},
      {"sparse_attention:n=40,d=8,e=8,pattern=local,block=8",
       {"block too large by 1", "block too small by 1"}},
      {"sparse_attention:n_q=20,n_k=40,d=8,e=8,causal=1,pattern=local,block=8,"
       "query_offset=13",
       {"query_offset left out",
        "causal mask aligned at the last query and key instead of the first"}},
      {"sparse_attention:n_q=20,n_k=40,d=8,e=8,pattern=sliding,window=5,"
       "dilation=2,query_offset=13",
       {"query_offset left out", "window too large by 1",
        "window too small by 1"}},
      {"sparse_attention:n=40,d=8,e=8,heads=3,per_head=1,pattern=blocks,"
       "block=5",
       {"block_mask left out", "block_mask inverted", "block_mask transposed",
        "block_mask of another head",
        "rows that see no key averaged over all keys"}},
      {"sparse_attention:n_q=30,n_k=40,d=8,e=8,heads=3,per_head=1,"
       "pattern=blocks,block=3+8",
       {"block_mask left out", "block_mask inverted",
        "block_mask of another head"}},
      {"position_attention:scheme=deberta,n=20,D=8,d=8,e=8",
       {"p2c released for paper"}},
      {"toeplitz_2d:height=6,width=4,e=4",
       {"rows of weights counted with 2*height-1 for 2*width-1"}},
      {"toeplitz_2d:height=6,width=6,e=4",
       {"height and width of the offsets exchanged", "offset i - j for j - i"}},
      {"linear_attention:feature_map=elu1,causal=1,backward=1,n=30,d=8,e=8,"
       "batch=2,heads=4,leading=k:2+v:2x2",
       {"the normaliser not differentiated",
        "grad_k of the first batch item only",
        "grad_k averaged over the heads that share it",
        "grad_v of the last of the heads that share it only",
        "causal mask left out of grad_k only"}},
      {"softmax_attention:with=bias,backward=1,n=30,d=8,e=8",
       {"the normaliser not differentiated", "grad_q and grad_k swapped",
        "scale left out of grad_k"}},
      {"softmax_attention:causal=1,backward=1,n=40,d=8,e=8,batch=2,"
       "key_lengths=15+33",
       {"key_lengths left out of grad_v only"}},
      {"softmax_attention:backward=1,n=30,d=8,e=8,softcap=0.5,scale=0.3,"
       "with=sinks+grad_lse",
       {"softcap left out", "the softcap not differentiated",
        "gradients of lse without the sink",
        "exp(sink) without the largest score subtracted"}},
      {"softmax_attention:backward=1,n=30,d=8,e=8,softcap=0.5,scale=0.3,"
       "with=slopes",
       {"softcap applied after the bias", "the softcap not differentiated"}},
  };
  for (const auto& [id, names] : usual) {
    Subject subject(id + ",scalar=float64,seed=3");
    const std::vector<WrongAnswer> mistakes = subject.Mistakes();
    for (const std::string& name : names) {
      const auto wrong = std::ranges::find(mistakes, name, &WrongAnswer::name);
      ASSERT_NE(wrong, mistakes.end()) << id << ": " << name;
      const Resemblance resemblance = subject.Like(subject.With(*wrong));
      EXPECT_EQ(resemblance.name, name) << id;
      EXPECT_LT(resemblance.tolerances, 1) << id << ": " << name;
      EXPECT_EQ(resemblance.Text().find("looks like: " + name), 0)
          << resemblance.Text();
    }
  }
}

// Detects tensors read in another memory order, whether or not the output is
// written in that order, too.
TEST(Resemblance, NamesMemoryInAnotherOrder) {
  Subject subject(
      "softmax_attention:with=bias,causal=1,n=40,d=8,e=8,heads=3,batch=2,"
      "per_head=1,scalar=float64,seed=3");
  std::map<std::string, int> named;
  for (const WrongAnswer& wrong : subject.Mistakes()) {
    if (wrong.name.find("in memory read as") == std::string::npos) continue;
    EXPECT_EQ(subject.Like(subject.With(wrong)).name, wrong.name);
    ++named[wrong.name];
  }
  EXPECT_EQ(named, (std::map<std::string, int>{
                       {"[h, n, d] in memory read as [n, h, d]", 2},
                       {"[n, h, d] in memory read as [h, n, d]", 2}}));
}

// A factor common to all rows is reported with its value. A separate factor for
// each row is reported with its likely cause: an eps only if the operator has
// one.
TEST(Resemblance, FactorsAreNamed) {
  const std::string rows = "rows scaled each by its own factor";
  const std::pair<std::string, std::string> names[] = {
      {"toeplitz_1d:n=40,e=4", rows},
      {"softmax_attention:n=40,d=8,e=8", "another normaliser: " + rows},
      {"linear_attention:feature_map=elu1,n=40,d=8,e=8",
       "another normaliser: " + rows + ", as by an eps in the wrong place"},
  };
  for (const auto& [id, name] : names) {
    Subject subject(id + ",scalar=float64,seed=3");
    for (const double factor : {3.0, 1.01, 1.00002, 80.0, -0.5, 0.0067}) {
      Answer answer = subject.right;
      for (long double& value : answer.outputs[0].value) value *= factor;
      const Resemblance resemblance = subject.Like(answer);
      EXPECT_EQ(resemblance.name, fmt::format("scaled by {:g}", factor)) << id;
      // The distance is about the rounding error of values that are so much
      // larger.
      EXPECT_LT(resemblance.tolerances, 10) << id << " " << factor;
    }
    Answer answer = subject.right;
    const auto width = static_cast<size_t>(answer.outputs[0].width);
    std::vector<long double>& values = answer.outputs[0].value;
    for (size_t at = 0; at < values.size(); ++at)
      values[at] *= 1 + 0.1L * static_cast<long double>(at / width % 7);
    EXPECT_EQ(subject.Like(answer).name, name) << id;
  }
}

// Factors, few digits and lost rows are named for every gradient.
TEST(Resemblance, EveryGradientIsExamined) {
  Subject subject(
      "kernelized_rpe_attention:feature_map=elu1,backward=1,n=40,d=8,e=8,"
      "scalar=float64,seed=3");
  for (size_t o = 0; o < subject.right.outputs.size(); ++o) {
    const std::string suffix =
        fmt::format(" ({})", subject.right.outputs[o].name);
    const auto with = [&](auto change) {
      Answer answer = subject.right;
      std::vector<long double>& values = answer.outputs[o].value;
      const auto width = static_cast<size_t>(answer.outputs[o].width);
      for (size_t at = 0; at < values.size(); ++at)
        values[at] = change(values[at], at / width);
      return subject.Like(answer).name;
    };
    EXPECT_EQ(with([](long double x, size_t) { return x * 1.02L; }),
              "scaled by 1.02" + suffix);
    EXPECT_EQ(with([](long double x, size_t row) {
                return row >= 5 && row < 9 ? 0 : x;
              }),
              "rows 5 to 8 zero" + suffix);
    // A few numbers of a bias's gradient are much larger than the others, and
    // so are their errors.
    if (subject.right.outputs[o].width == 1) continue;
    EXPECT_EQ(
        with([](long double x, size_t) {
          return static_cast<long double>(
              RoundTo(Scalar::kBFloat16, static_cast<double>(x)));
        }),
        "values of bfloat16: computed in it, or rounded to it at the end" +
            suffix);
  }
}

// Multiplies a tensor, each slice by its own factor.
Answer WithFactors(const Subject& subject, const std::string& name,
                   const std::vector<double>& factors) {
  Inputs inputs = subject.inputs;
  Tensor& tensor =
      inputs.tensors[static_cast<size_t>(subject.problem.InputIndex(name))];
  const auto size = static_cast<size_t>(tensor.SliceSize());
  for (size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] *= factors[i / size];
  return ComputeAnswer(subject.problem, inputs, 1);
}

// A factor of the scale or of a bias is fitted and reported with its value, one
// for each head if they differ.
TEST(Resemblance, FactorsOfTensorsAreFitted) {
  Subject scale("softmax_attention:n=40,d=8,e=8,scalar=float64,seed=3");
  EXPECT_EQ(scale.Like(WithFactors(scale, "q", {0.5})).name,
            "scale multiplied by 0.5");
  EXPECT_EQ(scale.Like(WithFactors(scale, "q", {std::numbers::log2e})).name,
            "scale multiplied by 1.443 (log2 e)");
  Subject bias(
      "softmax_attention:with=bias,n=40,d=8,e=8,heads=3,per_head=1,"
      "scalar=float64,seed=3");
  EXPECT_EQ(bias.Like(WithFactors(bias, "bias", {2, 2, 2})).name,
            "bias multiplied by 2");
  EXPECT_EQ(bias.Like(WithFactors(bias, "bias", {0.5, 0.7, 1.5})).name,
            "bias multiplied by another factor for each head: 0.5, 0.7, 1.5");
  Subject weights("toeplitz_1d:n=40,e=4,heads=2,per_head=1,scalar=float64");
  EXPECT_EQ(weights.Like(WithFactors(weights, "weights", {0.5, 3})).name,
            "weights multiplied by another factor for each head: 0.5, 3");
}

// Rows of NaN that should be zero are named if the others are right and some
// are not zero; what else is wrong with the output goes before.
TEST(Resemblance, MissingEmptyRowsAreNamed) {
  Subject subject(
      "softmax_attention:n_q=20,n_k=30,d=8,e=8,causal=1,query_offset=-9,"
      "scalar=float64,seed=3");
  const auto width = static_cast<size_t>(subject.right.outputs[0].width);
  Answer answer = subject.right;
  std::vector<long double>& values = answer.outputs[0].value;
  std::fill_n(values.begin(), 9 * width, std::nan(""));
  const std::string name =
      "NaN in rows that should be zero, as of 0/0 where no key is seen";
  EXPECT_EQ(subject.Like(answer).name, name);
  values[10 * width] += 1;
  EXPECT_NE(subject.Like(answer).name, name);
  // Mistakes have NaN in the same rows (the quotient of their empty sums, not
  // divided twice), but are wrong in the others.
  Subject quotient(
      "linear_attention:feature_map=elu1,n_q=9,n_k=30,d=8,e=8,batch=2,"
      "key_lengths=0+15,scalar=float64,seed=3");
  answer = quotient.right;
  std::fill_n(answer.outputs[0].value.begin(),
              9 * static_cast<size_t>(quotient.right.outputs[0].width),
              std::nan(""));
  EXPECT_EQ(quotient.Like(answer).name, name);
  // An output of zeros only has no right rows beside them.
  Subject nothing(
      "softmax_attention:n_q=9,n_k=30,d=8,e=8,causal=1,query_offset=-9,"
      "scalar=float64,seed=3");
  answer = nothing.right;
  std::ranges::fill(answer.outputs[0].value, std::nan(""));
  EXPECT_EQ(nothing.Like(answer).name, "");
}

TEST(Resemblance, RangesOfRowsAreNamed) {
  Subject subject(
      "softmax_attention:n=40,d=8,e=8,heads=2,scalar=float64,seed=3");
  const auto width = static_cast<size_t>(subject.right.outputs[0].width);
  const auto without = [&](size_t first, size_t end, long double value) {
    Answer answer = subject.right;
    std::vector<long double>& values = answer.outputs[0].value;
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(first * width),
              values.begin() + static_cast<std::ptrdiff_t>(end * width), value);
    return answer;
  };
  EXPECT_EQ(subject.Like(without(32, 40, 0)).name,
            "rows 32 to 39 zero, of head 0");
  EXPECT_EQ(subject.Like(without(72, 80, std::nan(""))).name,
            "rows 32 to 39 NaN, of head 1");
  Answer both = without(30, 36, 0);
  std::fill_n(
      both.outputs[0].value.begin() + static_cast<std::ptrdiff_t>(70 * width),
      6 * width, 0);
  EXPECT_EQ(subject.Like(both).name, "rows 30 to 35 zero");
  // If all rows are NaN, nothing is known about a range.
  EXPECT_EQ(subject.Like(without(0, 80, std::nan(""))).name, "");
  // Rows that are wrong beside the range are another mistake.
  both.outputs[0].value[0] += 1;
  EXPECT_NE(subject.Like(both).name, "rows 30 to 35 zero");
}

TEST(Resemblance, IsEmptyIfNoMistakeIsKnown) {
  Subject subject("softmax_attention:with=bias,n=40,scalar=float64,seed=3");
  Answer answer = subject.right;
  // Adds a different sine to every element: large, and no known mistake.
  std::vector<long double>& values = answer.outputs[0].value;
  for (size_t at = 0; at < values.size(); ++at)
    values[at] += std::sin(static_cast<double>(at * at));
  const Resemblance resemblance = subject.Like(answer);
  EXPECT_TRUE(resemblance.name.empty()) << resemblance.name;
  EXPECT_GT(resemblance.known, 10);
  EXPECT_EQ(resemblance.Text(),
            fmt::format("resembles none of the {} mistakes tried",
                        resemblance.known));
}

// Half of a mistake still resembles it most, at a larger distance.
TEST(Resemblance, TheDistanceIsCountedInTolerances) {
  Subject subject("softmax_attention:with=bias,n=40,scalar=float64,seed=3");
  const std::vector<WrongAnswer> mistakes = subject.Mistakes();
  const auto wrong =
      std::ranges::find(mistakes, "offset i - j for j - i", &WrongAnswer::name);
  ASSERT_NE(wrong, mistakes.end());
  Answer answer = subject.With(*wrong);
  EXPECT_LT(subject.Like(answer).tolerances, 0.1);
  answer.outputs[0].value[7] += 1e-9L;
  const Resemblance resemblance = subject.Like(answer);
  EXPECT_EQ(resemblance.name, wrong->name);
  EXPECT_GT(resemblance.tolerances, 1);
  EXPECT_TRUE(std::isfinite(resemblance.tolerances));
}

TEST(Diagnosis, ReportsShareAndPlaceOfWrongElements) {
  const std::string id =
      "softmax_attention:n=40,d=8,e=8,heads=3,batch=2,scalar=float64,seed=3";
  Subject subject(id);
  Answer answer = subject.right;
  const auto spoil = [&](int64_t head, int64_t row, int64_t column) {
    answer.outputs[0]
        .value[static_cast<size_t>((head * 40 + row) * 8 + column)] += 1;
  };
  for (int64_t row = 5; row < 9; ++row) spoil(3 + 1, row, 2);
  const Diagnosis diagnosis =
      Diagnose(subject.problem, subject.inputs, subject.right, subject.known,
               answer, ToleranceOf(subject.right, 1, {}), false);
  ASSERT_EQ(diagnosis.outputs.size(), 1u);
  EXPECT_EQ(diagnosis.outputs[0].wrong, 4);
  EXPECT_EQ(diagnosis.elements, 6 * 40 * 8);
  EXPECT_EQ(diagnosis.outputs[0].Text(),
            "rows 5 to 8 of 40, head 1 of 3, batch item 1 of 2");
  EXPECT_EQ(diagnosis.ShareText(), "0.21 % of elements");
  for (long double& value : answer.outputs[0].value) value += 1;
  const Diagnosis all =
      Diagnose(subject.problem, subject.inputs, subject.right, subject.known,
               answer, ToleranceOf(subject.right, 1, {}), false);
  EXPECT_EQ(all.outputs[0].Text(),
            "rows 0 to 39 of 40, all 3 heads, all 2 batch items");
  EXPECT_EQ(all.ShareText(), "100 % of elements");
  answer.outputs[0].value[0] = subject.right.outputs[0].value[0];
  EXPECT_EQ(
      Diagnose(subject.problem, subject.inputs, subject.right, subject.known,
               answer, ToleranceOf(subject.right, 1, {}), false)
          .ShareText(),
      "over 99 % of elements");
}

}  // namespace
}  // namespace subquad
