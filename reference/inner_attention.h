// The attention that is a part of another operator, as a problem of its own
// operator. No arithmetic.
#pragma once

#include "reference/base/problem.h"

namespace subquad {

// True if attention = softmax, false if linear.
bool IsSoftmax(const Problem& problem);

// Returns the attention of fastrpb_attention, without the product's parameters.
Problem AttentionOf(const Problem& problem);

// True if the noise of stochastic_position_attention has kind = sine.
bool IsSine(const Problem& problem);

// Returns the attention that stochastic_position_attention computes on its
// noisy queries and keys. `scale`: the factor of softmax scores.
Problem AttentionOnNoise(const Problem& problem, double scale);

}  // namespace subquad
