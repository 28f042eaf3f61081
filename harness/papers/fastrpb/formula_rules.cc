// Claims of FastRPB on Toeplitz products: equations, propositions and numbers
// of operations, computed by the command itself.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/frame/counts.h"
#include "harness/papers/frame/plain.h"
#include "harness/papers/frame/self_test.h"
#include "harness/papers/frame/sweep_parts.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kClear = 0.01;  // far more than rounding

// ---- appendix B, typed in as printed ---------------------------------------

// Weights of a line of n tokens, and the circulant matrix of eq. 15 that
// contains their matrix W: its first row is w_{-N+1} .. w_{N-1}, and each
// further row is shifted to the right.
struct Line {
  static constexpr int64_t kN = 7, kE = 3, kWide = 2 * kN - 1;

  Line() : run("toeplitz_1d") {
    run.Give("weights", {kWide}, NormalNumbers(kWide, 1))
        .Give("values", {kN, kE}, NormalNumbers(kN * kE, 2));
    for (int64_t i = 0; i < kWide; ++i)
      for (int64_t j = 0; j < kWide; ++j)
        circulant.push_back(run["weights"][(j - i + kWide) % kWide]);
    // Eq. 16: N-1 rows of zeros above the values.
    extended = Numbers((kN - 1) * kE);
    extended.insert(extended.end(), run["values"].begin(), run["values"].end());
  }

  OperatorRun run;
  Numbers circulant, extended;
};

// Weights by the offset of rows alone on an image of 3 x 3 pixels: X of eq. 19
// to 29. w(-2) .. w(2).
struct Square {
  explicit Square(Numbers values) : run("toeplitz_2d_xy") {
    const int64_t e = static_cast<int64_t>(values.size()) / 9;
    run.Set("height", int64_t{3})
        .Set("width", int64_t{3})
        .Give("weights_rows", {5}, NormalNumbers(5, 3))
        .Give("weights_cols", {5}, Numbers(5))
        .Give("values", {9, e}, std::move(values));
  }
  double w(int64_t offset) { return run["weights_rows"][offset + 2]; }
  // Three of each.
  Numbers Threes(int64_t first) {
    Numbers out;
    for (int64_t offset = first; offset < first + 3; ++offset)
      out.insert(out.end(), 3, w(offset));
    return out;
  }
  OperatorRun run;
};

Erratum BlockErratum() {
  Line line;
  constexpr int64_t kN = Line::kN, kWide = Line::kWide;
  const Numbers definition = line.run.Definition();
  // The printed slice has N-1 rows and N+1 columns, so its product with V is
  // not defined. The N x N block in the corner that it points to:
  const Numbers printed =
      MatrixProduct(Block(line.circulant, kWide, kN - 1, kWide, 0, kN),
                    line.run["values"], kN);
  const Numbers corrected =
      MatrixProduct(Block(line.circulant, kWide, 0, kN, kN - 1, kWide),
                    line.run["values"], kN);
  return {
      "eq. 15 has W = W_ext[N:, :N+1], N-1 rows and N+1 columns of the "
      "lower left corner (its N x N block is tried); W is the upper right "
      "block, W_ext[:N, N-1:]",
      LargestDifference(printed, definition),
      LargestDifference(corrected, definition), 0.1};
}

Erratum RowsErratum() {
  Line line;
  constexpr int64_t kWide = Line::kWide;
  const Numbers definition = line.run.Definition();
  const Numbers product = MatrixProduct(line.circulant, line.extended, kWide);
  const Numbers printed =
      Block(product, Line::kE, 0, Line::kN + 1, 0, Line::kE);
  const Numbers corrected = Block(product, Line::kE, 0, Line::kN, 0, Line::kE);
  return {
      "eq. 17 has W V = (W_ext V_ext)[:N+1], N+1 rows for N tokens; "
      "correct is [:N]",
      LargestDifference(printed, definition),
      LargestDifference(corrected, definition), 0.1};
}

