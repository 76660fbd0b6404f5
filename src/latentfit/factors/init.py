"""Which candidates are the switches, when noise blurs their scores: several picks, judged by likelihood.

Scores of true and false candidates overlap when the two bumps of a switch do, and a true vector that is badly estimated
scores badly. Picks with jittered scores are refined by EM on a sample of rows with successive halving; the pick with
the highest likelihood becomes the initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from latentfit.core.kernels import Floats
from latentfit.core.matrix import cell_bits, hash_rows
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.sampling import Words, scramble, uniform
from latentfit.core.tensor.binary import SEARCH, SpectralInit, choose, choose_all, weights_of
from latentfit.core.tensor.eigenpairs import contract, sphere
from latentfit.core.tensor.whitened import centred_tensor, spectrum, whiten
from latentfit.engine.passes import RowPasses
from latentfit.factors.em.steps import SETTINGS, SwitchParams, initial_params, plane_steps, way_to_sum


@dataclass(frozen=True)
class SelectionSettings:
    """Multi-start selection between sets of candidates."""

    picks: int = 24  # Sets of candidates compared in multi-start selection, the greedy one among them.
    swaps: int = 12  # Sets that differ from the greedy one in its worst member only.
    short_list: int = 16  # Candidates per switch that picks are made of.
    jitter: float = 0.5  # Spread of the logarithm of a jittered score.
    # A chosen score this many times its null level (1 % of true switches exceed it) is ambiguous.
    ambiguous: float = 1.25
    selection_rows: int = 5_000
    # EM iterations of all sets, of the better half, of the better quarter, …
    halving_rounds: tuple[int, int, int, int, int] = (4, 4, 6, 8, 10)


SELECTION = SelectionSettings()


def greedy_params(init: SpectralInit) -> SwitchParams:
    """The greedy pick as parameters."""
    return initial_params(init.W, init.probability, init.sigma2)


def selected_params(
    X: RowPasses, init: SpectralInit, rng: np.random.Generator, noise: float | None = None
) -> tuple[SwitchParams, str | None]:
    """Initial parameters of EM and a note: the greedy pick, or the best of several when noise is high."""
    greedy = greedy_params(init)
    high = float(np.median(greedy.spread)) > SETTINGS.high_noise or ambiguous(init)
    if not high or init.noise_free or init.exclusive or greedy.d > SETTINGS.split_states:
        return greedy, None
    picks = jittered_picks(init, rng)
    if len(picks) < 2:
        return greedy, None
    rows, _ = X.sample(SELECTION.selection_rows)
    basis = init.whitening.basis
    candidates = []
    for position, y in enumerate(picks):
        params = initial_params(weights_of(y, init.whitening) @ basis, (y**2).sum(axis=1), init.sigma2)
        candidates.append(Candidate(str(position), plane_steps(rows, basis, way_to_sum(params), noise), params))
    selected = successive_halving(
        candidates, rounds=SELECTION.halving_rounds, max_iter=sum(SELECTION.halving_rounds), tol=0.0, accelerate=True
    )
    params = selected.refined.params
    winner = "the greedy one" if selected.name == "0" else "another than the greedy one"
    note = (
        f"scores overlap: {len(picks)} sets of candidates were compared on {len(rows):,} rows, {winner} was likeliest"
    )
    return SwitchParams(params.W @ basis.T, params.log_prior, params.sigma2), note


def ambiguous(init: SpectralInit) -> bool:
    """Whether a chosen candidate's Kolmogorov–Smirnov score is no true switch's."""
    search = init.candidates
    worst = float(search.scores[search.chosen].max(initial=0.0))
    return search.filter == "ks" and worst * np.sqrt(search.n_scored) > SELECTION.ambiguous * SEARCH.ks_null


def jittered_picks(init: SpectralInit, rng: np.random.Generator) -> list[Floats]:
    """Distinct independent sets of candidates (d, d) each, the greedy one first."""
    search, d = init.candidates, init.whitening.d
    if len(search.chosen) < d:
        return []
    short = min(len(search.scores), SELECTION.short_list * d)
    logs = np.log(np.maximum(search.scores[:short], 1e-300))
    others_chosen = search.chosen[np.argsort(search.scores[search.chosen], kind="stable")][:-1]
    others = np.setdiff1d(np.arange(short), search.chosen)
    orders = [np.append(others_chosen, other) for other in others]  # the worst one for the next best, one after another
    orders = [order for order in orders if len(choose(search.pairs.y, order)) == d][: SELECTION.swaps]
    jitter = SELECTION.jitter * rng.standard_normal((SELECTION.picks, short))
    orders += [np.argsort(logs + noise, kind="stable") for noise in jitter]
    picks = {tuple(sorted(search.chosen.tolist())): search.chosen}
    for order in orders:
        pick = choose_all(search.pairs.y, order)
        if len(pick) == d and len(picks) < SELECTION.picks:
            picks.setdefault(tuple(sorted(pick.tolist())), pick)
    return [search.pairs.y[pick] for pick in picks.values()]


# -----------------------------------------------------------------------------
# Independent switches from centred moments: an orthogonal tensor, taken apart by power iteration and deflation.
#
# Papers    Anandkumar, Ge, Hsu, Kakade & Telgarsky, "Tensor decompositions for learning latent variable models"
#           (JMLR 2014), Algorithm 1; Section 4 of the tensor eigenpair paper names it for product distributions
# Needs     independent switches, none on in exactly half of the rows: its skew is zero, and the tensor does not see it
# Promises  polynomial time in d; error O(n^-1/2) while skews are apart from zero. A fit also holds P(h), 2^d numbers,
#           and stops at 20 switches
# Differs   the sign of each switch (h or 1 − h leave the same centred moments) is read off the mean, which is Wᵀp
#
# Symbols   T = Σ_i s_i a_i ⊗ a_i ⊗ a_i, a_i orthonormal, s_i = (1 − 2p_i)/√(p_i(1 − p_i)) the skew of switch i

STARTS = 20
"""Starting vectors of the power iteration per deflation step and switch."""
POWER_STEPS = 100
"""Steps from a starting vector at most: near a component of an orthogonal tensor each squares the error."""


@dataclass(frozen=True)
class IndependentSwitches:
    """Weights (d, m), probabilities of being on (d,), and the skew of each switch."""

    W: Floats
    probability: Floats
    skew: Floats
    residual: float  # ‖T − Σ s a ⊗ a ⊗ a‖ / ‖T‖: what independence does not explain


def factor_independent(
    X: Floats | RowPasses, d: int, sigma2: float, *, rng: np.random.Generator
) -> IndependentSwitches:
    """Weights of d independent switches from rows (n, m) with noise variance σ²."""
    eigen = spectrum(X, centred=True)
    whitening = whiten(eigen, d, sigma2)
    T = centred_tensor(X, whitening, eigen.mean)
    rest = T.copy()
    directions: list[Floats] = []
    skews: list[float] = []
    for _ in range(d):
        u = deflate(rest, sphere(STARTS * d, d, rng), np.array(directions).reshape(-1, d))
        skew = float(contract(rest, u[None])[0] @ u)
        rest = rest - skew * np.einsum("i,j,k->ijk", u, u, u)
        directions.append(u)
        skews.append(skew)
    s, a = np.array(skews), np.array(directions)
    probability = (1 - s / np.sqrt(4 + s**2)) / 2  # solves s = (1 − 2p)/√(p(1 − p))
    # x − μ = Σ w_i √(p_i(1 − p_i)) z_i with whitened z_i along a_i
    W = (a @ np.linalg.pinv(whitening.K)) / np.sqrt(probability * (1 - probability))[:, None]
    mean_coefficient = np.linalg.lstsq(W.T, eigen.mean, rcond=None)[0]  # p_i, or p_i − 1 where the sign is wrong
    turned = np.abs(mean_coefficient - probability) > np.abs(mean_coefficient - probability + 1)
    W[turned] *= -1
    probability = np.where(turned, 1 - probability, probability)
    size = float(np.linalg.norm(T))
    return IndependentSwitches(W, probability, np.where(turned, -s, s), float(np.linalg.norm(rest)) / max(size, 1e-300))


def deflate(T: Floats, starts: Floats, before: Floats) -> Floats:
    """The unit vector of largest |T(u, u, u)| that power iteration finds, orthogonal to those found before."""
    free = starts - (starts @ before.T) @ before
    u = free / np.maximum(np.linalg.norm(free, axis=1, keepdims=True), 1e-300)
    for _ in range(POWER_STEPS):
        moved = contract(T, u)
        moved -= (moved @ before.T) @ before
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        moved = np.where(length > 1e-12, moved / np.maximum(length, 1e-300), u)
        if np.abs(moved - u).max() < 1e-12:
            break
        u = moved
    values = (contract(T, u) * u).sum(axis=1)
    best = int(np.abs(values).argmax())
    return np.asarray(u[best] / np.linalg.norm(u[best]))


# -----------------------------------------------------------------------------
# Rows of numbers with missing values → complete rows whose moments are those of a low-rank Gaussian model.
#
# Spectral initialisations need complete rows. Missing cells are drawn from probabilistic PCA given the observed cells
# of their row: a draw, unlike a mean, keeps second moments and the level of the noise. It is only an initialisation;
# EM then maximises the likelihood of the observed cells (`factors/em/missing.py`).
#
# Paper     Tipping & Bishop 1999, Section 3 (EM for probabilistic PCA); Matheron's rule for conditional draws
# Needs     values missing at random; noise of one variance in all features
# Promises  complete rows have the fitted Gaussian model's mean and covariance in expectation; rows in another order get
#           the same values, because draws are functions of what rows and columns hold
# Differs   the mean is estimated as one more loading; the loadings come from a sample of rows in long tables
#
# Symbols   paper   here       shape    meaning
#           W       loadings   (m, r)   principal directions times their spread
#           μ       mean       (m,)     mean of every feature
#           σ²      sigma2     —        variance of the noise
#           M       M          (r, r)   WᵀW + σ²I over the observed features of a row

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
