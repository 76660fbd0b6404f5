"""EM of a crowd: from every initialisation, to the stopping point that the data choose, under the right class names.

Known answers do not take part at first. EM without them finds the classes, which come in any order; the order is
chosen for each part of the crowd whose workers share tasks (`core/assign.py`), known answers being evidence in the
choice; from there EM goes on with the known answers held fixed. Were they held fixed from the beginning, a few of
them would pin tasks to a class that stands for another label, and EM would stay there.

Where to stop. EM started near the answer overfits when it is run to the end: stopping at the first iteration that
gains less than `tol` nats per label is a little better on real crowds. Where a class is rare, the same iteration lies
on a plateau that EM leaves much later. So EM is always run on to convergence (`tol` · `CONVERGED`), and the data choose
between the two points: the converged one is kept if a class has become `GROWN` times larger or smaller on the way and
labels left out of their task are predicted better. No truth is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.assign import part_orders, reorder_workers
from latentfit.core.em import Refined, Step, em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import Prior, TableSteps, permuted
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Entrant, race
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.data.sampling import sample_tasks
from latentfit.labels.em.one_coin import OneCoinSteps
from latentfit.labels.em.prior import crowd_steps, left_out_score
from latentfit.labels.init.votes import vote_sums
from latentfit.labels.moments import CoLabelGraph

if TYPE_CHECKING:
    from latentfit.core.checkpoint import KeptFile

Fit = Refined[Mixture, Sums]

MOMENTS_MARGIN = 1e-3
"""Nats per label by which a later initialisation must beat the votes: real crowds rarely pass it, near-random do."""
CONVERGED = 1e-4
"""Share of `tol` below which the gain per label has to fall for EM to have converged."""
GROWN = 1.5
"""Factor by which a class proportion must change between the early stopping point and convergence for the latter to
be kept: on real crowds it changes by less than 1.35, where a rare class had not been found by 1.7 to 15."""
SETTLING_TASKS = 20_000
"""Tasks that show whether a class is still growing where EM stops early."""
KNOWN_SLIP = 0.1
"""Probability that the crowd's posterior of a task with a known answer says nothing about the order of the classes."""


@dataclass(frozen=True)
class Limits:
    """When EM stops, and who hears of its iterations."""

    max_iter: int
    tol: float
    seed: int = 0
    callback: Callable[[Step], None] | None = None


def fit_em(
    data: CodedLabels,
    engine: MemoryEngine,
    final: MemoryEngine,
    entrants: list[Entrant[Mixture, Sums]],
    graph: CoLabelGraph,
    limits: Limits,
    *,
    smoothing: float,
    kept: KeptFile | None = None,
) -> tuple[Fit, list[str]]:
    """EM from every initialisation, the best kept, class k standing for label k; and notes on what was chosen.

    `entrants` and `engine` know the labels without the known answers of `data`, `final` knows both.
    """
    free = data.without_gold()
    steps, found, notes = _best(free, entrants, limits, kept)
    if isinstance(steps, OneCoinSteps):  # its classes are the labels
        orders = np.tile(np.arange(data.n_classes), (graph.n_components, 1))
    else:
        orders = class_orders(data, graph, found.params, engine.threads)
    if (orders == orders[0]).all() and not data.has_gold:
        return permuted(found, orders[0]), notes
    start = reordered(free, graph, found.params, orders, engine.threads)
    prior = Prior(reorder_workers(steps.prior.table, orders[graph.component]), steps.prior.weights)
    again: list[Entrant[Mixture, Sums]] = [
        Entrant("the consensus without them", replace(steps, engine=final, prior=prior), start)
    ]
    if data.has_gold:
        sums = vote_sums(data)
        from_votes = crowd_steps(data, sums, smoothing, final, one_coin=isinstance(steps, OneCoinSteps))
        again.append(Entrant("votes that they outvote", from_votes, from_votes.maximise(sums)))
    _, found, more = _best(data, again, limits, None)
    return found, notes + ([f"known answers: {note}" for note in more] if data.has_gold else more)


def _best(
    data: CodedLabels, entrants: list[Entrant[Mixture, Sums]], limits: Limits, kept: KeptFile | None
) -> tuple[TableSteps, Fit, list[str]]:
    raced = race(
        entrants,
        max_iter=limits.max_iter,
        tol=limits.tol,
        margin=MOMENTS_MARGIN,
        callback=limits.callback,
        **_kept_race(kept, entrants),
    )
    notes = []
    if len(entrants) > 1:
        scores = ", ".join(f"{name} {score:.4f}" for name, score in raced.scores.items())
        notes.append(f"kept the start from {raced.name} (log-likelihood per label: {scores})")
    steps = raced.steps
    assert isinstance(steps, TableSteps)
    found = stop_where_data_say(data, steps, raced.refined, limits)
    if found.n_iter == raced.refined.n_iter:
        return steps, found, notes
    name = raced.name
    for other in entrants:  # early scores say little where EM was far from its end
        if other.name != raced.name:
            assert isinstance(other.steps, TableSteps)
            rival = em(other.steps, other.start, max_iter=limits.max_iter, tol=limits.tol * CONVERGED, accelerate=True)
            if rival.log_likelihood > found.log_likelihood:
                steps, found, name = other.steps, rival, other.name
    notes.append(f"EM was run to convergence, best from {name}: a class was still changing where the gain met tol")
    return steps, found, notes


