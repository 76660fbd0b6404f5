"""The hidden Markov kernels equal their literal twin; the same bits for any number of threads and in any company."""

from __future__ import annotations

import numpy as np
import pytest

import latentfit.core.kernels.hmm as kernels
from latentfit.core.kernels.hmm import Chains, best_paths, chain_log_likelihood, chain_posteriors, chain_sums
from tests.hmm.reference import best_path, forward_backward

SIZES = [7, 0, 1, 12, 30, 12, 3, 25]


def world(seed, K, M=6, sizes=SIZES, missing=0.15):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes = rng.integers(0, M, offsets[-1]).astype(np.int32)
    codes[rng.random(len(codes)) < missing] = -1
    start, A, B = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(M), K)
    return codes, offsets, start, A, B


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 7, 8, 9, 13, 17])
def test_sums_and_posteriors_equal_the_twin(K):
    codes, offsets, *parts = world(K, K)
    chains = Chains(codes, offsets, 6)
    want = forward_backward(codes, offsets, *parts)
    for got, wanted in zip(chain_sums(chains, *parts), want, strict=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    posterior, told = chain_posteriors(chains, *parts)
    np.testing.assert_allclose(posterior, want[4], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(told, want[3], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(chain_log_likelihood(chains, *parts), want[3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("K", [1, 2, 3, 4])
def test_paths_equal_the_twin(K):
    codes, offsets, *parts = world(K, K, sizes=[6, 1, 5, 7])
    path, told = best_paths(Chains(codes, offsets, 6), *parts)
    for s, size in enumerate([6, 1, 5, 7]):
        here = slice(offsets[s], offsets[s] + size)
        want, most = best_path(codes[here], *parts)
        assert path[here].tolist() == want
        assert told[s] == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize("K", [2, 5, 11])
def test_same_bits_for_any_number_of_threads(K):
    rng = np.random.default_rng(K)
    codes, offsets, *parts = world(K, K, M=40, sizes=rng.integers(0, 4000, 150).tolist())
    chains = Chains(codes, offsets, 40)
    one = chain_sums(chains, *parts, threads=1)
    for threads in (2, 3, 8):
        for left, right in zip(one, chain_sums(chains, *parts, threads=threads), strict=True):
            assert np.array_equal(left, right)
        assert np.array_equal(best_paths(chains, *parts)[0], best_paths(chains, *parts, threads=threads)[0])


@pytest.mark.parametrize("K", [2, 5, 9])
def test_a_sequence_has_the_same_bits_alone_and_in_company(K):
    codes, offsets, *parts = world(K, K, M=20, sizes=[50, 200, 3, 120, 77])
    together, told = chain_posteriors(Chains(codes, offsets, 20), *parts)
    for s in range(5):
        here = slice(offsets[s], offsets[s + 1])
        alone = Chains(np.ascontiguousarray(codes[here]), np.array([0, offsets[s + 1] - offsets[s]]), 20)
        posterior, one = chain_posteriors(alone, *parts)
        assert np.array_equal(posterior, together[here])
        assert one[0] == told[s]


@pytest.mark.parametrize("K", [2, 5, 17])
def test_a_chain_too_long_to_keep_gives_the_same_bits(K, monkeypatch):
    codes, offsets, *parts = world(K, K, M=20, sizes=[500, 40])
    whole = chain_posteriors(Chains(codes, offsets, 20), *parts)[0]
    sums = chain_sums(Chains(codes, offsets, 20), *parts)
    monkeypatch.setattr(kernels, "KEPT", 64 * 20)
    assert np.array_equal(chain_posteriors(Chains(codes, offsets, 20), *parts)[0], whole)
    for left, right in zip(chain_sums(Chains(codes, offsets, 20), *parts), sums, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_long_chains_do_not_underflow_and_impossible_steps_cost_a_finite_price():
    codes = np.tile(np.array([0, 1], np.int32), 50_000)
    parts = np.array([1.0, 0.0]), np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]])
    chains = Chains(codes, np.array([0, len(codes)]), 2)
    told = chain_log_likelihood(chains, *parts)[0]
    assert np.isfinite(told)
    assert told < -1e6
    sums = chain_sums(chains, *parts)
    assert sums.emissions.sum() == pytest.approx(len(codes))
    assert np.isfinite(chain_posteriors(chains, *parts)[0]).all()


def test_wrong_arrays_are_refused():
    codes, offsets, *parts = world(0, 2)
    with pytest.raises(TypeError, match="codes: want contiguous int32"):
        Chains(codes.astype(np.int64), offsets, 6)
    with pytest.raises(ValueError, match="codes must lie between -1 and 4"):
        Chains(np.where(codes == 0, 5, codes).astype(np.int32), offsets, 5)
    with pytest.raises(ValueError, match="offsets must rise"):
        Chains(codes, offsets[::-1].copy(), 6)
    with pytest.raises(ValueError, match="300 states asked for"):
        chain_sums(Chains(codes, offsets, 6), np.ones(300) / 300, np.ones((300, 300)) / 300, np.ones((300, 6)) / 6)
    with pytest.raises(ValueError, match="emissions"):
        chain_sums(Chains(codes, offsets, 6), *parts[:2], parts[2][:, :4].copy())
