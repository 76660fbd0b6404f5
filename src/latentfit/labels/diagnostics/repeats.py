"""Repeated answers: is a worker who answers a task again as independent of itself as the model takes it to be?

Given the class, the answers of one worker to one task are independent in Dawid and Skene's model. Judges that remember,
that answer without chance, and rows that were copied are not: their answers agree with one another more often than the
worker's confusion matrix allows, and count for more than they tell.
"""

from __future__ import annotations

import numpy as np

from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.verdict import Examiner
from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.diagnostics.workers import own_posterior

LARGEST_Z = 4.0
LEAST_EXCESS = 0.05
"""Agreement beyond the model's that matters; less does no harm to a consensus."""


def examine_repeats(examiner: Examiner, labels: CodedLabels, mixture: Mixture) -> None:
    """Doubt answers of a worker to a task that agree with one another beyond what its confusion matrix explains."""
    usual = np.square(unstack_confusions(mixture)).sum(axis=2)  # (M, K): two answers agree, given the class
    agreed = expected = squares = 0.0
    number = 0
    for block in labels.blocks():
        answer = block.answer_of()
        if answer is None:
            continue
        first = np.flatnonzero(np.diff(answer, prepend=-1))
        size = np.bincount(answer)
        cell, many = np.unique(answer * labels.n_classes + block.given, return_counts=True)
        alike = np.bincount(cell // labels.n_classes, many * (many - 1.0), len(size))
        again = np.flatnonzero(size > 1)
        share = alike[again] / (size[again] * (size[again] - 1.0))
        task, worker = block.task_of()[first[again]], block.workers[first[again]]
        meant = np.einsum("nk,nk->n", own_posterior(block, mixture)[task], usual[worker])
        agreed, expected = agreed + float(share.sum()), expected + float(meant.sum())
        squares += float(np.square(share - meant).sum())
        number += len(again)
    if not number:
        return
    seen, should = agreed / number, expected / number
    examiner.quantities |= {"repeated_answers": number, "self_agreement": seen, "self_agreement_expected": should}
    if seen - should > LEAST_EXCESS and agreed - expected > LARGEST_Z * np.sqrt(squares):
        examiner.doubt(
            "caution",
            f"Answers of one worker to one task agree in {seen:.0%} of the pairs, {should:.0%} if they were "
            "independent given the class: they are copies, or the worker repeats itself, and count for too much; keep "
            "one answer of each worker to a task.",
        )
