#include "harness/papers/claims/counts.h"

#include <cmath>

#include "harness/judging/operator_run.h"
#include "harness/papers/claims/counted.h"

namespace subquad {
namespace {

Row<Counted> Counting(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

Numbers Positive(Numbers numbers) {
  for (double& x : numbers) x = std::abs(x) + 0.1;
  return numbers;
}

// Operations of `run` for each size.
template <typename Run>
Counts CountEach(std::vector<int64_t> sizes, Run run) {
  Counts counts;
  for (int64_t size : sizes) {
    Counted::Reset();
    run(size);
    counts.sizes.push_back(static_cast<double>(size));
    counts.operations.push_back(static_cast<double>(Counted::operations()));
  }
  return counts;
}

}  // namespace

const Theory kLinearGrowth = {"{0}", [](double n) { return n; }};
const Theory kNLogN = {"{0} log2 {0}",
                       [](double n) { return n * std::log2(n); }};
const Theory kSquare = {"{0}^2", [](double n) { return n * n; }};

bool GrowsAs(const Counts& counts, const Theory& theory) {
  if (counts.sizes.size() < 3 ||
      counts.sizes.size() != counts.operations.size() ||
      !(counts.sizes.back() >= 8 * counts.sizes.front()))
    return false;
  const double first = counts.operations.front() / theory.of(counts.sizes[0]),
               last = counts.operations.back() / theory.of(counts.sizes.back());
  return first > 0 && last / first <= 1.25 && first / last <= 1.25;
}

ToeplitzCounts CountToeplitz() {
  const auto weights = [](int64_t n) { return NormalNumbers(2 * n - 1, 1); };
  const auto values = [](int64_t n) { return NormalNumbers(n, 2); };
  ToeplitzCounts counts;
  counts.transform = CountEach({256, 1024, 4096, 16384}, [&](int64_t n) {
    ToeplitzByTransform(Counting(weights(n)), Counting(values(n)), 1);
  });
  counts.direct = CountEach({64, 256, 1024}, [&](int64_t n) {
    ToeplitzDirect(Counting(weights(n)), Counting(values(n)), 1);
  });
  constexpr int64_t kN = 48;
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kN - 1}, weights(kN))
      .Give("values", {kN, 1}, values(kN));
  counts.gap = LargestDifference(
      ToeplitzByTransform(weights(kN), values(kN), 1), run.Definition());
  return counts;
}

double TransformOperations(int64_t n) {
  return CountEach({n},
                   [](int64_t size) {
                     ToeplitzByTransform(
                         Row<Counted>(static_cast<size_t>(2 * size - 1)),
                         Row<Counted>(static_cast<size_t>(size)), 1);
                   })
      .operations[0];
}

ImageCounts CountImage() {
  ImageCounts counts;
  counts.sums = CountEach({32, 64, 128, 256, 512, 1024}, [](int64_t side) {
    ImageBySums(Row<Counted>(static_cast<size_t>(2 * side - 1)),
                Row<Counted>(static_cast<size_t>(side * side)),
                static_cast<size_t>(side));
  });
  constexpr int64_t kSide = 9;
  const Numbers weights = NormalNumbers(2 * kSide - 1, 1),
                values = NormalNumbers(kSide * kSide, 2);
  OperatorRun run("toeplitz_2d_xy");
  run.Set("height", kSide)
      .Set("width", kSide)
      .Give("weights_rows", {2 * kSide - 1}, weights)
      .Give("weights_cols", {2 * kSide - 1}, weights)
      .Give("values", {kSide * kSide, 1}, values);
  counts.gap =
      LargestDifference(ImageBySums(weights, values, kSide), run.Definition());
  return counts;
}

LinearCounts CountLinear() {
  const auto run = [](int64_t n, size_t width, bool shared) {
    const auto count = n * static_cast<int64_t>(width);
    return LinearAttention(Counting(Positive(NormalNumbers(count, 1))),
                           Counting(Positive(NormalNumbers(count, 2))),
                           Counting(NormalNumbers(count, 3)), width, width,
                           shared);
  };
  LinearCounts counts;
  counts.shared =
      CountEach({128, 512, 2048}, [&](int64_t n) { run(n, 8, true); });
  counts.pairs =
      CountEach({64, 256, 1024}, [&](int64_t n) { run(n, 8, false); });
  counts.width = CountEach({16, 32, 64, 128}, [&](int64_t width) {
    run(64, static_cast<size_t>(width), true);
  });
  const Row<Counted> shared = run(40, 6, true), pairs = run(40, 6, false);
  counts.gap = shared.size() == pairs.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < shared.size(); ++i)
    counts.gap =
        std::max(counts.gap, std::abs(shared[i].value() - pairs[i].value()));
  return counts;
}

