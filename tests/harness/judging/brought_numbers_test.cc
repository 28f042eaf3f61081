// A correct answer to a user's own inputs is never called wrong, whatever these
// inputs cannot reveal: a linear bias, as in released models, whose shift
// softmax does not see; a bias of buckets, or a constant one; short queries and
// keys. With a real fault in it each is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "harness/cases/generate.h"
#include "harness/judging/check.h"
#include "harness/judging/input_rounding.h"
#include "harness/judging/mistakes.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/right_answer.h"

namespace subquad {
namespace {

constexpr int64_t kWidth = 16;

enum class Use { kPrefill, kChunk, kDecode, kPadding };
enum class Fault {
  kNone,
  kBiasReversed,
  kBiasLeftOut,
  kFutureSeen,
  kSlopesOff,
  kHeadsRotated
};

// Softmax attention with a bias by offset, as a model computes it.
struct Model {
  int64_t heads = 1, queries = 1, keys = 1;
  int64_t length = 1;  // keys that are not padding
  bool causal = true;
  std::vector<double> q, k, v, bias;  // [h, n, kWidth], [h, n_q + n_k - 1]

  int64_t Offset() const { return keys - queries; }
  // Returns the index by key - query, both as positions.
  size_t BiasAt(int64_t head, int64_t distance) const {
    return static_cast<size_t>(head * (queries + keys - 1) + distance +
                               Offset() + queries - 1);
  }
};

Model MakeModel(int64_t heads, int64_t n, Use use, double norm = 0) {
  Model model;
  model.heads = heads;
  model.keys = model.length = n;
  model.queries = use == Use::kDecode  ? 1
                  : use == Use::kChunk ? std::max<int64_t>(1, n / 4)
                                       : n;
  if (use == Use::kPadding) model.length = std::max<int64_t>(1, 2 * n / 3);
  std::mt19937_64 generator(static_cast<uint64_t>(heads * 1000 + n));
  std::normal_distribution<double> normal;
  const auto fill = [&](std::vector<double>& values, int64_t rows,
                        double size) {
    values.resize(static_cast<size_t>(heads * rows * kWidth));
    for (auto row = values.begin(); row != values.end(); row += kWidth) {
      double squares = 0;
      for (auto x = row; x != row + kWidth; ++x) {
        *x = normal(generator);
        squares += *x * *x;
      }
      if (size > 0)
        for (auto x = row; x != row + kWidth; ++x)
          *x *= size / std::sqrt(squares);
    }
  };
  fill(model.q, model.queries, norm);
  fill(model.k, model.keys, norm);
  fill(model.v, model.keys, 0);
  model.bias.resize(static_cast<size_t>(heads * (model.queries + n - 1)));
  return model;
}

void SetBias(
    Model& model,
    const std::function<double(int64_t head, int64_t distance)>& bias) {
  for (int64_t head = 0; head < model.heads; ++head)
    for (int64_t distance = 1 - model.queries - model.Offset();
         distance < model.keys - model.Offset(); ++distance)
      model.bias[model.BiasAt(head, distance)] = bias(head, distance);
}

// Returns the slopes of ALiBi (Press, Smith and Lewis 2022): 2^(-8 k / h), and
// for a number of heads that is not a power of two every other slope of twice
// as many.
std::vector<double> Slopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(
        std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (int64_t i = 0; power + i < heads; ++i)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(2 * i + 1) /
                               static_cast<double>(power)));
  return slopes;
}

// Computes the model's output in the type Real.
template <typename Real>
std::vector<double> Attend(const Model& model, Fault fault) {
  std::vector<double> out(model.q.size());
  const Real scale = 1 / std::sqrt(static_cast<Real>(kWidth));
  for (int64_t head = 0; head < model.heads; ++head)
    for (int64_t i = 0; i < model.queries; ++i) {
      const int64_t position = i + model.Offset();
      int64_t seen = model.keys;
      if (model.causal)
        seen =
            std::min(model.keys, position + 1 + (fault == Fault::kFutureSeen));
      seen = std::min(seen, model.length);
      std::vector<Real> scores;
      Real largest = -HUGE_VALF;
      const auto row = [&](const std::vector<double>& x, int64_t rows,
                           int64_t r) {
        return x.begin() + (head * rows + r) * kWidth;
      };
      const auto q = row(model.q, model.queries, i);
      for (int64_t j = 0; j < seen; ++j) {
        Real score = 0;
        const auto k = row(model.k, model.keys, j);
        for (int64_t c = 0; c < kWidth; ++c)
          score += static_cast<Real>(q[c]) * static_cast<Real>(k[c]);
        const int64_t other =
            fault == Fault::kHeadsRotated ? (head + 1) % model.heads : head;
        const int64_t last = model.bias.size() / model.heads - 1;
        int64_t at = j - position + model.Offset() + model.queries - 1;
        if (fault == Fault::kBiasReversed) at = last - at;
        auto bias = static_cast<Real>(
            model.bias[static_cast<size_t>(other * (last + 1) + at)]);
        if (fault == Fault::kBiasLeftOut) bias = 0;
        if (fault == Fault::kSlopesOff) bias *= static_cast<Real>(1.01);
        scores.push_back(score * scale + bias);
        largest = std::max(largest, scores.back());
      }
      Real sum = 0;
      for (Real& score : scores) sum += score = std::exp(score - largest);
      for (int64_t c = 0; c < kWidth; ++c) {
        Real value = 0;
        for (int64_t j = 0; j < seen; ++j)
          value += scores[static_cast<size_t>(j)] *
                   static_cast<Real>(row(model.v, model.keys, j)[c]);
        out[static_cast<size_t>((head * model.queries + i) * kWidth + c)] =
            value / sum;
      }
    }
  return out;
}

