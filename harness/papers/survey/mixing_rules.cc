// Claims of the survey on what mixes tokens by other means than all products of
// queries and keys, computed by the command itself. Each comes with a control.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/survey/survey.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// Over a window of `taps` places; `of_data`: weights from the tokens, otherwise
// an average.
OperatorRun Convolution(int64_t taps, bool of_data) {
  OperatorRun run("dynamic_convolution");
  run.Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi_k", {kTriedD, taps},
            of_data ? NormalNumbers(kTriedD * taps, 2)
                    : Numbers(static_cast<size_t>(kTriedD * taps)))
      .Give("phi_v", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 3));
  return run;
}

// A random permutation: a rotation is one that a convolution respects but at
// its seam.
std::vector<int64_t> RandomOrder() {
  std::vector<int64_t> order(static_cast<size_t>(kTriedN));
  std::iota(order.begin(), order.end(), 0);
  const Numbers keys = NormalNumbers(kTriedN, 11);
  std::ranges::sort(order, {}, [&](int64_t i) { return keys[i]; });
  return order;
}

// The output for permuted tokens against the permuted output.
double PermutationGap(const OperatorRun& run) {
  const std::vector<int64_t> order = RandomOrder();
  OperatorRun permuted = run;
  permuted["x"] = Reordered(permuted["x"], kTriedD, order);
  return LargestDifference(permuted.Definition(),
                           Reordered(run.Definition(), kTriedE, order));
}

Finding DynamicConvolution(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = Convolution(7, true);
  const Measured gap = finding.Measure("difference of a window of 7",
                                       PermutationGap(run)),
                 single = finding.Measure("difference of a window of 1",
                                          PermutationGap(Convolution(1, true))),
                 average =
                     finding.Measure("difference of an average over 7",
                                     PermutationGap(Convolution(7, false)));
  finding.Add(gap > kClear && single <= kRounding,
              fmt::format("permuted tokens change the output by {} over a "
                          "window of 7 tokens and by {} over one of 1",
                          gap, single));
  finding.Add(average > kClear,
              fmt::format("so do they, by {}, with weights that are all the "
                          "same: it is the window that knows the order, not "
                          "that the weights are determined by the inputs",
                          average));
  AddPrograms(finding, run, "dynamic convolution over 7 tokens",
              run.Programs());
  return finding;
}

OperatorRun Synthesizer(const std::string& kind) {
  OperatorRun run("synthesizer_attention");
  run.Set("kind", kind)
      .Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi_v", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 2));
  if (kind == "dense")
    run.Give("phi_1", {kTriedD, kTriedD}, NormalNumbers(kTriedD * kTriedD, 3))
        .Give("phi_2", {kTriedD, kTriedN}, NormalNumbers(kTriedD * kTriedN, 4));
  if (kind == "random")
    run.Give("logits", {kTriedN, kTriedN}, NormalNumbers(kTriedN * kTriedN, 3));
  if (kind == "factorized")
    run.Give("factor_q", {kTriedN, kTriedD},
             NormalNumbers(kTriedN * kTriedD, 3))
        .Give("factor_k", {kTriedN, kTriedD},
              NormalNumbers(kTriedN * kTriedD, 4));
  return run;
}

// How far the output of the other tokens is from a straight line as one token
// changes: zero where its value alone changes, and no weight.
double Bend(const OperatorRun& run, const std::vector<std::string>& inputs) {
  constexpr int64_t kToken = 20;
  const auto output = [&](double step) {
    OperatorRun other = run;
    for (const std::string& name : inputs) {
      const int64_t width = static_cast<int64_t>(other[name].size()) / kTriedN;
      for (int64_t c = 0; c < width; ++c)
        other[name][kToken * width + c] += step;
    }
    return other.Definition();
  };
  const Numbers before = output(0), middle = output(1), after = output(2);
  double most = 0;
  for (int64_t i = 0; i < kTriedN * kTriedE; ++i)
    if (i / kTriedE != kToken)
      most = LargestOf(most, std::abs(before[i] - 2 * middle[i] + after[i]));
  return most;
}

