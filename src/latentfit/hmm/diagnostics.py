"""Checks of a fitted hidden Markov model, and what it expects to be wrong.

Three questions. Is there anything: do neighbouring symbols depend on one another at all (`neighbour_test`), and are
there enough observations for so many symbols? Is every state needed: does the model with one state fewer predict
sequences left out as well? Is the answer the only one: transitions and emissions of full rank, three steps in a row,
every state seen to come and go, the same states from either half of the sequences.

Paper     Huang, Kakade, Kong & Valiant 2018, Theorem 1.6: below the order of M observations nobody can tell a two-state
          chain from independent draws, and by Corollary 1.7 nobody knows its entropy rate
Needs     a fitted model and its sequences; a function that fits one state fewer
Promises  on simulated chains verdicts as docs/guide/hmm.md counts them
Differs   the order of M is taken for M; dependence is tested on halves of the pieces, for any number of states

Symbols   paper   here          shape    meaning
          N/M     —             —        observations per symbol
          p, q    emissions     (K, M)   what states show
          T       transitions   (K, K)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr
from sklearn.metrics import adjusted_rand_score

from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import chain_posteriors
from latentfit.core.spectral import effective_items, scaled_svd
from latentfit.core.verdict import FEWEST, Examination, Examiner, Expectation, FitReport
from latentfit.hmm.data import (
    DUPLICATED,
    FEW_DIFFERENT,
    Sequences,
    duplicated_proportion,
    few_different,
    without_duplicates,
)
from latentfit.hmm.em.fit import FOLDS, cut, thinned
from latentfit.hmm.em.steps import Chain, ChainPrior
from latentfit.hmm.select import HalvesComparison, StatesPath, compare_halves


@dataclass(frozen=True)
class Thresholds:
    """Values at which a check reports."""

    # Observations per symbol below which nothing can be known (order one in Theorem 1.6), and below which it is
    # little.
    too_few: float = 1.0
    few: float = 5.0
    no_structure: float = 1e-3  # p-value above which neighbouring symbols may as well be independent
    sure: float = 3.0  # standard errors by which the last state must help on sequences left out
    singular: float = 0.05  # a singular value of the transitions below it: two states lead to nearly the same future
    alike: float = 0.1  # ℓ₁ distance below which two states show the same symbols
    seldom: float = 20.0  # times a state must have been entered or left for its transitions to be known
    # Adjusted Rand index of the states of the fit and of models of either half of the sequences: simulated states were
    # .86 and more alike, superfluous ones mostly less than .7, those of independent symbols .5 and less.
    stable: float = 0.5
    # Proportion of the dependence of neighbouring symbols that states may miss; models of the right number miss none.
    missed: float = 0.25
    # The halves of the data may differ by so much of that dependence; p-value of the test, and standard deviations
    # that the difference must show besides, as 99 permutations know no smaller p-value than 0.01.
    drifts: float = 0.1
    drifted: float = 0.01
    clear: float = 4.0


THRESHOLDS = Thresholds()


UNEVEN = 0.1
"""The least correlation of two halves' scores that is reckoned with; so the level holds with 60 to 300 symbols too."""
DIRECTIONS = 4
"""Leading directions that the test of neighbours looks along."""
COMPARED_STEPS = 20_000
"""Steps on which the states of several models are compared, at most."""
BLOCKS, PERMUTATIONS, MOST_CELLS = 40, 99, 20_000
"""Blocks of steps that the drift is tested on, random halves of them, and pairs of symbols, the most frequent ones."""
NUMBER_REJECTED = frozenset({"dependence", "last_state", "distinct_emissions", "state_visits", "stability"})
"""Checks whose failure says that the data do not show so many states."""


class NeighbourTest(NamedTuple):
    """How many standard errors the dependence of neighbours is above independence, and its p-value."""

    z: float
    p_value: float
    possible: bool = True  # both halves have neighbours


