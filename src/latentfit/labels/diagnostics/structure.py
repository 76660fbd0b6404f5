"""What the pattern of the labels allows before any accuracy matters: who shares tasks, which classes are there.

Each function adds its quantities and doubts to an `Examiner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.verdict import Examination, Examiner
from latentfit.labels.data.labels import CodedLabels, Labels
from latentfit.labels.diagnostics.agreement import (
    LEAST_SUPPORT,
    ClassSupport,
    class_support,
    crowd_support,
    tables_related,
)
from latentfit.labels.init.designated import reachable
from latentfit.labels.moments import CoLabelGraph

PART_SHARE = 0.02
"""Labels that may lie outside the main part of the crowd before it is mentioned."""
MOST_WORKERS = 2_000
"""Workers for whom reachable co-occurrences are counted: the cost is cubic."""
KNOWN_TASKS = 10
"""Known answers a class from which the workers of a part are learnt without one another."""
TABLE_CELLS = 50_000_000
"""Cells of two-way tables tested for any relation at all."""
SHOWN = 5
"""Names spelled out in a sentence."""


def examine_graph(examiner: Examiner, labels: CodedLabels, graph: CoLabelGraph, pairs: PairCounts | None) -> bool:
    """What the co-label graph allows; false when no two labels meet."""
    per_part = np.bincount(graph.component, labels.per_worker, graph.n_components).astype(np.int64)
    total = max(labels.n_labels, 1)
    largest = float(per_part.max(initial=0)) / total
    taught = taught_parts(labels, graph)
    untaught = float(per_part[~taught].sum()) / total
    open_share = float(per_part[~graph.determined & ~taught].sum()) / total
    n_parts, active = int((per_part > 0).sum()), int((labels.per_worker > 0).sum())
    examiner.quantities |= {"n_parts": n_parts, "largest_part": largest, "undetermined_labels": open_share}
    examiner.quantities["taught_labels"] = 1 - untaught
    examiner.quantities |= missing_blocks(pairs)
    if untaught and not any((np.diff(block.offsets) > 1).any() for block in labels.blocks()):
        examiner.doubt(
            "not identifiable",
            "No task has labels of two workers, so nothing tells a right label from a wrong one; ask at least "
            "three workers about the same tasks.",
        )
        return False
    if untaught and active < 3:
        examiner.doubt(
            "not identifiable",
            "Only two workers share tasks: when they disagree nothing says who is right; ask a third worker "
            "about the same tasks.",
        )
        return True
    if open_share > 0.5:
        examiner.doubt(
            "not identifiable",
            f"{open_share:.0%} of the labels come from workers whose common tasks form no odd cycle (such as "
            "three workers, each two of whom share tasks), so many different answers fit them equally well; "
            "give some tasks to three workers or more.",
        )
    elif open_share > PART_SHARE:
        examiner.doubt(
            "caution",
            f"{open_share:.0%} of the labels come from workers whose common tasks form no odd cycle; the "
            "quality of these workers is not determined: give some of their tasks to a third worker.",
        )
    if min(1 - largest, untaught) > PART_SHARE:
        examiner.doubt(
            "caution",
            f"The crowd falls into {n_parts} parts that share no task (the largest holds {largest:.0%} of the "
            "labels), so their workers cannot be compared and each part may name the classes its own way; let "
            "workers of different parts label the same tasks.",
        )
    return True


def taught_parts(labels: CodedLabels, graph: CoLabelGraph) -> NDArray[np.bool_]:
    """Parts of the crowd (n_components,) with enough known answers: these say who is right, and name the classes."""
    tasks = np.zeros(graph.n_components, np.int64)
    for block in labels.blocks() if labels.has_gold else ():
        assert block.gold is not None
        first = block.offsets[:-1][(block.gold >= 0) & (np.diff(block.offsets) > 0)]
        part = graph.component[block.workers[first]]  # which is that of all workers of the task
        tasks += np.bincount(part, minlength=graph.n_components)
    return np.asarray(tasks >= KNOWN_TASKS * labels.n_classes)


def examine_structure(labels: CodedLabels, graph: CoLabelGraph) -> Examination:
    """The part of the verdict that needs no fit: cheap enough for every fit to warn of it."""
    examiner = Examiner()
    examine_graph(examiner, labels, graph, None)
    return examiner.conclude()


def missing_blocks(pairs: PairCounts | None) -> dict[str, Any]:
    """Share of co-occurrences R_mj not observed, the diagonal included, before and after (7)–(8) of the crowd paper."""
    if pairs is None or pairs.n_columns > MOST_WORKERS:
        return {"missing_blocks": None, "missing_blocks_imputed": None}
    observed = pairs.met()
    after = 1 - float(reachable(observed).mean())
    return {"missing_blocks": 1 - float(observed.mean()), "missing_blocks_imputed": after}


def examine_classes(
    examiner: Examiner, labels: CodedLabels, believe: Callable[[Labels], Floats], pairs: PairCounts | None
) -> None:
    """Do the labels have a common cause, and is every class one? `believe` gives the model's own posterior."""
    overall, found = crowd_support(labels), class_support(labels, believe)
    examiner.quantities |= {
        "support": overall,
        "class_support": dict(zip(map(str, labels.class_names.tolist()), found.support.tolist(), strict=True)),
        "class_support_tasks": found.share,
    }
    if overall < LEAST_SUPPORT:
        _doubt_cause(examiner, overall, pairs)
    elif labels.n_classes > 2:  # of two classes one is what the other is not: the crowd's support is theirs
        _doubt_classes(examiner, labels, found)


