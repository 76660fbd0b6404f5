"""What the paper on reliable clustering of Bernoulli mixtures promises, and what it asks for.

Paper     Najafi, Motahari & Rabiee 2020, "Reliable clustering of Bernoulli mixture models": Definitions 3.1–3.3,
          Theorem 3.1, Lemmas 4.1–4.3 and A.1–A.3; generic identifiability: Allman, Matias & Rhodes 2009
Needs     numbers only: n rows, L columns, K classes of weight at least α, (𝓛, δ)-separable frequencies, ε, ζ
Promises  the paper's bounds as printed, as logarithms (most are far beyond the largest float). They are loose by many
          orders of magnitude: docs/guide/clusters/theory.md shows them beside simulated answers
Differs   d, a number of columns, is rounded up. K is ⌊1/α⌋, the most that α allows (the paper says ⌈1/α⌉).
          The constants B and C of Theorem 3.1, announced for Section 4, are not given there: `needed` solves (4.5),
          (4.7) and Lemma A.3 for n and 𝓛 themselves. Slips of the proofs, none of them mended in the printed bounds.
          The paper was read in a text version: what is said of (4.6)–(4.8) may be the conversion's slip, not its own
          - Lemma A.1: (A.9) takes the smallest pair difference of every column, which is 0 in a column that separates
            only some of K ≥ 3 classes. The inequality holds all the same, since Σ var = Σ_{i<j} w_i w_j ‖p_i − p_j‖².
            (A.10) is said to increase in r; beyond r = ½ (so for K ≥ 3) it falls, and its infimum can be negative.
            `lemma_a1` gives the bound as stated, the infimum of (A.10), and a repaired one from that identity
          - Lemma A.2: δ := ε/(d 2^{d/2}) should be ε/(d² 2^{d/2}), which its result uses; the sum before is at most
            d 2^{d/2} only for d ≥ 3; the gradient along the path is bounded by its value at the end, "for large n";
            KL(p + x ‖ p) ≥ x²/(2p(1−p)) does not hold for small p. Lemmas 4.1–4.3 inherit this
          - Lemma 4.2 and the second half of 4.3 (K = 1) use τ and d "as before", where K = 1 would give d = 0: they
            are those of the test, with its K. The proof of that half cites A.2, it is 4.2 that gives d² for d⁴
          - Lemma 4.3: column sub-matrices of a mixture that do not overlap are independent given the classes, not
            outright; h = ⌊𝓛/d⌋ is replaced by the larger 𝓛/d; ⌊2d/(K(K−1))⌋ is not above Lemma 4.1's least 𝓛
          - (4.4) applies the lemma, for i.i.d. rows, to clusters whose classes are fixed, and d to 1/α in place of K
          - (4.6) and (4.8) print log 1/ζ inside a denominator, which would ask fewer rows for a smaller ζ; in (4.8) it
            must also be divided by ε^{…}. (4.7) prints L/d for the binomial

Symbols   paper      here           meaning
          n L K      n, L, K        rows, columns, classes
          𝓛          separable      columns in which any two classes differ by at least δ
          α δ ε ζ    alpha, delta, epsilon, zeta
          d τ        d, tau         columns of the purity test, its threshold (4.1)–(4.2)
          β          log_beta       logarithm of Lemma 4.1's exponent
          P          P              (K, L) frequencies
          Z, Z_T     labels, truth  (n,)
"""

from __future__ import annotations

from itertools import combinations
from math import ceil, exp, floor, inf, isfinite, log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.verdict import LARGEST_LOG

Quantities = dict[str, float]
Ints = NDArray[np.intp]

WHOLE = 2.0**52
"""Up to here a float names every whole number, so that the smallest n is found exactly."""
LOG_2, LOG_4 = log(2), log(4)


# ------------------------------------------------------------ definitions


def separable_columns(P: Floats, delta: float) -> int:
    """The largest 𝓛 for which P (K, L) is (𝓛, δ)-separable, Definition 3.3; L when there is one class.

    Parameters
    ----------
    P : ndarray of shape (n_clusters, n_columns)
        Frequencies of the columns in the clusters.
    delta : float
        δ, by how much frequencies of separable columns differ.

    Returns
    -------
    int
        The number 𝓛.
    """
    missing = _pair_differences(P)
    return int((missing >= delta).sum(axis=1).min()) if len(missing) else int(np.asarray(P).shape[1])


