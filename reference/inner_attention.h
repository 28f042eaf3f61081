// The attention inside an operator that is more than one, as a problem of its
// own operator. No arithmetic.
#pragma once

#include "reference/base/problem.h"

namespace subquad {

// attention = softmax, else linear.
bool IsSoftmax(const Problem& problem);

// Of fastrpb_attention: without the product's parameters.
Problem AttentionOf(const Problem& problem);

// Of stochastic_position_attention: does noise carry positions by kind = sine?
bool IsSine(const Problem& problem);

// Of stochastic_position_attention: the attention on q^ and k^, of a softmax
// with this scale, which is that of scores of q and k.
Problem AttentionOnNoise(const Problem& problem, double scale);

}  // namespace subquad