Erratum FlatErratum() {
  Square square(Identity(9));
  const Numbers x = square.run.Definition();  // X itself
  // By eq. 21, 23 and 29 the pixels of the first row have C for their rows of
  // X, those of the last row A.
  const Numbers c = Block(x, 9, 0, 1, 0, 9), a = Block(x, 9, 6, 7, 0, 9);
  const Numbers printed_a = square.Threes(0), printed_c = square.Threes(-2);
  return {
      "eq. 28 gives a_flat the entries of C and c_flat those of A "
      "(eq. 20-26); they are swapped",
      LeastOf(LargestDifference(printed_a, a), LargestDifference(printed_c, c)),
      LargestOf(LargestDifference(printed_c, a),
                LargestDifference(printed_a, c)),
      0.1};
}

Erratum EntriesErratum() {
  Square square(NormalNumbers(9, 4));
  const Numbers definition = square.run.Definition();
  // R times the sums over the rows of the image (eq. 39).
  Numbers sums(3), greek(3);
  for (int64_t i = 0; i < 9; ++i) sums[i / 3] += square.run["values"][i];
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j) greek[i] += square.w(j - i) * sums[j];
  const double alpha = greek[0], beta = greek[1], gamma = greek[2];
  const Numbers printed = {alpha, alpha, beta, beta, beta, gamma, gamma, gamma};
  const Numbers corrected = {alpha, alpha, alpha, beta, beta,
                             beta,  gamma, gamma, gamma};
  return {"eq. 38 and 41 list 8 of the 9 entries; the first occurs three times",
          LargestDifference(printed, definition),
          LargestDifference(corrected, definition), 0.1};
}

Finding SlicesAsPrinted(const Evidence& evidence) {
  Finding finding(evidence);
  for (const Erratum& one :
       {BlockErratum(), RowsErratum(), FlatErratum(), EntriesErratum()})
    finding.Add(one);
  return finding;
}

Finding PropB1(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kSide = 5, kPixels = kSide * kSide;
  // The matrix X, or with `columns` Y: its rows are those of pixels.
  const auto matrix = [&](bool columns) {
    const Numbers weights = NormalNumbers(2 * kSide - 1, 1),
                  none(static_cast<size_t>(2 * kSide - 1));
    OperatorRun run("toeplitz_2d_xy");
    run.Set("height", kSide)
        .Set("width", kSide)
        .Give("weights_rows", {2 * kSide - 1}, columns ? none : weights)
        .Give("weights_cols", {2 * kSide - 1}, columns ? weights : none)
        .Give("values", {kPixels, kPixels}, Identity(kPixels));
    return run.Definition();
  };
  const auto spread = [&](bool columns, bool along_row) {
    const Numbers all = matrix(columns);
    double most = 0;
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x)
        for (int64_t p = 0; p < kPixels; ++p) {
          const int64_t other = along_row ? y * kSide : x;
          most = std::max(most, std::abs(all[(y * kSide + x) * kPixels + p] -
                                         all[other * kPixels + p]));
        }
    return most;
  };
  const Measured x_along = finding.Measure("difference along a row",
                                           spread(false, true)),
                 y_down = finding.Measure("difference down a column",
                                          spread(true, false)),
                 control = finding.Measure(
                     "least difference the other way",
                     LeastOf(spread(false, false), spread(true, true)));
  finding.Add(x_along == 0 && y_down == 0 && control > 0.01,
              fmt::format("the rows of X that belong to one row of pixels "
                          "differ by {}, those of Y that belong to one column "
                          "by {}; the other way round by {} or more",
                          x_along, y_down, control));
  return finding;
}