Finding SynthesizerRule(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun run = Synthesizer("dense");
  const Measured bend = finding.Measure("bend of the synthesizer",
                                        Bend(run, {"x"})),
                 control = finding.Measure(
                     "bend of attention",
                     Bend(TriedAttention("softmax_attention"), {"k", "v"}));
  finding.Add(bend <= kTriedRounding && control > kClear,
              fmt::format("as one token changes, the output of the others "
                          "follows a straight line within {}, as its value "
                          "does: no weight of theirs changes (attention to "
                          "queries and keys bends by {})",
                          bend, control));
  AddPrograms(finding, run, "the synthesizer", run.Programs());
  return finding;
}

// The output for a sum of two inputs against the sum of their outputs.
double GapOfSums(const OperatorRun& run) {
  OperatorRun other = run, both = run;
  other["x"] = NormalNumbers(kTriedN * kTriedD, 7);
  for (size_t c = 0; c < both["x"].size(); ++c) both["x"][c] += other["x"][c];
  Numbers sum = run.Definition();
  const Numbers second = other.Definition();
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += second[c];
  return LargestDifference(both.Definition(), sum);
}

Finding RandomSynthesizer(const Evidence& evidence) {
  Finding finding(evidence);
  double most = 0;
  for (const char* kind : {"random", "factorized"})
    most = LargestOf(most, GapOfSums(Synthesizer(kind)));
  const Measured gap = finding.Measure("difference from the sum", most),
                 control = finding.Measure("difference with weights from data",
                                           GapOfSums(Synthesizer("dense")));
  finding.Add(
      gap <= kTriedRounding && control > kClear,
      fmt::format("with scores that are given, or a product of factors, "
                  "the output of a sum of inputs is the sum of their "
                  "outputs within {} (with scores from the tokens the "
                  "difference is {})",
                  gap, control));
  for (const char* kind : {"random", "factorized"}) {
    const OperatorRun run = Synthesizer(kind);
    AddPrograms(finding, run, fmt::format("the {} synthesizer", kind),
                run.Programs());
  }
  return finding;
}

OperatorRun Gmlp(bool mixes) {
  OperatorRun run("gmlp_mixing");
  run.Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi_u1", {kTriedD, kTriedD}, NormalNumbers(kTriedD * kTriedD, 2))
      .Give("phi_u2", {kTriedD, kTriedD}, NormalNumbers(kTriedD * kTriedD, 3))
      .Give("phi_v", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 4));
  if (mixes)
    run.Give("weights", {2 * kTriedN - 1}, NormalNumbers(2 * kTriedN - 1, 5));
  return run;
}

Finding Glu(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun mlp = Gmlp(true);
  const Measured unit = finding.Measure("difference of the unit",
                                        PermutationGap(Gmlp(false))),
                 gap = finding.Measure("difference of the MLP",
                                       PermutationGap(mlp));
  finding.Add(unit <= kRounding && gap > kClear,
              fmt::format("permuted tokens give the permuted output of a gated "
                          "linear unit within {}, and change that of a gated "
                          "MLP with a Toeplitz matrix by {}",
                          unit, gap));
  AddPrograms(finding, mlp, "the gated MLP", mlp.Programs());
  return finding;
}

// A ring of tokens with some chords, each edge in both directions.
Numbers RingEdges() {
  Numbers edges;
  const auto add = [&](int64_t i, int64_t j) {
    for (const int64_t end : {i, j, j, i})
      edges.push_back(static_cast<double>(end));
  };
  for (int64_t i = 0; i < kTriedN; ++i) add(i, (i + 1) % kTriedN);
  for (int64_t i = 0; i < kTriedN; i += 5) add(i, (7 * i + 3) % kTriedN);
  return edges;
}

