"""Workers who agree with one another more than being right can explain.

Under the model two workers who labelled the same task agree with probability

    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],

independently from task to task, so the agreements on |S_mj| common tasks are binomial. If j copies a share c
of m's labels, agreement rises to c + (1 − c) E: a pair is reported when c is large and far beyond chance.

When most of a crowd copies one worker, the fit takes the copies for the truth and E itself goes to one. Such
a group shows as a gap: some pairs say (nearly) always the same, while the next most similar pair is far from
it. Two flawless workers among mediocre ones look just the same; no statistic could tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri

from tacit.data.labels import CodedLabels
from tacit.engine.mixture import Mixture
from tacit.kernels import Floats
from tacit.moments.pairs import PairCounts, count_label_pairs, pair_memory

PAIR_EVENTS = 5_000_000
"""Most times two labels meet on a task for which the pair list is built: about two seconds and 300 MB."""
PAIR_WORK = 200_000_000
"""Numbers read to compare the confusion matrices of all pairs: K² a pair, about a second."""
DENSE_WORKERS = 2_000
"""Up to so many workers all pairs are compared by one matrix product, whatever K."""
CO_LABELS = 20
"""Common tasks a pair needs before copying is tested: with fewer, alike is not the same as copied."""
COPIED_SHARE = 0.5
"""Least share of copied labels that is reported: shared habits of honest workers stay below it."""
ALIKE = 0.98
"""Agreement from which two workers count as saying the same; copies with a slip of the finger stay above."""
NUMBERS_AT_ONCE = 1 << 22
"""Numbers gathered together while pairs are compared: 32 MB."""
GAP = 0.95
"""If honest pairs agree more often than this, a pair that always agrees is no surprise."""
FALSE_ALARMS = 1e-3
"""Chance that an honest crowd has any pair reported (Bonferroni over the tested pairs)."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Alike:
    """Reported pairs of workers, the `share` of copied labels, the common tasks."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    share: Floats
    n_common: Ints

    def peers(self, n_workers: int) -> NDArray[np.intp]:
        """For every worker the one they copy most (the most common tasks among equals), or -1."""
        peer = np.full(n_workers, -1, np.intp)
        order = np.lexsort((self.n_common, self.share))  # the strongest last, so that it stays
        peer[self.left[order]] = self.right[order]
        strongest = np.full(n_workers, -1.0)
        strongest[self.left[order]] = self.share[order]
        better = order[self.share[order] > strongest[self.right[order]]]
        peer[self.right[better]] = self.left[better]
        return peer


def pairs_within_reach(labels: CodedLabels, memory: int | None = None) -> PairCounts | None:
    """The pair counts when they are affordable, else None."""
    sizes = (np.diff(block.offsets) for block in labels.blocks())
    events = sum(int((per_task * (per_task - 1) // 2).sum()) for per_task in sizes)
    costly = events * labels.n_classes**2 > PAIR_WORK and labels.n_workers > DENSE_WORKERS
    if events > PAIR_EVENTS or costly or (memory is not None and pair_memory(labels) > memory):
        return None
    return count_label_pairs(labels)


def expected_agreement(pairs: PairCounts, mixture: Mixture) -> Floats:
    """E_mj of every observed pair (P,)."""
    left, right, _ = pairs.observed
    roots = (mixture.table * np.sqrt(mixture.weights)).reshape(pairs.n_columns, -1)
    if pairs.n_columns <= DENSE_WORKERS:
        return np.asarray(np.minimum((roots @ roots.T)[left, right], 1.0))
    expected = np.empty(len(left))
    step = max(NUMBERS_AT_ONCE // roots.shape[1], 1)
    for begin in range(0, len(left), step):
        part = slice(begin, begin + step)
        expected[part] = np.einsum("pc,pc->p", roots[left[part]], roots[right[part]])
    return np.minimum(expected, 1.0)


def agreements(pairs: PairCounts) -> Ints:
    """On how many common tasks each observed pair of workers gave the same label (P,)."""
    size = int(pairs.first[1] - pairs.first[0])
    left, right, _ = pairs.observed
    coo = pairs.gram.tocoo()
    row, col = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
    same = (row % size == col % size) & (row < col)
    key = (row[same] // size) * pairs.n_columns + col[same] // size
    at = np.searchsorted(left * pairs.n_columns + right, key)
    return np.bincount(at, coo.data[same], minlength=len(left)).astype(np.int64)


def find_copies(pairs: PairCounts, mixture: Mixture) -> Alike:
    """Pairs of workers whose agreement the model cannot explain."""
    left, right, sizes = pairs.observed
    tested = sizes >= CO_LABELS
    same, expected = agreements(pairs)[tested], expected_agreement(pairs, mixture)[tested]
    left, right, sizes = left[tested], right[tested], sizes[tested]
    level = FALSE_ALARMS / max(len(left), 1)
    share = (same / np.maximum(sizes, 1) - expected) / np.maximum(1 - expected, 1e-12)
    spread = np.sqrt(np.maximum(sizes * expected * (1 - expected), 1e-12))
    beyond = (same - sizes * expected) / spread > -ndtri(level)
    found = (beyond & (share >= COPIED_SHARE)) | _apart(sizes, same, level)
    return Alike(left[found], right[found], np.clip(share[found], 0, 1), sizes[found])


def _apart(sizes: Ints, same: Ints, level: float) -> NDArray[np.bool_]:
    """Pairs that say the same although no other two workers come near it."""
    rate = same / np.maximum(sizes, 1)
    alike = rate >= ALIKE
    if not alike.any() or alike.all():
        return np.zeros(len(sizes), bool)
    next_best = float(rate[~alike].max())
    if next_best > GAP:
        return np.zeros(len(sizes), bool)
    return np.asarray(alike & (bdtrc(same - 1, sizes, next_best) < level))