// Returns the verdict of `subquad check` on the model's output in float32 or
// float64.
Verdict Check(Model model, Scalar scalar, Fault fault) {
  const bool narrow = scalar == Scalar::kFloat32;
  CaseFolder folder;
  folder.op = &FindOperator("softmax_attention");
  folder.has_float32 = narrow;
  Params params;
  if (model.causal) params.Set("causal", true);
  if (model.Offset() > 0) params.Set("query_offset", model.Offset());
  if (model.length < model.keys)
    params.Set("key_lengths", IntegerList{model.length});
  const Shape rows = {model.heads, 0, kWidth};
  const auto of_rows = [&](int64_t count) {
    return Shape{model.heads, count, kWidth};
  };
  const Shape shapes[] = {of_rows(model.queries),
                          of_rows(model.keys),
                          of_rows(model.keys),
                          {model.heads, model.queries + model.keys - 1}};
  std::vector<double>* numbers[] = {&model.q, &model.k, &model.v, &model.bias};
  const char* names[] = {"q", "k", "v", "bias"};
  std::vector<GivenShape> tensors;
  for (size_t t = 0; t < 4; ++t) tensors.push_back({names[t], shapes[t]});
  folder.problem =
      ResolveProblem(*folder.op, params, Scalar::kFloat64, tensors);
  for (size_t t = 0; t < 4; ++t) {
    if (narrow)
      for (double& x : *numbers[t]) x = static_cast<float>(x);
    folder.inputs.tensors.push_back({names[t], shapes[t],
                                     folder.problem.InputSlices(t), *numbers[t],
                                     scalar});
  }
  folder.expected.push_back(
      {"out", shapes[0],
       narrow ? Attend<float>(model, fault) : Attend<double>(model, fault),
       narrow});
  Verdict verdict;
  CheckChoice choice;
  choice.wanted = [](const Implementation&, Scalar) { return false; };
  CheckCaseFolder(
      folder, [&](const CheckLine& line) { verdict = line.verdict; }, choice);
  return verdict;
}

std::string Blind(const Verdict& verdict) {
  std::string text = verdict.reason;
  for (const BlindSpot& spot : verdict.margin.blind_to)
    text += fmt::format(" {} ({:.3g})", spot.name, spot.distance);
  return text;
}

constexpr Use kUses[] = {Use::kPrefill, Use::kChunk, Use::kDecode,
                         Use::kPadding};

void TakesLinearBiases(const std::vector<int64_t>& heads,
                       const std::vector<int64_t>& sizes) {
  for (const int64_t h : heads)
    for (const int64_t n : sizes)
      for (const Use use : kUses)
        for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
          SCOPED_TRACE(fmt::format("{} heads, n = {}, use {}, {}", h, n,
                                   static_cast<int>(use), Info(scalar).name));
          Model model = MakeModel(h, n, use);
          SetBias(model, [slopes = Slopes(h)](int64_t head, int64_t distance) {
            return slopes[static_cast<size_t>(head)] *
                   static_cast<double>(distance);
          });
          const Verdict right = Check(model, scalar, Fault::kNone);
          EXPECT_TRUE(right.passed()) << right.reason;
          // The shifted answer is the same except for the rounding of its
          // values.
          for (const BlindSpot& spot : right.margin.blind_to)
            EXPECT_FALSE(spot.name.starts_with("bias shifted")) << Blind(right);
          for (const Fault fault :
               {Fault::kBiasReversed, Fault::kBiasLeftOut, Fault::kFutureSeen,
                Fault::kSlopesOff, Fault::kHeadsRotated}) {
            // The last query of a decoder has no future.
            if (fault == Fault::kFutureSeen && model.queries == 1) continue;
            EXPECT_EQ(Check(model, scalar, fault).outcome, Outcome::kFailed)
                << "fault " << static_cast<int>(fault);
          }
        }
}

