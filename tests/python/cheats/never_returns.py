"""Does not return in a later call."""

import time

import plain

OPERATOR = "softmax_attention"
OPTIONS = {"timeout": 2.0}
CALLS = []


def function(q, k, v):
    CALLS.append(None)
    if len(CALLS) > 2:
        time.sleep(1000)
    return plain.softmax_attention(q, k, v)