def neighbour_test(data: Sequences, n_directions: int = 1) -> NeighbourTest:
    """Do neighbouring symbols depend on one another? Directions from one half of the pieces, tested on the other.

    Along fixed features f and g of a symbol and the next, Σ f(x_t) g(x_t+1) of independent draws has mean zero and
    variance n var(f) var(g), so each half gives a standard normal score. The two are not independent where directions
    are few: with independent draws of M symbols and d directions their correlation is about 4 d/M (`_correlation`),
    which decides what their sum is divided by. Counts of pairs of a chain that looks the same backwards are symmetric
    but for noise, and halving the noise sees structure at half as many observations: both the symmetric and the general
    directions are tried, at half the level each.
    """
    if data.n_symbols < 2:
        return NeighbourTest(0.0, 1.0)
    split = cut(data, FOLDS, proportion=0.5)
    halves = [split.learn.pairs(), split.held.pairs()]
    if split.held is split.learn or min(float(half.sum()) for half in halves) < 1:
        return NeighbourTest(0.0, 1.0, possible=False)
    scores = []
    for symmetric in (True, False):
        half_scores = [_test_along(one, other, n_directions, symmetric) for one, other in (halves, halves[::-1])]
        together = _correlation(data, n_directions, symmetric)
        scores.append(float(sum(half_scores) / np.sqrt(2 * (1 + together))))
    z = max(scores)
    return NeighbourTest(z, min(2 * float(ndtr(-z)), 1.0))


def _correlation(data: Sequences, n_directions: int, symmetric: bool) -> float:
    """An upper bound of how alike the scores of two halves of independent draws are, one at the most.

    The products of the leading vectors of two independent matrices of noise (M, M), edge 2√M, have mean square 1/M²:
    d directions of each give 4 d/M; of symmetric ones, edge √(2M) and mean square 3/M², 6 d/M. Counts of rare symbols
    are no normal noise, which `UNEVEN` makes up for.
    """
    counts = data.counts().astype(np.float64)
    items = effective_items(counts[counts > 0] / max(float(counts.sum()), 1.0))
    return float(np.clip((6 if symmetric else 4) * min(n_directions, DIRECTIONS) / max(items, 1.0), UNEVEN, 1.0))


def _test_along(learn: sp.csr_array, test: sp.csr_array, n_directions: int, symmetric: bool) -> float:
    number = min(n_directions, DIRECTIONS, learn.shape[0] - 1)
    decomposed = scaled_svd(learn, number, centred=True, symmetric=symmetric, tol=1e-4)
    total = float(test.sum())
    rows, columns = (np.asarray(test.sum(axis=axis), np.float64).reshape(-1) / total for axis in (1, 0))
    score, weight = 0.0, 0.0
    for value, left, right in zip(decomposed.values, decomposed.left.T, decomposed.right.T, strict=True):
        f, g = left / np.sqrt(decomposed.row_scale), right / np.sqrt(decomposed.column_scale)
        f, g = f - rows @ f, g - columns @ g
        spread = np.sqrt((rows @ f**2) * (columns @ g**2))
        if spread > 0:
            score += value * float(f @ (test @ g)) / (spread * np.sqrt(total))
            weight += value**2
    return score / np.sqrt(weight) if weight > 0 else 0.0


