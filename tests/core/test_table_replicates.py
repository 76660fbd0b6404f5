"""A sample of a grouped table is a sample of its rows: heavy unique rows keep their share."""

from __future__ import annotations

import numpy as np

from latentfit.core.table.replicates import sample_rows
from latentfit.core.table.table import Column, Table


def test_unique_rows_are_sampled_by_their_rows() -> None:
    codes = np.stack(np.unravel_index(np.arange(1_000), (10, 10, 10)), axis=1).astype(np.uint8)
    weight = np.where(np.arange(1_000) < 20, 1_000.0, 1.0)  # twenty unique rows hold 95 % of the rows
    table = Table(codes, tuple(Column(f"c{n}", np.arange(10)) for n in range(3)), weight)
    drawn = sample_rows(table, 500, 0)
    assert drawn.total_weight == 500
    assert drawn.n_rows < 80
    heavy = drawn.row_weight[(drawn.codes[:, 0] == 0) & (drawn.codes[:, 1] < 2)].sum()
    assert 0.9 < heavy / 500 < 0.99
    mixed = table.take(np.random.default_rng(0).permutation(1_000))
    again = sample_rows(mixed, 500, 0)
    assert np.array_equal(drawn.codes, again.codes)
    assert np.array_equal(drawn.row_weight, again.row_weight)
