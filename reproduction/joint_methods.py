"""The paper's methods on a coded table: a start, then EM; and what its tables measure.

*As published*: CNMF-SPA with the first M columns against the rest. *Denoised*: the same split, the leading directions
evened out before projecting. *Searched*: denoised, ten balanced random splits, of which the one is kept whose factors
make the pair counts likeliest. Starts are softened by a tenth of the marginals before EM,
since a zero would stay one for ever; EM itself is plain maximum likelihood, (21)–(22).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.init import RowView, fill_classes, marginal_table, pair_frequencies, soften
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.spa import balanced_split, factor_spa, naive_split, pair_log_likelihood
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine
from latentfit.tables.estimator.latent_class import LatentClass
from latentfit.tables.init import factor_ctd

PAPER, DENOISED, SEARCHED = "as published", "denoised", "searched"
SPLITS = 10
"""Random splits among which the pair counts choose."""
NARROW, WIDE_SWEEPS = 5, 100
"""Sweeps of CTD, from one start, on tables with more columns than Table I's. Three times as many moved accuracy by
−2.1 to +2.5 points on one split of Car, by 0 to +1.2 on one of Mushroom."""

Start = Callable[[Table, int, np.random.Generator], Mixture]


@dataclass(frozen=True)
class Stage:
    """Where a fit is after some rounds of EM (0: the start alone), and the seconds it took until there."""

    rank: int
    rounds: int
    mixture: Mixture
    seconds: float

    def row(self, method: str) -> str:
        """The paper's name of the method at this stage."""
        return f"{method}-EM" if self.rounds else method


def spa_naive(n_left: int, denoise: bool) -> Start:
    """Algorithm 1 with S₁ = the first `n_left` columns; classes that X̃ cannot give are filled from data rows."""

    def start(table: Table, n_components: int, rng: np.random.Generator) -> Mixture:
        frequencies = pair_frequencies(count_table_pairs(table).dense(), table.column_offsets)
        split = naive_split(table.n_columns, n_left)
        found = factor_spa(frequencies, table.column_offsets, n_components, split, denoise=denoise)
        return fill_classes(found, RowView(table), n_components, rng)

    return start


