"""Medians and ratios of times, with their intervals: the rules of harness/base/statistics.h, for times that are not the program's.

tests/reports/peers_test.py holds both against each other.
"""

import math


def median(samples):
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_interval(samples, confidence=0.95):
    """(median, low, high): interpolated order statistics (Hettmansperger and Sheather 1986); of fewer than six samples the ends."""
    ordered = sorted(samples)
    n, middle = len(ordered), median(samples)
    coverage, depth, following = 1.0, 0, 1.0
    probability = 0.5**n  # of `depth` heads in n throws
    while True:
        following = 0.0 if 2 * (depth + 1) > n + 1 else max(0.0, coverage - 2 * probability)
        if following < confidence:
            break
        coverage = following
        depth += 1
        probability *= (n - depth + 1) / depth
    if depth == 0:
        return middle, ordered[0], ordered[-1]
    share = (coverage - confidence) / (coverage - following)
    weight = (n - depth) * share / (depth + (n - 2 * depth) * share)
    meets = 2 * (depth + 1) > n
    inner = (middle, middle) if meets else (ordered[depth], ordered[n - 1 - depth])
    outer = (ordered[depth - 1], ordered[n - depth])
    return middle, *(end + weight * (to - end) for end, to in zip(outer, inner, strict=True))


def paired(ours, theirs):
    """(ratio, low, high) of times that were taken in turns: how many times longer theirs is, round by round.

    What slows the machine for a while slows both runs of a round, and leaves their ratio.
    """
    middle, low, high = median_interval([math.log(b / a) for a, b in zip(ours, theirs, strict=True)])
    return math.exp(middle), math.exp(low), math.exp(high)


def apart(ours, theirs, confidence=0.95):
    """The same of times that were not taken in turns: Hodges and Lehmann's estimate, with the interval of the rank test."""
    quotients = sorted(math.log(b / a) for a in ours for b in theirs)
    pairs = len(quotients)
    drop = _pairs_to_drop(len(ours), len(theirs), (1 - confidence) / 2)
    first = max(drop - 1, 0)
    middle = (quotients[(pairs - 1) // 2] + quotients[pairs // 2]) / 2
    return math.exp(middle), math.exp(quotients[first]), math.exp(quotients[pairs - 1 - first])


def _pairs_to_drop(m, n, tail):
    """How many pairs each end may leave out, by the exact distribution of the rank test: orders with u inversions are the
    coefficients of the Gaussian binomial, the product of (1 - q^(n+i)) / (1 - q^i)."""
    m, n = min(m, n), max(m, n)
    half = m * n // 2
    orders, whole = [1] + [0] * half, 1
    for i in range(1, m + 1):
        for u in range(half, n + i - 1, -1):
            orders[u] -= orders[u - n - i]
        for u in range(i, half + 1):
            orders[u] += orders[u - i]
        whole = whole * (n + i) // i
    below = count = 0
    while count <= half and below + orders[count] <= tail * whole:
        below += orders[count]
        count += 1
    return count