def _kept_race(kept: KeptFile | None, entrants: list[Entrant[Mixture, Sums]]) -> dict[str, Any]:
    """What lets a race be stopped and go on."""
    if kept is None:
        return {}
    from latentfit.labels.em.checkpoint import race_keeper, race_stood

    return {"stood": race_stood(kept, entrants), "keep": race_keeper(kept)}


def stop_where_data_say(data: CodedLabels, steps: TableSteps, early: Fit, limits: Limits) -> Fit:
    """The early stopping point or the converged one; `converged` says whether EM arrived at the latter.

    A crowd of more than `SETTLING_TASKS` tasks is run to convergence if a sample of its tasks shows a class that grows.
    """
    if not early.converged or limits.tol == 0 or data.n_classes < 2:
        return early
    if data.n_rows > SETTLING_TASKS:
        shown = sample_tasks(data, SETTLING_TASKS, limits.seed)
        sampled = replace(steps, engine=MemoryEngine(shown, steps.engine.threads), n_cells=shown.n_labels)
        settled = em(sampled, early.params, max_iter=limits.max_iter, tol=limits.tol, accelerate=False)
        late = _converged(sampled, settled, limits)
        if not _changed(settled, late):
            return replace(early, converged=late.converged)
    late = _converged(steps, early, limits)
    if _changed(early, late) and _score(data, late, steps, limits) > _score(data, early, steps, limits):
        return replace(late, n_iter=early.n_iter + late.n_iter, path=early.path + late.path[1:])
    return replace(early, converged=late.converged)


def _converged(steps: TableSteps, early: Fit, limits: Limits) -> Fit:
    left, tol = limits.max_iter - early.n_iter, limits.tol * CONVERGED
    return em(steps, early.params, max_iter=left, tol=tol, accelerate=True, known=early.sums)


def _changed(early: Fit, late: Fit) -> bool:
    change = np.abs(late.params.log_weights() - early.params.log_weights()).max()
    return bool(change > np.log(GROWN))


def _score(data: CodedLabels, found: Fit, steps: TableSteps, limits: Limits) -> float:
    return left_out_score(data, found, limits.seed, steps.engine.threads)[1]


# ------------------------------------------------------------------------------------- names of the classes


def class_orders(data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, threads: int) -> np.ndarray[Any, Any]:
    """Which latent class stands for each label, in every part of the crowd (part, label)."""
    evidence = known_evidence(data, graph, mixture, threads)
    return part_orders(mixture, data.per_worker, graph.component, evidence, data.never_given)


def known_evidence(data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, threads: int) -> dict[int, Floats]:
    """By part: the log-probability (label, latent class) of its known answers, were the class the label.

    The posterior is that of the labels alone; a known answer may be one that the crowd gets wrong, so none counts for
    more than log(K / `KNOWN_SLIP`) nats.
    """
    K = data.n_classes
    evidence: dict[int, Floats] = {}
    for block in data.blocks() if data.has_gold else ():
        assert block.gold is not None
        used = (block.gold >= 0) & (np.diff(block.offsets) > 0)
        if not used.any():
            continue
        answers, labels = block.gold[used], block.without_gold().take(used)
        posterior = posterior_of(MemoryEngine(labels, threads), mixture)[0]
        says = np.log((1 - KNOWN_SLIP) * posterior + KNOWN_SLIP / K)
        part = graph.component[labels.workers[labels.offsets[:-1]]]  # which is that of all workers of the task
        for at in np.unique(part):
            here = part == at
            np.add.at(evidence.setdefault(int(at), np.zeros((K, K))), answers[here], says[here])
    return evidence


def reordered(
    data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, orders: np.ndarray[Any, Any], threads: int
) -> Mixture:
    """The mixture with the classes of every part in its order; their proportions are counted again, part by part."""
    if (orders == orders[0]).all():
        return mixture.permuted(orders[0])
    totals = np.zeros(orders.shape)
    for block in data.blocks():
        labelled = block.take(np.diff(block.offsets) > 0)
        part = graph.component[labelled.workers[labelled.offsets[:-1]]]
        np.add.at(totals, part, posterior_of(MemoryEngine(labelled, threads), mixture)[0])
    weights = 1.0 + np.take_along_axis(totals, orders, axis=1).sum(axis=0)  # a pseudo-task per class
    table = reorder_workers(mixture.table, orders[graph.component])
    return Mixture(weights / weights.sum(), table, mixture.first)
