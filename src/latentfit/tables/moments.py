"""Triple counts: in how many rows do three cells occur together, for all or some triples of columns.

Rows with a missing value in one of the three columns are left out of that triple only, so a triple's counts over their
sum are its estimated three-dimensional marginal. Counts are int64 unless row weights are fractions, and add: the counts
of two halves of the data are the sum of theirs.

Paper     Kargas, Sidiropoulos & Fu 2018: the marginals that coupled tensor decomposition takes apart
Needs     a table of at least three columns
Promises  exact counts, all triples or as many as asked for, every column in about equally many
Differs   some triples in place of all: there are N³/6 of them, and `tables/init.py` does not need all

Symbols   paper   here          shape             meaning
          X_jkl   frequencies   (I_j, I_k, I_l)   estimated marginal of three columns
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Table

Counts = NDArray[Any]  # int64, or float64 when rows have fractional weights
Triples = NDArray[np.intp]

# Cells all counted triples may have together: 400 MB as int64; more asks for a choice of triples.
MAX_CELLS = 50_000_000


def triple_frequencies(triples: Triples, counts: Sequence[Counts]) -> tuple[Triples, list[Floats]]:
    """The triples seen together at least once (T′, 3), and their estimated marginals, each summing to one."""
    seen = [index for index, block in enumerate(counts) if block.sum() > 0]
    return triples[seen], [counts[index] / counts[index].sum() for index in seen]


def choose_triples(n_columns: int, most: int | None, rng: np.random.Generator) -> Triples:
    """All triples j < k < l (T, 3), or `most` of them spread evenly: every column is in about equally many.

    Random orders of the columns are dealt out three by three, so that the columns of `most` triples differ in how
    often they occur by a few at most.
    """
    if most is None or comb(n_columns, 3) <= most:
        return np.array(list(combinations(range(n_columns), 3)), np.intp).reshape(-1, 3)
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < most:
        order = rng.permutation(n_columns)
        for begin in range(0, n_columns - 2, 3):
            chosen[tuple(sorted(int(n) for n in order[begin : begin + 3]))] = None
    return np.array(sorted(list(chosen)[:most]), np.intp)


def count_table_triples(table: Table, triples: Triples) -> list[Counts]:
    """Exact counts of triples (T, 3), each (I_j, I_k, I_l); equal rows count as often as they weigh."""
    sizes = np.diff(table.column_offsets).astype(np.int64)
    n_cells = int(sizes[triples].prod(axis=1).sum())
    if n_cells > MAX_CELLS:
        raise DataError(
            f"{len(triples):,} triples of columns have {n_cells:,} cells, at most {MAX_CELLS:,} can be counted; "
            "count fewer triples"
        )
    weight = table.row_weight
    whole = weight is None or is_whole(weight)
    codes = table.codes.astype(np.int64)
    counts = []
    for j, k, l in triples:
        shown = table.present[:, j] & table.present[:, k] & table.present[:, l]
        at = ((codes[shown, j] * sizes[k]) + codes[shown, k]) * sizes[l] + codes[shown, l]
        flat = np.bincount(at, None if weight is None else weight[shown], minlength=int(sizes[[j, k, l]].prod()))
        counts.append((flat.astype(np.int64) if whole else flat).reshape(sizes[j], sizes[k], sizes[l]))
    return counts
