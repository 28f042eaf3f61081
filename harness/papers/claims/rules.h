// The rule of each claim, by the name of the claim.
#pragma once

#include "harness/papers/claims/evidence.h"
#include "harness/papers/claims/finding.h"

namespace subquad {

// errata_rules.cc
Finding FrpbSlices(const Evidence&);
Finding LrpeSign(const Evidence&);
Finding LrpeTailRule(const Evidence&);
Finding LrpePhi(const Evidence&);
Finding NprfEq13(const Evidence&);
Finding TxlMatrixRule(const Evidence&);
Finding BlogRnn(const Evidence&);

// property_rules.cc
Finding SikfShift(const Evidence&);
Finding FrpbPad(const Evidence&);
Finding LrpeAuto(const Evidence&);
Finding NprfFootnote3(const Evidence&);
Finding BlogEquivariance(const Evidence&);
Finding BlogRotation(const Evidence&);
Finding BlogConvolution(const Evidence&);
Finding BlogHopfield(const Evidence&);

// sweep_rules.cc
Finding Frpb1dTime(const Evidence&);
Finding Frpb1dMemory(const Evidence&);
Finding Frpb2dTime(const Evidence&);
Finding FrpbFig3(const Evidence&);
Finding FrpbTable3(const Evidence&);
Finding FrpbMemorySpe(const Evidence&);
Finding LrpeLinear(const Evidence&);
Finding NprfTime(const Evidence&);
Finding NprfMemory(const Evidence&);
Finding NprfFig1a(const Evidence&);
Finding TxlLinear(const Evidence&);

// study_rules.cc: judges the study's tables again, by the study's own rule.
Finding FromStudies(const Evidence& evidence, const std::string& study,
                    const std::string& claim);

}  // namespace subquad
