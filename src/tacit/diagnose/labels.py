"""Can the consensus of this crowd be trusted? The verdict on label data, with the numbers behind it.

`not identifiable` when the labels fit a whole family of answers: nobody shares a task, only two workers, no odd
cycle of workers, or labels that are unrelated to one another. `caution` when the answer rests on something
thin: parts that share no task, classes nobody tells apart or that hardly occur, fewer than three labels a task,
workers with a handful of labels, copied labels, a crowd mostly of guessers, EM cut short. Else `trusted`.

What no data can show is assumed: that workers with a say are right more often than wrong. A crowd whose
majority misleads the same way gives the same labels as an honest one with the classes renamed.

Cost is linear in the labels; what needs the list of worker pairs is computed when the list is affordable
(`copies.PAIR_EVENTS`) and is None otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.data.labels import Labels
from tacit.data.sampling import task_hashes
from tacit.diagnose import theorems
from tacit.diagnose.agreement import (
    LEAST_SUPPORT,
    class_support,
    crowd_support,
    pair_support,
    tables_related,
)
from tacit.diagnose.copies import agreements, pairs_within_reach
from tacit.diagnose.report import Examination, Examiner
from tacit.diagnose.scatter import check_scatter, nearest_to_axes, rows_for_scatter
from tacit.diagnose.workers import LeftOut, WorkerQuality, leave_out, own_posterior, worker_quality
from tacit.engine.mixture import Floats, Mixture, unstack_confusions
from tacit.factor.votes import label_matrix
from tacit.moments.graph import CoLabelGraph
from tacit.moments.pairs import PairCounts

PART_SHARE = 0.02
"""Labels that may lie outside the main part of the crowd before it is mentioned."""
LABELS_PER_TASK = 3.0
"""With fewer labels a task, consensus is mostly one worker against another."""
LABELS_PER_WORKER = 10
"""Half of the labels should come from workers with at least so many: fewer do not show who is good."""
COPIED_LABELS = 0.2
"""Share of the labels that copying workers may hold: above, a vote is no longer a vote."""
IDLE_LABELS = 0.5
"""Share of the labels that guessing, constant and adversarial workers may hold."""
UNEXPLAINED = 0.15
"""Agreement the model leaves unexplained, as a share of what it could be; real crowds reach 0.1."""
MOST_WORKERS = 2_000
"""Workers for whom reachable co-occurrences are counted: the cost is cubic."""
MOST_ROWS = 200_000
"""Rows of H whose scatter is tested."""


def examine_labels(
    labels: Labels,
    mixture: Mixture,
    *,
    graph: CoLabelGraph,
    posterior: Floats,
    converged: bool,
    memory: int | None = None,
    quality: WorkerQuality | None = None,
) -> Examination:
    """Diagnose a fitted crowd.

    Parameters
    ----------
    labels, mixture, graph :
        The labels, the fitted model with class k standing for label k, the co-label graph.
    posterior : array (n, K)
        What is believed of every task; may be cooled.
    converged : bool
        Whether EM reached its tolerance.
    memory : int, optional
        Bytes the list of worker pairs may take.
    quality : WorkerQuality, optional
        When already at hand.
    """
    examiner = Examiner()
    own = own_posterior(labels, mixture)
    left_out = leave_out(labels, mixture, own)
    pairs = pairs_within_reach(labels, memory)
    if quality is None:
        quality = worker_quality(labels, mixture, left_out=left_out, pairs=pairs, memory=memory)
    _examine_sizes(examiner, labels)
    connected = _examine_graph(examiner, labels, graph, pairs)
    if labels.n_classes < 2:
        examiner.doubt(
            "caution",
            f"Every label is {_name(labels.class_names[0])}, so there is nothing to tell apart; check the label "
            "column, or add tasks of another class.",
        )
    elif connected:
        _examine_classes(examiner, labels, own, pairs)
    _examine_workers(examiner, labels, mixture, quality, pairs)
    _examine_consensus(examiner, labels, posterior, left_out)
    _examine_model(examiner, labels, mixture, own, pairs)
    if not converged:
        examiner.doubt(
            "caution", "EM stopped before it stood still, so the figures may still move; raise max_iter."
        )
    return examiner.conclude()


def _examine_sizes(examiner: Examiner, labels: Labels) -> None:
    per_task = np.diff(labels.offsets)
    labelled = per_task[per_task > 0]
    per_worker = np.bincount(labels.workers, minlength=labels.n_workers)
    mean = float(labelled.mean()) if len(labelled) else 0.0
    typical = _weighted_median(per_worker)
    examiner.quantities |= {
        "n_tasks": labels.n_rows,
        "n_workers": int((per_worker > 0).sum()),
        "n_labels": labels.n_labels,
        "labels_per_task": mean,
        "labels_per_worker": typical,
    }
    if mean < LABELS_PER_TASK:
        wanted = int(np.maximum(int(LABELS_PER_TASK) - labelled, 0).sum())
        examiner.doubt(
            "caution",
            f"A task has {mean:.1f} labels on average, so most answers are one worker's word against another's; "
            f"{wanted:,} more labels would give every task three.",
        )
    if typical < LABELS_PER_WORKER:
        examiner.doubt(
            "caution",
            f"Half of the labels come from workers with {typical} labels or fewer, too few to learn who is "
            f"reliable; ask fewer workers for more labels each, {LABELS_PER_WORKER} at the least.",
        )


def _examine_graph(examiner: Examiner, labels: Labels, graph: CoLabelGraph, pairs: PairCounts | None) -> bool:
    """What the co-label graph allows; false when pairs of labels say nothing at all."""
    per_part = np.bincount(graph.component[labels.workers], minlength=graph.n_components)
    total = max(labels.n_labels, 1)
    largest = float(per_part.max(initial=0)) / total
    open_share = float(per_part[~graph.determined].sum()) / total
    n_parts = int((per_part > 0).sum())
    examiner.quantities |= {
        "n_parts": n_parts,
        "largest_part": largest,
        "undetermined_labels": open_share,
        **_missing_blocks(pairs),
    }
    active = len(np.unique(labels.workers))
    if not (np.diff(labels.offsets) > 1).any():
        examiner.doubt(
            "not identifiable",
            "No task has labels of two workers, so nothing tells a right label from a wrong one; ask at least "
            "three workers about the same tasks.",
        )
        return False
    if active < 3:
        examiner.doubt(
            "not identifiable",
            "Only two workers share tasks: when they disagree nothing says who is right; ask a third worker "
            "about the same tasks.",
        )
    elif open_share > 0.5:
        examiner.doubt(
            "not identifiable",
            f"{open_share:.0%} of the labels come from workers whose common tasks form no odd cycle (such as "
            "three workers, each two of whom share tasks), so many different answers fit them equally well; give "
            "some tasks to three workers or more.",
        )
    elif open_share > PART_SHARE:
        examiner.doubt(
            "caution",
            f"{open_share:.0%} of the labels come from workers whose common tasks form no odd cycle; the quality "
            "of these workers is not determined: give some of their tasks to a third worker.",
        )
    if active > 2 and 1 - largest > PART_SHARE:
        examiner.doubt(
            "caution",
            f"The crowd falls into {n_parts} parts that share no task (the largest holds {largest:.0%} of the "
            "labels), so their workers cannot be compared and each part may name the classes its own way; let "
            "workers of different parts label the same tasks.",
        )
    return True


def _missing_blocks(pairs: PairCounts | None) -> dict[str, Any]:
    """Share of the co-occurrences R_mj not observed, the diagonal among them, before and after (7)–(8)."""
    if pairs is None or pairs.n_columns > MOST_WORKERS:
        return {"missing_blocks": None, "missing_blocks_imputed": None}
    from tacit.factor.designated import reachable

    observed = np.zeros((pairs.n_columns, pairs.n_columns), bool)
    left, right, _ = pairs.observed
    observed[left, right] = observed[right, left] = True
    after = 1 - float(reachable(observed).mean())
    return {"missing_blocks": 1 - float(observed.mean()), "missing_blocks_imputed": after}


def _examine_classes(examiner: Examiner, labels: Labels, own: Floats, pairs: PairCounts | None) -> None:
    """Is there a common cause, and one for every class?"""
    names, overall = labels.class_names, crowd_support(labels)
    found = class_support(labels, own)
    examiner.quantities |= {
        "support": overall,
        "class_support": {str(name): float(z) for name, z in zip(names.tolist(), found.support, strict=True)},
        "class_support_tasks": found.share,
    }
    if overall < LEAST_SUPPORT:
        related = None if pairs is None else tables_related(pairs)
        examiner.quantities["relation"] = related
        if related is not None and related < LEAST_SUPPORT:
            examiner.doubt(
                "not identifiable",
                f"Workers agree no more than their habits make them (support {overall:.1f}, {LEAST_SUPPORT:.0f} "
                "needed): either they guess, or nearly all tasks are of one class; make the question clearer, or "
                "ask other workers.",
            )
            return
        examiner.doubt(
            "caution",
            f"Workers do not agree more than their habits make them (support {overall:.1f}, "
            f"{LEAST_SUPPORT:.0f} needed), so which class is which label rests on few of them; add gold answers "
            "for some tasks.",
        )
        return
    weak = np.flatnonzero(found.support < LEAST_SUPPORT) if labels.n_classes > 2 else np.zeros(0, np.intp)
    blurred = [
        (g, h) for i, g in enumerate(weak) for h in weak[i + 1 :] if pair_support(labels, g, h) < LEAST_SUPPORT
    ]
    for g, h in blurred:
        examiner.doubt(
            "caution",
            f"Classes {_name(names[g])} and {_name(names[h])} cannot be told apart: workers choose between the two "
            "labels as if at random; explain the difference to them, or merge the two.",
        )
    for h in sorted(set(weak.tolist()) - {k for pair in blurred for k in pair}):
        examiner.doubt(
            "caution",
            f"Class {_name(names[h])} is hardly there: fewer than {LEAST_SUPPORT**2:.0f} tasks speak for it (support "
            f"{found.support[h]:.1f}, {LEAST_SUPPORT:.0f} needed), its labels look like mistakes; add tasks of "
            "that class, or drop the label.",
        )


def _examine_workers(
    examiner: Examiner, labels: Labels, mixture: Mixture, quality: WorkerQuality, pairs: PairCounts | None
) -> None:
    flags = np.array([str(flag).split(" ")[0] for flag in quality.flag], object)
    share = {
        kind: float(quality.n_labels[flags == kind].sum()) / max(labels.n_labels, 1)
        for kind in ("few", "guessing", "constant", "adversarial", "copies")
    }
    examiner.quantities |= {
        "flagged_workers": {kind: int((flags == kind).sum()) for kind in share},
        "flagged_labels": share,
        "unexplained_agreement": None if pairs is None else _unexplained(mixture, pairs),
    }
    if share["copies"] >= COPIED_LABELS:
        copying = labels.worker_names[np.flatnonzero(flags == "copies")]
        examiner.doubt(
            "caution",
            f"{len(copying)} workers with {share['copies']:.0%} of the labels say the same as another one far "
            f"beyond what skill explains ({_listed(copying)}); their agreement is no evidence: keep one of each "
            "group, and ask others.",
        )
    idle = share["guessing"] + share["constant"] + share["adversarial"]
    if idle >= IDLE_LABELS:
        examiner.doubt(
            "caution",
            f"{idle:.0%} of the labels come from workers who guess, always say the same or mislead (see the flags "
            "of the workers); the rest decides alone: ask other workers.",
        )
    unexplained = examiner.quantities["unexplained_agreement"]
    if unexplained is not None and unexplained > UNEXPLAINED:
        examiner.doubt(
            "caution",
            f"Workers agree on {unexplained:.0%} of what the model expects them to differ in: they share a source "
            "of mistakes, or copy; probabilities are too sure: look at the tasks where most of them agree.",
        )


def _unexplained(mixture: Mixture, pairs: PairCounts) -> float:
    """(observed − expected) / (common tasks − expected) agreements, over all pairs."""
    left, right, sizes = pairs.observed
    roots = (mixture.table * np.sqrt(mixture.weights)).reshape(pairs.n_columns, -1)
    expected = float((np.einsum("pc,pc->p", roots[left], roots[right]) * sizes).sum())
    possible = float(sizes.sum()) - expected
    return (float(agreements(pairs).sum()) - expected) / possible if possible > 0 else 0.0


def _examine_consensus(examiner: Examiner, labels: Labels, posterior: Floats, left_out: LeftOut) -> None:
    labelled = np.diff(labels.offsets) > 0
    sure = posterior[labelled].max(axis=1) if labelled.any() else np.ones(1)
    hinges = np.bincount(labels.task_of(), left_out.decisive, labels.n_rows)[labelled] > 0
    examiner.quantities |= {
        "expected_error": float(1 - sure.mean()),
        "fragile_tasks": float(hinges.mean()) if len(hinges) else 0.0,
    }


def _examine_model(
    examiner: Examiner, labels: Labels, mixture: Mixture, own: Floats, pairs: PairCounts | None
) -> None:
    """The geometry of H, and what the theorems say at it."""
    factor = theorems.stacked_factor(mixture)
    values = np.linalg.svd(factor, compute_uv=False)
    epsilon = nearest_to_axes(factor)
    noise = split_half_noise(labels, mixture, own)
    rotation = theorems.theorem_3(mixture, noise)
    sigma, smallest = float(rotation["sigma"] or 0), float(rotation["smallest_positive"] or 0)
    examiner.quantities |= {
        "confusion_error": confusion_error(labels, mixture),
        "H": {
            "rank": int((values > values[0] * len(factor) * np.finfo(float).eps).sum()),
            "condition": float(values[0] / max(values[-1], np.finfo(float).tiny)),
            "epsilon": [float(value) for value in epsilon],
        },
        "scattered_necessary_test": None,
        "theorem_1_constant_1": None if pairs is None else theorems.theorem_1(mixture, pairs),
        "theorem_2_constant_1": None if pairs is None else theorems.theorem_2(pairs, labels.n_classes),
        "theorem_3_constant_1": rotation,
        "lemma_8": theorems.admissible_alpha(sigma, smallest, noise),
        "proposition_1_rows": rows_for_scatter(labels.n_classes, float(epsilon.max())),
        "rows": len(factor),
    }
    if len(factor) <= MOST_ROWS:
        scatter = check_scatter(factor, np.random.default_rng(0))
        examiner.quantities["scattered_necessary_test"] = {
            "n_directions": scatter.n_directions,
            "share_inside": scatter.share_inside,
            "farthest": scatter.farthest,
            "exact": scatter.exact,
        }


def split_half_noise(labels: Labels, mixture: Mixture, own: Floats, *, seed: int = 0) -> float:
    """ν = ‖N‖_F of the fitted H: half the distance between the H of two halves of the tasks.

    Half the data have twice the variance, a difference of two halves four times: hence half the distance.
    """
    first_half = task_hashes(labels, seed) < np.uint64(2**63)
    K, halves = labels.n_classes, []
    for half in (first_half, ~first_half):
        weights = own[half].mean(axis=0) if half.any() else mixture.weights
        part = labels.subset(half[labels.task_of()])
        sums = np.asarray(label_matrix(part).T @ own) + mixture.table  # one pseudo-label per true class
        blocks = sums.reshape(-1, K, K)
        table = (blocks / blocks.sum(axis=1, keepdims=True)).reshape(-1, K)
        halves.append(table * np.sqrt(weights))
    return float(np.linalg.norm(halves[0] - halves[1])) / 2


def confusion_error(labels: Labels, mixture: Mixture) -> float:
    """Expected standard error of P(right | class) over workers and classes, weighted by labels."""
    n = np.bincount(labels.workers, minlength=labels.n_workers)[:, None] * mixture.weights
    right = np.einsum("mkk->mk", unstack_confusions(mixture))
    error = np.sqrt(right * (1 - right) / (n + 1))
    return float((error * n).sum() / max(float(n.sum()), 1e-300))


def _weighted_median(counts: Any) -> int:
    """The count of the worker who gave the middle label, workers ordered by their counts."""
    ordered = np.sort(counts)
    reached = np.cumsum(ordered)
    return int(ordered[np.searchsorted(reached, reached[-1] / 2)]) if len(ordered) and reached[-1] else 0


def _name(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _listed(names: Sequence[Any] | Any, most: int = 5) -> str:
    shown = ", ".join(_name(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
