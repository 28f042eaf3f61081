// A fictitious text on running averages.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper Averages();

}  // namespace subquad
