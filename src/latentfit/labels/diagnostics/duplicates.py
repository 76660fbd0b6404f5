"""Workers who agree with one another more than the model explains, or who say the same.

Under the model two workers who labelled the same task agree with probability

    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],

independently from task to task, so the agreements on |S_mj| common tasks are binomial. A pair is reported when it
agrees more often than that (the exact tail, Bonferroni over the pairs): one may copy the other, both may go back to one
source, or the consensus follows others who do, and these two are what is left of the truth. When three judges of six
share a base model, the fit takes that for the truth, and it is the other three who agree beyond the model: the labels
alone cannot say which side is which.

When the fit takes near-duplicates for the truth, E of these pairs goes to one and explains them. They then stand apart:
some pairs agree (nearly) always, while the next most similar pair is far from it, by a lower confidence bound: an
independent pair with twenty common tasks and twenty agreements does not count as similar. Two flawless workers
among mediocre ones look just the same; no statistic can distinguish the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture
from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.moments import count_label_pairs, pair_memory

PAIR_EVENTS = 5_000_000
"""Most pairs of labels on the same task for which the pair list is built: about two seconds and 300 MB."""
PAIR_WORK = 200_000_000
"""Numbers read to compare the confusion matrices of all pairs: K² per pair, about a second."""
DENSE_WORKERS = 2_000
"""Up to so many workers all pairs are compared by one matrix product, whatever K."""
CO_LABELS = 20
"""Common tasks a pair needs before copying is tested: with fewer, agreement is no evidence of copying."""
ALIKE = 0.9
"""Agreement from which two workers may count as near-duplicates; copied labels with occasional slips stay above."""
NEARLY_ALWAYS = 0.98
"""The same where such pairs are made of most of the workers: a crowd of good workers and one bad one looks similar."""
NUMBERS_AT_ONCE = 1 << 22
"""Numbers gathered together while pairs are compared: 32 MB."""
APART = 0.15
"""Near-duplicate workers disagree at most this much as often as the next most similar pair."""
UNSURE = 0.05
"""Level of the lower bound on how often the next most similar pair agrees."""
FALSE_ALARMS = 1e-3
"""Probability that an independent crowd has any pair reported (Bonferroni over the tested pairs)."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DependentPairs:
    """Reported pairs of workers: the `excess` of agreement beyond the model, the common tasks, and whether they say the
    `same` although no other two workers come near it."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    excess: Floats
    n_common: Ints
    same: NDArray[np.bool_]

    def peers(self, n_workers: int) -> NDArray[np.intp]:
        """For every worker the one they agree with most (the most common tasks among equals), or -1."""
        peer = np.full(n_workers, -1, np.intp)
        strength = self.excess + self.same  # who says the same comes before who agrees beyond the model
        order = np.lexsort((self.n_common, strength))  # the strongest last, so that it stays
        peer[self.left[order]] = self.right[order]
        strongest = np.full(n_workers, -1.0)
        strongest[self.left[order]] = strength[order]
        better = order[strength[order] > strongest[self.right[order]]]
        peer[self.right[better]] = self.left[better]
        return peer

    def near_identical(self) -> set[int]:
        """Indices of workers who are near-duplicates of another."""
        return {*self.left[self.same].tolist(), *self.right[self.same].tolist()}


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
        chunk = slice(begin, begin + step)
        expected[chunk] = np.einsum("pc,pc->p", roots[left[chunk]], roots[right[chunk]])
    return np.minimum(expected, 1.0)


def agreements(pairs: PairCounts) -> Ints:
    """On how many common tasks each observed pair of workers gave the same label (P,)."""
    size = int(pairs.column_offsets[1] - pairs.column_offsets[0])
    left, right, _ = pairs.observed
    coo = pairs.gram.tocoo()
    row, col = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
    same = (row % size == col % size) & (row < col)
    key = (row[same] // size) * pairs.n_columns + col[same] // size
    at = np.searchsorted(left * pairs.n_columns + right, key)
    return np.bincount(at, coo.data[same], minlength=len(left)).astype(np.int64)


def find_dependent_pairs(pairs: PairCounts, mixture: Mixture) -> DependentPairs:
    """Pairs of workers whose agreement the model cannot explain, or who say the same."""
    left, right, sizes = pairs.observed
    tested = sizes >= CO_LABELS
    same, expected = agreements(pairs)[tested], expected_agreement(pairs, mixture)[tested]
    left, right, sizes = left[tested], right[tested], sizes[tested]
    level = FALSE_ALARMS / max(len(left), 1)
    excess = (same / np.maximum(sizes, 1) - expected) / np.maximum(1 - expected, 1e-12)
    beyond = (excess > 0) & (bdtrc(same - 1, sizes, expected) < level)
    near_identical = _apart(left, right, sizes, same, by_habit(mixture, left, right), level)
    reported = beyond | near_identical
    left, right, excess, sizes = left[reported], right[reported], np.clip(excess[reported], 0, 1), sizes[reported]
    return DependentPairs(left, right, excess, sizes, near_identical[reported])


def by_habit(mixture: Mixture, left: NDArray[np.intp], right: NDArray[np.intp]) -> Floats:
    """How often each pair would agree if their labels had nothing to do with the task (P,): two constants, always."""
    n_given = int(mixture.column_offsets[1] - mixture.column_offsets[0])
    usual = (mixture.table @ mixture.weights).reshape(-1, n_given)
    return np.asarray(np.minimum(np.einsum("pg,pg->p", usual[left], usual[right]), 1.0))


def _apart(
    left: NDArray[np.intp], right: NDArray[np.intp], sizes: Ints, same: Ints, habit: Floats, level: float
) -> NDArray[np.bool_]:
    """Pairs that say the same although no other two workers come near it, nor their own habits (`habit`)."""
    rate = same / np.maximum(sizes, 1)
    at_least = np.where(same > 0, betaincinv(np.maximum(same, 1), sizes - same + 1, UNSURE), 0.0)  # Clopper & Pearson
    order = np.argsort(-rate, kind="stable")
    next_best = np.maximum.accumulate(at_least[order][::-1])[::-1]  # of this pair and all that agree less
    reported = np.zeros(len(sizes), bool)
    n_workers = len(np.unique([left, right]))
    ends = np.flatnonzero(np.diff(rate[order]) < 0) + 1  # where a group of the most similar pairs may end
    for end in ends[rate[order][ends - 1] >= ALIKE]:
        group = order[:end]
        other = np.maximum(next_best[end], habit[group])
        minority = 2 * len(np.unique([left[group], right[group]])) <= n_workers
        near = (1 - rate[group] <= APART * (1 - other)) & (minority | (rate[group] >= NEARLY_ALWAYS))
        reported[group[near & (bdtrc(same[group] - 1, sizes[group], other) < level)]] = True
    return reported
