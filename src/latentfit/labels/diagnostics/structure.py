"""Checks of the design of the labels, before any accuracy matters: who shares tasks, which classes exist.

Each function adds its quantities and findings to an `Examiner`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.verdict import Examination, Examiner, Verdict
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.data.stored import content_hashes, sample_fraction
from latentfit.labels.diagnostics.dependence import pairs_within_reach
from latentfit.labels.init.designated import reachable
from latentfit.labels.moments import CoLabelGraph, co_label_graph


@dataclass(frozen=True)
class Tuning:
    """Constants of the checks of the design, each with its reason."""

    # Labels that may lie outside the largest component before it is reported.
    component_fraction: float = 0.02
    # Workers for whom reachable co-occurrences are counted: the cost is cubic.
    most_workers: int = 1_000
    # Known answers per class from which the workers of a component are estimated independently.
    known_tasks: int = 10
    # Cells of two-way tables tested for any relation at all.
    table_cells: int = 50_000_000
    # Names spelled out in a sentence.
    listed_names: int = 5
    # Four standard deviations: no crowd without a common cause gets there, and sixteen clear tasks do.
    least_support: float = 4.0
    # Pseudo-labels that shrink a worker's label proportions towards the crowd's.
    shrink: float = 1.0
    # Labels · K looked at by the tests of classes; larger crowds are tested on a sample of their tasks.
    test_work: int = 20_000_000
    # Unsupported classes taken away one by one; beyond, all that are weak are named as they are.
    most_weak: int = 10
    # Two labels stand for one class when the rarer is given half as often as the other on the same tasks.
    confusion_ratio: float = 0.5
    # Common tasks two workers need for their table to be tested.
    table_tasks: int = 10
    # Tasks up to which copies of tasks are looked for: two seconds.
    most_tasks: int = 2_000_000
    # Proportion of tasks that may be copies of another one, where the model expects fewer than `coincidence` tasks
    # with these labels of these workers: real crowds of few workers per batch exceed what it expects tenfold.
    copied_tasks: float = 0.05
    coincidence: float = 1e-3
    # Different contents of which all occur as often (twice, three times) only if the table was copied.
    fewest_contents: int = 20


TUNING = Tuning()


def examine_graph(examiner: Examiner, labels: CodedLabels, graph: CoLabelGraph, pairs: PairCounts | None) -> bool:
    """What the co-label graph allows; false when no task has two labels."""
    per_component = np.bincount(graph.component, labels.per_worker, graph.n_components).astype(np.int64)
    total = max(labels.n_labels, 1)
    largest = float(per_component.max(initial=0)) / total
    with_gold = components_with_gold(labels, graph)
    without_gold = float(per_component[~with_gold].sum()) / total
    undetermined = float(per_component[~graph.determined & ~with_gold].sum()) / total
    n_components, active = int((per_component > 0).sum()), int((labels.per_worker > 0).sum())
    examiner.quantities |= {"n_parts": n_components, "largest_part": largest, "undetermined_labels": undetermined}
    examiner.quantities["taught_labels"] = 1 - without_gold
    examiner.quantities |= missing_blocks(pairs)
    shared = not without_gold or any((np.diff(block.offsets) > 1).any() for block in labels.blocks())
    if not examiner.check(
        "shared_tasks",
        "Some task has labels of two workers",
        shared,
        "No task has labels of two workers, so nothing tells a right label from a wrong one; ask at least "
        "three workers about the same tasks.",
        level="not identifiable",
    ):
        return False
    if not examiner.check(
        "three_workers",
        "Workers who gave labels",
        not without_gold or active >= 3,
        f"Only {active} workers share tasks where 3 are needed: when they disagree nothing says who is right; ask a "
        "third worker about the same tasks.",
        value=active,
        limit=3,
        level="not identifiable",
    ):
        return True
    most = undetermined > 0.5
    examiner.check(
        "odd_cycles",
        "Labels by workers whose common tasks form no odd cycle",
        undetermined <= TUNING.component_fraction,
        f"{undetermined:.0%} of the labels (limit {TUNING.component_fraction:.0%}) come from workers whose common "
        "tasks form no odd cycle (such as three workers, each two of whom share tasks), so "
        + ("many different answers fit them equally well" if most else "the quality of these workers is not determined")
        + "; give some of their tasks to a third worker.",
        value=undetermined,
        limit=TUNING.component_fraction,
        level="not identifiable" if most else "caution",
    )
    apart = min(1 - largest, without_gold)
    examiner.check(
        "connected",
        "Labels outside the largest group of workers who share tasks",
        apart <= TUNING.component_fraction,
        f"The crowd falls into {n_components} parts that share no task; {1 - largest:.0%} of the labels lie outside "
        f"the largest (limit {TUNING.component_fraction:.0%}), so their workers cannot be compared and each part may "
        "name the classes its own way; let workers of different parts label the same tasks.",
        value=apart,
        limit=TUNING.component_fraction,
    )
    return True


def components_with_gold(labels: CodedLabels, graph: CoLabelGraph) -> NDArray[np.bool_]:
    """Components (n_components,) with enough known answers to identify their workers and classes."""
    tasks = np.zeros(graph.n_components, np.int64)
    for block in labels.blocks() if labels.has_gold else ():
        assert block.gold is not None
        first = block.offsets[:-1][(block.gold >= 0) & (np.diff(block.offsets) > 0)]
        component = graph.component[block.workers[first]]  # which is that of all workers of the task
        tasks += np.bincount(component, minlength=graph.n_components)
    return np.asarray(tasks >= TUNING.known_tasks * labels.n_classes)


def examine_structure(labels: CodedLabels, graph: CoLabelGraph) -> Examination:
    """The part of the verdict that needs no fit: cheap enough for every fit to warn of it."""
    examiner = Examiner()
    examine_graph(examiner, labels, graph, None)
    return examiner.conclude()


def missing_blocks(pairs: PairCounts | None) -> dict[str, Any]:
    """Proportion of co-occurrences R_mj not observed, diagonal included, before and after (7)–(8)."""
    if pairs is None or pairs.n_columns > TUNING.most_workers:
        return {"missing_blocks": None, "missing_blocks_imputed": None}
    observed = pairs.co_observed()
    after = 1 - float(reachable(observed).mean())
    return {"missing_blocks": 1 - float(observed.mean()), "missing_blocks_imputed": after}


def examine_classes(
    examiner: Examiner, labels: CodedLabels, posterior_of: Callable[[Labels], Floats], pairs: PairCounts | None
) -> None:
    """Do the labels have a common cause, and is every class one? `posterior_of` gives the model's own posterior."""
    overall, class_tests = crowd_support(labels), class_support(labels, posterior_of)
    examiner.quantities |= {
        "support": overall,
        "class_support": dict(zip(map(str, labels.class_names.tolist()), class_tests.support.tolist(), strict=True)),
        "class_support_tasks": class_tests.fraction,
    }
    if _check_common_cause(examiner, overall, pairs) and labels.n_classes > 2:
        _check_classes(examiner, labels, class_tests)  # of two classes one is what the other is not


