"""Which labels to ask for next: those that make workers comparable, then the most informative."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.errors import DataError
from latentfit.core.frames import as_frame, backend_of, build_frame, column, find_column
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.names import Names, encode, match
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine
from latentfit.labels.data import Labels, match_labels, with_gold
from latentfit.labels.data.input import ALIASES
from latentfit.labels.estimator import FittedCrowd
from latentfit.labels.select.cover import Cover, cover_blocks
from latentfit.labels.select.information import (
    Anyone,
    Chosen,
    Crowd,
    Ints,
    choose_pairs,
    committee_posterior,
    gains_of_pairs,
    shrunk_confusions,
)
from latentfit.labels.select.replay import simulate_plan

if TYPE_CHECKING:
    from latentfit.labels.estimator.dawid_skene import DawidSkene

__all__ = ["Plan", "plan_crowd", "plan_labels", "simulate_plan"]

DEFAULT_FRACTION = 0.1
"""Without a budget: labels by information for this fraction of the tasks, the step whose worth was measured."""
COVER_FRACTION = 0.5
"""Most of a given budget that may go into joining workers: what makes the crowd comparable must not eat all of
what brings the error down."""
NO_LIMIT = 2**31


@dataclass(frozen=True)
class Plan:
    """Labels to ask for.

    Attributes
    ----------
    table : frame of n_labels rows
        Columns rank, task, worker (empty: anyone), reason and gain (expected information in nats).
    n_labels : int
        Number of rows.
    n_cover : int
        Number of first rows that make workers comparable.
    missing_before, missing_after : float or None
        Proportion of worker pairs that equations (7)–(8) cannot reach, without and with these rows; None with too many
        workers to compute it.
    notes : list of str
        What could not be planned, and why.

    Examples
    --------
    >>> from latentfit import DawidSkene
    >>> from latentfit.labels.select import plan_labels
    >>> from latentfit.simulate import crowd
    >>> labels = crowd(60, 8, 2, labels_per_task=3, random_state=0).labels
    >>> plan = plan_labels(DawidSkene().fit(labels), labels, budget=10)
    >>> plan.n_labels, plan.table.column_names
    (10, ['rank', 'task', 'worker', 'reason', 'gain'])
    """

    table: Any = field(repr=False)
    n_labels: int
    n_cover: int
    missing_before: float | None
    missing_after: float | None
    notes: list[str]


def plan_labels(
    model: DawidSkene, labels: Any, *, budget: int | None = None, per_worker: int | None = None, workers: Any = None
) -> Plan:
    r"""Which labels to ask for next, given a fitted model and the labels so far.

    Use it between two rounds of labelling: ask for what the plan lists, add the answers, fit again. First come
    labels that connect the crowd and bring every pair of workers within reach of equations (7)–(8); then the
    pairs (task, worker) with the largest mutual information
    :math:`H(\sum_k p_k A[k, \cdot]) - \sum_k p_k H(A[k, \cdot])` between the label and the task's class.

    Parameters
    ----------
    model : DawidSkene
        A fitted model.
    labels : as in `DawidSkene.fit`
        The labels so far; tasks and workers may be new to the model.
    budget : int or None, default=None
        Most labels in the plan, at most half of them to join workers; None: all that joining needs, and a tenth of the
        tasks.
    per_worker : int or None, default=None
        Most labels asked of one worker.
    workers : array, frame or None, default=None
        Names of the workers who can be asked (a column, or a frame with a worker column such as the labels themselves).
        Unseen annotators count as average. None plans tasks alone, for anyone.

    Returns
    -------
    plan : Plan
        Its `table` is a frame of the caller's kind.

    Examples
    --------
    >>> from latentfit import DawidSkene
    >>> from latentfit.labels.select import plan_labels
    >>> from latentfit.simulate import crowd
    >>> votes = crowd(50, 6, 2, labels_per_task=3, random_state=0).labels
    >>> plan = plan_labels(DawidSkene().fit(votes), votes, budget=4, workers=votes)
    >>> plan.table.column_names, plan.table.num_rows
    (['rank', 'task', 'worker', 'reason', 'gain'], 4)
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    data = model._read(labels, None, reset=False).loaded()
    columns, plan = plan_crowd(
        model._fitted,
        data,
        budget=budget,
        per_worker=per_worker,
        workers=workers,
        n_jobs=model.n_jobs,
        seed=model._seed(),
    )
    backend = "pyarrow" if isinstance(labels, Labels) else backend_of(labels)
    return replace(plan, table=build_frame(columns, backend))


