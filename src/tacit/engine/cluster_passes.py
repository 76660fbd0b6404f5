"""Passes over blocks of real rows that lie on the workers of a dask cluster: the same bits as `engine/passes.py`.

Workers load their spans of parts from the shared file by themselves and keep them, and what is made of them (`mapped`).
A pass sends the parameters to every span and gets one sum per part back, never per span. What a function keeps per row
travels with the call. A span that a dead worker held is loaded and made again by another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tacit.data.matrix import Floats
from tacit.data.stored_matrix import StoredMatrix
from tacit.engine.blas import one_blas_thread
from tacit.engine.cluster import SPANS_PER_WORKER, connect
from tacit.engine.passes import Found, LeastRows, RowPasses, View, Words, Work, add_found, worked

Span = list[list[Floats]]
"""Parts, each a list of blocks."""


class ClusterPasses(RowPasses):
    """Passes on the workers of a cluster."""

    def __init__(self, rows: StoredMatrix, seed: int, address: str | None) -> None:
        super().__init__(rows, seed)
        self.client, self.width = connect(address), rows.n_features
        begins = range(0, rows.n_rows, self.part_rows)
        workers = max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)
        per_span = -(-len(begins) // (SPANS_PER_WORKER * workers))
        self.spans = [list(begins[at : at + per_span]) for at in range(0, len(begins), per_span)]
        self.loaded = self.client.map(
            _load, self.spans, rows=replace(rows, lease=None), sizes=(self.block_rows, self.part_rows), pure=False
        )

    @property
    def n_features(self) -> int:
        return self.width

    def sums(self, work: Work, *args: Any, beside: NDArray[Any] | None = None) -> Found:
        shares = [None if beside is None else self._share(beside, span) for span in self.spans]
        asked = self.client.map(_span_sums, self.loaded, shares, work=work, args=args, pure=False, retries=3)
        return add_found(part for span in self.client.gather(asked) for part in span)

    def _share(self, beside: NDArray[Any], span: list[int]) -> NDArray[Any]:
        return beside[span[0] : span[-1] + self.part_rows]

    def mapped(self, view: View, *args: Any) -> ClusterPasses:
        new = object.__new__(ClusterPasses)
        new.__dict__.update(self.__dict__)
        new.loaded = self.client.map(_span_mapped, self.loaded, view=view, args=args, pure=False, retries=3)
        new.width = view(self.rows.values_of(0, 1), *args).shape[1]
        return new

    def sample(self, most: int, view: View | None = None, *args: Any) -> tuple[Floats, Words]:
        asked = self.client.map(
            _span_sample, self.loaded, most=most, seed=self.seed, view=view, args=args, pure=False, retries=3
        )
        least = LeastRows(most, self.n_rows)
        for rows, hashes in self.client.gather(asked):
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


def _span_sample(
    span: Span, most: int, seed: int, view: View | None, args: tuple[Any, ...]
) -> tuple[Floats, Words]:
    """On a worker: the span's rows with the smallest hashes, one more than asked for."""
    blocks = [block for part in span for block in part]
    least = LeastRows(most, sum(map(len, blocks)))
    with one_blas_thread():
        for block in blocks:
            least.look(block, None, seed, view, args)
    return least.held()
