"""Passes over genotypes whose parts lie on the workers of a dask cluster: the same bits as `admixture/data/passes.py`.

What is kept per SNP travels with the call, since leaps of the climb need it whole: eight bytes a population beside one
byte a person, so a small share of what a pass computes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from latentfit.admixture.data.passes import SnpPasses, SnpWork
from latentfit.admixture.data.stored import StoredGenotypes
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls
from latentfit.engine.blas import one_blas_thread
from latentfit.engine.passes import Found, add_found
from latentfit.engine.workers import Spans


class ClusterSnps(SnpPasses):
    """Passes on the workers of a cluster."""

    def __init__(self, genotypes: StoredGenotypes, engine: str, n_jobs: int | None) -> None:
        super().__init__(genotypes, n_jobs)
        self.threads = 1  # workers are as many as there are cores
        bare = replace(genotypes, samples=genotypes.samples[:0], snps=genotypes.snps[:0], alleles=None, lease=None)
        size = (self.n_snps, self.n_persons, self.part_snps)
        self.spans = Spans(engine, range(0, self.n_snps, self.part_snps), _load, bare, size=size)

    def sums(self, work: SnpWork, *args: Any, beside: tuple[Floats, ...] = ()) -> Found:
        shares = [tuple(one[span[0] : span[-1] + self.part_snps] for one in beside) for span in self.spans.parts]
        found = self.spans.answers(_span_sums, shares, work=work, args=args)
        return add_found(part for span in found for part in span)


def _load(begins: list[int], rows: StoredGenotypes, size: tuple[int, int, int]) -> list[Calls]:
    """On a worker: the calls of some parts."""
    n_snps, n_persons, part = size
    return [rows.calls_at(begin, min(begin + part, n_snps), n_persons) for begin in begins]


def _span_sums(parts: list[Calls], shares: tuple[Floats, ...], work: SnpWork, args: tuple[Any, ...]) -> list[Found]:
    """On a worker: one sum per part."""
    out, at = [], 0
    with one_blas_thread():
        for calls in parts:
            piece = slice(0, len(calls))
            out.append(work(iter([(piece, calls)]), tuple(one[at : at + len(calls)] for one in shares), *args))
            at += len(calls)
    return out
