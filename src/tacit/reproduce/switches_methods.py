"""Every method of Figures 2 and 5 on the same rows: its weights, its CPU seconds, whether it is at the optimum.

Paper's rows: Algorithm 1 with d and σ known (Algorithm 2 without noise), the same with one weighted least-squares step
(Appendix K), SHL as the best of 50 runs, ALS from random switches (Appendix L), least squares on the true switches
(oracle). Ours: `BinaryFactors` told d alone, its spectral weights and after EM. Plain EM, the best of three random
starts, shows what the spectral start is worth.
Seconds are CPU time of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.engine.blas import one_blas_thread
from tacit.factor.assign import match_classes
from tacit.models.binary_factors import BinaryFactors
from tacit.moments.whitened import spectrum
from tacit.refine.switch_baselines import (
    alternating_least_squares,
    oracle,
    random_switches,
    weighted_least_squares,
)
from tacit.refine.switch_start import spectral_start
from tacit.refine.switches import SwitchParams, first_params, refine_switches
from tacit.reproduce.baselines.shl import RUNS, factor_shl
from tacit.simulate import SwitchedRows
from tacit.simulate.switches import draw_weights

Floats = NDArray[np.float64]

PAPER, PAPER_WLS, SHL, ALS, ORACLE = "spectral, paper", "spectral, paper + WLS", "SHL", "ALS", "oracle"
OURS, OURS_WLS, OURS_EM, RANDOM_EM = "spectral, ours", "ours + WLS", "ours + EM", "EM, best of 3 random starts"
METHODS = (PAPER, PAPER_WLS, OURS, OURS_WLS, OURS_EM, RANDOM_EM, ALS, SHL, ORACLE)
SAME_OPTIMUM = 1e-5
"""Nats per cell by which log-likelihoods of one optimum may differ; the next one is further off."""
EXACT = 1e-10
"""Squared error per weight that counts as exact where there is no noise, and so no likelihood."""
RANDOM_STARTS = 3


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

    def polished(params: SwitchParams, accelerate: bool = True) -> tuple[Floats, float]:
        found = refine_switches(X, params, accelerate=accelerate)
        return found.params.W, found.log_likelihood

    with one_blas_thread():
        measure(PAPER, lambda: spectral_start(X, d, sigma=sigma, search="newton", rng=rng).W)
        measure(PAPER_WLS, lambda: weighted_least_squares(X, kept[PAPER], sigma), PAPER)
        measure(OURS, lambda: BinaryFactors(d, refine=None, random_state=seed).fit(X).components_)
        measure(OURS_WLS, lambda: weighted_least_squares(X, kept[OURS], sigma), OURS)
        reached: dict[str, float] = {}

        def ours() -> Floats:
            model = BinaryFactors(d, random_state=seed).fit(X)
            reached[OURS_EM] = model.log_likelihood_
            return model.components_

        def random() -> Floats:
            tries = [polished(random_start(X, d, rng), accelerate=False) for _ in range(RANDOM_STARTS)]
            weights, reached[RANDOM_EM] = max(tries, key=lambda pair: pair[1])
            return weights

        measure(OURS_EM, ours)
        measure(RANDOM_EM, random)
        measure(ALS, lambda: alternating_least_squares(X, random_switches(len(X), d, rng))[0])
        measure(SHL, lambda: factor_shl(X, d, rng, shl_runs).W)
        measure(ORACLE, lambda: oracle(X, data.h.astype(np.float64)))
        best = polished(first_params(W, data.h.mean(axis=0), max(sigma, 1e-6) ** 2))[1] if reached and sigma else None
    for name, value in reached.items():
        there = out[name].error < EXACT if best is None else value >= best - SAME_OPTIMUM * X.size
        out[name] = Judged(out[name].error, out[name].seconds, bool(there))
    return out


def random_start(X: Floats, d: int, rng: np.random.Generator) -> SwitchParams:
    """Weights drawn like the true ones, switches on in two rows of five, twice the noise so that EM can move."""
    seen = spectrum(X)
    rest = float(seen.values[d:].mean()) if len(seen.values) > d else 0.0
    return first_params(draw_weights(d, X.shape[1], rng), np.full(d, 0.4), max(4 * rest, 1e-6))
