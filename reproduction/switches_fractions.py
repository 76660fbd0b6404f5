"""Figure 6 (Appendix N) of the switches paper: cell fractions of twelve blood mixtures by methylation (Houseman 2012).

m = 12 samples, n = 500 sites, d = 4 cell types. The paper states Σ|W − Ŵ| / (m n), that is .003 for SHL and .00056 for
its method: divided by the m d fractions instead, as "mean |W − Ŵ|" reads, .375 and .07. Both are given. The paper's own
row follows its Section 5.2, as Appendix N says: all sets of four of Newton's candidates are tried, weights are brought
onto the simplex, and the set that leaves least with profiles in [0, 1] is taken. Elsewhere (the d best Kolmogorov–
Smirnov scores of Algorithm 1, SHL, BinaryFactors) weights that need not sum to one are clipped at zero and divided by
their sum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.core.matrix import NamedMatrix, read_named_matrix
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.tensor.binary import spectral_init, weights_of
from latentfit.engine.limits import one_blas_thread
from latentfit.factors.estimator import BinaryFactors
from latentfit.fractions.em import residual_squares
from latentfit.fractions.estimator import MixtureFractions
from latentfit.fractions.init import UnitValues, profiles_of
from latentfit.io.read import read_columns
from reproduction.baselines.shl import factor_shl
from reproduction.draw import draw_fractions
from reproduction.table import Curves, Outcome, Row, Run, absent, mean_row

FILES = {part: f"genetics/houseman2012_{part}" for part in ("mixtures.csv.gz", "reference.csv.gz", "design.csv")}
REPEATS = 10
PARTS = 4
"""NK cells are in the reference but in no sample."""
BY_MN, BY_DM = "Σ|W − Ŵ| / (m n)", "mean |W − Ŵ|, Σ / (d m)"
SPECTRAL, SCORED, SHL = "spectral, paper", "spectral, the best Kolmogorov–Smirnov scores", "SHL"
PAPER = {SPECTRAL: 0.00056, SHL: 0.003}
FAR = 10.0
"""Weights beyond this, of candidates that are nearly dependent, go onto the simplex from here."""
BLIND, KNOWN = "MixtureFractions(4)", "MixtureFractions(reference, 4 parts)"
Fit = Callable[[NamedMatrix, NamedMatrix, int], Floats]


def _proportions(weights: Floats) -> Floats:
    """Weights (d, sample) as fractions (sample, d)."""
    positive = np.maximum(weights.T, 0.0) + 1e-12
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def _sites(values: NamedMatrix) -> Floats:
    return np.ascontiguousarray(values.values.T)


def _searched(values: NamedMatrix, seed: int) -> Floats:
    """Section 5.2: of all sets of candidates the one whose fractions leave least with profiles in [0, 1]."""
    data = UnitValues.of(values.values)
    start = spectral_init(_sites(values), PARTS, search="newton", rng=seed)
    candidates = start.candidates.pairs.y
    best, least = np.full((len(values.values), PARTS), 1 / PARTS), np.inf
    for some in combinations(range(len(candidates)), PARTS):
        weights = weights_of(candidates[list(some)], start.whitening).T
        fractions = simplex_least_squares(np.eye(PARTS), np.clip(weights, -FAR, FAR), np.full_like(weights, 1 / PARTS))
        left = residual_squares(data, fractions, profiles_of(data.transposed, fractions))
        if left < least:
            best, least = fractions, left
    return best


METHODS: dict[str, Fit] = {
    SPECTRAL: lambda values, _, seed: _searched(values, seed),
    SCORED: lambda values, _, seed: _proportions(spectral_init(_sites(values), PARTS, search="newton", rng=seed).W),
    SHL: lambda values, _, seed: _proportions(factor_shl(_sites(values), PARTS, np.random.default_rng(seed)).W),
    "BinaryFactors(4)": lambda values, _, seed: _proportions(
        BinaryFactors(PARTS, random_state=seed).fit(_sites(values)).components_
    ),
    BLIND: lambda values, _, seed: MixtureFractions(PARTS, random_state=seed).fit(values).fractions_,
    "MixtureFractions(4, init='tensor', n_init=1)": lambda values, _, seed: (
        MixtureFractions(PARTS, init="tensor", n_init=1, random_state=seed).fit(values).fractions_
    ),
    KNOWN: lambda values, known, _: (
        MixtureFractions(reference=known.take_columns(np.arange(PARTS))).fit(values).fractions_
    ),
    "MixtureFractions(reference, 5 parts)": lambda values, known, _: (
        MixtureFractions(reference=known).fit(values).fractions_
    ),
}


def figure6(run: Run) -> Outcome:
    """Figure 6: real and estimated fractions."""
    paths = {part: run.find(name) for part, name in FILES.items()}
    title = "12 blood mixtures, 500 sites, 4 cell types (Houseman 2012)"
    lacking = [FILES[part] for part, path in paths.items() if path is None]
    if lacking:
        note = absent(lacking[0])
        rows = [Row("blood", name, measure=BY_MN, paper=PAPER.get(name), note=note) for name in METHODS]
        return Outcome(title, rows)
    mixtures, reference, design = (_read(path) for path in paths.values() if path is not None)
    values, truth = mixtures.transposed, design.values
    rows, columns = [], _columns(design)
    for method, fit in METHODS.items():
        sums, seconds = [], []
        for seed in run.seeds(1 if "reference" in method else REPEATS, 1):
            begin = time.process_time()
            with warnings.catch_warnings(), one_blas_thread():
                warnings.simplefilter("ignore")
                found = fit(values, reference, seed)
            seconds.append(time.process_time() - begin)
            real = truth[:, : found.shape[1]]
            apart = np.abs(real[:, :, None] - found[:, None, :]).sum(axis=0)
            found = found[:, match_classes(-apart)]
            sums.append(float(np.abs(real - found).sum()))
        by_mn = [total / values.values.size for total in sums]
        by_dm = [total / found.size for total in sums]
        rows.append(mean_row(Row("blood", method, measure=BY_MN, paper=PAPER.get(method)), by_mn, seconds))
        rows.append(mean_row(Row("blood", method, measure=BY_DM), by_dm, seconds))
        if method in (SPECTRAL, BLIND, KNOWN):
            columns[method] = found.reshape(-1).tolist()
        run.say(method)
    notes = ["the paper's figures times n / d: .07 (spectral) and .375 (SHL)", "seconds are CPU time of one thread"]
    return Outcome(title, rows, notes, Curves(columns, draw_fractions))


def _read(path: Path) -> NamedMatrix:
    return read_named_matrix(read_columns(path), what=str(path))


def _columns(design: NamedMatrix) -> dict[str, Sequence[object]]:
    """Real fractions of the four parts, one row per sample and part."""
    samples, parts = design.row_names or (), design.column_names[:PARTS]
    return {
        "sample": [name for name in samples for _ in parts],
        "part": [part for _ in samples for part in parts],
        "real": design.values[:, :PARTS].reshape(-1).tolist(),
    }
