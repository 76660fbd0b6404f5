"""`method=` of `DawidSkene`: each published algorithm as one function from labels to an initialisation.

An initialisation is either a mixture (confusion matrices and prior) or a soft labelling of the tasks; both turn into
the sufficient statistics of an M-step, from which EM goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import align_each_worker, align_to_labels
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import maximise_tables
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.data.stored import sample_tasks
from latentfit.labels.em import SMOOTHING, crowd_prior, pooled_confusion
from latentfit.labels.init.robust import PairWeight, fit_robust_root, fit_root
from latentfit.labels.init.symnmf import mixture_from_factor, rotate_from_several, rotate_nonnegative
from latentfit.labels.moments import (
    CoLabelGraph,
    co_label_graph,
    count_label_pairs,
    hold_known,
    sufficient_statistics,
    vote_proportions,
    vote_statistics,
)

MOMENT_TASKS = 50_000
"""Tasks that the moment initialisation uses, the same on every engine; EM after it sees all of them."""


@dataclass(frozen=True)
class Initialisation:
    """Initial parameters: a mixture whose class k is label k, the method's own soft labels (n, K), or the votes."""

    mixture: Mixture | None = None
    posterior: Floats | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_vote(self) -> bool:
        return self.mixture is None and self.posterior is None

    def statistics(self, labels: CodedLabels, engine: MemoryEngine) -> Sums:
        if self.mixture is not None:
            return engine.sums(self.mixture)
        if self.posterior is not None:
            assert isinstance(labels, Labels)
            return sufficient_statistics(labels, self.posterior)
        return vote_statistics(labels)

    def task_posterior(self, labels: Labels, engine: MemoryEngine) -> Floats:
        """The method's own posterior of every task (n, K)."""
        if self.mixture is not None:
            return posterior_of(engine, self.mixture)[0]
        return vote_proportions(labels) if self.posterior is None else self.posterior


@dataclass(frozen=True)
class Settings:
    """What a method may use in addition to the labels."""

    rng: np.random.Generator
    memory: int | None = None


Method = Callable[[Labels, Settings], Initialisation]


def vote_mixture(labels: CodedLabels) -> Mixture:
    """Confusion matrices and prior that the votes imply, smoothed like the default fit."""
    stats = vote_statistics(labels)
    prior = crowd_prior(labels, pooled_confusion(stats, labels.n_classes), SMOOTHING)
    return maximise_tables(stats, prior, labels.column_offsets)


def init_votes(labels: CodedLabels, settings: Settings) -> Initialisation:
    return Initialisation()


def init_moments(labels: CodedLabels, seed: int) -> Initialisation:
    """The second initialisation of ``auto``: the root of the co-occurrences without a pair list, rotated.

    Of more than `MOMENT_TASKS` tasks those with the smallest hashes are used: an initialisation needs two digits.
    """
    votes, sample = vote_mixture(labels), sample_tasks(labels, MOMENT_TASKS, seed)
    seen = "the tasks" if sample.n_rows == labels.n_rows else f"{sample.n_rows:,} of {labels.n_rows:,} tasks"
    given = np.setdiff1d(np.arange(labels.n_classes), labels.never_given)
    if len(given) == labels.n_classes:
        mixture, sweeps = _from_root(sample, votes)
    else:
        mixture, sweeps = _among_given(sample, votes, given)
    return Initialisation(mixture, notes=[f"moments: {sweeps} sweeps over {seen}"])


def _from_root(labels: Labels, votes: Mixture) -> tuple[Mixture, int]:
    root, sweeps = fit_root(labels, votes.table * np.sqrt(votes.weights))
    return _rotated(labels, root, votes, co_label_graph(labels)), sweeps


def _among_given(labels: Labels, votes: Mixture, given: NDArray[np.intp]) -> tuple[Mixture, int]:
    """The same among the `given` classes, which are all that have a label; the others are as the votes have them."""
    size, among = votes.n_classes, np.ix_(np.arange(labels.n_workers), given, given)
    code = np.searchsorted(given, labels.given).astype(np.int32)
    labels = replace(labels, given=code, class_names=labels.class_names[given], never_given=())
    cube, weights = votes.table.reshape(-1, size, size).copy(), votes.weights.copy()
    proportion = weights[given].sum()
    of_given = Mixture(weights[given] / proportion, cube[among].reshape(-1, len(given)), labels.column_offsets)
    mixture, sweeps = _from_root(labels, of_given)
    cube[:, :, given] = 0.0
    cube[among] = mixture.table.reshape(-1, len(given), len(given))
    weights[given] = mixture.weights * proportion
    return Mixture(weights, cube.reshape(votes.table.shape), votes.column_offsets), sweeps


