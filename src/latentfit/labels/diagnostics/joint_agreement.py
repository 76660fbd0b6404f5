"""Do workers agree with one another more than the model explains, all pairs taken together?

One pair of judges tested at a time (`copies.py`) needs about a thousand tasks to show a common source: with few tasks
each pair agrees a little too much, and only all of them together show it. For task i and pair (m, j) let

    s_i,mj = [labels agree] − E_mj,    E_mj = Σ_k prior_k Σ_g A_m[k, g] A_j[k, g],

zero where one of them gave no label. Its sum over tasks is no sum of independent residuals, since the model was fitted
to the same labels. So the part that the scores of the likelihood explain is taken out (a conditional moment test):
with B the regression of s on the scores u under the model, r = Σ_i (s_i − B u_i) does not depend on the parameters to
first order. B, and the covariance of r, come from labels drawn from the model for the tasks that each worker labelled.
The statistic is Σ (r_mj / σ_mj)² over pairs, σ_mj² the variance of Σ_i s_i,mj; without a common source it is a weighted
sum of χ²₁, whose tail is taken as that of the gamma distribution of the same mean and variance (Satterthwaite).

The parameters are those of EM on these labels from the fit on: what smoothing or a vote leaves would look like
agreement. Rows and workers are put in an order of their own first, so that the order of the file does not matter.

Paper     Newey 1985; Tauchen 1985; Satterthwaite 1946
Needs     4 to 20 workers, at most 400 parameters and 20,000 labels, no repeated answers
Promises  without a common source above the limit in about .2 % of the crowds (measured: .5 %)
Differs   regression and covariance by labels drawn from the fitted model on the same design, not by formulas

Symbols   here    shape            meaning
          s       (tasks, pairs)   agreement beyond what the model expects
          u       (tasks, free)    scores of the likelihood
          B       (pairs, free)    regression of s on u
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, unstack_confusions
from latentfit.labels.data.labels import CodedLabels

FALSE_ALARMS = 2e-3
"""Chance that an independent crowd is above the limit, as the gamma distribution has it; 7 of 1,134 simulated were."""
FEWEST_WORKERS, MOST_WORKERS = 4, 20
"""Three workers have as many parameters as agreements. All pairs are compared on every task, hence the most."""
MOST_LABELS = 20_000
"""With more, the pairs show a common source one by one."""
MOST_PARAMETERS = 400
"""Scores that are taken out: the regression on them costs their square times the tasks."""
CO_LABELS = 20
"""Common tasks a pair needs to be counted."""
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
    limit = float(gammainccinv(mean**2 / variance, FALSE_ALARMS)) * variance / mean
    return JointAgreement(value, limit, float(np.square(np.maximum(z, 0)).sum()) / max(value, PROBABILITY_FLOOR))
