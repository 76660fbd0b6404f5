"""The pool of starts for latent classes: moments and rows, a few of each kind.

Evidence: on 19 real tables a mixed pool of five beats any single kind at equal cost (docs/models/tables.md). SPA
wins on data that follow the model, seeds and clusters on wide real tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tacit.data.table import Table
from tacit.engine.mixture import Floats, Mixture
from tacit.factor.row_starts import marginal_table, rows_as_seeds, soften, spectral_clusters, spread_rows
from tacit.factor.spa import balanced_split, factor_spa
from tacit.moments.pairs import PairCounts

RowStart = Callable[[Table, int, np.random.Generator], Mixture]


def spa_start(
    pairs: PairCounts, sample: Table, n_components: int, split: NDArray[np.bool_], rng: np.random.Generator
) -> Mixture:
    """CNMF-SPA, softened; classes that X̃ cannot give are filled from data rows."""
    frequencies = pair_frequencies(pairs)
    cells = np.repeat(split, np.diff(pairs.first))
    if not frequencies[np.ix_(cells, ~cells)].any():  # the halves never meet in a row: no pair to learn from
        return rows_as_seeds(sample, n_components, rng)
    found = factor_spa(frequencies, pairs.first, n_components, split).mixture
    lacking = n_components - found.n_classes
    if lacking > 0:
        more = rows_as_seeds(sample, lacking, rng)
        table = np.hstack([found.table, more.table])
        weights = np.concatenate([found.weights, more.weights * lacking / n_components])
        found = Mixture(weights / weights.sum(), table, found.first)
    return soften(found, marginal_table(sample))


def pool(
    pairs: PairCounts, sample: Table, n_components: int, rng: np.random.Generator
) -> Iterator[tuple[str, Mixture]]:
    """Named starts: two by moments, one each by rows, spread-out rows and spectral clusters."""
    sizes = np.diff(pairs.first)
    if len(sizes) > 1:
        for number in (1, 2):
            yield f"spa-{number}", spa_start(pairs, sample, n_components, balanced_split(sizes, rng), rng)
    yield "rows", rows_as_seeds(sample, n_components, rng)
    yield "spread rows", spread_rows(sample, n_components, rng)
    yield "spectral", spectral_clusters(sample, n_components, rng)


def random_start(sample: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Tables uniform on the simplex, weights too: RAND-EM."""
    table = np.concatenate(
        [rng.dirichlet(np.ones(size), size=n_components).T for size in np.diff(sample.first)]
    )
    return Mixture(rng.dirichlet(np.ones(n_components)), table, sample.first)


def pair_frequencies(pairs: PairCounts) -> Floats:
    """Estimated pairwise marginals (C, C), Proposition 1: counts over the rows that show both columns."""
    counts = np.asarray(pairs.gram.todense(), np.float64)
    column_of = np.repeat(np.arange(pairs.n_columns), np.diff(pairs.first))
    both = np.zeros((pairs.n_columns, len(counts)))
    np.add.at(both, column_of, counts)
    together = np.zeros((pairs.n_columns, pairs.n_columns))
    np.add.at(together.T, column_of, both.T)
    spread = together[np.ix_(column_of, column_of)]
    return np.asarray(np.where(spread > 0, counts / np.maximum(spread, 1), 0.0))