def _doubt_cause(examiner: Examiner, overall: float, pairs: PairCounts | None) -> None:
    small = pairs is not None and len(pairs.observed[2]) * int(pairs.first[1]) ** 2 <= TABLE_CELLS
    related = tables_related(pairs) if pairs is not None and small else None
    examiner.quantities["relation"] = related
    seen = f"(support {overall:.1f}, {LEAST_SUPPORT:.0f} needed)"
    if examiner.quantities.get("taught_labels") == 1:
        examiner.doubt(
            "caution",
            f"Workers do not agree more than their habits make them {seen}: what is believed of them rests on the "
            "known answers alone; make the question clearer, or ask other workers.",
        )
    elif related is not None and related < LEAST_SUPPORT:
        examiner.doubt(
            "not identifiable",
            f"Workers agree no more than their habits make them {seen}: either they guess, or nearly all tasks "
            "are of one class; make the question clearer, or ask other workers.",
        )
    else:
        examiner.doubt(
            "caution",
            f"Workers do not agree more than their habits make them {seen}, so which class is which label "
            "rests on few of them; add gold answers for some tasks.",
        )


def _doubt_classes(examiner: Examiner, labels: CodedLabels, found: ClassSupport) -> None:
    weak, names = np.flatnonzero(found.support < LEAST_SUPPORT), labels.class_names
    blurred = [f"{spell(names[h])} and {spell(names[found.twin[h]])}" for h in weak if found.twin[h] >= 0]
    if blurred:
        examiner.doubt(
            "caution",
            f"Too few tasks show that some classes differ ({listed(blurred)}): workers give either label much as "
            "if at random; explain the difference to them, merge the classes, or buy more labels.",
        )
    alone = [spell(names[h]) for h in weak if found.twin[h] < 0]
    if alone:
        examiner.doubt(
            "caution",
            f"Some classes are too rare to verify ({listed(alone)}): fewer than {LEAST_SUPPORT**2:.0f} tasks speak for "
            "them; add tasks of these classes, or check by hand that their labels are no mistakes.",
        )


def spell(name: Any) -> str:
    """A user's name for a class or worker, in quotes if it is a word."""
    return repr(name.item() if isinstance(name, np.generic) else name)


def listed(names: list[str]) -> str:
    """The first few names and how many more there are."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
