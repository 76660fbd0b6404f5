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

Of the test of all pairs together (`joint_agreement`):

Paper     Newey 1985; Tauchen 1985; Satterthwaite 1946
Needs     4 to 20 workers, at most 400 parameters and 20,000 labels, no repeated answers
Promises  without a common source above the limit in about .3 % of the crowds (measured: .5 %)
Differs   regression and covariance by labels drawn from the fitted model on the same design, not by formulas

Symbols   here    shape              meaning
          s       (rows, pairs)      agreement beyond what the model expects
          u       (rows, free)       scores of the likelihood
          B       (free, pairs)      regression of s on u
          z       (pairs,)           standardised residuals of agreement
          t       (triples,)         their sums over the three pairs of three workers
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv, gammaincc, gammainccinv, ndtr, ndtri

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, unstack_confusions
from latentfit.labels.data import CodedLabels
from latentfit.labels.moments import count_label_pairs, pair_memory


@dataclass(frozen=True)
class Tuning:
    """Constants of the tests of dependence, each with its reason."""

    # Most pairs of labels on the same task for which the pair list is built: about two seconds and 300 MB.
    pair_events: int = 5_000_000
    # Numbers read to compare the confusion matrices of all pairs: K² per pair, about a second.
    pair_work: int = 200_000_000
    # Up to so many workers all pairs are compared by one matrix product, whatever K.
    dense_workers: int = 2_000
    # Common tasks a pair needs before copying is tested: with fewer, agreement is no evidence of copying.
    co_labels: int = 20
    # Agreement from which two workers may count as near-duplicates; copied labels with occasional slips stay
    # above.
    alike: float = 0.9
    # The same where such pairs are made of most of the workers: a crowd of good workers and one bad one looks
    # similar.
    nearly_always: float = 0.98
    # Numbers gathered together while pairs are compared: 32 MB.
    numbers_at_once: int = 1 << 22
    # Near-duplicate workers disagree at most this much as often as the next most similar pair.
    apart: float = 0.15
    # Level of the lower bound on how often the next most similar pair agrees.
    unsure: float = 0.05
    # Probability that an independent crowd has any pair reported (Bonferroni over the tested pairs).
    pair_false_alarms: float = 1e-3
    # Probability that an independent crowd is above the limit by the gamma distribution; 24 of 5,084 simulated
    # were.
    joint_false_alarms: float = 3e-3
    # Three workers have as many parameters as agreements. All pairs are compared on every task, hence the most.
    fewest_workers: int = 4
    most_workers: int = 20
    # With more, the pairs show a common source one by one.
    most_labels: int = 20_000
    # Scores that are taken out: the regression on them costs their square times the tasks.
    most_parameters: int = 400
    # What the fit leaves of the variance of a pair's agreement, at least: with less, nothing is left to test.
    least_variance: float = 1e-3
    # Tasks drawn from the model, at least: covariances to a few percent.
    drawn_tasks: int = 2_000
    # Most EM iterations, and the change of a probability below which they end.
    max_iter: int = 30
    tol: float = 1e-4


TUNING = Tuning()

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
    costly = events * labels.n_classes**2 > TUNING.pair_work and labels.n_workers > TUNING.dense_workers
    if events > TUNING.pair_events or costly or (memory is not None and pair_memory(labels) > memory):
        return None
    return count_label_pairs(labels)


