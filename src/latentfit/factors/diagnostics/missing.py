"""Do the observed cells determine the switches where values are missing?

A weight is estimated from rows that show its feature while its switch is on; the joint probability of two switches
from rows that show features of both. Rows that show neither count for nothing, however many they are.

Paper     none; expected counts under the fitted model, from the E-step of `factors/em/missing.py`
Needs     fitted switches and the observed cells they were fitted to
Promises  a weight or a pair of switches that fewer rows than `fewest_cells` or `fewest_rows` determine is named
Differs   —

Symbols   paper   here       shape       meaning
          —       on         (d, m)      expected rows that show feature j while switch k is on
          —       apart      (d, m)      the same, less what the other switches of these rows explain
          —       together   (m, m)      rows that show both features
          —       proportion (d, m)      w_kj² / ‖w_k‖²: where a switch can be seen
          —       of_pairs   (d, d)      rows that show at least `LIMITS.seen` of each of two switches
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examiner
from latentfit.factors.diagnostics.limits import LIMITS
from latentfit.factors.em.missing import expected_pairs, split_missing
from latentfit.factors.em.steps import SwitchParams


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
    seen = (observed @ proportion.T >= LIMITS.seen).astype(np.float64)
    missing, together = float(1 - observed.mean()), observed.T @ observed
    return ObservedCounts(len(values), missing, np.asarray(on), np.asarray(apart), together, proportion, seen.T @ seen)


def examine_cells(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Checks of what the observed cells leave open."""
    examiner.quantities |= {
        "missing_share": counts.missing,
        "rows_on": counts.rows_on.tolist(),
        "fewest_cells": float(counts.apart.min()),
    }
    # other checks see missing cells as the model draws them
    examiner.check(
        "missing_cells", "Missing cells", counts.missing <= LIMITS.most_missing,
        f"{counts.missing:.0%} of the cells are missing, more than {LIMITS.most_missing:.0%}: too few remain to "
        "check the fit; leave out the features and rows that are mostly empty (--drop).",
        value=counts.missing, limit=LIMITS.most_missing,
    )  # fmt: skip
    _examine_weights(examiner, counts, names)
    _examine_groups(examiner, counts, names)
    _examine_pairs(examiner, counts)


def _examine_weights(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    few = counts.apart < LIMITS.fewest_cells
    switch = int(counts.apart.min(axis=1).argmin())
    at = np.flatnonzero(few[switch])
    most = float(counts.apart[switch, at].max(initial=0.0))
    others = int(few.any(axis=1).sum()) - 1
    also = f" ({others} other switch{'es' if others > 1 else ''} likewise)" if others > 0 else ""
    examiner.check(
        "determined_weights", "Rows that determine a weight", not few.any(),
        f"Switch {switch} is on, apart from the other switches, in about {most:.0f} of the rows that show "
        f"{_listed(names, at)}, fewer than {LIMITS.fewest_cells:.0f}{also}: the data do not determine its weights "
        "there; bring rows that show both, or leave these features out (--drop).",
        value=counts.apart.min(), limit=LIMITS.fewest_cells,
    )  # fmt: skip


def _examine_groups(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Groups of features that no row links."""
    n_groups, group = connected_components(counts.together >= LIMITS.fewest_rows, directed=False)
    smallest = np.flatnonzero(group == np.bincount(group).argmin())
    examiner.check(
        "linked_features", "Groups of features that are never observed together", n_groups < 2,
        f"The features form {n_groups} groups (limit 1), of which no two are observed together in "
        f"{LIMITS.fewest_rows:.0f} rows, one of them {_listed(names, smallest)}: the data do not tell which switches "
        "of one group are on together with those of another; bring rows that show features of both, or fit each group "
        "by itself (--columns).",
        value=n_groups, limit=1,
    )  # fmt: skip


def _examine_pairs(examiner: Examiner, counts: ObservedCounts) -> None:
    rows = counts.of_pairs.copy()
    np.fill_diagonal(rows, np.inf)
    if len(rows) < 2:
        return
    fewest = float(rows.min())
    examiner.quantities["fewest_rows_of_a_pair"] = fewest
    first, second = sorted(np.unravel_index(int(rows.argmin()), rows.shape))
    examiner.check(
        "observed_pairs", "Rows that show a pair of switches", fewest >= LIMITS.fewest_rows,
        f"About {fewest:.0f} rows show both switch {first} and switch {second}, fewer than "
        f"{LIMITS.fewest_rows:.0f}: the data do not tell how often they are on together (joint_probabilities_); "
        "bring rows that show the features of both, or leave features that are mostly empty out (--drop).",
        value=fewest, limit=LIMITS.fewest_rows,
    )  # fmt: skip


def _listed(names: Sequence[str | int], at: np.ndarray) -> str:
    """Features by their names, a few of them."""
    listed = ", ".join(repr(names[n]) for n in at[: LIMITS.most_listed].tolist()) + (
        ", …" if len(at) > LIMITS.most_listed else ""
    )
    return f"{'feature' if len(at) == 1 else 'features'} {listed}"
