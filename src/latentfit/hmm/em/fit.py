"""From sequences to the best hidden Markov model found: initialisations, multi-start selection, smoothing, EM.

Initial models come from the moments (`hmm/init.py`), from a model grown state by state
(`hmm/init.py`) and from a few random ones; no kind is the best on all data. They compete on a part of the
data by successive halving. Some sequences are left out, which ones their content decides and not the seed, and what
those look like under more or less smoothing chooses it; EM then runs from the best on all of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult, Step, em
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import ChainSums, chain_log_likelihood
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.sampling import numbered_apart, scramble
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import MOVES, TINY, Chain, ChainPrior, ChainSteps, chain_prior, normalised
from latentfit.hmm.init import chain_by_slices, chain_by_vertices, neighbours_of, splits, two_state_chain

Init = Literal["auto", "spectral", "random"]


@dataclass(frozen=True)
class SearchSettings:
    """Tuned constants of the search for the best model."""

    pieces: int = 40  # a long sequence is cut into so many pieces, some of which are left out
    shortest_piece: int = 20
    left_out: float = 0.2  # proportion of the steps that multi-start selection does not see
    selection_steps: int = 60_000  # steps that initialisations are compared on, at least
    # Trigrams that make the initialisation by slices: what they decide has K³ numbers, so a part of many is enough.
    most_trigrams: int = 200_000
    rounds: tuple[int, ...] = (6, 10, 20)  # EM iterations of the rounds of successive halving
    # Nats per observation that states must gain over none where observations are few, and sequences left out too.
    worth: float = 0.005
    # Nats per observation by which a choice is so much worse than the best that those beyond it need no look.
    far: float = 0.01
    # Random initialisations when no number is given: a few at first; if one of them wins, moments are no guide and
    # more are drawn. Some from the beginning where symbols were seen `well_known` times each: only luck is wanting
    # there, no data. Below `known` times each, a random model with a higher likelihood fits chance, and none is
    # drawn.
    few_random: int = 3
    some_random: int = 5
    more_random: int = 10
    # Proportion of the states that are split at a time where a model is grown, iterations of EM after each time, and
    # choices of the states to split: the most promising ones and the next, of which the better stays.
    growth: float = 1 / 3
    growth_iterations: int = 12
    growth_tried: int = 2
    # Steps that a model is grown on, or `scarce` per symbol where that is more: the multi-start does the rest.
    grown_on: int = 20_000
    # Pseudo-observations per state under which a model is grown where observations are few.
    growth_smoothing: float = 512.0
    # Models by slices that are tried where observations are few: their random mixtures of slices decide much there.
    moment_draws: int = 3
    # Nats per observation within which two initialisations are taken to have reached the same likelihood.
    same_end: float = 1e-3
    more_rounds: tuple[int, ...] = (12, 12, 24)
    scarce: int = 5
    known: int = 25
    well_known: int = 1000
    # Iterations of a short EM run, and of a long one.
    short: int = 8
    long: int = 60
    first_smoothing: float = 1.0
    # Pseudo-observations per state that are tried; then a few around the best.
    strengths: tuple[float, ...] = (1.0, 8.0, 64.0, 512.0, 4096.0, 32768.0)


SEARCH = SearchSettings()


SELECTION_TOL = 1e-5
FOLDS = 0
"""The hash that decides what is left out: the same for every seed, so that seeds change initialisations alone."""
NO_STATES = 1e12
"""Pseudo-observations that leave no difference between states."""


@dataclass(frozen=True)
class Split:
    """Pieces of the sequences to learn from, and those left out."""

    learn: Sequences
    held: Sequences


@dataclass(frozen=True)
class FittedChain:
    """Where Baum–Welch ended on all of the data, and how it got there."""

    refined: EMResult[Chain, ChainSums]
    prior: ChainPrior
    init_name: str
    scores: dict[str, float]  # log-likelihood per observation after each initialisation's last round
    held_out: float | None  # log-likelihood per observation of what was left out

    @property
    def observed(self) -> Floats:
        """Expected number of observations (K,) in each state."""
        return np.asarray(self.refined.sums.emissions.sum(axis=1))

    @property
    def n_reached(self) -> int:
        """Initialisations that were as good as the best when they were stopped."""
        best = max(self.scores.values(), default=0.0)
        return sum(score >= best - SEARCH.same_end for score in self.scores.values())


def cut(data: Sequences, seed: int, proportion: float = SEARCH.left_out) -> Split:
    """Leave a proportion of the steps out, in whole pieces; which ones, their content decides."""
    begins, ends = pieces_of(data)
    order = np.argsort(_hashes(data, begins, ends, seed), kind="stable")
    sizes = (ends - begins)[order]
    out = np.zeros(len(begins), bool)
    out[order[np.cumsum(sizes) - sizes / 2 < proportion * sizes.sum()]] = True
    if out.all() or not out.any():  # a single piece is all there is
        return Split(data, data)
    return Split(*(data.slices(begins[keep], ends[keep]) for keep in (~out, out)))


def pieces_of(data: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where pieces begin and end: whole sequences, long ones cut evenly."""
    lengths = np.diff(data.offsets)
    longest = max(-(-data.n_steps // SEARCH.pieces), SEARCH.shortest_piece)
    parts = np.maximum(-(-lengths // longest), 1)
    sequence = np.repeat(np.arange(len(lengths)), parts)
    place = np.arange(len(sequence)) - np.repeat(np.cumsum(parts) - parts, parts)
    begins = data.offsets[sequence] + lengths[sequence] * place // parts[sequence]
    ends = data.offsets[sequence] + lengths[sequence] * (place + 1) // parts[sequence]
    full = ends > begins
    return begins[full], ends[full]


def _hashes(data: Sequences, begins: NDArray[np.int64], ends: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    places = (data.positions() - 1).astype(np.uint64)
    words = scramble((data.codes.astype(np.int64) + 1).astype(np.uint64), seed)
    words = scramble(words ^ scramble(places, seed + 1), seed)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
    return numbered_apart(sums[ends] - sums[begins], seed)  # wraps around, exactly


def thinned(data: Sequences, most: int, seed: int) -> Sequences:
    """Pieces of at most so many steps in all; all of them when they fit."""
    if data.n_steps <= most:
        return data
    begins, ends = pieces_of(data)
    order = np.argsort(_hashes(data, begins, ends, seed), kind="stable")
    keep = np.sort(order[np.cumsum((ends - begins)[order]) <= most])
    return data.slices(begins[keep], ends[keep]) if len(keep) else data


def first_steps(data: Sequences, most: int) -> Sequences:
    """At most so many steps: sequence after sequence, in an order that their content decides, the last one cut."""
    if data.n_steps <= most:
        return data
    begins, ends = data.offsets[:-1], data.offsets[1:]
    order = np.argsort(_hashes(data, begins, ends, 0), kind="stable")
    begins, ends = begins[order], ends[order]
    room = most - (np.cumsum(ends - begins) - (ends - begins))
    keep = room > 0
    return data.slices(begins[keep], np.minimum(ends, begins + room)[keep])


def random_chain(n_states: int, frequencies: Floats, rng: np.random.Generator) -> Chain:
    """A model drawn at random: emissions around the symbols' frequencies."""
    emissions = frequencies * rng.exponential(size=(n_states, len(frequencies)))
    even = np.ones(n_states)
    return Chain(rng.dirichlet(even), rng.dirichlet(even, n_states), emissions / emissions.sum(axis=1, keepdims=True))


def one_state(data: Sequences) -> Chain:
    """Symbols drawn independently."""
    counts = data.counts().astype(np.float64)
    return Chain(np.ones(1), np.ones((1, 1)), (counts / counts.sum())[None])


def spectral_inits(data: Sequences, n_states: int, rng: np.random.Generator) -> list[tuple[str, Chain]]:
    """Initialisations from counts of neighbours; none where there are too few symbols or neighbours for so many
    states."""
    if data.n_symbols < 2:
        return []
    if n_states == 2 and (chain := two_state_chain(data)) is not None and _sound(chain):
        return [("two states", chain)]
    try:
        around = neighbours_of(data, n_states)
    except NotIdentifiableError:
        return []
    models = [("slices", chain_by_slices(first_steps(data, SEARCH.most_trigrams + 2), around, rng))]
    if models[0][1] is None or not few(data):
        models.append(("vertices", chain_by_vertices(around)))
    return [(name, chain) for name, chain in models if chain is not None and _sound(chain)]


def _sound(chain: Chain) -> bool:
    return all(bool(np.isfinite(part).all()) for part in chain.parts)


def initial_models(
    data: Sequences,
    n_states: int,
    init: Init,
    n_init: int | None,
    rng: np.random.Generator,
    some: Sequences | None = None,
    grown: Chain | None = None,
) -> list[tuple[str, Chain]]:
    """Named initial models, the spectral ones first; a model is grown on `some` of the data unless it is given."""
    if n_states == 1:
        return [("one state", one_state(data))]
    models = [] if init == "random" else spectral_inits(data, n_states, rng)
    if models and init == "spectral":
        return models[:1]
    if init == "auto" and n_states > 2 and data.n_symbols > 1:
        if grown is None:
            steps = ChainSteps(data if some is None else some, chain_prior(data, SEARCH.first_smoothing))
            grown = grown_chain(steps, n_states)
        models.append(("grown", grown))
    frequencies = chain_prior(data, 0.0).frequencies
    many = min(2 * n_states, SEARCH.some_random) if well_known(data) else min(n_states, SEARCH.few_random)
    number = many if n_init is None else n_init
    return models + random_inits(n_states, frequencies, number, rng)


def grown_chain(steps: ChainSteps, n_states: int, choices: int = SEARCH.growth_tried) -> Chain:
    """A model grown out of one state: a third of the states is split at a time, a few iterations of EM in between."""
    chain = one_state(steps.data)
    while (size := chain.n_states) < n_states:
        more = min(n_states - size, max(1, int(SEARCH.growth * size)))
        tried = splits(chain, steps.data, choices, more, threads=steps.threads)
        ends = [
            em(steps, wider, max_iter=SEARCH.growth_iterations, tol=SELECTION_TOL, accelerate=True)
            for _, wider in tried
        ]
        chain = max(ends, key=lambda end: end.objective).params
    return chain


def scarce(data: Sequences) -> bool:
    """Whether there are hardly more observations than symbols, so that next to nothing can be known."""
    return data.n_observed < SEARCH.scarce * data.n_symbols


def few(data: Sequences) -> bool:
    """Whether there are few observations per symbol."""
    return data.n_observed < SEARCH.known * data.n_symbols


def selection_steps(data: Sequences) -> int:
    """Steps that initialisations are compared on: enough to rank them, and not so few that symbols become rare."""
    return max(SEARCH.selection_steps, SEARCH.known * data.n_symbols)


def well_known(data: Sequences) -> bool:
    """Whether there are very many observations per symbol."""
    return data.n_observed >= SEARCH.well_known * data.n_symbols


def random_inits(n_states: int, frequencies: Floats, number: int, rng: np.random.Generator) -> list[tuple[str, Chain]]:
    """Named random models."""
    return [(f"random {i + 1}", random_chain(n_states, frequencies, rng)) for i in range(number)]


def choose_smoothing(
    steps: ChainSteps,
    start: Chain,
    held: Sequences,
    strengths: Sequence[float],
    n_iter: int = SEARCH.short,
    onward: bool = False,
) -> tuple[ChainPrior, EMResult[Chain, ChainSums], float]:
    """The prior under which sequences left out are most probable after a short EM run, that run, and how probable.

    `onward`: after the first, EM runs begin where that one ended, near their own optima, for a third of the iterations.
    """
    best: tuple[ChainPrior, EMResult[Chain, ChainSums], float] | None = None
    worse = 0
    for strength in strengths:
        prior = replace(steps.prior, emissions=float(strength), moves=MOVES)
        tried = em(replace(steps, prior=prior), start, max_iter=n_iter, tol=SELECTION_TOL, accelerate=True)
        value = log_likelihood(tried.params, held, steps.threads)
        if onward and best is None:
            start, n_iter = tried.params, n_iter // 3
        if best is None or value > best[2]:
            best, worse = (prior, tried, value), 0
            continue
        worse += 1
        if worse == 2 or best[2] - value > SEARCH.far * held.n_observed:
            break
    assert best is not None
    return best


def no_states(prior: ChainPrior) -> ChainPrior:
    """The symbols' frequencies in every state: the unigram model, which no choice should lose to."""
    return replace(prior, shape=prior.frequencies, emissions=NO_STATES, moves=MOVES)


def unigram(learn: Sequences, held: Sequences, prior: ChainPrior) -> tuple[Chain, float]:
    """Symbols drawn independently, under the smoothing that suits what was left out best, and its log-likelihood."""
    smoothed = learn.counts() + np.geomspace(0.25, 2.0**18, 41)[:, None] * prior.shape
    shown = normalised(smoothed, smoothed)
    values = np.log(np.maximum(shown, TINY)) @ held.counts()
    best = int(values.argmax())
    return Chain(np.ones(1), np.ones((1, 1)), shown[[best]]), float(values[best])


def log_likelihood(chain: Chain, data: Sequences, threads: int = 1) -> float:
    """Log-likelihood of all sequences, in nats."""
    per_sequence = chain_log_likelihood(data.chains, *chain.parts, threads=threads)
    return float(per_sequence.sum())


def fit_chain(
    data: Sequences,
    n_states: int,
    *,
    init: Init = "auto",
    n_init: int | None = None,
    smoothing: float | Literal["auto"] = "auto",
    max_iter: int = 500,
    tol: float = 1e-6,
    seed: int = 0,
    threads: int = 1,
    callback: Callable[[Step], None] | None = None,
    grown: Chain | None = None,
) -> FittedChain:
    """The best model of `n_states` states that was found; `grown` is one to begin from, where there is one."""
    auto = smoothing == "auto"
    prior = chain_prior(data, SEARCH.first_smoothing if auto else float(smoothing))
    split = cut(data, FOLDS)
    learn, held = (thinned(part, selection_steps(data), FOLDS) for part in (split.learn, split.held))
    steps, by_moments, predicted = ChainSteps(learn, prior, threads), None, None
    if auto and n_init is None and init != "random" and n_states > 1 and max_iter > 0 and few(data):
        by_moments = _near_moments(data, steps, held, n_states, init, seed, grown)
    if by_moments is not None:
        name, chain, prior, scores, predicted = by_moments
    else:
        some = thinned(learn if max_iter > 0 else data, max(SEARCH.grown_on, SEARCH.scarce * data.n_symbols), FOLDS)
        starts = initial_models(data, n_states, init, n_init, np.random.default_rng([seed, n_states]), some, grown)
        (name, chain), scores = starts[0], {}
        if max_iter > 0 and n_states > 1:
            if auto:  # a first choice from the first initialisation; the multi-start selection runs under it
                steps = replace(steps, prior=choose_smoothing(steps, chain, held, SEARCH.strengths)[0])
                prior = steps.prior
            if len(starts) > 1:
                rounds = SEARCH.more_rounds if well_known(data) else SEARCH.rounds
                name, chain, scores = _select_init(steps, starts, rounds, max_iter, tol)
                if n_init is None and name.startswith("random") and n_states > 2 and not well_known(data):
                    rng = np.random.default_rng([seed, n_states, 1])
                    more = random_inits(n_states, prior.frequencies, SEARCH.more_random, rng)
                    starts = [("first " + name, chain), *more]
                    name, chain, later = _select_init(steps, starts, SEARCH.more_rounds, max_iter, tol)
                    scores |= later
            if auto:
                near = [prior.emissions * factor for factor in (0.3, 1.0, 3.0)]
                prior, tried, total = choose_smoothing(steps, chain, held, near)
                flat = unigram(learn, held, prior)[1]
                prior = no_states(prior) if flat > total else prior
                chain = chain if init == "spectral" else tried.params  # the moments' own model is what was asked for
                predicted = max(total, flat)
    held_out = None if predicted is None or split.held is split.learn else predicted / max(held.n_observed, 1)
    steps = ChainSteps(data, prior, threads)
    refined = em(steps, chain, max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
    return FittedChain(refined, prior, name, scores, held_out)


def _near_moments(
    data: Sequences, steps: ChainSteps, held: Sequences, n_states: int, init: Init, seed: int, grown: Chain | None
) -> tuple[str, Chain, ChainPrior, dict[str, float], float] | None:
    """Name, model and prior that EM begins with where observations are few; pseudo-counts may keep it near the moments.

    With few observations per symbol the moments' model is often nearer the truth than the likelihood's optimum, and the
    more so the longer the EM run. Sequences left out choose between both kinds of pseudo-counts, their strength, and
    the same symbols in every state, which wins when states gain less than `SEARCH.worth`. The scores and the
    log-likelihood of the sequences left out come with the model.
    """
    prior = steps.prior
    tried: dict[str, tuple[float, ChainPrior, Chain, bool]] = {}
    first = "spectral" if scarce(data) else init  # hardly more observations than symbols: the moments alone
    for name, chain in _few_inits(steps, n_states, first, seed, grown):
        kinds = [(True, near_chain(prior, chain)), (False, prior)]
        for near, shaped in kinds[1:] if name == "grown" else kinds[:1] if scarce(data) else kinds:
            strengths = SEARCH.strengths[: 3 if scarce(data) else 2 : -1]
            smoothed = choose_smoothing(replace(steps, prior=shaped), chain, held, strengths)
            if name not in tried or smoothed[2] > tried[name][0]:
                tried[name] = (smoothed[2], smoothed[0], smoothed[1].params, near)
    if not tried:
        return None
    name = max(tried, key=lambda one: tried[one][0])
    total, best, chain, near = tried[name]
    flat = unigram(steps.data, held, prior)[1]
    if total > flat and not scarce(data):  # the EM run on all of the data is long: what was gained must outlast it
        around = [best.emissions * factor for factor in (1.0, 0.3, 3.0)]
        best, _, total = choose_smoothing(
            replace(steps, prior=best), chain, held, around, n_iter=SEARCH.long, onward=True
        )
    if total < flat + SEARCH.worth * (4 if scarce(data) else 1) * held.n_observed:
        chosen = no_states(prior)
    else:
        if init == "spectral" or near:  # the moments of all of the data; else from where the best run ended
            chain = dict(spectral_inits(data, n_states, _draw(seed, n_states, name))).get(name.split(",")[0], chain)
        chosen = replace(near_chain(prior, chain) if near else prior, emissions=best.emissions)
    scores = {one: smoothed[0] / max(held.n_observed, 1) for one, smoothed in tried.items()}
    return name, chain, chosen, scores, max(total, flat)


def _few_inits(steps: ChainSteps, n_states: int, init: Init, seed: int, grown: Chain | None) -> list[tuple[str, Chain]]:
    """Initial models where observations are few: from the moments, several draws of them, and a grown one."""
    models = spectral_inits(steps.data, n_states, _draw(seed, n_states, ""))
    if init == "spectral":
        return models[:1]
    if n_states > 2:
        for draw in range(2, SEARCH.moment_draws + 1):
            name = f"slices, draw {draw}"
            more = dict(spectral_inits(steps.data, n_states, _draw(seed, n_states, name)))
            models += [(name, chain) for kind, chain in more.items() if kind == "slices"]
        steps = replace(steps, prior=replace(steps.prior, emissions=SEARCH.growth_smoothing, moves=MOVES))
        # Of several splits the likelihood would take the one that fits chance best: the most promising is taken.
        models.append(("grown", grown_chain(steps, n_states, 1) if grown is None else grown))
    return models


def _draw(seed: int, n_states: int, name: str) -> np.random.Generator:
    """The generator of a draw of the moments' model, which its name ends with."""
    draw = name.rpartition("draw ")[2] if "draw" in name else "1"
    return np.random.default_rng([seed, n_states] if draw == "1" else [seed, n_states, int(draw)])


def near_chain(prior: ChainPrior, chain: Chain) -> ChainPrior:
    """Pseudo-counts spread like a model's emissions, a tenth of them like every symbol's."""
    return replace(prior, shape=0.9 * chain.emissions + 0.1 * prior.shape, moves=MOVES)


def _select_init(
    steps: ChainSteps, starts: list[tuple[str, Chain]], rounds: Sequence[int], max_iter: int, tol: float
) -> tuple[str, Chain, dict[str, float]]:
    candidates = [Candidate(label, steps, start) for label, start in starts]
    limit = min(sum(rounds), max_iter)
    selected = successive_halving(
        candidates, rounds=rounds, max_iter=limit, tol=max(tol, SELECTION_TOL), accelerate=True
    )
    return selected.name, selected.refined.params, selected.scores
