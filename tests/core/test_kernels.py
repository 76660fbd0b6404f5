"""The compiled passes equal their literal twin, dense and ragged alike, for every width and thread count."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core import kernels
from latentfit.core.kernels import BLOCK_ROWS, CsrRows, DenseCodes
from tests.core.mixture_reference import twin_pass


def random_model(rng, n_rows, sizes, n_classes, dtype=np.uint8, missing=0.3):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    table = rng.dirichlet(np.ones(3), size=(offsets[-1], n_classes)).max(axis=2)
    weights = rng.dirichlet(np.ones(n_classes))
    codes = np.stack([rng.integers(0, size, n_rows) for size in sizes], axis=1).astype(dtype)
    codes[rng.random(codes.shape) < missing] = np.iinfo(dtype).max
    rows = [[int(offsets[n] + c) for n, c in enumerate(row) if c < sizes[n]] for row in codes]
    return codes, offsets, weights, table, rows


def ragged(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return CsrRows(offsets, np.array([c for row in rows for c in row], np.int32))


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 30, 65])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_sums_and_rows_equal_the_twin(n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    codes, offsets, weights, table, rows = random_model(rng, 150, [2, 5, 3, 7], n_classes, dtype)
    want = twin_pass(rows, weights, table)
    for cells in (DenseCodes(codes, offsets), ragged(rows)):
        log_likelihood, totals, sums = kernels.mixture_sums(cells, np.log(weights), np.log(table))
        posterior, by_row = kernels.mixture_rows(cells, np.log(weights), np.log(table))
        assert log_likelihood == pytest.approx(want[0], rel=1e-12)
        for got, expected in zip((totals, sums, posterior, by_row), want[1:], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_row_weights_equal_the_twin():
    rng = np.random.default_rng(1)
    codes, offsets, weights, table, rows = random_model(rng, 200, [3, 3, 3], 4)
    row_weight = rng.exponential(size=200)
    row_weight[::7] = 0.0
    want = twin_pass(rows, weights, table, row_weight)
    for cells in (DenseCodes(codes, offsets), ragged(rows)):
        got = kernels.mixture_sums(cells, np.log(weights), np.log(table), row_weight=row_weight)
        assert got[0] == pytest.approx(want[0], rel=1e-12)
        np.testing.assert_allclose(got[2], want[2], rtol=1e-10, atol=1e-12)


def test_dense_and_ragged_give_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(2)
    n_rows, sizes = 3 * BLOCK_ROWS + 17, [4, 3, 5]
    column_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    codes = np.stack([rng.integers(0, size + 1, n_rows) for size in sizes], axis=1).astype(np.uint8)
    present = codes < np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    both = (
        DenseCodes(codes, column_offsets),
        CsrRows(offsets, (codes + column_offsets[:-1]).astype(np.int32)[present]),
    )
    log_weights = np.log(rng.dirichlet(np.ones(5)))
    log_table = np.log(rng.dirichlet(np.ones(5), size=column_offsets[-1]))
    reference = kernels.mixture_sums(both[0], log_weights, log_table, threads=1)
    for cells in both:
        for threads in (1, 2, 3, 8):
            got = kernels.mixture_sums(cells, log_weights, log_table, threads=threads)
            assert got[0] == reference[0]
            assert np.array_equal(got[1], reference[1])
            assert np.array_equal(got[2], reference[2])


def test_long_unlikely_rows_do_not_underflow():
    column_offsets = np.array([0, 2], np.int32)
    offsets, cells = np.array([0, 5000], np.int64), np.zeros(5000, np.int32)
    log_table = np.log(np.array([[1e-12, 1e-11], [1.0, 1.0]]))
    posterior, log_likelihood = kernels.mixture_rows(CsrRows(offsets, cells), np.log([0.5, 0.5]), log_table)
    assert np.isfinite(log_likelihood).all()
    np.testing.assert_allclose(posterior, [[0.0, 1.0]], atol=1e-300)
    assert column_offsets[-1] == 2


def test_wrappers_refuse_what_a_kernel_cannot_read():
    log_weights, log_table = np.log([0.5, 0.5]), np.log(np.full((4, 2), 0.5))
    with pytest.raises(TypeError, match="indices: want contiguous int32"):
        kernels.mixture_sums(CsrRows(np.array([0, 1]), np.array([0])), log_weights, log_table)
    with pytest.raises(ValueError, match="at most 1024 fit"):
        kernels.mixture_sums(CsrRows(np.array([0, 1]), np.zeros(1, np.int32)), np.zeros(1025), np.zeros((4, 1025)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pair_counts_equal_the_loops(dtype, threads):
    rng = np.random.default_rng(3)
    codes, offsets, _, _, rows = random_model(rng, 97, [2, 4, 3], 2, dtype)
    want = np.zeros((offsets[-1], offsets[-1]), np.int64)
    for cells in rows:
        for index, a in enumerate(cells):
            for b in cells[index:]:
                want[a, b] += 1
    assert np.array_equal(kernels.pair_counts(DenseCodes(codes, offsets), threads=threads), want)
