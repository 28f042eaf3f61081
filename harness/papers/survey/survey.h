// Transformers II, a survey: position embeddings, efficient attention, and
// relations to other models.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper Survey();

std::vector<NamedRule> SurveyPositionRules();   // position_rules.cc
std::vector<NamedRule> SurveyAttentionRules();  // attention_rules.cc
std::vector<NamedRule> SurveyMixingRules();     // mixing_rules.cc

Study SinusoidalStudy();
Study SparsePatternsStudy();
Study SpectraStudy();

}  // namespace subquad