def spa_searched(table: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Denoised SPA on several random splits, the one whose factors make the pair counts likeliest."""
    counts = count_table_pairs(table).dense()
    frequencies = pair_frequencies(counts, table.column_offsets)
    tried = []
    for _ in range(SPLITS):
        split = balanced_split(np.diff(table.column_offsets), rng)
        found = factor_spa(frequencies, table.column_offsets, n_components, split)
        tried.append(fill_classes(found, RowView(table), n_components, rng))
    return max(tried, key=lambda mixture: pair_log_likelihood(counts, mixture))


def ctd(table: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """All triples of a narrow table to convergence; fewer sweeps on a wide one, where they cost more."""
    wide = table.n_columns > NARROW
    most = WIDE_SWEEPS if wide else 300
    return factor_ctd(table, n_components, rng=rng, max_iter=most, n_inits=1 if wide else 4)


def starts(n_left: int) -> dict[tuple[str, str], Start]:
    """(method, variant) → what all of the paper's tables start from; with EM behind it, it is a second row."""
    spa = {PAPER: spa_naive(n_left, False), DENOISED: spa_naive(n_left, True), SEARCHED: spa_searched}
    return {**{("CNMF-SPA", variant): start for variant, start in spa.items()}, ("CTD", ""): ctd}


def start_of_em(found: Mixture, table: Table) -> Mixture:
    return soften(found, marginal_table(table))


def climb(table: Table, start: Mixture, *, max_iter: int, tol: float) -> Mixture:
    """Plain EM, accelerated, until an iteration gains less than `tol` nats per observed cell."""
    steps = table_steps(table, start.n_classes, 0.0, 1)
    return em(steps, start, max_iter=max_iter, tol=tol, accelerate=True).params


def stages(table: Table, start: Start, rank: int, seed: int, rounds: tuple[int, ...]) -> Iterator[Stage]:
    """The start, then plain EM (21)–(22) from it after each of the numbers of rounds: one climb gives the whole curve.

    The clock stands still while the caller judges a stage.
    """
    begin = time.perf_counter()
    found = start(table, rank, np.random.default_rng(seed))
    took = time.perf_counter() - begin
    yield Stage(rank, 0, found, took)
    steps, mixture, sums, done = table_steps(table, rank, 0.0, 1), start_of_em(found, table), None, 0
    for count in rounds:
        begin = time.perf_counter()
        refined = em(steps, mixture, max_iter=count - done, tol=0.0, known=sums)
        mixture, sums, done = refined.params, refined.sums, count
        took += time.perf_counter() - begin
        yield Stage(rank, count, mixture, took)


def chosen_by_validation(picked: list[Stage]) -> str:
    """The note of a row: which ranks and rounds its trials chose."""

    def span(values: list[int]) -> str:
        low, high = min(values), max(values)
        return f"{low}–{high}, median {np.median(values):.0f}" if low < high else f"{low}"

    ranks, rounds = [stage.rank for stage in picked], [stage.rounds for stage in picked]
    return f"F {span(ranks)}" + (f"; rounds {span(rounds)}" if max(rounds) else "")


def latent_class(table: Table, n_components: int | None, seed: int) -> Mixture:
    """What `LatentClass(n_components)` does by itself: its pool of starts and its smoothing."""
    cells = np.where(table.present, table.codes, np.nan)
    model = LatentClass(n_components, weight_type="frequency", random_state=seed, n_jobs=1)
    model.fit(cells, sample_weight=table.row_weight)
    stacked = np.zeros((int(table.column_offsets[-1]), len(model.weights_)))
    for n, (profile, words) in enumerate(zip(model.profiles_, model.categories_, strict=True)):
        stacked[table.column_offsets[n] + words.astype(np.intp)] = profile.T  # categories never seen keep their zero
    return Mixture(model.weights_, stacked, table.column_offsets)


def conditional(table: Table, mixture: Mixture, column: int) -> Floats:
    """P(column | the other observed cells of the row), (n, categories)."""
    hidden = table.codes.copy()
    hidden[:, column] = np.iinfo(hidden.dtype).max
    posterior = np.empty((table.n_rows, mixture.n_classes))

    def keep(begin: int, part: Floats, _: Floats) -> None:
        posterior[begin : begin + len(part)] = part

    MemoryEngine(Table(hidden, table.columns), 1).rows(mixture, keep)
    chance = posterior @ mixture.table[mixture.column_offsets[column] : mixture.column_offsets[column + 1]].T
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def joint_tensor(mixture: Mixture) -> Floats:
    """The whole joint distribution, flattened: for a few small columns only."""
    product = mixture.weights[None, :]
    for begin, end in zip(mixture.column_offsets[:-1], mixture.column_offsets[1:], strict=True):
        product = (product[:, None, :] * mixture.table[None, begin:end]).reshape(-1, mixture.n_classes)
    return np.asarray(product.sum(axis=1))


def relative_error(found: Mixture, truth: Mixture) -> float:
    """MRE: ‖X̂ − X‖_F / ‖X‖_F of the joint distributions."""
    exact = joint_tensor(truth)
    return float(np.linalg.norm(joint_tensor(found) - exact) / np.linalg.norm(exact))


def factor_error(found: Mixture, truth: Mixture) -> float:
    """MSE of the factors: Σ_n ‖Â_n Π − A_n‖²_F / (N F) in the one order Π of the classes that fits best."""
    distance = np.square(truth.table[:, :, None] - found.table[:, None, :]).sum(axis=0)
    order: NDArray[np.intp] = match_classes(-distance)
    return float(distance[np.arange(len(order)), order].sum() / (truth.n_columns * truth.n_classes))
