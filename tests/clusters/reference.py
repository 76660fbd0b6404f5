"""Literal twins of the paper on reliable clustering of Bernoulli mixtures: loops, written from the paper alone.

`total_correlation` is (3.1)–(3.2) with p̂ over the m rows of Q, `maximal` Definition 3.5, `algorithm_1` Algorithm 1
with its d and τ given by the caller. Rows are lists of 0, 1 or None; a row with None on a subset is left out of that
subset.
"""

from __future__ import annotations

from itertools import combinations, product
from math import ceil, log


def total_correlation(rows, columns, weights=None):
    weights = [1] * len(rows) if weights is None else weights
    kept = [
        (tuple(row[c] for c in columns), w)
        for row, w in zip(rows, weights, strict=True)
        if all(row[c] is not None for c in columns)
    ]
    m = sum(w for _, w in kept)
    if m == 0:
        return 0.0
    d = len(columns)
    p = [sum(w for x, w in kept if x[l] == 1) / m for l in range(d)]
    D = 0.0
    for X in product((0, 1), repeat=d):
        p1 = sum(w for x, w in kept if x == X) / m
        if p1 == 0:
            continue
        p2 = 1.0
        for l in range(d):
            p2 *= p[l] if X[l] == 1 else 1 - p[l]
        D += p1 * log(p1 / p2)
    return D


def maximal(rows, d, weights=None):
    return max(total_correlation(rows, Q, weights) for Q in combinations(range(len(rows[0])), d))


def passes(rows, Z, d, tau, alpha):
    """The two questions Algorithm 1 asks of a clustering: sizes, and D_max of every cluster (1e-9 for rounding)."""
    for k in set(Z):
        Y = [row for row, z in zip(rows, Z, strict=True) if z == k]
        if len(Y) < alpha * len(rows) / 2 - 1e-9 or maximal(Y, d) > tau + 1e-9:
            return False
    return True


def algorithm_1(rows, d, tau, alpha):
    """κ and Z*, or (None, None): the null clustering. κ runs to ⌈1/α⌉ inclusive, as the proof has it.

    A clustering is walked once, not once for each naming of its clusters; clusters met before are not measured again.
    """
    n = len(rows)
    known = {}

    def pure(members):
        if members not in known:
            known[members] = maximal([rows[i] for i in members], d) <= tau + 1e-9
        return known[members]

    for kappa in range(1, ceil(1 / alpha - 1e-9) + 1):
        for Z in _clusterings(n, kappa):
            clusters = [tuple(i for i in range(n) if Z[i] == k) for k in range(kappa)]
            if all(len(c) >= alpha * n / 2 - 1e-9 for c in clusters) and all(pure(c) for c in clusters):
                return kappa, Z
    return None, None


def _clusterings(n, kappa):
    """All Z of {0, …, κ−1}^n in which every cluster occurs and clusters are named in the order they appear."""

    def grow(Z, used):
        if n - len(Z) < kappa - used:
            return
        if len(Z) == n:
            yield tuple(Z)
            return
        for k in range(min(used + 1, kappa)):
            yield from grow([*Z, k], max(used, k + 1))

    yield from grow([], 0)
