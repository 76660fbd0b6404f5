"""Ancestry proportions and allele frequencies by least squares: leading subspace, then constrained alternation.

Paper     Cabreros & Storey 2017 (ALStructure): the span of the people's allele frequencies from the genotypes' leading
          singular vectors, then min ‖F̂ − H W‖² over proportions on the simplex and frequencies in [0, 1]
Needs     more people and SNPs than populations; populations far enough apart that K − 1 singular values stand out
Promises  the squared error never rises; proportions are the exact minimum given the frequencies
Differs   the subspace comes from subspace iteration in blocks of SNPs (theirs: a full decomposition); missing calls
          are filled from the subspace itself, so they add nothing; the alternation starts at the people furthest
          apart (successive projection) instead of at random; a half step of frequencies is a few sweeps of coordinate
          descent from the last, not the minimum

Symbols   paper  here    shape             meaning
          X / 2  x       (SNP, person)     allele counts halved, less each SNP's mean
          V      basis   (person, K)       orthonormal span of the people's frequencies, constant first
                 coords  (SNP, K)          F̂ = coords basisᵀ
          W      proportions (person, K)       proportions (the paper's W, transposed)
          H      frequencies  (SNP, K)     allele frequencies (the paper's H, transposed)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.admixture.data.genotypes import snps_at_once
from latentfit.admixture.data.passes import Pieces, SnpPasses, over_calls
from latentfit.admixture.moments import distinct_moments
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls, admixture_curvature
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.tensor.binary import Search, choose_all, find_candidates
from latentfit.engine.passes import Found


@dataclass(frozen=True)
class AlternationSettings:
    """The leading subspace and the alternation."""

    extra: int = 16  # Directions iterated beyond those wanted: the more, the faster the subspace converges.
    # Most steps of the subspace iteration. A few do where populations stand out; where the last one drowns
    # among noise directions, a subspace that has not settled led EM to lower maxima on the HapMap panel.
    passes: int = 30
    # The subspace has converged when no direction turned by more than this (radians) in a step.
    settled: float = 1e-4
    # Sweeps over the populations in a half step of frequencies: from where the last ended, more gain nothing.
    sweeps: int = 4
    # Times a block's missing calls are filled from the subspace: what is left is their fraction to the third
    # power.
    fills: int = 2
    # Bytes per call while a block is centred and its missing calls are filled: single precision twice, a code,
    # a mask.
    call_bytes: int = 10


ALS = AlternationSettings()


class Subspace(NamedTuple):
    """Span of the people's frequencies."""

    basis: Floats  # (person, K), orthonormal, constant first
    coords: Floats  # (SNP, K)
    spectrum: Floats  # (K - 1 + extra,) leading singular values of the centred halves


@dataclass(frozen=True)
class AlternatingFit:
    """Result of the alternation."""

    proportions: Floats  # (person, K)
    frequencies: Floats  # (SNP, K)
    squares: list[float]  # squared error after every step, the initial one first
    converged: bool


def alternate(space: Subspace, means: Floats, proportions: Floats, *, max_iter: int, tol: float) -> AlternatingFit:
    """Better frequencies, then the best proportions, until a round gains less than `tol` per person and SNP."""
    basis, coords, _ = space
    cells = len(coords) * len(basis)
    frequencies = np.repeat(means[:, None], proportions.shape[1], axis=1)
    frequencies = _better_frequencies(proportions.T @ proportions, coords @ (basis.T @ proportions), frequencies)
    squares = [squares_of(space, proportions, frequencies)]
    converged = False
    while len(squares) <= max_iter and not converged:
        proportions = simplex_least_squares(frequencies.T @ frequencies, basis @ (coords.T @ frequencies), proportions)
        frequencies = _better_frequencies(proportions.T @ proportions, coords @ (basis.T @ proportions), frequencies)
        squares.append(squares_of(space, proportions, frequencies))
        converged = bool(tol > 0 and squares[-2] - squares[-1] < tol * cells)
    return AlternatingFit(proportions, frequencies, squares, converged)


def squares_of(space: Subspace, proportions: Floats, frequencies: Floats) -> float:
    """Squared distance between the subspace's frequencies and what proportions and frequencies make of them."""
    basis, coords, _ = space
    cross = float(((basis.T @ proportions) * (coords.T @ frequencies)).sum())
    own = float(((frequencies.T @ frequencies) * (proportions.T @ proportions)).sum())
    return float((coords * coords).sum()) - 2 * cross + own


