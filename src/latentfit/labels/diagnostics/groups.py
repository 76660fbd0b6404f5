r"""Do the workers fall into two groups that agree within, and disagree between, beyond what the model explains?

Workers who follow two readings of the instructions, or two schools, err together within their group on the tasks that
the readings separate. Over all pairs this cancels: pairs across the groups disagree too much as others agree too much.
With r_im the standardised residual of whether worker m gave the consensus label of task i, the groups are the signs of
the v that maximises

.. math:: \sum_i \sum_{m<j} v_m v_j r_{im} r_{ij}, \qquad \sum_m n_m v_m = 0,

n_m being the labels of a worker, so that difficulty that all share does not count. v is found on half of the tasks,
and the sum taken on the other half: given v it has mean zero if the model is true, and standard error (Σ x_i²)^½.
Divided by what it would be if residuals were equal within the groups and opposite between, it is a correlation; the
mean of both halves is reported.

Paper     nothing published; the leading eigenvector of residual agreement, cross-validated
Needs     workers with ten labels or more
Promises  mean zero on independent crowds; camps are seen when their tasks are many enough to show on both halves
Differs   at most 200 workers, those with most labels

Symbols   here       shape             meaning
          residual   (labels,)         r of every label
          v          (workers,)        direction of the groups
          products   (tasks,)          x of every task: Σ_{m<j} v_m v_j r_m r_j
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import CodedLabels
from latentfit.labels.data.stored import block_hashes, sample_fraction


@dataclass(frozen=True)
class Tuning:
    """Constants of the test, each with its reason."""

    # Labels that are looked at: about half a second; larger crowds are sampled by the content of their tasks.
    most_labels: int = 2_000_000
    # Workers that may be in a group: the eigenvector costs their cube.
    most_workers: int = 200
    # Labels a worker needs to be in a group.
    fewest_labels: int = 10
    # Least variance of a residual: that of a worker who is right in 98 % of the tasks.
    least_variance: float = 0.02


TUNING = Tuning()


@dataclass(frozen=True)
class GroupAgreement:
    """Correlation within two groups of workers beyond the model, and its standard error."""

    correlation: float
    standard_error: float

    @property
    def least(self) -> float:
        """The correlation less three standard errors."""
        return self.correlation - 3 * self.standard_error

    @property
    def z(self) -> float:
        """The correlation in standard errors."""
        return self.correlation / self.standard_error if self.standard_error > 0 else 0.0


def group_agreement(labels: CodedLabels, mixture: Mixture) -> GroupAgreement | None:
    """The test; None where fewer than four workers have enough labels."""
    fraction = TUNING.most_labels / max(labels.n_labels, 1)
    sample = labels.task_slice(0, labels.n_rows) if fraction >= 1 else sample_fraction(labels, fraction, 0)
    sample = sample.without_gold().once()
    counts = np.bincount(sample.workers, minlength=sample.n_workers)
    busiest = np.argsort(-counts, kind="stable")[: TUNING.most_workers]
    chosen = busiest[counts[busiest] >= TUNING.fewest_labels]
    if len(chosen) < 4 or labels.n_classes < 2:
        return None
    residual = _residuals(sample.task_of(), sample.workers, sample.given, sample, mixture)
    matrix = sp.csr_array((residual, (sample.task_of(), sample.workers)), (sample.n_rows, sample.n_workers))
    matrix = sp.csr_array(matrix[:, chosen])
    first = block_hashes(sample, 0) < np.uint64(2**63)
    found = [_on_other_half(matrix[half], matrix[~half], counts[chosen]) for half in (first, ~first)]
    correlation, variance = np.mean([one[0] for one in found]), np.mean([one[1] ** 2 for one in found]) / 2
    return GroupAgreement(float(correlation), float(np.sqrt(variance)))


def _residuals(
    task: NDArray[np.int64], worker: NDArray[np.int32], given: NDArray[np.int32], labels: CodedLabels, mixture: Mixture
) -> Floats:
    """Standardised residual of whether each label is the consensus of its task (labels,)."""
    posterior, _ = posterior_of(MemoryEngine(labels), mixture)
    consensus = posterior.argmax(axis=1)[task]
    usual = unstack_confusions(mixture)[worker, consensus, consensus]
    return np.asarray(((given == consensus) - usual) / np.sqrt(np.maximum(usual * (1 - usual), TUNING.least_variance)))


def _on_other_half(one: sp.csr_array, other: sp.csr_array, counts: NDArray[np.int64]) -> tuple[float, float]:
    """Correlation on `other` within the groups that `one` shows, and its standard error."""
    squares = np.asarray(one.multiply(one).sum(axis=0)).reshape(-1)
    gram = (one.T @ one).toarray() - np.diag(squares)
    direction = counts / np.linalg.norm(counts)
    gram -= np.outer(direction, direction @ gram)  # projected: difficulty that all share is left out
    gram -= np.outer(gram @ direction, direction)
    n = len(counts)
    v = eigh(gram, subset_by_index=[n - 1, n - 1])[1][:, 0]
    total, own = other @ v, other.multiply(other) @ np.square(v)
    products = (np.square(total) - own) / 2
    present = other.copy()
    present.data = np.ones_like(present.data)
    weight = np.abs(v)
    perfect = float((np.square(present @ weight) - present @ np.square(weight)).sum()) / 2
    if not perfect > 0:
        return 0.0, 1.0
    return float(products.sum()) / perfect, float(np.sqrt(np.square(products).sum())) / perfect
