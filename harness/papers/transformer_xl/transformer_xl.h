// Transformer-XL, appendix B: attention with relative positions by a left
// shift.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper TransformerXl();

Study ShiftedScoresStudy();

}  // namespace subquad
