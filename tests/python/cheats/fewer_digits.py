"""Works in float16 and returns float32, from the second call on."""

import numpy as np
import plain

OPERATOR = "toeplitz_1d"
CALLS = []


def function(weights, values):
    CALLS.append(None)
    if len(CALLS) > 1:
        weights, values = (x.astype(np.float16).astype(np.float32) for x in (weights, values))
    return plain.toeplitz_1d(weights, values)
