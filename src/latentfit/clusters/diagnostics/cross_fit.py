"""How sure are rows of their cluster under parameters that have not seen them?

A mixture fitted to few rows is overconfident on those rows: it says .005 of a cluster is misplaced when .08 is. So
rows are dealt to five folds by their hash; for each fold EM goes on from the full fit over the other rows, and
the fold's rows are judged by what comes out. Classes keep their numbers because every climb starts from the full fit.

The five fits also say how far a cluster's mean doubt moves with the rows it was learnt from: their jackknife spread.

The passes are bounded by the work they make: 20 on small tables, where overconfidence is, down to one on large ones,
where a fold moves the parameters by next to nothing. They leap (SQUAREM): plain passes forget a fold too slowly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.prior import table_steps
from latentfit.core.table.replicates import Copies
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of

FOLDS = 5
"""Parts of the rows, each judged by a fit without it."""
PASSES = 20
"""EM passes that let a fold be forgotten."""
WORK = 1_000_000_000
"""Rows × columns × classes over all folds and passes: about a second."""
FOLD_SALT = 11
"""Sets the folds apart from other draws for the same rows (`clusters/diagnostics/purity.py` has the rest)."""


@dataclass(frozen=True)
class CrossFit:
    """Doubt that rows belong where they were put, by parameters that have not seen them."""

    doubt: Floats  # (c,) of every single row: 1 − posterior of its own cluster
    by_fold: Floats  # (folds, K) mean doubt of each cluster's rows under the parameters of each fold


def cross_fit(
    table: Table,
    mixture: Mixture,
    copies: Copies,
    label: NDArray[np.intp],
    *,
    smoothing: float,
    n_jobs: int | None = 1,
    tied: NDArray[np.bool_] | None = None,
) -> CrossFit:
    """The doubt of single rows about their cluster `label` (c,), each under parameters fitted without its fold.

    Cells that are `tied` (C,) have one probability for all classes, as in the fit.
    """
    doubt, by_fold = np.empty(len(label)), []
    fold = (copies.uniform(FOLD_SALT) * FOLDS).astype(np.intp)
    per_pass = max(len(label) * table.n_columns * mixture.n_classes * (FOLDS - 1), 1)
    passes = min(max(WORK // per_pass, 1), PASSES)
    which, of = np.unique(copies.pattern, return_inverse=True)
    looked_at = MemoryEngine(table.take(which), n_jobs)
    for held in range(FOLDS):
        params, rest = mixture, fold != held
        if rest.any():
            steps = table_steps(_patterns(table, copies, rest), mixture.n_classes, smoothing, n_jobs, tied=tied)
            params = em(steps, mixture, max_iter=passes, tol=0.0, accelerate=True).params
        moved = 1 - posterior_of(looked_at, params)[0][of, label]
        doubt[~rest] = moved[~rest]
        by_fold.append(mean_by_label(moved, label, copies.weight, mixture.n_classes))
    return CrossFit(doubt, np.array(by_fold))


def mean_by_label(values: Floats, label: NDArray[np.intp], weight: Floats, K: int) -> Floats:
    """Weighted means (K,) of the rows with each label; nan where there are none."""
    total = np.bincount(label, weight, minlength=K)
    sums = np.bincount(label, weight * values, minlength=K)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)


def _patterns(table: Table, copies: Copies, chosen: NDArray[np.bool_]) -> Table:
    """The table of some single rows, equal ones counted together."""
    weight = np.bincount(copies.pattern[chosen], copies.weight[chosen], minlength=table.n_rows)
    keep = np.flatnonzero(weight)
    return replace(table.take(keep), row_weight=np.ascontiguousarray(weight[keep]))
