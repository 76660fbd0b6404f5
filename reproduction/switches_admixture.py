"""Figure 4 of the switches paper: ancestry of simulated mosaics, Dirichlet parameters .1, 1 and 10, beside others.

d = 3 populations, m = 50 people (Appendix M). Three kinds of data: the stored mosaics (one draw of msprime each),
mosaics of a new coalescent in every repeat (msprime, the extra `genetics`), and mosaics of SNPs drawn one by one. The
error is mean |W − Ŵ| after the best order of populations, against the share of the genome that people really got; the
paper does not say whether it takes that or the Dirichlet draw, so both are given.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentfit.admixture.data.genotypes import read_genotypes
from latentfit.admixture.data.passes import snp_passes_for
from latentfit.admixture.estimator import Admixture
from latentfit.admixture.init import factor_admixture_tensor, leading_subspace
from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.engine.limits import one_blas_thread
from latentfit.simulate import admixture
from reproduction.baselines import ancestry_programs
from reproduction.baselines.alstructure import alstructure
from reproduction.draw import draw_against
from reproduction.table import Curves, Outcome, Row, Run, absent, add_line, mean_row

Fit = Callable[[NDArray[np.int8], int], tuple[Floats, float]]

ALPHAS = (0.1, 1.0, 10.0)
POPULATIONS, PEOPLE = 3, 50
SNPS, QUICK_SNPS = 30_000, 1_500
REPEATS = 10
MEASURES = {"proportions": "mean |W − Ŵ|", "nominal": "mean |W − Ŵ|, the Dirichlet draw"}
STORED = "genetics/sim_admix_d3_m50_alpha{alpha:.1f}.npz"


def _latentfit(**options: object) -> Fit:
    def fit(genotypes: NDArray[np.int8], seed: int) -> tuple[Floats, float]:
        begin = time.process_time()
        model = Admixture(POPULATIONS, random_state=seed, **options).fit(genotypes)  # type: ignore[arg-type]
        return model.ancestry_, time.process_time() - begin

    return fit


def _tensor(genotypes: NDArray[np.int8], seed: int) -> tuple[Floats, float]:
    """The paper's estimator: Newton's pairs, the subset likeliest on all SNPs, Ŵ its pseudo-inverse, unrefined."""
    begin = time.process_time()
    with one_blas_thread():
        snps = snp_passes_for(read_genotypes(genotypes), "memory", 1)
        means, rng = snps.genotypes.means, np.random.default_rng(seed)
        space = leading_subspace(snps, means, POPULATIONS)
        proportions = factor_admixture_tensor(snps, means, space, rng=rng, search="newton", judges=None)[0]
    return proportions, time.process_time() - begin


def _alstructure(genotypes: NDArray[np.int8], seed: int) -> tuple[Floats, float]:
    begin = time.process_time()
    found = alstructure(genotypes, POPULATIONS, np.random.default_rng(seed))[0]
    return found, time.process_time() - begin


METHODS: dict[str, Fit] = {
    "tensor eigenpairs (the paper's)": _tensor,
    "Admixture(init='tensor', refine=False)": _latentfit(init="tensor", refine=False, max_iter=0),
    "Admixture()": _latentfit(),
    "Admixture(refine=True)": _latentfit(refine=True),
    "ALStructure": _alstructure,
    "fastmixture": lambda genotypes, seed: ancestry_programs.fastmixture(genotypes, POPULATIONS, seed),
    "ADMIXTURE": lambda genotypes, seed: ancestry_programs.admixture(genotypes, POPULATIONS, seed),
}


def figure4(run: Run) -> Outcome:
    """Figure 4: mean error of proportions by Dirichlet parameter and method."""
    rows: list[Row] = []
    columns: dict[str, list[object]] = {"α": [], "method": [], MEASURES["proportions"]: []}
    snps = QUICK_SNPS if run.quick else SNPS
    for alpha in ALPHAS:
        for dataset, draws in _data(run, alpha, snps):
            if isinstance(draws, str):
                rows += [Row(dataset, name, measure=MEASURES["proportions"], note=draws) for name in METHODS]
            else:
                judged = _judged(dataset, draws)
                rows += judged
                kind = dataset.split(",")[0]
                for row in judged:
                    if row.measure == MEASURES["proportions"] and row.ours is not None:
                        add_line(columns, alpha, f"{row.method}, {kind}", row.ours)
            run.say(dataset)
    notes = ["seconds are CPU time of one thread", "the paper gives its figure as a picture only"]
    title = f"{POPULATIONS} populations, {PEOPLE} people, {snps:,} SNPs"
    return Outcome(title, rows, notes, Curves(dict(columns), draw_against))


Draws = list[tuple[int, NDArray[np.int8], dict[str, Floats]]]


def _data(run: Run, alpha: float, snps: int) -> Iterator[tuple[str, Draws | str]]:
    """Data sets of one α, each a list of (seed, genotypes, truths) or why there is none."""
    name = STORED.format(alpha=alpha)
    path = run.find(name)
    yield f"stored mosaics, α = {alpha:g}", absent(name) if path is None else _stored(path, snps)
    if not run.quick:
        dataset = f"coalescent mosaics, α = {alpha:g}"
        missing = find_spec("msprime") is None
        yield dataset, "skipped: msprime is not installed" if missing else _drawn(run, alpha, snps, True)
    yield f"mosaics of SNPs one by one, α = {alpha:g}", _drawn(run, alpha, snps, False)


def _stored(path: Path, snps: int) -> Draws:
    with np.load(path) as stored:
        genotypes = np.ascontiguousarray(stored["genotypes"][:, :: SNPS // snps])
        return [(0, genotypes, {name: np.asarray(stored[name], np.float64) for name in MEASURES})]


def _drawn(run: Run, alpha: float, snps: int, coalescent: bool) -> Draws:
    out: Draws = []
    for seed in run.seeds(REPEATS, 1):
        data = admixture(PEOPLE, POPULATIONS, snps, alpha=alpha, coalescent=coalescent, random_state=seed)
        alleles = data.genotypes.sum(axis=0, dtype=np.int64)
        both = np.ascontiguousarray(data.genotypes[:, (alleles > 0) & (alleles < 2 * PEOPLE)])
        out.append((seed, both, {name: getattr(data, name) for name in MEASURES}))
    return out


def _judged(dataset: str, draws: Draws) -> list[Row]:
    rows = []
    for method, fit in METHODS.items():
        errors: dict[str, list[float]] = {name: [] for name in MEASURES}
        seconds = []
        try:
            for seed, genotypes, truths in draws:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found, took = fit(genotypes, seed)
                seconds.append(took)
                for name in MEASURES:
                    errors[name].append(mean_distance(truths[name], found))
        except ancestry_programs.ProgramFailedError as error:
            rows.append(Row(dataset, method, measure=MEASURES["proportions"], note=f"skipped: {error}"))
            continue
        for name, measure in MEASURES.items():
            rows.append(mean_row(Row(dataset, method, measure=measure), errors[name], seconds))
    return rows
