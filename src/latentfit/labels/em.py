"""The crowd's prior, and the confidence of its consensus: what EM on label data needs in addition to the table steps.

Prior: each worker's confusion matrix gets τ pseudo-labels per true class, spread like the crowd's pooled
confusion at the initialisation. It is fixed before EM begins, so that EM maximises one objective. Evidence for τ = 1:
docs/guide/labels.md.

Confidence: workers are not quite independent given the class, and tables fitted to few labels are too sure of
themselves, so products of them are overconfident. One exponent β ≤ 1 on the joint probability of a task repairs
most of it. It is chosen without any truth: the β whose posteriors predict each label best from the other labels
of its task, with tables from which that task's own contribution was taken out. Nothing is refitted or drawn. What no
labels can show, the errors that workers make together, `diagnostics/experience.py` adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import part_orders, reorder_workers
from latentfit.core.em import EMResult, SolverState, Step, em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import Prior, TableSteps, permuted
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture
from latentfit.core.multistart import Candidate, MultiStartState, select_best
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data import RULED_OUT, CodedLabels, Labels
from latentfit.labels.data.stored import sample_tasks, task_hashes
from latentfit.labels.moments import CoLabelGraph, hold_known, vote_statistics

if TYPE_CHECKING:
    from latentfit.core.checkpoint import CheckpointFile

SMOOTHING = 1.0
"""τ of ``smoothing="auto"``: pseudo-labels per worker and true class."""


@dataclass(frozen=True)
class Tuning:
    """Constants of EM and the confidence of the consensus, each with its reason."""

    # Pseudo-tasks per class under ``smoothing="auto"``; a uniform class prior instead costs over a point.
    class_smoothing: float = 1.0
    # τ of the tables that predict a left-out label: tables fitted tightly would be hedged by too small a β.
    predictive_smoothing: float = 2.0
    # Tasks that choose β; more would not move its second digit.
    calibration_tasks: int = 50_000
    # Smallest β considered: a crowd that needs less is beyond repair.
    least_beta: float = 0.02
    # Nats per label by which a later initialisation must beat the votes: real crowds rarely pass it,
    # near-random do.
    moments_margin: float = 1e-3
    # Fraction of `tol` below which the gain per label has to fall for EM to have converged.
    converged: float = 1e-4
    # Factor by which a class proportion must change between the early stopping point and convergence for the
    # latter to be kept: on real crowds it changes by less than 1.35, where a rare class was missed by
    # 1.7 to 15.
    grown: float = 1.5
    # Tasks that show whether a class is still growing where EM stops early.
    settling_tasks: int = 20_000
    # Probability that the crowd's posterior of a task with a known answer says nothing about the order of the
    # classes.
    known_slip: float = 0.1


TUNING = Tuning()
GOLDEN = (5**0.5 - 1) / 2


def pooled_confusion(stats: Sums, n_classes: int) -> Floats:
    """The crowd's confusion (given, true): what an unknown worker is expected to do."""
    counts = stats.table.reshape(-1, n_classes, n_classes).sum(axis=0)
    totals = counts.sum(axis=0)
    return np.asarray(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / n_classes))


def crowd_prior(labels: CodedLabels, pooled: Floats, smoothing: float) -> Prior:
    """τ pseudo-labels per worker and true class, shaped like `pooled`; no smoothing, no class prior."""
    weights = np.full(labels.n_classes, TUNING.class_smoothing if smoothing > 0 else 0.0)
    return Prior(np.tile(smoothing * pooled, (labels.n_workers, 1)), weights)


def crowd_steps(
    labels: CodedLabels, stats: Sums, smoothing: float, engine: MemoryEngine, *, one_coin: bool = False
) -> TableSteps:
    """EM steps with a prior of τ pseudo-labels per estimated probability, shaped by an initialisation."""
    pooled = pooled_confusion(stats, labels.n_classes)
    if not one_coin:
        return TableSteps(engine, crowd_prior(labels, pooled, smoothing), labels.column_offsets, labels.n_labels)
    prior = crowd_prior(labels, pooled / labels.n_classes, smoothing)  # a worker has one accuracy, not one per class
    return OneCoinSteps(engine, prior, labels.column_offsets, labels.n_labels)