def separable_delta(P: Floats, separable: int) -> float:
    """The largest δ for which P (K, L) is (𝓛, δ)-separable, Definition 3.3; 1 when there is one class.

    Parameters
    ----------
    P : ndarray of shape (n_clusters, n_columns)
        Frequencies of the columns in the clusters.
    separable : int
        𝓛, the number of separable columns.

    Returns
    -------
    float
        The distance δ.
    """
    missing = _pair_differences(P)
    if not 1 <= separable <= np.asarray(P).shape[1]:
        raise DataError(f"separable is {separable} and P has {np.asarray(P).shape[1]} columns; give 1 to that many")
    return float(np.sort(missing, axis=1)[:, -separable].min()) if len(missing) else 1.0


def impurities(labels: Ints, truth: Ints, weight: Floats | None = None) -> Floats:
    """The smallest ε for which each cluster is ε-pure (κ,), Definition 3.1; 0 for a cluster without rows.

    Parameters
    ----------
    labels : int ndarray of shape (n_rows,)
        Clusters of the rows.
    truth : int ndarray of shape (n_rows,)
        True classes of the rows.
    weight : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows; None: 1 each.

    Returns
    -------
    ndarray of shape (n_clusters,)
        Impurity of every cluster.
    """
    labels, truth = np.asarray(labels, np.intp), np.asarray(truth, np.intp)
    counts = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(counts, (labels, truth), 1.0 if weight is None else weight)
    sizes = counts.sum(axis=1)
    return np.asarray(1 - np.divide(counts.max(axis=1), sizes, out=np.ones_like(sizes), where=sizes > 0))


def is_correct(labels: Ints, truth: Ints, epsilon: float) -> bool:
    """Whether a clustering is ε-correct, Definition 3.2: all its clusters are ε-pure.

    Parameters
    ----------
    labels : int ndarray of shape (n_rows,)
        Clusters of the rows.
    truth : int ndarray of shape (n_rows,)
        True classes of the rows.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    bool
        Whether no cluster is more impure than ε.
    """
    return bool(impurities(labels, truth).max() <= epsilon + 1e-12)


def least_columns(K: int) -> int:
    """Columns from which a mixture of K Bernoulli models is generically identifiable, Section 2: 2⌈log₂ K⌉ + 1.

    Parameters
    ----------
    K : int
        Number of clusters.

    Returns
    -------
    int
        Number of columns.
    """
    return 2 * (K - 1).bit_length() + 1


def has_room(L: int, K: int) -> bool:
    """Whether L columns can tell K clusters apart at all, up to finitely many answers.

    2^L − 1 frequencies of unique rows must hold the K(L + 1) − 1 parameters; four columns and three clusters are the
    one case where the count allows what geometry does not (Catalisano, Geramita & Gimigliano 2011).

    Parameters
    ----------
    L : int
        Number of columns.
    K : int
        Number of clusters.

    Returns
    -------
    bool
        Whether the count of parameters allows it.
    """
    return K * (L + 1) <= 2**L and (L, K) != (4, 3)


# ------------------------------------------------------------ the test and its lemmas


def threshold(K: float, epsilon: float) -> float:
    """τ of Lemma 4.1; of Algorithm 1 and (4.2) with K = 1/α.

    Parameters
    ----------
    K : float
        Number of clusters, or 1/α.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    float
        The threshold τ of total correlation.
    """
    return epsilon / 2 * (1 + log(K / epsilon))


def sub_dimension(K: float, delta: float, epsilon: float) -> float:
    """d of Lemma 4.3, before rounding; of Algorithm 1 and (4.1) with K = 1/α.

    Parameters
    ----------
    K : float
        Number of clusters, or 1/α.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    float
        The number d.
    """
    return K * (K - 1) / (2 * (1 - epsilon) * delta**2) * (1 + log(K / epsilon))


