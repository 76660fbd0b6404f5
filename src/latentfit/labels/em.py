"""The crowd's prior, and the confidence of its consensus: what EM on label data needs beside the table steps.

Prior: each worker's confusion matrix gets τ pseudo-labels per true class, spread like the crowd's pooled
confusion at the start. It is fixed before EM begins, so the objective EM climbs is one function. Evidence
for τ = 1: docs/models/labels.md.

Confidence: workers are not quite independent given the class, and tables fitted to few labels are too sure of
themselves, so products of them are overconfident. One exponent β ≤ 1 on the joint probability of a task repairs
most of it. It is chosen without any truth: the β whose posteriors predict each label best from the other labels
of its task, with tables from which that task's own contribution was taken out. Nothing is refitted or drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import part_orders, reorder_workers
from latentfit.core.checkpoint import KeptFile
from latentfit.core.em import EMResult, SolverState, Step, em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import Prior, TableSteps, permuted
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture
from latentfit.core.multistart import Candidate, Stood, race
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data.labels import RULED_OUT, CodedLabels, Labels
from latentfit.labels.data.stored import sample_tasks, task_hashes
from latentfit.labels.init.votes import hold_known, vote_sums
from latentfit.labels.moments import CoLabelGraph

if TYPE_CHECKING:
    from latentfit.core.checkpoint import KeptFile

SMOOTHING = 1.0
"""τ of ``smoothing="auto"``: pseudo-labels per worker and true class."""
CLASS_SMOOTHING = 1.0
"""Pseudo-tasks per class under ``smoothing="auto"``; a uniform class prior instead costs over a point."""
PREDICTIVE_SMOOTHING = 2.0
"""τ of the tables that predict a left-out label: tables fitted tightly would be hedged by too small a β."""
CALIBRATION_TASKS = 50_000
"""Tasks that choose β; more would not move its second digit."""
GOLDEN = (5**0.5 - 1) / 2
COOLEST = 0.02
"""Smallest β considered: a crowd that sure of itself and that wrong is beyond repair."""


def pooled_confusion(sums: Sums, n_classes: int) -> Floats:
    """The crowd's confusion (given, true): what an unknown worker is expected to do."""
    counts = sums.table.reshape(-1, n_classes, n_classes).sum(axis=0)
    totals = counts.sum(axis=0)
    return np.asarray(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / n_classes))


def crowd_prior(labels: CodedLabels, pooled: Floats, smoothing: float) -> Prior:
    """τ pseudo-labels per worker and true class, shaped like `pooled`; no smoothing, no class prior."""
    weights = np.full(labels.n_classes, CLASS_SMOOTHING if smoothing > 0 else 0.0)
    return Prior(np.tile(smoothing * pooled, (labels.n_workers, 1)), weights)


def crowd_steps(
    labels: CodedLabels, sums: Sums, smoothing: float, engine: MemoryEngine, *, one_coin: bool = False
) -> TableSteps:
    """EM steps whose prior is shaped by the statistics of a start: τ pseudo-labels per probability to be estimated."""
    pooled = pooled_confusion(sums, labels.n_classes)
    if not one_coin:
        return TableSteps(engine, crowd_prior(labels, pooled, smoothing), labels.first, labels.n_labels)
    prior = crowd_prior(labels, pooled / labels.n_classes, smoothing)  # a worker has one accuracy, not one per class
    return OneCoinSteps(engine, prior, labels.first, labels.n_labels)


def cooled(mixture: Mixture, beta: float) -> Mixture:
    """The mixture whose posterior is proportional to the joint probability to the power β."""
    return Mixture(mixture.weights**beta, mixture.table**beta, mixture.first)


def tempered_posterior(labels: Labels, mixture: Mixture, beta: float, engine: MemoryEngine) -> tuple[Floats, Floats]:
    """Posterior (n, K) of the tasks to the power β, normalised, and the log-likelihood (n,) of their labels.

    The prior is tempered along with the labels, so that the most probable class stays what it was; a task without
    labels has nothing to be too sure of, and gets the prior itself.
    """
    posterior, log_likelihood = posterior_of(engine, cooled(mixture, beta))
    posterior[np.diff(labels.offsets) == 0] = mixture.weights
    return hold_known(labels, posterior), log_likelihood


def choose_beta(
    labels: CodedLabels, refined: EMResult[Mixture, Sums], seed: int, threads: int, *, one_coin: bool = False
) -> float:
    """The β ≤ 1 whose posteriors predict left-out labels best; classes may be in any order."""
    return left_out_score(labels, refined, seed, threads, one_coin=one_coin)[0]


