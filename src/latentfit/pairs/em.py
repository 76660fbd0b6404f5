"""A mixing distribution on a grid, and what each unit is worth under it: the nonparametric part of empirical Bayes.

Model     unit i has a hidden number θ_i drawn from an unknown distribution on a grid, and a likelihood of every grid
          point
Paper     Robbins 1956; Kiefer & Wolfowitz 1956 (the maximum-likelihood mixing distribution); Laird 1978 (its EM)
Needs     the likelihoods, nothing of the mixing distribution
Promises  no step lowers the objective; at convergence the mixing distribution is the maximum over the grid
Differs   `pseudo` units of a given distribution may be added as a prior: small groups of units are drawn to that of all

Symbols   paper   here             shape           meaning
          G       params           (point,)        the mixing distribution
          f       log_likelihood   (unit, point)   of every unit at every grid point
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latentfit.core.counts import Counts
from latentfit.core.em import EMResult, Step, em, squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.pair_rows import PairRows, Side, pair_levels
from latentfit.core.pair_em import PairStatistics, PairSteps
from latentfit.core.spectral import PairModel, ScaledSVD
from latentfit.pairs.data import split_counts
from latentfit.pairs.init import Factored, Phases, rank_two

LEAST_PROPORTION = 1e-300
"""A grid point's probability never reaches zero, so that its logarithm stays a number."""


@dataclass(frozen=True)
class MixingStatistics:
    """Expected units at each grid point, and the log-likelihood."""

    at_points: Floats
    log_likelihood: float


