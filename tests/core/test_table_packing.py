"""Packed columns: the same cells, the same sums, whatever is packed with what."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from latentfit.core.kernels import DenseCodes, mixture_rows, mixture_sums
from latentfit.core.mixture.init import random_init
from latentfit.core.table.table import Column, Table, plan_groups, plan_packing
from latentfit.engine.memory import MemoryEngine, posterior_of

SIZES = {"binary": [2] * 23, "mixed": [2, 3, 10, 2, 7, 4, 1, 2, 2, 5], "wide": [2, 300, 2, 3, 2, 2]}


def made(sizes: list[int], missing_columns: float, seed: int = 0, n_rows: int = 4_000) -> Table:
    rng = np.random.default_rng(seed)
    dtype = np.uint16 if max(sizes) > 254 else np.uint8
    codes = np.stack([rng.integers(size, size=n_rows) for size in sizes], axis=1).astype(dtype)
    codes[rng.random(codes.shape) < missing_columns] = np.iinfo(dtype).max
    columns = tuple(Column(str(n), np.arange(size)) for n, size in enumerate(sizes))
    return Table(codes, columns, rng.random(n_rows))


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("missing_columns", [0.0, 0.2, 1.0])
def test_packing_changes_no_sum(kind: str, missing_columns: float) -> None:
    table = made(SIZES[kind], missing_columns)
    assert table.packing is not None
    assert len(table.packing.groups) < table.n_columns
    assert np.array_equal(table.packing.unpack(table.packing.pack(table.codes), table.codes.dtype), table.codes)
    plain = made(SIZES[kind], missing_columns)
    plain.__dict__["packing"] = None
    mixture = random_init(table, 5, np.random.default_rng(1))
    packed, unpacked = MemoryEngine(table, 1).sums(mixture), MemoryEngine(plain, 1).sums(mixture)
    assert packed.log_likelihood == pytest.approx(unpacked.log_likelihood, rel=1e-12)
    assert np.allclose(packed.totals, unpacked.totals, rtol=1e-10)
    assert np.allclose(packed.table, unpacked.table, rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(*(posterior_of(MemoryEngine(t, 2), mixture) for t in (table, plain)), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_a_state_stands_for_the_cells_of_its_rows() -> None:
    table = made(SIZES["mixed"], 0.3, n_rows=50)
    packing = plan_packing(4_000, table.column_offsets, table.missing_columns)
    assert packing is not None
    cells = DenseCodes(packing.pack(table.codes), packing.column_offsets, packing.columns)
    log_table = np.arange(float(table.column_offsets[-1]))[
        :, None
    ]  # one class: a row's logarithm is the sum of its cells'
    present = table.codes < np.diff(table.column_offsets)
    want = np.where(present, table.column_offsets[:-1] + table.codes, 0).sum(axis=1)
    for at in (cells, pickle.loads(pickle.dumps(cells))):
        assert np.array_equal(mixture_rows(at, np.zeros(1), log_table)[1], want)
    _, totals, sums = mixture_sums(cells, np.zeros(1), log_table)
    assert totals[0] == 50
    assert np.array_equal(
        sums[:, 0], np.bincount((table.column_offsets[:-1] + table.codes)[present], minlength=len(log_table))
    )


def test_few_rows_are_not_packed_far() -> None:
    states = np.full(40, 2, np.intp)
    assert len(plan_groups(5, states)) == 40
    assert len(plan_groups(1_000_000, states)) == 5
    assert sum(group.stop - group.start for group in plan_groups(700, states)) == 40
