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

// Returns the attention of stochastic_position_attention on q^ and k^; a
// softmax has this scale, which is that of scores of q and k.
Problem AttentionOnNoise(const Problem& problem, double scale);

}  // namespace subquad
