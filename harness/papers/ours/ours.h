// What this project claims for itself.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper Ours();

Study BaselinesStudy();
Study ApproximationsStudy();
Study EmbeddingsStudy();
Study PrecisionStudy();
Study MarginsStudy();
Study GatesStudy();

}  // namespace subquad
