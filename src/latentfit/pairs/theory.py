"""What the paper on sparse pair counts proves cannot be done, as functions of the sample.

Paper     Huang, Kakade, Kong & Valiant 2018: Section 5.1 (learning needs N of order M), Theorem 5.1 with Claims D.1 and
          D.2 (telling a 2-state hidden Markov model from uniform noise needs N of order M), Corollary 1.7 (so does the
          entropy rate)
Needs     numbers only: how many pairs or symbols were drawn, from how many kinds
Promises  the paper's bounds: what no method and no test can do, whatever it is
Differs   the constant of Section 5.1 is not known and 1 by default; Claim D.2's limit is also given with the sum it is
          the limit of

Symbols   paper   here             meaning
          N       n_observations   pairs, or symbols of a sequence
          M       n_symbols        items
          C_Δ     separation       ‖Δ‖₁ of Example 1
          t       TRANSITION       probability to change state
          Y       Y                E[(Pr₂/Pr₁)²] under Pr₁, (44)
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from latentfit.core.verdict import LARGEST_LOG

TRANSITION = 0.25
"""t of Theorem 5.1: the probability to change state."""


def needed_pairs_per_item(separation: float, error: float, *, constant: float = 1.0) -> float:
    """Section 5.1: N/M below which no algorithm learns Example 1's p and q up to ℓ₁ error `error`.

    c log(C/ε)/(2C⁴) with C the separation; `constant` is c, universal but unknown (Zhang & Zhou 2015), 1 by default. An
    error that is no smaller than the separation needs nothing: zero.

    Parameters
    ----------
    separation : float
        C, in (0, 1].
    error : float
        ε > 0.
    constant : float, default 1.0
        c.

    Returns
    -------
    float
        Pairs per item.

    Examples
    --------
    >>> from latentfit.pairs.theory import needed_pairs_per_item
    >>> round(needed_pairs_per_item(0.8, 0.1), 2)
    2.54
    """
    if not (0 < separation <= 1 and error > 0):
        raise ValueError(f"separation={separation}, error={error}; give a separation in (0, 1] and a positive error")
    return max(constant * float(np.log(separation / error)) / (2 * separation**4), 0.0)


def total_variation_bound(n_observations: float, n_symbols: float) -> float:
    """Claim D.2: ½ √(√(2/(2 − 4N/3M)) − 1), at most 1: what a test can at best gain over guessing.

    It proves Theorem 5.1, which is Theorem 1.6. The total variation between N uniform symbols and N symbols of a random
    2-state hidden Markov model with disjoint emissions and t = 1/4, M large. No test has a power above its level by
    more. From N/M = 3/2 on it says nothing: 1.

    Parameters
    ----------
    n_observations, n_symbols : float
        N and M.

    Returns
    -------
    float
        Upper bound of the total variation, from 0 to 1.

    Examples
    --------
    >>> from latentfit.pairs.theory import total_variation_bound
    >>> round(total_variation_bound(100, 1000), 3)
    0.094
    """
    left = 2 - 4 / 3 * n_observations / n_symbols
    if left <= 0:
        return 1.0
    return min(0.5 * float(np.sqrt(max(np.sqrt(2 / left) - 1, 0.0))), 1.0)


def exact_total_variation_bound(n_observations: int, n_symbols: int, *, transition: float = TRANSITION) -> float:
    """The same without the limit of large M: ½ √(Y − 1) (43) with Y (44) summed over overlaps (45) as in (46).

    The terms are f of Claim D.1. `n_symbols` must be even. The sum begins at i = 0 (the paper's at 1 forgets one of the
    M/2 + 1 overlaps).

    Parameters
    ----------
    n_observations, n_symbols : int
        N and M; M even.
    transition : float, default 0.25
        t, the probability of changing state.

    Returns
    -------
    float
        Upper bound of the total variation, from 0 to 1.

    Examples
    --------
    >>> from latentfit.pairs.theory import exact_total_variation_bound
    >>> round(exact_total_variation_bound(100, 1000), 2)
    0.09
    """
    half = n_symbols // 2
    if 2 * half != n_symbols or half < 1 or n_observations < 1:
        raise ValueError(
            f"n_symbols={n_symbols}, n_observations={n_observations}; give an even number and at least one"
        )
    overlap = np.arange(half + 1)
    x = overlap / half
    a1 = (1 + (1 - 2 * transition) ** 2) / 4
    a2 = (4 * (1 - 2 * transition) / (1 + (1 - 2 * transition) ** 2)) ** 2
    root = np.sqrt(np.maximum(1 - x * (1 - x) * a2, 0.0))
    one, two = a1 * (1 + root), a1 * (1 - root)
    n = float(n_observations)
    # log of 2^N f(x); γ₁ ≥ γ₂ ≥ 0 and γ₁ ≤ ½, so the second term is the smaller one
    top = np.log(np.maximum(1 - 2 * two, 1e-300)) + n * np.log(2 * one)
    rest = (two / one) ** n * (1 - 2 * one) / np.maximum(1 - 2 * two, 1e-300)
    log_f = top + np.log(np.maximum(1 - rest, 1e-300)) - np.log(2 * (one - two))
    choose = 2 * (gammaln(half + 1) - gammaln(overlap + 1) - gammaln(half - overlap + 1))
    log_binomial = gammaln(n_symbols + 1) - 2 * gammaln(half + 1)
    terms = choose + log_f - log_binomial
    Y = float(np.exp(terms - terms.max()).sum() * np.exp(min(terms.max(), LARGEST_LOG)))
    return min(0.5 * float(np.sqrt(max(Y - 1, 0.0))), 1.0)


def undecidable_below(n_symbols: int, *, error: float = 1 / 3) -> int:
    """Corollary 1.7: up to this length no estimator of a 2-state chain's entropy rate is trustworthy.

    The chains of Theorem 5.1 have an entropy rate log 2 − H(1/4) = .131 nats below that of uniform noise. An estimator
    within half of that, with a probability of failure below `error`, would tell them apart, and Claim D.2 forbids it.
    The corollary speaks of any constant c ≤ 1; with t = 1/4 the argument covers c up to .065 nats alone. An `error` of
    one half or more asks for nothing: zero.

    Parameters
    ----------
    n_symbols : int
        M.
    error : float, default 1/3
        Probability of failure that is allowed.

    Returns
    -------
    int
        Number of observations.

    Examples
    --------
    >>> from latentfit.pairs.theory import undecidable_below
    >>> undecidable_below(1000)
    781
    """
    goal = 1 - 2 * error  # a test with both errors below `error` needs total variation above this
    ratio = np.linspace(0, 1.5, 200_001)[:-1]  # N/M
    bound = 0.5 * np.sqrt(np.maximum(np.sqrt(2 / (2 - 4 / 3 * ratio)) - 1, 0.0))  # `total_variation_bound` at each
    return int(n_symbols * ratio[bound < goal].max(initial=0.0))