// Entry (n, m) of eq. 12 stands for the distance from token m to token n.
// Footnote 7 takes that as start less end; footnote 10 and section 5 take the
// distance from one place to another as end less start.
Finding Direction(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kN = 7;
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kN - 1}, NormalNumbers(2 * kN - 1, 1))
      .Give("values", {kN, kN}, Identity(kN));
  const auto matrix = [&](int64_t (*distance)(int64_t from, int64_t to)) {
    Numbers w;
    for (int64_t n = 0; n < kN; ++n)
      for (int64_t m = 0; m < kN; ++m)
        w.push_back(run["weights"][distance(m, n) + kN - 1]);
    return w;
  };
  const Numbers eq12 = run.Definition();
  finding.Add(Erratum{
      "footnote 10 and section 5 have the distance from one place to another "
      "as end less start, which makes w_{n-m} of the entry (n, m) of eq. 12; "
      "footnote 7 has start less end, which makes the w_{m-n} printed there",
      LargestDifference(
          matrix([](int64_t from, int64_t to) { return to - from; }), eq12),
      LargestDifference(
          matrix([](int64_t from, int64_t to) { return from - to; }), eq12),
      0.1});
  return finding;
}

// ---- padding ---------------------------------------------------------------

// A height x width image padded with zeros to a square.
struct Padding {
  double gap;          // from the form with two vectors of weights
  double unpadded;     // control: the square's first weights on the image
  double more_pixels;  // the square's pixels over the image's
  double more_bytes;   // the same for bytes, by the algorithm's own count
};
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
    return RowsOf(weights, 1, side - extent, side + extent - 1);
  };
  const auto first = [&](int64_t extent) {
    return RowsOf(weights, 1, 0, 2 * extent - 1);
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
    const Numbers row = RowsOf(whole, kE, r * side, r * side + width);
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

Finding Pad(const Evidence& evidence) {
  Finding finding(evidence);
  const Padding small = PadToSquare(5, 9), tall = PadToSquare(11, 3),
                wide = PadToSquare(16, 64);
  const Measured gap = finding.Measure("difference when padded",
                                       LargestOf(small.gap, tall.gap)),
                 control =
                     finding.Measure("difference unpadded",
                                     LeastOf(small.unpadded, tall.unpadded));
  finding.Add(gap <= kRounding && control > kClear,
              fmt::format("images of 5 x 9 and 11 x 3 pixels, padded to "
                          "squares, agree within {} with the form with two "
                          "vectors of weights (without padding they differ by "
                          "{})",
                          gap, control));
  finding.Note(fmt::format(
      "padding 16 x 64 pixels makes {} times as many, and the product reads "
      "and writes {} times as many bytes",
      finding.Mention("times as many pixels for 16 x 64", wide.more_pixels),
      finding.Mention("times as many bytes for 16 x 64", wide.more_bytes)));
  return finding;
}

// Padding the longer sequence leaves the lengths apart; padding the shorter
// one gives the same rows.
Finding PadLengths(const Evidence& evidence) {
  Finding finding(evidence);
  constexpr int64_t kQueries = 20, kKeys = 33, kE = 5;
  const Numbers weights = NormalNumbers(kQueries + kKeys - 1, 1),
                values = NormalNumbers(kKeys * kE, 2);
  OperatorRun rectangle("toeplitz_1d");
  rectangle.Give("weights", {kQueries + kKeys - 1}, weights)
      .Give("values", {kKeys, kE}, values);
  // Offsets from 1 - kKeys: those of the queries that are not there are zero.
  Numbers padded(static_cast<size_t>(kKeys - kQueries), 0.0);
  padded.insert(padded.end(), weights.begin(), weights.end());
  OperatorRun square("toeplitz_1d");
  square.Give("weights", {2 * kKeys - 1}, padded)
      .Give("values", {kKeys, kE}, values);
  const Numbers exact = rectangle.Definition();
  const Numbers first = RowsOf(square.Definition(), kE, 0, kQueries);
  // The least distance of the lengths if rows are added to the longer one.
  const Measured apart = finding.Measure("rows apart if the longer is padded",
                                         double{kKeys - kQueries});
  finding.Add(Erratum{"", ShapeGap(apart), LargestDifference(first, exact)},
              fmt::format("the longer sequence is to be padded, which leaves "
                          "{} and {} tokens at least {} apart; the shorter one "
                          "padded gives the same rows",
                          kQueries, kKeys, apart));
  return finding;
}

// ---- programs --------------------------------------------------------------

Finding Toeplitz(const Evidence& evidence) {
  Finding finding(evidence);
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kTriedN - 1}, NormalNumbers(2 * kTriedN - 1, 1))
      .Give("values", {kTriedN, kTriedE}, NormalNumbers(kTriedN * kTriedE, 2));
  AddPrograms(finding, run,
              fmt::format("{} weights for {} tokens", 2 * kTriedN - 1, kTriedN),
              {"fft", "fft_columns"});
  return finding;
}

