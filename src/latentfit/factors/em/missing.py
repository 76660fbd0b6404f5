"""EM for binary latent factors where values are missing: the likelihood of the observed cells.

A missing cell contributes no factor to the likelihood of its row. The log-weight of state h in row i is
log P(h) + hᵀβ_i − ½ hᵀG_i h with β_i and G_i summed over the observed features of that row only, so G_i differs from
row to row and all 2^d states are summed.

Paper     Dempster, Laird & Rubin 1977; the model is (1) of Jaffe, Weiss, Carmi, Kluger & Nadler 2018
Needs     values missing at random; at most `MOST_WITH_MISSING` switches
Promises  the objective never falls; on complete rows the steps of `SwitchSteps`
Differs   the paper has no missing values

Symbols   paper   here       shape              meaning
          W       W          (d, m)             weights
          —       pairs      (2^d, d(d+1)/2)    h_k h_l of all states, k ≤ l
          —       β          (n, d)             W x_o / σ² over the observed features o
          —       G          (n, d(d+1)/2)      W_o W_oᵀ / σ², the entries k ≤ l, twice off the diagonal
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from latentfit.core.em import Step, em
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.matrix import hash_rows
from latentfit.core.sampling import scramble, uniform
from latentfit.factors.em.states import bits, state_blocks, states
from latentfit.factors.em.steps import (
    SETTINGS,
    SwitchFit,
    SwitchParams,
    SwitchSolverState,
    SwitchStatistics,
    SwitchSteps,
)
from latentfit.factors.init import cell_normals, column_hashes

MOST_WITH_MISSING = 14
"""Switches at most where values are missing: every row sums over all 2^d states."""


@dataclass(frozen=True)
class ObservedStatistics(SwitchStatistics):
    """The statistics of `SwitchStatistics`, and Σ E[h hᵀ] over the rows that show each feature (m, d(d+1)/2)."""

    both: Floats


@dataclass(frozen=True)
class ObservedSteps(SwitchSteps):
    """E- and M-step over rows with missing cells; `A` holds 0 there, `observed` 1 in all others and 0 in these."""

    observed: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def n_rows(self) -> int:
        return len(self.observed)

    @property
    def n_cells(self) -> int:
        return int(self.observed.sum())

    def e_step(self, params: SwitchParams) -> ObservedStatistics:
        d = params.d
        log_sum, state_counts = 0.0, np.zeros(2**d)
        cross, both = np.zeros(params.W.shape), np.zeros((params.W.shape[1], d * (d + 1) // 2))
        S, pairs = states(d), state_pairs(d)
        x: Floats = self.A  # type: ignore[assignment]
        for block in state_blocks(len(x), 2**d):
            weight, log_sums = state_weights(x[block], self.observed[block], params)
            log_sum += float(log_sums.sum())
            state_counts += weight.sum(axis=0)
            cross += (weight @ S).T @ x[block]
            both += self.observed[block].T @ (weight @ pairs)
        constant = self.squares / (2 * params.sigma2) + self.n_cells / 2 * np.log(2 * np.pi * params.sigma2)
        return ObservedStatistics(log_sum - constant, state_counts, cross, None, both)

    def m_step(self, statistics: SwitchStatistics) -> SwitchParams:
        assert isinstance(statistics, ObservedStatistics)
        full = square_of_pairs(statistics.both, len(statistics.cross))  # (m, d, d), over the rows that show a feature
        inverse = np.linalg.pinv(full, rcond=1e-12, hermitian=True)
        W = np.einsum("jkl,lj->kj", inverse, statistics.cross)
        fitted = float(np.einsum("kj,jkl,lj->", W, full, W))
        misfit = self.squares - 2 * float((W * statistics.cross).sum()) + fitted
        prior = statistics.state_counts + SETTINGS.pseudo_rows / len(statistics.state_counts)
        return SwitchParams(W, np.log(prior / prior.sum()), self.variance(misfit / max(self.n_cells, 1)))


def refine_observed(
    values: Floats,
    initial: SwitchParams,
    *,
    noise: float | None = None,
    max_iter: int = 500,
    tol: float = 1e-7,
    callback: Callable[[Step], None] | None = None,
    resume_from: SwitchSolverState | None = None,
    on_iteration: Callable[[SwitchSolverState], None] | None = None,
) -> SwitchFit:
    """EM on the observed cells of `values` (n, m), NaN where missing; ``max_iter=0`` evaluates `initial`."""
    steps = observed_steps(values, noise)
    initial = SwitchParams(initial.W, initial.log_prior, steps.variance(initial.sigma2))
    fitted: SwitchFit = em(
        steps, initial, max_iter=max_iter, tol=tol, accelerate=True, callback=callback,
        resume_from=None if resume_from is None else resume_from.resume_from,
        on_iteration=None if on_iteration is None else lambda at: on_iteration(SwitchSolverState(at)),
    )  # fmt: skip
    if tol > 0 and fitted.n_iter < max_iter and fitted.params.sigma2 <= 2 * steps.floor:
        return replace(fitted, converged=True)  # without noise the objective falls by rounding alone: EM is at its end
    return fitted


def expected_pairs(values: Floats, params: SwitchParams) -> Floats:
    """Σ E[h hᵀ] (m, d, d) over the rows that show each feature."""
    return square_of_pairs(observed_steps(values).e_step(params).both, params.d)


def observed_steps(values: Floats, noise: float | None = None) -> ObservedSteps:
    """EM steps on the observed cells of rows (n, m), NaN where a value is missing."""
    x, observed = split_missing(values)
    return ObservedSteps(x, float((x**2).sum()), x.shape[1], "all", noise, observed)


def split_missing(values: Floats) -> tuple[Floats, Floats]:
    """Values with 0 where they are missing, and 1 where they are observed."""
    missing = np.isnan(values)
    return np.where(missing, 0.0, values), (~missing).astype(np.float64)


def check_n_switches(d: int) -> None:
    """All states are summed, so their number is limited."""
    if d > MOST_WITH_MISSING:
        raise DataError(
            f"n_components must be at most {MOST_WITH_MISSING} where values are missing, got {d}; ask for fewer "
            "switches, or fill the missing values first"
        )


# ----------------------------------------------------------------- states


def state_pairs(d: int) -> Floats:
    """h_k h_l of all states (2^d, d(d+1)/2), k ≤ l."""
    S = states(d)
    first, second = np.triu_indices(d)
    return np.asarray(S[:, first] * S[:, second])


def square_of_pairs(pairs: Floats, d: int) -> Floats:
    """Symmetric matrices (m, d, d) from their entries k ≤ l (m, d(d+1)/2)."""
    out = np.empty((len(pairs), d, d))
    first, second = np.triu_indices(d)
    out[:, first, second] = out[:, second, first] = pairs
    return out


def state_logs(x: Floats, observed: Floats, params: SwitchParams) -> Floats:
    """log P(h) + hᵀβ − ½ hᵀGh (n, 2^d) of rows with 0 where a value is missing."""
    first, second = np.triu_indices(params.d)
    twice = np.where(first == second, 1.0, 2.0)
    G = observed @ (params.W[first] * params.W[second] * twice[:, None]).T / params.sigma2
    beta = x @ params.W.T / params.sigma2
    return np.asarray(params.log_prior + beta @ states(params.d).T - G @ state_pairs(params.d).T / 2)


def state_weights(x: Floats, observed: Floats, params: SwitchParams) -> tuple[Floats, Floats]:
    """P(h | observed cells) (n, 2^d), and the logarithm of the sum over states (n,)."""
    logs = state_logs(x, observed, params)
    log_sums = np.asarray(logsumexp(logs, axis=1))
    return np.exp(logs - log_sums[:, None]), log_sums


# -------------------------------------------------------------------- use


def posterior_observed(values: Floats, params: SwitchParams) -> tuple[Floats, Floats]:
    """P(switch on | observed cells) (n, d) and their log-likelihood (n,)."""
    x, observed = split_missing(values)
    mean, log_sum = np.empty((len(x), params.d)), np.empty(len(x))
    for block in state_blocks(len(x), 2**params.d):
        weight, log_sum[block] = state_weights(x[block], observed[block], params)
        mean[block] = np.minimum(weight @ states(params.d), 1.0)  # sums in two orders differ by rounding
    constant = (x**2).sum(axis=1) / (2 * params.sigma2)
    return mean, log_sum - constant - observed.sum(axis=1) / 2 * np.log(2 * np.pi * params.sigma2)


def most_likely_observed(values: Floats, params: SwitchParams) -> NDArray[np.int64]:
    """The most likely on/off vector (n, d) given the observed cells."""
    x, observed = split_missing(values)
    codes = [state_logs(x[b], observed[b], params).argmax(axis=1) for b in state_blocks(len(x), 2**params.d)]
    return bits(np.concatenate(codes), params.d).astype(np.int64)


def draw_missing(values: Floats, params: SwitchParams, seed: int) -> Floats:
    """Complete rows: a state drawn given the observed cells, then the missing cells given the state.

    Draws are functions of what rows and columns hold, so rows in another order get the same values.
    """
    x, observed = split_missing(values)
    hashes, columns = hash_rows(values, seed), column_hashes(values, seed)
    out, some = np.array(values), np.flatnonzero(~observed.all(axis=1))
    for block in state_blocks(len(some), 2**params.d):
        rows = some[block]
        weight = state_weights(x[rows], observed[rows], params)[0].cumsum(axis=1)
        at = uniform(scramble(hashes[rows], seed + 3)) * weight[:, -1]
        h = states(params.d)[np.minimum((weight <= at[:, None]).sum(axis=1), 2**params.d - 1)]
        drawn = h @ params.W + np.sqrt(params.sigma2) * cell_normals(hashes[rows], columns, seed + 4)
        out[rows] = np.where(np.isnan(values[rows]), drawn, values[rows])
    return out
