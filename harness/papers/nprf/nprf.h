// NPRF: kernelized attention with relative positional encoding by FFT, and
// random features of normalised rows.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper Nprf();

std::vector<NamedRule> NprfRules();          // rules.cc
std::vector<NamedRule> NprfSweepRules();     // sweep_rules.cc
std::vector<NamedRule> NprfLandmarkRules();  // landmark_rules.cc

Study PrfVarianceStudy();
Study ApproximationErrorStudy();
Study SampleComplexityStudy();
Study FeatureMapsStudy();
Study ConversionStudy();
Study RpeRankStudy();

}  // namespace subquad
