"""The steps of pair models on tiny inputs: scaled spectra, corners, factored matrices, bins and stitching."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core import spectral as svd_module
from latentfit.core import spectral as vertices_module
from latentfit.core.counts import read_counts
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.spectral import (
    PairModel,
    ScaledSVD,
    find_vertices,
    memberships_at,
    pair_model,
    peak_signs,
    scaled_svd,
    start_vector,
    weighted_centres,
)
from latentfit.pairs import init
from latentfit.pairs.init import Factored, SideEstimate, decompose, independent, marginal_bins, pair_phases, rank_two

# ------------------------------------------------------------------ scaled SVD


def counts(seed=0, shape=(12, 9)):
    return np.random.default_rng(seed).poisson(1.5, shape).astype(np.int64)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("rank", [1, 3, 7])
def test_large_and_small_matrices_are_decomposed_alike(monkeypatch, symmetric, centred, rank):
    C = sp.csr_array(counts(1, (9, 9) if symmetric else (12, 9)))
    whole = scaled_svd(C, rank, symmetric=symmetric, centred=centred)
    monkeypatch.setattr(svd_module, "DENSE_BELOW", 2)
    parts = scaled_svd(C, rank, symmetric=symmetric, centred=centred)
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-10)
    np.testing.assert_allclose(parts.left, whole.left, atol=1e-8)
    np.testing.assert_allclose(parts.right, whole.right, atol=1e-8)
    assert whole.centred == centred
    assert whole.symmetric == symmetric


def test_arpack_is_asked_from_the_stated_size_on(monkeypatch):
    asked = []
    real = svd_module.svds
    monkeypatch.setattr(svd_module, "svds", lambda *args, **kwargs: asked.append(1) or real(*args, **kwargs))
    monkeypatch.setattr(svd_module, "DENSE_BELOW", 9)
    scaled_svd(sp.csr_array(counts(0, (12, 8))), 2)
    assert not asked, "the shorter side decides"
    scaled_svd(sp.csr_array(counts(0, (12, 9))), 8)
    assert not asked, "ARPACK cannot find that many"
    scaled_svd(sp.csr_array(counts(0, (12, 9))), 7)
    assert asked


def test_arpack_is_asked_for_symmetric_matrices_from_the_stated_size_on(monkeypatch):
    asked = []
    real = svd_module.eigsh
    monkeypatch.setattr(svd_module, "eigsh", lambda *args, **kwargs: asked.append(1) or real(*args, **kwargs))
    monkeypatch.setattr(svd_module, "DENSE_BELOW", 9)
    scaled_svd(sp.csr_array(counts(0, (8, 8))), 2, symmetric=True)
    for rank in (8, 9):
        scaled_svd(sp.csr_array(counts(0, (9, 9))), rank, symmetric=True)
    assert not asked
    scaled_svd(sp.csr_array(counts(0, (9, 9))), 7, symmetric=True)
    assert asked


def test_a_matrix_that_equals_its_transpose_is_known_as_symmetric():
    C = counts(2, (6, 6))
    assert not scaled_svd(sp.csr_array(C), 2).symmetric
    assert scaled_svd(sp.csr_array(C + C.T), 2).symmetric
    assert not scaled_svd(sp.csr_array(counts(2, (6, 5))), 2).symmetric
    nearly = C + C.T
    nearly[0, 1] += 1
    assert not scaled_svd(sp.csr_array(nearly), 2).symmetric


def test_a_rank_beyond_the_items_is_refused_and_centring_takes_one():
    C = sp.csr_array(counts(3, (5, 4)))
    assert len(scaled_svd(C, 4).values) == 4
    assert len(scaled_svd(C, 3, centred=True).values) == 3
    with pytest.raises(NotIdentifiableError, match="rank 5 is asked of counts of 5 × 4 items; ask for at most 4"):
        scaled_svd(C, 5)
    with pytest.raises(NotIdentifiableError, match="rank 5 is asked"):
        scaled_svd(C, 4, centred=True)


def test_items_without_counts_are_left_out_when_nothing_is_regularised():
    C = counts(4, (6, 6)) + 1
    C[2], C[:, 4] = 0, 0
    found = scaled_svd(sp.csr_array(C), 2, regularise=0.0, symmetric=False, centred=True)
    kept = scaled_svd(
        sp.csr_array(np.delete(np.delete(C, 2, 0), 4, 1)), 2, regularise=0.0, symmetric=False, centred=True
    )
    np.testing.assert_allclose(found.values, kept.values)
    np.testing.assert_allclose(found.left[2], 0, atol=1e-12)
    rows, columns = found.embedding()
    assert (rows[2] == 0).all()
    assert (columns[4] == 0).all()
    np.testing.assert_allclose(np.delete(rows, 2, 0), kept.embedding()[0], atol=1e-9)


def test_the_embedding_gives_the_lifts_of_the_matrix():
    """B_ij = ρ_i ρ'_j (1 + Σ_s values_s x_is y_js), at full rank whatever the regulariser."""
    C = counts(5, (5, 4)) + 1.0
    C[3] = 0
    for regularise in (0.0, 0.5, 2.0):
        found = scaled_svd(sp.csr_array(C), 3, centred=True, symmetric=False, regularise=regularise)
        x, y = found.embedding()
        B = np.outer(found.row_marginal, found.column_marginal) * (1 + (x * found.values) @ y.T)
        np.testing.assert_allclose(B, C / C.sum(), atol=1e-12)


