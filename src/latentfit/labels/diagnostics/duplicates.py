"""Workers who agree with one another more than the model explains, or who say the same.

Under the model two workers who labelled the same task agree with probability

    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],

independently from task to task, so the agreements on |S_mj| common tasks are binomial. A pair is reported when it
agrees more often than that (the exact tail, Bonferroni over the pairs): one may copy the other, both may go back to one
source, or the consensus follows others who do, and these two are what is left of the truth. When three judges of six
share a base model, the fit takes that for the truth, and it is the other three who agree beyond the model: the labels
alone cannot say which side is which.

When the fit takes copies for the truth, E of the copies themselves goes to one and explains them. They show as a gap:
some pairs say (nearly) the same, while the next most similar pair is far from it, by a lower confidence bound: an
honest pair with twenty common tasks and twenty agreements fills no gap. Two flawless workers among mediocre ones look
just the same; no statistic could tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv, gammainccinv

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, unstack_confusions
from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.moments import count_label_pairs, pair_memory

PAIR_EVENTS = 5_000_000
"""Most times two labels meet on a task for which the pair list is built: about two seconds and 300 MB."""
PAIR_WORK = 200_000_000
"""Numbers read to compare the confusion matrices of all pairs: K² a pair, about a second."""
DENSE_WORKERS = 2_000
"""Up to so many workers all pairs are compared by one matrix product, whatever K."""
CO_LABELS = 20
"""Common tasks a pair needs before copying is tested: with fewer, alike is not the same as copied."""
ALIKE = 0.9
"""Agreement from which two workers may count as saying the same; copies with slips of the finger stay above."""
NEARLY_ALWAYS = 0.98
"""The same where such pairs are made of most of the workers: a crowd of good workers and one bad one has a gap too."""
NUMBERS_AT_ONCE = 1 << 22
"""Numbers gathered together while pairs are compared: 32 MB."""
APART = 0.15
"""Two workers who say the same disagree at most this much as often as the next most similar two."""
UNSURE = 0.05
"""Level of the lower bound on how often the next most similar pair agrees."""
FALSE_ALARMS = 1e-3
"""Chance that an honest crowd has any pair reported (Bonferroni over the tested pairs)."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Alike:
    """Reported pairs of workers: the `share` of agreement beyond the model, the common tasks, and whether they say the
    `same` although no other two workers come near it."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    share: Floats
    n_common: Ints
    same: NDArray[np.bool_]

    def peers(self, n_workers: int) -> NDArray[np.intp]:
        """For every worker the one they agree with most (the most common tasks among equals), or -1."""
        peer = np.full(n_workers, -1, np.intp)
        strength = self.share + self.same  # who says the same comes before who agrees beyond the model
        order = np.lexsort((self.n_common, strength))  # the strongest last, so that it stays
        peer[self.left[order]] = self.right[order]
        strongest = np.full(n_workers, -1.0)
        strongest[self.left[order]] = strength[order]
        better = order[strength[order] > strongest[self.right[order]]]
        peer[self.right[better]] = self.left[better]
        return peer

    def twins(self) -> set[int]:
        """Workers who say the same as another."""
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
    """Pairs of workers whose agreement the model cannot explain, or who say the same."""
    left, right, sizes = pairs.observed
    tested = sizes >= CO_LABELS
    same, expected = agreements(pairs)[tested], expected_agreement(pairs, mixture)[tested]
    left, right, sizes = left[tested], right[tested], sizes[tested]
    level = FALSE_ALARMS / max(len(left), 1)
    share = (same / np.maximum(sizes, 1) - expected) / np.maximum(1 - expected, 1e-12)
    beyond = (share > 0) & (bdtrc(same - 1, sizes, expected) < level)
    twins = _apart(left, right, sizes, same, by_habit(mixture, left, right), level)
    found = beyond | twins
    return Alike(left[found], right[found], np.clip(share[found], 0, 1), sizes[found], twins[found])


def by_habit(mixture: Mixture, left: NDArray[np.intp], right: NDArray[np.intp]) -> Floats:
    """How often each pair would agree if their labels had nothing to do with the task (P,): two constants, always."""
    n_given = int(mixture.first[1] - mixture.first[0])
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
    found = np.zeros(len(sizes), bool)
    n_workers = len(np.unique([left, right]))
    ends = np.flatnonzero(np.diff(rate[order]) < 0) + 1  # where a group of the most similar pairs may end
    for end in ends[rate[order][ends - 1] >= ALIKE]:
        group = order[:end]
        other = np.maximum(next_best[end], habit[group])
        minority = 2 * len(np.unique([left[group], right[group]])) <= n_workers
        near = (1 - rate[group] <= APART * (1 - other)) & (minority | (rate[group] >= NEARLY_ALWAYS))
        found[group[near & (bdtrc(same[group] - 1, sizes[group], other) < level)]] = True
    return found


# -----------------------------------------------------------------------------
# Do workers agree with one another more than the model explains, all pairs taken together?
#
# One pair of judges tested at a time (`copies.py`) needs about a thousand tasks to show a common source: with few tasks
# each pair agrees a little too much, and only all of them together show it. For task i and pair (m, j) let
#
#     s_i,mj = [labels agree] − E_mj,    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],
#
# zero where one of them gave no label. Its sum over tasks is no sum of independent residuals, since the model was
# fitted
# to the same labels. So the part that the scores of the likelihood explain is taken out (a conditional moment test):
# with B the regression of s on the scores u under the model, r = Σ_i (s_i − B u_i) does not depend on the parameters to
# first order. B, and the covariance of r, come from labels drawn from the model for the tasks that each worker
# labelled.
# The statistic is Σ (r_mj / σ_mj)² over pairs, σ_mj² the variance of Σ_i s_i,mj; without a common source it is a
# weighted
# sum of χ²₁, whose tail is taken as that of the gamma distribution of the same mean and variance (Satterthwaite).
#
# The parameters are those of EM on these labels from the fit on: what smoothing or a vote leaves would look like
# agreement. Rows and workers are put in an order of their own first, so that the order of the file does not matter.
#
# Paper     Newey 1985; Tauchen 1985; Satterthwaite 1946
# Needs     4 to 20 workers, at most 400 parameters and 20,000 labels, no repeated answers
# Promises  without a common source above the limit in about .2 % of the crowds (measured: .5 %)
# Differs   regression and covariance by labels drawn from the fitted model on the same design, not by formulas
#
# Symbols   here    shape            meaning
#           s       (tasks, pairs)   agreement beyond what the model expects
#           u       (tasks, free)    scores of the likelihood
#           B       (pairs, free)    regression of s on u

JOINT_AGREEMENT_FALSE_ALARMS = 2e-3
"""Chance that an independent crowd is above the limit, as the gamma distribution has it; 7 of 1,134 simulated were."""
FEWEST_WORKERS, MOST_WORKERS = 4, 20
"""Three workers have as many parameters as agreements. All pairs are compared on every task, hence the most."""
MOST_LABELS = 20_000
"""With more, the pairs show a common source one by one."""
MOST_PARAMETERS = 400
"""Scores that are taken out: the regression on them costs their square times the tasks."""
DRAWN_TASKS = 2_000
"""Tasks drawn from the model, at least: covariances to a few percent."""
STEPS, STILL = 30, 1e-4
"""Most steps of EM, and the change of a probability below which they end."""

Codes = NDArray[np.int8]


@dataclass(frozen=True)
class JointAgreement:
    """Sum over pairs of squared standardised residuals, its limit, and the share of it from pairs that agree more often
    than expected (the others agree less often)."""

    value: float
    limit: float
    share_above: float

    @property
    def beyond(self) -> bool:
        """Whether workers agree more than the model explains."""
        return self.value > self.limit and self.share_above > 0.5


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
    sized = FEWEST_WORKERS <= n_workers <= MOST_WORKERS and labels.n_labels <= MOST_LABELS
    if not sized or K < 2 or n_workers * K * (K - 1) > MOST_PARAMETERS:
        return None
    given = _matrix(labels)
    if given is None:
        return None
    workers = np.argsort(np.array([str(name) for name in labels.worker_names]), kind="stable")
    given = given[:, workers]
    given = given[np.lexsort(given.T)]
    labelled = given >= 0
    left, right = np.triu_indices(n_workers, 1)
    met = (labelled[:, left] & labelled[:, right]).sum(axis=0) >= CO_LABELS
    if met.sum() < FEWEST_WORKERS:
        return None
    model = _climbed(_Model(mixture.weights, unstack_confusions(mixture)[workers]), given)
    return _tested(model, given, left[met], right[met])


def _matrix(labels: CodedLabels) -> Codes | None:
    """Labels as a matrix (labelled tasks, workers), -1 where there is none; None if someone answered a task twice."""
    parts = []
    for block in labels.blocks():
        if block.answer_of() is not None:
            return None
        part = np.full((block.n_rows, labels.n_workers), -1, np.int8)
        part[block.task_of(), block.workers] = block.given
        parts.append(part[(part >= 0).any(axis=1)])
    return np.concatenate(parts) if parts else None


def _indicators(given: Codes, n_classes: int) -> Floats:
    return np.asarray(given[:, :, None] == np.arange(n_classes), np.float64)


def _climbed(model: _Model, given: Codes) -> _Model:
    """EM on these labels, from the model on."""
    K = len(model.weights)
    seen = _indicators(given, K).reshape(len(given), -1)
    for _ in range(STEPS):
        own = model.posterior(seen)
        table = (seen.T @ own).reshape(-1, K, K).transpose(0, 2, 1) + PROBABILITY_FLOOR
        new = _Model(own.mean(axis=0), table / table.sum(axis=2, keepdims=True))
        change = np.abs(new.confusions - model.confusions).max()
        model = new
        if change < STILL:
            break
    return model


def _tested(model: _Model, given: Codes, left: NDArray[np.intp], right: NDArray[np.intp]) -> JointAgreement:
    n = len(given)
    expected = np.einsum("k,mkg,jkg->mj", model.weights, model.confusions, model.confusions)[left, right]

    def beyond(codes: Codes) -> Floats:
        a, b = codes[:, left], codes[:, right]
        return np.where((a >= 0) & (b >= 0), (a == b) - expected, 0.0)

    labelled = given >= 0
    labelled = labelled[np.lexsort(labelled.T)]
    drawn = model.draw(np.tile(labelled, (-(-DRAWN_TASKS // n), 1)), np.random.default_rng(0))
    s, scores = beyond(drawn), model.scores(drawn)
    slope = np.linalg.pinv(scores.T @ scores, rcond=1e-8, hermitian=True) @ (scores.T @ s)
    left_over = s - scores @ slope
    deviation = np.sqrt(np.maximum((s * s).mean(axis=0) * n, PROBABILITY_FLOOR))
    left_over /= deviation
    covariance = left_over.T @ left_over * (n / max(len(drawn) - scores.shape[1], 1))
    z = (beyond(given) - model.scores(given) @ slope).sum(axis=0) / deviation
    value, mean = float(z @ z), float(np.trace(covariance))
    variance = 2 * float(np.square(covariance).sum())
    if mean <= 0 or variance <= 0:  # nobody ever differs
        return JointAgreement(value, float("inf"), 0.0)
    limit = float(gammainccinv(mean**2 / variance, JOINT_AGREEMENT_FALSE_ALARMS)) * variance / mean
    return JointAgreement(value, limit, float(np.square(np.maximum(z, 0)).sum()) / max(value, PROBABILITY_FLOOR))
