"""Initial models of hidden Markov models: two states by three moments, any number by trigrams, splits of states."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.assign import match_classes
from latentfit.hmm import init
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.fit import spectral_inits
from latentfit.hmm.em.steps import Chain
from latentfit.hmm.init import (
    EDGE,
    TwoStateMoments,
    chain_by_slices,
    chain_by_vertices,
    diagonalise,
    neighbours_of,
    solve_two_states,
    two_state_chain,
)
from latentfit.simulate import hidden_markov

GAP = -1


def some_sequences(seed=0, n_symbols=5):
    """Three sequences, one of two steps, with a fifth of the steps gaps."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_symbols, 60).astype(np.int32)
    codes[10:30] = np.minimum(codes[10:30], 1)  # a stretch that looks different
    codes[rng.random(60) < 0.2] = GAP
    return Sequences(codes, np.array([0, 31, 33, 60]), np.arange(n_symbols), np.arange(3))


def stretches(data, length):
    """All runs of observed symbols inside one sequence, step by step."""
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        for at in range(begin, end - length + 1):
            run = data.codes[at : at + length].tolist()
            if GAP not in run:
                yield at, run


def features_of(C, centred_rank, symmetric):
    """u/√scale of the leading vectors of (C/N − ρρᵀ)/√(scale scale), scale = ρ + mean ρ, both sides."""
    P = C / C.sum()
    P = (P + P.T) / 2 if symmetric else P
    rows, columns = P.sum(axis=1), P.sum(axis=0)
    scales = [part + part.mean() for part in (rows, columns)]
    E = (P - np.outer(rows, columns)) / np.sqrt(np.outer(*scales))
    u, _, vt = np.linalg.svd(E)
    u, v = u[:, :centred_rank], vt[:centred_rank].T
    signs = np.sign(u[np.abs(u).argmax(axis=0), np.arange(centred_rank)])
    return u * signs / np.sqrt(scales[0])[:, None], v * signs / np.sqrt(scales[1])[:, None], rows


# ------------------------------------------------------------------ two states


@pytest.mark.parametrize("given", [False, True])
def test_the_moments_of_two_states_are_means_over_observed_stretches(monkeypatch, given):
    data = some_sequences()
    seen = {}
    monkeypatch.setattr(init, "solve_two_states", lambda rho, moments: seen.update(rho=rho, moments=moments))
    places = [at for at, _ in stretches(data, 3)][::3] if given else None
    two_state_chain(data, trigrams=np.array([*places, 1, 30]) if given else None)

    C = np.zeros((5, 5))
    for _, (i, j) in stretches(data, 2):
        C[i, j] += 1
    left, _, rho = features_of(C, 1, True)
    f = left[:, 0] - rho @ left[:, 0]
    used = [*places, 1, 30] if given else range(60)
    triples = [run for at, run in stretches(data, 3) if at in used]
    company = []
    for x in range(5):
        beside = [f[j] for _, (i, j) in stretches(data, 2) if i == x] + [
            f[i] for _, (i, j) in stretches(data, 2) if j == x
        ]
        company.append(np.mean(beside))
    moments = seen["moments"]
    np.testing.assert_allclose(seen["rho"], rho)
    assert moments.near == pytest.approx(np.mean([f[i] * f[j] for _, (i, j) in stretches(data, 2)]))
    assert moments.far == pytest.approx(np.mean([f[i] * f[k] for i, _, k in triples]))
    assert moments.third == pytest.approx(np.mean([f[i] * f[j] * f[k] for i, j, k in triples]))
    np.testing.assert_allclose(moments.company, company)


@pytest.mark.parametrize("gap", [0, 1, 2])
def test_a_trigram_with_a_missing_value_is_not_counted(gap):
    codes = np.array([0, 1, 1, 0, 1, 1, 0, 0], np.int32)
    codes = np.concatenate([codes[:2], [GAP], codes[2:4], [GAP], codes[4:6]]).astype(np.int32)  # no three in a row
    data = Sequences(codes, np.array([0, len(codes)]), np.arange(2), np.arange(1))
    assert data.pairs().sum() > 0
    assert two_state_chain(data) is None
    at = np.flatnonzero(codes == GAP)[0] - gap  # the gap is first, second or third
    assert two_state_chain(data, trigrams=np.array([at])) is None