def test_an_item_without_counts_has_no_lift_whatever_its_vector():
    vectors, half = np.array([[0.6], [0.8]]), np.array([0.5, 0.5])
    made = ScaledSVD(np.ones(1), vectors, vectors, np.array([0.0, 1.0]), half, np.array([0.25, 4.0]), half, True, False)
    rows, columns = made.embedding()
    np.testing.assert_allclose(rows, [[0.0], [1.6]])
    np.testing.assert_allclose(columns, np.sqrt(0.5) / 0.5 * vectors)


def test_signs_make_the_first_of_the_largest_entries_positive():
    vectors = np.array([[0.5, -0.2, 0.1], [-0.5 - 1e-14, 0.1, -0.9], [0.1, -0.1, 0.9]])
    assert peak_signs(vectors).tolist() == [1.0, -1.0, -1.0]
    assert peak_signs(np.array([[-1.0], [1.001]]), 2).tolist() == [-1.0]
    assert peak_signs(np.array([[-1.0], [1.001]]), 3).tolist() == [1.0]
    assert peak_signs(np.zeros((2, 1))).tolist() == [1.0]


def test_initial_vectors_are_always_the_same_and_of_both_signs():
    one = start_vector(9)
    assert np.array_equal(one, start_vector(9))
    assert (one > 0).tolist() == [False, True, True] * 3
    assert (np.abs(one) >= 0.5).all()
    assert (np.abs(one) <= 1.5).all()


# ------------------------------------------------------------------ corners


def pure_points(K=3, seed=0):
    """Items of a simplex: two at every corner, the rest inside."""
    rng = np.random.default_rng(seed)
    anchors = 3 * np.vstack([np.zeros(K - 1), np.eye(K - 1)]) - 1
    proportions = np.vstack([np.eye(K), np.eye(K), rng.dirichlet(np.full(K, 5.0), 6)])
    return anchors, proportions, proportions @ anchors, rng.dirichlet(np.full(len(proportions), 20.0))


@pytest.mark.parametrize("K", [2, 3, 4])
def test_anchors_memberships_and_dictionary_of_pure_items(K):
    anchors, proportions, points, mass = pure_points(K)
    found = find_vertices(points, mass)
    order = [int(np.linalg.norm(found.anchors - one, axis=1).argmin()) for one in anchors]
    np.testing.assert_allclose(found.anchors[order], anchors, atol=1e-9)
    np.testing.assert_allclose(found.memberships[:, order], proportions, atol=1e-8)
    for place, k in enumerate(order):
        weight = sum(mass[i] * proportions[i, place] for i in range(len(mass)))
        assert found.weights[k] == pytest.approx(weight)
        for i in range(len(mass)):
            assert found.dictionary[i, k] == pytest.approx(mass[i] * proportions[i, place] / weight, abs=1e-8)