def tempered(mixture: Mixture, beta: float) -> Mixture:
    """The mixture whose posterior is proportional to the joint probability to the power β."""
    return Mixture(mixture.weights**beta, mixture.table**beta, mixture.column_offsets)


def tempered_posterior(labels: Labels, mixture: Mixture, beta: float, engine: MemoryEngine) -> tuple[Floats, Floats]:
    """Posterior (n, K) of the tasks to the power β, normalised, and the log-likelihood (n,) of their labels.

    The prior is tempered along with the labels, so that the most probable class stays what it was; a task without
    labels has nothing to be too sure of, and gets the prior itself.
    """
    posterior, log_likelihood = posterior_of(engine, tempered(mixture, beta))
    posterior[np.diff(labels.offsets) == 0] = mixture.weights
    return hold_known(labels, posterior), log_likelihood


def left_out_score(
    labels: CodedLabels, refined: EMResult[Mixture, Sums], seed: int, threads: int, *, one_coin: bool = False
) -> tuple[float, float]:
    """The β ≤ 1 whose posteriors predict left-out labels best, and how well: mean log-probability per label."""
    sample = sample_tasks(labels, TUNING.calibration_tasks, seed)
    sample = sample.take(np.diff(sample.offsets) > 1)
    if not sample.n_rows:
        return 1.0, 0.0
    own = posterior_of(MemoryEngine(sample, threads), refined.params)[0]  # what a task gave the cells of its labels
    cleared = (_cleared_coins if one_coin else _cleared_tables)(sample, refined.sums.table, own)
    log_table = np.log(np.maximum(cleared(SMOOTHING), PROBABILITY_FLOOR))
    label_probability = cleared(TUNING.predictive_smoothing)
    log_joint = np.add.reduceat(log_table, sample.offsets[:-1], axis=0) + refined.params.log_weights()
    log_joint[:, list(sample.never_given)] = RULED_OUT
    answer = sample.answer_of()
    if answer is not None:  # a worker's repeated answers are left out together
        log_table = np.add.reduceat(log_table, np.flatnonzero(np.diff(answer, prepend=-1)), axis=0)[answer]
    others = np.repeat(log_joint, np.diff(sample.offsets), axis=0) - log_table
    beta, loss = _best_beta(others, label_probability)
    return beta, -loss / sample.n_labels