def init_robust(
    labels: Labels, settings: Settings, *, pair_weight: PairWeight = "robust-size", init: str = "votes"
) -> Initialisation:
    """Robust imputation (9)/(11), then the rotation (13). ``init="random"`` is as the paper released it."""
    pairs = count_label_pairs(labels, memory=settings.memory)
    votes = vote_mixture(labels)
    if init == "random":
        shape = (labels.n_workers * labels.n_classes, labels.n_classes)
        root, path = fit_robust_root(pairs, settings.rng.random(shape) / labels.n_classes, pair_weight=pair_weight)
        return Initialisation(_rotated_freely(labels, root, settings.rng), notes=[f"robust: {len(path) - 1} sweeps"])
    root, path = fit_robust_root(pairs, votes.table * np.sqrt(votes.weights), pair_weight=pair_weight)
    mixture = _rotated(labels, root, votes, co_label_graph(labels))
    note = f"robust: {len(path) - 1} sweeps over {len(pairs.observed[0]):,} worker pairs"
    return Initialisation(mixture, notes=[note])


def init_designated(labels: Labels, settings: Settings) -> Initialisation:
    """Imputation by designated annotators (7)–(8), square root, rotation (13)."""
    from latentfit.labels.init.designated import impute_designated, square_root

    pairs = count_label_pairs(labels, memory=settings.memory)
    imputed = impute_designated(pairs, memory=settings.memory)
    root = square_root(imputed.X, labels.n_classes)
    missing = f"{imputed.missing_before:.2%} of the blocks missing, {imputed.missing_after:.2%} after imputation"
    return Initialisation(_rotated_freely(labels, root, settings.rng), notes=[f"designated: {missing}"])


def init_symnmf(labels: Labels, settings: Settings) -> Initialisation:
    """Symmetric NMF (13) of the observed blocks, unobserved ones left at zero."""
    from latentfit.labels.init.designated import square_root, stack_observed

    pairs = count_label_pairs(labels, memory=settings.memory)
    root = square_root(stack_observed(pairs, memory=settings.memory), labels.n_classes)
    return Initialisation(_rotated_freely(labels, root, settings.rng))


def _rotated(labels: Labels, root: Floats, votes: Mixture, graph: CoLabelGraph) -> Mixture:
    """Rotate and name each component of the co-label graph by itself; what pairs cannot determine keeps the votes."""
    table, counts, K = votes.table.copy(), labels.per_worker, labels.n_classes
    weights = np.zeros(K)
    for component in np.flatnonzero(graph.determined):
        members = np.flatnonzero(graph.component == component)
        rows = (members[:, None] * K + np.arange(K)).ravel()
        factor = rotate_nonnegative(np.ascontiguousarray(root[rows])).factor
        mixture = mixture_from_factor(factor, labels.column_offsets[: len(members) + 1], counts[members].astype(float))
        mixture = align_to_labels(mixture, counts[members])
        table[rows] = mixture.table
        weights += counts[members].sum() * mixture.weights
    if not weights.any():
        return votes
    return Mixture(weights / weights.sum(), table, labels.column_offsets)


def _rotated_freely(labels: Labels, root: Floats, rng: np.random.Generator) -> Mixture:
    rotation = rotate_from_several(root, 4, rng)
    counts = labels.per_worker
    return align_each_worker(mixture_from_factor(rotation.factor, labels.column_offsets, counts.astype(float)), counts)


def _baseline(module: str, *, of_pairs: bool = False, soft: bool = False, needs: tuple[str, ...] = ()) -> Method:
    """`factor_<module>` of a published algorithm, imported on use, as a method.

    It takes the labels, or with `of_pairs` the pair counts, and the fields of `Settings` that it `needs`; its answer is
    a mixture, or a soft labelling of the tasks (`soft`).
    """

    def init(labels: Labels, settings: Settings) -> Initialisation:
        factor = getattr(import_module(f"latentfit.labels.init.{module}"), f"factor_{module}")
        options = {name: getattr(settings, name) for name in needs}
        if soft:
            return Initialisation(posterior=hold_known(labels, factor(labels, **options)))
        data = count_label_pairs(labels, memory=settings.memory) if of_pairs else labels
        return Initialisation(factor(data, labels.n_classes, **options))

    return init


METHODS: dict[str, Method] = {
    "majority": init_votes,
    "majority-em": init_votes,
    "one-coin": init_votes,
    "robust": init_robust,
    "robust-uniform": partial(init_robust, pair_weight="uniform"),
    "robust-paper": partial(init_robust, pair_weight="robust", init="random"),
    "designated": init_designated,
    "symnmf": init_symnmf,
    "multispa": _baseline("multispa", of_pairs=True),
    "cnmf": _baseline("cnmf", of_pairs=True),
    "spectral": _baseline("spectral", needs=("rng",)),
    "tensor": _baseline("tensor", needs=("rng", "memory")),
    "kos": _baseline("kos", soft=True),
    "eigenratio": _baseline("eigenratio", soft=True, needs=("memory",)),
    "ghosh": _baseline("ghosh", soft=True),
    "minimax-entropy": _baseline("minimax_entropy", soft=True),
}
STREAMED = ("auto", "majority", "majority-em", "one-coin")
"""Methods that need no more than passes over the tasks; the others want all labels in memory."""
