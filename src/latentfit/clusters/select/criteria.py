"""How many clusters? Criteria along a path of fits with K = 1, 2, … clusters, and the number each of them chooses.

All criteria are smaller-is-better. With ℓ the log-likelihood in nats, q the free parameters, n the rows, E the entropy
of the rows' memberships and d = columns + 1, what one more cluster adds to q:

    statistical  −2ℓ + 2(K − 1)(d + 3 d^⅓) + 4 Σ_k ln₊(1 / K w_k)
                                             what splitting a pure cluster gains by chance, and some: see below
    aic          −2ℓ + 2q                    (Akaike 1974)
    aic3         −2ℓ + 3q                    (Bozdogan 1993)
    bic          −2ℓ + q ln n                (Schwarz 1978)
    sabic        −2ℓ + q ln((n + 2)/24)      (Sclove 1987)
    icl          −2ℓ + q ln n + 2E           (Biernacki, Celeux & Govaert 2000)

*Statistical.* A split of a pure cluster follows the largest eigenvalue of the noise in its pair table, whose mean and
spread are those of Tracy & Widom: about d nats, give or take d^⅓. AIC penalises by d for a cluster and so splits
pure clusters; AIC3 and BIC penalise by 3d/2 and d ln(n)/2, which wide tables cannot pay
(docs/guide/clusters/number.md). That law is of halves. A few rows that are alike by chance can be found in many more
ways, the more the fewer they are: a cluster of weight w below the even 1/K is penalised by 2 ln(1 / K w) nats more.

Where columns are noninformative the criterion is that of `noninformative.py` when it is the better one.

*Practical.* The likelihood of real tables keeps rising in small steps, because no cluster of theirs is quite pure. The
practical number stops before the first step that gains less than a tenth of the largest, at the statistical
number at the latest. A step may fall short of the tenth by 3 d^⅓ nats, the margin that a cluster pays above d: steps
are not known better than that, and where one lies at the very tenth the start of a fit would decide.

Paper     those named beside the criteria; the distribution of the largest eigenvalue: Tracy & Widom 1996
Needs     the log-likelihood and entropy of a fit with each K, every one the best of several initialisations
Promises  by its derivation *statistical* halves a pure cluster about twice in a thousand tables (`./dev reproduce
          clusters:chance` measures the gain); measured: 6 of 1,800 are split (`benchmarks/pure_clusters.py`)
Differs   Najafi, Motahari & Rabiee 2020 find K by their purity test (`clusters/init.py`); here likelihoods do

Symbols   above
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.bootstrap import information_criteria

TW_FRACTION = 3.0
"""How many d^⅓ a cluster pays above d: the chance gain of a pure cluster has mean below d and spread 1–1.6 d^⅓."""
SMALL_CLUSTER = 2.0
"""Nats per e-fold by which a cluster is smaller than an even one. Without it one cluster of 50 even columns and 2,000
rows lost a few rows to a cluster of their own in 11 % of the tables (`benchmarks/pure_clusters.py`)."""
SMALL_STEP = 0.1
"""A step below this proportion of the largest is not worth a cluster to a reader."""
FAR_APART = 2
"""When the two numbers differ by more, the clusters are not quite pure, and the user is warned."""

CRITERIA = ("statistical", "aic", "aic3", "bic", "sabic", "icl")
"""Criteria whose smallest value chooses; ``practical`` is a walk along the path."""

Fit = TypeVar("Fit")


@dataclass(frozen=True)
class PathNumbers:
    """One entry per K = 1, 2, …: `columns` ready for a frame, and the K that each criterion chooses."""

    columns: dict[str, list[int] | list[float]]
    chosen: dict[str, int]

    @property
    def differ(self) -> bool:
        """The statistical number is so far beyond the practical that it deserves a warning."""
        return self.chosen["statistical"] - self.chosen["practical"] > FAR_APART

    def asked_for(self, limit: int) -> str:
        """The statistical number as messages give it: where the path ended at its limit the evidence may ask for
        more."""
        more = " or more (the search limit)" if self.chosen["statistical"] == limit else ""
        return f"{self.chosen['statistical']}{more}"


def statistical_penalty(n_columns: int) -> float:
    """Nats that a cluster must gain: d + 3 d^⅓, d = columns + 1."""
    return n_columns + 1 + chance_margin(n_columns)


def size_penalty(weights: Floats) -> float:
    """Nats of penalty for clusters below the even weight 1/K: 2 ln(1 / K w_k) each."""
    proportion = np.maximum(weights * len(weights), 1e-300)
    return SMALL_CLUSTER * float(np.maximum(-np.log(proportion), 0.0).sum())


def chance_margin(n_columns: int) -> float:
    """3 d^⅓ nats, what chance may add to a step beyond its mean."""
    return float(TW_FRACTION * np.cbrt(n_columns + 1))


def path_criteria(
    log_likelihood: Floats, entropy: Floats, n_columns: int, n_rows: float, restricted: Floats | None = None,
    sizes: Floats | None = None,
) -> dict[str, Floats]:  # fmt: skip
    """Each of `CRITERIA` at K = 1, 2, …, from the fits' log-likelihoods and entropies (K,).

    `sizes` (K,) are the penalties for small clusters (`size_penalty`), none when not given. `restricted` (K,) are
    log-likelihoods less penalties of fits in which some columns are noninformative, −∞ where there is none: the
    statistical criterion takes the better of both.
    """
    number = np.arange(1, len(log_likelihood) + 1)
    known = information_criteria(log_likelihood, number * (n_columns + 1) - 1, n_rows)
    unrestricted = -2 * log_likelihood + 2 * (number - 1) * statistical_penalty(n_columns)
    unrestricted = unrestricted if sizes is None else unrestricted + 2 * sizes
    known["statistical"] = unrestricted if restricted is None else np.minimum(unrestricted, -2 * restricted)
    known["icl"] = known["bic"] + 2 * entropy
    return {name: known[name] for name in CRITERIA}


def practical_number(log_likelihood: Floats, statistical: int, margin: float = 0.0) -> int:
    """The K before the first step below a tenth of the largest, by more than `margin` nats; at most the statistical."""
    steps = np.diff(log_likelihood)[: statistical - 1]
    small = np.flatnonzero(steps < SMALL_STEP * steps.max() - margin) if len(steps) else steps
    return int(small[0]) + 1 if len(small) else statistical


def number_clusters(
    log_likelihood: Floats, entropy: Floats, n_columns: int, n_rows: float, restricted: Floats | None = None,
    sizes: Floats | None = None,
) -> PathNumbers:  # fmt: skip
    """All criteria of a path, and what they choose; of equals the smaller K."""
    values = path_criteria(log_likelihood, entropy, n_columns, n_rows, restricted, sizes)
    chosen = {name: int(np.argmin(value)) + 1 for name, value in values.items()}
    chosen["practical"] = practical_number(log_likelihood, chosen["statistical"], chance_margin(n_columns))
    columns: dict[str, list[int] | list[float]] = {
        "n_components": list(range(1, len(log_likelihood) + 1)),
        "log_likelihood": log_likelihood.tolist(),
        "step": [float("nan"), *np.diff(log_likelihood).tolist()],
        "entropy": entropy.tolist(),
        **{name: value.tolist() for name, value in values.items()},
    }
    return PathNumbers(columns, chosen)


def pure_number(fits: Sequence[Fit], chosen: Mapping[str, int], impure: Callable[[Fit], bool]) -> int:
    """The practical number; where the evidence asks for a few clusters more, the first number without an impure one.

    A rare cluster gains little beside large ones, and the practical number leaves it out. That is seen in the cluster
    its rows went to, which is not pure. Further apart than `FAR_APART` no number is right, and the practical one stays.
    """
    practical, statistical = chosen["practical"], chosen["statistical"]
    if not 0 < statistical - practical <= FAR_APART:
        return practical
    pure = (number for number in range(practical, statistical + 1) if not impure(fits[number - 1]))
    return next(pure, practical)


def choose_by_test(fits: Sequence[Fit], needs_more: Callable[[Fit], bool]) -> int:
    """The smallest K whose fit a test accepts, the last when it accepts none.

    `needs_more` is any test of one fit: a purity test of its clusters, a bootstrapped likelihood ratio. It is an
    argument because tests live in `diagnose`, to the right of here.
    """
    for number, fit in enumerate(fits, start=1):
        if number == len(fits) or not needs_more(fit):
            return number
    raise ValueError("choose_by_test got no fit; give at least the one with K = 1")