BiasCounts CountBias() {
  constexpr int64_t kF = 3, kE = 2;
  const auto run = [](auto as, int64_t n, bool transform) {
    return KernelizedBias(
        as(Positive(NormalNumbers(n * kF, 1))),
        as(Positive(NormalNumbers(n * kF, 2))), as(NormalNumbers(n * kE, 3)),
        as(Positive(NormalNumbers(2 * n - 1, 4))), kF, kE, transform);
  };
  BiasCounts counts;
  counts.transform = CountEach({256, 1024, 4096, 16384},
                               [&](int64_t n) { run(Counting, n, true); });
  counts.direct =
      CountEach({64, 256, 1024}, [&](int64_t n) { run(Counting, n, false); });
  const auto plain = [](Numbers numbers) { return numbers; };
  counts.gap = LargestDifference(run(plain, 48, true), run(plain, 48, false));
  return counts;
}

ClippedCounts CountClipped() {
  constexpr int64_t kD = 8;
  const auto part = [](int which, int64_t rows, int64_t keys, int64_t r) {
    int64_t operations[3] = {};
    ClippedProduct(Counting(NormalNumbers(rows * kD, 1)),
                   Counting(NormalNumbers((2 * r + 1) * kD, 2)),
                   Counting(NormalNumbers(keys * kD, 3)), kD,
                   static_cast<size_t>(r), operations);
    return static_cast<double>(operations[which]);
  };
  ClippedCounts counts;
  for (int64_t r : {4, 16, 64}) {
    counts.products_k.sizes.push_back(static_cast<double>(2 * r + 1));
    counts.products_k.operations.push_back(part(1, 512, 512, r));
  }
  for (int64_t r : {8, 16, 32, 64}) {
    counts.window_k.sizes.push_back(static_cast<double>(2 * r - 1));
    counts.window_k.operations.push_back(part(2, 1024, 1024, r));
  }
  for (int64_t length : {64, 256, 1024}) {
    const auto size = static_cast<double>(length);
    counts.products_q.sizes.push_back(size);
    counts.products_q.operations.push_back(part(1, length, 300, 8));
    counts.sums_keys.sizes.push_back(size);
    counts.sums_keys.operations.push_back(part(0, 300, length, 8));
  }
  counts.gap = 0;
  for (const auto& [rows, keys, r] :
       {std::tuple<int64_t, int64_t, int64_t>{20, 20, 3},
        {9, 31, 4},
        {31, 9, 4},
        {12, 12, 40}}) {
    const Numbers q = NormalNumbers(rows * kD, 1),
                  rpe = NormalNumbers((2 * r + 1) * kD, 2),
                  v = NormalNumbers(keys * kD, 3);
    OperatorRun run("clipped_rpe_product");
    run.Give("q", {rows, kD}, q)
        .Give("rpe", {2 * r + 1, kD}, rpe)
        .Give("v", {keys, kD}, v);
    const double gap =
        LargestDifference(ClippedProduct(q, rpe, v, kD, static_cast<size_t>(r)),
                          run.Definition());
    counts.gap = gap <= counts.gap ? counts.gap : gap;
  }
  return counts;
}

DistanceCounts CountDistances() {
  constexpr int64_t kD = 4, kP = 5;
  const auto run = [](int64_t segment, int64_t memory, bool once,
                      int64_t* products) {
    const int64_t keys = segment + memory;
    return DistanceScores(
        Counting(NormalNumbers(segment * kD, 1)),
        Counting(NormalNumbers(kD, 2)), Counting(NormalNumbers(keys * kP, 3)),
        Counting(NormalNumbers(kD * kP, 4)), kD, kP, once, products);
  };
  DistanceCounts counts = {};
  counts.segment = 96;
  counts.memory = 32;
  int64_t once = 0, pairs = 0;
  const Row<Counted> a = run(counts.segment, counts.memory, true, &once),
                     b = run(counts.segment, counts.memory, false, &pairs);
  counts.once = static_cast<double>(once) / (2 * kD * kP);
  counts.pairs = static_cast<double>(pairs) / (2 * kD * kP);
  counts.distances = static_cast<double>(counts.segment + counts.memory);
  counts.visible =
      static_cast<double>(counts.segment * counts.memory +
                          counts.segment * (counts.segment + 1) / 2);
  for (size_t i = 0; i < a.size(); ++i)
    counts.gap = std::max(counts.gap, std::abs(a[i].value() - b[i].value()));
  counts.all = CountEach({32, 64, 128, 256},
                         [&](int64_t size) { run(size, size, true, nullptr); });
  return counts;
}

}  // namespace subquad
