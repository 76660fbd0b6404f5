"""Passes over genotypes, SNP-major: auxiliary arrays (one row per SNP, e.g. frequencies) stay with their SNPs.

A part is 65,536 SNPs. A function (`SnpWork`) sees the calls of a part in pieces of whole kernel blocks (256 SNPs), one
after another, with that part's rows of the auxiliary arrays; it returns sums, and perhaps one row per SNP. Sums of
blocks are added in order into their part, parts in order, so the pieces may be a whole part (in memory), a few thousand
SNPs read from a file, or lie on the workers of a cluster (`admixture/data/passes.py`): the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from latentfit.admixture.data.genotypes import Genotypes, snps_at_once
from latentfit.admixture.data.stored import AnyGenotypes, StoredGenotypes
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls, admixture_step, curvature_sums, unfold_curvature
from latentfit.engine.dask import Spans
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.engine.passes import Found, add_found

PART_SNPS = 65_536
KERNEL_SNPS = 256
"""SNPs whose sums a kernel adds in order: a piece is a multiple of them, but for the last."""

Pieces = Iterator[tuple[slice, Calls]]
"""Position of a piece in its part, and its calls."""
SnpWork = Callable[..., Found]
"""work(pieces, auxiliary, *args): `auxiliary` are the part's rows of the auxiliary arrays."""


class SnpPasses:
    """Passes over genotypes in memory or in a file."""

    def __init__(self, genotypes: AnyGenotypes, n_jobs: int | None = None) -> None:
        self.genotypes, self.threads, self.part_snps = genotypes, resolve_jobs(n_jobs), PART_SNPS

    @property
    def n_snps(self) -> int:
        return self.genotypes.n_snps

    @property
    def n_persons(self) -> int:
        return self.genotypes.n_samples

    @property
    def n_calls(self) -> int:
        return self.genotypes.n_calls

    def first(self, n_snps: int) -> Calls:
        """Calls of the first SNPs."""
        return self.genotypes.calls_of(0, min(n_snps, self.n_snps))

    def sums(self, work: SnpWork, *args: Any, auxiliary: tuple[Floats, ...] = ()) -> Found:
        """The sums of all parts, and what was made per SNP."""
        return add_found(self._parts(work, args, auxiliary))

    def _parts(self, work: SnpWork, args: tuple[Any, ...], auxiliary: tuple[Floats, ...]) -> Iterator[Found]:
        for begin in range(0, self.n_snps, self.part_snps):
            end = min(begin + self.part_snps, self.n_snps)
            yield work(self._pieces(begin, end), tuple(one[begin:end] for one in auxiliary), *args)

    def _pieces(self, begin: int, end: int) -> Pieces:
        size = self.part_snps
        if isinstance(self.genotypes, StoredGenotypes):
            size = max(snps_at_once(self.n_persons, 1), KERNEL_SNPS)
        for at in range(begin, end, size):
            upto = min(at + size, end)
            yield slice(at - begin, upto - begin), self.genotypes.calls_of(at, upto)

    # ---------------------------------------------------- the two kernels

    def step(self, proportions: Floats, frequencies: Floats, floor: float) -> tuple[float, Floats]:
        """Log-likelihood, and the frequencies (SNP, population) one Newton step further."""
        if not self.n_snps:
            return 0.0, frequencies
        found = self.sums(_step_part, proportions, floor, self.threads, auxiliary=(frequencies,))
        assert found.rows is not None
        return float(found.sums[0]), found.rows

    def curvature(
        self, proportions: Floats, frequencies: Floats, *, squares: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Value (person,), gradient (person, population) and minus the Hessian (person, population, population)."""
        (sums,) = self.sums(_curvature_part, proportions, squares, self.threads, auxiliary=(frequencies,)).sums
        return unfold_curvature(sums, *proportions.shape)


def over_calls(calls: Calls | SnpPasses, n_jobs: int | None = None) -> SnpPasses:
    """Passes over an array of calls (SNP, person); passes stay what they are."""
    if isinstance(calls, SnpPasses):
        return calls
    return SnpPasses(Genotypes(calls, np.arange(calls.shape[1]), np.arange(len(calls))), n_jobs)


def snp_passes_for(genotypes: AnyGenotypes, engine: str, n_jobs: int | None) -> SnpPasses:
    """Where passes run: on a cluster when its name is given and the calls are in a file, else here."""
    if isinstance(genotypes, StoredGenotypes) and engine.startswith("dask"):
        from latentfit.admixture.data.passes import ClusterSnps

        return ClusterSnps(genotypes, engine, n_jobs)
    return SnpPasses(genotypes, n_jobs)


def _step_part(pieces: Pieces, auxiliary: tuple[Floats, ...], proportions: Floats, floor: float, threads: int) -> Found:
    value, following = 0.0, np.empty_like(auxiliary[0])
    for rows, calls in pieces:
        value, following[rows] = admixture_step(
            calls, proportions, np.ascontiguousarray(auxiliary[0][rows]), floor=floor, threads=threads, before=value
        )
    return Found((value,), following)


def _curvature_part(
    pieces: Pieces, auxiliary: tuple[Floats, ...], proportions: Floats, squares: bool, threads: int
) -> Found:
    sums: Floats | None = None
    for rows, calls in pieces:
        frequencies = np.ascontiguousarray(auxiliary[0][rows])
        sums = curvature_sums(calls, proportions, frequencies, squares=squares, threads=threads, into=sums)
    return Found((sums,))


# -----------------------------------------------------------------------------
# Passes over genotypes whose parts lie on the workers of a dask cluster: the same bits as `admixture/data/passes.py`.
#
# Auxiliary arrays per SNP travel with the call, since SQUAREM extrapolation needs all of it: eight bytes per population
# beside one byte per person, so a small fraction of what a pass computes on.


class ClusterSnps(SnpPasses):
    """Passes on the workers of a cluster."""

    def __init__(self, genotypes: StoredGenotypes, engine: str, n_jobs: int | None) -> None:
        super().__init__(genotypes, n_jobs)
        self.threads = 1  # workers are as many as there are cores
        bare = replace(genotypes, samples=genotypes.samples[:0], snps=genotypes.snps[:0], alleles=None, handle=None)
        size = (self.n_snps, self.n_persons, self.part_snps)
        self.spans = Spans(engine, range(0, self.n_snps, self.part_snps), _load, bare, size=size)

    def sums(self, work: SnpWork, *args: Any, auxiliary: tuple[Floats, ...] = ()) -> Found:
        per_span = [tuple(one[span[0] : span[-1] + self.part_snps] for one in auxiliary) for span in self.spans.parts]
        found = self.spans.answers(_span_sums, per_span, work=work, args=args)
        return add_found(part for span in found for part in span)


def _load(begins: list[int], rows: StoredGenotypes, size: tuple[int, int, int]) -> list[Calls]:
    """On a worker: the calls of some parts."""
    n_snps, n_persons, part = size
    return [rows.calls_at(begin, min(begin + part, n_snps), n_persons) for begin in begins]


def _span_sums(parts: list[Calls], per_span: tuple[Floats, ...], work: SnpWork, args: tuple[Any, ...]) -> list[Found]:
    """On a worker: one sum per part."""
    out, at = [], 0
    with one_blas_thread():
        for calls in parts:
            piece = slice(0, len(calls))
            out.append(work(iter([(piece, calls)]), tuple(one[at : at + len(calls)] for one in per_span), *args))
            at += len(calls)
    return out