def known(share, m_high, rate, noise_third=0.0):
    """near, far and third of two states whose features have mean zero, by the sums of the docstring."""
    m = np.array([m_high, -share * m_high / (1 - share)])
    pi = np.array([share, 1 - share])
    v = float(pi @ m**2)
    return rate * v, rate**2 * v, rate**2 * float(pi @ m**3) + noise_third, m


@pytest.mark.parametrize("rate", [0.6, -0.4])
def test_the_quadratic_equation_gives_means_weights_and_rate_back(rate):
    share = 0.3
    near, far, third, m = known(share, 1.5, rate)
    rho = np.array([0.4, 0.35, 0.25])
    belongs = np.array([0.7, 0.05, 0.01])
    belongs *= share / (rho @ belongs)
    company = rate * (belongs * m[0] + (1 - belongs) * m[1])
    found = solve_two_states(rho, TwoStateMoments(near, far, third, company))
    pi = np.array([share, 1 - share])
    np.testing.assert_allclose(found.start, pi)
    np.testing.assert_allclose(found.transitions, rate * np.eye(2) + (1 - rate) * pi)
    np.testing.assert_allclose(found.emissions, np.stack([rho * belongs / share, rho * (1 - belongs) / (1 - share)]))


def rate_of(near, far, third=0.0, company=(0.3, -0.3)):
    found = solve_two_states(np.array([0.5, 0.5]), TwoStateMoments(near, far, third, np.array(company)))
    return float(found.transitions[0, 0] - found.transitions[1, 0])


def test_a_rate_that_noise_puts_outside_its_range_is_moved_to_its_edge():
    assert rate_of(0.2, 0.1) == pytest.approx(0.5)
    assert rate_of(0.2, 0.3) == pytest.approx(1 - EDGE, abs=2 * EDGE)  # λ > 1, and transitions off 0 and 1
    assert rate_of(-0.2, 0.3) == pytest.approx(-1 + EDGE, abs=3 * EDGE)  # λ < −1
    assert rate_of(0.2, -0.1) == pytest.approx(0.5)  # λ has the sign of E f(x₁) f(x₂)
    assert rate_of(-0.2, -0.1) == pytest.approx(-0.5)
    assert rate_of(0.2, -0.002) == rate_of(0.2, 0.0) == pytest.approx(0.05)
    assert rate_of(0.2, 0.2 * EDGE / 2) == pytest.approx(0.05)  # too near to zero
    assert rate_of(-0.2, 0.0) == pytest.approx(-0.05)
    assert rate_of(0.2, 0.2 * 0.02) == pytest.approx(0.02)  # small, of the right sign: as it is


def test_moments_without_structure_show_no_two_states():
    rho = np.array([0.5, 0.5])
    assert solve_two_states(rho, TwoStateMoments(0.0, 0.1, 0.1, np.zeros(2))) is None
    far_off = np.array([50.0, 50.0])  # every symbol wholly of one state: the other has no emissions
    assert solve_two_states(rho, TwoStateMoments(0.2, 0.1, 0.0, far_off)) is None
    assert solve_two_states(rho, TwoStateMoments(0.2, 0.1, 0.0, -far_off)) is None


def test_weights_and_transitions_of_two_states_stay_off_zero_and_one():
    skewed = TwoStateMoments(0.2, 0.1, 1e3, np.array([3.0, -0.3]))
    found = solve_two_states(np.array([0.01, 0.99]), skewed)
    assert found.start[0] == pytest.approx(EDGE)
    assert found.transitions.min() >= EDGE / (1 + EDGE)
    np.testing.assert_allclose(found.transitions.sum(axis=1), 1.0)


# ------------------------------------------------------------------ slices


