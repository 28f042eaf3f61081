// Claims that are formulas: the errata, and our statements beside them.
#include <fmt/format.h>

#include "harness/judging/operator_run.h"
#include "harness/papers/claims/errata.h"
#include "harness/papers/claims/rules.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

}  // namespace

Finding FrpbSlices(const Evidence&) {
  Finding finding;
  finding.Add(FrpbBlockErratum());
  finding.Add(FrpbRowsErratum());
  finding.Add(FrpbFlatErratum());
  finding.Add(FrpbEntriesErratum());
  return finding;
}

Finding LrpeSign(const Evidence&) {
  Finding finding;
  finding.Add(LrpeSignErratum());
  return finding;
}

Finding LrpeTailRule(const Evidence&) {
  Finding finding;
  const LrpeTail tail = TryLrpeTails(16, 8);
  finding.Add(LrpeTailErratum(tail));
  finding.Require(
      tail.printed_elsewhere <= kRounding,
      fmt::format("of {} problems (L_Q and L_K up to 16, k from 1 to 8, with "
                  "and without a mask) {} have such keys; in the others the "
                  "printed sum is off by at most {}",
                  tail.problems, tail.losing,
                  finding.Number("difference where no key is lost",
                                 tail.printed_elsewhere)));
  return finding;
}

Finding LrpePhi(const Evidence&) {
  Finding finding;
  finding.Add(LrpePhiErratum());
  const LrpeVanishing vanishing = LrpePhiVanishing();
  finding.Note(vanishing.shown()
                   ? "without phi, or with negative embeddings, the normaliser "
                     "of two keys can vanish; with both it does not"
                   : "no case of a vanishing normaliser was found");
  return finding;
}

Finding NprfEq13(const Evidence&) {
  Finding finding;
  finding.Add(NprfFirstRowErratum());
  finding.Add(NprfCausalErratum());
  return finding;
}

Finding TxlMatrixRule(const Evidence&) {
  Finding finding;
  const TxlMatrix matrix = TryTxlMatrix();
  finding.Add(TxlMatrixErratum(matrix));
  finding.Require(
      matrix.printed_other_rows <= kRounding &&
          matrix.in_terms_of_q <= kRounding,
      fmt::format(
          "the other rows are off by at most {}, and all rows written "
          "in terms of Q by at most {}",
          finding.Number("difference of the other rows",
                         matrix.printed_other_rows),
          finding.Number("difference in terms of Q", matrix.in_terms_of_q)));
  return finding;
}

Finding BlogRnn(const Evidence&) {
  Finding finding;
  const Erratum erratum = BlogStateErratum();
  finding.Add(erratum);
  OperatorRun run("linear_attention");
  constexpr int64_t kN = 200, kD = 8;
  run.Set("feature_map", std::string("elu1"))
      .Set("causal", true)
      .Give("q", {kN, kD}, NormalNumbers(kN * kD, 1))
      .Give("k", {kN, kD}, NormalNumbers(kN * kD, 2))
      .Give("v", {kN, kD}, NormalNumbers(kN * kD, 3));
  const double gap = LargestDifference(run.Run("recurrent"), run.Definition());
  finding.Require(
      gap <= kRounding,
      fmt::format("the program `recurrent`, one state for 200 tokens, is "
                  "within {} of the definition",
                  finding.Number("difference of `recurrent`", gap)));
  return finding;
}

}  // namespace subquad