// ---- operations ------------------------------------------------------------

Numbers Offsets(int64_t n) { return NormalNumbers(2 * n - 1, 1); }

Finding Operations(const Evidence& evidence) {
  Finding finding(evidence);
  const Growth transform = JudgeGrowth(
                   finding, "by transforms", "n",
                   CountEach({256, 1024, 4096, 16384},
                             [](int64_t n) {
                               ToeplitzByTransform(
                                   Counting(Offsets(n)),
                                   Counting(NormalNumbers(n, 2)), 1);
                             }),
                   kNLogN),
               direct = JudgeGrowth(
                   finding, "directly", "n",
                   CountEach({64, 256, 1024},
                             [](int64_t n) {
                               ToeplitzDirect(Counting(Offsets(n)),
                                              Counting(NormalNumbers(n, 2)), 1);
                             }),
                   kNLogN);
  constexpr int64_t kN = 48;
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {2 * kN - 1}, Offsets(kN))
      .Give("values", {kN, 1}, NormalNumbers(kN, 2));
  const Measured gap = finding.Measure(
      "difference by transforms",
      LargestDifference(
          ToeplitzByTransform(Offsets(kN), NormalNumbers(kN, 2), 1),
          run.Definition()));
  finding.Add(transform.holds && gap <= 1e-10,
              fmt::format("appendix B's algorithm, run on numbers that count, "
                          "takes {} for a column (result within {})",
                          transform.text, gap));
  finding.Add(direct.known && !direct.holds,
              "the plain product, as a control, " + direct.text);
  return finding;
}

Finding Naive(const Evidence& evidence) {
  Finding finding(evidence);
  const auto run = [](int64_t n, int64_t width) {
    ToeplitzDirect(Counting(Offsets(n)), Counting(NormalNumbers(n * width, 2)),
                   static_cast<size_t>(width));
  };
  const Growth by_n = JudgeGrowth(
                   finding, "directly", "n",
                   CountEach({64, 256, 1024}, [&](int64_t n) { run(n, 1); }),
                   kSquare),
               by_width = JudgeGrowth(
                   finding, "directly", "D",
                   CountEach({4, 16, 64}, [&](int64_t d) { run(128, d); }),
                   kLinearGrowth);
  finding.Add(by_n.holds && by_width.holds,
              fmt::format("the plain product, run on numbers that count, takes "
                          "{} for a column, and {} for n = 128",
                          by_n.text, by_width.text));
  return finding;
}

// FastRPB appendix B.3 for a side x side image and one set of weights: sums
// over rows and columns of pixels, one Toeplitz product of each.
template <typename T>
Row<T> ImageBySums(const Row<T>& w, const Row<T>& v, size_t side) {
  Row<T> down(side), across(side), out(v.size());
  for (size_t y = 0; y < side; ++y)
    for (size_t x = 0; x < side; ++x) {
      down[y] += v[y * side + x];
      across[x] += v[y * side + x];
    }
  const Row<T> rows = ToeplitzByTransform(w, down, 1),
               columns = ToeplitzByTransform(w, across, 1);
  for (size_t y = 0; y < side; ++y)
    for (size_t x = 0; x < side; ++x) out[y * side + x] = rows[y] + columns[x];
  return out;
}

