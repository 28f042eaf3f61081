"""Writes its answer into an input and returns that."""

import plain

OPERATOR = "toeplitz_1d"


def function(weights, values):
    values[...] = plain.toeplitz_1d(weights, values)
    return values
