"""Checked wrappers of the admixture kernels: SNP-major genotype bytes in, sums out."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats, _check, _pointer, _run

Calls = NDArray[np.uint8]

MISSING = 3
"""Code of a missing call; 0, 1 and 2 count alleles."""
MOST_POPULATIONS = 64
"""Most populations the kernels hold."""


def _arguments(calls: Calls, proportions: Floats, frequencies: Floats) -> tuple[list[Any], Floats, int]:
    n_persons, n_populations = proportions.shape
    _check(calls, np.uint8, (None, n_persons), "calls")
    _check(frequencies, np.float64, (len(calls), n_populations), "frequencies")
    if not 1 <= n_populations <= MOST_POPULATIONS:
        raise ValueError(f"{n_populations} populations asked for; give a number from 1 to {MOST_POPULATIONS}")
    padded = -(-n_persons // 4) * 4
    turned = np.full((n_populations, padded), 1.0 / n_populations)
    turned[:, :n_persons] = proportions.T
    sizes = [ctypes.c_int64(len(calls)), ctypes.c_int64(n_persons), ctypes.c_int64(padded)]
    head = [_pointer(calls), *sizes, _pointer(turned), _pointer(frequencies)]
    return head, turned, padded


def admixture_step(
    calls: Calls, proportions: Floats, frequencies: Floats, *, floor: float, threads: int = 1, before: float = 0.0
) -> tuple[float, Floats]:
    """Log-likelihood at `frequencies`, and those (SNP, population) one Newton step further.

    `calls` is (SNP, person), `proportions` (person, population). New frequencies lie in [floor, 1 - floor], and no
    SNP's log-likelihood falls. SNPs may come in pieces of whole blocks (256 SNPs): the sum goes on from `before`, with
    the bits it would have at once.
    """
    head, kept, _ = _arguments(calls, proportions, frequencies)
    following, log_likelihood = np.empty_like(frequencies), ctypes.c_double(before)
    tail = [ctypes.c_int(proportions.shape[1]), ctypes.c_double(floor), ctypes.c_int(max(threads, 1))]
    _run("admixture_step", [*head, *tail, _pointer(following), ctypes.byref(log_likelihood)])
    del kept
    return log_likelihood.value, following


def admixture_curvature(
    calls: Calls, proportions: Floats, frequencies: Floats, *, squares: bool = False, threads: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Value (person,), gradient (person, population) and minus the Hessian (person, population, population) in Q.

    The value is the person's log-likelihood, or with `squares` minus half the sum of (count / 2 - p)².
    """
    sums = curvature_sums(calls, proportions, frequencies, squares=squares, threads=threads)
    return unfold_curvature(sums, *proportions.shape)


def curvature_sums(
    calls: Calls,
    proportions: Floats,
    frequencies: Floats,
    *,
    squares: bool = False,
    threads: int = 1,
    into: Floats | None = None,
) -> Floats:
    """What `admixture_curvature` unfolds, one column a person; pieces of whole blocks go on `into` the sums before."""
    head, kept, padded = _arguments(calls, proportions, frequencies)
    size = proportions.shape[1]
    sums = np.zeros((size + size * (size + 1) // 2 + 1, padded)) if into is None else into
    tail = [ctypes.c_int(size), ctypes.c_int(int(squares)), ctypes.c_int(max(threads, 1))]
    _run("admixture_curvature", [*head, *tail, _pointer(sums)])
    del kept
    return sums


def unfold_curvature(sums: Floats, n_persons: int, size: int) -> tuple[Floats, Floats, Floats]:
    """Value, gradient and minus the Hessian from their sums."""
    hessian = np.empty((n_persons, size, size))
    low = np.tril_indices(size)
    hessian[:, low[0], low[1]] = hessian[:, low[1], low[0]] = sums[size:-1, :n_persons].T
    return sums[-1, :n_persons].copy(), np.ascontiguousarray(sums[:size, :n_persons].T), hessian