TEST(BroughtNumbers, ALinearBiasPassesAndItsFaultsDoNot) {
  TakesLinearBiases({6, 8, 12, 16, 32}, {37});
  TakesLinearBiases({12}, {131});
}

TEST(BroughtNumbersSlow, ALinearBiasOfEveryModelPasses) {
  TakesLinearBiases({6, 8, 12, 16, 32}, {100, 256});
  TakesLinearBiases({12, 16}, {1000});
}

TEST(BroughtNumbers, BucketsPass) {
  for (const Use use : kUses)
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
      Model model = MakeModel(4, 200, use);
      // A bias as in T5: eight buckets of one distance each, the others
      // logarithmic.
      SetBias(model, [](int64_t head, int64_t distance) {
        const double size = std::abs(static_cast<double>(distance));
        const double bucket =
            size < 8 ? size
                     : std::min(15.0, 8 + std::floor(std::log(size / 8) /
                                                     std::log(16.0) * 8));
        return std::sin(1 + bucket + 17 * static_cast<double>(head) +
                        (distance > 0 ? 31 : 0));
      });
      EXPECT_TRUE(Check(model, scalar, Fault::kNone).passed());
      for (const Fault fault : {Fault::kBiasReversed, Fault::kBiasLeftOut,
                                Fault::kSlopesOff, Fault::kHeadsRotated})
        EXPECT_EQ(Check(model, scalar, fault).outcome, Outcome::kFailed);
    }
}

TEST(BroughtNumbers, AConstantBiasPasses) {
  for (const Use use : kUses)
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
      Model model = MakeModel(4, 100, use);
      SetBias(model, [](int64_t head, int64_t) {
        return 0.37 * static_cast<double>(head + 1);
      });
      const Verdict right = Check(model, scalar, Fault::kNone);
      EXPECT_TRUE(right.passed()) << Blind(right);
      if (model.queries == 1) continue;
      EXPECT_EQ(Check(model, scalar, Fault::kFutureSeen).outcome,
                Outcome::kFailed);
    }
}

TEST(BroughtNumbers, NormalisedQueriesPass) {
  for (const Use use : kUses)
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64}) {
      Model model = MakeModel(4, 300, use, 1);
      SetBias(model, [](int64_t, int64_t) { return 0.0; });
      const Verdict right = Check(model, scalar, Fault::kNone);
      EXPECT_TRUE(right.passed()) << Blind(right);
      if (model.queries == 1) continue;
      EXPECT_EQ(Check(model, scalar, Fault::kFutureSeen).outcome,
                Outcome::kFailed);
    }
}

// Distant keys have almost no weight: whether they were seen cannot be decided,
// and the verdict says so. For generated inputs the same is a defect.
TEST(BroughtNumbers, BlindSpotsAreReported) {
  // The bias is steep enough to hide a tile, but not so steep that the tile has
  // no effect.
  Model model = MakeModel(1, 300, Use::kDecode);
  SetBias(model, [](int64_t, int64_t distance) {
    return 0.15 * static_cast<double>(distance);
  });
  const Verdict verdict = Check(model, Scalar::kFloat32, Fault::kNone);
  ASSERT_TRUE(verdict.passed()) << verdict.reason;
  ASSERT_TRUE(verdict.blind());
  const BlindSpot& nearest = verdict.margin.blind_to.front();
  EXPECT_TRUE(nearest.name.starts_with("a tile of keys")) << nearest.name;
  EXPECT_EQ(nearest.remedy, "fewer keys");
  EXPECT_LT(nearest.distance, 1);
  EXPECT_EQ(verdict.margin.value, nearest.distance);
  const Verdict ours = Judge(verdict.comparison, verdict.margin, false, 0);
  EXPECT_EQ(ours.outcome, Outcome::kMistrusted);
  EXPECT_TRUE(ours.cannot_tell());
}