def _check_common_cause(examiner: Examiner, overall: float, pairs: PairCounts | None) -> bool:
    limit = TUNING.least_support
    level: Verdict = "caution"
    reason = f"Workers do not agree more than their label frequencies make them (z = {overall:.1f}, limit {limit:.0f})"
    if overall < limit:
        small = pairs is not None and len(pairs.observed[2]) * int(pairs.column_offsets[1]) ** 2 <= TUNING.table_cells
        related = tables_related(pairs) if pairs is not None and small else None
        examiner.quantities["relation"] = related
        if examiner.quantities.get("taught_labels") == 1:
            reason += ": their accuracies rest on the known answers alone"
        elif related is not None and related < limit:
            level = "not identifiable"
            reason += ": either they guess, or nearly all tasks are of one class"
        else:
            reason += ", so which class is which label rests on few of them; add known answers for some tasks (--gold)"
        reason += "; make the question clearer, or ask other workers."
    return examiner.check(
        "common_cause",
        "Agreement of workers beyond their label frequencies",
        overall >= limit,
        reason,
        value=overall,
        limit=limit,
        level=level,
    )


def _check_classes(examiner: Examiner, labels: CodedLabels, class_tests: ClassSupport) -> None:
    support, limit, names = class_tests.support, TUNING.least_support, labels.class_names
    confused = class_tests.confused_with
    blurred = np.flatnonzero((support < limit) & (confused >= 0))
    lowest = float(support[blurred].min() if len(blurred) else support[support >= limit].min(initial=np.inf))
    pairs = [f"{spell(names[h])} and {spell(names[confused[h]])}" for h in blurred]
    examiner.check(
        "distinct_classes",
        "Least support that a class differs from another one",
        not len(blurred),
        f"Too few tasks show that some classes differ ({listed(pairs)}; z = {lowest:.1f}, limit {limit:.0f}): "
        "workers give either label much as if at random; explain the difference to them, merge the classes, or buy "
        "more labels.",
        value=lowest,
        limit=limit,
    )
    rare = np.flatnonzero((support < limit) & (confused < 0))
    lowest = float(support[rare].min() if len(rare) else support[support >= limit].min(initial=np.inf))
    examiner.check(
        "rare_classes",
        "Least support of a class",
        not len(rare),
        f"Some classes are too rare to verify ({listed([spell(names[h]) for h in rare])}; z = {lowest:.1f}, limit "
        f"{limit:.0f}): fewer than {limit**2:.0f} tasks support them; add tasks of these classes, or check by hand "
        "that their labels are no mistakes.",
        value=lowest,
        limit=limit,
    )


