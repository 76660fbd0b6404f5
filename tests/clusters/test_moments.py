"""Total correlation against its literal twin, by hand, and the properties it must have."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentfit.clusters.moments import (
    maximal_total_correlation,
    pair_total_correlations,
    total_correlation,
)
from latentfit.core.errors import DataError
from latentfit.core.table.table import Column, Table, group_rows
from tests.clusters import reference as twin


def binary_table(rows, weights=None):
    """A Table from lists of 0, 1, None (or NaN)."""
    codes = np.array([[255 if v is None or v != v else int(v) for v in row] for row in rows], np.uint8)
    columns = tuple(Column(n, np.array([0, 1])) for n in range(codes.shape[1]))
    return Table(codes, columns, None if weights is None else np.asarray(weights, np.float64))


def draw(seed, n, L, missing=0.0):
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    bits = (rng.random((n, L)) < np.where(rng.random((2, L)) < 0.5, 0.2, 0.7)[z]).astype(object)
    bits[rng.random((n, L)) < missing] = None
    return [[None if v is None else int(v) for v in row] for row in bits]


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_against_the_twin(seed, missing):
    rows = draw(seed, 40, 6, missing)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, size=40)
    table = binary_table(rows, weights)
    soft, hard = rng.random(40) * (rng.random(40) < 0.8), rng.random(40) < 0.5
    for d in range(1, 7):
        for Q in combinations(range(6), d):
            assert total_correlation(table, Q) == pytest.approx(twin.total_correlation(rows, Q, weights), abs=1e-10)
        Q = tuple(rng.choice(6, d, replace=False))
        expected = twin.total_correlation(rows, Q, weights * soft)
        assert total_correlation(table, Q, membership=soft) == pytest.approx(expected, abs=1e-10)
        expected = twin.total_correlation(rows, Q, weights * hard)
        assert total_correlation(table, Q, membership=hard) == pytest.approx(expected, abs=1e-10)
        found = maximal_total_correlation(table, d, membership=hard)
        assert found.exact
        assert found.value == pytest.approx(twin.maximal(rows, d, weights * hard), abs=1e-10)
        expected = twin.total_correlation(rows, found.columns, weights * hard)
        assert found.value == pytest.approx(expected, abs=1e-10)
    pairs = pair_total_correlations(table, membership=soft)
    for i, j in combinations(range(6), 2):
        expected = twin.total_correlation(rows, (i, j), weights * soft)
        assert pairs[i, j] == pairs[j, i] == pytest.approx(expected, abs=1e-10)


def test_by_hand():
    copies = binary_table([[0, 0, 0], [1, 1, 1]])
    assert total_correlation(copies, [0, 1]) == pytest.approx(log(2))
    assert total_correlation(copies, [0, 1, 2]) == pytest.approx(2 * log(2))  # (d − 1) log 2, the largest there is
    square = binary_table([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert total_correlation(square, [0, 1]) == 0
    parity = binary_table([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])  # pairwise independent, jointly not
    assert pair_total_correlations(parity).max() == pytest.approx(0, abs=1e-15)
    assert maximal_total_correlation(parity, 3).value == pytest.approx(log(2))
    # three rows (0,0), one row (1,1): H(¼) = ¼ log 4 + ¾ log 4/3
    assert total_correlation(binary_table([[0, 0], [1, 1]], [3, 1]), [0, 1]) == pytest.approx(
        0.25 * log(4) + 0.75 * log(4 / 3)
    )
    gap = binary_table([[0, 0], [1, 1], [1, None], [None, 0]])
    assert total_correlation(gap, [0, 1]) == pytest.approx(log(2))  # only complete rows count
    assert total_correlation(binary_table([[0, None], [None, 1]]), [0, 1]) == 0
    assert total_correlation(copies, [0, 1], membership=np.zeros(2, bool)) == 0
    assert total_correlation(copies, [1]) == 0
    assert maximal_total_correlation(copies, 1).value == 0


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 7), st.sampled_from([0.0, 0.3]))
def test_properties(seed, n, L, missing):
    rows = draw(seed, n, L, missing)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, size=n)
    table = binary_table(rows, weights)
    d = int(rng.integers(2, L + 1))
    Q = rng.choice(L, d, replace=False)
    D = total_correlation(table, Q)
    assert 0 <= D <= (d - 1) * log(2) + 1e-12
    order, across = rng.permutation(n), rng.permutation(L)
    moved = binary_table([[rows[i][c] for c in across] for i in order], weights[order])
    where = np.argsort(across)[Q]
    assert total_correlation(moved, where) == pytest.approx(D, abs=1e-12)
    assert maximal_total_correlation(moved, d).value == pytest.approx(
        maximal_total_correlation(table, d).value, abs=1e-12
    )
    copied = binary_table([row for row, w in zip(rows, weights, strict=True) for _ in range(w)])
    assert total_correlation(copied, Q) == pytest.approx(D, abs=1e-12)
    assert total_correlation(group_rows(copied), Q) == pytest.approx(D, abs=1e-12)
    constant = binary_table([[*row, 1] for row in rows], weights)
    assert total_correlation(constant, [*Q, L]) == pytest.approx(D, abs=1e-12)
    noninformative = binary_table([[*row, None] for row in rows], weights)  # an all-missing column changes no maximum
    assert maximal_total_correlation(noninformative, d).value == pytest.approx(
        maximal_total_correlation(table, d).value, abs=1e-12
    )
    if missing == 0:
        assert total_correlation(table, Q[:-1]) <= D + 1e-12  # a column more never lowers it


def test_a_column_with_one_category():
    table = binary_table(draw(0, 30, 3))
    codes = np.hstack([table.codes, np.zeros((30, 1), np.uint8)])
    single = Table(codes, (*table.columns, Column(3, np.array([7]))))
    assert total_correlation(single, [0, 1, 2, 3]) == pytest.approx(total_correlation(table, [0, 1, 2]), abs=1e-12)
    np.testing.assert_allclose(pair_total_correlations(single)[:3, :3], pair_total_correlations(table), atol=1e-12)
    assert not pair_total_correlations(single)[3].any()


def test_the_search_is_a_lower_bound_and_usually_the_maximum():
    reached = 0
    for seed in range(20):
        table = binary_table(draw(seed, 60, 9))
        exact = maximal_total_correlation(table, 4)
        searched = maximal_total_correlation(table, 4, most_subsets=0)
        assert exact.exact and not searched.exact  # noqa: PT018
        assert searched.value <= exact.value + 1e-12
        assert searched.value == pytest.approx(total_correlation(table, searched.columns), abs=1e-12)
        reached += searched.value >= exact.value - 1e-12
    assert reached >= 18


def test_many_columns():
    rng = np.random.default_rng(0)
    table = binary_table((rng.random((50, 100)) < 0.5).astype(int))
    # fifty different rows: the unique rows' entropy is log 50, each column's at most log 2
    ones = table.codes.mean(axis=0)
    entropy = -(ones * np.log(ones) + (1 - ones) * np.log(1 - ones)).sum()
    assert total_correlation(table, range(100)) == pytest.approx(entropy - log(50), abs=1e-10)


def test_independent_columns_fall_like_one_over_n():
    """2 n D is about χ² with 2^d − 1 − d degrees of freedom: n D has the same mean at every n."""
    means = []
    for n in (200, 800, 3200):
        rng = np.random.default_rng(n)
        columns = binary_table([[0, 0, 0]]).columns
        tables = (Table((rng.random((n, 3)) < 0.4).astype(np.uint8), columns) for _ in range(300))
        D = [total_correlation(table, [0, 1, 2]) for table in tables]
        means.append(2 * n * np.mean(D))
    np.testing.assert_allclose(means, 4, rtol=0.15)  # sd of such a mean: √8 / √300 / 4 = 4 %


def test_refusals():
    table = binary_table([[0, 1], [1, 0]])
    with pytest.raises(DataError, match="name one column twice"):
        total_correlation(table, [0, 0])
    with pytest.raises(DataError, match="d is 3 and the table has 2 columns"):
        maximal_total_correlation(table, 3)
    with pytest.raises(DataError, match="one value for each of 2 rows"):
        total_correlation(table, [0, 1], membership=np.ones(3))
    with pytest.raises(DataError, match="more than two categories"):
        total_correlation(replace(table, columns=(Column("a", np.arange(3)), Column("b", np.arange(2)))), [0, 1])