OperatorRun Graph(const std::string& kind) {
  OperatorRun run("graph_attention");
  const Numbers edges = RingEdges();
  run.Set("kind", kind)
      .Give("x", {kTriedN, kTriedD}, NormalNumbers(kTriedN * kTriedD, 1))
      .Give("phi", {kTriedD, kTriedE}, NormalNumbers(kTriedD * kTriedE, 2))
      .Give("edges", {static_cast<int64_t>(edges.size()) / 2, 2}, edges);
  if (kind == "attention")
    run.Give("a_q", {kTriedE}, NormalNumbers(kTriedE, 3))
        .Give("a_k", {kTriedE}, NormalNumbers(kTriedE, 4));
  return run;
}

// How far rows move as one token changes: those of tokens with an edge to it,
// and the others.
struct Moved {
  double neighbours = 0, others = 0;
};
Moved MoveOneToken(OperatorRun run) {
  constexpr int64_t kToken = 20;
  const Numbers edges = RingEdges(), before = run.Definition();
  std::vector<bool> sees(static_cast<size_t>(kTriedN));
  sees[kToken] = true;
  for (size_t r = 0; r < edges.size(); r += 2)
    if (edges[r + 1] == kToken) sees[static_cast<size_t>(edges[r])] = true;
  for (int64_t a = 0; a < kTriedD; ++a) run["x"][kToken * kTriedD + a] += 1;
  const Numbers after = run.Definition();
  Moved moved;
  for (int64_t i = 0; i < kTriedN * kTriedE; ++i) {
    double& most = sees[static_cast<size_t>(i / kTriedE)] ? moved.neighbours
                                                          : moved.others;
    most = LargestOf(most, std::abs(after[i] - before[i]));
  }
  return moved;
}

Finding Graphs(const Evidence& evidence) {
  Finding finding(evidence);
  const OperatorRun convolution = Graph("convolution"),
                    attention = Graph("attention");
  const Measured gap = finding.Measure("difference of convolution from the sum",
                                       GapOfSums(convolution)),
                 of_data =
                     finding.Measure("difference of attention from the sum",
                                     GapOfSums(attention));
  finding.Add(gap <= kTriedRounding && of_data > kClear,
              fmt::format("graph convolution of a sum of inputs is the sum of "
                          "its outputs within {}: the graph alone decides who "
                          "hears whom (graph attention differs by {})",
                          gap, of_data));
  const Moved one = MoveOneToken(convolution), other = MoveOneToken(attention);
  const Measured neighbours =
                     finding.Measure("change along an edge",
                                     LeastOf(one.neighbours, other.neighbours)),
                 rest = finding.Measure("change without an edge",
                                        LargestOf(one.others, other.others));
  finding.Add(neighbours > kClear && rest == 0,
              fmt::format("a token that changes moves rows with an edge to it "
                          "by {} and all others by {}, with both",
                          neighbours, rest));
  AddPrograms(finding, convolution, "graph convolution",
              convolution.Programs());
  AddPrograms(finding, attention, "graph attention", attention.Programs());
  return finding;
}

// Whether token i sees token j, [kTriedN, kTriedN]: weights above zero, read
// with the identity for values.
std::vector<bool> PairsSeen(OperatorRun run) {
  run.Give("v", {kTriedN, kTriedN}, Identity(kTriedN));
  std::vector<bool> seen;
  for (double weight : run.Definition()) seen.push_back(weight > 0);
  return seen;
}

double Share(const std::vector<bool>& pairs) {
  return static_cast<double>(std::ranges::count(pairs, true)) /
         static_cast<double>(pairs.size());
}

// Of the pairs that are seen with these tokens or others, those that are not
// with both.
double ShareThatChanges(OperatorRun run) {
  const std::vector<bool> before = PairsSeen(run);
  run["q"] = NormalNumbers(kTriedN * kTriedD, 7);
  run["k"] = NormalNumbers(kTriedN * kTriedD, 8);
  std::vector<bool> after = PairsSeen(run), either = before, one = before;
  for (size_t pair = 0; pair < before.size(); ++pair) {
    either[pair] = before[pair] || after[pair];
    one[pair] = before[pair] != after[pair];
  }
  return Share(one) / Share(either);
}