def test_one_cause_has_all_items_by_their_mass():
    found = find_vertices(np.empty((3, 0)), np.array([1.0, 2.0, 5.0]))
    assert found.anchors.shape == (1, 0)
    assert found.memberships.tolist() == [[1.0]] * 3
    assert found.weights.tolist() == [1.0]
    np.testing.assert_allclose(found.dictionary[:, 0], [0.125, 0.25, 0.625])


def test_an_anchor_without_members_gets_the_marginal():
    points, mass = np.array([[1.0, -1.0], [2.0, -1.0]]), np.array([3.0, 1.0])
    found = memberships_at(points, mass, np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 5.0]]))
    np.testing.assert_allclose(found.weights, [0.75, 0.25, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.dictionary[:, 2], [0.75, 0.25])
    np.testing.assert_allclose(found.dictionary.sum(axis=0), 1.0)


def test_where_centres_are_too_few_items_fill_the_places(monkeypatch):
    """The lightest hundredth is no centre, but the third cause needs it."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = find_vertices(points, np.array([0.6, 0.39, 0.01]))
    assert sorted(map(tuple, found.anchors.tolist())) == [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)]
    same = find_vertices(np.array([[2.0, 3.0], [2.0, 3.0]]), np.array([0.5, 0.5]))  # one point for three causes
    assert same.anchors.tolist() == [[2.0, 3.0]] * 3
    np.testing.assert_allclose(same.dictionary, 0.5)


def test_centres_are_of_the_mass_and_the_lightest_are_left_out():
    points = np.array([[0.0], [1.0], [5.0], [9.0], [77.0]])
    mass = np.array([0.5, 0.3, 0.185, 0.015, 0.0])
    assert sorted(weighted_centres(points, mass, 10)[:, 0].tolist()) == [0.0, 1.0, 5.0]  # .985 is enough
    assert sorted(weighted_centres(points, np.array([0.5, 0.3, 0.17, 0.03, 0.0]), 10)[:, 0].tolist()) == [0, 1, 5, 9]
    two = weighted_centres(np.array([[0.0], [1.0], [10.0]]), np.array([1.0, 3.0, 4.0]), 2)
    np.testing.assert_allclose(np.sort(two[:, 0]), [0.75, 10.0])


def test_centres_do_not_depend_on_the_order_of_items():
    rng = np.random.default_rng(1)
    points, mass = rng.standard_normal((40, 2)), rng.random(40)
    turn = rng.permutation(40)
    np.testing.assert_array_equal(weighted_centres(points, mass, 5), weighted_centres(points[turn], mass[turn], 5))


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0)])
def test_causes_of_a_symmetric_matrix_with_like_and_unlike_pairs(signs):
    """Unlike pairs have a negative value; mixing = w w' (1 + Σ sign c c')."""
    D = np.kron(np.eye(3), np.full((3, 1), 1 / 3))
    W = np.full((3, 3), 1 / 9) + 0.04 * (3 * np.eye(3) - 1) / 2 * signs[1]
    world = D @ W @ D.T
    found = scaled_svd(sp.csr_array(1e6 * world), 2, symmetric=True, centred=True, regularise=0.0)
    assert np.sign(found.values).tolist() == [signs[1]] * 2
    model = pair_model(found)
    assert model.symmetric
    np.testing.assert_allclose(model.left @ model.mixing @ model.right.T, world, atol=1e-9)
    np.testing.assert_allclose(model.mixing, model.mixing.T)
    assert model.mixing.sum() == pytest.approx(1.0)


def test_causes_of_both_sides_of_a_rectangle():
    left, right = np.kron(np.eye(2), [[0.3], [0.7]]), np.kron(np.eye(2), [[0.2], [0.5], [0.3]])
    W = np.array([[0.4, 0.1], [0.05, 0.45]])
    model = pair_model(
        scaled_svd(sp.csr_array(1e6 * left @ W @ right.T), 1, symmetric=False, centred=True, regularise=0.0)
    )
    assert not model.symmetric
    np.testing.assert_allclose(model.left @ model.mixing @ model.right.T, left @ W @ right.T, atol=1e-9)
    assert np.sort(model.mixing.ravel()) == pytest.approx([0.05, 0.1, 0.4, 0.45])


def test_a_pair_of_causes_below_zero_is_cut_and_the_rest_sums_to_one():
    found = vertices_module._distribution(np.array([[0.6, -0.2], [0.1, 0.5]]))
    np.testing.assert_allclose(found, np.array([[0.6, 0.0], [0.1, 0.5]]) / 1.2)


# ------------------------------------------------------------------ factored matrices


def full(factored):
    return factored.left @ factored.right.T


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_separations_of_both_sides_are_made_equally_large(sign):
    rng = np.random.default_rng(0)
    u, w = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    x, y = rng.uniform(-0.5, 0.5, 5), rng.uniform(-0.9, 0.9, 4)
    found = rank_two((u, w), (x, y), sign)
    B = np.outer(u, w) * (1 + sign * np.outer(x, y))
    np.testing.assert_allclose(full(found), B / B.sum(), atol=1e-12)
    np.testing.assert_allclose(found.marginal, B.sum(axis=1) / B.sum())
    np.testing.assert_allclose(found.column_marginal, B.sum(axis=0) / B.sum())
    sizes = [
        sum(part[i, 0] ** 2 / marginal[i] for i in range(len(marginal)))
        for part, marginal in (
            (found.separation, found.marginal),
            (found.column_separation, found.column_marginal),
        )
    ]
    assert sizes[0] == pytest.approx(sizes[1])
    assert found.values == pytest.approx([sizes[0]])
    assert found.separation[np.abs(found.separation).argmax(), 0] > 0


def test_only_the_same_marginals_and_lifts_make_one_side_of_both():
    rng = np.random.default_rng(1)
    u, x, y = rng.dirichlet(np.ones(5)), rng.uniform(-0.5, 0.5, 5), rng.uniform(-0.9, 0.9, 5)
    w = rng.dirichlet(np.ones(5))
    for marginals, lifts in (((u, u), (x, x)), ((u, u), (x, y)), ((u, w), (x, x))):
        found = rank_two(marginals, lifts, 1.0)
        B = np.outer(*marginals) * (1 + np.outer(*lifts))
        np.testing.assert_allclose(full(found), B / B.sum(), atol=1e-12)
        same = marginals[0] is marginals[1] and lifts[0] is lifts[1]
        assert (found.marginal is found.column_marginal) == same


def test_no_lifts_leave_the_product_of_the_marginals():
    u, w = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75])
    found = rank_two((u, w), (np.zeros(3), np.array([0.3, 0.1])), 1.0)
    np.testing.assert_allclose(full(found), np.outer(u, w))
    assert found.values.tolist() == [0.0]
    alone = independent(u, w)
    np.testing.assert_allclose(full(alone), np.outer(u, w))
    assert alone.values.shape == (0,)
    assert alone.separation.shape == (3, 0)
    assert alone.column_separation.shape == (2, 0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_separations_of_any_rank_are_orthogonal_and_largest_first(symmetric):
    rng = np.random.default_rng(2)
    K = 4
    left = rng.dirichlet(np.full(9, 0.5), K).T
    left[4] = 0  # an item that no cause shows
    left /= left.sum(axis=0)
    right = left if symmetric else rng.dirichlet(np.full(7, 0.5), K).T
    W = rng.dirichlet(np.ones(K * K)).reshape(K, K)
    W = (W + W.T) / 2 if symmetric else W
    found = decompose(PairModel(left, right, W))
    np.testing.assert_allclose(full(found), left @ W @ right.T, atol=1e-12)
    assert found.separation.shape == (9, K - 1)
    assert (np.diff(found.values) <= 1e-12).all()
    safe = np.where(found.marginal > 0, found.marginal, 1.0)
    inner = found.separation.T @ (found.separation / safe[:, None])
    np.testing.assert_allclose(inner, np.diag(found.values), atol=1e-12)
    B = left @ W @ right.T
    rows, columns = B.sum(axis=1), B.sum(axis=0)
    E = (B - np.outer(rows, columns)) / np.sqrt(np.outer(safe, np.where(columns > 0, columns, 1.0)))
    np.testing.assert_allclose(found.values, np.linalg.svd(E, compute_uv=False)[: K - 1], atol=1e-12)
    if symmetric:
        assert set(found.signs) <= {-1.0, 1.0}
        np.testing.assert_allclose(np.sort(found.values * found.signs), np.delete(*_drop(np.linalg.eigvalsh(E), K)))
    else:
        assert found.signs.tolist() == [1.0] * (K - 1)


def _drop(values, K):
    """All but the K − 1 values of largest magnitude, to be deleted."""
    return values, np.argsort(-np.abs(values))[K - 1 :]


def test_a_negative_product_of_separation_and_sign_stays_one_matrix():
    part = np.array([[0.1], [-0.2]])
    made = Factored(np.array([0.5, 0.5]), np.array([0.5, 0.5]), part, part, np.array([-1.0]))
    np.testing.assert_allclose(full(made), 0.25 - part @ part.T)


# ------------------------------------------------------------------ two phases


def test_bins_by_hand():
    """Ten items, ε₀ = .2, ends doubling: .2, .4, .8, 1.6, log 10 in units of 1/10."""
    marginal = np.array([0.01, 0.02, 0.03, 0.05, 0.06, 0.07, 0.09, 0.12, 0.17, 0.38])
    bins = marginal_bins(marginal, 1000.0, 0.2, 2.0, 1.0)
    np.testing.assert_allclose(bins.edges, [0.2, 0.4, 0.8, 1.6, np.log(10)])
    assert bins.level.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 4, 5]
    np.testing.assert_allclose(bins.mass, [0.01, 0.05, 0.18, 0.21, 0.17, 0.38])
    assert bins.number.tolist() == [1, 2, 3, 2, 1, 1]
    assert bins.n_levels == 6
    # least mass: ε₀ up to 1/M, ε₀/upper beyond, ε₀ for the heaviest; the lightest always goes
    assert bins.skipped.tolist() == [True, True, True, False, False, False]
    np.testing.assert_allclose(
        bins.most_sum, 1000 * bins.mass * np.array([0.4, 0.8, 1.6, 3.2, 2 * np.log(10), 3.8]) / 10
    )
    lighter = marginal_bins(marginal, 1000.0, 0.2, 2.0, 0.0)
    np.testing.assert_allclose(lighter.most_sum[:5], bins.most_sum[:5] / 2)
    assert lighter.most_sum[5] == bins.most_sum[5]


def test_the_heaviest_bin_must_hold_epsilon_and_few_items_have_one_bin_between():
    few = marginal_bins(np.array([0.5, 0.5]), 10.0, 0.3, 3.0, 1.0)
    np.testing.assert_allclose(few.edges, [0.3, 0.9])  # log 2 is below ε₀ · width
    assert few.level.tolist() == [2, 2]
    assert few.skipped.tolist() == [True, True, False]
    light = np.full(100, 0.85 / 99)
    light[0] = 0.15
    assert marginal_bins(light, 10.0, 0.2, 2.0, 1.0).skipped[-1]
    assert not marginal_bins(light, 10.0, 0.15, 2.0, 1.0).skipped[-1]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("shape", [(9, 9), (11, 7)])
def test_large_and_small_blocks_have_the_same_leading_vectors(monkeypatch, symmetric, shape):
    if symmetric and shape[0] != shape[1]:
        return
    rng = np.random.default_rng(3)
    u = [np.where(np.arange(size) % 2, 1.0, -0.6) for size in shape]
    block = np.full(shape, 0.01) + 0.008 * np.outer(*u) + 0.001 * rng.random(shape)
    parts = [block.sum(axis=1) / block.sum() * 0.3, block.sum(axis=0) / block.sum() * 0.3]
    scales = [np.sqrt(part) for part in parts]
    scales[0] = scales[0].copy()
    E = block / np.outer(*scales) - np.outer(parts[0] / scales[0], parts[1] / scales[1])
    if symmetric:
        parts, scales = [parts[0]] * 2, [scales[0]] * 2
        E = (block + block.T) / 2 / np.outer(*scales) - np.outer(parts[0] / scales[0], parts[1] / scales[1])
    for below in (40, 2):
        monkeypatch.setattr(svd_module, "DENSE_BELOW", below)
        one, two = init._leading(sp.csr_array(block), parts, scales, symmetric)
        a, s, b = np.linalg.svd(E)
        np.testing.assert_allclose(np.outer(one, two), s[0] * np.outer(a[:, 0], b[0]), atol=1e-10)
        assert np.linalg.norm(one) == pytest.approx(np.linalg.norm(two))


def test_a_block_of_unlike_pairs_alone_has_no_separation(monkeypatch):
    """The symmetric case asks for the largest value, and none is above zero."""
    block = np.full((6, 6), 0.01)
    part = np.full(6, 0.6)  # far more taken off than is there
    for below in (40, 2):
        monkeypatch.setattr(svd_module, "DENSE_BELOW", below)
        one, two = init._leading(sp.csr_array(block), [part] * 2, [np.ones(6)] * 2, True)
        np.testing.assert_allclose(one, 0.0, atol=1e-6)
        assert two is one


def test_signs_of_levels_are_stitched_by_the_company_of_the_longest():
    """Claim 3.8: two levels; the second goes with the first's + items where its − half is more often beside them."""
    matrix = np.zeros((4, 4))
    matrix[0] = [9, 1, 2, 8]  # item 0 is the + part of the longest
    matrix[1] = [1, 9, 8, 2]
    matrix[2], matrix[3] = [2, 8, 1, 1], [8, 2, 1, 1]
    long_, short = np.array([0.5, -0.5]), np.array([0.1, -0.1])
    first, second = np.array([0, 1]), np.array([2, 3])
    for symmetric in (True, False):
        for turn in (1.0, -1.0):
            blocks = [([first, first], [long_, long_]), ([second, second], [turn * short, turn * short])]
            deltas = [np.zeros(4), np.zeros(4)]
            init._stitch(sp.csr_array(matrix), blocks, deltas, symmetric)
            for delta in deltas:
                np.testing.assert_allclose(delta, [0.5, -0.5, -0.1, 0.1])  # item 3 goes with item 0
            blocks.reverse()
            deltas = [np.zeros(4), np.zeros(4)]
            init._stitch(sp.csr_array(matrix), blocks, deltas, symmetric)
            np.testing.assert_allclose(deltas[0], [0.5, -0.5, -0.1, 0.1])


