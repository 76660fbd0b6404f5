"""Do the clusters come back? Halves of the rows, and other initialisations.

*Halves.* The rows are split in two by their hashes; each half is fitted by itself, from initialisations of its own, and
both models cluster all rows. A cluster of the whole fit is compared with the clusters of a half by the Jaccard index,
rows in both over rows in either, under the best one-to-one matching. A cluster whose mean index over the halves is
below one half is what Hennig calls dissolved.

*Other initialisations.* EM from fresh initialisations on all rows: where one ends well above the fit, the fit is a
local optimum.

Paper     Hennig 2007 (cluster-wise stability); splits in halves in place of his bootstrap: two fits instead of hundreds
Needs     a fitted mixture of two-valued columns, and its rows
Promises  nothing about clusters that halves are too small to hold: half of the rows find less than all of them
Differs   halves that disagree are fitted once more from other initialisations before the disagreement counts

Symbols   here      shape    meaning
          jaccard   (K,)     of each cluster of the whole fit, the mean over both halves
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.init import draw_sample, merged_inits, spectral_clusters
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.table.replicates import single_rows
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class StabilitySettings:
    """How much is refitted."""

    max_rows: int = 10_000  # rows that are refitted, half of them on each side
    work: int = 20_000_000  # rows × columns × clusters of one pass: above it fewer rows are refitted
    min_rows: int = 500  # however wide the table is
    spectral_draws: int = 2  # spectral initialisations of a refit, beside those of merged classes
    rounds: tuple[int, ...] = (5, 10)  # EM iterations after which the better half of them stays
    max_iter: int = 150
    tol: float = 1e-6
    tries: int = 2  # refits of halves that disagree
    half_salt: int = 21


SETTINGS = StabilitySettings()
ALL_ROWS = 2**31
"""More rows than are ever refitted."""


@dataclass(frozen=True)
class Halves:
    """What refitted halves show: Jaccard index of every cluster (K,), and the rows that were refitted."""

    jaccard: Floats
    n_rows: float


def rows_to_refit(table: Table, n_clusters: int, seed: int) -> Table:
    """All rows, or as many as the limits allow, those with the smallest hashes."""
    most = min(SETTINGS.max_rows, SETTINGS.work // max(table.n_columns * n_clusters, 1))
    rows = single_rows(table, max(most, SETTINGS.min_rows), seed)
    return _taken(table, rows.unique_row, rows.weight)


def compare_halves(
    table: Table, mixture: Mixture, *, smoothing: float, limit: float, seed: int = 0, n_jobs: int | None = 1
) -> Halves | None:
    """Jaccard indices of the clusters of `mixture` in fits of both halves; None where a half holds too few rows.

    Halves in which a cluster lies below `limit` are fitted once more from other initialisations.
    """
    K = mixture.n_classes
    rows = single_rows(table, ALL_ROWS, seed)
    first = rows.uniform(SETTINGS.half_salt) < 0.5
    halves = [_taken(table, rows.unique_row[side], rows.weight[side]) for side in (first, ~first)]
    if min(half.n_rows for half in halves) < max(2 * K, 2):
        return None
    engine, weight = MemoryEngine(table, n_jobs), table.each_weight()
    label = posterior_of(engine, mixture)[0].argmax(axis=1)
    best = np.zeros(K)
    for attempt in range(SETTINGS.tries):
        indices = []
        for half in halves:
            found = refit(half, K, smoothing=smoothing, seed=seed + attempt, n_jobs=n_jobs)
            other = posterior_of(engine, found)[0].argmax(axis=1)
            indices.append(jaccard_indices(label, other, weight, K))
        best = np.maximum(best, np.mean(indices, axis=0))
        if best.min() >= limit:
            break
    return Halves(best, table.total_weight)


def refit(table: Table, n_clusters: int, *, smoothing: float, seed: int, n_jobs: int | None = 1) -> Mixture:
    """The best of fresh initialisations."""
    sample = draw_sample(table, table.n_rows, seed)
    rng = np.random.default_rng([seed, n_clusters])
    inits = list(merged_inits(sample, n_clusters, rng, n_jobs))
    inits += [
        (f"spectral {draw}", spectral_clusters(sample.view, n_clusters, rng)) for draw in range(SETTINGS.spectral_draws)
    ]
    steps = table_steps(sample.table, n_clusters, smoothing, n_jobs)
    best = successive_halving(
        [Candidate(name, steps, init) for name, init in inits], rounds=SETTINGS.rounds, max_iter=SETTINGS.max_iter,
        tol=SETTINGS.tol, accelerate=True,
    )  # fmt: skip
    return sample.mixture_as_given(best.refined.params, table.column_offsets)


def better_optimum(table: Table, mixture: Mixture, *, smoothing: float, seed: int = 0, n_jobs: int | None = 1) -> float:
    """By how many nats EM from fresh initialisations ends above the fit; negative where it ends below."""
    steps = table_steps(table, mixture.n_classes, smoothing, n_jobs)
    options = {"max_iter": SETTINGS.max_iter, "tol": SETTINGS.tol, "accelerate": True}
    ours = em(steps, mixture, **options)  # type: ignore[arg-type]  # the rows may be a sample of those of the fit
    other = em(steps, refit(table, mixture.n_classes, smoothing=smoothing, seed=seed + 1, n_jobs=n_jobs), **options)  # type: ignore[arg-type]
    return other.objective - ours.objective


def jaccard_indices(label: NDArray[np.intp], other: NDArray[np.intp], weight: Floats, K: int) -> Floats:
    """Jaccard index (K,) of each cluster of `label` with the one of `other` that is matched to it."""
    both = np.bincount(label * K + other, weight, minlength=K * K).reshape(K, K)
    either = both.sum(axis=1)[:, None] + both.sum(axis=0)[None] - both
    index = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return np.asarray(index[np.arange(K), match_classes(index)])


def _taken(table: Table, unique_row: NDArray[np.int64], weight: Floats) -> Table:
    """The table of some single rows, equal ones counted together."""
    total = np.bincount(unique_row, weight, minlength=table.n_rows)
    keep = np.flatnonzero(total)
    return replace(
        table.take(keep), row_weight=np.ascontiguousarray(total[keep].astype(np.float64)), equal=None, single=False
    )
