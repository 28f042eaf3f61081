// Formulas that are wrong as printed, typed in as printed: each, and its
// correction, is compared with the definition. `subquad claims` and
// tests/harness/papers/errata_test.cc share them.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/papers/claims/claims.h"

namespace subquad {

// FastRPB appendix B.2 and B.3.
Erratum FrpbBlockErratum();    // eq. 15: which block of the circulant is W
Erratum FrpbRowsErratum();     // eq. 17: which rows of the product are W V
Erratum FrpbFlatErratum();     // eq. 28: a_flat is C flattened, c_flat is A
Erratum FrpbEntriesErratum();  // eq. 38, 41: eight entries of nine
// Proposition 3.2: how many pixels of a side x side image the product depends
// on. An algorithm that reads fewer is wrong.
int64_t PixelsThatCount(int64_t side);

// LRPE section III and IV.
Erratum LrpeSignErratum();
struct LrpeTail {
  int64_t problems = 0;
  int64_t losing = 0;            // with keys beyond L_Q + k, without a mask
  double printed_losing = 0;     // smallest difference as printed, in those
  double printed_elsewhere = 0;  // largest difference as printed, in the rest
  double corrected = 0;          // largest difference with sup = L_K
};
// All (L_Q, L_K) up to `most`, k from 1 to most_k, with and without a mask.
// With k = 0 the first and the last column coincide, and key i is in both
// tails.
LrpeTail TryLrpeTails(int64_t most, int64_t most_k);
Erratum LrpeTailErratum(const LrpeTail& tail);
Erratum LrpePhiErratum();
// Two keys whose weights cancel: the output without phi (not finite) and with
// it; whether embeddings of -1 (yes) and 1 (no) are refused.
struct LrpeVanishing {
  double without_phi, with_phi;
  bool negative_refused, positive_refused;
  bool shown() const;
};
LrpeVanishing LrpePhiVanishing();

// Transformer-XL appendix B.
struct TxlMatrix {
  double corrected, in_terms_of_q;  // largest difference of the output
  double printed_last_row, printed_other_rows;
};
TxlMatrix TryTxlMatrix();
Erratum TxlMatrixErratum(const TxlMatrix& matrix);

// NPRF eq. 13 and footnote 3.
Erratum NprfFirstRowErratum();
Erratum NprfCausalErratum();

// Transformers II eq. 20: x_j printed for x_i; any one position may be j.
Erratum BlogStateErratum();

}  // namespace subquad
