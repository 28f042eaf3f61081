// Properties of attention along the edges of a graph, each with a control that
// can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/judging/operator_run.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

using Edges = std::vector<std::pair<int64_t, int64_t>>;

struct Sizes {
  int64_t n, token, e;
};
constexpr Sizes kSizes = {140, 12, 9};

Numbers Flat(const Edges& edges) {
  Numbers flat;
  for (const auto& [query, key] : edges) {
    flat.push_back(static_cast<double>(query));
    flat.push_back(static_cast<double>(key));
  }
  return flat;
}

// Returns `count` random edges, each in both directions.
Edges RandomEdges(int64_t n, int64_t count) {
  std::mt19937 random(1);
  Edges edges;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t i = static_cast<int64_t>(random() % n);
    const int64_t j = static_cast<int64_t>(random() % n);
    edges.emplace_back(i, j);
    edges.emplace_back(j, i);
  }
  return edges;
}

OperatorRun Graph(const std::string& kind, const Edges& edges,
                  const Sizes& s = kSizes) {
  const auto by = [](int64_t count) {
    return 1 / std::sqrt(static_cast<double>(count));
  };
  OperatorRun run("graph_attention");
  run.Set("kind", kind)
      .Give("x", {s.n, s.token}, NormalNumbers(s.n * s.token, 1))
      .Give("phi", {s.token, s.e},
            NormalNumbers(s.token * s.e, 2, by(s.token)));
  if (!edges.empty())
    run.Give("edges", {static_cast<int64_t>(edges.size()), 2}, Flat(edges));
  if (kind == "attention")
    run.Give("a_q", {s.e}, NormalNumbers(s.e, 3, by(s.e)))
        .Give("a_k", {s.e}, NormalNumbers(s.e, 4, by(s.e)));
  return run;
}

constexpr const char* kKinds[] = {"convolution", "attention"};

Edges AllPairs(int64_t n) {
  Edges edges;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) edges.emplace_back(i, j);
  return edges;
}

// Omitting the edges means an edge between every two tokens; omitting only
// those of one token does not.
TEST(GraphAttention, LeftOutEdgesAreTheCompleteGraph) {
  Edges edges = AllPairs(kSizes.n);
  for (const char* kind : kKinds) {
    OperatorRun complete = Graph(kind, {}), with_edges = Graph(kind, edges);
    OperatorRun fewer =
        Graph(kind, {edges.begin() + kSizes.n, edges.end()});  // omits token
                                                               // 0's
    for (const std::string& program : with_edges.Programs()) {
      const Numbers expected = with_edges.Run(program);
      for (const std::string& other : complete.Programs())
        EXPECT_LE(LargestDifference(complete.Run(other), expected), kRounding)
            << program << " " << other;
      EXPECT_GT(LargestDifference(fewer.Run(program), expected), 0.1);
    }
  }
  EXPECT_EQ(Graph("attention", {}).Programs(),
            (std::vector<std::string>{"dense", "sorted"}));
}

// The order of edges, duplicates, and edges from a token to itself change no
// bit.
TEST(GraphAttention, EdgesAreASet) {
  const Edges edges = RandomEdges(kSizes.n, 100);
  Edges again = edges;
  std::reverse(again.begin(), again.end());
  again.insert(again.end(), edges.begin(), edges.begin() + 50);
  again.emplace_back(7, 7);
  Edges more = edges;
  more.emplace_back(3, 80);
  more.emplace_back(80, 3);
  for (const char* kind : kKinds) {
    OperatorRun run = Graph(kind, edges);
    for (const std::string& program : run.Programs()) {
      EXPECT_EQ(Graph(kind, again).Run(program), run.Run(program)) << program;
      EXPECT_NE(Graph(kind, more).Run(program), run.Run(program)) << program;
    }
  }
}

// A token without edges keeps its own value, and no other row reads it.
TEST(GraphAttention, EdgesAreAllThatARowReads) {
  Edges edges;
  for (const auto& edge : RandomEdges(kSizes.n, 300))
    if (edge.first != 20 && edge.second != 20) edges.push_back(edge);
  for (const char* kind : kKinds) {
    OperatorRun run = Graph(kind, edges), changed = run;
    changed["x"][20 * kSizes.token] += 1;
    changed["x"][30 * kSizes.token] += 1;
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program), other = changed.Run(program);
      for (int64_t c = 0; c < kSizes.e; ++c) {
        double own = 0;
        for (int64_t a = 0; a < kSizes.token; ++a)
          own += run["x"][20 * kSizes.token + a] * run["phi"][a * kSizes.e + c];
        EXPECT_NEAR(out[20 * kSizes.e + c], own, kRounding) << program;
      }
      for (int64_t i = 0; i < kSizes.n; ++i) {
        const bool reads =
            i == 20 || i == 30 ||
            std::ranges::count(edges, std::pair(i, int64_t{30})) > 0;
        const auto row = out.begin() + i * kSizes.e;
        EXPECT_EQ(std::equal(row, row + kSizes.e, other.begin() + i * kSizes.e),
                  !reads)
            << program << " row " << i;
      }
    }
  }
}