def best_frequencies(space: Subspace, proportions: Floats, means: Floats) -> Floats:
    """Frequencies (SNP, K) in [0, 1] of least squares under known proportions."""
    start = np.repeat(means[:, None], proportions.shape[1], axis=1)
    return _better_frequencies(
        proportions.T @ proportions, space.coords @ (space.basis.T @ proportions), start, 10 * ALS.sweeps
    )


def _better_frequencies(H: Floats, right: Floats, start: Floats, sweeps: int = ALS.sweeps) -> Floats:
    """Frequencies in [0, 1] with less squares given the proportions: coordinate descent, all SNPs at once."""
    found = start.copy()
    diagonal = np.maximum(np.diag(H), 1e-12)
    for _ in range(sweeps):
        most = 0.0
        for k in range(len(H)):
            new = np.clip(found[:, k] + (right[:, k] - found @ H[k]) / diagonal[k], 0.0, 1.0)
            most = max(most, float(np.abs(new - found[:, k]).max()))
            found[:, k] = new
        if most < 1e-6:
            break
    return found


# ------------------------------------------------------------- the leading subspace


def leading_subspace(calls: Calls | SnpPasses, means: Floats, n_populations: int) -> Subspace:
    """The span of the people's frequencies, by subspace iteration."""
    passes = over_calls(calls)
    n_persons = passes.n_persons
    constant = np.full((n_persons, 1), 1 / np.sqrt(n_persons))
    width = min(n_populations - 1, n_persons - 1)
    if width < 1:
        return Subspace(constant, means[:, None] * np.sqrt(n_persons), np.zeros(0))
    leading, values = _iterate(passes, means, width, filled=width)
    basis = np.column_stack([constant, leading])
    coords = passes.sums(_coordinates_part, leading, basis.astype(np.float32), auxiliary=(means,)).rows
    assert coords is not None
    coords[:, 0] += means * np.sqrt(n_persons)
    return Subspace(basis, coords, np.sqrt(values))


def unfilled_spectrum(calls: Calls | SnpPasses, means: Floats, n_populations: int) -> Floats:
    """Singular values in which the last direction wanted, and those after it, have no part in filling missing calls.

    A direction that fills missing calls with itself exceeds the noise whether it exists or not: with one call in
    twenty missing every number of populations was seen.
    """
    passes = over_calls(calls)
    width = min(n_populations - 1, passes.n_persons - 1)
    return np.sqrt(_iterate(passes, means, width, filled=width - 1)[1]) if width > 0 else np.zeros(0)


def _iterate(passes: SnpPasses, means: Floats, width: int, *, filled: int) -> tuple[Floats, Floats]:
    """Leading directions (person, width) and squared singular values; so many directions fill missing calls."""
    n_persons = passes.n_persons
    constant = np.full((n_persons, 1), 1 / np.sqrt(n_persons))
    size = min(width + ALS.extra, n_persons - 1, passes.n_snps)
    fixed = np.random.default_rng(0)  # a spectral step must not depend on luck
    V = np.linalg.qr(fixed.standard_normal((n_persons, size)))[0]
    leading, values = V[:, :0], np.zeros(0)
    for _ in range(ALS.passes):
        (Z,) = passes.sums(_turn_part, leading[:, :filled], V.astype(np.float32), auxiliary=(means,)).sums
        Z -= constant * (constant.T @ Z)
        V, values, _ = np.linalg.svd(Z, full_matrices=False)
        outside = V[:, :width] - leading @ (leading.T @ V[:, :width])
        leading = V[:, :width]
        if float(np.linalg.norm(outside, 2)) < ALS.settled:
            break
    return leading, values


def _turn_part(pieces: Pieces, auxiliary: tuple[Floats, ...], leading: Floats, V: NDArray[np.float32]) -> Found:
    """x'xV of a part's SNPs, centred."""
    Z = np.zeros(V.shape)
    for rows, calls in pieces:
        for _, x in centred_blocks(calls, auxiliary[0][rows], leading):
            Z += x.T @ (x @ V)
    return Found((Z,))


