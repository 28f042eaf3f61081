#include "harness/papers/nprf/nprf.h"

namespace subquad {

Paper Nprf() {
  Paper paper{"nprf", NprfRules(), {}};
  for (auto rules : {NprfSweepRules, NprfLandmarkRules})
    for (NamedRule& rule : rules()) paper.rules.push_back(std::move(rule));
  paper.studies = {PrfVarianceStudy(),      ApproximationErrorStudy(),
                   SampleComplexityStudy(), FeatureMapsStudy(),
                   ConversionStudy(),       RpeRankStudy()};
  return paper;
}

}  // namespace subquad