OperatorRun Clustered(const std::string& kind) {
  OperatorRun run = TriedAttention("clustered_attention");
  run.Set("kind", kind);
  constexpr int64_t kClusters = 6;
  if (kind == "lsh")
    run.Give("rotations", {kTriedD, kClusters / 2},
             NormalNumbers(kTriedD * kClusters / 2, 4));
  else
    run.Give("centroids", {kClusters, kTriedD},
             NormalNumbers(kClusters * kTriedD, 4));
  return run;
}

// Rows of a Sinkhorn transformer that move as one key does, where its logits
// bring each block into the place of the one `by` blocks before: those of its
// own block and of that one, and the others.
Moved MoveOneKey(int64_t by) {
  constexpr int64_t kBlock = 8, kBlocks = kTriedN / kBlock;
  OperatorRun run = TriedAttention("sinkhorn_attention");
  Numbers logits(static_cast<size_t>(kBlocks * kBlocks), 0);
  for (int64_t b = 0; b < kBlocks; ++b)
    logits[b * kBlocks + (b + by) % kBlocks] = 500;
  run.Set("block", kBlock)
      .Set("iterations", int64_t{5})
      .Give("logits", {kBlocks, kBlocks}, logits);
  const Numbers before = run.Definition();
  for (int64_t a = 0; a < kTriedD; ++a) run["k"][a] += 1;  // of block 0
  const Numbers after = run.Definition();
  Moved moved;
  for (int64_t i = 0; i < kTriedN * kTriedE; ++i) {
    const int64_t block = i / kTriedE / kBlock;
    double& most = block == 0 || (block + by) % kBlocks == 0 ? moved.neighbours
                                                             : moved.others;
    most = LargestOf(most, std::abs(after[i] - before[i]));
  }
  return moved;
}

Finding LearnedSparsity(const Evidence& evidence) {
  Finding finding(evidence);
  double most = 0, changed = HUGE_VAL;
  for (const char* kind : {"lsh", "centroids"}) {
    const OperatorRun run = Clustered(kind);
    most = LargestOf(most, Share(PairsSeen(run)));
    changed = LeastOf(changed, ShareThatChanges(run));
  }
  OperatorRun fixed = TriedAttention("sparse_attention");
  fixed.Set("pattern", std::string("local"))
      .Set("causal", false)
      .Set("block", int64_t{8});
  const Measured share = finding.Measure("largest share of pairs", most),
                 data = finding.Measure("share that changes", changed),
                 control = finding.Measure("share that changes of a fixed one",
                                           ShareThatChanges(fixed));
  finding.Add(share < 0.5 && data > kClear && control == 0,
              fmt::format("hashes and centroids of 6 clusters leave {} of the "
                          "pairs at most; which ones follows the tokens: with "
                          "others, {} of the pairs seen with one or the other "
                          "are not seen with both (of a pattern of blocks, {})",
                          share, data, control));
  double brought = HUGE_VAL, elsewhere = 0;
  for (const int64_t by : {1, 2, 4}) {
    const Moved moved = MoveOneKey(by);
    brought = LeastOf(brought, moved.neighbours);
    elsewhere = LargestOf(elsewhere, moved.others);
  }
  const Measured near = finding.Measure("change where blocks are brought",
                                        brought),
                 far = finding.Measure("change of other blocks", elsewhere);
  finding.Add(near > kClear && far <= kTriedRounding,
              fmt::format("blocks sorted by a matrix of logits: a key that "
                          "changes moves its own block and the one that the "
                          "logits bring it to by {}, and others by {}",
                          near, far));
  for (const char* kind : {"lsh", "centroids"}) {
    const OperatorRun run = Clustered(kind);
    AddPrograms(finding, run,
                fmt::format("attention within clusters ({})", kind),
                run.Programs());
  }
  return finding;
}

}  // namespace

std::vector<NamedRule> SurveyMixingRules() {
  return {{"survey-learned-sparse", LearnedSparsity},
          {"survey-dynamic-convolution", DynamicConvolution},
          {"survey-synthesizer", SynthesizerRule},
          {"survey-random-synthesizer", RandomSynthesizer},
          {"survey-graphs", Graphs},
          {"survey-glu", Glu}};
}

}  // namespace subquad
