"""Can a classifier of labels be trusted? It is asked for labels of rows that its fit did not see.

The yardstick is the label's proportion: who knows nothing of a row gives every label its proportion, and calls the most
frequent one. A row's gain is ``log P(label | row) − log proportion(label)``; it is an estimate of what the columns say
about the label, and its mean is compared with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.table.table import Table
from latentfit.core.verdict import Examination, Examiner
from latentfit.tables.data import fold_weights, label_counts, labels_of, without_label

FOLDS = 3  # Parts of the rows, each predicted by a fit without it.
LABEL_PROBABILITY_FLOOR = 1e-12  # Probability of a label at least, so that one surprise cannot outweigh all other rows.
SURE = 2.0  # Standard errors that make a difference more than chance.
# Mean probability of the called label above its proportion of right calls that is worth a word.
MAX_OVERCONFIDENCE = 0.05
FEW_ROWS = 10  # Rows of a label below which its classes are mostly prior.

PredictLabels = Callable[[Table], Floats]  # What a fit predicts for rows without their label: P(label | row) (n, L).


@dataclass(frozen=True)
class LeftOut:
    """Rows left out, all folds together: what was predicted for each (n,)."""

    probability: Floats  # probability of the true label
    proportion: Floats  # proportion of the true label among the rows seen
    right: NDArray[np.bool_]
    frequent: NDArray[np.bool_]  # the true label is the most frequent one
    claimed: Floats  # probability of the called label
    weight: Floats

    @property
    def log_likelihood(self) -> float:
        """Mean log-probability of a label, in nats."""
        return self._mean(np.log(np.maximum(self.probability, LABEL_PROBABILITY_FLOOR)))

    def figures(self) -> dict[str, float]:
        """The numbers of the report."""
        gain = np.log(np.maximum(self.probability, LABEL_PROBABILITY_FLOOR)) - np.log(self.proportion)
        return {
            "n_rows": float(self.weight.sum()),
            "log_likelihood": self.log_likelihood,
            "share_log_likelihood": self._mean(np.log(self.proportion)),
            "gain": self._mean(gain),
            "gain_error": self._error(gain),
            "accuracy": self._mean(self.right),
            "frequent_accuracy": self._mean(self.frequent),
            "claimed_accuracy": self._mean(self.claimed),
            "claim_error": self._error(self.claimed - self.right),
            "accuracy_error": self._error(self.right.astype(float) - self.frequent),
        }

    def _mean(self, values: NDArray[Any]) -> float:
        return float(self.weight @ values / self.weight.sum())

    def _error(self, values: NDArray[Any]) -> float:
        """Standard error of the mean; a weight counts rows."""
        spread = self.weight @ (values - self._mean(values)) ** 2
        return float(np.sqrt(spread / max(self.weight.sum() - 1.0, 1.0) / max(self.weight.sum(), 1.0)))


def leave_out(table: Table, fit: Callable[[Table], PredictLabels], seed: int) -> LeftOut | None:
    """Every row predicted by a fit without it; None when no fold leaves both rows to learn from and rows to ask.

    A label of which all rows are left out cannot be predicted, so those rows do not count: the report names rare
    labels.
    """
    parts: list[LeftOut] = []
    everything = table.each_weight()
    for outside in fold_weights(table, FOLDS, seed):
        inside = everything - outside
        seen = replace(table.take(inside > 0), row_weight=inside[inside > 0])
        if not seen.n_rows:
            continue
        counts = label_counts(seen)
        asked = (outside > 0) & (counts[labels_of(table)] > 0)
        if not asked.any():
            continue
        rows = table.take(asked)
        membership, truth = fit(seen)(without_label(rows)), labels_of(rows)
        parts.append(
            LeftOut(
                probability=membership[np.arange(len(truth)), truth],
                proportion=counts[truth] / counts.sum(),
                right=membership.argmax(axis=1) == truth,
                frequent=counts.argmax() == truth,
                claimed=membership.max(axis=1),
                weight=outside[asked],
            )
        )
    if not parts:
        return None
    return LeftOut(*(np.concatenate([getattr(part, name) for part in parts]) for name in LeftOut.__annotations__))


def examine_classifier(
    figures: dict[str, float] | None, labels: list[Any], counts: Floats, *, converged: bool
) -> Examination:
    """Verdict on a classifier from its figures on rows left out, its labels and their rows (L,)."""
    examiner = Examiner()
    examiner.quantities["label_rows"] = {str(label): float(n) for label, n in zip(labels, counts, strict=True)}
    examiner.check_converged(converged)
    if len(labels) < 2:
        examiner.doubt("caution", f"Every label is {labels[0]!r}, so there is nothing to tell apart.")
        return examiner.conclude()
    rare = [(label, n) for label, n in zip(labels, counts, strict=True) if n < FEW_ROWS]
    if rare:
        named = ", ".join(f"{label!r} ({n:g})" for label, n in rare[:5]) + (", …" if len(rare) > 5 else "")
        examiner.doubt(
            "caution",
            f"{len(rare)} of {len(labels)} labels have fewer than {FEW_ROWS} rows, so little is known of them: "
            f"{named}; bring more of their rows or join labels.",
        )
    if figures is None:
        examiner.doubt("caution", "There were too few rows to leave some out, so nothing shows that the labels follow.")
        return examiner.conclude()
    examiner.quantities["left_out"] = figures
    _judge(examiner, figures)
    return examiner.conclude()


def _judge(examiner: Examiner, figures: dict[str, float]) -> None:
    if figures["gain"] <= SURE * figures["gain_error"]:
        finding = (
            f"Labels of rows left out gain {figures['gain']:.3f} ± {figures['gain_error']:.3f} nats per row over "
            "giving every label its proportion, no more than chance"
        )
        better = figures["accuracy"] - figures["frequent_accuracy"] > SURE * figures["accuracy_error"]
        accuracy_text = (
            "though more are called right than the most frequent label has: use the labels, not the probabilities"
            if better
            else "so the columns tell too little about the label"
        )
        examiner.doubt("caution", f"{finding}, {accuracy_text}.")
    boast = figures["claimed_accuracy"] - figures["accuracy"]
    if boast > MAX_OVERCONFIDENCE + SURE * figures["claim_error"]:
        examiner.doubt(
            "caution",
            f"On rows left out it claims to be right with {figures['claimed_accuracy']:.0%} and is in "
            f"{figures['accuracy']:.0%}, so its probabilities are too sure; try fewer n_components or more rows.",
        )
