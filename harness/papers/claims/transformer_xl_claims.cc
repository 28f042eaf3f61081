// What Transformer-XL's appendix B claims.
#include "harness/papers/claims/claim_list.h"
#include "harness/papers/claims/rules.h"

namespace subquad {

std::vector<Claim> TransformerXlClaims() {
  using enum ClaimKind;
  using namespace untested;
  return {
      {"txl-linear",
       "the terms (b) and (d) of all pairs at linear cost",
       "Transformer-XL appendix B",
       kSweep,
       "",
       TxlLinear,
       {"txl-time"}},
      {"txl-matrix", "the last row of B as printed",
       "Transformer-XL appendix B", kErratum, "", TxlMatrixRule},
      {"txl-b", "term (b) is one matrix product and left shifts",
       "Transformer-XL appendix B", kProperty, "", TxlTermB},
      {"txl-d", "term (d) is one matrix-vector product and left shifts",
       "Transformer-XL appendix B", kProperty, "", TxlTermD},
  };
}

}  // namespace subquad
