"""Can the consensus of this crowd be trusted? The verdict on label data, with the numbers behind it.

`not identifiable` when the labels fit a family of answers: nobody shares a task, only two workers, no
odd cycle of workers, or labels that are unrelated to one another. `caution` when the answer rests on
weak evidence: components that share no task, classes nobody distinguishes or that hardly occur, fewer than three
labels per task, workers with a handful of labels, workers who agree more than the model explains, a crowd mostly
of guessers, a consensus that often hinges on one label, EM cut short. Else `trusted`.

What no data can show is assumed: that decisive workers are right more often than wrong. A crowd whose
majority misleads the same way gives the same labels as an honest one with the classes renamed.

Cost is linear in the labels. What needs the list of worker pairs, or grows with the cube of something, is
computed when it is affordable (each has a named bound) and is None otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.simplex import check_scatter, nearest_to_axes, rows_for_scatter
from latentfit.core.verdict import WORST_CONDITION, Examination, Examiner
from latentfit.labels import theory
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.data.stored import block_hashes
from latentfit.labels.diagnostics.dependence import agreements, expected_agreement, joint_agreement, pairs_within_reach
from latentfit.labels.diagnostics.structure import examine_classes, examine_graph, listed, spell
from latentfit.labels.diagnostics.workers import Judged, WorkerQuality, examine_repeats, own_posterior
from latentfit.labels.moments import CoLabelGraph, sufficient_statistics

BlockPosterior = Callable[[int, Labels], Floats]


@dataclass(frozen=True)
class Tuning:
    """Constants of the verdict, each with its reason."""

    # With fewer labels per task, consensus is mostly one worker against another.
    labels_per_task: int = 3
    # Half of the labels should come from workers with at least so many: fewer do not show who is good.
    labels_per_worker: int = 10
    # Proportion of labels by near-duplicate or dependent workers above which the vote is not independent.
    copied_labels: float = 0.2
    # Proportion of labels by workers who overrule the others: what they say is the consensus of all their
    # tasks.
    overruling_labels: float = 0.1
    # Proportion of labels that guessing, constant and adversarial workers may hold.
    idle_labels: float = 0.5
    # Agreement the model leaves unexplained, as a proportion of its maximum; sound real crowds reach 0.1.
    unexplained: float = 0.15
    # Rows of H · K² up to which its singular values are computed: a few seconds.
    model_work: int = 300_000_000
    # Proportion of wrong answers that the model itself may expect.
    expected_error: float = 0.15


TUNING = Tuning()


def examine_labels(
    labels: CodedLabels,
    mixture: Mixture,
    *,
    graph: CoLabelGraph,
    block_posterior: BlockPosterior,
    converged: bool,
    quality: WorkerQuality,
    memory: int | None = None,
) -> Examination:
    """Diagnose a fitted crowd.

    Parameters
    ----------
    labels, mixture, graph :
        The labels, the fitted model with class k standing for label k, the co-label graph.
    block_posterior : callable
        From the index of a block's first task, and the block, to the posterior of its tasks (n, K); may be tempered.
    converged : bool
        Whether EM reached its tolerance.
    quality : WorkerQuality
        Accuracy and flag of every worker.
    memory : int, optional
        Bytes the list of worker pairs may take.
    """
    examiner = Examiner()
    judged = Judged(labels, mixture)
    pairs = pairs_within_reach(labels, memory)
    _examine_sizes(examiner, labels)
    connected = examine_graph(examiner, labels, graph, pairs)
    if connected and labels.n_classes > 1:
        examine_classes(examiner, labels, lambda tasks: own_posterior(tasks, mixture), pairs)
    _examine_workers(examiner, labels, mixture, quality, pairs)
    _examine_jointly(examiner, labels, mixture)
    examine_repeats(examiner, labels, mixture)
    _examine_consensus(examiner, judged, block_posterior)
    _examine_model(examiner, labels, mixture, pairs)
    examiner.check_converged(converged)
    return examiner.conclude()


def _examine_sizes(examiner: Examiner, labels: CodedLabels) -> None:
    labelled = wanted = 0
    for block in labels.blocks():
        per_task = np.diff(block.offsets)
        labelled += int((per_task > 0).sum())
        wanted += int(np.maximum(TUNING.labels_per_task - per_task[per_task > 0], 0).sum())
    per_worker = labels.per_worker
    mean = labels.n_labels / labelled if labelled else 0.0
    typical = middle_count(per_worker)
    examiner.quantities |= {
        "n_tasks": labels.n_rows,
        "n_workers": int((per_worker > 0).sum()),
        "n_labels": labels.n_labels,
        "labels_per_task": mean,
        "labels_per_worker": typical,
    }
    if labels.n_classes < 2:
        only = spell(labels.class_names[0]) if labels.n_classes else "missing"
        examiner.doubt(
            "caution",
            f"Every label is {only}, so there are no classes to distinguish; check the label column, or add tasks of "
            "another class.",
        )
    if mean < TUNING.labels_per_task:
        examiner.doubt(
            "caution",
            f"A task has {mean:.1f} labels on average, so most answers are one worker's word against another's; "
            f"{wanted:,} more {'label' if wanted == 1 else 'labels'} would give every task three.",
        )
    if typical < TUNING.labels_per_worker:
        examiner.doubt(
            "caution",
            f"Half of the labels come from workers who gave {typical} or fewer, too few to learn who is "
            f"reliable; ask fewer workers for more labels each, {TUNING.labels_per_worker} at the least.",
        )


def _examine_workers(
    examiner: Examiner, labels: CodedLabels, mixture: Mixture, quality: WorkerQuality, pairs: PairCounts | None
) -> None:
    kinds = np.array([str(flag).split(" ")[0] for flag in quality.flag], object)
    fraction = {
        kind: float(quality.n_labels[kinds == kind].sum()) / max(labels.n_labels, 1)
        for kind in ("few", "guessing", "constant", "adversarial", "says", "agrees", "overrules")
    }
    unexplained = None if pairs is None else unexplained_agreement(mixture, pairs)
    examiner.quantities |= {
        "flagged_workers": {kind: int((kinds == kind).sum()) for kind in fraction},
        "flagged_labels": fraction,
        "unexplained_agreement": unexplained,
    }
    if fraction["says"] + fraction["agrees"] >= TUNING.copied_labels:
        _report_dependence(examiner, labels, kinds, fraction)
    if fraction["overrules"] >= TUNING.overruling_labels:
        names = listed([spell(labels.worker_names[m]) for m in np.flatnonzero(kinds == "overrules")])
        examiner.doubt(
            "caution",
            f"On the tasks of workers with {fraction['overrules']:.0%} of the labels ({names}) the others look far "
            "worse than on other tasks: either these tasks are harder, or those workers have a common source and the "
            "consensus follows it; check some of the tasks by hand.",
        )
    idle = fraction["guessing"] + fraction["constant"] + fraction["adversarial"]
    if idle >= TUNING.idle_labels:
        examiner.doubt(
            "caution",
            f"{idle:.0%} of the labels come from workers who guess, always say the same or mislead (see the "
            "flags of the workers); the rest decides alone: ask other workers.",
        )
    if unexplained is not None and unexplained > TUNING.unexplained:
        examiner.doubt(
            "caution",
            f"Workers agree in {unexplained:.0%} of the cases where the model expects them to differ: they copy, "
            "or the same tasks mislead them all, and probabilities are too sure; look at the tasks most agree on.",
        )


def _examine_jointly(examiner: Examiner, labels: CodedLabels, mixture: Mixture) -> None:
    """Agreement beyond the model over all workers: with few tasks no single pair shows it."""
    result = joint_agreement(labels, mixture)
    examiner.quantities["joint_agreement"] = None if result is None else {"value": result.value, "limit": result.limit}
    if result is not None and result.beyond:
        examiner.doubt(
            "caution",
            "Workers agree with one another more than the model explains (sum of squared positive residuals over "
            f"triples {result.value:.1f}, limit {result.limit:.1f}); they may share a source, and the consensus may "
            "follow it: check some tasks by hand, or ask workers from elsewhere.",
        )


def _report_dependence(
    examiner: Examiner, labels: CodedLabels, kinds: NDArray[Any], fraction: dict[str, float]
) -> None:
    same, beyond = (
        [spell(labels.worker_names[m]) for m in np.flatnonzero(kinds == kind)] for kind in ("says", "agrees")
    )
    if same:
        examiner.doubt(
            "caution",
            f"{len(same)} workers with {fraction['says']:.0%} of the labels say the same as another one, and no other "
            f"two come near it ({listed(same)}); their agreement is no evidence: keep one of each group, and "
            "ask others.",
        )
    if beyond:
        examiner.doubt(
            "caution",
            f"{len(beyond)} workers with {fraction['agrees']:.0%} of the labels agree with one another more than the "
            f"model explains ({listed(beyond)}): either they have a common source (a copy, a base model), or the "
            "others have one and the consensus follows it; check some tasks by hand to see which, or ask workers "
            "from elsewhere.",
        )


def _examine_consensus(examiner: Examiner, judged: Judged, block_posterior: BlockPosterior) -> None:
    begin = tasks = hinging = 0
    unsure = 0.0
    for block, result in judged:
        labelled = np.diff(block.offsets) > 0
        unsure += float((1 - block_posterior(begin, block)[labelled].max(axis=1, initial=0.0)).sum())
        hinging += int((np.bincount(block.task_of(), result.decisive, block.n_rows)[labelled] > 0).sum())
        begin, tasks = begin + block.n_rows, tasks + int(labelled.sum())
    error, fragile = unsure / max(tasks, 1), hinging / max(tasks, 1)
    examiner.quantities |= {"expected_error": error, "fragile_tasks": fragile}
    if error > TUNING.expected_error:
        examiner.doubt(
            "caution",
            f"By the model's own estimate the consensus is wrong for {error:.0%} of the tasks, and for {fragile:.0%} "
            "one label decides; buy labels for the tasks with the smallest margin.",
        )


def _examine_model(examiner: Examiner, labels: CodedLabels, mixture: Mixture, pairs: PairCounts | None) -> None:
    """The geometry of H, and the quantities of the theorems at it."""
    factor = theory.stacked_factor(mixture)
    examiner.quantities["confusion_error"] = confusion_error(labels, mixture)
    if factor.size * labels.n_classes > TUNING.model_work:
        examiner.quantities["H"] = None
        return
    values = np.linalg.svd(factor, compute_uv=False)
    epsilon = nearest_to_axes(factor)
    rotation = theory.theorem_3(mixture, split_half_noise(labels, mixture))
    scatter = check_scatter(factor, np.random.default_rng(0))
    examiner.quantities |= {
        "H": {
            "rows": len(factor),
            "rank": int((values > values[0] * len(factor) * np.finfo(float).eps).sum()),
            "condition": float(values[0] / max(values[-1], values[0] / WORST_CONDITION)),
            "epsilon": epsilon.tolist(),
        },
        "scattered_necessary_test": None if scatter is None else vars(scatter),
        "proposition_1_rows": rows_for_scatter(labels.n_classes, float(epsilon.max())),
        "theorem_1_constant_1": None if pairs is None else theory.theorem_1(mixture, pairs),
        "theorem_2_constant_1": None if pairs is None else theory.theorem_2(pairs, labels.n_classes),
        "theorem_3_constant_1": rotation,
        "lemma_8": theory.admissible_alpha(rotation["sigma"], rotation["smallest_positive"], rotation["noise"]),
    }


def unexplained_agreement(mixture: Mixture, pairs: PairCounts) -> float:
    """(observed − expected) / (common tasks − expected) agreements, over all pairs."""
    sizes = pairs.observed[2]
    expected = float((expected_agreement(pairs, mixture) * sizes).sum())
    possible = float(sizes.sum()) - expected
    return (float(agreements(pairs).sum()) - expected) / possible if possible > 0 else 0.0


def split_half_noise(labels: CodedLabels, mixture: Mixture) -> float:
    """ν = ‖N‖_F of the fitted H: half the distance between the H of two halves of the tasks.

    Half the data have twice the variance, a difference of two halves four times: hence half the distance.
    """
    K = labels.n_classes
    tasks, class_counts = np.zeros(2), np.zeros((2, K))
    tables = np.zeros((2, *mixture.table.shape))
    for block in labels.blocks():
        own = own_posterior(block, mixture)
        first_half = block_hashes(block, 0) < np.uint64(2**63)
        for at, half in enumerate((first_half, ~first_half)):
            stats = sufficient_statistics(block.take(half), own[half])
            tasks[at] += half.sum()
            class_counts[at] += stats.totals
            tables[at] += stats.table
    halves = []
    for at in range(2):
        weights = class_counts[at] / tasks[at] if tasks[at] else mixture.weights
        blocks = (tables[at] + mixture.table).reshape(-1, K, K)  # one pseudo-label per true class
        table = (blocks / blocks.sum(axis=1, keepdims=True)).reshape(-1, K)
        halves.append(table * np.sqrt(weights))
    return float(np.linalg.norm(halves[0] - halves[1])) / 2


def confusion_error(labels: CodedLabels, mixture: Mixture) -> float:
    """Expected standard error of P(right | class) over workers and classes, weighted by labels."""
    n = labels.per_worker[:, None] * mixture.weights
    right = np.einsum("mkk->mk", unstack_confusions(mixture))
    error = np.sqrt(np.maximum(right * (1 - right), 0.0) / (n + 1))
    return float((error * n).sum() / max(float(n.sum()), 1e-300))


def middle_count(counts: NDArray[np.int64]) -> int:
    """The count of the worker who gave the middle label, workers ordered by their counts."""
    ordered = np.sort(counts)
    reached = np.cumsum(ordered)
    return int(ordered[np.searchsorted(reached, reached[-1] / 2)]) if len(ordered) and reached[-1] else 0