def _cleared_tables(sample: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """P(this label | class) of every label (labels, K), by tables and a crowd without its task, as a function of τ."""
    K, task = sample.n_classes, sample.task_of()
    mine = own[task]
    cell = np.maximum(fitted[sample.cell_of()] - mine, 0.0)
    total = np.maximum(fitted.reshape(-1, K, K).sum(axis=1)[sample.workers] - mine, 0.0)
    crowd = fitted.reshape(-1, K, K).sum(axis=0)  # (given, true)
    at = task * K + sample.given
    n_same = np.bincount(at, minlength=sample.n_rows * K)[at][:, None]  # equal labels of the task, itself included
    all_of_task = np.diff(sample.offsets)[task][:, None]
    crowd_cell = np.maximum(crowd[sample.given] - n_same * mine, 0.0)
    crowd_total = np.maximum(crowd.sum(axis=0) - all_of_task * mine, 0.0)
    pooled = (crowd_cell + 1 / K) / (crowd_total + 1)  # one label at random: what nobody else says is not impossible
    return lambda smoothing: np.asarray((cell + smoothing * pooled) / (total + smoothing))


def _cleared_coins(sample: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """The same under the one-coin model."""
    K, task, given = sample.n_classes, sample.task_of(), sample.given
    counts = fitted.reshape(-1, K, K)
    mine = own[task, given]
    right = np.maximum(np.einsum("mkk->m", counts)[sample.workers] - mine, 0.0)
    total = np.maximum(counts.sum(axis=(1, 2))[sample.workers] - 1, 0.0)
    of_task = np.bincount(task, mine, sample.n_rows)[task]
    crowd_right = np.maximum(np.einsum("mkk->", counts) - of_task, 0.0)
    crowd = (crowd_right + 1 / K) / (np.maximum(counts.sum() - np.diff(sample.offsets)[task], 0.0) + 1)

    def table(smoothing: float) -> Floats:
        accuracy = ((right + smoothing * crowd) / (total + smoothing))[:, None]
        same = np.arange(K) == given[:, None]
        return np.asarray(np.where(same, accuracy, (1 - accuracy) / max(K - 1, 1)))

    return table


def _best_beta(log_joint: Floats, label_probability: Floats) -> tuple[float, float]:
    """The best β, and its loss."""
    shifted = log_joint - log_joint.max(axis=1, keepdims=True)

    def loss(log_beta: float) -> float:
        posterior = np.exp(np.exp(log_beta) * shifted)
        return -float(np.log((posterior * label_probability).sum(axis=1) / posterior.sum(axis=1)).sum())

    low, high = float(np.log(TUNING.least_beta)), 0.0
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
    untempered_loss, tempered_loss = loss(0.0), loss(best)
    return (1.0, untempered_loss) if untempered_loss <= tempered_loss else (float(np.exp(best)), tempered_loss)


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
#           —          accuracy   (M,)                    proportion of right labels
#           —          counts     (worker, given, true)   expected labels and pseudo-labels


class OneCoinSteps(TableSteps):
    """EM steps of the one-coin model."""

    def m_step(self, stats: Sums) -> Mixture:
        full = super().m_step(stats)
        size = len(full.weights)
        counts = (stats.table + self.prior.table).reshape(-1, size, size)  # (worker, given, true)
        total = counts.sum(axis=(1, 2))
        right = np.einsum("mkk->m", counts)
        accuracy = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1 / size)[:, None, None]
        same = np.eye(size)
        tables = accuracy * same + (1 - accuracy) / max(size - 1, 1) * (1 - same)
        return Mixture(full.weights, tables.reshape(-1, size), self.column_offsets)


# -----------------------------------------------------------------------------
# The state of multi-start selection, as a checkpoint stores it.
#
# Initialisations are computed again when a fit is resumed: they are cheap and give the same bits. Finished EM runs are
# stored by their parameters alone, because one E-step gives their statistics again.


def labels_key(data: CodedLabels) -> str:
    """Key of a data set: `identity`, and which labels belong to the same task."""
    return f"{data.identity()} {int(task_hashes(data, 0).sum()):x}"  # the sum wraps around, exactly


def checkpoint_writer(checkpoint_file: CheckpointFile) -> Callable[[MultiStartState[Mixture, Sums]], None]:
    """The callback of the multi-start selection: writes a checkpoint when one is due."""

    def write(state: MultiStartState[Mixture, Sums]) -> None:
        if not checkpoint_file.due:
            return
        arrays: dict[str, NDArray[Any]] = {}
        facts: dict[str, Any] = {"running": state.name, "n_iter": {state.name: state.resume_from.n_iter}, "ended": {}}
        runs = {state.name: (state.resume_from.params, state.resume_from.path)}
        for name, one in state.done.items():
            runs[name] = one.params, one.path
            facts["n_iter"][name], facts["ended"][name] = one.n_iter, one.converged
        for name, (params, path) in runs.items():
            arrays |= {f"{name} weights": params.weights, f"{name} table": params.table}
            arrays |= {f"{name} first": params.column_offsets, f"{name} path": np.array(path)}
        checkpoint_file.write(arrays, facts)

    return write


def read_checkpoint(
    checkpoint_file: CheckpointFile, candidates: Sequence[Candidate[Mixture, Sums]]
) -> MultiStartState[Mixture, Sums] | None:
    """The state of an interrupted selection; None when there is no checkpoint to resume from."""
    if checkpoint_file.file is None:
        return None
    arrays, facts, done = checkpoint_file.file.arrays, checkpoint_file.file.metadata, {}
    resume_from = {name: _solver_state(arrays, name, int(n_iter)) for name, n_iter in facts["n_iter"].items()}
    for candidate in candidates:
        if candidate.name in facts["ended"]:
            state, converged = resume_from[candidate.name], bool(facts["ended"][candidate.name])
            stats = candidate.steps.e_step(state.params)
            value, likelihood = candidate.steps.objective(state.params, stats), candidate.steps.log_likelihood(stats)
            done[candidate.name] = EMResult(state.params, stats, value, likelihood, state.n_iter, converged, state.path)
    return MultiStartState(facts["running"], resume_from[facts["running"]], done)


def _solver_state(arrays: dict[str, NDArray[Any]], name: str, n_iter: int) -> SolverState[Mixture]:
    weights, table, offsets, path = (arrays[f"{name} {key}"] for key in ("weights", "table", "first", "path"))
    return SolverState(Mixture(weights, table, offsets), n_iter, path.tolist())


# -----------------------------------------------------------------------------
# EM of a crowd: from every initialisation, to the stopping point that the data choose, under the right class names.
#
# Known answers are not used at first. EM without them finds the classes, which come in any order; the order is
# chosen for each connected component of the co-label graph (`core/assign.py`), known answers being evidence in the
# choice; from there EM goes on with the known answers held fixed. Were they held fixed from the beginning, a few of
# them would pin tasks to a class that stands for another label, and EM would stay there.
#
# Where to stop. EM started near the answer overfits when it is run to the end: stopping at the first iteration that
# gains less than `tol` nats per label is a little better on real crowds. Where a class is rare, the same iteration lies
# on a plateau that EM leaves much later. So EM is always run on to convergence (`tol` · `converged`), and the data
# choose between the two points: the converged one is used if a class has become `grown` times larger or smaller on the
# way and labels left out of their task are predicted better. No truth is used.

Fit = EMResult[Mixture, Sums]


@dataclass(frozen=True)
class Limits:
    """When EM stops, and the callback of its iterations."""

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
    checkpoint_file: CheckpointFile | None = None,
) -> tuple[Fit, list[str]]:
    """The best EM run over all initialisations, with class k = label k, and notes on what was chosen.

    `candidates` and `engine` know the labels without the known answers of `data`, `final` knows both.
    """
    free = data.without_gold()
    steps, fit, notes = _best(free, candidates, limits, checkpoint_file)
    if isinstance(steps, OneCoinSteps):  # its classes are the labels
        orders = np.tile(np.arange(data.n_classes), (graph.n_components, 1))
    else:
        orders = class_orders(data, graph, fit.params, engine.threads)
    if (orders == orders[0]).all() and not data.has_gold:
        return permuted(fit, orders[0]), notes
    initial = reordered(free, graph, fit.params, orders, engine.threads)
    prior = Prior(reorder_workers(steps.prior.table, orders[graph.component]), steps.prior.weights)
    restarts: list[Candidate[Mixture, Sums]] = [
        Candidate("the consensus without them", replace(steps, engine=final, prior=prior), initial)
    ]
    if data.has_gold:
        stats = vote_statistics(data)
        from_votes = crowd_steps(data, stats, smoothing, final, one_coin=isinstance(steps, OneCoinSteps))
        restarts.append(Candidate("votes that they outvote", from_votes, from_votes.m_step(stats)))
    _, fit, more = _best(data, restarts, limits, None)
    return fit, notes + ([f"known answers: {note}" for note in more] if data.has_gold else more)


