"""Can the states of a hidden Markov model be trusted? The verdict, with the numbers behind it.

Three checks. Is there anything: do neighbouring symbols depend on one another at all (`neighbour_test`), and are there
enough observations for so many symbols? Is every state needed: does the model with one state fewer predict sequences
left out as well? Is the answer the only one: transitions and emissions of full rank, three steps in a row, every state
seen to come and go.

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
from scipy.special import ndtr

from latentfit.core.kernels import Floats
from latentfit.core.spectral import effective_items, scaled_svd
from latentfit.core.verdict import Examination, Examiner
from latentfit.hmm.data import DUPLICATED, Sequences, duplicated_proportion, few_different, without_duplicates
from latentfit.hmm.em.fit import FOLDS, cut
from latentfit.hmm.em.steps import Chain, ChainPrior
from latentfit.hmm.select import StatesPath, last_state_gain


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
    seldom: float = 20.0  # times a state must have been left for its transitions to be known


THRESHOLDS = Thresholds()


UNEVEN = 0.1
"""The least correlation of two halves' scores that is reckoned with; so the level holds with 60 to 300 symbols too."""
DIRECTIONS = 4
"""Leading directions that the test of neighbours looks along."""


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
    _examine_size(examiner, N, M, K)
    if K == 1:
        if not test.possible:
            examiner.doubt(
                "caution",
                "There are too few neighbouring symbols to test whether they depend on one another, so one state is "
                "what is left, not what was found; give more sequences, or longer ones.",
            )
        elif test.p_value < THRESHOLDS.no_structure:
            examiner.doubt(
                "caution",
                f"Neighbouring symbols depend on one another (p = {test.p_value:.1e}), and one state says they do not; "
                + ("set n_states to two or more." if path else "ask for two or more, or leave n_states=None."),
            )
        elif path is not None:
            examiner.doubt(
                "caution",
                f"No structure found: neighbouring symbols look independent (p = {test.p_value:.2g}), and one state is "
                "all that sequences left out ask for.",
            )
    else:
        _examine_structure(examiner, data, float(singular[-1]), test)
        _examine_states(examiner, chain, weights, N)
        _examine_last_state(examiner, data, K, path is not None, threads)
    examiner.check_converged(converged, "Baum–Welch", "states")
    return examiner.conclude()


def _examine_duplicates(examiner: Examiner, data: Sequences) -> float:
    """The proportion of steps in duplicates of other sequences."""
    duplicated = duplicated_proportion(data)
    if duplicated >= DUPLICATED:
        unique = without_duplicates(data)
        examiner.doubt(
            "caution",
            f"{data.n_sequences - unique.n_sequences} of {data.n_sequences} sequences are exact duplicates of others, "
            f"with {duplicated:.0%} of the steps: duplicates are no further evidence, so all checks count the "
            f"{unique.n_sequences} different ones; leave the duplicates out, unless each was truly observed.",
        )
    elif different := few_different(data):
        examiner.doubt(
            "caution",
            f"The {data.n_sequences} sequences are duplicates of {different} different "
            f"{'one' if different == 1 else 'ones'}: states spell these out, and duplicates are no further evidence; "
            "bring more different sequences, unless each was truly observed.",
        )
    return duplicated


def _examine_limit(examiner: Examiner, path: StatesPath) -> None:
    if path.at_limit:
        examiner.doubt(
            "caution",
            f"The number of states ended at the limit max_states={path.limit} while more states still made sequences "
            "left out more probable: more states may be needed; raise max_states (--max-states).",
        )


def _examine_size(examiner: Examiner, n_observed: int, n_symbols: int, n_states: int) -> None:
    each = n_observed / n_symbols
    if n_states == 1:
        return
    if each < THRESHOLDS.too_few:
        examiner.doubt(
            "not identifiable",
            f"There are {n_observed} observations of {n_symbols} symbols; with fewer observations than symbols no "
            "method can tell states from chance (Theorem 1.6), nor know the entropy rate (Corollary 1.7); give more, "
            "or merge symbols.",
        )
    elif each < THRESHOLDS.few:
        examiner.doubt(
            "caution",
            f"There are {n_observed} observations of {n_symbols} symbols, {each:.1f} each: what rare symbols say "
            "about the state is mostly chance; give more, or merge rare symbols.",
        )


def _examine_structure(examiner: Examiner, data: Sequences, smallest: float, test: NeighbourTest) -> None:
    """`smallest` is the transitions' least singular value."""
    if not test.possible:
        examiner.doubt(
            "not identifiable",
            "There are too few neighbouring symbols to test whether they depend on one another, so nothing shows "
            "hidden states; give more sequences, or longer ones.",
        )
    elif test.p_value > THRESHOLDS.no_structure:
        examiner.doubt(
            "not identifiable",
            f"Neighbouring symbols look independent (p = {test.p_value:.2g}), so nothing shows hidden states; one "
            "state explains them as well.",
        )
    if not len(data.within(2)):
        examiner.doubt(
            "not identifiable",
            "No sequence has three steps, and pairs alone fit many models (the paper's remark after Corollary 1.5); "
            "give longer sequences.",
        )
    if smallest < THRESHOLDS.singular:
        examiner.doubt(
            "caution",
            f"The transitions are nearly of lower rank (smallest singular value {smallest:.3f}): two states lead to "
            "the same future and are told apart by their symbols alone; one state fewer may do.",
        )


def _examine_states(examiner: Examiner, chain: Chain, weights: Floats, N: int) -> None:
    left = N * weights * (1 - np.diag(chain.transitions))
    examiner.quantities["times_left"] = left.tolist()
    seldom = int(left.argmin())
    if left[seldom] < THRESHOLDS.seldom:
        examiner.doubt(
            "caution",
            f"State {seldom} was left about {left[seldom]:.0f} times: how long it lasts and where it goes is known "
            "from these alone; ask for fewer states, or give more data.",
        )
    apart = np.abs(chain.emissions[:, None] - chain.emissions[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    one, other = sorted(divmod(int(apart.argmin()), chain.n_states))
    examiner.quantities["nearest_emissions"] = float(apart.min())
    if apart.min() < THRESHOLDS.alike:
        examiner.doubt(
            "caution",
            f"States {one} and {other} show the same symbols (ℓ₁ distance {apart.min():.2f}), so only the order tells "
            "them apart; ask for one state fewer.",
        )


def _examine_last_state(examiner: Examiner, data: Sequences, K: int, chosen: bool, threads: int) -> None:
    estimated = last_state_gain(data, K, threads=threads)
    if estimated is None:
        examiner.doubt(
            "caution",
            f"{data.n_steps} steps are too few to leave any out, so nothing shows that {K} states are needed; give "
            "more sequences, or longer ones.",
        )
        return
    gain, error = estimated
    examiner.quantities |= {"last_state_gain": gain, "last_state_error": error}
    if gain <= THRESHOLDS.sure * error:
        examiner.doubt(
            "caution",
            f"On sequences left out {K} states gain {gain:.4f} ± {error:.4f} nats per observation over {K - 1}: the "
            "last one may be chance; "
            + (f"n_states={K - 1} may do as well." if chosen else "ask for fewer, or leave n_states=None."),
        )
