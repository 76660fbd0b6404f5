"""Do the observed cells determine the switches where values are missing?

A weight is estimated from rows that show its feature while its switch is on; the joint probability of two switches from
rows that show features of both. Rows that show neither count for nothing, however many they are.

Paper     none; expected counts under the fitted model, from the E-step of `factors/em/missing.py`
Needs     fitted switches and the observed cells they were fitted to
Promises  a weight or a pair of switches that fewer rows than `FEWEST_CELLS` or `FEWEST_ROWS` determine is named
Differs   —

Symbols   paper   here       shape       meaning
          —       on         (d, m)      expected rows that show feature j while switch k is on
          —       apart      (d, m)      the same, less what the other switches of these rows explain
          —       together   (m, m)      rows that show both features
          —       share      (d, m)      w_kj² / ‖w_k‖²: where a switch can be seen
          —       of_pairs   (d, d)      rows that show at least `SEEN` of each of two switches
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examiner
from latentfit.factors.em.missing import expected_pairs, split_missing
from latentfit.factors.em.steps import SwitchParams

MOST_MISSING = 0.3
"""Fraction of missing cells up to which the checks on completed rows say something."""
FEWEST_CELLS = 5.0
"""Rows that a weight needs: they show its feature while its switch is on, apart from the other switches."""
FEWEST_ROWS = 20.0
"""Rows in which two switches, or two groups of features, should be seen together."""
SEEN = 0.5
"""Fraction of a switch's squared weights that a row must show to say whether it is on, beside small ones elsewhere."""
SHOWN = 5
"""Names a sentence lists at most."""


@dataclass(frozen=True)
class ObservedCounts:
    """What the observed cells show of every switch; see the symbols above."""

    n: int
    missing: float
    on: Floats
    apart: Floats
    together: Floats
    proportion: Floats
    of_pairs: Floats

    @property
    def rows_on(self) -> Floats:
        """Expected rows (d,) that show a switch on: each counts by the fraction of the switch that it shows."""
        return np.asarray((self.proportion * self.on).sum(axis=1))

    @property
    def rows_off(self) -> Floats:
        """The same of a switch that is off."""
        return np.asarray((self.proportion * (np.diag(self.together) - self.on)).sum(axis=1))


def count_observed(values: Floats, params: SwitchParams) -> ObservedCounts:
    """Expected counts over rows (n, m), NaN where a value is missing."""
    _, observed = split_missing(values)
    both = expected_pairs(values, params)  # (m, d, d)
    on = np.diagonal(both, axis1=1, axis2=2).T
    room = 1e-9 * max(float(on.max(initial=0.0)), 1.0)
    inverse = np.linalg.inv(both + room * np.eye(params.d))
    apart = 1 / np.maximum(np.diagonal(inverse, axis1=1, axis2=2).T, 1e-300)
    squares = params.W**2
    proportion = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    seen = (observed @ proportion.T >= SEEN).astype(np.float64)
    missing, together = float(1 - observed.mean()), observed.T @ observed
    return ObservedCounts(len(values), missing, np.asarray(on), np.asarray(apart), together, proportion, seen.T @ seen)


def examine_cells(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Sentences about what the observed cells leave open."""
    examiner.quantities |= {
        "missing_share": counts.missing,
        "rows_on": counts.rows_on.tolist(),
        "fewest_cells": float(counts.apart.min()),
    }
    if counts.missing > MOST_MISSING:  # other checks see missing cells as the model draws them
        examiner.doubt(
            "caution",
            f"{counts.missing:.0%} of the cells are missing, more than {MOST_MISSING:.0%}: too few remain to check the "
            "fit; leave out the features and rows that are mostly empty.",
        )
    _examine_weights(examiner, counts, names)
    _examine_groups(examiner, counts, names)
    _examine_pairs(examiner, counts)


def _examine_weights(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    few = counts.apart < FEWEST_CELLS
    for switch in np.flatnonzero(few.any(axis=1)).tolist():
        at = np.flatnonzero(few[switch])
        examiner.doubt(
            "caution",
            f"Switch {switch} is on, apart from the other switches, in about {counts.apart[switch, at].max():.0f} of "
            f"the rows that show {_listed(names, at)}, fewer than {FEWEST_CELLS:.0f}: the data do not determine its "
            "weights there; bring rows that show both, or leave these features out.",
        )


def _examine_groups(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Groups of features that no row links."""
    n_groups, group = connected_components(counts.together >= FEWEST_ROWS, directed=False)
    if n_groups < 2:
        return
    smallest = np.flatnonzero(group == np.bincount(group).argmin())
    examiner.doubt(
        "caution",
        f"The features form {n_groups} groups, of which no two are observed together in {FEWEST_ROWS:.0f} rows, one of "
        f"them {_listed(names, smallest)}: the data do not tell which switches of one group are on together with those "
        "of another; bring rows that show features of both, or fit each group by itself.",
    )


def _examine_pairs(examiner: Examiner, counts: ObservedCounts) -> None:
    rows = counts.of_pairs.copy()
    np.fill_diagonal(rows, np.inf)
    if len(rows) < 2:
        return
    examiner.quantities["fewest_rows_of_a_pair"] = float(rows.min())
    if rows.min() < FEWEST_ROWS:
        first, second = sorted(np.unravel_index(int(rows.argmin()), rows.shape))
        examiner.doubt(
            "caution",
            f"About {rows.min():.0f} rows show both switch {first} and switch {second}, fewer than {FEWEST_ROWS:.0f}: "
            "the data do not tell how often they are on together (joint_probabilities_); bring rows that show the "
            "features of both.",
        )


def _listed(names: Sequence[str | int], at: np.ndarray) -> str:
    """Features by their names, a few of them."""
    shown = ", ".join(repr(names[n]) for n in at[:SHOWN].tolist()) + (", …" if len(at) > SHOWN else "")
    return f"{'feature' if len(at) == 1 else 'features'} {shown}"
