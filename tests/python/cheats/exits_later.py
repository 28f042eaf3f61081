"""Leaves by sys.exit in a later call, after a right answer."""

import sys

import plain

OPERATOR = "softmax_attention"
CALLS = []


def function(q, k, v):
    CALLS.append(None)
    if len(CALLS) > 3:
        sys.exit(0)
    return plain.softmax_attention(q, k, v)