def examine_chain(
    data: Sequences,
    chain: Chain,
    prior: ChainPrior,
    weights: Floats,
    *,
    converged: bool,
    path: StatesPath | None,
    threads: int = 1,
) -> Examination:
    """Diagnose a fitted model; `path` says how the number of states was chosen, None that it was given."""
    examiner = Examiner()
    duplicated = _examine_duplicates(examiner, data)
    data = without_duplicates(data)  # duplicates are no further evidence
    K, M, N = chain.n_states, data.n_symbols, data.n_observed
    examiner.check_size(N, "observed steps")
    test = neighbour_test(data, max(K - 1, 1))
    singular = np.linalg.svd(chain.transitions, compute_uv=False)
    examiner.quantities |= {
        "n_observed": N,
        "n_symbols": M,
        "observations_per_symbol": N / M,
        "structure_z": test.z,
        "structure_p_value": test.p_value,
        "spectral_gap": chain.spectral_gap(),
        "smallest_singular_value": float(singular[-1]),
        "smoothing": prior.emissions,
        "copied_share": duplicated,
        "entropy_rate_known": bool(N >= M and test.p_value < THRESHOLDS.no_structure),
    }
    if path is not None:
        examiner.quantities["held_out"] = path.held_out
        _examine_limit(examiner, path)
    halves, agreements = None, []
    if K == 1:
        _examine_one_state(examiner, test, chosen=path is not None)
    else:
        _examine_size(examiner, N, M)
        _examine_structure(examiner, data, float(singular[-1]), test)
        _examine_states(examiner, chain, weights, N)
        if path is not None and path.halves is not None and path.chosen == K:
            halves = path.halves
        else:
            halves = compare_halves(data, K, smoothing=prior.emissions, threads=threads)
        _examine_last_state(examiner, halves, K, data.n_steps)
        if test.possible and test.p_value <= THRESHOLDS.no_structure:
            _examine_pairs(examiner, data, chain, weights)
        agreements = _examine_stability(examiner, data, chain, halves, threads)
    examiner.check_converged(converged, "Baum–Welch", "the states")
    examiner.expected = _expected(data, chain, agreements, threads)
    return examiner.conclude()


def number_is_rejected(examination: Examination | FitReport) -> bool:
    """Whether a check says that the data do not show so many states: then the number is no headline."""
    return any(check.name in NUMBER_REJECTED and not check.passed for check in examination.checks)


def _examine_duplicates(examiner: Examiner, data: Sequences) -> float:
    """The proportion of steps in duplicates of other sequences."""
    duplicated = duplicated_proportion(data)
    many = duplicated >= DUPLICATED
    unique = without_duplicates(data).n_sequences
    examiner.check(
        "duplicates", "Proportion of the steps in exact duplicates of other sequences", not many,
        f"{data.n_sequences - unique} of {data.n_sequences} sequences are exact duplicates of others, with "
        f"{duplicated:.0%} of the steps (limit {DUPLICATED:.0%}): duplicates are no further evidence, so all checks "
        f"count the {unique} different ones; leave the duplicates out, unless each was truly observed.",
        value=duplicated, limit=DUPLICATED,
    )  # fmt: skip
    if not many:
        different = few_different(data)
        examiner.check(
            "different_sequences", "Several different sequences where the symbols leave room for them", not different,
            f"The {data.n_sequences} sequences are duplicates of {different} different "
            f"{'one' if different == 1 else 'ones'} (fewer than {FEW_DIFFERENT}): states spell these out, and "
            "duplicates are no further evidence; bring more different sequences, unless each was truly observed.",
            value=different or None, limit=FEW_DIFFERENT,
        )  # fmt: skip
    return duplicated


def _examine_limit(examiner: Examiner, path: StatesPath) -> None:
    examiner.check(
        "search_limit", "The number of states is below the largest number tried", not path.at_limit,
        f"The number of states ended at the limit max_states={path.limit} while more states still made sequences left "
        "out more probable: more states may be needed; raise max_states (--max-states).",
        value=path.chosen, limit=path.limit,
    )  # fmt: skip


