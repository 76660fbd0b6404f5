"""Bounded least squares against a literal twin: every set of held variables is tried, the best that fits is kept."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentfit.core.simplex import box_least_squares, gram_of, products_of, simplex_least_squares


def value(G, b, x):
    return x @ G @ x / 2 - b @ x


def twin(G, b, low, high, equality):
    """Each variable free, at its lower or at its upper bound: 3^d (2^d) linear systems."""
    d, best, found = len(b), np.inf, None
    for state in product((0, 1, 2) if np.isfinite(high) else (0, 1), repeat=d):
        free = [i for i in range(d) if state[i] == 1]
        x = np.array([low if s == 0 else high if s == 2 else 0.0 for s in state])
        if equality and not free:
            continue
        if free:
            A = G[np.ix_(free, free)]
            r = b[free] - G[free] @ x
            if equality:
                A = np.block([[A, np.ones((len(free), 1))], [np.ones((1, len(free))), np.zeros((1, 1))]])
                r = np.append(r, 1 - x.sum())
            x[free] = np.linalg.solve(A, r)[: len(free)]
        if (x >= low - 1e-12).all() and (x <= high + 1e-12).all() and value(G, b, x) < best:
            best, found = value(G, b, x), x
    return found


def problems(seed, n=20, d=4, m=9, shared=True):
    rng = np.random.default_rng(seed)
    A = rng.random((n, d, m)) if not shared else np.broadcast_to(rng.random((d, m)), (n, d, m))
    y = rng.normal(0.4, 0.8, (n, m))
    G = np.einsum("nim,njm->nij", A, A)
    return (G[0] if shared else G), np.einsum("nim,nm->ni", A, y)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_equals_the_twin(seed, shared):
    d = 2 + seed % 4
    G, b = problems(seed, d=d, shared=shared)
    simplex, box = simplex_least_squares(G, b), box_least_squares(G, b)
    for i in range(len(b)):
        own = G if shared else G[i]
        np.testing.assert_allclose(simplex[i], twin(own, b[i], 0.0, np.inf, True), atol=1e-10)
        np.testing.assert_allclose(box[i], twin(own, b[i], 0.0, 1.0, False), atol=1e-10)
    assert (simplex >= 0).all()
    np.testing.assert_allclose(simplex.sum(axis=1), 1.0, atol=1e-13)
    assert ((box >= 0) & (box <= 1)).all()


@pytest.mark.parametrize("shared", [True, False])
def test_the_optimum_of_larger_problems_obeys_its_conditions(shared):
    """Too many variables for the twin: multipliers must have the right sign, free slopes must be level."""
    G, b = problems(5, n=300, d=14, m=40, shared=shared)
    x = simplex_least_squares(G, b)
    slope = np.einsum("...ij,nj->ni", G, x) - b if shared else np.einsum("nij,nj->ni", G, x) - b
    scale = np.abs(b).max()
    least = slope.min(axis=1, keepdims=True)
    assert (np.where(x > 0, slope - least, 0) <= 1e-9 * scale).all()
    x = box_least_squares(G, b, -0.2, 0.3)
    slope = np.einsum("ij,nj->ni", G, x) - b if shared else np.einsum("nij,nj->ni", G, x) - b
    assert (slope[x <= -0.2] >= -1e-9 * scale).all()
    assert (slope[x >= 0.3] <= 1e-9 * scale).all()
    assert np.abs(slope[(x > -0.2) & (x < 0.3)]).max() <= 1e-9 * scale


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_a_row_has_the_same_bits_alone_and_in_company(seed, shared, box):
    G, b = problems(seed, n=9, shared=shared)
    solve = box_least_squares if box else simplex_least_squares
    together = solve(G, b)
    for i in (0, 4, 8):
        assert np.array_equal(solve(G if shared else G[i : i + 1], b[i : i + 1])[0], together[i])


@given(st.integers(0, 10_000), st.booleans())
def test_the_start_changes_the_way_only(seed, shared):
    G, b = problems(seed, n=12, shared=shared)
    start = np.random.default_rng(seed + 1).dirichlet(np.full(4, 0.3), 12)
    np.testing.assert_allclose(simplex_least_squares(G, b, start), simplex_least_squares(G, b), atol=1e-9)
    corners = np.eye(4)[np.arange(12) % 4]
    np.testing.assert_allclose(box_least_squares(G, b, start=corners), box_least_squares(G, b), atol=1e-9)


def test_more_variables_than_a_word_has_bits():
    """Rows that differ only in which of the last variables are free do not share one system."""
    b = np.full((6, 70), -1.0)
    b[np.arange(6), 64 + np.arange(6)], b[np.arange(6), 64 + (np.arange(6) + 1) % 6] = 1.0, 0.9
    expected = np.where(b == 1.0, 0.55, np.where(b == 0.9, 0.45, 0.0))
    np.testing.assert_allclose(simplex_least_squares(np.eye(70), b), expected, atol=1e-10)
    np.testing.assert_allclose(box_least_squares(np.eye(70), b), np.maximum(b, 0.0), atol=1e-10)


def test_gaps_are_left_out_of_the_sums():
    rng = np.random.default_rng(0)
    basis, values, shown = rng.random((3, 8)), rng.random((5, 8)), rng.random((5, 8)) < 0.6
    gram, right = gram_of(basis, shown), products_of(np.where(shown, values, 0.0), basis)
    for i in range(5):
        part = basis[:, shown[i]]
        np.testing.assert_allclose(gram[i], part @ part.T, atol=1e-13)
        np.testing.assert_allclose(right[i], part @ values[i, shown[i]], atol=1e-13)
    np.testing.assert_allclose(gram_of(basis), gram_of(basis, np.ones((1, 8), bool))[0], atol=1e-13)


def test_what_is_not_determined_has_the_shortest_answer():
    """Two equal parts share what is theirs; a row without a cell is even on the simplex, and zero in the box."""
    row = np.array([0.2, 0.9, 0.4])
    basis = np.array([row, row, 1 - row])
    found = simplex_least_squares(gram_of(basis), products_of((0.6 * row + 0.4 * (1 - row))[None], basis))
    np.testing.assert_allclose(found[0], [0.3, 0.3, 0.4], atol=1e-3)
    assert found.sum() == pytest.approx(1, abs=1e-14)
    empty = np.zeros((1, 3, 3)), np.zeros((1, 3))
    np.testing.assert_allclose(simplex_least_squares(*empty), [[1 / 3] * 3], atol=1e-12)
    np.testing.assert_allclose(box_least_squares(*empty), [[0.0] * 3], atol=1e-12)


def test_one_variable():
    assert simplex_least_squares(np.array([[2.0]]), np.array([[0.3], [9.0]])).tolist() == [[1.0], [1.0]]
    found = box_least_squares(np.array([[2.0]]), np.array([[0.3], [9.0], [-1.0]]))
    np.testing.assert_allclose(found, [[0.15], [1], [0]])
