"""The admixture kernels equal their literal twin; the same bits for any number of threads and in any company."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.kernels.admixture import admixture_curvature, admixture_step
from tests.admixture.reference import curvature, log_likelihood, newton_step

FLOOR = 1e-7


def panel(seed, n_people, n_snps, K, missing=0.2):
    rng = np.random.default_rng(seed)
    proportions = rng.dirichlet(np.ones(K), n_people)
    frequencies = rng.uniform(0.05, 0.95, (n_snps, K))
    calls = rng.binomial(2, frequencies @ proportions.T).astype(np.uint8)
    calls[rng.random(calls.shape) < missing] = 3
    return calls, proportions, frequencies


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 6, 7, 9])
@pytest.mark.parametrize("squares", [False, True])
def test_curvature_equals_the_reference_implementation(K, squares):
    calls, proportions, frequencies = panel(K, 11, 40, K)
    got = admixture_curvature(calls, proportions, frequencies, squares=squares)
    for one, want in zip(got, curvature(calls, proportions, frequencies, squares), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("K", [1, 2, 3, 4])
def test_step_equals_the_reference_implementation(K):
    calls, proportions, frequencies = panel(K, 30, 25, K)
    before, following = admixture_step(calls, proportions, frequencies, floor=FLOOR)
    want = np.array([newton_step(row, proportions, f, FLOOR) for row, f in zip(calls, frequencies, strict=True)])
    np.testing.assert_allclose(following, want, atol=1e-9)
    assert before == pytest.approx(log_likelihood(calls, proportions, frequencies).sum(), rel=1e-12)


@pytest.mark.parametrize("K", [5, 6, 8, 12])
def test_a_step_never_lowers_the_likelihood_and_stays_inside_the_bounds(K):
    calls, proportions, frequencies = panel(K, 40, 300, K)
    frequencies = np.clip(frequencies**8, FLOOR, 1 - FLOOR)  # far from the top
    before, following = admixture_step(calls, proportions, frequencies, floor=FLOOR)
    assert before == pytest.approx(log_likelihood(calls, proportions, frequencies).sum(), rel=1e-12)
    for _ in range(12):  # first far from the top, then near it: no SNP falls by more than rounding
        earlier, (_, following) = following, admixture_step(calls, proportions, following, floor=FLOOR)
        by_snp = [
            (log_likelihood(calls[j : j + 1], proportions, f[j : j + 1]).sum() for f in (earlier, following))
            for j in range(0, 300, 23)
        ]
        assert all(after >= before - 1e-9 for before, after in by_snp)
    assert (following >= FLOOR).all()
    assert (following <= 1 - FLOOR).all()


def test_same_bits_on_threads():
    calls, proportions, frequencies = panel(1, 37, 3000, 4)
    for kernel, options in ((admixture_step, {"floor": FLOOR}), (admixture_curvature, {})):
        one = kernel(calls, proportions, frequencies, threads=1, **options)
        for threads in (2, 3, 7):
            for left, right in zip(
                one, kernel(calls, proportions, frequencies, threads=threads, **options), strict=True
            ):
                assert np.array_equal(left, right)


def test_a_person_alone_has_the_same_bits():
    calls, proportions, frequencies = panel(2, 21, 700, 3)
    together = admixture_curvature(calls, proportions, frequencies)
    for i in (0, 7, 20):
        alone = admixture_curvature(np.ascontiguousarray(calls[:, i : i + 1]), proportions[i : i + 1], frequencies)
        for left, right in zip(together, alone, strict=True):
            assert np.array_equal(left[i], right[0])


def test_people_and_snps_without_calls_have_no_gradient():
    calls, proportions, frequencies = panel(3, 12, 20, 3)
    calls[4] = 3
    _, following = admixture_step(calls, proportions, frequencies, floor=FLOOR)
    assert np.array_equal(following[4], frequencies[4])
    calls[:, 5] = 3
    value, gradient, hessian = admixture_curvature(calls, proportions, frequencies)
    assert value[5] == 0
    assert not gradient[5].any()
    assert not hessian[5].any()


def test_wrappers_refuse_what_a_kernel_cannot_read():
    calls, proportions, frequencies = panel(4, 8, 10, 2)
    with pytest.raises(TypeError, match="calls: want contiguous uint8"):
        admixture_curvature(calls.astype(np.int64), proportions, frequencies)
    with pytest.raises(TypeError, match="frequencies: want contiguous float64"):
        admixture_step(calls, proportions, frequencies[:5], floor=FLOOR)
    with pytest.raises(ValueError, match="give a number from 1 to 64"):
        admixture_curvature(calls, np.full((8, 65), 1 / 65), np.full((10, 65), 0.5))
