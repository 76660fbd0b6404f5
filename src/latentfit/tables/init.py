"""The initialisations of latent classes, how many there are, and the multi-start between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import quasi_newton, table_steps
from latentfit.core.mixture.init import Sample, merged_inits, moment_inits, random_init
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Candidate, MultiStart, Selected, multistart, successive_halving
from latentfit.core.simplex import project_to_simplex, simplex_least_squares
from latentfit.core.table.table import Table
from latentfit.engine.memory import Sums
from latentfit.tables.moments import Triples, choose_triples, count_table_triples, triple_frequencies


@dataclass(frozen=True)
class SearchSettings:
    """Tuned numbers of the multi-start and of coupled tensor decomposition."""

    # Iterations of the rounds after which the better half of the initialisations stays, on samples of long tables.
    rounds: tuple[int, ...] = (4, 6)
    most: int = 48  # Initialisations of a table that costs next to nothing.
    # Rows × columns × classes over all initialisations: between the two, so many as this allows.
    init_work: int = 6_000_000
    last_gain: float = 0.01  # Part of `tail_gain` below which a quasi-Newton step is the last.
    random_runs: int = 2  # Random initialisations to every one by merging, after the first four.
    max_triples: int = 500  # Triples used of a wide table: each of 30 columns then meets 50 pairs of others.
    n_init: int = 4  # Random initialisations given a short run.
    short_sweeps: int = 20  # Sweeps of a short run.
    settled: float = 1e-6  # Fraction by which the last sweep lowers the objective.
    # Projected steps within one constrained least squares problem, which continues from the last sweep.
    inner_steps: int = 25


SEARCH = SearchSettings()

MIN_INIT = 4  # Initialisations of a table that is costly: two from moments where there are some, two by merging.


def n_init_for(table: Table, n_components: int) -> int:
    """How many initialisations ``n_init="auto"`` means: many where a pass is cheap, four where it is not."""
    work = max(table.n_rows * table.n_columns * n_components, 1)
    return 1 if n_components == 1 else int(np.clip(SEARCH.init_work // work, MIN_INIT, SEARCH.most))


def table_inits(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None, n_init: int = MIN_INIT
) -> list[tuple[str, Mixture]]:
    """Named initialisations: two by merging, two from moments where there are some, then random ones and merged ones.

    Merged classes are the best single one, random ones find optima that merging misses (docs/guide/tables.md).
    """
    return list(islice(_pool(sample, n_components, rng, n_jobs), n_init))


def _pool(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None
) -> Iterator[tuple[str, Mixture]]:
    yield from merged_inits(sample, n_components, rng, n_jobs)
    yield from moment_inits(sample, n_components, rng)
    number = 0
    while True:
        for name, merged in merged_inits(sample, n_components, rng, n_jobs):
            number += 1
            for k in range(SEARCH.random_runs):
                yield (
                    f"random {SEARCH.random_runs * (number - 1) + k + 1}",
                    random_init(sample.table, n_components, rng),
                )
            yield f"{name} {(number + 1) // 2 + 1}", merged


def select_by_halving(
    sample: Sample,
    inits: list[tuple[str, Mixture]],
    smoothing: float,
    n_jobs: int | None,
    **em_options: Any,
) -> Selected[Mixture, Sums]:
    """The best of the initialisations on the sample's rows; the better half stays each time, and one goes on."""
    steps = table_steps(sample.table, inits[0][1].n_classes, smoothing, n_jobs)
    return successive_halving(
        [Candidate(name, steps, init) for name, init in inits], rounds=SEARCH.rounds, accelerate=True, **em_options
    )


def select_by_multistart(
    sample: Sample,
    inits: list[tuple[str, Mixture]],
    smoothing: float,
    n_jobs: int | None,
    **em_options: Any,
) -> MultiStart[Mixture, Sums]:
    """The best of the initialisations on the sample's rows, several of them run until they have converged."""
    steps = table_steps(sample.table, inits[0][1].n_classes, smoothing, n_jobs, rooted=True)

    def finish(refined: EMResult[Mixture, Sums], max_iter: int) -> EMResult[Mixture, Sums]:
        return quasi_newton(steps, refined, max_iter, SEARCH.last_gain * em_options["tail_gain"])

    return multistart([Candidate(name, steps, init) for name, init in inits], finish=finish, **em_options)