def expected_agreement(pairs: PairCounts, mixture: Mixture) -> Floats:
    """E_mj of every observed pair (P,)."""
    left, right, _ = pairs.observed
    roots = (mixture.table * np.sqrt(mixture.weights)).reshape(pairs.n_columns, -1)
    if pairs.n_columns <= TUNING.dense_workers:
        return np.asarray(np.minimum((roots @ roots.T)[left, right], 1.0))
    expected = np.empty(len(left))
    step = max(TUNING.numbers_at_once // roots.shape[1], 1)
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
    tested = sizes >= TUNING.co_labels
    same, expected = agreements(pairs)[tested], expected_agreement(pairs, mixture)[tested]
    left, right, sizes = left[tested], right[tested], sizes[tested]
    level = TUNING.pair_false_alarms / max(len(left), 1)
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
    at_least = np.where(
        same > 0, betaincinv(np.maximum(same, 1), sizes - same + 1, TUNING.unsure), 0.0
    )  # Clopper & Pearson
    order = np.argsort(-rate, kind="stable")
    next_best = np.maximum.accumulate(at_least[order][::-1])[::-1]  # of this pair and all that agree less
    reported = np.zeros(len(sizes), bool)
    n_workers = len(np.unique([left, right]))
    ends = np.flatnonzero(np.diff(rate[order]) < 0) + 1  # where a group of the most similar pairs may end
    for end in ends[rate[order][ends - 1] >= TUNING.alike]:
        group = order[:end]
        other = np.maximum(next_best[end], habit[group])
        minority = 2 * len(np.unique([left[group], right[group]])) <= n_workers
        near = (1 - rate[group] <= TUNING.apart * (1 - other)) & (minority | (rate[group] >= TUNING.nearly_always))
        reported[group[near & (bdtrc(same[group] - 1, sizes[group], other) < level)]] = True
    return reported


# -----------------------------------------------------------------------------
# Do workers agree with one another more than the model explains, all of them taken together?
#
# One pair of judges tested at a time needs about a thousand tasks to show a common source: with few tasks each pair
# agrees a little too much, and only all of them together show it. For task i and pair (m, j) let
#
#     s_i,mj = [labels agree] − E_mj,    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],
#
# zero where one of them gave no label. Its sum over tasks is no sum of independent residuals, since the model was
# fitted to the same labels. So what the scores of the likelihood explain is projected out (a conditional moment test):
# with B the regression of s on the scores u under the model, r = Σ_i (s_i − B u_i) does not depend on the parameters to
# first order; it is the efficient score of a log-linear interaction of the two workers within the classes. B, and the
# covariance of r, come from labels drawn from the model for the tasks that each worker labelled.
#
# A common source makes every pair of a group agree more often, so residuals are added over groups before they are
# squared, and only positive sums count. With z_mj = r_mj / σ_mj, σ_mj² the variance of Σ_i s_i,mj, and
# t_G = z_mj + z_mh + z_jh for every three workers G = {m, j, h}, the statistic is Σ_G max(t_G, 0)². Without a common
# source t is close to normal with covariance V = (V_GH). The tail is taken as that of the gamma distribution with mean
# Σ_G V_GG / 2 and variance
#
#     Σ_GH [2/π √(V_GG V_HH) V_GH + (5/4 − 2/π) V_GH²],
#
# the first two terms of E[max(x, 0)² max(y, 0)²] in powers of the correlation of x and y, the second one raised so that
# the sum is exact at correlations 0 and 1 (above it else). All of this needs pairs of pairs only, never of triples.
#
# The parameters are those of EM on these labels from the fit on: what smoothing or a vote leaves would look like
# agreement. Rows and workers are put in an order of their own first, so that the order of the file does not matter.


Codes = NDArray[np.int8]
Counts = NDArray[np.int64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class PairResidual:
    """The pair of workers that agrees most beyond the model: by `z` standard errors, of `n_pairs` that were tested."""

    left: int
    right: int
    z: float
    n_pairs: int

    @property
    def limit(self) -> float:
        """The z that no pair of an independent crowd exceeds, but for `pair_false_alarms` of the crowds."""
        return float(-ndtri(TUNING.joint_false_alarms / self.n_pairs))

    @property
    def p_value(self) -> float:
        """Probability that some pair of an independent crowd agrees as much (Bonferroni)."""
        return float(min(self.n_pairs * ndtr(-self.z), 1.0))


@dataclass(frozen=True)
class JointAgreement:
    """Sum over triples of workers of their squared positive residuals of agreement, the parameters of the gamma
    distribution it follows in an independent crowd, and the `largest` residual of a pair."""

    value: float
    shape: float
    scale: float
    largest: PairResidual

    @property
    def limit(self) -> float:
        """The value that an independent crowd exceeds with probability `joint_false_alarms`."""
        if not self.scale > 0:  # nobody ever differs
            return float("inf")
        return float(gammainccinv(self.shape, TUNING.joint_false_alarms)) * self.scale

    @property
    def p_value(self) -> float:
        """Probability of such a value in an independent crowd."""
        return float(gammaincc(self.shape, self.value / self.scale)) if self.scale > 0 else 1.0

    @property
    def beyond(self) -> bool:
        """Whether workers agree more than the model explains."""
        return self.value > self.limit


@dataclass(frozen=True)
class _Model:
    weights: Floats  # (K,)
    confusions: Floats  # (worker, true, given)

    def posterior(self, seen: Floats) -> Floats:
        """P(class | labels) of every task (n, K), from indicators of its labels (n, workers · K)."""
        tables = np.log(np.maximum(self.confusions, PROBABILITY_FLOOR)).transpose(0, 2, 1)
        logs = np.log(np.maximum(self.weights, PROBABILITY_FLOOR)) + seen @ tables.reshape(-1, len(self.weights))
        own = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(own / own.sum(axis=1, keepdims=True))

    def scores(self, given: Codes) -> Floats:
        """Derivatives of each task's log-likelihood by the logits of the parameters (n, parameters)."""
        n, seen = len(given), _indicators(given, len(self.weights))
        own = self.posterior(seen.reshape(n, -1))
        off = seen[:, :, None, 1:] - (given >= 0)[:, :, None, None] * self.confusions[:, :, 1:]
        return np.concatenate([(own - self.weights)[:, 1:], (off * own[:, None, :, None]).reshape(n, -1)], axis=1)

    def draw(self, labelled: NDArray[np.bool_], rng: np.random.Generator) -> Codes:
        """Labels of tasks of the model where `labelled` (n, workers) says so, else -1."""
        n, n_workers = labelled.shape
        classes = (rng.random((n, 1)) > np.cumsum(self.weights)[:-1]).sum(axis=1)
        below = np.cumsum(self.confusions, axis=2)[:, :, :-1]
        drawn = [(rng.random((n, 1)) > below[m][classes]).sum(axis=1) for m in range(n_workers)]
        return np.where(labelled, np.stack(drawn, axis=1), -1).astype(np.int8)


def joint_agreement(labels: CodedLabels, mixture: Mixture) -> JointAgreement | None:
    """The test; None where it is too costly, someone answered a task twice, or too few pairs share tasks."""
    K, n_workers = labels.n_classes, labels.n_workers
    sized = TUNING.fewest_workers <= n_workers <= TUNING.most_workers and labels.n_labels <= TUNING.most_labels
    if not sized or K < 2 or n_workers * K * (K - 1) > TUNING.most_parameters:
        return None
    given = _matrix(labels)
    if given is None:
        return None
    workers = np.argsort(np.array([str(name) for name in labels.worker_names]), kind="stable")
    unique_rows, counts = _unique_rows(given[:, workers], K)
    labelled = unique_rows >= 0
    left, right = np.triu_indices(n_workers, 1)
    tested = counts @ (labelled[:, left] & labelled[:, right]) >= TUNING.co_labels
    if tested.sum() < TUNING.fewest_workers:
        return None
    model = _refined(_Model(mixture.weights, unstack_confusions(mixture)[workers]), unique_rows, counts)
    left, right = left[tested], right[tested]
    z, covariance = _residuals(model, unique_rows, counts, left, right)
    single = z / np.sqrt(np.maximum(covariance.diagonal(), TUNING.least_variance))
    top = int(single.argmax())
    largest = PairResidual(int(workers[left[top]]), int(workers[right[top]]), float(single[top]), len(z))
    return _tested(z, covariance, left, right, n_workers, largest)


def _matrix(labels: CodedLabels) -> Codes | None:
    """Labels as a matrix (labelled tasks, workers), -1 where there is none; None if someone answered a task twice."""
    matrices = []
    for block in labels.blocks():
        if block.answer_of() is not None:
            return None
        block_matrix = np.full((block.n_rows, labels.n_workers), -1, np.int8)
        block_matrix[block.task_of(), block.workers] = block.given
        matrices.append(block_matrix[(block_matrix >= 0).any(axis=1)])
    return np.concatenate(matrices) if matrices else None


def _unique_rows(given: Codes, n_classes: int) -> tuple[Codes, Counts]:
    """Unique rows, in an order of their own, and how often each occurs."""
    key = (given + np.int64(1)) @ (n_classes + 1) ** np.arange(given.shape[1])  # below 2⁶³ up to TUNING.most_parameters
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    return given[first], counts


def _indicators(given: Codes, n_classes: int) -> Floats:
    return np.asarray(given[:, :, None] == np.arange(n_classes), np.float64)


def _refined(model: _Model, unique_rows: Codes, counts: Counts) -> _Model:
    """EM on these labels, from the model on."""
    K = len(model.weights)
    seen = _indicators(unique_rows, K).reshape(len(unique_rows), -1)
    for _ in range(TUNING.max_iter):
        own = model.posterior(seen) * counts[:, None]
        table = (seen.T @ own).reshape(-1, K, K).transpose(0, 2, 1) + PROBABILITY_FLOOR
        new = _Model(own.sum(axis=0) / counts.sum(), table / table.sum(axis=2, keepdims=True))
        change = np.abs(new.confusions - model.confusions).max()
        model = new
        if change < TUNING.tol:
            break
    return model


def _residuals(
    model: _Model, unique_rows: Codes, counts: Counts, left: Indices, right: Indices
) -> tuple[Floats, Floats]:
    """z of every pair and its covariance under the model."""
    n = int(counts.sum())
    expected = np.einsum("k,mkg,jkg->mj", model.weights, model.confusions, model.confusions)[left, right]

    def beyond(codes: Codes) -> Floats:
        a, b = codes[:, left], codes[:, right]
        return np.where((a >= 0) & (b >= 0), (a == b) - expected, 0.0)

    labelled = np.repeat(unique_rows >= 0, counts, axis=0)
    labelled = labelled[np.lexsort(labelled.T)]
    drawn = model.draw(np.tile(labelled, (-(-TUNING.drawn_tasks // n), 1)), np.random.default_rng(0))
    n_drawn = len(drawn)
    drawn, times = _unique_rows(drawn, len(model.weights))
    root = np.sqrt(times)[:, None]
    s, scores = beyond(drawn) * root, model.scores(drawn) * root
    slope = np.linalg.pinv(scores.T @ scores, rcond=1e-8, hermitian=True) @ (scores.T @ s)
    deviation = np.sqrt(np.maximum(np.square(s).sum(axis=0) * (n / n_drawn), PROBABILITY_FLOOR))
    left_over = (s - scores @ slope) / deviation
    covariance = left_over.T @ left_over * (n / max(n_drawn - scores.shape[1], 1))
    return counts @ (beyond(unique_rows) - model.scores(unique_rows) @ slope) / deviation, covariance


def _tested(
    z: Floats, covariance: Floats, left: Indices, right: Indices, n_workers: int, largest: PairResidual
) -> JointAgreement:
    """The statistic over all triples of workers; a pair with too few common tasks adds nothing to its triples."""
    place = np.full((n_workers, n_workers), len(z))
    place[left, right] = np.arange(len(z))
    m, j, h = np.array(list(combinations(range(n_workers), 3))).T
    pairs = np.stack([place[m, j], place[m, h], place[j, h]])  # (3, triples)
    padded = np.pad(covariance, (0, 1))
    squares = padded[pairs[:, None], pairs].sum(axis=(0, 1))  # V_GG
    deviation = np.sqrt(np.maximum(squares, 0.0))
    value = float(np.square(np.maximum(np.append(z, 0.0)[pairs].sum(axis=0), 0.0)).sum())
    of_pairs = np.bincount(pairs.ravel(), np.tile(deviation, 3), len(z) + 1)[:-1]
    member = np.zeros((len(z), n_workers))
    member[np.arange(len(z)), left] = member[np.arange(len(z)), right] = 1.0
    together = covariance @ (member @ member.T + (n_workers - 4) * np.eye(len(z)))  # in how many triples two pairs are
    mean = float(squares.sum()) / 2
    variance = 2 / np.pi * float(of_pairs @ covariance @ of_pairs) + (5 / 4 - 2 / np.pi) * float(
        (together * together.T).sum()
    )
    if mean <= TUNING.least_variance or variance <= 0:
        return JointAgreement(value, 1.0, 0.0, largest)
    return JointAgreement(value, mean**2 / variance, variance / mean, largest)