def test_features_of_symbols_are_those_of_their_neighbours():
    data, K = some_sequences(1), 3
    C = np.zeros((5, 5))
    for _, (i, j) in stretches(data, 2):
        C[i, j] += 1
    before, after, _ = features_of(C, K - 1, False)
    around = neighbours_of(data, K)
    np.testing.assert_allclose(around.before, np.column_stack([np.ones(5), before]), atol=1e-9)
    np.testing.assert_allclose(around.after, np.column_stack([np.ones(5), after]), atol=1e-9)
    for x in range(5):
        out = [after[j] for _, (i, j) in stretches(data, 2) if i == x]
        into = [before[i] for _, (i, j) in stretches(data, 2) if j == x]
        np.testing.assert_allclose(around.out_of[x], np.mean(out, axis=0), atol=1e-9)
        np.testing.assert_allclose(around.into[x], np.mean(into, axis=0), atol=1e-9)
        assert around.frequencies[x] == pytest.approx((data.codes == x).sum() / (data.codes >= 0).sum())


def test_slices_are_means_over_trigrams_in_blocks_of_any_size(monkeypatch):
    data = some_sequences(2)
    around = neighbours_of(data, 3)
    monkeypatch.setattr(init, "AT_ONCE", 4)
    pair, slices = init._moments(data, around)
    runs = [run for _, run in stretches(data, 3)]
    assert len(runs) > 4
    weights = np.hstack([around.before[:, 1:], around.after[:, 1:]])
    np.testing.assert_allclose(pair, np.mean([np.outer(around.before[i], around.after[k]) for i, _, k in runs], axis=0))
    assert len(slices) == weights.shape[1]
    for g, found in enumerate(slices):
        want = np.mean([weights[j, g] * np.outer(around.before[i], around.after[k]) for i, j, k in runs], axis=0)
        np.testing.assert_allclose(found, want, atol=1e-12)


def test_slices_without_any_trigram_are_zero():
    whole = some_sequences(2)
    none = Sequences(np.array([0, 1, GAP, 1], np.int32), np.array([0, 4]), np.arange(5), np.arange(1))
    pair, slices = init._moments(none, neighbours_of(whole, 3))
    assert not pair.any()
    assert not slices.any()
    assert chain_by_slices(none, neighbours_of(whole, 3), np.random.default_rng(0)) is None


def test_of_noisy_mixtures_the_one_that_explains_all_slices_best_is_kept(monkeypatch):
    rng = np.random.default_rng(5)
    omega, values = np.vstack([np.ones(3), rng.standard_normal((2, 3))]), rng.standard_normal((4, 3))
    pair = omega @ np.diag([0.2, 0.3, 0.5]) @ np.hstack([np.ones((3, 1)), rng.standard_normal((3, 2))])
    turned = np.array([omega @ np.diag(row) @ np.linalg.inv(omega) for row in values])
    slices = turned @ pair + 0.02 * rng.standard_normal((4, 3, 3))
    monkeypatch.setattr(init, "MIXTURES", 6)
    found = diagonalise(pair, slices, np.random.default_rng(1))

    best = (np.inf, None)
    for mixture in np.random.default_rng(1).standard_normal((6, 4)):
        mixed = sum(weight * one for weight, one in zip(mixture, slices, strict=True)) @ np.linalg.inv(pair)
        eigenvalues, V = np.linalg.eig(mixed)
        if eigenvalues.imag.any():  # numpy 2.5 calls all of them complex
            continue
        V = V.real / V.real[0]
        left = 0.0
        for one in slices:
            inside = np.linalg.inv(V) @ one @ np.linalg.inv(pair) @ V
            left += sum(inside[i, j] ** 2 for i in range(3) for j in range(3) if i != j)
        if left < best[0]:
            best = left, V
    np.testing.assert_allclose(found[0], best[1].T, atol=1e-7)
    zeta = np.linalg.inv(best[1]) @ pair
    np.testing.assert_allclose(found[1], zeta / zeta[:, :1], atol=1e-7)


def test_slices_that_no_states_explain_give_no_anchors():
    rng = np.random.default_rng(0)
    turn = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    assert diagonalise(np.eye(2), turn, rng) is None  # complex values only
    assert diagonalise(np.eye(2), np.array([np.diag([1.0, 2.0])]), rng) is None  # a corner whose first feature is zero
    assert diagonalise(np.array([[1.0, np.nan], [0.0, 1.0]]), turn, rng) is None
    assert diagonalise(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]]), turn, rng) is None  # too nearly singular
    V = np.array([[1.0, 1.0], [1.0, -1.0]])
    slices = np.array([V @ np.diag([1.0, 3.0]) @ np.linalg.inv(V)])
    assert diagonalise(V, slices @ V, rng) is None  # zeta has a zero for first feature: a state without share
    fine = V @ np.array([[0.5, 0.2], [0.5, -0.3]])
    assert diagonalise(fine, slices @ fine, rng) is not None