def test_a_level_is_turned_by_the_vectors_of_its_columns_and_both_sides_with_it():
    """Rows' signs say nothing; a column without separation counts with the − part."""
    matrix = np.zeros((4, 5))
    matrix[0] = [9, 1, 8, 1, 8]
    matrix[1] = [1, 9, 2, 9, 2]
    top, low = [np.array([0.5, -0.5])] * 2, [np.array([-0.3, 0.1]), np.array([0.0, 0.2, -0.1])]
    blocks = [([np.array([0, 1])] * 2, top), ([np.array([2, 3]), np.array([2, 3, 4])], low)]
    deltas = [np.zeros(4), np.zeros(5)]
    init._stitch(sp.csr_array(matrix), blocks, deltas, False)
    np.testing.assert_allclose(deltas[0], [0.5, -0.5, 0.3, -0.1])
    np.testing.assert_allclose(deltas[1], [0.5, -0.5, 0.0, -0.2, 0.1])
    matrix[:2, 2:] = [[1, 8, 1], [9, 2, 9]]
    init._stitch(sp.csr_array(matrix), blocks, deltas, False)
    np.testing.assert_allclose(deltas[1], [0.5, -0.5, 0.0, 0.2, -0.1])


def test_anchors_are_plus_items_of_levels_that_show_separation():
    bins = marginal_bins(np.array([0.01, 0.02, 0.03, 0.05, 0.06, 0.07, 0.09, 0.12, 0.17, 0.38]), 1e4, 0.2, 2.0, 1.0)
    delta = np.array([0.5, 0.3, -0.1, 1e-5, 1e-5, -1e-5, 0.2, 0.0, 0.1, -0.4])
    side = SideEstimate(np.ones(10), delta, bins, 0)
    limit = [np.sqrt(np.sqrt(most) / 1e4) for most in bins.most_sum]
    want = []
    for i in range(10):
        level = bins.level[i]
        length = np.sqrt(sum(delta[j] ** 2 for j in range(10) if bins.level[j] == level))
        want.append(bool(level > 0 and delta[i] > 0 and length > limit[level]))
    assert want == [False, True, False, False, False, False, True, False, True, False]
    assert init._anchors(side, delta, 1e4, 0).tolist() == want
    assert init._anchors(side, delta, 1e4, 1).tolist() == (delta > 0).tolist()