def lemma_4_1(n: float, d: int, K: float, delta: float, epsilon: float) -> Quantities:
    """Lemma 4.1: P{D(Q) ≤ τ} for d columns of a mixture no class of which outweighs 1 − ε.

    It asks for `least_separable` < 𝓛 ≤ d.

    Parameters
    ----------
    n : float
        Number of rows.
    d : int
        Number of columns of a sub-collection Q.
    K : float
        Number of clusters, or 1/α.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    tau = threshold(K, epsilon)
    log_beta = 2 * log(tau) - 4 * log(d) - (d + 1) * LOG_2
    return {
        "tau": tau,
        "log_beta": log_beta,
        "least_separable": (1 + log(K / epsilon)) / ((1 - epsilon) * delta**2),
        "log_bound": (d + 1) * LOG_2 - _exp(log_beta + log(n)),
    }


def lemma_4_2(n: float, d: int, K: float, epsilon: float) -> Quantities:
    """Lemma 4.2: P{D(Q) ≥ τ} for d columns of a single class; K is the test's.

    Parameters
    ----------
    n : float
        Number of rows.
    d : int
        Number of columns of a sub-collection Q.
    K : float
        Number of clusters of the test, or 1/α.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    tau = threshold(K, epsilon)
    return {"tau": tau, "log_bound": (d + 1) * LOG_2 - _exp(2 * log(tau) + log(n) - 2 * log(d) - (d + 1) * LOG_2)}


def lemma_4_3(n: float, L: float, separable: float, K: float, delta: float, epsilon: float) -> Quantities:
    """Lemma 4.3: P{D_max ≤ τ} for an impure cluster of n rows, and P{D_max ≥ τ} for a pure one.

    `log_impure_floor` keeps h = ⌊𝓛/d⌋ where the printed bound has 𝓛/d.

    Parameters
    ----------
    n : float
        Number of rows.
    L : float
        Number of columns.
    separable : float
        𝓛, the number of separable columns.
    K : float
        Number of clusters, or 1/α.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    _check_several(K, "Lemma 4.3")
    d, tau = ceil(sub_dimension(K, delta, epsilon)), threshold(K, epsilon)
    log_rate = 2 * log(tau) + log(n) - (d + 1) * LOG_2  # log of τ²n / 2^(d+1)
    each = (d + 1) * LOG_2 - _exp(log_rate - 4 * log(d))  # Lemma 4.1
    return {
        "d": d,
        "tau": tau,
        "in_force": float(separable > d),
        "log_impure": separable * LOG_4 - _exp(log_rate + log(separable) - 5 * log(d)),
        "log_impure_floor": floor(separable / d) * each,
        "log_pure": _log_binomial(log(L), d) + (d + 1) * LOG_2 - _exp(log_rate - 2 * log(d)),
    }


def lemma_a1(separable: float, K: int, delta: float, epsilon: float) -> Quantities:
    """Lemma A.1: lim D(Q) is at least this when no class outweighs 1 − ε: as stated, as (A.8)–(A.10) give it, repaired.

    Repaired: Σ_ℓ var ≥ 𝓛δ² (1 − Σ w²)/2, and 1 − Σ w² is at least 2r(1−r), and at least r when r ≥ ½, for a largest
    weight 1 − r; the entropy is the largest there is at that r, the left side of (A.8).

    Parameters
    ----------
    separable : float
        𝓛, the number of separable columns.
    K : int
        Number of clusters.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    _check_several(K, "Lemma A.1")
    x, last = separable * delta**2, 1 - 1 / K

    def a_10(r: Floats) -> Floats:
        return np.asarray(2 * r * (1 - r) * x - r * (1 + np.log(K / r)))

    def repaired(r: Floats) -> Floats:
        entropy = -xlogy(1 - r, 1 - r) - xlogy(r, r / (K - 1))
        return np.asarray(np.where(r <= 0.5, 2 * r * (1 - r), r) * x - entropy)

    grid = np.unique(np.concatenate([np.linspace(epsilon, last, 4001), [min(0.5, last)]]))
    return {
        "stated": 2 * epsilon * (1 - epsilon) * x - epsilon * (1 + log(K / epsilon)),
        "infimum_a10": float(a_10(grid).min()),
        "repaired": float(repaired(grid).min()),
    }


def lemma_a2(n: float, d: int, deviation: float) -> Quantities:
    """Lemma A.2: P{|D(Q) − lim D(Q)| > deviation} for n rows of d columns of any Bernoulli mixture.

    Parameters
    ----------
    n : float
        Number of rows.
    d : int
        Number of columns of a sub-collection Q.
    deviation : float
        Size of the deviation.

    Returns
    -------
    dict
        The quantities by name.
    """
    return {"log_bound": (d + 1) * LOG_2 - _exp(2 * log(deviation) + log(n) - 4 * log(d) - (d + 1) * LOG_2)}