# ---------------------------------------------------------- from corners to a chain


def expected_world(seed=0, K=3, M=12):
    """A chain with two symbols of its own for every state, and its expected bigrams in place of counted ones."""
    rng = np.random.default_rng(seed)
    transitions = 0.5 * np.eye(K) + 0.5 * rng.dirichlet(np.ones(K), K)
    emissions = rng.dirichlet(np.ones(M), K)
    emissions[:, : 2 * K] = np.kron(np.eye(K), [0.2, 0.3])
    emissions /= emissions.sum(axis=1, keepdims=True)
    values, vectors = np.linalg.eig(transitions.T)
    pi = np.abs(vectors[:, values.real.argmax()].real)
    pi /= pi.sum()
    B = emissions.T @ np.diag(pi) @ transitions @ emissions
    data = SimpleNamespace(n_symbols=M, pairs=lambda: sp.csr_array(1e6 * B), counts=lambda: 1e6 * (pi @ emissions))
    return Chain(pi, transitions, emissions), neighbours_of(data, K)


def assert_same_chain(found, truth, frequencies):
    order = np.abs(truth.emissions[:, None] - found.emissions[None]).sum(axis=2).argmin(axis=1)
    found = found.permuted(order)
    K = len(truth.start)
    np.testing.assert_allclose(found.start, truth.start, atol=1e-6)
    np.testing.assert_allclose(found.emissions, 0.95 * truth.emissions + 0.05 * frequencies, atol=1e-6)
    np.testing.assert_allclose(found.transitions, 0.95 * truth.transitions + 0.05 / K, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_expected_bigrams_and_pure_symbols_give_the_chain(K):
    truth, around = expected_world(K, K)
    assert_same_chain(chain_by_vertices(around), truth, around.frequencies)


def test_known_anchors_give_the_chain_without_pure_symbols():
    truth, around = expected_world(1)
    back = (truth.transitions * truth.start[:, None]).T / truth.start[:, None]
    after, before = truth.emissions @ around.after[:, 1:], truth.emissions @ around.before[:, 1:]
    anchors = np.hstack([truth.transitions @ after, back @ before])
    assert_same_chain(init._chain_at(around, anchors), truth, around.frequencies)


def test_expected_trigrams_give_the_chain(monkeypatch):
    truth, around = expected_world(2)
    back = (truth.transitions * truth.start[:, None]).T / truth.start[:, None]
    omega, zeta = back @ truth.emissions @ around.before, truth.transitions @ truth.emissions @ around.after
    weights = truth.emissions @ np.hstack([around.before, around.after[:, 1:]])
    slices = np.einsum("k,kg,ki,kj->gij", truth.start, weights, omega, zeta)
    monkeypatch.setattr(init, "_moments", lambda data, around: (slices[0], slices[1:]))
    found = chain_by_slices(None, around, np.random.default_rng(0))
    assert_same_chain(found, truth, around.frequencies)


def test_points_keep_their_distances_in_the_plane_they_lie_in():
    rng = np.random.default_rng(3)
    flat = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 4)) + rng.standard_normal(4)
    mass = rng.dirichlet(np.ones(9))
    points, same = init._in_the_plane(flat, mass)
    assert points.shape == (9, 2)
    assert same is mass
    for i in range(9):
        np.testing.assert_allclose(
            np.linalg.norm(points - points[i], axis=1), np.linalg.norm(flat - flat[i], axis=1), atol=1e-9
        )


def test_the_plane_is_that_of_the_heavy_points():
    """A stray point without mass does not turn it."""
    points = np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 0.0], [0.0, 50.0]])
    found, _ = init._in_the_plane(points, np.array([0.4, 0.3, 0.3, 0.0]))
    np.testing.assert_allclose(np.abs(found[:, 0]), [1.0, 1.0, 0.5, 0.0], atol=1e-12)