def _examine_one_state(examiner: Examiner, test: NeighbourTest, *, chosen: bool) -> None:
    """One state is the answer to give where nothing was found, and a wrong one where symbols depend on one another."""
    dependent = test.p_value < THRESHOLDS.no_structure
    title = "Dependence of neighbouring symbols"
    if not test.possible:
        examiner.check(
            "dependence", title, False,
            "There are too few neighbouring symbols to test whether they depend on one another (at least one pair is "
            "needed in each half of the data), so one state is what is left, not what was found; give more sequences, "
            "or longer ones.",
        )  # fmt: skip
    elif dependent:
        examiner.check(
            "dependence", title, False,
            f"Neighbouring symbols depend on one another (p = {test.p_value:.1e}, below {THRESHOLDS.no_structure:g}), "
            "and a model of one state says that they do not; "
            + ("set n_states (--states) to two or more." if chosen else
               "ask for two or more states, or leave n_states=None (no --states)."),
            value=test.z, p_value=test.p_value,
        )  # fmt: skip
    else:
        examiner.check(
            "dependence", title, not chosen,
            f"No structure found: neighbouring symbols look independent (p = {test.p_value:.2g}, limit "
            f"{THRESHOLDS.no_structure:g}), and one state is all that sequences left out ask for; check that the steps "
            "are in the order of time (--time), or bring more data.",
            value=test.z, p_value=test.p_value,
        )  # fmt: skip


def _examine_size(examiner: Examiner, n_observed: int, n_symbols: int) -> None:
    each = n_observed / n_symbols
    hopeless = each < THRESHOLDS.too_few
    examiner.check(
        "observations_per_symbol", "Observations per symbol", each >= THRESHOLDS.few,
        f"There are {n_observed} observations of {n_symbols} symbols: with fewer observations than symbols no method "
        "can tell states from independent draws (Theorem 1.6), nor know the entropy rate (Corollary 1.7); give more "
        "observations, or merge symbols."
        if hopeless else
        f"There are {n_observed} observations of {n_symbols} symbols, {each:.1f} each (at least {THRESHOLDS.few:g} are "
        "needed): which state a rare symbol belongs to is mostly chance; give more observations, or merge rare "
        "symbols.",
        value=each, limit=THRESHOLDS.few, level="not identifiable" if hopeless else "caution",
    )  # fmt: skip


def _examine_structure(examiner: Examiner, data: Sequences, smallest: float, test: NeighbourTest) -> None:
    """`smallest` is the transitions' least singular value."""
    title = "Dependence of neighbouring symbols"
    if test.possible:
        examiner.check(
            "dependence", title, test.p_value <= THRESHOLDS.no_structure,
            f"Neighbouring symbols look independent (p = {test.p_value:.2g}, limit {THRESHOLDS.no_structure:g}), so "
            "nothing shows hidden states; one state (--states 1) explains the symbols as well.",
            value=test.z, p_value=test.p_value, level="not identifiable",
        )  # fmt: skip
    else:
        examiner.check(
            "dependence", title, False,
            "There are too few neighbouring symbols to test whether they depend on one another (at least one pair is "
            "needed in each half of the data), so nothing shows hidden states; give more sequences, or longer ones.",
            level="not identifiable",
        )  # fmt: skip
    triples = len(data.within(2))
    examiner.check(
        "three_steps", "Number of runs of three steps", triples > 0,
        "No sequence has three steps (at least 1 is needed), and counts of pairs alone fit many models (the paper's "
        "remark after Corollary 1.5); give longer sequences.",
        value=triples, limit=1, level="not identifiable",
    )  # fmt: skip
    examiner.check(
        "transition_rank", "Smallest singular value of the transitions", smallest >= THRESHOLDS.singular,
        f"The transitions are nearly of lower rank (smallest singular value {smallest:.3f}, limit "
        f"{THRESHOLDS.singular:g}): two states lead to the same future and are told apart by their symbols alone; "
        "compare with one state fewer (n_states, --states).",
        value=smallest, limit=THRESHOLDS.singular,
    )  # fmt: skip


