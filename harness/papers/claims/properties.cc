#include "harness/papers/claims/properties.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "harness/base/memory_counter.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/claims/counts.h"
#include "reference/position_attention.h"

namespace subquad {
namespace {

Numbers Identity(int64_t n) {
  Numbers x(n * n);
  for (int64_t i = 0; i < n; ++i) x[i * n + i] = 1;
  return x;
}

Numbers Rows(const Numbers& x, int64_t width, int64_t first, int64_t end) {
  return Numbers(x.begin() + first * width, x.begin() + end * width);
}

Numbers Permuted(const Numbers& x, int64_t width,
                 const std::vector<int64_t>& order) {
  Numbers y;
  for (int64_t row : order)
    y.insert(y.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  return y;
}

}  // namespace

// ---- FastRPB ---------------------------------------------------------------

double ChangeByShift(const std::string& feature_map) {
  constexpr int64_t kN = 20, kD = 6;
  OperatorRun run("linear_attention");
  run.Set("feature_map", feature_map)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3));
  if (feature_map == "dpfp") run.Set("nu", int64_t{2});
  OperatorRun shifted = run;
  for (double& x : shifted["q"]) x += 0.7;
  for (double& x : shifted["k"]) x -= 0.4;
  return LargestDifference(shifted.Definition(), run.Definition());
}

Padding PadToSquare(int64_t height, int64_t width) {
  constexpr int64_t kE = 2;
  const int64_t side = std::max(height, width);
  const Numbers weights = NormalNumbers(2 * side - 1, 1);
  const Numbers values = NormalNumbers(height * width * kE, 2);
  const auto image = [&](int64_t h, int64_t w, Numbers rows, Numbers columns,
                         Numbers v) {
    OperatorRun run("toeplitz_2d_xy");
    run.Set("height", h)
        .Set("width", w)
        .Give("weights_rows", {2 * h - 1}, std::move(rows))
        .Give("weights_cols", {2 * w - 1}, std::move(columns))
        .Give("values", {h * w, kE}, std::move(v));
    return run;
  };
  // The weights of offsets that occur in `extent` pixels.
  const auto middle = [&](int64_t extent) {
    return Rows(weights, 1, side - extent, side + extent - 1);
  };
  const auto first = [&](int64_t extent) {
    return Rows(weights, 1, 0, 2 * extent - 1);
  };
  Numbers padded(side * side * kE);
  for (int64_t r = 0; r < height; ++r)
    std::copy_n(values.begin() + r * width * kE, width * kE,
                padded.begin() + r * side * kE);
  const OperatorRun two =
      image(height, width, middle(height), middle(width), values);
  const OperatorRun square = image(side, side, weights, weights, padded);
  const OperatorRun wrong =
      image(height, width, first(height), first(width), values);
  // By the paper's algorithm, not by the definition.
  const Numbers whole = square.Run("xy");
  Numbers cropped;
  for (int64_t r = 0; r < height; ++r) {
    const Numbers row = Rows(whole, kE, r * side, r * side + width);
    cropped.insert(cropped.end(), row.begin(), row.end());
  }
  const Numbers definition = two.Definition();
  const auto bytes = [](const OperatorRun& run) {
    return FindImplementation("toeplitz_2d_xy", "xy")
        .CostOf(run.Resolve(Scalar::kFloat32), 1)
        .bytes;
  };
  return {.gap = LargestDifference(cropped, definition),
          .unpadded = LargestDifference(wrong.Definition(), definition),
          .more_pixels = static_cast<double>(side * side) /
                         static_cast<double>(height * width),
          .more_bytes = bytes(square) / bytes(two)};
}

// ---- Transformers II -------------------------------------------------------