// By the side N of the image: as claimed it would be N log N. The timed part:
// 0.5 in pixels, and a logarithm.
Finding ImageTime(const Evidence& evidence) {
  Finding finding(evidence);
  const Counts sums =
      CountEach({32, 64, 128, 256, 512, 1024}, [](int64_t side) {
        ImageBySums(Row<Counted>(static_cast<size_t>(2 * side - 1)),
                    Row<Counted>(static_cast<size_t>(side * side)),
                    static_cast<size_t>(side));
      });
  bool every_pixel = !sums.sizes.empty();
  for (size_t i = 0; i < sums.sizes.size(); ++i)
    every_pixel =
        every_pixel && sums.operations[i] >= kSquare.of(sums.sizes[i]);
  const Growth square =
                   MentionGrowth(finding, "of an image", "N", sums, kSquare),
               claimed = JudgeGrowth(finding, "of an image", "N", sums, kNLogN);
  constexpr int64_t kSide = 9;
  const Numbers values = NormalNumbers(kSide * kSide, 2);
  OperatorRun run("toeplitz_2d_xy");
  run.Set("height", kSide)
      .Set("width", kSide)
      .Give("weights_rows", {2 * kSide - 1}, Offsets(kSide))
      .Give("weights_cols", {2 * kSide - 1}, Offsets(kSide))
      .Give("values", {kSide * kSide, 1}, values);
  finding.Add(
      Erratum{"", every_pixel && claimed.known && !claimed.holds ? 1.0 : 0.0,
              LargestDifference(ImageBySums(Offsets(kSide), values, kSide),
                                run.Definition()),
              0, 1e-10},
      fmt::format("O(D N log N) for N x N pixels, though appendix B.3's "
                  "algorithm, run on numbers that count, sums every pixel: {} "
                  "for a channel, and {}; it is O(D (N^2 + N log N))",
                  square.text, claimed.text));
  finding.Append(
      PerMachine(evidence,
                 [](const Machine& machine, Finding& timed) {
                   const RecipeCurve curve =
                       CurveOf(machine, "fastrpb-toeplitz-2d",
                               {{"operator", "toeplitz_2d_xy"},
                                {"implementation", "xy"}});
                   const auto growth = GrowthOf(curve, CurveValue::kSeconds);
                   if (!growth) {
                     timed.Add(Holds::kMissing,
                               curve.empty() ? Missing(curve)
                                             : NoGrowth(curve, "time of xy"));
                     return;
                   }
                   const Exponent exponent = JudgeExponent(
                       timed, "exponent in pixels", *growth, -HUGE_VAL, 0.75);
                   std::string text = fmt::format(
                       "time of xy grows with {} in pixels, from {:.10g} "
                       "to {:.10g} (as claimed: below 0.75)",
                       exponent.text, growth->n_min, growth->n_max);
                   // A time that does not decide leaves it to the counts.
                   if (exponent.known && exponent.holds == Holds::kBetween)
                     timed.Note(std::move(text));
                   else
                     timed.Add(exponent.holds, std::move(text));
                 }),
      "");
  return finding;
}

}  // namespace

std::vector<NamedRule> FastRpbFormulaRules() {
  return {{"frpb-slices", SlicesAsPrinted},   {"frpb-prop-b1", PropB1},
          {"frpb-direction", Direction},      {"frpb-pad", Pad},
          {"frpb-pad-lengths", PadLengths},   {"frpb-toeplitz", Toeplitz},
          {"frpb-1d-operations", Operations}, {"frpb-naive", Naive},
          {"frpb-2d-time", ImageTime}};
}

}  // namespace subquad
