"""Every method of Figures 2 and 5 on the same rows: its weights, its CPU seconds, whether it is at the optimum.

Paper's rows: Algorithm 1 with d and σ known (Algorithm 2 without noise), the same with one weighted least-squares step
(Appendix K), SHL as the best of 50 runs, ALS from random switches (Appendix L), least squares on the true switches
(oracle). Ours: `BinaryFactors` told d alone, its spectral weights and after EM. The same EM from the best of three
random starts, plain and led by ALS, shows what the spectral start is worth.
Seconds are CPU time of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.core.tensor.binary import spectral_init
from latentfit.core.tensor.whitened import Spectrum, spectrum
from latentfit.engine.limits import one_blas_thread
from latentfit.factors.em.least_squares import alternating_least_squares, oracle, weighted_least_squares
from latentfit.factors.em.states import bits
from latentfit.factors.em.steps import SwitchParams, initial_params, refine_switches
from latentfit.factors.estimator import BinaryFactors
from latentfit.simulate import SwitchedRows
from reproduction.baselines.shl import RUNS, factor_shl

PAPER, PAPER_WLS, SHL, ALS, ORACLE = "spectral, paper", "spectral, paper + WLS", "SHL", "ALS", "oracle"
OURS, OURS_WLS, OURS_EM, RANDOM_EM = "spectral, ours", "ours + WLS", "ours + EM", "EM, best of 3 random starts"
ALS_EM = "ALS + EM, best of 3 random starts"
METHODS = (PAPER, PAPER_WLS, OURS, OURS_WLS, OURS_EM, RANDOM_EM, ALS, ALS_EM, SHL, ORACLE)
SAME_OPTIMUM = 1e-5
"""Nats per cell by which log-likelihoods of one optimum may differ; the next one is further off."""
EXACT = 1e-10
"""Squared error per weight that counts as exact where there is no noise, and so no likelihood."""
RANDOM_STARTS = 3
SHARE = 0.4
"""Share of rows in which a switch is on, at a random start."""


@dataclass(frozen=True)
class Judged:
    """One method on one draw: squared error per weight, CPU seconds, at the optimum (None: not looked at)."""

    error: float
    seconds: float
    optimum: bool | None = None


def squared_error(W: Floats, found: Floats) -> float:
    """‖W − Ŵ‖²_F / (m d) after the best order of switches."""
    apart = ((W[:, None, :] - found[None, :, :]) ** 2).sum(axis=2)
    return float(((W - found[match_classes(-apart)]) ** 2).mean())


def judge(data: SwitchedRows, seed: int, methods: tuple[str, ...] = METHODS, shl_runs: int = RUNS) -> dict[str, Judged]:
    """Errors of all methods on one draw."""
    X, W, d, sigma = data.X, data.W, len(data.W), data.sigma
    rng = np.random.default_rng(seed)
    out: dict[str, Judged] = {}
    kept: dict[str, Floats] = {}

    def measure(name: str, fit: Callable[[], Floats], before: str | None = None) -> None:
        if name not in methods:
            return
        begin = time.process_time()
        kept[name] = fit()
        took = time.process_time() - begin + (out[before].seconds if before else 0.0)
        out[name] = Judged(squared_error(W, kept[name]), took)

    def polished(params: SwitchParams) -> tuple[Floats, float]:
        found = refine_switches(X, params)
        return found.params.W, found.log_likelihood

    with one_blas_thread():
        measure(PAPER, lambda: spectral_init(X, d, sigma=sigma, search="newton", rng=rng).W)
        measure(PAPER_WLS, lambda: weighted_least_squares(X, kept[PAPER], sigma), PAPER)
        measure(OURS, lambda: BinaryFactors(d, refine=None, random_state=seed).fit(X).components_)
        measure(OURS_WLS, lambda: weighted_least_squares(X, kept[OURS], sigma), OURS)
        reached: dict[str, float] = {}

        def ours() -> Floats:
            model = BinaryFactors(d, random_state=seed).fit(X)
            reached[OURS_EM] = model.log_likelihood_
            return model.components_

        def best_of(name: str, start: Callable[[Floats, int, np.random.Generator], SwitchParams]) -> Floats:
            tries = [polished(start(X, d, rng)) for _ in range(RANDOM_STARTS)]
            weights, reached[name] = max(tries, key=lambda pair: pair[1])
            return weights

        measure(OURS_EM, ours)
        measure(RANDOM_EM, lambda: best_of(RANDOM_EM, random_start))
        measure(ALS, lambda: alternating_least_squares(X, random_switches(len(X), d, rng))[0])
        measure(ALS_EM, lambda: best_of(ALS_EM, als_start))
        measure(SHL, lambda: factor_shl(X, d, rng, shl_runs).W)
        measure(ORACLE, lambda: oracle(X, data.h.astype(np.float64)))
        best = polished(initial_params(W, data.h.mean(axis=0), max(sigma, 1e-6) ** 2))[1] if reached and sigma else None
    for name, value in reached.items():
        there = out[name].error < EXACT if best is None else value >= best - SAME_OPTIMUM * X.size
        out[name] = Judged(out[name].error, out[name].seconds, bool(there))
    return out


def random_start(X: Floats, d: int, rng: np.random.Generator) -> SwitchParams:
    """Each switch a share of the mean, plus a random orthogonal direction in the plane of the leading eigenvectors.

    Of the random starts that were tried the best: weights drawn like the true ones, or in free directions, reached the
    optimum half as often.
    """
    seen = spectrum(X)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spread = max(float(seen.values[:d].sum() - seen.mean @ seen.mean), 0.0)  # variance in the plane
    length = 0.7 * np.sqrt(spread / d / (SHARE * (1 - SHARE)))
    W = seen.mean / (d * SHARE) + length * turn @ seen.vectors[:, :d].T
    return initial_params(W, np.full(d, SHARE), rest_variance(seen, d))


def als_start(X: Floats, d: int, rng: np.random.Generator) -> SwitchParams:
    """Where alternating least squares ends from random switches."""
    W, h, *_ = alternating_least_squares(X, random_switches(len(X), d, rng))
    return initial_params(W, h.mean(axis=0), rest_variance(spectrum(X), d))


def random_switches(n: int, d: int, rng: np.random.Generator) -> Floats:
    """A random start of alternating least squares."""
    return bits(rng.integers(0, 2**d, n), d)


def rest_variance(seen: Spectrum, d: int) -> float:
    """The noise, were the d leading directions all that is no noise."""
    return max(float(seen.values[d:].mean()), 1e-6) if len(seen.values) > d else 1e-6