def _best(
    data: CodedLabels,
    candidates: list[Candidate[Mixture, Sums]],
    limits: Limits,
    checkpoint_file: CheckpointFile | None,
) -> tuple[TableSteps, Fit, list[str]]:
    selected = select_best(
        candidates,
        max_iter=limits.max_iter,
        tol=limits.tol,
        margin=TUNING.moments_margin,
        callback=limits.callback,
        resume_from=None if checkpoint_file is None else read_checkpoint(checkpoint_file, candidates),
        on_iteration=None if checkpoint_file is None else checkpoint_writer(checkpoint_file),
    )
    notes = []
    if len(candidates) > 1:
        scores = ", ".join(f"{name} {score:.4f}" for name, score in selected.scores.items())
        notes.append(f"kept the initialisation from {selected.name} (log-likelihood per label: {scores})")
    steps = selected.steps
    assert isinstance(steps, TableSteps)
    fit = choose_stopping_point(data, steps, selected.refined, limits)
    if fit.n_iter == selected.refined.n_iter:
        return steps, fit, notes
    name = selected.name
    for other in candidates:  # early scores say little where EM was far from its end
        if other.name != selected.name:
            assert isinstance(other.steps, TableSteps)
            rival = em(
                other.steps, other.start, max_iter=limits.max_iter, tol=limits.tol * TUNING.converged, accelerate=True
            )
            if rival.log_likelihood > fit.log_likelihood:
                steps, fit, name = other.steps, rival, other.name
    notes.append(f"EM was run to convergence, best from {name}: a class was still changing at the first stop by tol")
    return steps, fit, notes


