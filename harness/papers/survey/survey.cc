#include "harness/papers/survey/survey.h"

namespace subquad {

Paper Survey() {
  Paper paper{"survey", SurveyPositionRules(), {}};
  for (const auto& rules : {SurveyAttentionRules, SurveyMixingRules})
    for (NamedRule& rule : rules()) paper.rules.push_back(std::move(rule));
  paper.studies = {SinusoidalStudy(), SparsePatternsStudy(), SpectraStudy()};
  return paper;
}

}  // namespace subquad
