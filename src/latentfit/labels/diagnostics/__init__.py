"""Can the consensus of this crowd be relied on? The verdict on label data, with the checks behind it.

`not identifiable` when the labels fit a family of answers: nobody shares a task, only two workers, no
odd cycle of workers, or labels that are unrelated to one another. `caution` when the answer rests on
weak evidence: components that share no task, classes nobody distinguishes or that hardly occur, fewer than three
labels per task, workers with a handful of labels, workers who agree more than the model explains, a crowd mostly
of guessers, known answers that the consensus gets wrong, a consensus of which much is expected to be wrong, EM cut
short. Else `ok`: no check found a problem.

What no data can show is assumed: that decisive workers are right more often than wrong. A crowd whose
majority misleads the same way gives the same labels as an honest one with the classes renamed. What all workers get
wrong is not seen either; how much that usually is, experience with other crowds says (`experience.py`).

Cost is linear in the labels. What needs the list of worker pairs, or grows with the cube of something, is
computed when it is affordable (each has a named bound) and is None otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.simplex import check_scatter, nearest_to_axes, rows_for_scatter
from latentfit.core.verdict import WORST_CONDITION, Check, Examination, Examiner, FitReport
from latentfit.labels import theory
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.data.stored import block_hashes
from latentfit.labels.diagnostics.dependence import agreements, expected_agreement, joint_agreement, pairs_within_reach
from latentfit.labels.diagnostics.experience import (
    BlockPosterior,
    Calibration,
    ExpectedErrors,
    expectation_of,
    expected_errors,
)
from latentfit.labels.diagnostics.groups import group_agreement
from latentfit.labels.diagnostics.structure import examine_classes, examine_copies, examine_graph, listed, spell
from latentfit.labels.diagnostics.workers import (
    Judged,
    WorkerQuality,
    examine_repeats,
    log_likelihood_of,
    own_posterior,
)
from latentfit.labels.moments import CoLabelGraph, sufficient_statistics


@dataclass(frozen=True)
class Tuning:
    """Constants of the verdict, each with its reason."""

    # Tasks that a class needs for a support of four standard errors, the least that counts as evidence.
    tasks_per_class: int = 16
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
    # Correlation of residuals within two groups of workers, less three standard errors: independent crowds reach 0.03
    # where their tables are poorly determined.
    grouped: float = 0.05
    # Rows of H · K² up to which its singular values are computed: a few seconds.
    model_work: int = 300_000_000
    # Proportion of wrong answers that may be expected: one in five.
    expected_error: float = 0.2
    # Probability of as many wrong known answers as there are, below which something is wrong.
    known_answers: float = 0.01
    # Condition number of H from which noise decides which class is which.
    condition: float = 1_000.0
    # Proportion of the consensus that may change when half of the tasks teaches the confusion matrices of the other.
    unstable: float = 0.1


TUNING = Tuning()


def examine_labels(
    labels: CodedLabels,
    mixture: Mixture,
    *,
    graph: CoLabelGraph,
    calibration: Calibration,
    converged: bool,
    quality: WorkerQuality,
    consensus: BlockPosterior | None = None,
    memory: int | None = None,
) -> Examination:
    """Diagnose a fitted crowd.

    Parameters
    ----------
    labels, mixture, graph :
        The labels, the fitted model with class k standing for label k, the co-label graph.
    calibration : Calibration
        What is known of the errors of the crowd.
    converged : bool
        Whether EM reached its tolerance.
    quality : WorkerQuality
        Accuracy and flag of every worker.
    consensus : callable or None, default=None
        From the index of a block's first task, and the block, to the posterior that decides its consensus (n, K), where
        it is not the mixture's.
    memory : int, optional
        Bytes the list of worker pairs may take.
    """
    examiner = Examiner()
    pairs = pairs_within_reach(labels, memory)
    _examine_sizes(examiner, labels)
    connected = examine_graph(examiner, labels, graph, pairs)
    if connected and labels.n_classes > 1:
        examine_classes(examiner, labels, lambda tasks: own_posterior(tasks, mixture), pairs)
    examine_copies(examiner, labels, lambda tasks: np.exp(log_likelihood_of(tasks, mixture)))
    _examine_workers(examiner, labels, mixture, quality, pairs)
    _examine_jointly(examiner, labels, mixture)
    _examine_groups(examiner, labels, mixture)
    examine_repeats(examiner, labels, mixture)
    _examine_consensus(examiner, labels, mixture, calibration, consensus)
    _examine_model(examiner, labels, mixture, pairs)
    examiner.check_converged(converged)
    outcome = examiner.conclude()
    # no error is stated of a consensus that the labels do not determine
    return replace(outcome, expected=None) if outcome.verdict == "not identifiable" else outcome


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
    least = TUNING.tasks_per_class * max(labels.n_classes, 1)
    examiner.check(
        "sample_size",
        "Labelled tasks",
        labelled >= least,
        f"{labelled:,} labelled tasks are too few for {labels.n_classes} classes: at least {least} are needed, since a "
        f"class on fewer than {TUNING.tasks_per_class} tasks cannot be verified; add tasks.",
        value=labelled,
        limit=least,
    )
    only = spell(labels.class_names[0]) if labels.n_classes else "missing"
    examiner.check(
        "several_classes",
        "The labels name two classes or more",
        labels.n_classes >= 2,
        f"Every label is {only}: 1 class where 2 are needed, so there are no classes to distinguish; check the label "
        "column, or add tasks of another class.",
        value=labels.n_classes,
        limit=2,
    )
    examiner.check(
        "labels_per_task",
        "Labels per task",
        mean >= TUNING.labels_per_task,
        f"A task has {mean:.1f} labels on average, {TUNING.labels_per_task} are needed, so most answers are one "
        f"worker's word against another's; {wanted:,} more {'label' if wanted == 1 else 'labels'} would give every "
        "task three (latentfit plan says which).",
        value=mean,
        limit=TUNING.labels_per_task,
    )
    examiner.check(
        "labels_per_worker",
        "Labels of the worker who gave the median label",
        typical >= TUNING.labels_per_worker,
        f"Half of the labels come from workers who gave {typical} or fewer, {TUNING.labels_per_worker} are needed to "
        f"learn who is reliable; ask fewer workers for more labels each, {TUNING.labels_per_worker} at the least.",
        value=typical,
        limit=TUNING.labels_per_worker,
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
    same, beyond, overruling = (
        [spell(labels.worker_names[m]) for m in np.flatnonzero(kinds == kind)]
        for kind in ("says", "agrees", "overrules")
    )
    limit = TUNING.copied_labels
    if pairs is not None:
        examiner.check(
            "duplicate_workers",
            "Labels by workers who say the same as another one",
            not same or fraction["says"] + fraction["agrees"] < limit,
            f"{len(same)} workers with {fraction['says']:.0%} of the labels say the same as another one, and no other "
            f"two come near it ({listed(same)}; limit {limit:.0%} of the labels, with those who agree too much); their "
            "agreement is no evidence: remove all but one of each group, or ask others.",
            value=fraction["says"],
            limit=limit,
        )
        examiner.check(
            "dependent_workers",
            "Labels by workers of whom some pair agrees more than the model explains",
            not beyond or fraction["says"] + fraction["agrees"] < limit,
            f"{len(beyond)} workers with {fraction['agrees']:.0%} of the labels agree with one another more than the "
            f"model explains ({listed(beyond)}; limit {limit:.0%} of the labels, with those who say the same): either "
            "they have a common source (a copy, a base model), or the others have one and the consensus follows it; "
            "check some tasks by hand to see which (--gold takes the answers), or ask workers from elsewhere.",
            value=fraction["agrees"],
            limit=limit,
        )
        examiner.check(
            "overruling_workers",
            "Labels by workers on whose tasks the others do far worse",
            fraction["overrules"] < TUNING.overruling_labels,
            f"On the tasks of workers with {fraction['overrules']:.0%} of the labels ({listed(overruling)}; limit "
            f"{TUNING.overruling_labels:.0%}) the others look far worse than on other tasks: either these tasks are "
            "harder, or those workers have a common source and the consensus follows it; check some of the tasks by "
            "hand (--gold takes the answers).",
            value=fraction["overrules"],
            limit=TUNING.overruling_labels,
        )
        assert unexplained is not None
        examiner.check(
            "unexplained_agreement",
            "Agreement of workers that the model leaves unexplained",
            unexplained <= TUNING.unexplained,
            f"Workers agree in {unexplained:.1%} of the cases where the model expects them to differ (limit "
            f"{TUNING.unexplained:.0%}): they copy, or the same tasks mislead them all, and probabilities are too "
            "sure; check some of the tasks by hand on which most agree (--gold takes the answers).",
            value=unexplained,
            limit=TUNING.unexplained,
        )
    idle = fraction["guessing"] + fraction["constant"] + fraction["adversarial"]
    examiner.check(
        "idle_workers",
        "Labels by workers who guess, always say the same or mislead",
        idle < TUNING.idle_labels,
        f"{idle:.0%} of the labels come from workers who guess, always say the same or mislead (limit "
        f"{TUNING.idle_labels:.0%}; the column flag of the workers names them); the rest decides alone: ask other "
        "workers.",
        value=idle,
        limit=TUNING.idle_labels,
    )


def _examine_jointly(examiner: Examiner, labels: CodedLabels, mixture: Mixture) -> None:
    """Agreement beyond the model: the pair that agrees most, and all workers together, which few tasks show sooner."""
    result = joint_agreement(labels, mixture)
    if result is None:
        examiner.quantities["joint_agreement"] = None
        return
    examiner.quantities["joint_agreement"] = {"value": result.value, "limit": result.limit}
    examiner.check(
        "joint_agreement",
        "Agreement beyond the model, all workers together",
        not result.beyond,
        "Workers agree with one another more than the model explains (sum of squared positive residuals over "
        f"triples {result.value:.1f}, limit {result.limit:.1f}); they may share a source, and the consensus may "
        "follow it: check some tasks by hand (--gold takes the answers), or ask workers from elsewhere.",
        value=result.value,
        limit=result.limit,
        p_value=result.p_value,
    )
    pair = result.largest
    left, right = (spell(labels.worker_names[worker]) for worker in (pair.left, pair.right))
    examiner.check(
        "largest_pair_residual",
        "Largest residual agreement of two workers",
        pair.z <= pair.limit,
        f"Workers {left} and {right} agree more than the model explains, by {pair.z:.1f} standard errors (limit "
        f"{pair.limit:.1f}, Bonferroni over {pair.n_pairs} pairs): they may share a source, or the others do and the "
        "consensus follows these; check some tasks by hand (--gold takes the answers), or ask workers from elsewhere.",
        value=pair.z,
        limit=pair.limit,
        p_value=pair.p_value,
    )


def _examine_groups(examiner: Examiner, labels: CodedLabels, mixture: Mixture) -> None:
    """Do two groups of workers read the instructions differently?"""
    found = group_agreement(labels, mixture)
    if found is None:
        return
    examiner.quantities["group_agreement"] = {"value": found.correlation, "standard_error": found.standard_error}
    examiner.check(
        "group_agreement",
        "Agreement within two groups of workers beyond the model, less three standard errors",
        found.least <= TUNING.grouped,
        "Workers fall into two groups that agree within and disagree between more than the model explains (correlation "
        f"of residuals {found.correlation:.2f}, at least {found.least:.2f}, limit {TUNING.grouped:.2f}): they read the "
        "question in two ways, or answer by two rules, and the consensus follows the larger group; make the question "
        "clearer, or check tasks on which the groups differ (--gold takes the answers).",
        value=found.least,
        limit=TUNING.grouped,
    )


def _examine_consensus(
    examiner: Examiner,
    labels: CodedLabels,
    mixture: Mixture,
    calibration: Calibration,
    consensus: BlockPosterior | None,
) -> None:
    """What is expected to be wrong, and what known answers say of it."""
    tasks = hinging = 0
    for block, result in Judged(labels, mixture):
        tasks += int((np.diff(block.offsets) > 0).sum())
        hinging += int((np.bincount(block.task_of(), result.decisive, block.n_rows) > 0).sum())
    fragile = hinging / max(tasks, 1)
    errors = expected_errors(labels, mixture, calibration, consensus)
    expected = expectation_of(errors, calibration, labels.n_classes)
    examiner.expected = expected
    examiner.quantities |= {
        "expected_error": expected.value,
        "expected_error_of_the_model": errors.model,
        "error_correlation": calibration.correlation,
        "error_correlation_standard_error": calibration.standard_error,
        "weight_of_experience": calibration.weight,
        "fragile_tasks": fragile,
    }
    limit = TUNING.expected_error
    examiner.check(
        "expected_error",
        "Expected error of the consensus",
        expected.value <= limit,
        f"{expected.value:.1%} of the consensus is expected to be wrong (limit {limit:.0%}), and for {fragile:.0%} of "
        "the tasks one label decides; buy labels for the tasks with the smallest margin (latentfit plan), or give "
        "known answers (--gold).",
        value=expected.value,
        limit=limit,
    )
    if errors.n_known and labels.n_classes > 1:
        _examine_known_answers(examiner, errors)


def _examine_known_answers(examiner: Examiner, errors: ExpectedErrors) -> None:
    """Do the labels alone get as many known answers wrong as was stated before these were looked at?"""
    n_known, n_wrong, stated = errors.n_known, errors.n_wrong, errors.stated_known
    probability = 1.0 if n_wrong == 0 else float(1 - bdtr(n_wrong - 1, n_known, stated))
    most = float(np.arange(n_known + 1)[bdtr(np.arange(n_known + 1), n_known, stated) > 1 - TUNING.known_answers][0])
    examiner.check(
        "known_answers",
        "Known answers that the labels alone get wrong",
        probability >= TUNING.known_answers,
        f"The labels alone get {n_wrong:,} of {n_known:,} known answers wrong, {n_wrong / n_known:.0%} where "
        f"{stated:.0%} were expected (limit {most / n_known:.0%}): either some known answers are wrong, or the crowd "
        "errs together more than others; check the known answers (--gold), and rely on the expected error that they "
        "imply.",
        value=n_wrong / n_known,
        limit=most / n_known,
        p_value=probability,
    )


def examine_truth(report: FitReport, error: float, n_truth: int) -> FitReport:
    """The report with the actual error, measured on `n_truth` tasks, compared with the stated one.

    Where the truth of some tasks alone is known, the error among these must lie outside by more than their number
    allows by chance.
    """
    expected = report.expected
    if expected is None or expected.low is None or expected.high is None:
        return report
    inside = expected.low <= error <= expected.high
    probability = None
    if not inside and n_truth < report.quantities.get("n_tasks", n_truth):
        n_wrong = round(error * n_truth)
        above = error > expected.high
        tail = 1 - bdtr(n_wrong - 1, n_truth, expected.high) if above else bdtr(n_wrong, n_truth, expected.low)
        probability = float(tail) if n_wrong or not above else 1.0
        inside = probability >= TUNING.known_answers
    why = (
        "workers err together more than in other crowds, so the probabilities are too sure: give some of these answers "
        "as known ones (--gold), or ask workers from elsewhere"
        if error > expected.high
        else "the probabilities are too cautious; give some of these answers as known ones (--gold) to correct them"
    )
    reason = (
        f"On {n_truth:,} tasks with known truth {error:.1%} of the consensus is wrong, outside the stated interval of "
        f"{expected.low:.1%} to {expected.high:.1%} (expected {expected.value:.1%}); {why}."
    )
    name, title = "actual_error", "Actual error lies in the stated interval"
    limit = expected.high if error >= expected.low else expected.low
    check = Check(name, title, inside, error, limit, probability, reason="" if inside else reason)
    examination = Examination([*report.checks, check], report.quantities, expected)
    return replace(report, verdict=examination.verdict, reasons=examination.reasons, checks=examination.checks)


def _examine_model(examiner: Examiner, labels: CodedLabels, mixture: Mixture, pairs: PairCounts | None) -> None:
    """The geometry of H, the quantities of the theorems at it, and whether halves of the tasks give the same answer."""
    factor = theory.stacked_factor(mixture)
    examiner.quantities["confusion_error"] = confusion_error(labels, mixture)
    if factor.size * labels.n_classes > TUNING.model_work:
        examiner.quantities["H"] = None
        return
    values = np.linalg.svd(factor, compute_uv=False)
    epsilon = nearest_to_axes(factor)
    halves = half_mixtures(labels, mixture)
    rotation = theory.theorem_3(mixture, split_half_noise(halves))
    scatter = check_scatter(factor, np.random.default_rng(0))
    condition = float(values[0] / max(values[-1], values[0] / WORST_CONDITION))
    examiner.quantities |= {
        "H": {
            "rows": len(factor),
            "rank": int((values > values[0] * len(factor) * np.finfo(float).eps).sum()),
            "condition": condition,
            "epsilon": epsilon.tolist(),
        },
        "scattered_necessary_test": None if scatter is None else vars(scatter),
        "proposition_1_rows": rows_for_scatter(labels.n_classes, float(epsilon.max())),
        "theorem_1_constant_1": None if pairs is None else theory.theorem_1(mixture, pairs),
        "theorem_2_constant_1": None if pairs is None else theory.theorem_2(pairs, labels.n_classes),
        "theorem_3_constant_1": rotation,
        "lemma_8": theory.admissible_alpha(rotation["sigma"], rotation["smallest_positive"], rotation["noise"]),
    }
    if labels.n_classes < 2:
        return
    examiner.check(
        "distinct_confusions",
        "Condition number of the stacked confusion matrices",
        condition <= TUNING.condition,
        f"The confusion matrices hardly tell some classes apart (condition number {condition:,.0f}, limit "
        f"{TUNING.condition:,.0f}), so noise decides which of them a task has; merge such classes, or give known "
        "answers for each (--gold).",
        value=condition,
        limit=TUNING.condition,
    )
    changed = changed_by_halves(labels, mixture, halves)
    examiner.quantities["changed_by_halves"] = changed
    examiner.check(
        "stability",
        "Consensus that changes when the other half of the tasks teaches the confusion matrices",
        changed <= TUNING.unstable,
        f"{changed:.1%} of the consensus changes when the confusion matrices come from the other half of the tasks "
        f"(limit {TUNING.unstable:.0%}), so there are too few labels to learn who is reliable; ask fewer workers for "
        "more labels each, or buy more labels (latentfit plan).",
        value=changed,
        limit=TUNING.unstable,
    )


def unexplained_agreement(mixture: Mixture, pairs: PairCounts) -> float:
    """(observed − expected) / (common tasks − expected) agreements, over all pairs."""
    sizes = pairs.observed[2]
    expected = float((expected_agreement(pairs, mixture) * sizes).sum())
    possible = float(sizes.sum()) - expected
    return (float(agreements(pairs).sum()) - expected) / possible if possible > 0 else 0.0


def half_mixtures(labels: CodedLabels, mixture: Mixture) -> tuple[Mixture, Mixture]:
    """The mixture as each of two halves of the tasks gives it from the posterior of the fit."""
    K = labels.n_classes
    tasks, class_counts = np.zeros(2), np.zeros((2, K))
    tables = np.zeros((2, *mixture.table.shape))
    for block in labels.blocks():
        own = own_posterior(block, mixture)
        first_half = in_first_half(block)
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
        halves.append(Mixture(weights, table, mixture.column_offsets))
    return halves[0], halves[1]


def in_first_half(block: Labels) -> NDArray[np.bool_]:
    """Which tasks (n,) are in the first of two halves."""
    return np.asarray(block_hashes(block, 0) < np.uint64(2**63))


def split_half_noise(halves: tuple[Mixture, Mixture]) -> float:
    """ν = ‖N‖_F of the fitted H: half the distance between the H of two halves of the tasks.

    Half the data have twice the variance, a difference of two halves four times: hence half the distance.
    """
    first, second = (half.table * np.sqrt(half.weights) for half in halves)
    return float(np.linalg.norm(first - second)) / 2


def changed_by_halves(labels: CodedLabels, mixture: Mixture, halves: tuple[Mixture, Mixture]) -> float:
    """Proportion of labelled tasks whose consensus is another when the other half gives the confusion matrices."""
    tasks = changed = 0
    for block in labels.blocks():
        first_half, labelled = in_first_half(block), np.diff(block.offsets) > 0
        answer = own_posterior(block, mixture).argmax(axis=1)
        taught = [own_posterior(block, half).argmax(axis=1) for half in halves]
        other = np.where(first_half, taught[1], taught[0])
        tasks, changed = tasks + int(labelled.sum()), changed + int((other != answer)[labelled].sum())
    return changed / max(tasks, 1)


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
