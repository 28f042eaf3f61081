#include "harness/papers/nprf/nprf.h"

namespace subquad {

Paper Nprf() {
  Paper paper{"nprf", NprfRules(), {}};
  for (NamedRule& rule : NprfSweepRules())
    paper.rules.push_back(std::move(rule));
  paper.studies = {PrfVarianceStudy(),      ApproximationErrorStudy(),
                   SampleComplexityStudy(), FeatureMapsStudy(),
                   ConversionStudy(),       RpeRankStudy()};
  return paper;
}

}  // namespace subquad