def lemma_a3(n: float, K: int, alpha: float) -> Quantities:
    """Lemma A.3: P{a class has fewer than αn/2 of the n rows}, (A.17).

    Parameters
    ----------
    n : float
        Number of rows.
    K : int
        Number of clusters.
    alpha : float
        α, the smallest class weight.

    Returns
    -------
    dict
        The quantities by name.
    """
    return {"log_bound": log(K) - n * alpha**2 / 2}


# ------------------------------------------------------------ the theorem


def theorem_3_1(n: float, L: float, separable: float, alpha: float, delta: float, epsilon: float) -> Quantities:
    """Theorem 3.1: how surely Algorithm 1 is ε-correct on n rows.

    `promised` = 1 − P{ℰ₁} − P{ℰ₂} − P{ℰ₃}, 0 when that is less. The logarithms of the three bounds are those of (4.5),
    (4.7) and Lemma A.3; the promise needs 𝓛 > d.

    Parameters
    ----------
    n : float
        Number of rows.
    L : float
        Number of columns.
    separable : float
        𝓛, the number of separable columns.
    alpha : float
        α, the smallest class weight.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    K, d, tau = _test(alpha, delta, epsilon)
    errors = [
        _accept_impure(log(n), log(separable), K, _log_rate(alpha, tau, d) - 5 * log(d)) if K > 1 else -inf,
        _reject_pure(log(n), log(L), K, d, _log_rate(alpha, tau, d) - 2 * log(d)) if d else -inf,
        lemma_a3(n, K, alpha)["log_bound"],
    ]
    in_force = separable > d
    return {
        "d": d,
        "tau": tau,
        "exponent": 2 + (1 - alpha) / (2 * (alpha * delta) ** 2),  # of 1/ε in 𝓛 and n
        "log_accept_impure": errors[0],  # (4.5)
        "log_reject_truth": errors[1],  # (4.7)
        "log_small_class": errors[2],  # Lemma A.3
        "in_force": float(in_force),
        "promised": max(0.0, 1 - sum(_exp(error) for error in errors)) if in_force else 0.0,
    }


def needed(alpha: float, delta: float, epsilon: float, zeta: float) -> Quantities:
    """What Theorem 3.1 asks for: (4.5), (4.7) and Lemma A.3 at most ζ/3 each, at the 𝓛 and n with the least n · 𝓛.

    L is 𝓛: every column tells. For a given 𝓛, `needed_rows` has the smallest n.

    Parameters
    ----------
    alpha : float
        α, the smallest class weight.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.
    zeta : float
        ζ, the probability of failure that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    K, d, tau = _test_of_several(alpha, delta, epsilon)
    log_least = log(log(K)) - _log_rate(alpha, tau, d) + 5 * log(d)  # below it (4.5) grows with n

    def log_cells(above: float) -> float:
        log_separable = max(log_least + above, log(d + 1))
        return log_separable + _log_rows(log_separable, alpha, K, d, tau, zeta)

    above = float(minimize_scalar(log_cells, bounds=(1e-6, 20.0), method="bounded", options={"xatol": 1e-9}).x)
    log_separable = max(log_least + above, log(d + 1))
    if log_separable < log(WHOLE):
        log_separable = log(ceil(exp(log_separable)))
    log_rows = _log_rows(log_separable, alpha, K, d, tau, zeta)
    return {
        "d": d,
        "tau": tau,
        "separable": round(_exp(log_separable)) if log_separable < log(WHOLE) else _exp(log_separable),
        "n": _smallest(log_rows, log_separable, alpha, K, d, tau, zeta),
        "log10_separable": log_separable / log(10),
        "log10_n": log_rows / log(10),
    }


def needed_rows(separable: float, alpha: float, delta: float, epsilon: float, zeta: float) -> Quantities:
    """The smallest n for which the three bounds are at most ζ/3 each at this 𝓛; infinite when 𝓛 is too small.

    Parameters
    ----------
    separable : float
        𝓛, the number of separable columns.
    alpha : float
        α, the smallest class weight.
    delta : float
        δ, by how much frequencies of separable columns differ.
    epsilon : float
        ε, the impurity that is allowed.
    zeta : float
        ζ, the probability of failure that is allowed.

    Returns
    -------
    dict
        The quantities by name.
    """
    K, d, tau = _test_of_several(alpha, delta, epsilon)
    log_rows = _log_rows(log(separable), alpha, K, d, tau, zeta) if separable > d else inf
    n = _smallest(log_rows, log(separable), alpha, K, d, tau, zeta)
    return {"d": d, "tau": tau, "n": n, "log10_n": log_rows / log(10)}


