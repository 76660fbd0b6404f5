"""How sure are rows of their class under parameters that have not seen them?

A mixture fitted to few rows is overconfident on those rows: it says .005 of a cluster is misplaced when .08 is. So
rows are dealt to five folds by their hash; for each fold EM goes on from the full fit over the other rows, and
the fold's rows are judged by what comes out. Classes keep their numbers because every climb starts from the full fit.

The passes are bounded by the work they make: 20 on small tables, where overconfidence is, down to one on large ones,
where a fold moves the parameters by next to nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.data.copies import Copies
from tacit.data.table import Table
from tacit.engine.memory import MemoryEngine, posterior_of
from tacit.engine.mixture import Floats, Mixture
from tacit.refine.em import em
from tacit.refine.table_prior import table_steps

FOLDS = 5
PASSES = 20
"""EM passes that let a fold be forgotten."""
WORK = 1_000_000_000
"""Rows × columns × classes over all folds and passes: about a second."""
FOLD_SALT = 11


def cross_fitted_posterior(
    table: Table, mixture: Mixture, copies: Copies, *, smoothing: float, n_jobs: int | None = 1
) -> Floats:
    """Posterior (c, K) of single rows, each under parameters fitted without its fold."""
    posterior = np.empty((len(copies.pattern), mixture.n_classes))
    fold = (copies.uniform(FOLD_SALT) * FOLDS).astype(np.intp)
    per_pass = max(len(copies.pattern) * table.n_columns * mixture.n_classes * (FOLDS - 1), 1)
    passes = min(max(WORK // per_pass, 1), PASSES)
    for held in range(FOLDS):
        out, rest = fold == held, fold != held
        if not out.any():
            continue
        params = mixture
        if rest.any():
            steps = table_steps(_patterns(table, copies, rest), mixture.n_classes, smoothing, n_jobs)
            params = em(steps, mixture, max_iter=passes, tol=0.0).params
        which, of = np.unique(copies.pattern[out], return_inverse=True)
        posterior[out] = posterior_of(MemoryEngine(table.take(which), n_jobs), params)[0][of]
    return posterior


def _patterns(table: Table, copies: Copies, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Table:
    """The table of some single rows, equal ones counted together."""
    weight = np.bincount(copies.pattern[chosen], copies.weight[chosen], minlength=table.n_rows)
    keep = np.flatnonzero(weight)
    return replace(table.take(keep), row_weight=np.ascontiguousarray(weight[keep]))
