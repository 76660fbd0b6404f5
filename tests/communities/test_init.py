"""Initial blocks of a graph: the spectrum of its Bethe Hessian, and k-means on spectral embeddings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.communities import init
from latentfit.communities.init import (
    LEAST_RADIUS,
    Signals,
    branching,
    hessian,
    hessian_vectors,
    k_means,
    signals,
    spectral_labels,
    unit_rows,
)
from latentfit.core import spectral
from latentfit.simulate import block_graph


def weighted_graph(seed=0, n=14):
    """Weights of mean 1, two heavy edges, one node without an edge."""
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.45, 1)
    links[:, -1] = False
    weights = np.where(links, rng.uniform(0.2, 1.2, (n, n)), 0.0)
    at = np.argwhere(links)
    weights[tuple(at[0])] = weights[tuple(at[1])] = 4.0
    weights /= weights[links].mean()
    return sp.csr_array(weights + weights.T)


def literal_hessian(matrix, radius, r):
    """δ_ij (1 + Σ_k w_ik²/(r² − w_ik²)) − r w_ij/(r² − w_ij²), weights beyond .8 r taken as .8 r."""
    W = matrix.toarray()
    H = np.zeros(W.shape)
    for i in range(len(W)):
        H[i, i] = 1.0
        for j in range(len(W)):
            if W[i, j]:
                w = min(W[i, j], 0.8 * radius)
                H[i, i] += w**2 / (radius**2 - w**2)
                H[i, j] -= r * w / (radius**2 - w**2)
    return H


@pytest.mark.parametrize("degree", [3, 4, 6])
def test_a_regular_graph_branches_by_its_degree_less_one(degree):
    n = 12
    matrix = np.zeros((n + 2, n + 2))
    for step in range(1, degree // 2 + 1):
        for i in range(n):
            matrix[i, (i + step) % n] = matrix[(i + step) % n, i] = 1
    if degree % 2:
        for i in range(n):
            matrix[i, (i + n // 2) % n] = 1
    assert matrix[:n].sum(axis=1).tolist() == [degree] * n
    graph = sp.csr_array(matrix)  # two more nodes have no edge
    assert branching(graph) == pytest.approx(degree - 1, rel=1e-6)
    assert branching(sp.csr_array(3 * matrix)) == pytest.approx(degree - 1, rel=1e-6), "links, not weights"
    found, r = signals(graph, 3), np.sqrt(degree - 1)
    values = np.linalg.eigvalsh(matrix[:n, :n])
    want = r * values / (r**2 - 1 + degree)  # ((r² − 1) I + D)^{-½} A (…)^{-½} r
    np.testing.assert_allclose(found.values, want[np.argsort(-np.abs(want), kind="stable")][:3], rtol=1e-6)
    assert found.radius == pytest.approx(r, rel=1e-6)


def test_no_edge_leads_nowhere():
    assert branching(sp.csr_array((3, 3))) == init.LEAST_RADIUS


def test_the_hessian_of_weights_is_the_literal_one():
    matrix = weighted_graph()
    squared = branching(matrix) * np.mean(matrix.data**2)
    radius = np.sqrt(squared)
    assert (matrix.data > init.SPECTRUM.heaviest * radius).any()
    for r in (radius, -radius):
        np.testing.assert_allclose(hessian(matrix, r).toarray(), literal_hessian(matrix, radius, r), atol=1e-12)
    H = literal_hessian(matrix, radius, radius)
    root = 1 / np.sqrt(np.diag(H))
    scaled = -(H - np.diag(np.diag(H))) / radius * np.outer(root, root)
    values = radius * np.linalg.eigvalsh(scaled)
    found = signals(matrix, 5)
    assert found.radius == pytest.approx(radius)
    np.testing.assert_allclose(found.values, values[np.argsort(-np.abs(values))][:5], atol=1e-10)
    vectors = hessian_vectors(matrix, 4)
    np.testing.assert_allclose(np.diag(vectors.T @ H @ vectors), np.linalg.eigvalsh(H)[:4], atol=1e-10)


def test_large_and_small_graphs_are_decomposed_alike(monkeypatch):
    matrix = weighted_graph(1)
    exact, vectors = signals(matrix, 4), hessian_vectors(matrix, 3)
    asked = []
    real = init.eigsh
    for module in (init, spectral):
        monkeypatch.setattr(module, "eigsh", lambda *args, **kwargs: asked.append(1) or real(*args, **kwargs))
    monkeypatch.setattr(init, "DENSE_BELOW", 14)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 14)
    np.testing.assert_allclose(signals(matrix, 4).values, exact.values, rtol=1e-3)
    found = hessian_vectors(matrix, 3)
    assert len(asked) == 2
    np.testing.assert_allclose(np.abs(np.diag(found.T @ vectors)), 1.0, atol=1e-2)
    assert len(signals(matrix, 13).values) == 13
    assert hessian_vectors(matrix, 13).shape == (14, 13)
    monkeypatch.setattr(init, "DENSE_BELOW", 15)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 15)
    signals(matrix, 4)
    hessian_vectors(matrix, 3)
    assert len(asked) == 2, "ARPACK only where the graph is large and few are asked for"


def test_signals_above_noise_are_informative():
    made = Signals(2.0, np.array([2.0, 1.25, 1.03, 1.01, -1.02, -1.06, 0.5]), 0.02)
    assert made.informative.tolist() == [2.0, 1.25, 1.03, -1.06]
    want = [2 * (v + np.sqrt(v**2 - 1)) for v in (2.0, 1.25, 1.03, 1.06)]
    np.testing.assert_allclose(made.strengths, want)
    for v, zeta in zip((2.0, 1.25), made.strengths, strict=False):
        assert (zeta / 2 + 2 / zeta) / 2 == pytest.approx(v)  # v = (ζ/r + r/ζ)/2


def test_the_margin_is_small_in_large_graphs_and_counts_nodes_with_edges_only():
    complete = sp.csr_array(np.pad(np.ones((6, 6)) - np.eye(6), (0, 200)))  # r² = 4, 200 nodes without an edge
    assert signals(complete, 2).margin == pytest.approx(min(init.SPECTRUM.noise_margin / 4, 6 ** (-2 / 3)), rel=1e-5)
    n = 999
    ring = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    assert signals(ring, 2).margin == pytest.approx(n ** (-2 / 3))  # r² = 1, and n^(−2/3) = .01


# ------------------------------------------------------------------ k-means


class Told:
    """A generator that says what it is told."""

    def __init__(self, integers, randoms=()):
        self._integers, self._randoms = list(integers), list(randoms)

    def integers(self, n):
        return self._integers.pop(0)

    def random(self):
        return self._randoms.pop(0)


def test_first_centres_are_drawn_by_their_squared_distance():
    points = np.array([[0.0], [1.0], [3.0], [3.0]])  # from point 0: 0, 1, 9, 9 of 19
    for chance, want in ((0.0, 0.0), (0.04, 1.0), (0.06, 3.0), (0.99, 3.0)):
        centres = init._first_centres(points, 2, Told([0], [chance]))
        assert centres[:, 0].tolist() == [0.0, want]
    # after 0 and 3 the distances are 0, 1, 0, 0
    assert init._first_centres(points, 3, Told([0], [0.99, 0.5]))[:, 0].tolist() == [0.0, 3.0, 1.0]
    # nothing is left: any point
    assert init._first_centres(np.zeros((3, 1)), 3, Told([2, 0, 1])).tolist() == [[0.0]] * 3


def test_lloyd_equals_loops():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((40, 2)) + 3 * np.eye(3)[np.arange(40) % 3][:, :2]
    centres = points[:4].copy()
    centres[3] = 100.0  # nobody's: stays where it is
    found, left = init._lloyd(points, centres)
    before = None
    while True:
        near = [min(range(4), key=lambda c: np.sum((p - centres[c]) ** 2)) for p in points]
        now = sum(np.sum((p - centres[c]) ** 2) for p, c in zip(points, near, strict=True))
        if before is not None and before - now <= 1e-6 * before:
            break
        before = now
        centres = np.array(
            [
                np.mean([p for p, n in zip(points, near, strict=True) if n == c], axis=0) if c in near else centres[c]
                for c in range(4)
            ]
        )
    assert left == pytest.approx(now)
    np.testing.assert_allclose(found, centres)
    assert found[3].tolist() == [100.0, 100.0]


def test_rounds_of_lloyd_end(monkeypatch):
    points = np.arange(10.0)[:, None]
    monkeypatch.setattr(init, "SPECTRUM", replace(init.SPECTRUM, lloyd_iterations=1))
    centres, _ = init._lloyd(points, np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(centres[:, 0], [0.0, 5.0])


def test_the_best_of_several_draws_is_kept(monkeypatch):
    ends = [(np.array([[0.0], [1.0]]), 5.0), (np.array([[0.0], [9.0]]), 2.0), (np.array([[4.0], [5.0]]), 3.0)]
    monkeypatch.setattr(init, "_lloyd", lambda points, centres: ends.pop(0))
    found = k_means(np.array([[0.0], [8.0], [2.0]]), np.ones(3), 2, np.random.default_rng(0), draws=3)
    assert found.tolist() == [0, 1, 0]
    assert not ends


def test_centres_are_made_from_the_nodes_with_most_edges(monkeypatch):
    monkeypatch.setattr(init, "SPECTRUM", replace(init.SPECTRUM, centre_nodes=4))
    points = np.array([[0.0], [0.2], [50.0], [10.0], [10.2], [6.0]])
    found = k_means(points, np.array([5.0, 4, 1, 5, 4, 2]), 2, np.random.default_rng(0))
    assert found[0] == found[1] != found[3]
    assert found[2] == found[3] == found[4] == found[5]  # 50 is no centre, 6 is nearer to 10


def test_rows_have_length_one_or_are_not_seen():
    found = unit_rows(np.array([[3.0, 4.0], [0.0, -2.0], [1e-13, 0.0]]))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.0, -1.0], [1e-13, 0.0]])


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_initialisations_have_names_in_their_order(number):
    starts = list(spectral_labels(weighted_graph(), 2, number, np.random.default_rng(0)))
    names = [
        "scaled SVD",
        "Bethe Hessian",
        "scaled SVD, plain rows",
        "Bethe Hessian, draw 3",
        "scaled SVD, draw 4",
        "Bethe Hessian, draw 5",
    ]
    assert [name for name, _ in starts] == names[:number]
    assert all(set(labels.tolist()) <= {0, 1} for _, labels in starts)


def test_initialisations_cluster_the_points_that_their_names_say(monkeypatch):
    matrix = weighted_graph(2)
    asked = []

    def seen(points, mass, number, rng, draws=init.SPECTRUM.draws):
        asked.append((points, mass, number, draws))
        return np.zeros(len(points), np.int64)

    monkeypatch.setattr(init, "k_means", seen)
    list(spectral_labels(matrix, 3, 5, np.random.default_rng(0)))
    A = matrix.toarray()
    P, rho = A / A.sum(), A.sum(axis=1) / A.sum()
    scale = rho + rho.mean()
    values, vectors = np.linalg.eigh((P - np.outer(rho, rho)) / np.sqrt(np.outer(scale, scale)))
    order = np.argsort(-np.abs(values))[:2]
    plain = vectors[:, order] * np.abs(values[order])
    bethe = hessian_vectors(matrix, 3)
    for place, want in ((0, unit_rows(plain)), (1, unit_rows(bethe)), (2, plain), (3, unit_rows(bethe))):
        points, mass, number, draws = asked[place]
        np.testing.assert_allclose(np.abs(points), np.abs(want), atol=1e-8)
        np.testing.assert_allclose(mass, A.sum(axis=1))
        assert number == 3
        assert draws == (1 if place >= 3 else init.SPECTRUM.draws)
    np.testing.assert_allclose(asked[4][0], asked[0][0])


def test_more_blocks_than_nodes_are_no_mistake():
    triangle = sp.csr_array(np.ones((3, 3)) - np.eye(3))
    for _, labels in spectral_labels(triangle, 5, 3, np.random.default_rng(0)):
        assert labels.shape == (3,)


def test_signals_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(Signals), fields(Signals)[0].name, 0)


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
