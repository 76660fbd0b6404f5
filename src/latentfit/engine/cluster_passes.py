"""Passes over blocks of real rows that lie on the workers of a dask cluster: the same bits as `engine/passes.py`.

What is made of rows (`mapped`) stays on the workers too; what a function keeps per row travels with the call.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.stored_matrix import StoredMatrix
from latentfit.engine.blas import one_blas_thread
from latentfit.engine.passes import Found, LeastRows, RowPasses, View, Words, Work, add_found, worked
from latentfit.engine.workers import Spans

Span = list[list[Floats]]
"""Parts, each a list of blocks."""


class ClusterPasses(RowPasses):
    """Passes on the workers of a cluster."""

    def __init__(self, rows: StoredMatrix, seed: int, engine: str) -> None:
        super().__init__(rows, seed)
        self.width = rows.n_features
        begins, sizes = range(0, rows.n_rows, self.part_rows), (self.block_rows, self.part_rows)
        self.spans = Spans(engine, begins, _load, replace(rows, lease=None), sizes=sizes)

    @property
    def n_features(self) -> int:
        return self.width

    def sums(self, work: Work, *args: Any, beside: NDArray[Any] | None = None) -> Found:
        shares = [None if beside is None else beside[span[0] : span[-1] + self.part_rows] for span in self.spans.parts]
        found = self.spans.answers(_span_sums, shares, work=work, args=args)
        return add_found(part for span in found for part in span)

    def mapped(self, view: View, *args: Any) -> ClusterPasses:
        new = copy(self)
        new.spans = self.spans.made(_span_mapped, view=view, args=args)
        new.width = view(self.rows.values_of(0, 1), *args).shape[1]
        return new

    def sample(self, most: int, view: View | None = None, *args: Any) -> tuple[Floats, Words]:
        least = LeastRows(most, self.n_rows)
        for rows, hashes in self.spans.answers(_span_sample, most=most, seed=self.seed, view=view, args=args):
            least.add(hashes, rows)
        return least.found()


def _load(begins: list[int], rows: StoredMatrix, sizes: tuple[int, int]) -> Span:
    """On a worker: the blocks of some parts."""
    block, part = sizes
    ends = [min(begin + part, rows.n_rows) for begin in begins]
    return [
        [rows.values_of(at, min(at + block, end)) for at in range(begin, end, block)]
        for begin, end in zip(begins, ends, strict=True)
    ]


def _span_sums(span: Span, share: NDArray[Any] | None, work: Work, args: tuple[Any, ...]) -> list[Found]:
    """On a worker: one sum per part."""
    out, at = [], 0
    with one_blas_thread():
        for part in span:
            found = []
            for block in part:
                beside = None if share is None else share[at : at + len(block)]
                found.append(worked(block, work, args, beside))
                at += len(block)
            out.append(add_found(found))
    return out


def _span_mapped(span: Span, view: View, args: tuple[Any, ...]) -> Span:
    """On a worker: other rows for these."""
    with one_blas_thread():
        return [[view(block, *args) for block in part] for part in span]


def _span_sample(span: Span, most: int, seed: int, view: View | None, args: tuple[Any, ...]) -> tuple[Floats, Words]:
    """On a worker: the span's rows with the smallest hashes, one more than asked for."""
    blocks = [block for part in span for block in part]
    least = LeastRows(most, sum(map(len, blocks)))
    with one_blas_thread():
        for block in blocks:
            least.look(block, None, seed, view, args)
    return least.held()
