"""Sums over the 2^d states of d switches, for many rows at once: the E-step of x = Wᵀh + σξ.

The log-weight of state h in a row is log P(h) + hᵀβ − ½ hᵀGh/σ² with β = Wx/σ² and G = WWᵀ. Three ways to sum it:

- *split*: switches are halved; exp of the sum over all states is a product of three factors, the row's low half, the
  row's high half and a table exp(−s_aᵀG s_b/σ² + log P) that all rows share. Two matrix products do the work, and
  exponentials grow like 2^(d/2) per row. Needs the table's logarithms within `SAFE_RANGE`, so noise that is not tiny.
- *all*: every state's log-weight, for small noise.
- *near*: states within a Hamming distance of a centre, one centre per row, for many switches. A centre moves only where
  that raises the row's sum, so EM on it is monotone.

State number c has switch i on when bit i of c is set.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018, model (1); its Appendix K keeps a row's six likeliest states
Needs     weights, log P(h), σ²
Promises  *split* and *all* are exact; *near* is a lower bound of each row's sum that no move of a centre lowers
Differs   all states instead of six, each with its P(h)

Symbols   paper   here     shape      meaning
          h       states   (2^d, d)   all on/off vectors
          —       β        (n, d)     Wx/σ²
          —       G        (d, d)     WWᵀ, over σ² where said
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from latentfit.core.kernels import Floats

Codes = NDArray[np.int64]

SAFE_RANGE = 600.0
"""Logarithms in the shared table of the split form may differ by this much: exp(−600) is far from underflow."""
CELLS = 2**17
"""Numbers held per block of rows: they stay in the cache."""
RECENTRE = 6
"""Times the centres of a row may move in one iteration."""


@dataclass(frozen=True)
class RowPosterior:
    """Per row: log of the sum over states (n,), E[h] (n, d), the centre if one was used; summed P(h | x) (2^d,)."""

    log_sum: Floats
    mean: Floats
    state_counts: Floats
    centres: Codes | None = None


@cache
def states(d: int) -> Floats:
    """All on/off vectors (2^d, d)."""
    table = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    out: Floats = table.astype(np.float64)
    out.flags.writeable = False
    return out


def pair_moments(state_counts: Floats, d: int) -> Floats:
    """Σ E[hhᵀ] (d, d) from summed posteriors of states."""
    out = np.zeros((d, d))
    low = min(d, 12)
    S, chunks = states(low), state_counts.reshape(-1, 2**low)
    high = states(d - low) if d > low else np.zeros((1, 0))
    for bits, chunk in zip(high, chunks, strict=True):
        both = np.concatenate([S, np.broadcast_to(bits, (2**low, d - low))], axis=1)
        out += both.T @ (chunk[:, None] * both)
    return out


def constants(G: Floats, sigma2: float, log_prior: Floats) -> Floats:
    """log P(h) − ½ hᵀGh/σ² of all states (2^d,)."""
    S = states(len(G))
    return np.asarray(log_prior - ((S @ G) * S).sum(axis=1) / (2 * sigma2))


def state_blocks(n: int, width: int) -> list[slice]:
    """Blocks of rows whose `width` numbers each fit into the cache."""
    size = max(CELLS // width, 16)
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


# ------------------------------------------------------------------ split


@dataclass(frozen=True)
class SplitTable:
    """What all rows share: quadratic terms of each half, and the table between them."""

    low: int
    low_quadratic: Floats  # (2^l,)
    high_quadratic: Floats  # (2^h,)
    table: Floats  # (2^l, 2^h), largest entry one
    largest: float
    spread: float  # range of its logarithms


def split_table(G: Floats, sigma2: float, log_prior: Floats) -> SplitTable:
    """Halve the switches."""
    d = len(G)
    low = d // 2
    A, B = states(low), states(d - low)
    between = log_prior.reshape(len(B), len(A)).T - A @ G[:low, low:] @ B.T / sigma2
    largest = float(between.max())
    low_part, high_part = (
        -((S @ part) * S).sum(axis=1) / (2 * sigma2) for S, part in ((A, G[:low, :low]), (B, G[low:, low:]))
    )
    return SplitTable(low, low_part, high_part, np.exp(between - largest), largest, largest - float(between.min()))


def posterior_split(beta: Floats, split: SplitTable) -> RowPosterior:
    """Sums over all states by two matrix products per block."""
    n, d = beta.shape
    low = split.low
    A, B = states(low), states(d - low)
    log_sum, mean = np.empty(n), np.empty((n, d))
    joint = np.zeros(split.table.shape)
    for rows in state_blocks(n, len(A) + len(B)):
        U, up = _exp_shifted(beta[rows, :low] @ A.T + split.low_quadratic)
        V, top = _exp_shifted(beta[rows, low:] @ B.T + split.high_quadratic)
        high = (U @ split.table) * V  # weight of each high half
        total = high.sum(axis=1)
        log_sum[rows] = np.log(total) + up + top + split.largest
        V /= total[:, None]
        joint += U.T @ V
        mean[rows, low:] = high @ B / total[:, None]
        mean[rows, :low] = (U * (V @ split.table.T)) @ A
    return RowPosterior(log_sum, np.clip(mean, 0.0, 1.0), np.ascontiguousarray((joint * split.table).T).reshape(-1))


def _exp_shifted(logs: Floats) -> tuple[Floats, Floats]:
    top = logs.max(axis=1)
    logs -= top[:, None]
    return np.exp(logs, out=logs), top


# -------------------------------------------------------------------- all


def posterior_all(beta: Floats, constant: Floats) -> RowPosterior:
    """Sums over all states, each by its own exponential."""
    n, d = beta.shape
    S = states(d)
    log_sum, mean, state_counts = np.empty(n), np.empty((n, d)), np.zeros(2**d)
    for rows in state_blocks(n, 2**d):
        R, top = _exp_shifted(beta[rows] @ S.T + constant)
        total = R.sum(axis=1)
        log_sum[rows] = np.log(total) + top
        R /= total[:, None]
        state_counts += R.sum(axis=0)
        mean[rows] = R @ S
    return RowPosterior(log_sum, np.clip(mean, 0.0, 1.0), state_counts)


def best_all(beta: Floats, constant: Floats) -> Codes:
    """The most likely state of every row (n,), as its number; of equals the smallest."""
    S, out = states(beta.shape[1]), np.empty(len(beta), np.int64)
    for rows in state_blocks(len(beta), len(S)):
        out[rows] = (beta[rows] @ S.T + constant).argmax(axis=1)
    return out


# ------------------------------------------------------------------- near


@dataclass(frozen=True)
class Flips:
    """Sets of switches to flip (f, d), their bit masks (f,), and which pairs each holds (f, pairs)."""

    sets: Floats
    masks: Codes
    pairs: Floats
    left: NDArray[np.intp]
    right: NDArray[np.intp]


@cache
def flips(d: int, radius: int) -> Flips:
    """All sets of at most `radius` switches, the empty one first."""
    chosen = [some for size in range(min(radius, d) + 1) for some in combinations(range(d), size)]
    sets = np.zeros((len(chosen), d))
    for row, some in enumerate(chosen):
        sets[row, list(some)] = 1
    left, right = np.triu_indices(d, 1)
    masks = (sets @ (2.0 ** np.arange(d))).astype(np.int64)
    return Flips(sets, masks, sets[:, left] * sets[:, right], left, right)


def bits(codes: Codes, d: int) -> Floats:
    """On/off vectors (n, d) of state numbers."""
    return np.asarray((codes[:, None] >> np.arange(d)) & 1, np.float64)


def codes_of(h: NDArray[np.bool_]) -> Codes:
    """State numbers (n,) of on/off vectors."""
    return np.asarray(h.astype(np.int64) @ (1 << np.arange(h.shape[1], dtype=np.int64)))


def posterior_near(
    beta: Floats, G: Floats, sigma2: float, log_prior: Floats, centres: Codes, radius: int
) -> RowPosterior:
    """Sums over states near each row's centre; centres move while a row's sum rises."""
    n, d = beta.shape
    around = flips(d, radius)
    log_sum, mean, current = np.empty(n), np.empty((n, d)), centres.copy()
    state_counts = np.zeros(2**d)
    for rows in state_blocks(n, len(around.masks)):
        logs = _near_logs(beta[rows], G / sigma2, log_prior, current[rows], around)
        statistics = logsumexp(logs, axis=1)
        moving = np.arange(len(logs))
        for _ in range(RECENTRE):
            proposed = current[rows][moving] ^ around.masks[logs[moving].argmax(axis=1)]
            changed = proposed != current[rows][moving]
            moving, proposed = moving[changed], proposed[changed]
            if not len(moving):
                break
            new = _near_logs(beta[rows][moving], G / sigma2, log_prior, proposed, around)
            new_sums = logsumexp(new, axis=1)
            better = new_sums > statistics[moving]
            moving = moving[better]
            current[rows.start + moving] = proposed[better]
            logs[moving], statistics[moving] = new[better], new_sums[better]
        R = np.exp(logs - statistics[:, None])
        h0 = bits(current[rows], d)
        log_sum[rows], mean[rows] = statistics, h0 + (1 - 2 * h0) * (R @ around.sets)
        reached = current[rows][:, None] ^ around.masks
        state_counts += np.bincount(reached.reshape(-1), R.reshape(-1), minlength=2**d)
    return RowPosterior(log_sum, np.clip(mean, 0.0, 1.0), state_counts, current)


def _near_logs(beta: Floats, G: Floats, log_prior: Floats, centres: Codes, around: Flips) -> Floats:
    """Log-weights (n, f) of the states around centres; G is WWᵀ/σ²."""
    h0 = bits(centres, len(G))
    sign = 1 - 2 * h0
    pull = h0 @ G
    single = sign * (beta - pull) - np.diag(G) / 2  # what one flip changes
    pair = -(sign[:, around.left] * sign[:, around.right]) * G[around.left, around.right]
    base = (h0 * (beta - pull / 2)).sum(axis=1)
    logs = single @ around.sets.T + pair @ around.pairs.T + base[:, None]
    return np.asarray(logs + log_prior[centres[:, None] ^ around.masks])