def _examine_states(examiner: Examiner, chain: Chain, weights: Floats, N: int) -> None:
    smallest = int(weights.argmin())
    seen = float(N * weights[smallest])
    examiner.check(
        "state_size", "Observations in the smallest state", seen >= FEWEST,
        f"State {smallest} is empty or nearly so: {seen:.1f} observations are expected in it, fewer than {FEWEST}, so "
        "its probabilities are those of the smoothing; ask for fewer states (n_states, --states).",
        value=seen, limit=FEWEST,
    )  # fmt: skip
    left = N * weights * (1 - np.diag(chain.transitions))
    entered = N * (weights @ chain.transitions - weights * np.diag(chain.transitions))
    examiner.quantities["times_left"] = left.tolist()
    visits = np.maximum(left, entered)  # a last state is entered and never left, a first one left and never entered
    seldom = int(visits.argmin())
    examiner.check(
        "state_visits", "Times that the least visited state was entered or left", visits[seldom] >= THRESHOLDS.seldom,
        f"State {seldom} was left about {visits[seldom]:.0f} times, fewer than {THRESHOLDS.seldom:g}, and not entered "
        "more often: how long it lasts and where it goes is known from these alone, or sequences differ and no state "
        "comes and goes; ask for fewer states (n_states, --states), or give more data.",
        value=float(visits[seldom]), limit=THRESHOLDS.seldom,
    )  # fmt: skip
    apart = np.abs(chain.emissions[:, None] - chain.emissions[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    one, other = sorted(divmod(int(apart.argmin()), chain.n_states))
    examiner.quantities["nearest_emissions"] = float(apart.min())
    examiner.check(
        "distinct_emissions", "Distance of the two most similar states' emissions (ℓ₁)",
        apart.min() >= THRESHOLDS.alike,
        f"States {one} and {other} show the same symbols (ℓ₁ distance {apart.min():.2f}, limit {THRESHOLDS.alike:g}), "
        "so only the order tells them apart; ask for one state fewer (n_states, --states).",
        value=float(apart.min()), limit=THRESHOLDS.alike,
    )  # fmt: skip


class PairFit(NamedTuple):
    """How much of the dependence of neighbouring symbols a model explains, cross-fitted, in nats per pair.

    Attributes
    ----------
    explained : float
        What the model says about a symbol's neighbour beyond their frequencies.
    missed : float
        What the counts of the other half of the data say beyond the model.
    z : float
        `missed` in standard errors.
    """

    explained: float
    missed: float
    z: float

    @property
    def proportion_missed(self) -> float:
        """Proportion of the dependence that the model misses."""
        return max(self.missed, 0.0) / max(self.missed + self.explained, 1e-12) if self.missed > 0 else 0.0


def pair_fit(data: Sequences, chain: Chain, weights: Floats) -> PairFit | None:
    """Compare the model's probabilities of pairs of neighbours with counts of one half, on the other half.

    Where the model is right, halfway to the counts of another sample lies further from the truth: then `missed` is
    negative but for chance. None where a half has no pair.
    """
    split = cut(data, FOLDS, proportion=0.5)
    halves = [split.learn.pairs().tocoo(), split.held.pairs().tocoo()]
    if split.held is split.learn or min(float(half.sum()) for half in halves) < 1:
        return None
    first = weights @ chain.emissions
    second = (weights @ chain.transitions) @ chain.emissions
    explained, gains, squares, pairs = 0.0, 0.0, 0.0, 0.0
    for learn, test in (halves, halves[::-1]):
        counts = sp.csr_array(learn)
        left, right = weights[:, None] * chain.emissions[:, test.row], chain.emissions[:, test.col]
        model = np.maximum((left * (chain.transitions @ right)).sum(axis=0), 1e-300)
        known = np.asarray(counts[test.row, test.col]).reshape(-1) / float(learn.sum())
        gain = np.log((0.5 * known + 0.5 * model) / model)
        gains += float(test.data @ gain)
        squares += float(test.data @ gain**2)
        explained += float(test.data @ np.log(model / np.maximum(first[test.row] * second[test.col], 1e-300)))
        pairs += float(test.sum())
    error = np.sqrt(max(squares - gains**2 / pairs, 1e-12))
    return PairFit(explained / pairs, gains / pairs, float(gains / error))


def drift(data: Sequences) -> tuple[float, float, float]:
    """How much pairs of neighbours differ between the first half of the data and the second.

    The steps are cut into `BLOCKS` blocks, in their order; χ² of the pairs' counts in the first and the second half of
    the blocks is compared with its values when blocks are assigned to the halves at random.

    Returns
    -------
    excess, z, p : float
        χ² beyond its mean under random halves, in nats per pair; the same in standard deviations; the test's p-value.
    """
    at = data.within(1)
    first, second = data.codes[at], data.codes[at + 1]
    seen = (first >= 0) & (second >= 0)
    if seen.sum() < BLOCKS:
        return 0.0, 0.0, 1.0
    cells, place = np.unique(first[seen].astype(np.int64) * data.n_symbols + second[seen], return_inverse=True)
    block = at[seen] * BLOCKS // data.n_steps
    counts = sp.csr_array(sp.coo_array((np.ones(len(block)), (block, place.reshape(-1))), shape=(BLOCKS, len(cells))))
    totals = np.asarray(counts.sum(axis=0)).reshape(-1)
    frequent = np.argsort(-totals, kind="stable")[:MOST_CELLS]
    counts, totals = counts[:, np.sort(frequent)], totals[np.sort(frequent)]
    half = np.arange(BLOCKS) < BLOCKS // 2
    rng = np.random.default_rng(0)
    halves = np.array([half, *(rng.permutation(half) for _ in range(PERMUTATIONS))], float)
    inside = halves @ counts
    proportion = inside.sum(axis=1, keepdims=True) / totals.sum()
    squares = ((inside - proportion * totals) ** 2 / totals).sum(axis=1) / (proportion * (1 - proportion))[:, 0]
    found, others = float(squares[0]), squares[1:]
    spread = max(float(others.std(ddof=1)), 1e-12)
    p_value = float((1 + (others >= found).sum()) / (1 + PERMUTATIONS))
    excess = (found - float(others.mean())) / (2 * float(totals.sum()))
    return excess, (found - float(others.mean())) / spread, p_value


def _examine_pairs(examiner: Examiner, data: Sequences, chain: Chain, weights: Floats) -> None:
    """Do the states explain the dependence of neighbours, and is it the same from the first step to the last?"""
    fit = pair_fit(data, chain, weights)
    if fit is None:
        return
    examiner.quantities |= {"pairs_explained": fit.explained, "pairs_missed": fit.missed}
    examiner.check(
        "pair_fit", "Proportion of the dependence of neighbouring symbols that the states miss",
        fit.proportion_missed <= THRESHOLDS.missed or fit.z <= THRESHOLDS.sure,
        f"The states miss {fit.proportion_missed:.0%} of the dependence of neighbouring symbols (limit "
        f"{THRESHOLDS.missed:.0%}): the symbols themselves say more about the next one than a state does, so "
        "predictions lose by it; ask for more states, or leave n_states=None (no --states).",
        value=fit.proportion_missed, limit=THRESHOLDS.missed,
    )  # fmt: skip
    excess, z, p_value = drift(data)
    proportion = max(excess, 0.0) / max(fit.explained + max(fit.missed, 0.0), 1e-12)
    examiner.quantities |= {"drift": excess}
    steady = p_value > THRESHOLDS.drifted or z <= THRESHOLDS.clear or proportion <= THRESHOLDS.drifts
    examiner.check(
        "drift", "Difference of the first and the second half of the data, over the dependence of neighbouring symbols",
        steady,
        f"The first half of the data differs from the second: pairs of neighbouring symbols differ by "
        f"{proportion:.0%} of their dependence (limit {THRESHOLDS.drifts:.0%}, p = {p_value:.2g}): sequences come from "
        "several populations, or something changed, and one model mixes both; fit each part by itself.",
        value=proportion, limit=THRESHOLDS.drifts, p_value=p_value,
    )  # fmt: skip


def _examine_last_state(examiner: Examiner, halves: HalvesComparison | None, K: int, n_steps: int) -> None:
    title = "Gain over fewer states on sequences left out, in standard errors"
    if halves is None:
        examiner.check(
            "last_state", title, False,
            f"{n_steps} steps are too few to leave any out (at least two pieces of 20 are needed), so nothing shows "
            f"that {K} states are needed; give more sequences, or longer ones.",
        )  # fmt: skip
        return
    gain, error = halves.gain, halves.error
    examiner.quantities |= {"last_state_gain": gain, "last_state_error": error}
    z = gain / error if error > 0 else 0.0
    examiner.check(
        "last_state", title, gain > THRESHOLDS.sure * error,
        f"On sequences left out {K} states gain {gain:.4f} ± {error:.4f} nats per observation over {halves.fewer}, "
        f"fewer than {THRESHOLDS.sure:g} standard errors: the last ones may be chance; compare with {halves.fewer} "
        f"(n_states={halves.fewer}, --states {halves.fewer}).",
        value=z, limit=THRESHOLDS.sure,
    )  # fmt: skip


def _examine_stability(
    examiner: Examiner, data: Sequences, chain: Chain, halves: HalvesComparison | None, threads: int
) -> list[float]:
    """Proportions of the steps to which models of either half give the state of the fit."""
    if halves is None:
        return []
    compared = thinned(data, COMPARED_STEPS, FOLDS)
    fitted, *others = (_states(compared, one, threads) for one in (chain, *halves.models))
    agreements = [matched(fitted, other, chain.n_states) for other in others]
    rand = float(np.mean([adjusted_rand_score(fitted, other) for other in others]))
    examiner.quantities |= {"agreement_of_halves": agreements, "rand_index_of_halves": rand}
    examiner.check(
        "stability", "Agreement of the states with models of half of the sequences (adjusted Rand index)",
        rand >= THRESHOLDS.stable,
        f"The states are unstable: models of half of the sequences put the steps in other states (adjusted Rand index "
        f"{rand:.2f}, limit {THRESHOLDS.stable:g}; 1 is the same states); ask for fewer states (n_states, --states), "
        "or give more data.",
        value=rand, limit=THRESHOLDS.stable,
    )  # fmt: skip
    return agreements


def _states(data: Sequences, chain: Chain, threads: int) -> NDArray[np.intp]:
    """The most probable state of each step."""
    posterior, _ = chain_posteriors(data.chains, *chain.parts, threads=threads)
    return np.asarray(posterior.argmax(axis=1))


def matched(states: NDArray[np.intp], others: NDArray[np.intp], n_states: int) -> float:
    """Proportion of the steps in the same state after the best matching of the states' numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.hmm.diagnostics import matched
    >>> matched(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), 2)
    0.75
    """
    counts = np.bincount(states * n_states + others, minlength=n_states**2).reshape(n_states, n_states)
    rows, columns = linear_sum_assignment(-counts)
    return float(counts[rows, columns].sum() / max(len(states), 1))


def _expected(data: Sequences, chain: Chain, agreements: list[float], threads: int) -> Expectation:
    """What the model expects to be wrong: states by their own probabilities, and states that other halves move."""
    if chain.n_states == 1:
        return Expectation(
            "steps in a wrong state", 0.0, sentence="With one state no step can be in a wrong one; symbols are taken "
            "as independent.",
        )  # fmt: skip
    posterior, _ = chain_posteriors(thinned(data, COMPARED_STEPS, FOLDS).chains, *chain.parts, threads=threads)
    wrong = float(1 - posterior.max(axis=1).mean())
    sentence = f"By the model's own probabilities the most probable state is wrong at {wrong:.1%} of the steps"
    if not agreements:
        return Expectation("steps in a wrong state", wrong, sentence=f"{sentence}; there are too few steps to refit.")
    moved = [1 - one for one in agreements]
    return Expectation(
        "steps in another state when fitted to half of the sequences", float(np.mean(moved)), min(moved), max(moved),
        sentence=f"{sentence}; fitted to half of the sequences the model puts {np.mean(moved):.1%} of them in another "
        f"state ({min(moved):.1%} and {max(moved):.1%} for the two halves).",
    )  # fmt: skip
