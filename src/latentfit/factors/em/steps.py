"""EM for binary latent factors (switches): x = Wᵀh + σξ with any distribution over the 2^d on/off vectors.

EM first runs in the d-dimensional plane of the spectral initialisation, where all but d numbers of a row are one
residual sum of squares, then in the full space, which frees the weights of the plane. Both maximise the same
likelihood. How states are summed is decided once per EM run, from the initial parameters (`way_to_sum`), so that
objectives are comparable.

Paper     Dempster, Laird & Rubin 1977; the model is (1) of Jaffe, Weiss, Carmi, Kluger & Nadler 2018, who do
          without its likelihood; Varadhan & Roland 2008 (SQUAREM)
Needs     initial parameters near the answer (`core/tensor/binary.py`); noise of one variance in all features
Promises  the objective never falls; weights, P(h) and σ² of a stationary point
Differs   P(h) is any distribution on the 2^d on/off vectors, with a few pseudo-rows; with many switches only states
          near a centre of each row are summed

Symbols   paper   here        shape    meaning
          W       W           (d, q)   weights in the coordinates of the rows (q = d in the plane, m in full)
          P_h     log_prior   (2^d,)   log P(h)
          σ²      sigma2      —
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult, SolverState, Step, em, squarem
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.tensor.whitened import project, row_blocks
from latentfit.engine.passes import Found, RowPasses, over
from latentfit.factors.em.states import (
    SAFE_RANGE,
    Codes,
    RowPosterior,
    best_all,
    bits,
    codes_of,
    constants,
    pair_moments,
    posterior_all,
    posterior_near,
    posterior_split,
    split_table,
)

States = Literal["all", "near2", "near3"]


@dataclass(frozen=True)
class SwitchSettings:
    """How states are summed, and the bounds of the parameters."""

    all_states: int = 10  # Up to so many switches all states are summed, whatever the noise.
    split_states: int = 14  # Up to so many when the split form can sum them; beyond, states near a centre.
    exact_states: int = 16  # Posteriors of fitted models sum all states up to here.
    most_switches: int = 20  # A table of 2^20 probabilities is as much as is worth holding.
    # σ‖v‖ above which states two flips away still matter: the two bumps of a switch's values overlap.
    high_noise: float = 0.3
    # Rows spread evenly over all states in P(h): no state's probability becomes zero, and none is ruled out for
    # ever.
    pseudo_rows: float = 1.0
    noise_floor: float = 1e-13  # Smallest σ² as a fraction of the mean square of the data: below it rounding decides.


SETTINGS = SwitchSettings()


@dataclass(frozen=True)
class SwitchParams:
    """Weights (d, q), log P(h) (2^d,), σ², and the centres (n,) where only near states are summed."""

    W: Floats
    log_prior: Floats
    sigma2: float
    centres: Codes | None = None

    @property
    def d(self) -> int:
        return len(self.W)

    @property
    def spread(self) -> Floats:
        """σ‖v_i‖: how wide the two bumps of each switch's unmixed values are."""
        return np.asarray(np.sqrt(self.sigma2) * np.linalg.norm(np.linalg.pinv(self.W), axis=0))

    def permuted(self, order: NDArray[np.intp]) -> SwitchParams:
        """Switches in another order."""
        code = np.arange(2**self.d)
        old = np.zeros(2**self.d, np.int64)
        for new, before in enumerate(order.tolist()):
            old |= ((code >> new) & 1) << before
        return replace(self, W=self.W[order], log_prior=self.log_prior[old], centres=None)


@dataclass(frozen=True)
class SwitchStatistics:
    """Sufficient statistics of one E-step: log-likelihood, summed posteriors of states, Σ E[h] xᵀ, the centres used."""

    log_likelihood: float
    state_counts: Floats  # (2^d,)
    cross: Floats  # (d, q)
    centres: Codes | None


SwitchFit = EMResult[SwitchParams, SwitchStatistics]