namespace {

// Of an empty scheme: plain self-attention.
OperatorRun PositionRun(const std::string& scheme, int64_t n, int64_t wide,
                        int64_t e) {
  constexpr int64_t kD = 6;
  OperatorRun run("position_attention");
  // Plain self-attention is scheme `bias` with a bias of zero.
  const std::string used = scheme.empty() ? "bias" : scheme;
  run.Set("scheme", used)
      .Give("x", {n, wide}, NormalNumbers(n * wide, 1))
      .Give("w_q", {wide, kD}, NormalNumbers(wide * kD, 2, 0.4))
      .Give("w_k", {wide, kD}, NormalNumbers(wide * kD, 3, 0.4))
      .Give("w_v", {wide, e}, NormalNumbers(wide * e, 4, 0.4));
  const int64_t offsets = 2 * n - 1;
  if (used == "absolute" || used == "absolute_scores" || used == "untied")
    run.Give("pos", {n, wide}, NormalNumbers(n * wide, 5));
  if (used == "shaw")
    run.Give("rel", {offsets, kD}, NormalNumbers(offsets * kD, 6));
  if (used == "deberta")
    run.Give("rel", {offsets, wide}, NormalNumbers(offsets * wide, 6));
  if (used == "bias" || used == "multiplicative")
    run.Give("bias", {offsets},
             scheme.empty() ? Numbers(offsets) : NormalNumbers(offsets, 7));
  if (used == "untied" || used == "deberta")
    run.Give("u_q", {wide, kD}, NormalNumbers(wide * kD, 8, 0.4))
        .Give("u_k", {wide, kD}, NormalNumbers(wide * kD, 9, 0.4));
  return run;
}

}  // namespace

double SchemeGap(const std::string& scheme) {
  const OperatorRun run = PositionRun(scheme, 24, 7, 5);
  const Numbers exact = run.Definition();
  double largest = 0, worst = 0;
  for (double x : exact) largest = std::max(largest, std::abs(x));
  for (const std::string& program : run.Programs()) {
    const double gap = LargestDifference(run.Run(program), exact) / largest;
    worst = gap <= worst ? worst : gap;
  }
  return worst;
}

double EquivarianceGap(const std::string& scheme) {
  constexpr int64_t kN = 24, kWide = 7, kE = 5;
  OperatorRun run = PositionRun(scheme, kN, kWide, kE);
  std::vector<int64_t> order(kN);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 generator(9);
  std::shuffle(order.begin(), order.end(), generator);
  OperatorRun permuted = run;
  permuted["x"] = Permuted(run["x"], kWide, order);
  return LargestDifference(permuted.Definition(),
                           Permuted(run.Definition(), kE, order));
}

Rotation RotatePositions(int64_t width, int64_t positions) {
  Rotation rotation = {};
  for (int64_t pair = 0; pair < width / 2; ++pair) {
    const double omega = std::pow(
        10000.0, -2 * static_cast<double>(pair) / static_cast<double>(width));
    for (int64_t i = 0; i < positions; ++i)
      for (int64_t j = 0; i + j < positions; ++j) {
        const double at = omega * static_cast<double>(i);
        const double by = omega * static_cast<double>(j);
        const auto gap = [&](double angle) {
          const double sine =
              std::cos(angle) * std::sin(at) + std::sin(angle) * std::cos(at);
          const double cosine =
              -std::sin(angle) * std::sin(at) + std::cos(angle) * std::cos(at);
          return std::max(std::abs(sine - std::sin(at + by)),
                          std::abs(cosine - std::cos(at + by)));
        };
        rotation.gap = std::max(rotation.gap, gap(by));
        rotation.other_way = std::max(rotation.other_way, gap(-by));
      }
  }
  return rotation;
}