def examine_copies(examiner: Examiner, labels: CodedLabels, likelihood_of: Callable[[Labels], Floats]) -> None:
    """Do tasks occur several times under different names? `likelihood_of` gives the probability of the labels of tasks.

    A task is a copy if it has the same labels of the same workers as an earlier one, and the model expects hardly any
    such task among those with the same workers; or if all contents occur twice, three times, ...
    """
    if labels.n_rows > TUNING.most_tasks:
        return
    contents, crews, likelihoods = [], [], []
    for block in labels.blocks():
        used = np.diff(block.offsets) > 1
        contents.append(content_hashes(block, block.cell_of(), 0)[used])
        crews.append(content_hashes(block, block.workers, 1)[used])
        likelihoods.append(likelihood_of(block)[used])
    content, likelihood = np.concatenate(contents), np.concatenate(likelihoods)
    if not len(content):
        return
    first, times = np.unique(content, return_index=True, return_counts=True)[1:]
    crew, size = np.unique(np.concatenate(crews), return_inverse=True, return_counts=True)[1:]
    rare = (likelihood * size[crew])[first] < TUNING.coincidence
    copies = float((times - 1)[rare].sum()) / len(content)
    if len(times) >= TUNING.fewest_contents:
        copies = max(copies, 1 - 1 / float(np.gcd.reduce(times)))
    examiner.quantities["copied_tasks"] = copies
    examiner.check(
        "copied_tasks",
        "Tasks that are copies of another one",
        copies <= TUNING.copied_tasks,
        f"{copies:.0%} of the tasks are duplicates (limit {TUNING.copied_tasks:.0%}): they have the same labels of the "
        "same workers as another task, which is no coincidence, as if they had been exported under several names; "
        "remove the copies, which count as evidence and are none.",
        value=copies,
        limit=TUNING.copied_tasks,
    )


def spell(name: Any) -> str:
    """A user's name for a class or worker, in quotes if it is text."""
    return repr(name.item() if isinstance(name, np.generic) else name)


def listed(names: list[str]) -> str:
    """The first few names and how many more there are."""
    first, n_more = ", ".join(names[: TUNING.listed_names]), len(names) - TUNING.listed_names
    return first if n_more <= 0 else f"{first} and {n_more} more"


# -----------------------------------------------------------------------------
# Do the labels depend on the tasks, and is every class supported by them?
#
# If the labels of a task do not depend on its class, what two workers say about it is unrelated. With e_m the
# deviation of worker m's label from what m usually says,
#
# .. math:: x_n = \sum_{m < j} e_m e_j
#
# has mean zero on every task, whoever the workers are; its sum over the tasks, divided by (Σ x_n²)^½, is close
# to a standard normal. Where workers follow a common cause, every task that shows it adds to the sum: this
# *support* is then about the square root of their number. Support below `least_support` is what nothing looks
# like; above, it is what some sixteen tasks or more agree on.
#
# For one class h, "usually" means: what m says on tasks of the other classes. A class that does not exist, or
# that workers cannot distinguish from another one, has no support, however sure a fitted model may be of it: more
# classes always fit better, products of residuals of different workers do not care.


