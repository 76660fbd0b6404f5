"""Hidden switches on simulated rows: error beside the oracle, how often the optimum is reached, the number, the time.

python benchmarks/factors.py recovery --repeats 100 --rows 10000 --switches 6 --noise 0.1,0.2,0.4
python benchmarks/factors.py number --repeats 100
python benchmarks/factors.py time --switches 4,6,8,10,12 --rows 100000
python benchmarks/factors.py candidates --repeats 24 --rows 100000

A new model is drawn in every repeat (30 features). Seconds are CPU seconds of one thread, estimator included.
The optimum is where EM ends that starts from the truth; a fit reached it when it is at most 1 nat below.
`candidates` asks why the paper's choice (Newton's eigenpairs, the d best scores) fails where it does: is a true vector
among the candidates at all, or was it there and not chosen?
"""

from __future__ import annotations

import argparse
import time
import warnings

import harness  # noqa: F401 - puts the reproductions on the path
import numpy as np

from latentfit import BinaryFactors
from latentfit.core.tensor.binary import choose_all, spectral_init, weights_of
from latentfit.core.tensor.eigenpairs import newton, sphere
from latentfit.core.tensor.whitened import estimate_n_switches, spectrum, whitened_tensor
from latentfit.engine.limits import one_blas_thread
from latentfit.factors.em.least_squares import oracle
from latentfit.factors.em.steps import initial_params, refine_switches
from latentfit.simulate import binary_factors
from reproduction.switches_methods import squared_error as error

FEATURES = 30
FIRST_SEED = 1000
NUMBERS = [(6, 10_000, 0.1), (6, 10_000, 0.4), (6, 10_000, 0.7), (6, 10_000, 1.0), (6, 10_000, 2.0), (8, 10_000, 1.0),
           (6, 1_000, 0.4)]  # fmt: skip
"""Switches, rows and noise of the part `number`."""


def recovery(rows: int, switches: int, noises: list[float], repeats: int) -> None:
    print("| noise | oracle, median error | Latentfit | ratio | at the optimum | worst, nats | passes | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for noise in noises:
        best, ours, gap, seconds, passes = [], [], [], [], []
        for repeat in range(repeats):
            data = binary_factors(rows, FEATURES, switches, noise, FIRST_SEED + repeat)
            begin = time.process_time()
            model = BinaryFactors(switches).fit(data.X)
            seconds.append(time.process_time() - begin)
            truth = refine_switches(data.X, initial_params(data.W, data.h.mean(axis=0), noise**2))
            best.append(error(data.W, oracle(data.X, data.h)))
            ours.append(error(data.W, model.components_))
            gap.append(model.log_likelihood_ - truth.log_likelihood)
            passes.append(model.n_iter_)
        ratio = np.median(ours) / np.median(best)
        reached = np.mean(np.array(gap) > -1)
        print(
            f"| {noise} | {np.median(best):.2e} | {np.median(ours):.2e} | {ratio:.2f} | {reached:.2f} | "
            f"{min(gap):.1f} | {np.median(passes):.0f} | {np.median(seconds):.2f} |",
            flush=True,
        )


def number(repeats: int) -> None:
    print("| switches | rows | noise | right | too few | too many |")
    print("| --- | --- | --- | --- | --- | --- |")
    for switches, rows, noise in NUMBERS:
        found = []
        for repeat in range(repeats):
            data = binary_factors(rows, FEATURES, switches, noise, FIRST_SEED + repeat)
            found.append(estimate_n_switches(spectrum(data.X), 12).d)
        proportions = [np.mean(np.array(found) == switches), np.mean(np.array(found) < switches)]
        proportions.append(1 - sum(proportions))
        print(f"| {switches} | {rows} | {noise} | {' | '.join(f'{s:.2f}' for s in proportions)} |", flush=True)


def timing(rows: int, sizes: list[int], noises: list[float]) -> None:
    print("| switches | noise | moments | search | EM | all | passes | error over oracle's |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for switches in sizes:
        for noise in noises:
            data = binary_factors(rows, FEATURES, switches, noise, FIRST_SEED)
            begin = time.process_time()
            model = BinaryFactors(switches).fit(data.X)
            whole = time.process_time() - begin
            wall = model._clock.seconds
            scale = whole / sum(wall.values())  # stages are wall-clock: shares of the CPU time
            parts = [wall["data"] + wall["moments"], wall["factor"], wall["refine"]]
            ratio = error(data.W, model.components_) / error(data.W, oracle(data.X, data.h))
            shown = " | ".join(f"{part * scale:.2f}" for part in parts)
            print(f"| {switches} | {noise} | {shown} | {whole:.2f} | {model.n_iter_} | {ratio:.2f} |", flush=True)


def candidates(rows: int, switches: int, noise: float, repeats: int) -> None:
    print("Draws in which the paper's choice fails (error above 0.01). Errors: as it is, of candidates merged where")
    print("|cos| > .99, of independent candidates, of our search (with Levenberg-Marquardt). Distances: of the true")
    print("vector that is worst met to the nearest candidate, relative to its length.")
    print("| draw | paper | merged | independent | ours | nearest | nearest of 24,000 starts | nearest of ours |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for repeat in range(repeats):
        data = binary_factors(rows, FEATURES, switches, noise, FIRST_SEED + repeat)
        paper = spectral_init(data.X, switches, sigma=noise, search="newton", rng=repeat)
        if error(data.W, paper.W) < 0.01:
            continue
        ours = spectral_init(data.X, switches, sigma=noise, search="auto", rng=repeat)
        y = paper.candidates.pairs.y  # best score first
        truth = (np.linalg.pinv(paper.whitening.K) @ np.linalg.pinv(data.W)).T
        starts = sphere(24_000, switches, np.random.default_rng(0))
        many, found = newton(whitened_tensor(data.X, paper.whitening), starts)
        errors = [error(data.W, paper.W)]
        for chosen in (apart(y)[:switches], choose_all(y, np.arange(len(y)))):
            errors.append(error(data.W, weights_of(y[chosen], paper.whitening)))
        errors.append(error(data.W, ours.W))
        near = [farthest(truth, some) for some in (y, many[found], ours.candidates.pairs.y)]
        shown = " | ".join([*(f"{one:.1e}" for one in errors), *(f"{one:.3f}" for one in near)])
        print(f"| {repeat} | {shown} |", flush=True)


def apart(y: np.ndarray) -> list[int]:
    """Candidates in their order, without those whose direction a better one has."""
    u = y / np.linalg.norm(y, axis=1, keepdims=True)
    kept: list[int] = []
    for at in range(len(u)):
        if not kept or np.abs(u[kept] @ u[at]).max() <= 0.99:
            kept.append(at)
    return kept


def farthest(truth: np.ndarray, y: np.ndarray) -> float:
    """Of the true vectors' relative distances to their nearest candidates the largest."""
    return max(float(np.linalg.norm(y - one, axis=1).min() / np.linalg.norm(one)) for one in truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["recovery", "number", "time", "candidates"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--switches", default="6")
    parser.add_argument("--noise", default="0.4")
    options = parser.parse_args()
    sizes = [int(size) for size in options.switches.split(",")]
    noises = [float(noise) for noise in options.noise.split(",")]
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.part == "recovery":
            recovery(options.rows, sizes[0], noises, options.repeats)
        elif options.part == "number":
            number(options.repeats)
        elif options.part == "candidates":
            candidates(options.rows, sizes[0], noises[0], options.repeats)
        else:
            timing(options.rows, sizes, noises)


if __name__ == "__main__":
    main()
