"""Binary rows in clusters, with missing values and columns that copy another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.sampling import draw_truth
from latentfit.core.table.table import Column, Table, group_rows

__all__ = ["BinaryRows", "bernoulli_mixture"]

Ints = NDArray[np.int32]
Seed = int | np.random.Generator | None

SPREAD_OF_BASE = 1.5
"""Logits that all clusters share are even over ± this."""
LARGEST_LOGIT = 3.5
"""Logits are cut here: no column gives a cluster away alone."""
LOGIT_TO_DISTANCE = 0.42
"""2 p(1 − p), averaged over the base: turns a variance of logits into a distance between clusters."""


@dataclass(frozen=True)
class BinaryRows:
    """Rows of zeros and ones, −1 a missing value, with what made them.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        0, 1, or −1 for a missing value.
    clusters : ndarray of shape (n_rows,)
        True cluster of every row.
    weights : ndarray of shape (n_clusters,)
        Proportions of the clusters.
    frequencies : ndarray of shape (n_clusters, n_columns)
        How often each column is 1 in each cluster, before any column repeated another.
    copied : dict of int to int
        Column to the column that it repeats.

    Examples
    --------
    >>> from latentfit.simulate import bernoulli_mixture
    >>> data = bernoulli_mixture(50, 6, 2, copies=1, random_state=0)
    >>> data.clusters.shape, data.weights.tolist(), len(data.copied)
    ((50,), [0.5, 0.5], 1)
    """

    rows: NDArray[np.int8]
    clusters: Ints
    weights: Floats
    frequencies: Floats
    copied: dict[int, int]

    def coded(self, *, group: bool = True) -> Table:
        """The same rows as a coded table.

        Parameters
        ----------
        group : bool, default=True
            Store equal rows once, with their number as weight.

        Returns
        -------
        latentfit.core.table.table.Table
        """
        categories = np.array([0, 1])
        columns = tuple(Column(name, categories) for name in range(self.rows.shape[1]))
        codes = self.rows.astype(np.uint8)  # −1, a missing value, becomes the largest code
        return group_rows(Table(codes, columns)) if group else Table(codes, columns)


def bernoulli_mixture(
    n_rows: int,
    n_columns: int,
    n_clusters: int,
    *,
    separation: float = 16.0,
    informative: float = 0.5,
    identifiable: bool = False,
    even: bool = True,
    missing: float = 0.0,
    copies: int = 0,
    copy_probability: float = 0.6,
    random_state: Seed = None,
) -> BinaryRows:
    """Binary rows in clusters with independent columns; one number says how hard they are to tell apart.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_columns : int
        Number of columns.
    n_clusters : int
        Number of clusters.
    n_rows, n_columns, n_clusters : int
        Numbers of rows, columns and clusters.
    separation : float, default=16.0
        D: the summed distance between two clusters' logits is D √(n_columns / 20), whatever the number of columns
        that carry it. 30 is easy, 16 middling, 8 difficult, 4.5 hard.
    informative : float, default=0.5
        Probability of a column to differ between clusters at all.
    identifiable : bool, default=False
        At least 2⌈log₂K⌉ + 1 columns differ (where there are so many): with fewer no data could tell K.
    even : bool, default=True
        Clusters as large as one another; else in proportion to 1, 2, …, K.
    missing : float, default=0.0
        Proportion of the cells hidden.
    copies : int, default=0
        So many columns repeat another one, cell by cell with probability `copy_probability`.
    copy_probability : float, default=0.6
        Probability that a cell of such a column is repeated.
    random_state : int, Generator or None, default=None
        Seed; None draws another table every time.
    copy_probability : float
        Probability that a cell of a copy repeats the other column's.
    random_state : int, Generator or None, default=None
        Seed of everything that is drawn.

    Returns
    -------
    BinaryRows

    Examples
    --------
    >>> from latentfit.simulate import bernoulli_mixture
    >>> data = bernoulli_mixture(100, 20, 3, random_state=0)
    >>> data.rows.shape, data.frequencies.shape
    ((100, 20), (3, 20))
    """
    if min(n_rows, n_columns, n_clusters) < 1 or 2 * copies > n_columns:
        raise DataError(
            f"n_rows={n_rows}, n_columns={n_columns}, n_clusters={n_clusters}, copies={copies}; give at least one "
            "row, column and cluster, and at most half of the columns as copies"
        )
    rng = np.random.default_rng(random_state)
    size = np.ones(n_clusters) if even else np.arange(1.0, n_clusters + 1)
    weights = size / size.sum()
    base = rng.uniform(-SPREAD_OF_BASE, SPREAD_OF_BASE, size=n_columns)
    probability = rng.random(n_columns)
    differs = probability < informative
    if identifiable:
        differs |= probability.argsort().argsort() < 2 * int(np.ceil(np.log2(n_clusters))) + 1
    variance = separation * np.sqrt(n_columns / 20) / (LOGIT_TO_DISTANCE * max(int(differs.sum()), 1))
    own = rng.normal(0.0, np.sqrt(variance), size=(n_clusters, n_columns))
    logits = np.clip(base + own * differs, -LARGEST_LOGIT, LARGEST_LOGIT)
    frequencies = 1 / (1 + np.exp(-logits))
    clusters = draw_truth(n_rows, weights, rng)
    rows = (rng.random((n_rows, n_columns)) < frequencies[clusters]).astype(np.int8)
    mixed = rng.permutation(n_columns)
    copied = {int(mixed[2 * at]): int(mixed[2 * at + 1]) for at in range(copies)}
    for copy, source in copied.items():
        rows[:, copy] = np.where(rng.random(n_rows) < copy_probability, rows[:, source], rows[:, copy])
    rows[rng.random((n_rows, n_columns)) < missing] = -1
    return BinaryRows(rows, clusters, weights, frequencies, copied)
