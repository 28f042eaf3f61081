// Claims about numbers of operations: the papers' algorithms run on numbers
// that count (counted.h), and their results are compared with the definitions.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <vector>

#include "harness/papers/claims/counts.h"
#include "harness/papers/claims/rules.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-10;

Holds YesIf(bool holds) { return holds ? Holds::kYes : Holds::kNo; }

// "35.4 n log2 n operations at n = 256 and 33.1 at 16384".
std::string Shares(Finding& finding, const std::string& what,
                   const std::string& symbol, const Counts& counts,
                   const Theory& theory) {
  const std::string formula = fmt::format(fmt::runtime(theory.text), symbol);
  const auto share = [&](size_t at, const char* which) {
    return finding.Number(
        fmt::format("operations over {}, {}, {}", formula, what, which),
        counts.operations[at] / theory.of(counts.sizes[at]));
  };
  const size_t last = counts.sizes.size() - 1;
  return fmt::format("{} {} operations at {} = {:.10g} and {} at {:.10g}",
                     share(0, "first"), formula, symbol, counts.sizes[0],
                     share(last, "last"), counts.sizes[last]);
}

}  // namespace

Finding JudgeToeplitzCounts(const ToeplitzCounts& counts) {
  Finding finding;
  finding.Add(
      YesIf(GrowsAs(counts.transform, kNLogN) && counts.gap <= kRounding),
      fmt::format(
          "appendix B's algorithm, run on numbers that count, takes {} "
          "for a column (result within {})",
          Shares(finding, "by transforms", "n", counts.transform, kNLogN),
          finding.Number("difference by transforms", counts.gap)));
  finding.Add(
      YesIf(!GrowsAs(counts.direct, kNLogN)),
      fmt::format("the plain product, as a control, {}",
                  Shares(finding, "directly", "n", counts.direct, kNLogN)));
  return finding;
}
Finding Frpb1dOperations(const Evidence&) {
  return JudgeToeplitzCounts(CountToeplitz());
}

Finding JudgeNaiveCounts(const ToeplitzCounts& counts) {
  Finding finding;
  finding.Add(
      YesIf(GrowsAs(counts.direct, kSquare)),
      fmt::format("the plain product, run on numbers that count, takes {} for "
                  "a column",
                  Shares(finding, "directly", "n", counts.direct, kSquare)));
  return finding;
}
Finding FrpbNaive(const Evidence&) { return JudgeNaiveCounts(CountToeplitz()); }

// By the side N of the image: as claimed it would be N log N.
Finding JudgeImageCounts(const ImageCounts& counts) {
  Finding finding;
  bool every_pixel = !counts.sums.sizes.empty();
  for (size_t i = 0; i < counts.sums.sizes.size(); ++i)
    every_pixel = every_pixel &&
                  counts.sums.operations[i] >= kSquare.of(counts.sums.sizes[i]);
  Erratum erratum;
  erratum.printed = every_pixel && !GrowsAs(counts.sums, kNLogN) ? 1 : 0;
  erratum.corrected = counts.gap;
  erratum.rounding = kRounding;
  finding.Add(
      erratum,
      fmt::format("O(D N log N) for N x N pixels, though appendix B.3's "
                  "algorithm, run on numbers that count, sums every pixel: {} "
                  "for a channel, and {} "
                  "(result within {}); it is O(D (N^2 + N log N))",
                  Shares(finding, "of an image", "N", counts.sums, kSquare),
                  Shares(finding, "of an image", "N", counts.sums, kNLogN),
                  finding.Number("difference of an image", counts.gap)));
  return finding;
}

Finding JudgeLinearCounts(const LinearCounts& counts) {
  Finding finding;
  finding.Add(
      YesIf(GrowsAs(counts.shared, kLinearGrowth) &&
            GrowsAs(counts.pairs, kSquare) && counts.gap <= kRounding),
      fmt::format("run on numbers that count, shared sums take {}, a weight "
                  "for every pair {} (results within {})",
                  Shares(finding, "shared", "n", counts.shared, kLinearGrowth),
                  Shares(finding, "pairs", "n", counts.pairs, kSquare),
                  finding.Number("difference of both", counts.gap)));
  finding.Add(YesIf(GrowsAs(counts.width, kSquare)),
              "with as many features as channels, " +
                  Shares(finding, "width", "d", counts.width, kSquare));
  return finding;
}
Finding LinearOperations(const Evidence&) {
  return JudgeLinearCounts(CountLinear());
}

Finding JudgeBiasCounts(const BiasCounts& counts) {
  Finding finding;
  finding.Add(
      YesIf(GrowsAs(counts.transform, kNLogN) && counts.gap <= kRounding),
      fmt::format(
          "algorithm 1, run on numbers that count, takes {} (within {} "
          "of all pairs)",
          Shares(finding, "by transforms", "n", counts.transform, kNLogN),
          finding.Number("difference by transforms", counts.gap)));
  finding.Add(YesIf(GrowsAs(counts.direct, kSquare)),
              "plain products with the matrix C " +
                  Shares(finding, "directly", "n", counts.direct, kSquare));
  return finding;
}
Finding NprfOperations(const Evidence&) { return JudgeBiasCounts(CountBias()); }

Finding JudgeClippedCounts(const ClippedCounts& counts) {
  Finding finding;
  finding.Add(
      YesIf(GrowsAs(counts.products_k, kLinearGrowth) &&
            GrowsAs(counts.products_q, kLinearGrowth)),
      fmt::format("run on numbers that count, products with the embeddings "
                  "take {}, and {}",
                  Shares(finding, "products", "(2k+1)", counts.products_k,
                         kLinearGrowth),
                  Shares(finding, "products", "L_Q", counts.products_q,
                         kLinearGrowth)));
  finding.Add(YesIf(GrowsAs(counts.window_k, kLinearGrowth)),
              "the window takes " + Shares(finding, "window", "(2k-1)",
                                           counts.window_k, kLinearGrowth));
  finding.Add(
      YesIf(GrowsAs(counts.sums_keys, kLinearGrowth) &&
            counts.gap <= kRounding),
      fmt::format(
          "the sums of values take {}, which is the width d that the "
          "text leaves out (result within {})",
          Shares(finding, "sums", "L_K", counts.sums_keys, kLinearGrowth),
          finding.Number("difference", counts.gap)));
  return finding;
}
Finding LrpeTerms(const Evidence&) {
  return JudgeClippedCounts(CountClipped());
}

void AddDistanceCounts(Finding& finding, const DistanceCounts& counts) {
  finding.Add(
      YesIf(counts.once == counts.distances && counts.pairs == counts.visible &&
            counts.gap <= kRounding),
      fmt::format("for L = {} and M = {} it makes {} products w_kr r, M + L, "
                  "where the naive way makes {}, one for every visible pair "
                  "(counted in a run; the scores agree within {})",
                  counts.segment, counts.memory,
                  finding.Number("products", counts.once),
                  finding.Number("products for every pair", counts.pairs),
                  finding.Number("difference of scores", counts.gap)));
  finding.Add(
      YesIf(GrowsAs(counts.all, kLinearGrowth)),
      fmt::format("B itself has L (M+L) entries of d products each: in all {} "
                  "for M = L",
                  Shares(finding, "all", "L", counts.all, kSquare)));
}

}  // namespace subquad
