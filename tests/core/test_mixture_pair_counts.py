"""Pair counts of tables against literal counts."""

from __future__ import annotations

import numpy as np

from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.table.table import Column, Table

GAP = 255


def table(weighted=True):
    """Six rows, columns of 2, 3 and 2 categories, two missing values."""
    codes = np.array([[0, 2, 1], [1, 0, 0], [0, GAP, 1], [1, 1, GAP], [0, 2, 0], [1, 0, 1]], np.uint8)
    columns = tuple(Column(name, np.arange(size)) for name, size in (("a", 2), ("b", 3), ("c", 2)))
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0]) if weighted else None
    return Table(codes, columns, weight)


def literal_one_hot(made):
    out = np.zeros((made.n_rows, int(made.column_offsets[-1])))
    for i, row in enumerate(made.codes):
        for n, code in enumerate(row):
            if code != GAP:
                out[i, made.column_offsets[n] + code] = 1
    return out


def test_pair_counts_of_columns_of_equal_size():
    codes = np.array([[0, 1, GAP], [1, 1, GAP], [0, 0, 1]], np.uint8)
    made = count_table_pairs(Table(codes, tuple(Column(name, np.arange(2)) for name in "abc")))
    left, right, sizes = made.observed
    assert (left.tolist(), right.tolist(), sizes.tolist()) == ([0, 0, 1], [1, 2, 2], [3, 1, 1])
    assert made.blocks().tolist() == [[[1, 1], [0, 1]], [[0, 1], [0, 0]], [[0, 1], [0, 0]]]
    np.testing.assert_allclose(made.frequencies()[0], np.array([[1, 1], [0, 1]]) / 3)
    assert made.singles.tolist() == [2, 1, 1, 2, 0, 1]
    assert made.co_observed().tolist() == [[False, True, True], [True, False, True], [True, True, False]]


def test_weighted_and_plain_rows_are_counted_alike():
    made = table(weighted=False)
    plain, weighted = count_table_pairs(made), count_table_pairs(table())
    one_hot = literal_one_hot(made)
    np.testing.assert_array_equal(plain.dense(), one_hot.T @ one_hot)
    np.testing.assert_allclose(weighted.dense(), one_hot.T @ (one_hot * table().row_weight[:, None]))
