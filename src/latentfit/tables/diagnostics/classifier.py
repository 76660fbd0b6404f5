"""Can the predictions of a classifier be relied on? It is asked for labels of rows that its fit did not see.

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
from latentfit.core.verdict import Examination, Examiner, Expectation, standard_errors_of, wilson
from latentfit.tables.data import fold_weights, label_counts, labels_of, without_label

FOLDS = 3  # Parts of the rows, each predicted by a fit without it.
LABEL_PROBABILITY_FLOOR = 1e-12  # Probability of a label at least, so that one surprise cannot outweigh all other rows.
SURE = 2.0  # Standard errors that make a difference more than chance.
# Mean probability of the called label above its proportion of right calls that is worth a word.
MAX_OVERCONFIDENCE = 0.03
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
    several = examiner.check(
        "several_labels", "Different labels", len(labels) > 1,
        f"Every label is {labels[0]!r}, so there is nothing to tell apart; bring rows with other labels (2 are "
        "needed).",
        value=len(labels), limit=2,
    )  # fmt: skip
    if not several:
        return examiner.conclude()
    rare = [(label, n) for label, n in zip(labels, counts, strict=True) if n < FEW_ROWS]
    named = ", ".join(f"{label!r} ({n:g})" for label, n in rare[:5]) + (", …" if len(rare) > 5 else "")
    examiner.check(
        "rows_per_label", "Rows of the rarest label", not rare,
        f"{len(rare)} of {len(labels)} labels have fewer than {FEW_ROWS} rows, so little is known of them: "
        f"{named}; bring more of their rows or join labels.",
        value=counts.min(), limit=FEW_ROWS,
    )  # fmt: skip
    predicted = examiner.check(
        "rows_left_out", "Rows could be left out to be predicted", figures is not None,
        "There were too few rows to leave some out, so nothing shows that the labels follow; bring more rows.",
    )  # fmt: skip
    if not predicted or figures is None:
        return examiner.conclude()
    examiner.quantities["left_out"] = figures
    _judge(examiner, figures)
    return examiner.conclude()


def _judge(examiner: Examiner, figures: dict[str, float]) -> None:
    """Whether labels of rows left out follow from their columns, as surely as their probabilities say."""
    better = figures["accuracy"] - figures["frequent_accuracy"] > SURE * figures["accuracy_error"]
    accuracy_text = (
        "though more are called right than the most frequent label has: use the labels, not the probabilities"
        if better
        else "so the columns tell too little about the label; bring columns that do"
    )
    limit = SURE * figures["gain_error"]
    examiner.check(
        "labels_follow", "Gain of labels left out over their proportions, nats per row", figures["gain"] > limit,
        f"Labels of rows left out gain {figures['gain']:.3f} ± {figures['gain_error']:.3f} nats per row over "
        f"giving every label its proportion, no more than chance, {accuracy_text}.",
        value=figures["gain"], limit=limit,
    )  # fmt: skip
    boast = figures["claimed_accuracy"] - figures["accuracy"]
    most = MAX_OVERCONFIDENCE + SURE * figures["claim_error"]
    examiner.check(
        "calibrated_probabilities", "Claimed less actual accuracy on rows left out", boast <= most,
        f"On rows left out it claims to be right with {figures['claimed_accuracy']:.0%} and is in "
        f"{figures['accuracy']:.0%} (limit {most:.1%} apart), so its probabilities are too sure; try fewer "
        "n_components or more rows.",
        value=boast, limit=most,
    )  # fmt: skip
    error, n_rows = 1 - figures["accuracy"], max(figures["n_rows"], 1.0)
    low, high = wilson(np.array([error]), np.array([n_rows]), standard_errors_of(0.8))
    examiner.expected = Expectation(
        "wrong labels", error, float(low[0]), float(high[0]),
        sentence=f"{error:.1%} of the labels of rows left out were wrong (80 % interval {low[0]:.1%} to "
        f"{high[0]:.1%}).",
    )  # fmt: skip
