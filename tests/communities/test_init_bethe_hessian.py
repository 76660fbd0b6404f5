"""The Bethe Hessian: its inertia read off the scaled matrix, its radius, and the strengths behind the signals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.communities.init import (
    LEAST_RADIUS,
    branching,
    hessian,
    hessian_vectors,
    k_means,
    signals,
    spectral_labels,
    unit_rows,
)
from latentfit.simulate import block_graph


def non_backtracking(matrix):
    """The (2m, 2m) matrix itself: edge i → j leads to j → k unless k = i."""
    at = matrix.tocoo()
    ends = list(zip(at.row.tolist(), at.col.tolist(), strict=True))
    place = {edge: number for number, edge in enumerate(ends)}
    B = np.zeros((len(ends), len(ends)))
    for i, j in ends:
        for k in np.flatnonzero(matrix[[j]].toarray()[0]):
            if k != i:
                B[place[i, j], place[j, int(k)]] = 1.0
    return B


@pytest.mark.parametrize("power", [None, 2.5])
def test_branching_is_the_leading_eigenvalue(power):
    matrix = block_graph(60, 2, 4.0, strength=2.0, power=power, random_state=1).matrix
    want = np.linalg.eigvals(non_backtracking(matrix)).real.max()
    assert branching(matrix) == pytest.approx(want, rel=1e-5)


def test_a_tree_does_not_branch():
    path = sp.csr_array(sp.diags_array([np.ones(9), np.ones(9)], offsets=[-1, 1]))
    assert branching(path) == LEAST_RADIUS
    assert len(signals(path, 5).informative) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_signals_count_the_eigenvalues_below_zero(seed):
    made = block_graph(150, 3, 8.0, strength=3.0, power=2.5 if seed % 2 else None, random_state=seed)
    found = signals(made.matrix, 150)
    for sign in (1.0, -1.0):
        below = int((np.linalg.eigvalsh(hessian(made.matrix, sign * found.radius).toarray()) < 0).sum())
        assert below == int((sign * found.values > 1).sum()), "Sylvester's law of inertia"
    assert len(found.informative) == 3 or seed % 2


def test_large_graphs_give_the_same_signals_as_small_ones():
    """ARPACK beyond `DENSE_BELOW`, dense algebra below."""
    matrix = block_graph(400, 3, 8.0, strength=3.0, random_state=0).matrix
    exact = signals(matrix, 400).values[:4]  # as many as nodes: dense
    np.testing.assert_allclose(signals(matrix, 6).values[:4], exact, rtol=1e-3)
    vectors = hessian_vectors(matrix, 3)
    H = hessian(matrix, float(np.sqrt(branching(matrix)))).toarray()
    np.testing.assert_allclose(np.linalg.eigvalsh(H)[:3], np.diag(vectors.T @ H @ vectors), rtol=1e-3)


def test_strengths_are_eigenvalues_of_the_non_backtracking_matrix():
    """Exactly so where all degrees are equal: a ring of cliques, each node with one link to the next clique."""
    size, cliques = 6, 5
    n = size * cliques
    matrix = np.kron(np.eye(cliques), np.ones((size, size)) - np.eye(size))
    for clique in range(cliques):
        for at in range(3):
            i, j = clique * size + at, ((clique + 1) % cliques) * size + 3 + at
            matrix[i, j] = matrix[j, i] = 1.0
    graph = sp.csr_array(matrix)
    found = signals(graph, n)
    truth = np.sort(np.linalg.eigvals(non_backtracking(graph)).real)[::-1]
    np.testing.assert_allclose(found.strengths[:3], truth[:3], rtol=1e-6)


def test_initialisations_find_clear_blocks_and_keep_the_number():
    made = block_graph(500, 4, 20.0, strength=8.0, random_state=2)
    starts = list(spectral_labels(made.matrix, 4, 5, np.random.default_rng(0)))
    assert [name for name, _ in starts][:3] == ["scaled SVD", "Bethe Hessian", "scaled SVD, plain rows"]
    assert len(starts) == 5
    for name, labels in starts[:2]:
        table = np.zeros((4, 4))
        np.add.at(table, (made.blocks, labels), 1)
        assert table.max(axis=1).sum() > 480, name


def test_k_means_with_fewer_points_than_centres():
    points = np.zeros((5, 2))
    assert k_means(points, np.ones(5), 3, np.random.default_rng(0)).shape == (5,)
    np.testing.assert_array_equal(unit_rows(points), points)
