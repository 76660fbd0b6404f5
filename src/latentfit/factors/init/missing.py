"""Rows of numbers with missing values → complete rows whose moments are those of a low-rank Gaussian model.

Spectral initialisations need complete rows. Missing cells are drawn from probabilistic PCA given the observed cells of
their row: a draw, unlike a mean, keeps second moments and the level of the noise. The draw is only an initialisation;
EM then maximises the likelihood of the observed cells (`factors/em/missing.py`).

Paper     Tipping & Bishop 1999, Section 3 (EM for probabilistic PCA); Matheron's rule for conditional draws
Needs     values missing at random; noise of one variance in all features
Promises  complete rows have the fitted Gaussian model's mean and covariance in expectation; rows in another order get
          the same values, because draws are functions of what rows and columns hold
Differs   the mean is estimated as one more loading; the loadings come from a sample of rows in long tables

Symbols   paper   here       shape    meaning
          W       loadings   (m, r)   principal directions times their spread
          μ       mean       (m,)     mean of every feature
          σ²      sigma2     —        variance of the noise
          M       M          (r, r)   WᵀW + σ²I over the observed features of a row
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from latentfit.core.kernels import Floats
from latentfit.core.matrix import cell_bits, hash_rows
from latentfit.core.sampling import Words, scramble, uniform

FIT_ROWS = 20_000
"""Rows that the loadings are estimated from, at most."""
BLOCK = 8_192
"""Rows at once: each holds an r × r matrix."""
MOST_ITERATIONS = 200
"""EM iterations of the loadings: they only have to be near."""
CLOSE = 1e-5
"""Relative change of the noise variance at which these iterations end."""


@dataclass(frozen=True)
class GaussianRows:
    """Probabilistic PCA: loadings (m, r), mean (m,), noise variance."""

    loadings: Floats
    mean: Floats
    sigma2: float


def fill_rows(values: Floats, rank: int, seed: int) -> Floats:
    """Complete rows (n, m): missing cells are drawn given the observed ones; observed cells stay what they are."""
    hashes = hash_rows(values, seed)
    some = np.argsort(hashes, kind="stable")[:FIT_ROWS]
    model = fit_gaussian_rows(values[np.sort(some)], rank)
    columns = column_hashes(values, seed)
    out = np.array(values)
    for begin in range(0, len(values), BLOCK):
        block = slice(begin, begin + BLOCK)
        missing = np.isnan(values[block])
        drawn = _draw_rows(values[block], model, hashes[block], columns, seed)
        out[block] = np.where(missing, drawn, values[block])
    return out


def fit_gaussian_rows(values: Floats, rank: int, *, with_mean: bool = True) -> GaussianRows:
    """EM for probabilistic PCA on the observed cells; the mean is 0 if not `with_mean`."""
    observed = (~np.isnan(values)).astype(np.float64)
    x = np.where(np.isnan(values), 0.0, values)
    counts = np.maximum(observed.sum(axis=0), 1.0)
    mean = x.sum(axis=0) / counts if with_mean else np.zeros(x.shape[1])
    used = rank + 1 if with_mean else rank  # the mean is the loading of a factor that is always 1
    centred = (x - mean) * observed
    left = centred.T @ centred / len(values)
    eigenvalues, vectors = np.linalg.eigh(left)
    top = slice(len(left) - rank, None)
    cells = max(float(observed.sum()), 1.0)
    floor = max(1e-12 * float((centred**2).sum()) / cells, 1e-300)
    sigma2 = max(float(eigenvalues[: len(left) - rank].sum()) / max(len(left) - rank, 1), floor)
    loadings = vectors[:, top] * np.sqrt(np.maximum(eigenvalues[top] - sigma2, sigma2))
    squares = float((x**2).sum())
    for _ in range(MOST_ITERATIONS if rank else 0):
        moments, cross = np.zeros((len(mean), (rank + 1) ** 2)), np.zeros((len(mean), rank + 1))
        for begin in range(0, len(x), BLOCK):
            block = slice(begin, begin + BLOCK)
            z, M_inverse = latent_rows(x[block], observed[block], GaussianRows(loadings, mean, sigma2))
            both = np.ones((len(z), rank + 1, rank + 1))
            both[:, :rank, :rank] = sigma2 * M_inverse + z[:, :, None] * z[:, None, :]
            both[:, :rank, rank] = both[:, rank, :rank] = z
            moments += observed[block].T @ both.reshape(len(z), -1)
            cross += x[block].T @ np.concatenate([z, np.ones((len(z), 1))], axis=1)
        moments = moments.reshape(-1, rank + 1, rank + 1)[:, :used, :used]
        cross = cross[:, :used]
        inverse = np.linalg.pinv(moments, rcond=1e-12, hermitian=True)
        weights = np.einsum("jkl,jl->jk", inverse, cross)
        before, sigma2 = sigma2, max((squares - float((weights * cross).sum())) / cells, floor)
        loadings, mean = weights[:, :rank], weights[:, rank] if with_mean else mean
        if abs(sigma2 - before) < CLOSE * before:
            break
    return GaussianRows(loadings, mean, sigma2)


def latent_rows(x: Floats, observed: Floats, model: GaussianRows) -> tuple[Floats, Floats]:
    """E[z | observed cells] (n, r) and M⁻¹ (n, r, r)."""
    rank = model.loadings.shape[1]
    products = (model.loadings[:, :, None] * model.loadings[:, None, :]).reshape(len(model.loadings), -1)
    M = (observed @ products).reshape(len(x), rank, rank) + model.sigma2 * np.eye(rank)
    inverse = np.asarray(np.linalg.inv(M), np.float64)
    return np.einsum("nkl,nl->nk", inverse, (x - model.mean * observed) @ model.loadings), inverse


def _draw_rows(values: Floats, model: GaussianRows, hashes: Words, columns: Words, seed: int) -> Floats:
    """All cells of rows drawn given the observed ones, by Matheron's rule: a prior draw, moved by what it misses."""
    observed = (~np.isnan(values)).astype(np.float64)
    noise = np.sqrt(model.sigma2) * cell_normals(hashes, columns, seed + 1)
    if not model.loadings.shape[1]:
        return np.asarray(model.mean + noise)
    # the prior draw of z comes from cells through the polar factor, so that the signs of loadings do not enter
    left, _, right = np.linalg.svd(model.loadings, full_matrices=False)
    prior = cell_normals(hashes, columns, seed + 2) @ (left @ right)
    draw = prior @ model.loadings.T + model.mean + noise
    missed = np.where(np.isnan(values), 0.0, values - draw)
    move, _ = latent_rows(missed, observed, GaussianRows(model.loadings, np.zeros_like(model.mean), model.sigma2))
    return np.asarray(draw + move @ model.loadings.T)


def column_hashes(values: Floats, seed: int) -> Words:
    """One number per column from what it holds; the order of rows does not matter."""
    hashes = [cell_bits(values[:, n]) for n in range(values.shape[1])]
    return np.array([scramble(column, seed).sum(dtype=np.uint64) for column in hashes], np.uint64)


def cell_normals(rows: Words, columns: Words, seed: int) -> Floats:
    """Standard normal numbers (n, m), a function of each cell's row and column."""
    hashes = scramble(rows[:, None] ^ scramble(columns, seed)[None, :], seed)
    return np.asarray(ndtri(uniform(hashes) + 2.0**-54))