# -----------------------------------------------------------------------------
# CTD: a latent class model from three-dimensional marginals by coupled tensor decomposition.
#
# Paper     Kargas, Sidiropoulos & Fu 2018, "Tensors, learning, and 'Kolmogorov extension' for finite-alphabet random
#           vectors": the joint distribution from the marginals of triples, alternating optimisation
# Needs     the triples' joint decomposition is unique, which holds for F well above the categories of one column when
#           there are many columns; every kept triple seen together often enough to be estimated
# Promises  exact marginals have the parameters as a global minimum, unique up to the order of classes; the objective
#           never rises. No promise that alternation finds the global minimum: several initialisations are tried
# Differs   the constrained least squares of a step are solved by accelerated projection onto simplices (paper: ADMM)
#           and taken back if they did not help, so every step is monotone; at most `SEARCH.max_triples` triples, spread
#           evenly over the columns (paper: all); a few short random initialisations, the best of which goes on (paper:
#           one)
#
# Symbols   paper   here       shape            meaning
#           X_jkl   marginals  (I_j, I_k, I_l)  estimated distribution of three columns
#           A_n     table      (C, F)           stacked factors, one block of rows per column
#           λ       weights    (F,)             class weights


@dataclass(frozen=True)
class CtdFactors:
    """Where the alternation ended, and the objective before it and after every sweep."""

    mixture: Mixture
    path: list[float]
    converged: bool


class CoupledTriples:
    """The objective Σ ‖X_jkl − [[λ; A_j, A_k, A_l]]‖² and its least squares problems."""

    def __init__(self, triples: Triples, marginals: Sequence[Floats], offsets: NDArray[np.int32]) -> None:
        self.column_offsets, self.n_columns = offsets, len(offsets) - 1
        self.triples = triples
        self.norm = float(sum(np.square(block).sum() for block in marginals))
        everywhere = [(index, mode) for index in range(len(triples)) for mode in range(3)]
        self.by_column = [
            self._unfold(n, [(t, mode) for t, mode in everywhere if triples[t, mode] == n], marginals)
            for n in range(self.n_columns)
        ]
        self.once = [
            self._unfold(n, [(t, 0) for t in range(len(triples)) if triples[t, 0] == n], marginals)
            for n in range(self.n_columns)
        ]

    def _unfold(
        self, n: int, places: list[tuple[int, int]], marginals: Sequence[Floats]
    ) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp], Triples]:
        """Marginals side by side with column n as rows, the two cells of each of their columns, the two columns."""
        size = int(self.column_offsets[n + 1] - self.column_offsets[n])
        blocks: list[Floats] = [np.zeros((size, 0))]
        left, right = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        others = np.zeros((len(places), 2), np.intp)
        for place, (t, mode) in enumerate(places):
            k, l = (int(m) for m in np.delete(self.triples[t], mode))
            others[place] = k, l
            blocks.append(np.moveaxis(marginals[t], mode, 0).reshape(size, -1))
            cells_k, cells_l = (
                np.arange(self.column_offsets[k], self.column_offsets[k + 1]),
                np.arange(self.column_offsets[l], self.column_offsets[l + 1]),
            )
            left.append(np.repeat(cells_k, len(cells_l)))
            right.append(np.tile(cells_l, len(cells_k)))
        return np.hstack(blocks), np.concatenate(left), np.concatenate(right), others

    def column_problem(self, mixture: Mixture, grams: Floats, n: int) -> tuple[Floats, Floats]:
        """Gram (F, F) and target (I_n, F): A_n minimises ⟨A G, A⟩ − 2 ⟨A, V⟩."""
        unfolded, left, right, others = self.by_column[n]
        spread = mixture.table[left] * mixture.table[right]  # Khatri–Rao products, stacked
        pairs = (grams[others[:, 0]] * grams[others[:, 1]]).sum(axis=0)
        return pairs * np.outer(mixture.weights, mixture.weights), (unfolded @ spread) * mixture.weights

    def weight_problem(self, mixture: Mixture) -> tuple[Floats, Floats]:
        """Gram (F, F) and target (F,) of λ; the objective is ‖X‖² + λᵀGλ − 2 λᵀv."""
        grams = self.grams(mixture)
        gram = grams[self.triples].prod(axis=1).sum(axis=0)
        target = np.zeros(mixture.n_classes)
        for n, (unfolded, left, right, _) in enumerate(self.once):
            if unfolded.shape[1]:
                block = mixture.table[self.column_offsets[n] : self.column_offsets[n + 1]]
                target += (block * (unfolded @ (mixture.table[left] * mixture.table[right]))).sum(axis=0)
        return gram, target

    def grams(self, mixture: Mixture) -> Floats:
        """A_nᵀA_n for every column (N, F, F)."""
        blocks = [mixture.table[a:b] for a, b in zip(self.column_offsets[:-1], self.column_offsets[1:], strict=True)]
        return np.stack([block.T @ block for block in blocks])

    def objective(self, mixture: Mixture) -> float:
        gram, target = self.weight_problem(mixture)
        return self.norm + float(mixture.weights @ gram @ mixture.weights - 2 * target @ mixture.weights)