Convolution HeadsAsConvolution() {
  constexpr int64_t kN = 16, kWide = 5;
  const Numbers x = NormalNumbers(kN * kWide, 1);
  // One head: w_q = w_k = 0, w_v = 1, a bias that is large for one offset.
  const auto head = [&](int64_t offset, double large) {
    OperatorRun run("position_attention");
    Numbers bias(2 * kN - 1);
    bias[offset + kN - 1] = large;
    run.Set("scheme", std::string("bias"))
        .Set("scale", 1.0)
        .Give("x", {kN, kWide}, x)
        .Give("w_q", {kWide, 2}, Numbers(kWide * 2))
        .Give("w_k", {kWide, 2}, Numbers(kWide * 2))
        .Give("w_v", {kWide, kWide}, Identity(kWide))
        .Give("bias", {2 * kN - 1}, bias);
    return run.Definition();
  };
  // sum of taps times the row at an offset; rows beyond the ends are zero.
  const auto convolve = [&](const std::vector<int64_t>& offsets,
                            const Numbers& taps) {
    Numbers out(kN * kWide);
    for (int64_t i = 0; i < kN; ++i)
      for (size_t t = 0; t < offsets.size(); ++t)
        if (const int64_t j = i + offsets[t]; j >= 0 && j < kN)
          for (int64_t c = 0; c < kWide; ++c)
            out[i * kWide + c] += taps[t] * x[j * kWide + c];
    return out;
  };
  constexpr double kLarge = 60;
  const std::vector<int64_t> offsets = {-2, 0, 3};
  const Numbers taps = {0.5, -1.25, 2};
  Numbers mixed(kN * kWide);  // eq. 23 with weights that are equal in a head
  for (size_t t = 0; t < offsets.size(); ++t) {
    const Numbers out = head(offsets[t], kLarge);
    for (size_t c = 0; c < mixed.size(); ++c) mixed[c] += taps[t] * out[c];
  }
  const Numbers convolution = convolve(offsets, taps);
  const Numbers shift = convolve({3}, {1});
  const auto gap = [&](const Numbers& a, const Numbers& b, int64_t first,
                       int64_t end) {
    return LargestDifference(Rows(a, kWide, first, end),
                             Rows(b, kWide, first, end));
  };
  return {.shift = gap(head(3, kLarge), shift, 0, kN - 3),
          .convolution = gap(mixed, convolution, 2, kN - 3),
          .ends = std::max(gap(mixed, convolution, 0, 2),
                           gap(mixed, convolution, kN - 3, kN)),
          .blunt = gap(head(3, 1), shift, 0, kN - 3)};
}

Hopfield HopfieldUpdate() {
  constexpr int64_t kStored = 6, kD = 8;
  constexpr double kBeta = 1.5;
  const Numbers patterns = NormalNumbers(kStored * kD, 1);
  const auto attend = [&](const Numbers& state, const Numbers& values,
                          double beta) {
    OperatorRun run("softmax_attention");
    run.Set("scale", beta)
        .Give("q", {1, kD}, state)
        .Give("k", {kStored, kD}, patterns)
        .Give("v", {kStored, kD}, values);
    return run.Definition();
  };
  // E = |state|^2 / 2 - log(sum_j exp(beta pattern_j.state)) / beta.
  const auto energy = [&](const Numbers& state) {
    double square = 0, sum = 0;
    for (double x : state) square += x * x;
    for (int64_t j = 0; j < kStored; ++j) {
      double dot = 0;
      for (int64_t x = 0; x < kD; ++x) dot += state[x] * patterns[j * kD + x];
      sum += std::exp(kBeta * dot);
    }
    return square / 2 - std::log(sum) / kBeta;
  };
  Hopfield result = {};
  Numbers state = NormalNumbers(kD, 2);
  Numbers down = state;
  constexpr double kStep = 1e-5;  // central differences: right to kStep^2
  for (int64_t x = 0; x < kD; ++x) {
    Numbers above = state, below = state;
    above[x] += kStep;
    below[x] -= kStep;
    down[x] -= (energy(above) - energy(below)) / (2 * kStep);
  }
  result.gap = LargestDifference(attend(state, patterns, kBeta), down);
  result.other = LargestDifference(
      attend(state, NormalNumbers(kStored * kD, 3), kBeta), down);
  for (int step = 0; step < 20; ++step) {
    const Numbers next = attend(state, patterns, kBeta);
    result.rise = std::max(result.rise, energy(next) - energy(state));
    state = next;
  }
  // From near a pattern, with a sharp attention.
  const Numbers stored = Rows(patterns, kD, 2, 3);
  Numbers near = stored;
  const Numbers noise = NormalNumbers(kD, 4, 0.05);
  for (int64_t x = 0; x < kD; ++x) near[x] += noise[x];
  result.retrieved = LargestDifference(attend(near, patterns, 40), stored);
  return result;
}

