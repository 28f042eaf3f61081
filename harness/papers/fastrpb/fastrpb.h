// FastRPB: a relative positional bias by Toeplitz products, in one and two
// dimensions, and SIKF, linear attention with exp features.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper FastRpb();

std::vector<NamedRule> FastRpbFormulaRules();    // formula_rules.cc
std::vector<NamedRule> FastRpbAttentionRules();  // attention_rules.cc
std::vector<NamedRule> FastRpbPrintedRules();    // printed_rules.cc
std::vector<NamedRule> FastRpbSweepRules();      // sweep_rules.cc

// spe_convergence.cc
Finding SpeCovariances(const Evidence& evidence);

Study SpeConvergenceStudy();

}  // namespace subquad