def test_rows_far_heavier_than_their_level_are_set_to_zero():
    """(22): a row goes when its sum exceeds twice what its level leads to expect."""
    n = 30
    C = np.ones((n, n))
    C[0, 1:] = C[1:, 0] = 0
    C[0, 0] = 31.0  # the others have 29
    bins = [marginal_bins(np.full(n, 1 / n), float(C.sum()), 0.05, np.e, 1.0)] * 2
    level = int(bins[0].level[0])
    assert (bins[0].level == level).all()
    assert level < bins[0].n_levels - 1
    tight, loose = (replace(bins[0], most_sum=np.full(bins[0].n_levels, most)) for most in (15.0, 15.5))
    marginals = [np.full(n, 1 / n)] * 2
    for symmetric in (True, False):
        first = init._phase_one(read_counts(C), marginals, [tight, tight], symmetric)
        assert [side.removed for side in first] == [1, 1]
    first = init._phase_one(read_counts(C), marginals, [loose, loose], False)
    assert [side.removed for side in first] == [0, 0]


def test_phase_two_that_would_multiply_noise_leaves_phase_one():
    even = read_counts(np.ones((12, 12)))
    found = pair_phases(even, symmetric=True)
    assert not found.anchored
    assert not found.condition < init.MOST_CONDITION
    for side in (0, 1):
        np.testing.assert_allclose(found.marginal[side], 1 / 12)
        np.testing.assert_array_equal(found.delta[side], found.first[side].delta)