// D^-1/2 A D^-1/2: symmetric, with the eigenvector sqrt(D) of the eigenvalue
// one.
TEST(GraphAttention, ConvolutionIsTheNormalisedAdjacency) {
  const int64_t n = 40;
  const Edges edges = RandomEdges(n, 60);
  OperatorRun run = Graph("convolution", edges, {n, n, n});
  for (const char* name : {"x", "phi"}) {
    std::fill(run[name].begin(), run[name].end(), 0);
    for (int64_t i = 0; i < n; ++i) run[name][i * (n + 1)] = 1;
  }
  for (const std::string& program : run.Programs()) {
    const Numbers weights = run.Run(program);
    Numbers roots;
    for (int64_t i = 0; i < n; ++i)
      roots.push_back(std::sqrt(static_cast<double>(
          n - std::count(weights.begin() + i * n, weights.begin() + i * n + n,
                         0.0))));
    EXPECT_GT(*std::ranges::max_element(roots), 1.5);
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_NEAR(weights[i * n + j], weights[j * n + i], kRounding);
        sum += weights[i * n + j] * roots[j];
      }
      EXPECT_NEAR(sum, roots[i], kRounding) << program;
    }
  }
}

// Permuting the tokens together with their edges permutes the rows. Permuting
// the tokens alone makes another graph. Attention over all tokens has no order
// at all.
TEST(GraphAttention, IsEquivariantUnderPermutationsOfTheGraph) {
  std::vector<int64_t> place(static_cast<size_t>(kSizes.n));
  std::iota(place.begin(), place.end(), 0);
  std::mt19937 random(2);
  std::ranges::shuffle(place, random);
  const auto moved = [&](const Numbers& rows, int64_t width) {
    Numbers to(rows.size());
    for (int64_t i = 0; i < kSizes.n; ++i)
      std::copy_n(rows.begin() + i * width, width,
                  to.begin() + place[i] * width);
    return to;
  };
  const Edges edges = RandomEdges(kSizes.n, 150);
  Edges moved_edges;
  for (const auto& [i, j] : edges) moved_edges.emplace_back(place[i], place[j]);
  for (const char* kind : kKinds)
    for (const bool complete : {false, true}) {
      OperatorRun run = Graph(kind, complete ? Edges{} : edges);
      OperatorRun other = Graph(kind, complete ? Edges{} : moved_edges);
      OperatorRun same_edges = run;
      other["x"] = moved(run["x"], kSizes.token);
      same_edges["x"] = other["x"];
      for (const std::string& program : run.Programs()) {
        const Numbers expected = moved(run.Run(program), kSizes.e);
        EXPECT_LE(LargestDifference(other.Run(program), expected), kRounding)
            << program;
        const double kept =
            LargestDifference(same_edges.Run(program), expected);
        if (complete)
          EXPECT_LE(kept, kRounding);
        else
          EXPECT_GT(kept, 0.1);
      }
    }
}

// Tests scores that are all above zero, all below or mixed, slopes of zero and
// one, and parts that are far apart.
TEST(GraphAttention, SortedEqualsTheDefinitionEverywhere) {
  for (const double slope : {0.0, 0.2, 1.0})
    for (const double shift : {-1000.0, -3.0, 0.0, 3.0, 1000.0})
      for (const double spread : {0.0, 1.0, 300.0}) {
        OperatorRun run = Graph("attention", {}, {130, 3, 2});
        run.Set("slope", slope);
        for (int64_t i = 0; i < 130; ++i) run["x"][i * 3] = 1;
        // The first value is a constant and the second one varies.
        run["phi"] = {1, 0, 0, 1, 0, 0.5};
        run["a_q"] = {shift, spread / 2};
        run["a_k"] = {shift / 2, spread};
        SCOPED_TRACE(testing::Message()
                     << slope << " " << shift << " " << spread);
        ExpectDefinition(run, 1e-11);
      }
  OperatorRun steep = Graph("attention", {});
  steep.Set("slope", 1.5);
  EXPECT_EQ(steep.Programs(), std::vector<std::string>{"dense"});
}