@dataclass(frozen=True)
class SwitchSteps:
    """E- and M-step over rows A (n, q) that stand for m features with `squares` = Σ‖x‖² in all.

    `noise` is σ where it is known: it is then held fixed.
    """

    A: Floats | RowPasses
    squares: float
    m: int
    states: States
    noise: float | None = None

    @property
    def n_rows(self) -> int:
        return over(self.A).n_rows

    @property
    def n_cells(self) -> int:
        return self.n_rows * self.m

    @property
    def floor(self) -> float:
        return max(SETTINGS.noise_floor * self.squares / self.n_cells, 1e-300)

    def variance(self, estimated: float) -> float:
        """σ²: the one that is known, or the estimate, off zero."""
        return max(estimated if self.noise is None else self.noise**2, self.floor)

    def e_step(self, params: SwitchParams) -> SwitchStatistics:
        found = over(self.A).sums(
            _block_statistics, replace(params, centres=None), self.states, auxiliary=params.centres
        )
        log_sum, state_counts, cross = found.sums
        constant = self.squares / (2 * params.sigma2) + self.n_cells / 2 * np.log(2 * np.pi * params.sigma2)
        return SwitchStatistics(float(log_sum - constant), state_counts, cross, found.rows)

    def objective(self, params: SwitchParams, statistics: SwitchStatistics) -> float:
        """Log-likelihood plus the pseudo-rows' logarithms."""
        return statistics.log_likelihood + SETTINGS.pseudo_rows * float(params.log_prior.mean())

    def log_likelihood(self, statistics: SwitchStatistics) -> float:
        return statistics.log_likelihood

    def m_step(self, statistics: SwitchStatistics) -> SwitchParams:
        both = pair_moments(statistics.state_counts, len(statistics.cross))  # Σ E[hhᵀ]
        W = np.linalg.pinv(both, rcond=1e-12, hermitian=True) @ statistics.cross
        misfit = self.squares - 2 * float((W * statistics.cross).sum()) + float((W @ W.T * both).sum())
        prior = statistics.state_counts + SETTINGS.pseudo_rows / len(statistics.state_counts)
        return SwitchParams(W, np.log(prior / prior.sum()), self.variance(misfit / self.n_cells), statistics.centres)

    def extrapolate(self, start: SwitchParams, once: SwitchParams, twice: SwitchParams) -> SwitchParams:
        """SQUAREM's extrapolation in weights, log P(h) and log σ²."""
        W, logs, log_sigma2 = squarem(
            *([params.W, params.log_prior, np.log([params.sigma2])] for params in (start, once, twice))
        )
        logs = logs - logs.max()
        logs = logs - np.log(np.exp(logs).sum())
        sigma2 = self.variance(float(np.exp(min(log_sigma2[0], 700.0))))
        return SwitchParams(W, logs, sigma2, twice.centres)


def _block_statistics(A: Floats, params: SwitchParams, how: States, auxiliary: Codes | None = None) -> Found:
    """Of a block: Σ log of the sums over states, summed posteriors, Σ E[h] aᵀ; and its centres."""
    rows = state_posterior(correlate(A, params), replace(params, centres=auxiliary), how)
    return Found((rows.log_sum.sum(), rows.state_counts, _cross(rows.mean, A)), rows.centres)


def _cross(mean: Floats, X: Floats) -> Floats:
    """Σ E[h] xᵀ of a block (d, m)."""
    cross = np.zeros((mean.shape[1], X.shape[1]))
    for block in row_blocks(len(X)):
        cross += mean[block].T @ X[block]
    return cross


def correlate(A: Floats, params: SwitchParams) -> Floats:
    """β = Wx/σ² (n, d), block by block."""
    scaled = params.W.T / params.sigma2
    return np.concatenate([A[block] @ scaled for block in row_blocks(len(A))]) if len(A) else A @ scaled


def state_posterior(beta: Floats, params: SwitchParams, how: States) -> RowPosterior:
    """Sums over states, in the way that was chosen and that the numbers allow."""
    G = params.W @ params.W.T
    if how == "all":
        split = split_table(G, params.sigma2, params.log_prior)
        if split.spread <= SAFE_RANGE:
            return posterior_split(beta, split)
        return posterior_all(beta, constants(G, params.sigma2, params.log_prior))
    centres = initial_centres(beta, G, params.sigma2) if params.centres is None else params.centres
    return posterior_near(beta, G, params.sigma2, params.log_prior, centres, int(how[-1]))


def initial_centres(beta: Floats, G: Floats, sigma2: float) -> Codes:
    """Rounded unmixed values: W†x above one half."""
    unmixed = beta * sigma2 @ np.linalg.pinv(G, hermitian=True)
    return codes_of(unmixed > 0.5)


def way_to_sum(params: SwitchParams) -> States:
    """All states of few switches, of more if the split form can sum them safely; else those near a centre."""
    if params.d <= SETTINGS.all_states:
        return "all"
    if params.d <= SETTINGS.split_states:
        split = split_table(params.W @ params.W.T, params.sigma2, params.log_prior)
        if split.spread <= SAFE_RANGE / 2:  # room for σ to fall during EM
            return "all"
    return "near3" if float(np.median(params.spread)) > SETTINGS.high_noise else "near2"


# -------------------------------------------------------------------- fit


def initial_params(W: Floats, probability: Floats, sigma2: float) -> SwitchParams:
    """Initial parameters: weights, independent switches with the given probabilities of being on, noise."""
    on = np.clip(probability, 0.02, 0.98)
    log_prior = np.zeros(1)
    for p in on.tolist():
        log_prior = np.concatenate([log_prior + np.log1p(-p), log_prior + np.log(p)])
    return SwitchParams(W, log_prior, max(sigma2, 1e-300))


def plane_steps(X: Floats | RowPasses, basis: Floats, states: States, noise: float | None = None) -> SwitchSteps:
    """Steps over the rows' coordinates in an orthonormal basis (m, q); they stay where the rows are."""
    rows = over(X)
    return SwitchSteps(rows.mapped(project, basis), squares_of(rows), rows.n_features, states, noise)


def squares_of(rows: RowPasses) -> float:
    """Σ‖x‖²."""
    return float(rows.sums(_square_sums).sums[0])


def _square_sums(X: Floats) -> Found:
    return Found((sum(float((X[block] ** 2).sum()) for block in row_blocks(len(X))),))