// A change of one unit in the last place of a key makes the normaliser zero.
TEST(BroughtNumbers, MayBeNearInputsWithoutAnAnswer) {
  const Case test_case = MakeCase(
      ParseCaseId("kernelized_rpe_attention:n=2,d=1,e=1,feature_map=identity"
                  ",normalized=1,scalar=float32,seed=1"));
  const Problem problem = ProblemOf(test_case);
  Inputs inputs = GenerateInputs(test_case, problem);
  for (Tensor& tensor : inputs.tensors) {
    if (tensor.name == "k") tensor.values = {1, -(1 - 0x1p-24)};
    if (tensor.name == "bias") std::ranges::fill(tensor.values, 0);
  }
  const Answer answer = ComputeAnswer(problem, inputs, 1);
  EXPECT_FALSE(MisreadAnswers(problem, inputs, answer).empty());
  EXPECT_FALSE(MovedByRounding(problem, inputs, answer, {}).empty());
  for (Tensor& tensor : inputs.tensors)
    if (tensor.name == "k") tensor.values = {1, -1};
  EXPECT_TRUE(MisreadAnswers(problem, inputs, answer).empty());
}

// A check that would refuse no wrong answer at all has shown nothing.
TEST(BroughtNumbers, ChecksThatCannotFailAreMistrusted) {
  Model model = MakeModel(1, 40, Use::kPrefill);
  std::ranges::fill(model.v, 0);
  EXPECT_EQ(Check(model, Scalar::kFloat64, Fault::kNone).outcome,
            Outcome::kMistrusted);
  Margin margin;
  margin.value = 0.5;
  margin.nearest = "all zero";
  margin.wrong_answers = 1;
  margin.blind_to = {{"all zero", 0.5, ""}};
  Comparison comparison;
  comparison.elements = comparison.rows = 1;
  comparison.zero_reference = false;
  EXPECT_EQ(Judge(comparison, margin, false, 0, NumbersFrom::kUser).outcome,
            Outcome::kMistrusted);
  margin.wrong_answers = 2;
  EXPECT_TRUE(Judge(comparison, margin, false, 0, NumbersFrom::kUser).passed());
}

// A row that a finite bias hides from every key has no digit in float32. The
// output passes, and the verdict says that anything there would.
TEST(BroughtNumbers, RowsThatAFiniteBiasHidesAreNotJudged) {
  const Case test_case = MakeCase(ParseCaseId(
      "softmax_attention:n=30,d=8,e=8,with=pair_bias,scalar=float32"));
  const Problem problem = ProblemOf(test_case);
  for (const double hidden : {-1e9, -100.0}) {
    Inputs inputs = GenerateInputs(test_case, problem);
    for (Tensor& tensor : inputs.tensors)
      if (tensor.name == "pair_bias")
        std::fill_n(tensor.values.begin(), 2 * 30, hidden);
    Trial trial(problem, std::move(inputs), 1, NumbersFrom::kUser);
    std::vector<std::vector<double>> outputs =
        RightAnswer(problem, trial.answer());
    trial.SetOutputs(outputs);
    const Verdict verdict = trial.JudgeOutputs(Implementation());
    EXPECT_TRUE(verdict.passed()) << verdict.reason;
    std::fill_n(outputs[0].begin() + 8, 8, 0);
    trial.SetOutputs(outputs);
    const bool judged = hidden > -1e9;
    EXPECT_EQ(trial.JudgeOutputs(Implementation()).passed(), !judged);
    const auto spot = std::ranges::find_if(
        verdict.margin.blind_to, [](const BlindSpot& blind) {
          return blind.name.starts_with(
              "any values in 2 rows, the first at out head 0 row 0");
        });
    ASSERT_EQ(spot == verdict.margin.blind_to.end(), judged);
    if (!judged) {
      EXPECT_LT(spot->distance, 1);
    }
  }
}

// An eps that is too small to be seen neither mistrusts nor has a margin; it is
// reported only for a user's own inputs.
TEST(BroughtNumbers, AnInvisibleEpsIsReported) {
  const Case test_case = MakeCase(ParseCaseId(
      "linear_attention:feature_map=elu1,eps=1e-6,n=40,scalar=float32"));
  const Problem problem = ProblemOf(test_case);
  for (const NumbersFrom from : {NumbersFrom::kUser, NumbersFrom::kUs}) {
    Trial trial(problem, GenerateInputs(test_case, problem), 1, from);
    const Verdict verdict = Verify(*ImplementationsOf(*test_case.op).front(),
                                   trial, {.threads = 1});
    EXPECT_TRUE(verdict.passed()) << verdict.reason;
    EXPECT_GT(verdict.margin.value, 1);
    EXPECT_EQ(verdict.blind(), from == NumbersFrom::kUser);
    if (!verdict.blind()) continue;
    EXPECT_EQ(verdict.margin.blind_to.front().name, "eps left out");
    EXPECT_LT(verdict.margin.blind_to.front().distance, 1);
  }
}

}  // namespace
}  // namespace subquad