def left_out_score(
    labels: CodedLabels, refined: EMResult[Mixture, Sums], seed: int, threads: int, *, one_coin: bool = False
) -> tuple[float, float]:
    """The β ≤ 1 whose posteriors predict left-out labels best, and how well: mean log-probability per label."""
    shown = sample_tasks(labels, CALIBRATION_TASKS, seed)
    shown = shown.take(np.diff(shown.offsets) > 1)
    if not shown.n_rows:
        return 1.0, 0.0
    own = posterior_of(MemoryEngine(shown, threads), refined.params)[0]  # what a task gave the cells of its labels
    cleared = (_cleared_coins if one_coin else _cleared_tables)(shown, refined.sums.table, own)
    log_table = np.log(np.maximum(cleared(SMOOTHING), PROBABILITY_FLOOR))
    chance = cleared(PREDICTIVE_SMOOTHING)
    log_joint = np.add.reduceat(log_table, shown.offsets[:-1], axis=0) + refined.params.log_weights()
    log_joint[:, list(shown.never_given)] = RULED_OUT
    answer = shown.answer_of()
    if answer is not None:  # a worker's repeated answers are left out together
        log_table = np.add.reduceat(log_table, np.flatnonzero(np.diff(answer, prepend=-1)), axis=0)[answer]
    others = np.repeat(log_joint, np.diff(shown.offsets), axis=0) - log_table
    beta, loss = _best_beta(others, chance)
    return beta, -loss / shown.n_labels