def _coordinates_part(
    pieces: Pieces, auxiliary: tuple[Floats, ...], leading: Floats, basis: NDArray[np.float32]
) -> Found:
    """Coordinates (SNP, K) of a part's SNPs."""
    found = [
        (x @ basis).astype(np.float64)
        for rows, calls in pieces
        for _, x in centred_blocks(calls, auxiliary[0][rows], leading)
    ]
    return Found((0.0,), np.concatenate(found))


def centred_blocks(calls: Calls, means: Floats, leading: Floats) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Blocks (SNP, person) of halved counts less the SNP's mean; a missing call is what the subspace says."""
    span, size = leading.astype(np.float32), snps_at_once(calls.shape[1], ALS.call_bytes)
    for begin in range(0, len(calls), size):
        rows = slice(begin, begin + size)
        codes = calls[rows]
        x = codes.astype(np.float32)
        x *= 0.5
        x -= means[rows, None].astype(np.float32)
        missing = codes == MISSING
        if missing.any():
            x[missing] = 0.0
            for _ in range(ALS.fills):
                x[missing] = ((x @ span) @ span.T)[missing]
        yield rows, x


# ------------------------------------------------------------------ the first people


def far_people(space: Subspace) -> list[int]:
    """K people far apart: each is the furthest from the span of those before (successive projection)."""
    points = _points(space)
    chosen = [int(_lengths(points - points.mean(axis=0)).argmax())]
    left = points - points[chosen[0]]
    for _ in range(points.shape[1] - 1):
        length = _lengths(left)
        chosen.append(int(length.argmax()))
        direction = left[chosen[-1]] / max(float(np.sqrt(length.max())), np.finfo(float).tiny)
        left = left - np.outer(left @ direction, direction)
    return chosen


def drawn_people(space: Subspace, rng: np.random.Generator) -> list[int]:
    """K people drawn one by one, each by its squared distance from the nearest before (Arthur & Vassilvitskii 2007)."""
    points = _points(space)
    chosen = [int(rng.integers(len(points)))]
    nearest = _lengths(points - points[chosen[0]])
    for _ in range(points.shape[1] - 1):
        total = float(nearest.sum())
        chosen.append(int(rng.choice(len(points), p=nearest / total if total > 0 else None)))
        nearest = np.minimum(nearest, _lengths(points - points[chosen[-1]]))
    return chosen


def proportions_under(space: Subspace, people: list[int]) -> Floats:
    """Everyone's proportions (person, K) if these people were the pure ones."""
    points = _points(space)
    anchors = points[people]
    even = np.full((len(points), len(people)), 1 / len(people))
    return simplex_least_squares(anchors @ anchors.T, points @ anchors.T, even)


def _points(space: Subspace) -> Floats:
    """People as points whose distances are those of their frequencies."""
    K = space.basis.shape[1]
    gram = space.coords.T @ space.coords / len(space.coords)
    return np.asarray(space.basis @ np.linalg.cholesky(gram + 1e-12 * np.trace(gram) * np.eye(K)))


def _lengths(points: Floats) -> Floats:
    return np.asarray(np.einsum("ik,ik->i", points, points))


# -----------------------------------------------------------------------------
# Ancestry proportions from tensor eigenpairs: allele frequencies taken for binary.
#
# Paper     Jaffe, Weiss, Carmi, Kluger & Nadler, "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach"
#           (ICML 2018), Section 5.2 with model (32), and Appendix J
# Needs     populations so long apart that most alleles are fixed in one and lost in another; more people than
#           populations
# Promises  consistent where frequencies are 0 or 1. Elsewhere h is not binary and nothing is promised: on panels of
#           F_ST .2 its error was two and a half times that of least squares, at .8 it was the smaller
# Differs   proportions are brought onto the simplex by least squares (the pseudo-inverse leaves it); a subset's
#           likelihood is taken at its best frequencies on a sample of SNPs; `MOST_CANDIDATES` are kept, and beyond
#           `EXHAUSTIVE` subsets they are swapped one by one while the likelihood rises, from several independent sets
#           (the paper searches all); ``search="auto"`` adds candidates to Newton's, as for switches.
#           `Admixture(init="tensor")` goes on from the frequencies: its proportions are fitted to them, not Ŵ
#
# Symbols   paper  here     shape          meaning
#           X      x        (SNP, person)  allele counts halved: SNPs are the samples, people the features
#           K, 𝓦   moments  (m, d), (d, d, d)
#           V      y        (c, d)         candidates in whitened coordinates, v = K y
#           W      proportions (person, d)    (V†)ᵀ, onto the simplex
#           H      frequencies  (SNP, d)

