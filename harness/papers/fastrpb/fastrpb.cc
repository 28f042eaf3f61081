#include "harness/papers/fastrpb/fastrpb.h"

namespace subquad {

Paper FastRpb() {
  Paper paper{"fastrpb",
              {{"frpb-spe-covariances", SpeCovariances}},
              {SpeConvergenceStudy()}};
  for (const auto& rules : {FastRpbFormulaRules(), FastRpbAttentionRules(),
                            FastRpbPrintedRules(), FastRpbSweepRules()})
    paper.rules.insert(paper.rules.end(), rules.begin(), rules.end());
  return paper;
}

}  // namespace subquad