def test_without_a_round_there_is_no_phase_two():
    half = np.where(np.arange(12) < 6, 1.0, -1.0)
    world = read_counts(10 * (1 + 0.6 * np.outer(half, half)))
    alone, both = pair_phases(world, symmetric=True, rounds=0), pair_phases(world, symmetric=True)
    assert (alone.anchored, both.anchored) == (False, True)
    assert alone.condition == np.inf
    assert both.condition < init.MOST_CONDITION
    for found in (alone, both):
        np.testing.assert_allclose(np.outer(found.delta[0], found.delta[0]), 0.6 * np.outer(half, half) / 144)
        np.testing.assert_allclose(found.marginal[0], 1 / 12)


def test_heavy_rows_go_without_the_columns_of_the_same_number():
    n = 30
    C = np.ones((n, n))
    C[4] = 2.0  # a row of 60, columns of 31
    bins = marginal_bins(np.full(n, 1 / n), float(C.sum()), 0.05, np.e, 1.0)
    tight = replace(bins, most_sum=np.full(bins.n_levels, 16.0))
    found = init._phase_one(read_counts(C), [np.full(n, 1 / n)] * 2, [tight, tight], False)
    assert [side.removed for side in found] == [1, 0]
    found = init._phase_one(read_counts(C), [np.full(n, 1 / n)] * 2, [tight, tight], True)
    assert [side.removed for side in found] == [1, 1]
    # what is left of row 4 is −ρρᵀ alone: its separation is the longest
    assert np.abs(found[0].delta).argmax() == 4 or not found[0].delta.any()


def test_the_heaviest_levels_of_sides_with_other_numbers_of_levels_meet():
    """Others meet by their number; where none can, the two levels with most mass do."""
    laws = [1 / np.arange(1, size + 1) for size in (40, 2000)]
    rows, columns = (marginal_bins(law / law.sum(), 1e4, 0.05, np.e, 1.0) for law in laws)
    assert rows.n_levels < columns.n_levels
    assert not rows.skipped[-1]
    assert not columns.skipped[-1]
    found = init._partners([rows, columns])
    assert found[-1] == (rows.n_levels - 1, columns.n_levels - 1)
    assert all(row == column < rows.n_levels - 1 for row, column in found[:-1])
    assert all(not rows.skipped[row] and not columns.skipped[column] for row, column in found)
    even = [marginal_bins(np.array(law), 1e4, 0.05, np.e, 1.0) for law in ([0.5, 0.5], [1e-3] * 999 + [1e-3])]
    assert init._partners(even) == [tuple(int(part.mass.argmax()) for part in even)]