@dataclass(frozen=True)
class ClassSupport:
    """Support (K,) of every class, the class an unsupported one is confused with or -1, and the fraction of tasks."""

    support: Floats
    confused_with: NDArray[np.int64]
    fraction: float


def support_of(values: Floats) -> float:
    """Σ x / (Σ x²)^½; 0 when there is nothing to add."""
    return ratio(float(values.sum()), float(np.square(values).sum()))


def ratio(total: float, squares: float) -> float:
    """The same from Σ x and Σ x²."""
    norm = float(np.sqrt(squares))
    return total / norm if norm > 0 else 0.0


def products(
    task: NDArray[np.int64], n_tasks: int, residual: Floats, answer: NDArray[np.int64] | None = None
) -> Floats:
    """Σ_{m<j} e_m e_j of every task (n,), from the residual of every label.

    With repeated answers e_m is the sum of a worker's residuals: `answer` numbers the (task, worker) pairs.
    """
    if answer is not None:
        first = np.diff(answer, prepend=-1) > 0
        task, residual = task[first], np.bincount(answer, residual).astype(np.float64)
    total = np.bincount(task, residual, n_tasks)
    return np.asarray((total * total - np.bincount(task, residual * residual, n_tasks)) / 2)


def crowd_support(labels: CodedLabels) -> float:
    """Support for any common cause of the labels: do workers agree more than their habits make them?"""
    usual = habits(labels.counts.astype(np.float64))
    total = squares = 0.0
    for block in labels.blocks():
        task, worker, answer = block.task_of(), block.workers, block.answer_of()
        x = np.zeros(block.n_rows)
        for given in range(labels.n_classes):
            x += products(task, block.n_rows, (block.given == given) - usual[:, given][worker], answer)
        total, squares = total + float(x.sum()), squares + float(np.square(x).sum())
    return ratio(total, squares)


def habits(counts: Floats) -> Floats:
    """Label proportions (worker, label), shrunk by `shrink` labels towards those of all."""
    overall = counts.sum(axis=0) / max(float(counts.sum()), 1.0)
    return np.asarray((counts + TUNING.shrink * overall) / (counts.sum(axis=1, keepdims=True) + TUNING.shrink))


def class_support(labels: CodedLabels, posterior_of: Callable[[Labels], Floats]) -> ClassSupport:
    """Support of every class against the others explaining its labels; `posterior_of` knows the posterior of any tasks.

    The weakest class is removed first and its tasks go to the others, until all that are left have support: a class
    that does not exist could otherwise replace one that does.
    """
    labels, fraction = tested_tasks(labels, labels.n_classes)
    K, posterior = labels.n_classes, posterior_of(labels)
    left, support, confused_with = np.ones(K, bool), np.full(K, np.inf), np.full(K, -1)
    for _ in range(TUNING.most_weak):
        for h in np.flatnonzero(left):
            support[h] = _support_of_class(labels, posterior, int(h), left)
        weakest = int(np.argmin(np.where(left, support, np.inf)))
        if support[weakest] >= TUNING.least_support or left.sum() < 2:
            break
        left[weakest] = False
        confused_with[weakest] = _confused_with(labels, posterior, weakest, left)
    return ClassSupport(support, confused_with, fraction)


