// LRPE: clipped relative position embeddings at linear cost, and the choice of
// an algorithm by its memory.
#pragma once

#include "harness/papers/frame/claim.h"

namespace subquad {

Paper Lrpe();

}  // namespace subquad