EXHAUSTIVE = 1_500
"""Subsets of candidates that are all tried."""
SAMPLE = 2_000
"""SNPs that judge a subset in a fit, whose SNPs are in an order that only their calls decide."""
SWAP_STARTS = 4
"""Sets that swaps begin from: the candidates of least residual, then drawn ones."""
MOST_CANDIDATES = 60
"""Candidates kept, those of least residual: more are near-duplicates of one another under noise."""
FLOOR = 1e-3
"""Frequencies judged stay off 0 and 1, so that one surprise does not outweigh a thousand calls."""


def factor_admixture_tensor(
    calls: Calls | SnpPasses,
    means: Floats,
    space: Subspace,
    *,
    rng: np.random.Generator,
    search: Search = "auto",
    judges: int | None = SAMPLE,
) -> tuple[Floats, Floats, int]:
    """Proportions (person, d), frequencies (SNP, d) and the number of candidates: model (32) of Jaffe et al. 2018.

    So many SNPs judge a subset, the first ones: they must be in an order of no meaning, unless all do (None).
    """
    d, passes = space.basis.shape[1], over_calls(calls)

    def blocks() -> Iterator[Floats]:
        for rows, some in passes.genotypes.blocks():
            centre = means[rows]
            for part, x in centred_blocks(some, centre, space.basis[:, 1:]):
                yield x.astype(np.float64) + centre[part, None]

    moments = distinct_moments(blocks, d)
    pairs = find_candidates(moments.W, moments.mean, passes.n_snps, search, rng)
    y = pairs.y[:MOST_CANDIDATES]
    if len(choose_all(y, np.arange(len(y)))) < d:  # no d independent candidates: fill up with axes
        y = np.concatenate([y, np.eye(d)])
    few = np.arange(passes.n_snps if judges is None else min(passes.n_snps, judges))
    judging = passes.first(len(few))
    sample = Subspace(space.basis, space.coords[few], space.spectrum)

    def proportions_of(chosen: NDArray[np.intp]) -> Floats:
        W = np.linalg.pinv(moments.K @ y[chosen].T).T  # (person, d) = (V†)ᵀ
        even = np.full(W.shape, 1 / d)
        return simplex_least_squares(np.eye(d), np.clip(W, -10, 10), even)

    def value(chosen: NDArray[np.intp]) -> float:
        proportions = proportions_of(chosen)
        frequencies = np.clip(best_frequencies(sample, proportions, means[few]), FLOOR, 1 - FLOOR)
        return float(admixture_curvature(judging, proportions, frequencies)[0].sum())

    chosen = choose_subset(len(y), d, value, lambda order: choose_all(y, order), rng)
    proportions = proportions_of(chosen)
    return proportions, best_frequencies(space, proportions, means), len(y)


def choose_subset(
    n_candidates: int,
    d: int,
    value: Callable[[NDArray[np.intp]], float],
    independent: Callable[[NDArray[np.intp]], NDArray[np.intp]],
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """The d of n candidates with the largest value: all subsets, or swaps from `independent` ones."""
    if comb(n_candidates, d) <= EXHAUSTIVE:
        return max((np.array(one, np.intp) for one in combinations(range(n_candidates), d)), key=value)
    best, best_value = np.arange(d), -np.inf
    for start in range(SWAP_STARTS):
        order = np.arange(n_candidates) if start == 0 else rng.permutation(n_candidates)
        chosen = independent(order)
        if len(chosen) < d:
            continue
        now = value(chosen)
        improved = True
        while improved:
            improved = False
            for place in range(d):
                for candidate in range(n_candidates):
                    if candidate in chosen:
                        continue
                    proposed = chosen.copy()
                    proposed[place] = candidate
                    if (there := value(proposed)) > now:
                        chosen, now, improved = proposed, there, True
        if now > best_value:
            best, best_value = chosen, now
    return best