def _cleared_tables(shown: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """P(this label | class) of every label (labels, K), by tables and a crowd without its task, as a function of τ."""
    K, task = shown.n_classes, shown.task_of()
    mine = own[task]
    cell = np.maximum(fitted[shown.cell_of()] - mine, 0.0)
    total = np.maximum(fitted.reshape(-1, K, K).sum(axis=1)[shown.workers] - mine, 0.0)
    crowd = fitted.reshape(-1, K, K).sum(axis=0)  # (given, true)
    said = task * K + shown.given
    alike = np.bincount(said, minlength=shown.n_rows * K)[said][:, None]  # labels of the task that say the same
    all_of_task = np.diff(shown.offsets)[task][:, None]
    crowd_cell = np.maximum(crowd[shown.given] - alike * mine, 0.0)
    crowd_total = np.maximum(crowd.sum(axis=0) - all_of_task * mine, 0.0)
    pooled = (crowd_cell + 1 / K) / (crowd_total + 1)  # one label at random: what nobody else says is not impossible
    return lambda smoothing: np.asarray((cell + smoothing * pooled) / (total + smoothing))


def _cleared_coins(shown: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """The same under the one-coin model."""
    K, task, given = shown.n_classes, shown.task_of(), shown.given
    counts = fitted.reshape(-1, K, K)
    mine = own[task, given]
    right = np.maximum(np.einsum("mkk->m", counts)[shown.workers] - mine, 0.0)
    total = np.maximum(counts.sum(axis=(1, 2))[shown.workers] - 1, 0.0)
    of_task = np.bincount(task, mine, shown.n_rows)[task]
    crowd_right = np.maximum(np.einsum("mkk->", counts) - of_task, 0.0)
    crowd = (crowd_right + 1 / K) / (np.maximum(counts.sum() - np.diff(shown.offsets)[task], 0.0) + 1)

    def table(smoothing: float) -> Floats:
        accuracy = ((right + smoothing * crowd) / (total + smoothing))[:, None]
        same = np.arange(K) == given[:, None]
        return np.asarray(np.where(same, accuracy, (1 - accuracy) / max(K - 1, 1)))

    return table


def _best_beta(log_joint: Floats, chance: Floats) -> tuple[float, float]:
    """The best β, and its loss."""
    shifted = log_joint - log_joint.max(axis=1, keepdims=True)

    def loss(log_beta: float) -> float:
        belief = np.exp(np.exp(log_beta) * shifted)
        return -float(np.log((belief * chance).sum(axis=1) / belief.sum(axis=1)).sum())

    low, high = float(np.log(COOLEST)), 0.0
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 0.01:  # golden section: one new point a round, the second digit of β is enough
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = loss(right)
    best = (low + high) / 2
    uncooled, cooled_best = loss(0.0), loss(best)
    return (1.0, uncooled) if uncooled <= cooled_best else (float(np.exp(best)), cooled_best)


def margins(posterior: Floats) -> NDArray[np.float64]:
    """How far the likeliest class of each task is ahead of the next."""
    if posterior.shape[1] < 2:
        return np.ones(len(posterior))
    top = np.partition(posterior, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


# -----------------------------------------------------------------------------
# M-step of the one-coin model: a worker is right with one probability whatever the class, and errs evenly.
#
# The M-step maximises the objective of the table family over such tables: all right labels of a worker against all its
# labels, the pseudo-labels included. Extrapolation keeps the form, because it works on log-probabilities. Class k is
# label k by construction, so there is no order of classes to choose.
#
# Paper     Dawid & Skene 1979, with confusion matrices restricted to one accuracy per worker
# Needs     workers better than chance on the whole; mistakes that do not depend on the class
# Promises  the objective never falls; one parameter per worker where full tables have K (K − 1)
# Differs   pseudo-labels; known answers are held fixed
#
# Symbols   paper      here       shape                   meaning
#           π_jl^(k)   table      (M·K, K)                accuracy on the diagonal, the rest even
#           —          accuracy   (M,)                    share of right labels
#           —          counts     (worker, given, true)   expected labels and pseudo-labels


class OneCoinSteps(TableSteps):
    """EM steps of the one-coin model."""

    def m_step(self, sums: Sums) -> Mixture:
        full = super().m_step(sums)
        size = len(full.weights)
        counts = (sums.table + self.prior.table).reshape(-1, size, size)  # (worker, given, true)
        total = counts.sum(axis=(1, 2))
        right = np.einsum("mkk->m", counts)
        accuracy = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1 / size)[:, None, None]
        same = np.eye(size)
        tables = accuracy * same + (1 - accuracy) / max(size - 1, 1) * (1 - same)
        return Mixture(full.weights, tables.reshape(-1, size), self.first)


# -----------------------------------------------------------------------------
# Where a crowd's race of starts stands, as its checkpoint keeps it.
#
# Starts are made again when a fit goes on: they take a pass and give the same bits. Climbs that had ended are kept by
# their parameters alone, because one pass gives their statistics again.


def labels_key(data: CodedLabels) -> str:
    """Tells labels apart by what `identity` knows, and by which of them stand in one task."""
    return f"{data.identity()} {int(task_hashes(data, 0).sum()):x}"  # the sum wraps around, exactly


def race_keeper(kept: KeptFile) -> Callable[[Stood[Mixture, Sums]], None]:
    """What the race calls after every iteration."""

    def keep(at: Stood[Mixture, Sums]) -> None:
        if not kept.due:
            return
        arrays: dict[str, NDArray[Any]] = {}
        facts: dict[str, Any] = {"running": at.name, "n_iter": {at.name: at.resume_from.n_iter}, "ended": {}}
        climbs = {at.name: (at.resume_from.params, at.resume_from.path)}
        for name, one in at.done.items():
            climbs[name] = one.params, one.path
            facts["n_iter"][name], facts["ended"][name] = one.n_iter, one.converged
        for name, (params, path) in climbs.items():
            arrays |= {f"{name} weights": params.weights, f"{name} table": params.table}
            arrays |= {f"{name} first": params.first, f"{name} path": np.array(path)}
        kept.write(arrays, facts)

    return keep


def race_stood(kept: KeptFile, candidates: Sequence[Candidate[Mixture, Sums]]) -> Stood[Mixture, Sums] | None:
    """Where the stopped race stood; None when there is nothing to go on from."""
    if kept.file is None:
        return None
    facts, done = kept.file.metadata, {}
    resume_from = {name: _begun(kept.file.arrays, name, int(n_iter)) for name, n_iter in facts["n_iter"].items()}
    for candidate in candidates:
        if candidate.name in facts["ended"]:
            at, converged = resume_from[candidate.name], bool(facts["ended"][candidate.name])
            sums = candidate.steps.e_step(at.params)
            value, likelihood = candidate.steps.objective(at.params, sums), candidate.steps.log_likelihood(sums)
            done[candidate.name] = EMResult(at.params, sums, value, likelihood, at.n_iter, converged, at.path)
    return Stood(facts["running"], resume_from[facts["running"]], done)


def _begun(arrays: dict[str, NDArray[Any]], name: str, n_iter: int) -> SolverState[Mixture]:
    weights, table, first, path = (arrays[f"{name} {part}"] for part in ("weights", "table", "first", "path"))
    return SolverState(Mixture(weights, table, first), n_iter, path.tolist())


# -----------------------------------------------------------------------------
# EM of a crowd: from every initialisation, to the stopping point that the data choose, under the right class names.
#
# Known answers do not take part at first. EM without them finds the classes, which come in any order; the order is
# chosen for each part of the crowd whose workers share tasks (`core/assign.py`), known answers being evidence in the
# choice; from there EM goes on with the known answers held fixed. Were they held fixed from the beginning, a few of
# them would pin tasks to a class that stands for another label, and EM would stay there.
#
# Where to stop. EM started near the answer overfits when it is run to the end: stopping at the first iteration that
# gains less than `tol` nats per label is a little better on real crowds. Where a class is rare, the same iteration lies
# on a plateau that EM leaves much later. So EM is always run on to convergence (`tol` · `CONVERGED`), and the data
# choose
# between the two points: the converged one is kept if a class has become `GROWN` times larger or smaller on the way and
# labels left out of their task are predicted better. No truth is used.

Fit = EMResult[Mixture, Sums]

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
    candidates: list[Candidate[Mixture, Sums]],
    graph: CoLabelGraph,
    limits: Limits,
    *,
    smoothing: float,
    kept: KeptFile | None = None,
) -> tuple[Fit, list[str]]:
    """EM from every initialisation, the best kept, class k standing for label k; and notes on what was chosen.

    `candidates` and `engine` know the labels without the known answers of `data`, `final` knows both.
    """
    free = data.without_gold()
    steps, found, notes = _best(free, candidates, limits, kept)
    if isinstance(steps, OneCoinSteps):  # its classes are the labels
        orders = np.tile(np.arange(data.n_classes), (graph.n_components, 1))
    else:
        orders = class_orders(data, graph, found.params, engine.threads)
    if (orders == orders[0]).all() and not data.has_gold:
        return permuted(found, orders[0]), notes
    start = reordered(free, graph, found.params, orders, engine.threads)
    prior = Prior(reorder_workers(steps.prior.table, orders[graph.component]), steps.prior.weights)
    again: list[Candidate[Mixture, Sums]] = [
        Candidate("the consensus without them", replace(steps, engine=final, prior=prior), start)
    ]
    if data.has_gold:
        sums = vote_sums(data)
        from_votes = crowd_steps(data, sums, smoothing, final, one_coin=isinstance(steps, OneCoinSteps))
        again.append(Candidate("votes that they outvote", from_votes, from_votes.m_step(sums)))
    _, found, more = _best(data, again, limits, None)
    return found, notes + ([f"known answers: {note}" for note in more] if data.has_gold else more)


def _best(
    data: CodedLabels, candidates: list[Candidate[Mixture, Sums]], limits: Limits, kept: KeptFile | None
) -> tuple[TableSteps, Fit, list[str]]:
    raced = race(
        candidates,
        max_iter=limits.max_iter,
        tol=limits.tol,
        margin=MOMENTS_MARGIN,
        callback=limits.callback,
        **_kept_race(kept, candidates),
    )
    notes = []
    if len(candidates) > 1:
        scores = ", ".join(f"{name} {score:.4f}" for name, score in raced.scores.items())
        notes.append(f"kept the start from {raced.name} (log-likelihood per label: {scores})")
    steps = raced.steps
    assert isinstance(steps, TableSteps)
    found = stop_where_data_say(data, steps, raced.refined, limits)
    if found.n_iter == raced.refined.n_iter:
        return steps, found, notes
    name = raced.name
    for other in candidates:  # early scores say little where EM was far from its end
        if other.name != raced.name:
            assert isinstance(other.steps, TableSteps)
            rival = em(other.steps, other.start, max_iter=limits.max_iter, tol=limits.tol * CONVERGED, accelerate=True)
            if rival.log_likelihood > found.log_likelihood:
                steps, found, name = other.steps, rival, other.name
    notes.append(f"EM was run to convergence, best from {name}: a class was still changing where the gain met tol")
    return steps, found, notes


def _kept_race(kept: KeptFile | None, candidates: list[Candidate[Mixture, Sums]]) -> dict[str, Any]:
    """What lets a race be stopped and go on."""
    if kept is None:
        return {}
    from latentfit.labels.em import race_keeper, race_stood

    return {"stood": race_stood(kept, candidates), "keep": race_keeper(kept)}


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