def choose_stopping_point(data: CodedLabels, steps: TableSteps, early: Fit, limits: Limits) -> Fit:
    """The early stopping point or the converged one; `converged` says whether EM arrived at the latter.

    A crowd of more than `settling_tasks` tasks is run to convergence if a sample of its tasks shows a class that grows.
    """
    if not early.converged or limits.tol == 0 or data.n_classes < 2:
        return early
    if data.n_rows > TUNING.settling_tasks:
        sample = sample_tasks(data, TUNING.settling_tasks, limits.seed)
        sampled = replace(steps, engine=MemoryEngine(sample, steps.engine.threads), n_cells=sample.n_labels)
        settled = em(sampled, early.params, max_iter=limits.max_iter, tol=limits.tol, accelerate=False)
        late = _converged(sampled, settled, limits)
        if not _changed(settled, late):
            return replace(early, converged=late.converged)
    late = _converged(steps, early, limits)
    if _changed(early, late):
        threads = steps.engine.threads
        early_score, late_score = (left_out_score(data, fit, limits.seed, threads)[1] for fit in (early, late))
        if late_score > early_score:
            return replace(late, n_iter=early.n_iter + late.n_iter, path=early.path + late.path[1:])
    return replace(early, converged=late.converged)


def _converged(steps: TableSteps, early: Fit, limits: Limits) -> Fit:
    left, tol = limits.max_iter - early.n_iter, limits.tol * TUNING.converged
    return em(steps, early.params, max_iter=left, tol=tol, accelerate=True, known=early.sums)


def _changed(early: Fit, late: Fit) -> bool:
    change = np.abs(late.params.log_weights() - early.params.log_weights()).max()
    return bool(change > np.log(TUNING.grown))


# ------------------------------------------------------------------------------------- names of the classes


def class_orders(data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, threads: int) -> np.ndarray[Any, Any]:
    """Which latent class stands for each label, in every component of the crowd (component, label)."""
    evidence = known_evidence(data, graph, mixture, threads)
    return part_orders(mixture, data.per_worker, graph.component, evidence, data.never_given)


def known_evidence(data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, threads: int) -> dict[int, Floats]:
    """By component: the log-probability (label, latent class) of its known answers, were the class the label.

    The posterior is that of the labels alone; a known answer may be one that the crowd gets wrong, so none counts for
    more than log(K / `known_slip`) nats.
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
        log_evidence = np.log((1 - TUNING.known_slip) * posterior + TUNING.known_slip / K)
        component = graph.component[labels.workers[labels.offsets[:-1]]]  # which is that of all workers of the task
        for at in np.unique(component):
            here = component == at
            np.add.at(evidence.setdefault(int(at), np.zeros((K, K))), answers[here], log_evidence[here])
    return evidence


def reordered(
    data: CodedLabels, graph: CoLabelGraph, mixture: Mixture, orders: np.ndarray[Any, Any], threads: int
) -> Mixture:
    """The mixture with the classes of every component in its order; class proportions are estimated again."""
    if (orders == orders[0]).all():
        return mixture.permuted(orders[0])
    counts = np.zeros(orders.shape)
    for block in data.blocks():
        labelled = block.take(np.diff(block.offsets) > 0)
        component = graph.component[labelled.workers[labelled.offsets[:-1]]]
        np.add.at(counts, component, posterior_of(MemoryEngine(labelled, threads), mixture)[0])
    weights = 1.0 + np.take_along_axis(counts, orders, axis=1).sum(axis=0)  # a pseudo-task per class
    table = reorder_workers(mixture.table, orders[graph.component])
    return Mixture(weights / weights.sum(), table, mixture.column_offsets)