def _given_to(posterior: Floats, classes: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The likeliest of `classes` for every task (n,)."""
    return np.asarray(np.where(classes, posterior, -1.0).argmax(axis=1))


def _support_of_class(labels: Labels, posterior: Floats, h: int, left: NDArray[np.bool_]) -> float:
    """Each task goes to its likeliest other class; who says h there is counted anew, residuals multiplied."""
    M, K = labels.n_workers, labels.n_classes
    task, gives_h = labels.task_of(), labels.given == h
    others = left & (np.arange(K) != h)
    at = labels.workers.astype(np.int64) * K + _given_to(posterior, others)[task]  # worker and class
    seen = np.bincount(at, minlength=M * K).reshape(M, K)
    gave_h = np.bincount(at, gives_h, M * K).reshape(M, K)
    overall = gave_h.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    usual = (gave_h + TUNING.shrink * overall) / (seen + TUNING.shrink)  # P(m says h | class)
    return support_of(products(task, labels.n_rows, gives_h - usual.ravel()[at], labels.answer_of()))


def _confused_with(labels: Labels, posterior: Floats, h: int, left: NDArray[np.bool_]) -> int:
    """The class on whose tasks workers say h nearly as often as its own name, or -1."""
    K = labels.n_classes
    at = _given_to(posterior, left)[labels.task_of()] * K + labels.given
    given = np.bincount(at, minlength=K * K).reshape(K, K)  # (class, label)
    ratio = np.where(left, given[:, h] / np.maximum(given.diagonal(), 1), 0.0)
    best = int(np.argmax(ratio))
    return best if ratio[best] >= TUNING.confusion_ratio else -1


def tested_tasks(labels: CodedLabels, work_per_label: int) -> tuple[Labels, float]:
    """As many tasks as `test_work` allows, chosen by hash, and the fraction of tasks used."""
    fraction = TUNING.test_work / max(labels.n_labels * work_per_label, 1)
    if fraction >= 1:
        return labels.task_slice(0, labels.n_rows), 1.0
    return sample_fraction(labels, fraction, 0), fraction


def tables_related(pairs: PairCounts) -> float | None:
    """In standard deviations, how far the workers' two-way tables are from unrelated, agreement or not.

    Pearson's χ² of every pair with enough common tasks, summed; None if no pair has. Workers who mislead consistently
    are related.
    """
    sizes = pairs.observed[2]
    tested = sizes >= TUNING.table_tasks
    if not tested.any():
        return None
    counts = pairs.blocks()[tested].astype(np.float64)
    total = counts.sum(axis=(1, 2))
    rows, columns = counts.sum(axis=2), counts.sum(axis=1)
    expected = rows[:, :, None] * columns[:, None, :] / total[:, None, None]
    deviation = np.square(counts - expected) / np.where(expected > 0, expected, 1.0)
    chi2 = deviation.sum(axis=(1, 2)) * (total - 1) / total  # its mean is then exactly the degrees of freedom
    degrees = ((rows > 0).sum(axis=1) - 1) * ((columns > 0).sum(axis=1) - 1)
    free = float(degrees.sum())
    return float((chi2.sum() - free) / np.sqrt(2 * free)) if free > 0 else 0.0


# -----------------------------------------------------------------------------
# Co-annotation: tasks that two workers both labelled, and the pairs that no chain of common tasks connects.


@dataclass(frozen=True)
class CoAnnotation:
    """Workers with most labels, by component: tasks in common (w, w), and whether a chain of common tasks connects.

    `n_pairs` of all workers have a task in common.
    """

    n_pairs: int
    workers: NDArray[np.intp]
    common: NDArray[np.int64]
    reached: NDArray[np.bool_]


def co_annotation(data: CodedLabels, max_workers: int) -> CoAnnotation | None:
    """Co-annotation of the workers with most labels; None where there are too many pairs to count."""
    pairs = pairs_within_reach(data)
    if pairs is None:
        return None
    component = co_label_graph(data).component
    workers = np.argsort(-data.per_worker, kind="stable")[:max_workers]
    workers = workers[np.argsort(component[workers], kind="stable")]
    place = np.full(data.n_workers, -1)
    place[workers] = np.arange(len(workers))
    left, right, common = pairs.observed
    inside = (place[left] >= 0) & (place[right] >= 0)
    matrix = np.zeros((len(workers), len(workers)), np.int64)
    rows, columns = place[left[inside]], place[right[inside]]
    matrix[rows, columns] = matrix[columns, rows] = common[inside]
    if (
        data.n_workers <= TUNING.most_workers
    ):  # what leads from one to another may lead over workers that are not among them
        reached = reachable(pairs.co_observed())[np.ix_(workers, workers)]
    else:
        reached = component[workers][:, None] == component[workers][None]
    return CoAnnotation(len(common), workers, matrix, reached)
