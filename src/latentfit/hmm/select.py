"""How many hidden states: the smallest number that no other beats by more than a standard error on sequences left out.

Models with 1, 2, … states are fitted to most of the sequences (long ones are cut into pieces) and compared on the rest,
piece by piece. The walk ends when `patience` larger numbers in a row are no better than the best, or at the largest
number allowed. Of all numbers tried the smallest is taken whose loss to the best, by the pieces' differences, is at
most `sure` standard errors (the one-standard-error rule of regression trees) or `worth`. Numbers whose model has a
state that nothing is in, or the same state twice, are not taken. As the diagnostics do, models of either half are then
compared on the other one, and the number falls while its last state gains nothing there (`kept`).

Nothing here depends on the seed of a fit: what is left out, their content decides, every model is grown out of the one
before (`hmm/init.py`), and other random numbers are drawn alike each time. The number is a function of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import chain_log_likelihood
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.progress import candidate_numbers
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.fit import (
    FOLDS,
    NO_STATES,
    SEARCH,
    SELECTION_TOL,
    choose_smoothing,
    cut,
    few,
    grown_chain,
    random_inits,
    selection_steps,
    spectral_inits,
    thinned,
    unigram,
)
from latentfit.hmm.em.steps import Chain, ChainSteps, chain_prior, normalised
from latentfit.hmm.init import splits

MOST_TRIED = 20
"""The largest number tried where the user names none."""


@dataclass(frozen=True)
class SelectionSettings:
    """Tuned constants of the choice of the number of states."""

    sure: float = 1.0  # standard errors that a smaller number may lose on sequences left out
    # Steps looked at, in multiples of what the multi-start selection looks at: small gains need more data.
    more_data: int = 4
    # Nats per observation that any states must gain over none: less is a matter of how both are smoothed.
    first_gain: float = 1e-3
    # Larger numbers tried after the best, one more where observations are few: one model may be poor, the next good.
    patience: int = 2
    # Steps of either half of the data that the diagnostics fit models to, at most, or as many per symbol as are needed
    # to know symbols well.
    half_steps: int = 20_000
    random_inits: int = 2
    splits: int = 3  # splits of the model before, the most promising, that are tried
    # Observations, and proportion of all, that a state must be expected to have shown; below, nothing is in it.
    least_seen: float = 5.0
    least_proportion: float = 5e-4
    # Standard errors that the last state must gain when either half of the data is left out. Chosen numbers that were
    # too large gained less than 1 in simulated sequences, right ones more than 7.
    kept: float = 1.0
    halved: int = 4  # number of states from which on half as many are compared, too
    same: float = 0.05  # ℓ₁ distance of emissions and of transitions below which two states are one
    rounds: tuple[int, ...] = (8, 8, 16)
    max_iterations: int = 100
    first_strengths: tuple[float, ...] = (1.0, 8.0, 64.0, 512.0, 4096.0)
    # Pseudo-observations per state that are tried, and those of the walks where observations are few.
    strengths: tuple[float, ...] = (64.0, 512.0, 4096.0)
    # Number of states from which on a strength is given up that is so many nats per observation behind the best.
    settled: int = 8
    behind: float = 0.02
    # Nats per observation that a larger number must gain besides its standard error: less matters to nobody.
    worth: float = 5e-4


SELECTION = SelectionSettings()


class HalvesComparison(NamedTuple):
    """What models of either half of the data say about a model of all of it.

    Attributes
    ----------
    gain, error : float
        What all states gain over fewer on the other half, in nats per observation, and the standard error of that.
    models : tuple of `Chain`
        Models of all states, of either half.
    fewer : int
        The smaller number that they gain least over: one state fewer, or half as many.
    """

    gain: float
    error: float
    models: tuple[Chain, ...]
    fewer: int = 1


@dataclass(frozen=True)
class StatesPath:
    """Log-likelihood per observation of what was left out, for 1, 2, … states; none where nothing could be."""

    chosen: int
    held_out: list[float]
    errors: list[float]  # standard error of the difference from the best number
    limit: int = MOST_TRIED  # the largest number allowed
    chain: Chain | None = None  # the model of the chosen number, fitted to what was not left out
    halves: HalvesComparison | None = None  # what models of either half say about the chosen number
    n_rejected: int = 0  # by how much either half of the data lowered the number

    @property
    def best(self) -> int:
        """The number with the highest log-likelihood of what was left out."""
        return int(np.argmax(self.held_out)) + 1 if self.held_out else 1

    @property
    def at_limit(self) -> bool:
        """Whether the walk ended at the largest number allowed, the best of all, and either half agreed."""
        return len(self.held_out) == self.limit == self.best > 1 and self.n_rejected == 0

    def describe(self) -> str:
        """One sentence for the report."""
        if not self.held_out:
            return "1 state: there are too few steps to leave any out, and nothing else tells how many states there are"
        shown = ", ".join(f"{value:.4f}" for value in self.held_out)
        states = "1 state" if self.chosen == 1 else f"{self.chosen} states"
        rule = ""
        if self.chosen < self.best:
            rule = f", the smallest number within a standard error of the best, {self.best}"
        if self.n_rejected:
            rule = (
                f" (of {self.chosen + self.n_rejected}, the last gain nothing when either half of the data is left out)"
            )
        return f"{states}{rule}: log-likelihoods per observation of sequences left out for 1, 2, … states are {shown}"

    def as_dict(self) -> dict[str, Any]:
        return {"chosen": self.chosen, "held_out": self.held_out, "errors": self.errors, "limit": self.limit}


def choose_states(data: Sequences, *, most: int = MOST_TRIED, threads: int = 1) -> StatesPath:
    """Walk 1, 2, … `most` states and choose."""
    split = cut(data, FOLDS, proportion=0.25)
    if split.held is split.learn:
        return StatesPath(1, [], [], most)
    learn, held = (
        thinned(part, SELECTION.more_data * selection_steps(data), FOLDS) for part in (split.learn, split.held)
    )
    steps = ChainSteps(learn, chain_prior(data, 1.0), threads)  # symbols of what is left out are known
    chains = [unigram(learn, held, steps.prior)[0]]
    describe, sound = [_by_piece(chains[0], held)], [True]
    cells = max(held.n_observed, 1)
    best, fitted = 0, _Walk(steps, held)
    if len(learn.within(1)) and len(held.within(1)) and data.n_symbols > 1:
        for K in candidate_numbers(range(2, most + 1), "states"):
            chain = fitted.next(K)
            chains.append(chain)
            describe.append(_by_piece(chain, held))
            sound.append(superfluous(chain, chain.stationary() * data.n_observed) is None)
            first = SELECTION.first_gain * cells if best == 0 else 0.0
            if float(describe[-1].sum()) > float(describe[best].sum()) + first:
                best = K - 1
            elif K - 1 - best >= (SELECTION.patience if fitted.alone else SELECTION.patience + 1):
                break
    missing_symbols = [describe[best] - one for one in describe]
    errors = [float(np.sqrt(np.square(loss - loss.mean()).sum())) for loss in missing_symbols]
    near = [
        float(loss.sum()) <= max(SELECTION.sure * error, SELECTION.worth * cells)
        for loss, error in zip(missing_symbols, errors, strict=True)
    ]
    if best > 0:  # any states at all must be worth more than how both are smoothed
        near[0] = near[0] or float(missing_symbols[0].sum()) <= SELECTION.first_gain * cells
    near_best = [at for at in range(best + 1) if near[at] and sound[at]]
    first_choice = chosen = near_best[0] if near_best else best
    halves = None
    while chosen > 0:
        halves = compare_halves(data, chosen + 1, smoothing=fitted.strength, threads=threads)
        if halves is None or halves.gain > SELECTION.kept * halves.error:
            break
        chosen = max(at for at in range(chosen) if sound[at])
    held_out = [float(one.sum()) / cells for one in describe]
    errors = [error / cells for error in errors]
    return StatesPath(chosen + 1, held_out, errors, most, chains[chosen], halves, first_choice - chosen)


class _Walk:
    """Models of 2, 3, … states, each grown out of the one before.

    Where observations are few the smoothing decides more than the number, and after the few iterations that could
    choose it first the better one does not show yet: there every strength of `SELECTION.strengths` walks on its
    own, as long as it is not far behind, and the model under which what was left out is most probable stands for its
    number.
    """

    def __init__(self, steps: ChainSteps, held: Sequences) -> None:
        self.steps, self.held = steps, held
        self.alone = not few(steps.data)
        self.strengths: Sequence[float] = SELECTION.first_strengths if self.alone else SELECTION.strengths
        self.before = [unigram(steps.data, held, steps.prior)[0]] * (1 if self.alone else len(SELECTION.strengths))

    @property
    def strength(self) -> float:
        """Pseudo-observations per state of the last model; none where several walk side by side."""
        return self.strengths[1] if self.alone else NO_STATES

    def next(self, K: int) -> Chain:
        """The model of one state more."""
        if self.alone:
            chain, strength = _fit(self.steps, self.held, K, self.before[0], self.strengths)
            self.before, self.strengths = [chain], _around(strength)
            return chain
        pairs = zip(self.before, self.strengths, strict=True)
        chains = [_fit(self.steps, self.held, K, before, [strength])[0] for before, strength in pairs]
        values = [float(_by_piece(chain, self.held).sum()) for chain in chains]
        least = -np.inf
        if chains[0].n_states >= SELECTION.settled:
            least = max(values) - SELECTION.behind * self.held.n_observed
        near_best = [at for at, value in enumerate(values) if value > least]
        self.before, self.strengths = [chains[at] for at in near_best], [self.strengths[at] for at in near_best]
        return chains[int(np.argmax(values))]


def superfluous(chain: Chain, shown: Floats) -> int | None:
    """A state that nothing is in, by the observations that each is expected to have shown, or that is there twice."""
    if chain.n_states == 1:
        return None
    least = int(shown.argmin())
    if shown[least] < max(SELECTION.least_seen, SELECTION.least_proportion * float(shown.sum())):
        return least
    parts = chain.emissions, chain.transitions
    apart = np.maximum(*(np.abs(part[:, None] - part[None]).sum(axis=2) for part in parts))
    np.fill_diagonal(apart, np.inf)
    one, other = divmod(int(apart.argmin()), chain.n_states)
    return (one if shown[one] < shown[other] else other) if apart[one, other] < SELECTION.same else None


def compare_halves(
    data: Sequences, n_states: int, *, smoothing: float = NO_STATES, threads: int = 1
) -> HalvesComparison | None:
    """Fit models with all states and with fewer to either half of the pieces, and compare them on the other half.

    With many states one fewer may fit badly, and one more better by luck; half as many is a second opinion.

    The halves are cut down to `SELECTION.half_steps`, so that the comparison costs about as much as a fit. Every model
    chooses its own smoothing, around that of the fit (`smoothing`) where it has any: with the same for both, more
    states would mean more pseudo-observations, and the smoother model would win. None where there is one piece.
    """
    halves = cut(data, FOLDS + 1, proportion=0.5)
    if halves.held is halves.learn:
        return None
    prior, most = chain_prior(data, 1.0), max(SELECTION.half_steps, SEARCH.known * data.n_symbols)
    strengths = SELECTION.first_strengths if smoothing >= NO_STATES else _around(max(smoothing, 1.0))
    fewer = [n_states - 1, n_states // 2] if n_states >= SELECTION.halved else [n_states - 1]
    gains: dict[int, list[Floats]] = {number: [] for number in fewer}
    models, cells = [], 0
    for learn, held in ((halves.learn, halves.held), (halves.held, halves.learn)):
        steps, held = ChainSteps(thinned(learn, most, FOLDS), prior, threads), thinned(held, most, FOLDS)
        one_fewer, more = _rivals(steps, held, n_states, strengths)
        reached = _by_piece(more, held)
        gains[n_states - 1].append(reached - _by_piece(one_fewer, held))
        if len(fewer) > 1:
            alone = unigram(steps.data, held, prior)[0]
            smaller, _ = _fit(steps, held, n_states // 2, alone, strengths, quick=True)
            gains[n_states // 2].append(reached - _by_piece(smaller, held))
        models.append(more)
        cells += held.n_observed
    cells = max(cells, 1)
    compared = []
    for number, parts in gains.items():
        gain = np.concatenate(parts)
        error = float(np.sqrt(np.square(gain - gain.mean()).sum()))
        compared.append(HalvesComparison(float(gain.sum()) / cells, error / cells, tuple(models), number))
    return min(compared, key=lambda one: one.gain / max(one.error, 1e-300))


def _rivals(steps: ChainSteps, held: Sequences, n_states: int, strengths: Sequence[float]) -> tuple[Chain, Chain]:
    """Models with one state fewer, and with all; the smaller one also gets the best of what the larger one found."""
    fewer, _ = unigram(steps.data, held, steps.prior)
    if n_states == 2:
        return fewer, _fit(steps, held, 2, fewer, strengths, quick=True)[0]
    fewer, strength = _fit(steps, held, n_states - 1, fewer, strengths, quick=True)
    more, strength = _fit(steps, held, n_states, fewer, _around(strength), quick=True)
    alike = steps.with_strength(strength)
    candidates = [Candidate("fewer", alike, fewer)]
    candidates += [Candidate(f"without {k}", alike, without_state(more, k)) for k in range(n_states)]
    return successive_halving(
        candidates, rounds=SELECTION.rounds, max_iter=SELECTION.max_iterations, tol=SELECTION_TOL, accelerate=True
    ).refined.params, more


def _around(strength: float) -> tuple[float, ...]:
    return strength / 4, strength, strength * 4


def _fit(
    steps: ChainSteps, held: Sequences, K: int, before: Chain, strengths: Sequence[float], *, quick: bool = False
) -> tuple[Chain, float]:
    """A model of K states: from the moments, from one state fewer with one of them split, and from random models.

    A `quick` one is from the moments and from the most promising split alone.
    """
    rng = np.random.default_rng([0, K, 3])  # drawn alike in every fit
    if before.n_states == K - 1:
        starts = splits(before, steps.data, 1 if quick else SELECTION.splits, threads=steps.threads)
    else:
        starts = [("grown", grown_chain(steps, K))]
    prior = steps.with_strength(strengths[0]).prior
    if len(strengths) > 1:
        prior, _, _ = choose_smoothing(steps, starts[0][1], held, strengths)
    starts += spectral_inits(steps.data, K, rng)
    if (
        not few(steps.data) and not quick
    ):  # where observations are few a random model with a higher likelihood fits chance
        starts += random_inits(K, steps.prior.frequencies, SELECTION.random_inits, rng)
    steps = replace(steps, prior=prior)
    candidates = [Candidate(name, steps, start) for name, start in starts]
    selected = successive_halving(
        candidates, rounds=SELECTION.rounds, max_iter=SELECTION.max_iterations, tol=SELECTION_TOL, accelerate=True
    )
    return selected.refined.params, max(
        prior.emissions, 1.0
    ) if prior.emissions < NO_STATES else SELECTION.first_strengths[-1]


def without_state(chain: Chain, state: int) -> Chain:
    """The same model with one state left out; what went there goes in proportion elsewhere."""
    smaller = chain.permuted(np.delete(np.arange(chain.n_states), state))
    even = np.full(smaller.n_states, 1 / smaller.n_states)
    return Chain(normalised(smaller.start, even), normalised(smaller.transitions, even), smaller.emissions)


def _by_piece(chain: Chain, held: Sequences) -> Floats:
    return chain_log_likelihood(held.chains, *chain.parts)