@dataclass(frozen=True)
class SwitchSolverState:
    """Solver state of an interrupted fit: in the plane, or beyond it, with the iterations and path that led there."""

    resume_from: SolverState[SwitchParams]
    before: tuple[int, list[float]] | None = None


def refine_switches(
    X: Floats | RowPasses,
    initial: SwitchParams,
    *,
    noise: float | None = None,
    max_iter: int = 500,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callable[[Step], None] | None = None,
    resume_from: SwitchSolverState | None = None,
    on_iteration: Callable[[SwitchSolverState], None] | None = None,
) -> SwitchFit:
    """EM from weights in full space (d, m); ``max_iter=0`` evaluates the initial parameters. `noise` is σ if known.

    `on_iteration` is called with the solver state after every iteration; `resume_from` is such a state to continue
    from.
    """
    em_options: dict[str, Any] = {"tol": tol, "accelerate": accelerate, "callback": callback}
    how, rows = way_to_sum(initial), over(X)
    full = SwitchSteps(rows, squares_of(rows), rows.n_features, how, noise)
    initial = replace(initial, sigma2=full.variance(initial.sigma2))
    if max_iter == 0:
        return em(full, initial, max_iter=0, tol=tol)
    known = None
    if resume_from is None or resume_from.before is None:
        basis = np.linalg.qr(initial.W.T)[0]
        plane = SwitchSteps(rows.mapped(project, basis), full.squares, full.m, how, noise)
        inside = em(
            plane, replace(initial, W=initial.W @ basis), max_iter=max_iter - 1,
            resume_from=None if resume_from is None else resume_from.resume_from,
            on_iteration=None if on_iteration is None else lambda at: on_iteration(SwitchSolverState(at)), **em_options,
        )  # fmt: skip
        initial = replace(inside.params, W=inside.params.W @ basis.T)  # freed of the plane
        known = replace(inside.sums, cross=_full_cross(rows, inside.params, basis, how))
        before, resume_from = (inside.n_iter, inside.path), None
    else:
        before = resume_from.before
    left = max(max_iter - before[0], 1)  # the plane's limit leaves one step at least to free the weights of it
    last = em(
        full, initial, max_iter=left, known=known, resume_from=None if resume_from is None else resume_from.resume_from,
        on_iteration=None if on_iteration is None else lambda at: on_iteration(SwitchSolverState(at, before)),
        **em_options,
    )  # fmt: skip
    # at the floor of the noise Σ‖x‖²/2σ² is rounded by some nats: a decrease that ended EM there is rounding
    at_floor = tol > 0 and last.n_iter < left and last.params.sigma2 <= 2 * full.floor
    return replace(
        last, converged=bool(last.converged or at_floor), n_iter=before[0] + last.n_iter, path=before[1] + last.path[1:]
    )


def _full_cross(rows: RowPasses, params: SwitchParams, basis: Floats, how: States) -> Floats:
    """Σ E[h] xᵀ (d, m) under parameters in the plane."""
    found = rows.sums(_cross_sums, replace(params, centres=None), basis, how, auxiliary=params.centres)
    return np.asarray(found.sums[0])


def _cross_sums(X: Floats, params: SwitchParams, basis: Floats, how: States, auxiliary: Codes | None = None) -> Found:
    beta = correlate(project(X, basis), params)
    return Found((_cross(state_posterior(beta, replace(params, centres=auxiliary), how).mean, X),))


# -------------------------------------------------------------------- use


def posterior(X: Floats, params: SwitchParams) -> tuple[Floats, Floats]:
    """P(switch on | row) (n, d) and the log-likelihood of every row (n,): all states up to `exact_states`."""
    found = [_posterior(X[block], params) for block in row_blocks(max(len(X), 1), BLOCK_ROWS)]
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def _posterior(X: Floats, params: SwitchParams) -> tuple[Floats, Floats]:
    beta = correlate(X, params)
    how: States = "all" if params.d <= SETTINGS.exact_states else "near3"
    rows = state_posterior(beta, replace(params, centres=None), how)
    constant = (X**2).sum(axis=1) / (2 * params.sigma2) + X.shape[1] / 2 * np.log(2 * np.pi * params.sigma2)
    return rows.mean, rows.log_sum - constant


def most_likely(X: Floats, params: SwitchParams) -> NDArray[np.int64]:
    """The most likely on/off vector of every row (n, d); beyond `exact_states` by a search from rounding."""
    return np.concatenate([_most_likely(X[block], params) for block in row_blocks(max(len(X), 1), BLOCK_ROWS)])


def _most_likely(X: Floats, params: SwitchParams) -> NDArray[np.int64]:
    beta, G = correlate(X, params), params.W @ params.W.T
    if params.d <= SETTINGS.exact_states:
        codes = best_all(beta, constants(G, params.sigma2, params.log_prior))
    else:
        centres = initial_centres(beta, G, params.sigma2)
        best = posterior_near(beta, G, params.sigma2, params.log_prior, centres, 3).centres
        assert best is not None
        codes = best
    return bits(codes, params.d).astype(np.int64)
