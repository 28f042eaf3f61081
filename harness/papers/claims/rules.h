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

// formula_rules.cc
Finding KernelForm(const Evidence&);
Finding FrpbIndependent(const Evidence&);
Finding FrpbToeplitz(const Evidence&);
Finding FrpbPadLengths(const Evidence&);
Finding LrpeProduct(const Evidence&);
Finding LrpeDenominator(const Evidence&);
Finding NprfEq10(const Evidence&);
Finding TxlTermD(const Evidence&);
Finding BlogCompressed(const Evidence&);
Finding BlogCompleteGraph(const Evidence&);

Finding FrpbPropB1(const Evidence&);
Finding LrpePrefixSum(const Evidence&);
Finding TxlTermB(const Evidence&);
Finding BlogSchemes(const Evidence&);
Finding BlogSomeQueries(const Evidence&);
Finding BlogEtc(const Evidence&);

// count_rules.cc
Finding Frpb1dOperations(const Evidence&);
Finding FrpbNaive(const Evidence&);
Finding LinearOperations(const Evidence&);
Finding NprfOperations(const Evidence&);
Finding LrpeTerms(const Evidence&);

// printed_rules.cc
Finding FrpbAbstract(const Evidence&);
Finding FrpbSlower(const Evidence&);
Finding FrpbSpeDozens(const Evidence&);
Finding FrpbTable1Repeats(const Evidence&);
Finding NprfGlueNine(const Evidence&);
Finding NprfAverages(const Evidence&);

// statement_rules.cc
Finding FrpbLinearMemory(const Evidence&);
Finding FrpbConstantMemory(const Evidence&);
Finding FrpbShiftSoftmax(const Evidence&);
Finding FrpbInvariant(const Evidence&);
Finding MapsUnbiased(const Evidence&);
Finding NprfSharp(const Evidence&);
Finding FrpbSikfMemory(const Evidence&);
Finding BlogUnique(const Evidence&);
Finding BlogNullSpace(const Evidence&);
Finding BlogQueryShift(const Evidence&);
Finding BlogEq8(const Evidence&);
Finding BlogOffset(const Evidence&);
Finding BlogPropagation(const Evidence&);
Finding BlogInfinite(const Evidence&);
Finding BlogGlu(const Evidence&);

// fastrpb_sweep_rules.cc
Finding FrpbQuadratic(const Evidence&);
Finding FrpbMapOrder(const Evidence&);
Finding Frpb1dTime(const Evidence&);
Finding Frpb1dMemory(const Evidence&);
Finding Frpb2dTime(const Evidence&);
Finding FrpbFig3(const Evidence&);
Finding FrpbTable3(const Evidence&);
Finding FrpbMemorySpe(const Evidence&);
Finding FrpbRpeQuadratic(const Evidence&);
Finding Frpb2dMemory(const Evidence&);

// sweep_rules.cc
Finding LrpeScalability(const Evidence&);
Finding LrpeLinear(const Evidence&);
Finding NprfTime(const Evidence&);
Finding NprfMemory(const Evidence&);
Finding NprfFig1a(const Evidence&);
Finding TxlLinear(const Evidence&);

// study_rules.cc: judges the study's tables again, by the study's own rule.
Finding FromStudies(const Evidence& evidence, const std::string& study,
                    const std::string& claim);

}  // namespace subquad