// ---- NPRF ------------------------------------------------------------------

Generation GenerateTokens(int64_t n, bool check) {
  // By the length that its transforms are padded to.
  std::map<uint64_t, double> products;
  const auto product = [&](int64_t length) {
    const uint64_t padded = std::bit_ceil(static_cast<uint64_t>(length));
    const auto [known, fresh] = products.try_emplace(padded, 0);
    if (fresh)
      known->second = TransformOperations(static_cast<int64_t>(padded));
    return known->second;
  };
  Generation result = {};
  const Numbers c = NormalNumbers(n, 1);  // c[t] for a key t before the query
  Numbers x(n), y(n);
  if (check) x[0] = 1;
  for (int64_t i = 0; i < n; ++i) {
    result.direct += 2 * static_cast<double>(i + 1);
    result.algorithm += product(i + 1);
    if (check) y[i] += c[0] * x[i];
    const int64_t done = i + 1;
    // The largest power of two that divides the number of tokens so far: the
    // last block of that length contributes to as many of the next tokens.
    const int64_t length = done & -done;
    if (done < n) result.blocks += product(length);
    if (!check) continue;
    for (int64_t from = done - length; from < done; ++from)
      for (int64_t to = done; to < std::min(n, done + length); ++to)
        y[to] += c[to - from] * x[from];
    // The next token is made from this output, which is complete.
    if (done < n) x[done] = std::tanh(y[i]);
  }
  if (!check) return result;
  Numbers weights(2 * n - 1);
  for (int64_t t = 0; t < n; ++t) weights[n - 1 - t] = c[t];
  OperatorRun run("toeplitz_1d");
  run.Set("causal", true)
      .Give("weights", {2 * n - 1}, weights)
      .Give("values", {n, 1}, x);
  result.gap = LargestDifference(y, run.Definition());
  return result;
}

// ---- LRPE ------------------------------------------------------------------

std::vector<ChosenMemory> MeasureChoices() {
  std::vector<ChosenMemory> all;
  if (!MemoryCounter::Available()) return all;
  for (int64_t d : {16, 64})
    for (int64_t r : {2, 64})
      for (int64_t n : {32, 128, 512, 1024, 2048})
        for (bool causal : {false, true}) {
          CaseRequest request;
          request.op = &FindOperator("kernelized_clipped_rpe_attention");
          request.n = n;
          request.values = {{"d", std::to_string(d)},
                            {"e", std::to_string(d)},
                            {"r", std::to_string(r)},
                            {"causal", causal ? "1" : "0"}};
          const Case one = MakeCase(request);
          Problem problem = ProblemOf(one);
          Inputs inputs = GenerateInputs(one, problem);
          Trial trial(std::move(problem), std::move(inputs), 1);
          ChosenMemory chosen = {n, d, r, causal, 0, 0, 0, ""};
          const auto measure = [&](const char* id) {
            const PeakOf peak;
            const auto prepared =
                FindImplementation("kernelized_clipped_rpe_attention", id)
                    .Prepare(trial.problem(), trial.arrays(), {1});
            prepared->Run();
            if (std::string(id) == "auto") chosen.choice = prepared->Choice();
            return static_cast<double>(peak.bytes());
          };
          chosen.naive = measure("dense");
          chosen.linear = measure("linear");
          chosen.chosen = measure("auto");
          all.push_back(chosen);
        }
  return all;
}

}  // namespace subquad