def plan_crowd(
    fitted: FittedCrowd,
    labels: Labels,
    *,
    budget: int | None = None,
    per_worker: int | None = None,
    workers: Any = None,
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[dict[str, Any], Plan]:
    """Same as `plan_labels` for a fitted crowd and coded labels.

    Parameters
    ----------
    fitted : FittedCrowd
        Result of `fit_crowd`.
    labels : Labels
        The labels so far.
    budget, per_worker, workers : optional
        As in `plan_labels`.
    n_jobs : int or None, default=None
        Threads; None uses all cores.
    seed : int, default=0
        Seed of the committee.

    Returns
    -------
    columns : dict
        The columns of the plan's table.
    plan : Plan
        The plan without its table.

    Examples
    --------
    >>> from latentfit.labels.data.input import read_labels
    >>> from latentfit.labels.estimator import CrowdSettings, fit_crowd
    >>> from latentfit.labels.select import plan_crowd
    >>> from latentfit.simulate import crowd
    >>> labels = read_labels(crowd(60, 8, 2, labels_per_task=3, random_state=0).labels)
    >>> columns, plan = plan_crowd(fit_crowd(labels, CrowdSettings()), labels, budget=5)
    >>> len(columns["task"]), plan.n_labels
    (5, 5)
    """
    for name, value in (("budget", budget), ("per_worker", per_worker)):
        if value is not None and value < 1:
            raise DataError(f"{name} must be an int >= 1 or None, got {value}; give a number of labels")
    data, mixture = _under_model(fitted, labels)
    with one_blas_thread():
        stats = MemoryEngine(data, n_jobs).sums(mixture)
        posterior = committee_posterior(data, mixture, n_jobs=n_jobs, seed=seed)
        confusions, pooled = shrunk_confusions(stats, data.n_classes)
        asked, codes = _available(workers, data)
        room = np.zeros(data.n_workers, np.int64)
        room[codes[codes >= 0]] = NO_LIMIT if per_worker is None else per_worker
        limit = NO_LIMIT if budget is None else int(np.ceil(COVER_FRACTION * budget))
        cover = cover_blocks(data, posterior, confusions, room=room, limit=limit)
        left = max(1, round(DEFAULT_FRACTION * data.n_rows)) if budget is None else budget - len(cover.tasks)
        asked_confusions = np.concatenate([confusions, pooled[None]])[codes]  # code -1, unseen: the average
        offers = Anyone(pooled) if workers is None else _crowd(asked_confusions, codes, data, cover, per_worker)
        chosen = choose_pairs(offers, posterior, left)
    notes = list(cover.notes)
    if budget is not None and len(cover.tasks) >= limit and cover.missing_after:
        notes.append(
            f"{len(cover.tasks)} labels join workers, the most that a budget of {budget} allows; "
            f"{cover.missing_after:.2%} of the worker pairs stay out of reach"
        )
    if len(chosen.tasks) < left:
        notes.append(f"only {len(chosen.tasks)} labels are informative and can still be asked for")
    names = None if workers is None else asked[chosen.workers]
    columns = _columns(data, posterior, confusions, cover, chosen, names)
    n_labels = len(cover.tasks) + len(chosen.tasks)
    return columns, Plan(None, n_labels, len(cover.tasks), cover.missing_before, cover.missing_after, notes)


def _under_model(fitted: FittedCrowd, data: Labels) -> tuple[Labels, Mixture]:
    """The labels with the model's classes, and its mixture with one table per worker of the labels."""
    given = match_labels(data.class_names, fitted.class_names, "label")[data.given]
    known = given >= 0  # labels unknown to the model are dropped
    data = replace(replace(data, given=given).subset(known), class_names=fitted.class_names, gold=None)
    if data.n_labels == 0:
        raise DataError("the labels hold no label to plan from; every cell is missing, abstains or is unknown")
    evidence = getattr(fitted, "evidence", None)
    if evidence is not None and evidence.data.known is not None:  # answers held fixed in the fit are known here too
        known_rows, answers = evidence.data.known
        rows = evidence.data.find(data.task_names, "gold task")
        sure = np.isin(rows, known_rows)
        given = answers[np.searchsorted(known_rows, rows[sure])]
        data = with_gold(data, (data.task_names[sure], evidence.data.class_names[given]))
    worker = match(data.worker_names, fitted.worker_names, "worker")
    stacked = fitted.mixture.table.reshape(len(fitted.worker_names), data.n_classes, data.n_classes)
    tables = np.concatenate([stacked, fitted.pooled[None]])[worker]  # code -1 is the crowd's average
    table = np.ascontiguousarray(tables.reshape(-1, data.n_classes))
    return data, Mixture(fitted.mixture.weights, table, data.column_offsets)


def _available(workers: Any, data: Labels) -> tuple[Names, Ints]:
    """Names of those who can be asked, and their codes in the labels (-1: unseen)."""
    if workers is None:
        return data.worker_names, np.arange(data.n_workers)
    frame = as_frame(workers)
    if frame is not None:
        name = find_column(frame.columns, "worker", ALIASES["worker"], None)
        if name is None:
            raise DataError(f"no column for the worker among {frame.columns}; call it worker")
        workers = column(frame, name)
    names = encode(workers, "worker")[1]
    if not len(names):
        raise DataError("the list of available workers is empty; name at least one, or give none to plan for anyone")
    return names, match(names, data.worker_names, "worker").astype(np.int64)


def _crowd(asked_confusions: Floats, codes: Ints, data: Labels, cover: Cover, per_worker: int | None) -> Crowd:
    """Everybody available, without the pairs that are labelled or asked for already."""
    place = np.full(data.n_workers, -1, np.int64)
    place[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
    room = None if per_worker is None else np.full(len(codes), per_worker, np.int64)
    offers = Crowd(asked_confusions, data.n_rows, room)
    there = place[data.workers] >= 0
    offers.strike(data.task_of()[there], place[data.workers[there]])
    offers.use(np.array(cover.tasks, np.int64), place[np.array(cover.workers, np.int64)])
    return offers


def _columns(
    data: Labels, posterior: Floats, confusions: Floats, cover: Cover, chosen: Chosen, names: Names | None
) -> dict[str, Any]:
    covered, joining = np.array(cover.tasks, np.int64), np.array(cover.workers, np.int64)
    tasks = np.concatenate([covered, chosen.tasks])
    asked = data.worker_names[joining].tolist() + ([None] * len(chosen.tasks) if names is None else names.tolist())
    if len({isinstance(name, str) for name in asked if name is not None}) > 1:  # a new name of another kind
        asked = [None if name is None else str(name) for name in asked]
    return {
        "rank": np.arange(1, len(tasks) + 1),
        "task": data.task_names[tasks],
        "worker": np.array(asked, object),
        "reason": np.array(cover.reasons + _reasons(data, posterior, chosen.tasks), object),
        "gain": np.concatenate([gains_of_pairs(posterior[covered], confusions[joining]), chosen.gains]),
    }


def _reasons(data: Labels, posterior: Floats, tasks: Ints) -> list[str]:
    """Why a task is asked: its two most probable classes."""
    asked: dict[int, int] = {}
    reasons = []
    for task in tasks.tolist():
        asked[task] = asked.get(task, 0) + 1
        first, second = np.argsort(-posterior[task], kind="stable")[:2]
        reason = (
            f"unsure: {data.class_names[first]} ({posterior[task, first]:.0%}) "
            f"or {data.class_names[second]} ({posterior[task, second]:.0%})"
        )
        reasons.append(reason if asked[task] == 1 else f"{reason}; label {asked[task]} asked here")
    return reasons
