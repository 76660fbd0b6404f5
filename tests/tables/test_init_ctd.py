"""Triple counts and the coupled decomposition against twins of loops."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.errors import DataError
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.simplex import project_to_simplex
from latentfit.core.table.table import Column, Table
from latentfit.tables.init import CoupledTriples, _random_factors, alternate, factor_ctd
from latentfit.tables.moments import choose_triples, count_table_triples, triple_frequencies


def small_table(seed, weight=None, n_columns=5):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (60, n_columns)).astype(np.uint8)
    codes[codes == 3] = 255
    return Table(codes, tuple(Column(n, np.arange(3)) for n in range(n_columns)), weight)


def all_triples(table):
    triples = choose_triples(table.n_columns, None, np.random.default_rng(0))
    return triples, count_table_triples(table, triples)


def test_counts_of_triples_equal_a_literal_count():
    table = small_table(0)
    triples, counts = all_triples(table)
    assert len(triples) == 10
    for (j, k, l), block in zip(triples, counts, strict=True):
        twin = np.zeros((3, 3, 3), np.int64)
        for row in table.codes:
            if row[j] < 3 and row[k] < 3 and row[l] < 3:
                twin[row[j], row[k], row[l]] += 1
        assert block.dtype == np.int64
        assert np.array_equal(block, twin)
    halves = [all_triples(table.take(np.arange(*ends)))[1] for ends in ((0, 25), (25, 60))]
    assert all(np.array_equal(a + b, c) for a, b, c in zip(*halves, counts, strict=True))


def test_weights_are_replicated_rows_and_may_be_fractions():
    weight = np.random.default_rng(1).integers(0, 3, 60).astype(float)
    table = small_table(0, weight)
    copies = table.take(np.repeat(np.arange(60), weight.astype(int)))
    plain = Table(copies.codes, copies.columns)
    for a, b in zip(all_triples(table)[1], all_triples(plain)[1], strict=True):
        assert np.array_equal(a, b)
    assert all_triples(small_table(0, weight + 0.5))[1][0].dtype == np.float64


def test_a_choice_of_triples_is_spread_and_a_crowd_of_cells_refused():
    chosen = choose_triples(12, 40, np.random.default_rng(0))
    assert len(chosen) == len({tuple(row) for row in chosen}) == 40
    assert np.ptp(np.bincount(chosen.ravel(), minlength=12)) <= 4
    wide = Table(np.zeros((1, 3), np.uint16), tuple(Column(n, np.arange(400)) for n in range(3)))
    with pytest.raises(DataError, match="count fewer triples"):
        all_triples(wide)


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_is_its_twin_and_never_rises(seed):
    rng = np.random.default_rng(seed)
    table = small_table(seed)
    triples, marginals = triple_frequencies(*all_triples(table))
    problem = CoupledTriples(triples, marginals, table.column_offsets)
    init = _random_factors(table.column_offsets, 4, rng)
    twin = 0.0
    for (j, k, l), block in zip(triples, marginals, strict=True):
        for cell in np.ndindex(*block.shape):
            rows = [init.table[table.column_offsets[n] + i] for n, i in zip((j, k, l), cell, strict=True)]
            twin += (block[cell] - sum(init.weights * rows[0] * rows[1] * rows[2])) ** 2
    assert problem.objective(init) == pytest.approx(twin, abs=1e-10)
    run = alternate(problem, init, max_iter=30, tol=0.0)
    assert (np.diff(run.path) <= 1e-12).all()
    assert problem.objective(run.mixture) == pytest.approx(run.path[-1], abs=1e-10)
    found = factor_ctd(table, 4, rng=rng, max_iter=5)
    np.testing.assert_allclose(np.add.reduceat(found.table, table.column_offsets[:-1]), 1.0, atol=1e-10)


def test_exact_marginals_are_a_minimum():
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 21, 4, dtype=np.int32)
    truth = Mixture(rng.dirichlet(np.full(3, 5.0)), normalise_tables(rng.random((20, 3)), offsets), offsets)
    triples = choose_triples(5, None, rng)
    blocks = [
        np.einsum("f,if,jf,kf->ijk", truth.weights, *(truth.table[4 * n : 4 * n + 4] for n in row)) for row in triples
    ]
    problem = CoupledTriples(triples, blocks, offsets)
    assert abs(problem.objective(truth)) < 1e-12
    assert np.abs(alternate(problem, truth, max_iter=3, tol=0.0).mixture.table - truth.table).max() < 1e-6


def test_projection_onto_the_simplex():
    points = np.random.default_rng(0).normal(size=(5, 30))
    found = project_to_simplex(points.T).T
    np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(project_to_simplex(found.T).T, found, atol=1e-12)
