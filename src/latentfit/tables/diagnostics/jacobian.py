"""Does the joint distribution determine the classes near a point? The rank of the model's Jacobian.

The latent class model maps its free parameters to the joint distribution of the columns. Where the derivative of that
map has less than full rank, some direction in the parameters changes no observable probability, and no number of rows
tells the answers along it apart. Counting parameters and cells misses such cases: four binary columns and three
classes have 14 parameters and 15 free cells, and rank 13 everywhere (Goodman 1974).

Paper     Goodman 1974; Allman, Matias & Rhodes 2009 (generic identifiability)
Needs     Π sizes · parameters within bounds of memory
Promises  the largest rank over random points is the generic rank with probability 1
Differs   the rank is numerical: singular values below `RELATIVE` of the largest count as zero

Symbols   here      shape            meaning
          joint     (cells, F)       probability of every combination of categories, given the class
          jacobian  (cells, free)    its derivative in weights and profiles
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentfit.core.kernels import Floats

MOST_ENTRIES = 5_000_000
"""Entries of the largest Jacobian that is formed: 40 MB and a few seconds of singular values."""
RELATIVE = 1e-9
"""Singular values below this share of the largest are zero: rounding leaves 1e-15, full rank more than 1e-6."""
POINTS = 3
"""Random points tried for the generic rank: one is enough but for rounding."""


def n_free(sizes: Sequence[int], n_classes: int) -> int:
    """Free parameters: class weights, and for each class and column its categories but one."""
    return n_classes - 1 + n_classes * sum(size - 1 for size in sizes)


def can_rank(sizes: Sequence[int], n_classes: int) -> bool:
    """Whether the Jacobian is small enough to be formed."""
    return float(np.prod(np.asarray(sizes, float))) * n_free(sizes, n_classes) <= MOST_ENTRIES


def jacobian_rank(weights: Floats, profiles: Sequence[Floats]) -> int:
    """Rank at a point: weights (F,) and, for each column, its profile (F, categories)."""
    values = np.linalg.svd(_jacobian(weights, profiles), compute_uv=False)
    return int((values > RELATIVE * values.max(initial=0.0)).sum())


def generic_rank(sizes: Sequence[int], n_classes: int) -> int:
    """The rank at almost every point."""
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(POINTS):
        weights = rng.dirichlet(np.full(n_classes, 5.0))
        ranks.append(jacobian_rank(weights, [rng.dirichlet(np.full(size, 2.0), n_classes) for size in sizes]))
    return max(ranks)


def _jacobian(weights: Floats, profiles: Sequence[Floats]) -> Floats:
    F = len(weights)
    joint = [_products([profile[f] for profile in profiles]) for f in range(F)]
    columns = [joint[f] - joint[F - 1] for f in range(F - 1)]  # the last weight is what the others leave
    for n, profile in enumerate(profiles):
        size = profile.shape[1]
        for f in range(F):
            for category in range(size - 1):  # the last category is what the others leave
                change = np.zeros(size)
                change[category], change[-1] = 1.0, -1.0
                parts = [change if m == n else other[f] for m, other in enumerate(profiles)]
                columns.append(weights[f] * _products(parts))
    matrix = np.stack(columns, axis=1)
    norms = np.linalg.norm(matrix, axis=0)
    return np.asarray(matrix / np.where(norms > 0, norms, 1.0))  # rare classes have small derivatives, not zero ones


def _products(parts: Sequence[Floats]) -> Floats:
    """All products of one entry of each part, as one long vector."""
    out = np.ones(1)
    for part in parts:
        out = np.outer(out, part).reshape(-1)
    return out
