"""Triple counts against literal counts."""

from __future__ import annotations

import numpy as np

from latentfit.core.table.table import Column, Table
from latentfit.tables.moments import choose_triples, count_table_triples, triple_frequencies

GAP = 255


def table(weighted=True):
    """Six rows, columns of 2, 3 and 2 categories, two missing values."""
    codes = np.array([[0, 2, 1], [1, 0, 0], [0, GAP, 1], [1, 1, GAP], [0, 2, 0], [1, 0, 1]], np.uint8)
    columns = tuple(Column(name, np.arange(size)) for name, size in (("a", 2), ("b", 3), ("c", 2)))
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0]) if weighted else None
    return Table(codes, columns, weight)


def test_triples_are_counted_over_rows_that_show_all_three():
    made = table()
    triples = np.array([[0, 1, 2]])
    counts = count_table_triples(made, triples)
    want = np.zeros((2, 3, 2))
    for row, weight in zip(made.codes, made.row_weight, strict=True):
        if GAP not in row:
            want[tuple(row)] += weight
    np.testing.assert_array_equal(counts[0], want)
    assert counts[0].dtype == np.int64
    which, marginals = triple_frequencies(triples, counts)
    assert which.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(marginals[0], want / want.sum())
    halves = Table(made.codes, made.columns, made.row_weight / 4)
    assert count_table_triples(halves, triples)[0].dtype == np.float64
    np.testing.assert_allclose(count_table_triples(halves, triples)[0], want / 4)


def test_triples_never_seen_have_no_marginal():
    zero, one = np.zeros((2, 2, 2), np.int64), np.zeros((2, 2, 2), np.int64)
    one[1, 0, 1] = 1  # a single row is enough
    which, marginals = triple_frequencies(np.array([[0, 1, 2], [0, 1, 3]]), [zero, one])
    assert which.tolist() == [[0, 1, 3]]
    assert len(marginals) == 1


def test_some_triples_are_spread_over_the_columns():
    rng = np.random.default_rng(0)
    assert len(choose_triples(5, 10, rng)) == 10  # all of them
    assert len(choose_triples(5, None, rng)) == 10
    assert choose_triples(2, 10, rng).shape == (0, 3)
    for n, most in ((9, 30), (10, 41), (5, 9)):
        found = choose_triples(n, most, rng)
        assert len(found) == most == len({tuple(row) for row in found.tolist()})
        assert (np.diff(found, axis=1) > 0).all()
        assert found.tolist() == sorted(found.tolist())
        often = np.bincount(found.ravel(), minlength=n)
        assert often.max() - often.min() <= 8