def factor_ctd(
    table: Table,
    n_components: int,
    *,
    rng: np.random.Generator,
    n_inits: int = SEARCH.n_init,
    max_iter: int = 300,
) -> Mixture:
    """Latent classes of a table with missing values, from its triples; needs three columns seen together.

    The best of a few short runs is continued until a sweep lowers the objective by less than `SEARCH.settled` of it.
    """
    triples = choose_triples(table.n_columns, SEARCH.max_triples, rng)
    problem = CoupledTriples(*triple_frequencies(triples, count_table_triples(table, triples)), table.column_offsets)
    inits = [_random_factors(table.column_offsets, n_components, rng) for _ in range(n_inits)]
    few = min(SEARCH.short_sweeps, max_iter)
    short = [alternate(problem, init, max_iter=few, tol=SEARCH.settled) for init in inits]
    best = min(short, key=lambda run: run.path[-1])
    return alternate(problem, best.mixture, max_iter=max_iter - len(best.path) + 1, tol=SEARCH.settled).mixture


def alternate(problem: CoupledTriples, init: Mixture, *, max_iter: int, tol: float) -> CtdFactors:
    """Sweeps over A_1, …, A_N and λ, each an exact or at least improving constrained least squares step."""
    mixture, path = init, [problem.objective(init)]
    while len(path) <= max_iter:
        mixture, objective = _sweep(problem, mixture)
        path.append(min(objective, path[-1]))
        if path[-2] - path[-1] <= tol * path[-2]:
            return CtdFactors(mixture, path, True)
    return CtdFactors(mixture, path, False)


def _sweep(problem: CoupledTriples, mixture: Mixture) -> tuple[Mixture, float]:
    offsets, grams = problem.column_offsets, problem.grams(mixture)
    mixture = Mixture(mixture.weights, mixture.table.copy(), offsets)
    for n in range(problem.n_columns):
        gram, target = problem.column_problem(mixture, grams, n)
        block = mixture.table[offsets[n] : offsets[n + 1]]
        block[:] = coupled_least_squares(gram, target.T, block.T).T
        grams[n] = block.T @ block
    gram, target_weights = problem.weight_problem(mixture)
    weights = simplex_least_squares(gram, target_weights[None], mixture.weights[None])[0]
    objective = problem.norm + float(weights @ gram @ weights - 2 * target_weights @ weights)
    return Mixture(weights, mixture.table, offsets), objective


def coupled_least_squares(gram: Floats, target: Floats, init: Floats) -> Floats:
    """argmin of ⟨B, G B⟩ − 2 ⟨B, V⟩ over B (F, I) whose rows lie on the simplex; never worse than `init`.

    G couples the rows, so this is not one small problem per row as in `core/simplex.py`: accelerated projected gradient
    (Beck & Teboulle 2009) with restarts.
    """
    top = float(np.linalg.eigvalsh(gram)[-1])
    if top <= 0:
        return init
    point, ahead, momentum = init, init, 1.0
    for _ in range(SEARCH.inner_steps):
        new = project_to_simplex(ahead - (gram @ ahead - target) / top)
        step = new - point
        if ((ahead - new) * step).sum() > 0:  # the momentum points uphill: forget it
            momentum = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / grown * step
        point, momentum = new, grown
        if np.abs(step).max() < 1e-12:
            break
    return point if _value(gram, target, point) <= _value(gram, target, init) else init


def _value(gram: Floats, target: Floats, point: Floats) -> float:
    return float((point * (gram @ point - 2 * target)).sum())


def _random_factors(offsets: NDArray[np.int32], n_components: int, rng: np.random.Generator) -> Mixture:
    table = np.concatenate([rng.dirichlet(np.ones(size), size=n_components).T for size in np.diff(offsets)])
    return Mixture(np.full(n_components, 1 / n_components), table, offsets)