def model(seed, K, M):
    rng = np.random.default_rng(seed)
    transitions = 0.5 * np.eye(K) + 0.5 * rng.dirichlet(np.ones(K), K)
    chain = Chain(np.full(K, 1 / K), transitions, rng.dirichlet(np.full(M, 0.4), K))
    return chain, chain.stationary()


@pytest.mark.parametrize("seed", range(5))
def test_two_states_from_exact_moments(seed):
    chain, pi = model(seed, 2, 30)
    rho = pi @ chain.emissions
    rng = np.random.default_rng(seed)
    joint = chain.emissions.T @ np.diag(pi) @ chain.transitions @ chain.emissions  # B
    feature = (chain.emissions[0] - chain.emissions[1]) / rho * rng.uniform(0.5, 2)  # Δ/ρ, of any length and sign
    feature -= rho @ feature
    far = chain.emissions.T @ np.diag(pi) @ chain.transitions @ chain.transitions @ chain.emissions
    means = chain.emissions @ feature
    third = sum(
        pi[i] * means[i] * chain.transitions[i, j] * means[j] * chain.transitions[j, k] * means[k]
        for i in range(2) for j in range(2) for k in range(2)
    )  # fmt: skip
    company = (joint @ feature + joint.T @ feature) / (2 * rho)
    moments = TwoStateMoments(feature @ joint @ feature, feature @ far @ feature, third, company)
    found = solve_two_states(rho, moments)
    order = match_classes(-np.abs(chain.emissions[:, None] - found.emissions[None]).sum(axis=2))
    found = found.permuted(order)
    np.testing.assert_allclose(found.emissions, chain.emissions, atol=1e-8)
    np.testing.assert_allclose(found.transitions, chain.transitions, atol=1e-8)
    np.testing.assert_allclose(found.start, pi, atol=1e-8)


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_slices_from_exact_moments(K):
    chain, pi = model(K, K, 40)
    rng = np.random.default_rng(K)
    before, after = (np.hstack([np.ones((40, 1)), rng.standard_normal((40, K - 1))]) for _ in range(2))
    back = (chain.transitions * pi[:, None]).T / pi[:, None]  # P(state before | state)
    omega = back @ chain.emissions @ before  # features before and after, given the state in the middle
    zeta = chain.transitions @ chain.emissions @ after
    slices = np.einsum("k,kg,ki,kj->gij", pi, chain.emissions, omega, zeta)
    found = diagonalise(slices.sum(axis=0), slices, rng)
    assert found is not None
    order = match_classes(-np.abs(omega[:, None] - found[0][None]).sum(axis=2))
    np.testing.assert_allclose(found[0][order], omega, atol=1e-8)
    np.testing.assert_allclose(found[1][order], zeta, atol=1e-8)


def test_few_trigrams_are_enough_for_two_states():
    """A hundredth of the trigrams moves the transitions by little, and the emissions by less."""
    made = hidden_markov(100_000, n_states=2, n_symbols=100, overlap=0.1, random_state=3)
    some = np.sort(np.random.default_rng(0).choice(99_998, 5000, replace=False))
    whole, few = two_state_chain(made.sequences), two_state_chain(made.sequences, trigrams=some)
    for found in (whole, few):
        apart = np.abs(made.chain.emissions[:, None] - found.emissions[None]).sum(axis=2)
        order = match_classes(-apart)
        assert apart[[0, 1], order].max() < 0.25
        assert np.abs(found.permuted(order).transitions - made.chain.transitions).max() < 0.1


def test_no_structure_gives_no_initialisation():
    empty = Sequences(np.array([0, 1], np.int32), np.array([0, 1, 2]), np.arange(2), np.arange(2))
    assert two_state_chain(empty) is None
    assert sp.issparse(empty.pairs())
    assert empty.pairs().sum() == 0
    assert diagonalise(np.zeros((3, 3)), np.zeros((4, 3, 3)), np.random.default_rng(0)) is None


@pytest.mark.parametrize("K", [2, 3, 5])
def test_initialisations_are_models(K):
    made = hidden_markov(20_000, n_states=K, n_symbols=60, random_state=K)
    for _, chain in spectral_inits(made.sequences, K, np.random.default_rng(0)):
        for part in (chain.start, chain.transitions, chain.emissions):
            assert (part >= 0).all()
            np.testing.assert_allclose(part.sum(axis=-1), 1.0)