class MixingSteps:
    """E and M step of a mixing distribution (point,); `log_likelihood` is (unit, point), `prior` pseudo-units at each
    point."""

    def __init__(
        self,
        log_likelihood: Floats,
        *,
        multiplicity: Floats | None = None,
        prior: Floats | None = None,
        n_cells: int | None = None,
    ) -> None:
        best = log_likelihood.max(axis=1)
        self.likelihood = np.exp(log_likelihood - best[:, None])
        self.multiplicity = np.ones(len(best)) if multiplicity is None else multiplicity
        self.prior = np.zeros(log_likelihood.shape[1]) if prior is None else prior
        self.n_cells = int(self.multiplicity.sum()) if n_cells is None else n_cells
        self._offset = float(self.multiplicity @ best)

    def e_step(self, params: Floats) -> MixingStatistics:
        marginal = np.maximum(self.likelihood @ params, LEAST_PROPORTION)
        sums = params * (self.likelihood.T @ (self.multiplicity / marginal))
        return MixingStatistics(sums, self._offset + float(self.multiplicity @ np.log(marginal)))

    def objective(self, params: Floats, sums: MixingStatistics) -> float:
        return sums.log_likelihood + float(self.prior @ np.log(np.maximum(params, LEAST_PROPORTION)))

    def log_likelihood(self, sums: MixingStatistics) -> float:
        return sums.log_likelihood

    def m_step(self, sums: MixingStatistics) -> Floats:
        total = sums.at_points + self.prior
        return np.asarray(total / total.sum())

    def extrapolate(self, start: Floats, once: Floats, twice: Floats) -> Floats:
        """SQUAREM's extrapolation, back onto the simplex."""
        (far,) = squarem([start], [once], [twice])
        far = np.maximum(far, 0.1 * twice)
        return np.asarray(far / far.sum())

    def posterior_moments(self, params: Floats, grid: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of every unit's number."""
        marginal = np.maximum(self.likelihood @ params, LEAST_PROPORTION)
        mean = (self.likelihood @ (params * grid)) / marginal
        return mean, np.maximum((self.likelihood @ (params * grid**2)) / marginal - mean**2, 0.0)


def run_em(steps: MixingSteps, start: Floats, *, max_iter: int, tol: float) -> EMResult[Floats, MixingStatistics]:
    """The one EM loop on a mixing distribution."""
    return em(steps, start, max_iter=max_iter, tol=tol, accelerate=True)


def even_distribution(n_points: int) -> Floats:
    """Every grid point alike."""
    return np.full(n_points, 1.0 / n_points)


@dataclass(frozen=True)
class ShrinkageSettings:
    """Tuned constants of the empirical Bayes of rank two."""

    most_shrunk: float = 2_500.0  # counts above it are their own rates: their relative error is below 2 %
    # EM of the distribution of the rates: posterior means converge long before it does.
    rate_iterations: int = 60
    rate_tol: float = 1e-5
    # Steps of the grid in the root of the rate, where a Poisson count has the standard deviation ½ whatever its rate.
    root_step: float = 0.25
    # Times every item is weighed anew by its partners' means: a fourth moves B by less than .01 on simulated models,
    # and from so many pairs per item on the third by .004 at the most.
    rounds: int = 3
    pairs_for_fewer: float = 50.0
    # Grid points of x in the last round and before it, and levels at which partners are tallied (linear in between).
    points: int = 41
    coarse: int = 21
    levels: int = 33
    # Proportion of the counts at either end that the interval of x, before it is stretched to its bound, may leave
    # outside.
    edge: float = 0.02
    # Separations that are cut stay this far inside their interval: no pair gets the probability zero.
    inside: float = 0.99
    group_pseudo: float = 20.0  # items by which the distribution of a frequency level is drawn to the common one
    # EM steps of a level's distribution from the common one: it need not be the maximum, only better than what it
    # came from.
    group_steps: int = 20
    # Grid points per standard error of a group's surest item, and at most.
    points_per_error: float = 2.0
    most_points: int = 401
    # Steps that settle the marginals at the most, and the change in ℓ₁ at which they rest.
    most_half_steps: int = 200
    least_move: float = 1e-12
    # Largest ratio of the interval's two ends: beyond it the rarer cause has 1/400 of the counts.
    most_uneven: float = 20.0


SHRINKAGE = ShrinkageSettings()


def poisson_rates(counts: Floats) -> Floats:
    """Posterior mean rates of Poisson counts (M,) whose rates have an unknown distribution: frequent counts barely
    move.

    A count of zero gets the rate that the distribution of all others leaves it, so an item never seen keeps some
    probability.
    """
    from scipy.special import gammaln

    rates = counts.astype(np.float64)
    shrunk = counts <= SHRINKAGE.most_shrunk
    values, place, many = np.unique(counts[shrunk], return_inverse=True, return_counts=True)
    if not len(values):
        return rates
    least = float(values[values > 0].min(initial=1.0))
    grid = np.arange(0.2 * np.sqrt(min(least, 1.0)), np.sqrt(values[-1]) + 1.0, SHRINKAGE.root_step) ** 2
    likelihood = values[:, None] * np.log(grid) - grid - gammaln(values + 1)[:, None]
    steps = MixingSteps(likelihood, multiplicity=many.astype(np.float64))
    fitted = run_em(steps, even_distribution(len(grid)), max_iter=SHRINKAGE.rate_iterations, tol=SHRINKAGE.rate_tol)
    rates[shrunk] = steps.posterior_moments(fitted.params, grid)[0][place.reshape(-1)]
    return rates


# -----------------------------------------------------------------------------
# Empirical Bayes for rank 2: marginals and separations of pair counts, each item shrunk as its counts deserve.
#
# Model     B_ij = ρ_i ρ'_j (1 + sign · x_i y_j) with x = Δ/ρ; ρ and x drawn from unknown distributions, that of x one
#           per level of frequency
# Paper     Huang, Kakade, Kong & Valiant 2018, (4), and the anchor step of Section 4.2; Robbins 1956 for empirical
#           Bayes
# Needs     a decomposition above the noise (`core.spectral.scaled_svd`)
# Promises  x and y lie in intervals whose vertices keep every B_ij nonnegative, so the matrix stays in factored form
# Differs   from the paper entirely: its phases estimate each x_i from its own counts. Here a row's likelihood in x_i is
#           exact, Σ_j C_ij log(1 + sign · x_i ŷ_j): the probability of one count is linear in y_j, so its posterior
#           mean ŷ_j is all that matters. ŷ_j has seen the pair (i, j) itself; what it would be without the count of
# that pair
#           and without its exposure N ρ_i ρ'_j is taken to first order (`kernels.pair_levels`), as in belief
#           propagation. Phase II's anchor step survives as the scale: ŷ is
#           multiplied so that its covariance over pairs and its variance over items agree (Section 4.2)
#
# Symbols   paper      here         shape      meaning
#           ρ          marginal     (M,)       posterior mean rates, normalised; at last the weights that keep them
#           Δ/ρ        lift         (M,)       x, posterior means
#           —          grid         (G,)       where x may lie
#           —          levels       (Q,)       where the partners' means are tallied

LEAST_PROBABILITY = 1e-3
"""Least value of 1 ± x y in a likelihood: a pair that the vertex of the interval excludes costs 7 nats, not infinitely
many, because vertices are estimates."""


@dataclass(frozen=True)
class Shrunk:
    """B_ij = marginal_i column_marginal_j (1 + sign · lift_i column_lift_j) up to normalisation."""

    marginal: Floats
    column_marginal: Floats
    lift: Floats
    column_lift: Floats
    sign: float
    refined: EMResult[Floats, MixingStatistics]  # the last EM run of the rows' mixing distribution


def shrink_pairs(
    counts: Counts, decomposed: ScaledSVD, *, max_iter: int = 200, tol: float = 1e-6, threads: int = 1
) -> Shrunk:
    """Marginals and lifts of a centred decomposition with one vector, shrunk."""
    problem = _Problem(counts, counts.rows, counts.columns, decomposed, threads, max_iter, tol)
    return keep_marginals(problem.symmetric() if decomposed.symmetric else problem.asymmetric())


def keep_marginals(shrunk: Shrunk) -> Shrunk:
    """The same lifts, with weights u and w for which B ∝ u_i w_j (1 + sign · x_i y_j) has ρ and ρ' as its marginals.

    B's row sums are u_i (1 + sign · x_i Σ w y). Lifts that are shrunk one by one do not balance out (Σ w y ≠ 0), and
    where few items hold most of the pairs the marginals would move with them. Half steps towards the fixed point.
    """
    same = shrunk.marginal is shrunk.column_marginal
    u, w = shrunk.marginal, shrunk.column_marginal
    for _ in range(SHRINKAGE.most_half_steps):
        near_u = _balanced(shrunk.marginal, shrunk.sign * shrunk.lift * float(w @ shrunk.column_lift))
        near_w = (
            near_u
            if same
            else _balanced(shrunk.column_marginal, shrunk.sign * shrunk.column_lift * float(u @ shrunk.lift))
        )
        moved = float(np.abs(near_u - u).sum() + np.abs(near_w - w).sum())
        u = (u + near_u) / 2
        w = u if same else (w + near_w) / 2
        if moved < SHRINKAGE.least_move:
            break
    return replace(shrunk, marginal=u, column_marginal=w)


def _balanced(marginal: Floats, shift: Floats) -> Floats:
    weight = marginal / np.maximum(1 + shift, LEAST_PROBABILITY)
    return np.asarray(weight / weight.sum())


@dataclass(frozen=True)
class _Problem:
    counts: Counts
    rows: PairRows
    turned: PairRows
    decomposed: ScaledSVD
    threads: int
    max_iter: int
    tol: float

    @property
    def rounds_needed(self) -> int:
        enough = self.counts.n_pairs >= SHRINKAGE.pairs_for_fewer * np.sqrt(self.counts.shape[0] * self.counts.shape[1])
        return SHRINKAGE.rounds - 1 if enough else SHRINKAGE.rounds

    def symmetric(self) -> Shrunk:
        """One side: a pair (i, j) informs about i and about j."""
        value = float(self.decomposed.values[0])
        sign = 1.0 if value >= 0 else -1.0
        raw = self.decomposed.embedding()[0][:, 0] * np.sqrt(abs(value))
        both_ways = self.counts.symmetric  # every pair stands in the matrix twice: one pass sees it from both ends
        seen = self.counts.row_sums if both_ways else self.counts.row_sums + self.counts.column_sums
        rates = poisson_rates(seen)
        marginal = rates / rates.sum()
        low, high = interval(raw, self.decomposed.row_marginal, even=sign < 0)
        side = self._with_rate(_start(raw, self.decomposed.row_marginal, seen, low, high), self.decomposed.row_marginal)
        refined, rounds = None, self.rounds_needed
        for turn in range(rounds):
            tally, moments = self._tally(self.rows, side, side, sign)
            if not both_ways:
                tally += self._tally(self.turned, side, side, sign)[0]
            scale = anchor_scale(moments / self.counts.total, side, marginal, sign)
            partner = replace(side, mean=scale * side.mean, low=scale * low, high=scale * high)
            last = turn == rounds - 1
            lift, var, refined = self._weigh(tally, seen, partner, float(marginal @ partner.mean), sign, side, last)
            # the two halves of the step pull in turn: the mean of both is where they meet
            lift = lift if turn == 0 else (lift + side.mean) / 2
            side = replace(side, mean=lift, var=var)
        assert refined is not None
        return Shrunk(marginal, marginal, side.mean, side.mean, sign, refined)

    def asymmetric(self) -> Shrunk:
        """Two sides in turn: rows given columns, columns given rows."""
        root = np.sqrt(self.decomposed.values[0])
        raws = [part[:, 0] * root for part in self.decomposed.embedding()]
        masses = [self.decomposed.row_marginal, self.decomposed.column_marginal]
        tallied, seen = [self.rows, self.turned], [self.counts.row_sums, self.counts.column_sums]
        marginals = [rates / rates.sum() for rates in (poisson_rates(part) for part in seen)]
        intervals = _two_intervals(raws, masses)
        sides = [self._with_rate(_start(raws[s], masses[s], seen[s], *intervals[s]), masses[s]) for s in (0, 1)]
        refined = None
        rounds = self.rounds_needed
        for turn in range(rounds):
            for s in (1, 0):
                own, partner = sides[s], sides[1 - s]
                tally, _moments = self._tally(tallied[s], own, partner, 1.0)
                mean = float(marginals[1 - s] @ partner.mean)
                lift, var, refined = self._weigh(tally, seen[s], partner, mean, 1.0, own, turn == rounds - 1)
                sides[s] = replace(own, mean=lift, var=var)
        assert refined is not None
        return Shrunk(marginals[0], marginals[1], sides[0].mean, sides[1].mean, 1.0, refined)

    def _with_rate(self, side: Side, marginal: Floats) -> Side:
        """With what makes the expected count of a pair of the matrix, total · ρ_i ρ'_j."""
        return replace(side, rate=np.sqrt(self.counts.total) * marginal)

    def _tally(self, rows: PairRows, own: Side, partner: Side, sign: float) -> tuple[Floats, Floats]:
        return pair_levels(
            rows, own, partner, levels=SHRINKAGE.levels, sign=sign, least=LEAST_PROBABILITY, threads=self.threads
        )

    def _weigh(
        self, tally: Floats, seen: Floats, partner: Side, partner_mean: float, sign: float, own: Side, last: bool
    ) -> tuple[Floats, Floats, EMResult[Floats, MixingStatistics]]:
        """Posterior mean and variance of every item's x: under the distribution of all, and at last under one per
        frequency."""
        grid = np.linspace(own.low, own.high, SHRINKAGE.points if last else SHRINKAGE.coarse)
        cells = int(seen.sum())
        value = self._row_likelihood(tally, seen, partner, partner_mean, sign, grid)
        all_units = MixingSteps(value, n_cells=cells)
        common = run_em(all_units, even_distribution(len(grid)), max_iter=self.max_iter, tol=self.tol)
        if not last:
            return *all_units.posterior_moments(common.params, grid), common
        mean, var = np.empty(len(seen)), np.empty(len(seen))
        for group, points in _frequency_groups(seen, own):
            fine, mixing, part = grid, common.params, value[group]
            if points > SHRINKAGE.points:  # few items with many counts: a grid as fine as they are sure
                fine = np.linspace(own.low, own.high, points)
                mixing = np.interp(fine, grid, mixing)
                mixing /= mixing.sum()
                part = self._row_likelihood(tally[group], seen[group], partner, partner_mean, sign, fine)
            steps = MixingSteps(part, prior=SHRINKAGE.group_pseudo * mixing, n_cells=int(seen[group].sum()))
            fitted = run_em(steps, mixing, max_iter=SHRINKAGE.group_steps, tol=self.tol)
            mean[group], var[group] = steps.posterior_moments(fitted.params, fine)
        return mean, var, common

    def _row_likelihood(
        self, tally: Floats, seen: Floats, partner: Side, partner_mean: float, sign: float, grid: Floats
    ) -> Floats:
        """Σ_j C_ij log(1 + sign · x ŷ_j) − n_i log(1 + sign · x Σρŷ) on a grid of x, (item, point)."""
        levels = np.linspace(partner.low, partner.high, SHRINKAGE.levels)
        log_factors = np.log(np.maximum(1 + sign * np.outer(levels, grid), LEAST_PROBABILITY))
        rest = np.log(np.maximum(1 + sign * partner_mean * grid, LEAST_PROBABILITY))
        return np.asarray(tally @ log_factors - seen[:, None] * rest)


def anchor_scale(moments: Floats, side: Side, marginal: Floats, sign: float) -> float:
    """c with c · Σρŷ² = the root of the covariance of ŷ over pairs, each without the pair itself (Section 4.2).

    `moments` are means over pairs of (ŷ_j ŷ_i, ŷ_j, ŷ_i).
    """
    covariance = sign * (moments[0] - moments[1] * moments[2])
    variance = float(marginal @ side.mean**2) - float(marginal @ side.mean) ** 2
    if variance <= 0:
        return 1.0
    return float(np.clip(np.sqrt(max(float(covariance), 0.0)) / variance, 0.5, 2.0))


def cut_lifts(initial: ScaledSVD | Phases) -> Factored:
    """Marginals and separations as they came, the latter cut where B would be negative."""
    if isinstance(initial, ScaledSVD):
        root = np.sqrt(np.abs(initial.values[0]))
        raws = [part[:, 0] * root for part in initial.embedding()]
        masses, sign, same = (
            [initial.row_marginal, initial.column_marginal],
            float(np.sign(initial.values[0])),
            initial.symmetric,
        )
    else:
        masses = [np.maximum(part, 0.0) for part in initial.marginal]
        raws = [
            np.where(mass > 0, part / np.where(mass > 0, mass, 1.0), 0.0)
            for part, mass in zip(initial.delta, masses, strict=True)
        ]
        sign, same = initial.sign, initial.symmetric
    masses = [mass / mass.sum() for mass in masses]
    if same:
        low, high = interval(raws[0], masses[0], even=sign < 0)
        lift = np.clip(raws[0], SHRINKAGE.inside * low, SHRINKAGE.inside * high)
        return rank_two((masses[0], masses[0]), (lift, lift), sign or 1.0)
    ends = _two_intervals(raws, masses)
    lifts = [
        np.clip(raw, SHRINKAGE.inside * low, SHRINKAGE.inside * high)
        for raw, (low, high) in zip(raws, ends, strict=True)
    ]
    return rank_two((masses[0], masses[1]), (lifts[0], lifts[1]), 1.0)


def interval(raw: Floats, mass: Floats, *, even: bool = False) -> tuple[float, float]:
    """Ends low < 0 < high with low · high = −1: inside, 1 + x_i x_j is never negative. `even` for 1 − x_i x_j."""
    low, high = _quantiles(raw, mass)
    if even or not low < 0 < high:
        return -1.0, 1.0
    ratio = float(np.clip(high / -low, 1 / SHRINKAGE.most_uneven, SHRINKAGE.most_uneven))
    return -1 / np.sqrt(ratio), np.sqrt(ratio)


def _two_intervals(raws: list[Floats], masses: list[Floats]) -> list[tuple[float, float]]:
    """Ends of both sides, stretched together until a vertex of their product is −1."""
    ends = [_quantiles(raw, mass) for raw, mass in zip(raws, masses, strict=True)]
    if not all(low < 0 < high for low, high in ends):
        return [(-1.0, 1.0), (-1.0, 1.0)]
    stretch = 1 / np.sqrt(max(-ends[0][0] * ends[1][1], -ends[0][1] * ends[1][0]))
    return [(low * stretch, high * stretch) for low, high in ends]


def _quantiles(raw: Floats, mass: Floats) -> tuple[float, float]:
    order = np.argsort(raw, kind="stable")
    held = np.cumsum(mass[order])
    at = np.searchsorted(held, [SHRINKAGE.edge * held[-1], (1 - SHRINKAGE.edge) * held[-1]])
    return float(raw[order[at[0]]]), float(raw[order[min(at[1], len(raw) - 1)]])


def _start(raw: Floats, mass: Floats, seen: Floats, low: float, high: float) -> Side:
    """Raw separations under a normal distribution: variance t of the signal, 1/(n_i t) of the noise, t from their
    sum."""
    cut = np.clip(raw, low, high)
    spread = float(mass @ cut**2)
    noise = float(mass @ (1 / np.maximum(seen, 1.0)))
    inside = spread**2 - 4 * noise
    signal = (spread + np.sqrt(inside)) / 2 if inside > 0 else spread / 2
    noises = 1 / (np.maximum(seen, 0.5) * max(signal, 1e-12))
    shrinkage = signal / (signal + noises)
    return Side(cut * shrinkage, shrinkage * noises, low, high)


def _frequency_groups(seen: Floats, own: Side) -> list[tuple[NDArray[np.intp], int]]:
    """Items by powers of two of their counts, and for each group how many grid points its surest item needs."""
    level = np.floor(np.log2(np.maximum(seen, 1.0))).astype(np.int64)
    spread = np.sqrt(float(seen @ np.minimum(own.mean**2, 1.0)) / max(float(seen.sum()), 1.0))
    groups = []
    for one in np.unique(level):
        surest = 1 / (np.sqrt(2.0 ** (one + 1)) * max(spread, 0.1))  # standard error of x
        needed = int(
            np.clip(
                (own.high - own.low) / (surest / SHRINKAGE.points_per_error), SHRINKAGE.points, SHRINKAGE.most_points
            )
        )
        groups.append((np.flatnonzero(level == one), needed))
    return groups


# -----------------------------------------------------------------------------
# From a start to the fitted pair model: pseudo-counts by counts left out, EM, and marginals by empirical Bayes.
#
# Every item gets `smoothing` pseudo-counts, spread over causes like the causes' weights: what draws a rare item to the
# middle hardly moves a frequent one. They would flatten the marginals too, so these are put back afterwards as their
# own posterior means (`refine.mixing.poisson_rates`): an item's causes come from EM, its frequency from its count.

CANDIDATES = (0.5, 2.0, 5.0, 10.0, 20.0)
"""Pseudo-counts per item that are tried: .5 to 2 where every cause has items of its own, 5 to 20 for words in text."""
LEFT_OUT_PARTS = 5
"""One part in so many of the counts is left out to choose by."""
SHORT, ROUGH = 20, 1e-4
"""Iterations and tolerance of each candidate."""
LIFTED = 0.05
"""Weight of the marginal in every cause's initialisation: EM cannot leave zero."""


def fit_pair_model(
    counts: Counts,
    start: PairModel,
    *,
    symmetric: bool,
    smoothing: float | Literal["auto"],
    max_iter: int,
    tol: float,
    threads: int = 1,
    seed: int = 0,
    callback: Callable[[Step], None] | None = None,
) -> tuple[PairModel, EMResult[PairModel, PairStatistics]]:
    """The fitted model, and the EM run that led there."""
    amount = smoothing if smoothing != "auto" else chosen_smoothing(counts, start, symmetric, threads, seed)
    steps = _steps(counts, start, symmetric, amount, threads)
    fitted = em(steps, lifted(start, steps), max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
    return with_marginals(fitted.params, counts), fitted


def chosen_smoothing(counts: Counts, start: PairModel, symmetric: bool, threads: int, seed: int) -> float:
    """The candidate under which counts left out are likeliest."""
    parts = split_counts(counts, LEFT_OUT_PARTS, seed)
    rest = Counts(counts.matrix - parts[0].matrix, counts.row_names, counts.column_names, counts.symmetric)
    check = PairSteps(parts[0], symmetric=symmetric, threads=threads)
    scores = []
    for candidate in CANDIDATES:
        steps = _steps(rest, start, symmetric, candidate * (1 - 1 / LEFT_OUT_PARTS), threads)
        fitted = em(steps, lifted(start, steps), max_iter=SHORT, tol=ROUGH, accelerate=True)
        scores.append(check.log_likelihood(check.e_step(with_marginals(fitted.params, rest))))
    return CANDIDATES[int(np.argmax(scores))]


def with_marginals(model: PairModel, counts: Counts) -> PairModel:
    """The same causes of every item under marginals by empirical Bayes; an item without counts has the mean causes."""
    seen = [counts.row_sums, counts.column_sums]
    if model.symmetric:
        seen = [seen[0] if counts.symmetric else seen[0] + seen[1]]
    weights = [model.mixing.sum(axis=1), model.mixing.sum(axis=0)]
    sides = []
    for part, weight, sums in zip((model.left, model.right), weights, seen, strict=False):
        rates, joint = poisson_rates(sums), part * weight
        total = joint.sum(axis=1, keepdims=True)
        causes = np.where(total > 0, joint / np.where(total > 0, total, 1.0), weight)
        placed = rates[:, None] * causes
        sides.append(np.ascontiguousarray(placed / placed.sum(axis=0)))
    return PairModel(sides[0], sides[-1], model.mixing)


def lifted(start: PairModel, steps: PairSteps) -> PairModel:
    """The start with no zeros where there are counts."""
    sides = [
        np.ascontiguousarray((1 - LIFTED) * part + LIFTED * marginal[:, None])
        for part, marginal in zip((start.left, start.right), steps.marginals, strict=True)
    ]
    mixing = start.mixing + LIFTED / start.mixing.size
    return PairModel(sides[0], sides[0] if start.symmetric else sides[1], mixing / mixing.sum())


def _steps(counts: Counts, start: PairModel, symmetric: bool, amount: float, threads: int) -> PairSteps:
    weights = np.array([start.mixing.sum(axis=1), start.mixing.sum(axis=0)])
    return PairSteps(counts, symmetric=symmetric, smoothing=amount, weights=weights, threads=threads)