// A slope of one adds the same amount to all scores of a query, and all rows
// are equal.
TEST(GraphAttention, ALinearScoreForgetsTheQuery) {
  for (const double slope : {0.2, 1.0}) {
    OperatorRun run = Graph("attention", {});
    run.Set("slope", slope);
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      double off = 0;
      for (size_t x = static_cast<size_t>(kSizes.e); x < out.size(); ++x)
        off = std::max(
            off, std::abs(out[x] - out[x % static_cast<size_t>(kSizes.e)]));
      if (slope == 1)
        EXPECT_LE(off, kRounding) << program;
      else
        EXPECT_GT(off, 0.1) << program;
    }
  }
}

TEST(GraphAttention, HeadsHaveTheirOwnEdges) {
  const Edges first = RandomEdges(kSizes.n, 100);
  Edges second = first;
  for (auto& [i, j] : second) {
    i = kSizes.n - 1 - i;
    j = kSizes.n - 1 - j;
  }
  const auto count = static_cast<int64_t>(first.size());
  for (const char* kind : kKinds) {
    OperatorRun both = Graph(kind, {});
    Numbers edges = Flat(first);
    const Numbers more = Flat(second);
    edges.insert(edges.end(), more.begin(), more.end());
    both.Give("edges", {2, count, 2}, edges);
    for (const std::string& program : both.Programs()) {
      Numbers expected = Graph(kind, first).Run(program);
      const Numbers other = Graph(kind, second).Run(program);
      EXPECT_NE(other, expected);
      expected.insert(expected.end(), other.begin(), other.end());
      EXPECT_EQ(both.Run(program), expected) << program;
    }
  }
}

// Returns the error of CheckNumbers about edges; empty if they are valid.
std::string Complaint(const std::string& kind, const Edges& edges,
                      double part = 0) {
  OperatorRun run = Graph(kind, edges);
  run["edges"][3] += part;
  const Problem problem = run.Resolve(Scalar::kFloat64);
  Inputs inputs;
  inputs.tensors.push_back(
      {"edges", {static_cast<int64_t>(edges.size()), 2}, {}, run["edges"]});
  inputs.tensors.back().slices =
      problem.InputSlices(static_cast<size_t>(problem.InputIndex("edges")));
  try {
    problem.op->CheckNumbers(problem, inputs);
  } catch (const InvalidInput& invalid) {
    return invalid.what();
  }
  return "";
}

TEST(GraphAttention, RefusesInvalidEdges) {
  const Edges both = {{0, 1}, {1, 0}, {2, 2}};
  for (const char* kind : kKinds) {
    EXPECT_EQ(Complaint(kind, both), "");
    EXPECT_NE(Complaint(kind, {{0, 1}, {1, 140}}).find("edge 1"),
              std::string::npos);
    EXPECT_NE(Complaint(kind, {{0, 1}, {1, -1}}).find("from 0 to 139"),
              std::string::npos);
    EXPECT_NE(Complaint(kind, both, 0.5).find("whole numbers"),
              std::string::npos);
  }
  const Edges one_way = {{0, 1}, {1, 0}, {5, 3}};
  EXPECT_EQ(Complaint("attention", one_way), "");
  EXPECT_NE(Complaint("convolution", one_way).find("(5, 3) without (3, 5)"),
            std::string::npos);
}

TEST(GraphAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const char* kind : kKinds)
    for (const Sizes& s :
         {Sizes{1, 1, 1}, Sizes{5, 3, 70}, Sizes{300, 5, 17}}) {
      SCOPED_TRACE(s.n);
      ExpectDefinition(Graph(kind, {}, s), kRounding);
      ExpectDefinition(Graph(kind, RandomEdges(s.n, 2 * s.n), s), kRounding);
    }
}

// A token may have more keys than one part of a sum.
TEST(GraphAttention, OneTokenSeesAll) {
  const int64_t n = 1500;
  Edges edges;
  for (int64_t j = 0; j < n; ++j) {
    edges.emplace_back(4, j);
    edges.emplace_back(j, 4);
  }
  for (const char* kind : kKinds)
    ExpectDefinition(Graph(kind, edges, {n, 3, 2}), kRounding);
}

}  // namespace
}  // namespace subquad
