"""Latent classes started from rows: data rows, spread-out rows, or clusters of a spectral embedding.

Paper     folklore; k-means++ seeding of Arthur & Vassilvitskii 2007 under Hamming distance; the embedding is that
          of correspondence analysis
Needs     a sample of rows in canonical order (`data.sampling.canonical_sample`), so that positions may be drawn
Promises  nothing by itself: members of a pool, of which EM keeps the best. On real tables a mixed pool beats any one
          kind of start at equal cost (docs/models/tables.md)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.table import Table
from tacit.engine.mixture import Floats, Mixture, normalise_tables

MARGINAL_SHARE = 0.1
"""Share of the marginals mixed into a start's tables: a raw zero would never become anything else."""


def rows_as_seeds(sample: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes around random rows."""
    chosen = rng.choice(sample.n_rows, size=min(n_components, sample.n_rows), replace=False)
    return _around(sample, sample.codes[chosen], n_components)


def spread_rows(sample: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes around rows far apart: the next seed is drawn in proportion to its squared distance."""
    weight = _weights(sample)
    seeds = [int(rng.choice(sample.n_rows, p=weight / weight.sum()))]
    nearest = _distance(sample, sample.codes[seeds[0]])
    while len(seeds) < min(n_components, sample.n_rows):
        chance = np.square(nearest) * weight
        if chance.sum() <= 0:
            break
        seeds.append(int(rng.choice(sample.n_rows, p=chance / chance.sum())))
        nearest = np.minimum(nearest, _distance(sample, sample.codes[seeds[-1]]))
    return _around(sample, sample.codes[seeds], n_components)


def spectral_clusters(sample: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes from k-means in the leading directions of the standardised one-hot rows."""
    from scipy.sparse import csr_array
    from sklearn.cluster import KMeans

    singles = np.maximum(sample.singles(), 1e-9)
    rows, columns = np.nonzero(sample.present)
    at = sample.first[:-1][columns] + sample.codes[rows, columns]
    share = singles / np.repeat(np.add.reduceat(singles, sample.first[:-1]), np.diff(sample.first))
    one_hot = csr_array((1 / np.sqrt(share[at]), (rows, at)), shape=(sample.n_rows, int(sample.first[-1])))
    weight = _weights(sample) / _weights(sample).sum()
    gram = np.asarray((one_hot.T @ (one_hot * weight[:, None])).todense())
    mean = np.asarray(one_hot.T @ weight)
    values, vectors = np.linalg.eigh(gram - np.outer(mean, mean))
    rank = min(n_components, len(values))
    directions = vectors[:, ::-1][:, :rank]
    embedded = one_hot @ directions - mean @ directions
    found = KMeans(min(n_components, sample.n_rows), n_init=1, random_state=int(rng.integers(2**31)))
    found = found.fit(embedded, sample_weight=_weights(sample))
    return _from_assignment(sample, found.labels_.astype(np.intp), n_components)


def marginal_table(sample: Table) -> Floats:
    """Each category's share of its column's observed cells (C,)."""
    return normalise_tables(sample.singles()[:, None] + 1e-9, sample.first)[:, 0]


def soften(mixture: Mixture, marginals: Floats) -> Mixture:
    """A start with a tenth of the marginals mixed in."""
    table = (1 - MARGINAL_SHARE) * mixture.table + MARGINAL_SHARE * marginals[:, None]
    weights = mixture.weights + 0.1 / mixture.n_classes
    return Mixture(weights / weights.sum(), table, mixture.first)


def _weights(sample: Table) -> Floats:
    return np.ones(sample.n_rows) if sample.row_weight is None else sample.row_weight


def _distance(sample: Table, seed: NDArray[np.generic]) -> Floats:
    """Share of the columns seen in both on which a row differs from the seed."""
    both = sample.present & (seed < np.diff(sample.first))
    differs = (sample.codes != seed) & both
    return np.asarray(differs.sum(axis=1) / np.maximum(both.sum(axis=1), 1))


def _around(sample: Table, seeds: NDArray[np.generic], n_components: int) -> Mixture:
    distances = np.stack([_distance(sample, seed) for seed in seeds], axis=1)
    return _from_assignment(sample, distances.argmin(axis=1), n_components)


def _from_assignment(sample: Table, assigned: NDArray[np.intp], n_components: int) -> Mixture:
    weight = _weights(sample)
    rows, columns = np.nonzero(sample.present)
    at = sample.first[:-1][columns] + sample.codes[rows, columns]
    size = int(sample.first[-1])
    flat = np.bincount(at * n_components + assigned[rows], weight[rows], minlength=size * n_components)
    totals = np.bincount(assigned, weight, minlength=n_components)
    marginals = marginal_table(sample)
    table = normalise_tables(flat.reshape(size, n_components) + marginals[:, None], sample.first)
    return soften(Mixture((totals + 1) / (totals + 1).sum(), table, sample.first), marginals)