# ------------------------------------------------------------ pieces


def _test(alpha: float, delta: float, epsilon: float) -> tuple[int, int, float]:
    """K, the most classes that α allows, and d and τ of Algorithm 1, (4.1)–(4.2)."""
    d = ceil(sub_dimension(1 / alpha, delta, epsilon) - 1e-9)
    return floor(1 / alpha + 1e-9), d, threshold(1 / alpha, epsilon)


def _check_several(K: float, where: str) -> None:
    if K <= 1:
        raise DataError(f"K is {K:g} and {where} is about mixtures; give two classes or more")


def _test_of_several(alpha: float, delta: float, epsilon: float) -> tuple[int, int, float]:
    """The same, two classes at least."""
    K, d, tau = _test(alpha, delta, epsilon)
    if K < 2:
        raise DataError(f"K is {K}: with one class every clustering is pure; give alpha of at most 1/2")
    return K, d, tau


def _log_rate(alpha: float, tau: float, d: int) -> float:
    """log of ατ²/2^(d+2), common to (4.5) and (4.7)."""
    return log(alpha) + 2 * log(tau) - (d + 2) * LOG_2


def _accept_impure(log_n: float, log_separable: float, K: int, log_c: float) -> float:
    """(4.4)–(4.5): (n+1) log K + 𝓛 log 4 − n 𝓛 c."""
    log_gain = log_n + log_separable + log_c
    if max(log_n, log_separable) > LARGEST_LOG - 10:  # too large to write out: the larger side decides
        log_cost = float(np.logaddexp(log_n + log(log(K)), log_separable + log(LOG_4)))
        return -inf if log_gain > log_cost else inf
    return (_exp(log_n) + 1) * log(K) + _exp(log_separable) * LOG_4 - _exp(log_gain)


def _reject_pure(log_n: float, log_L: float, K: int, d: int, log_c: float) -> float:
    """(4.7): log K + log C(L, d) + (d+1) log 2 − n c."""
    return log(K) + _log_binomial(log_L, d) + (d + 1) * LOG_2 - _exp(log_n + log_c)


def _log_rows(log_separable: float, alpha: float, K: int, d: int, tau: float, zeta: float) -> float:
    """log of the least n at which each of the three bounds is ζ/3: each solved for n."""
    rate, spare = _log_rate(alpha, tau, d), log(3 / zeta)
    slope = _exp(log_separable + rate - 5 * log(d)) - log(K)  # 𝓛c − log K
    if slope <= 0:
        return inf
    first = float(np.logaddexp(log_separable + log(LOG_4), log(log(K) + spare))) - log(slope)
    second = log(log(K) + _log_binomial(log_separable, d) + (d + 1) * LOG_2 + spare) - rate + 2 * log(d)
    return max(first, second, log(2 / alpha**2 * log(3 * K / zeta)))


def _smallest(log_rows: float, log_separable: float, alpha: float, K: int, d: int, tau: float, zeta: float) -> float:
    """The least whole n, while floats name whole numbers."""
    if log_rows >= log(WHOLE):
        return _exp(log_rows)
    rate = _log_rate(alpha, tau, d)

    def enough(n: int) -> bool:
        errors = (
            _accept_impure(log(n), log_separable, K, rate - 5 * log(d)),
            _reject_pure(log(n), log_separable, K, d, rate - 2 * log(d)),
            lemma_a3(n, K, alpha)["log_bound"],
        )
        return max(errors) <= log(zeta / 3)

    n = max(ceil(exp(log_rows)), 1)
    while not enough(n):
        n += 1
    while n > 1 and enough(n - 1):
        n -= 1
    return n


def _log_binomial(log_L: float, d: int) -> float:
    """log C(L, d), for an L that may be given by its logarithm only."""
    if log_L > log(WHOLE):  # then L − i is L
        return float(d * log_L - gammaln(d + 1))
    terms = np.exp(log_L) - np.arange(d)
    return float(np.log(terms).sum() - gammaln(d + 1)) if (terms > 0).all() else -inf


def _exp(x: float) -> float:
    return inf if x > LARGEST_LOG else exp(x) if isfinite(x) else 0.0


def _pair_differences(P: Floats) -> Floats:
    """|P_k − P_k′| of all pairs of classes (pairs, L)."""
    P = np.asarray(P, np.float64)
    return np.array([np.abs(P[k] - P[other]) for k, other in combinations(range(len(P)), 2)])
