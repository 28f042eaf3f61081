// What LRPE claims, in the order of the text.
#include "harness/papers/claims/claim_list.h"
#include "harness/papers/claims/rules.h"

namespace subquad {

std::vector<Claim> LrpeClaims() {
  using enum ClaimKind;
  using namespace untested;
  return {
      {"lrpe-product",
       "the product of the scores by clipped offset is a left sum, a window "
       "and a right sum",
       "LRPE section III", kProperty, "", LrpeProduct},
      {"lrpe-terms",
       "the terms take O(L_Q d (2k+1)), O(L_Q (2k-1) d) and O(max(L_Q, L_K)) "
       "operations",
       "LRPE section III", kProperty, "", LrpeTerms},
      {"lrpe-linear",
       "the product with clipped relative scores takes linear time and memory",
       "LRPE section III",
       kSweep,
       "",
       LrpeLinear,
       {"lrpe-runtimes-rpe"}},
      Untested("lrpe-strided",
               "a strided view of the padded values saves memory",
               "LRPE section III",
               "no program here makes the copies that a strided view avoids"),
      {"lrpe-auto", "choosing by the memory formulas takes the least memory",
       "LRPE section IV", kProperty, "", LrpeAuto},
      {"lrpe-sign", "clip(i-j) with the first column before the query",
       "LRPE section III", kErratum, "", LrpeSign},
      {"lrpe-tail", "the right term ends at min(L_Q+k, L_K)",
       "LRPE section III", kErratum, "", LrpeTailRule},
      {"lrpe-phi", "phi is applied to Q and V", "LRPE section III", kErratum,
       "", LrpePhi},
      Untested("lrpe-absolute",
               "absolute positions beside relative ones bring nothing",
               "LRPE section IV", kTraining),
      {"lrpe-denominator",
       "the denominator is the same product with a column of ones",
       "LRPE section IV", kProperty, "", LrpeDenominator},
      {"lrpe-prefix-sum",
       "the prefix sums of masked kernelized attention by plain tensor "
       "operations",
       "LRPE conclusion", kProperty, "", LrpePrefixSum},
      {"lrpe-scalability",
       "kernelized attention, masked or not, scales linearly with the length",
       "LRPE conclusion",
       kSweep,
       "",
       LrpeScalability,
       {"lrpe-runtimes-ka"}},
      Untested("lrpe-runtimes", "runtimes of RPE, KA and MHA", "LRPE section V",
               "the figures are not in the text; the recipes lrpe-runtimes-* "
               "draw ours"),
  };
}

}  // namespace subquad
