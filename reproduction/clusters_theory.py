"""What the clustering theorem promises, simulated; and the weights and frequencies of a clustering, with intervals.

*How often is a clustering ε-correct* on data like that of Theorem 3.1? The simulated mixture is as hard as
(𝓛, δ)-separability and α allow without being contrived: informative columns hold only the frequencies ½ ± δ/2, half of
the classes each, drawn anew for every column; all other columns are fair coins; all classes but one weigh α. A
clustering with more than ⌈1/α⌉ clusters does not count as correct, as in the theorem: n clusters of one row would be
pure.

*Parameters of a clustering.* The paper says that after an ε-correct clustering every entry of P and w is known up to
ε + O(n^-1/2). That is not so: purity bounds the rows of other classes in a cluster, not what the class has lost. A
small class may lose a *selected* part of its rows to a large cluster, which stays ε-pure: 80 rows that say yes, say,
among 800 others at ε = .1. So the interval here is the widest that an ε-correct clustering allows when every class has
one cluster: up to εm of a cluster's m rows are rows of other classes, up to ε(n − m) of its class are in other
clusters, and both may be all ones or all zeros. Wilson's score interval of the observed proportion is moved outwards by
that. Missing values are left out of the column they are in.

Paper     Najafi, Motahari & Rabiee 2020, Theorem 3.1, and Section 3 after it
Needs     n, L, 𝓛, α, δ, ε and a function that clusters a table; labels of an ε-correct clustering
Promises  proportions of correct clusterings among repeats, for the clustering and for one that knows the truth;
          whatever rows were misplaced, the range of proportions that is possible, and sampling error at a level
Differs   the theorem holds for every separable mixture, the simulation for one hard but honest kind; lost rows are
          counted, and Wilson's interval stands in place of Chernoff's bound

Symbols   paper   here                      meaning
          𝓛 α δ   separable, alpha, delta   as in `latentfit.clusters.theory`
          ℬ       SimulatedModel            a mixture: w (K,), P (K, L)
          w P     weights, frequencies      (κ,), (κ, L)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.theory import Ints, is_correct, separable_columns
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.table.table import Column, Table
from latentfit.core.verdict import standard_errors_of, wilson

Clustering = Callable[[Table], NDArray[np.integer]]


@dataclass(frozen=True)
class SimulatedModel:
    """A Bernoulli mixture: weights (K,) and frequencies (K, L)."""

    weights: Floats
    P: Floats

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Table, Ints]:
        """n rows and the class of each."""
        truth = rng.choice(len(self.weights), size=n, p=self.weights)
        codes = (rng.random((n, self.P.shape[1])) < self.P[truth]).astype(np.uint8)
        return Table(codes, tuple(Column(l, np.array([0, 1])) for l in range(codes.shape[1]))), truth

    def oracle(self, table: Table) -> Ints:
        """The likeliest class of each row when weights and frequencies are known: no clustering errs less."""
        tiny = np.finfo(float).tiny
        one, zero = np.log(np.maximum(self.P, tiny)), np.log(np.maximum(1 - self.P, tiny))
        bits = table.codes.astype(np.float64)
        return np.asarray((bits @ one.T + (1 - bits) @ zero.T + np.log(self.weights)).argmax(axis=1), np.intp)


@dataclass(frozen=True)
class SimulatedAnswer:
    """Proportions of repeats in which the clustering, and the one by the known truth, were ε-correct."""

    correct: float
    oracle: float
    separable: float  # mean 𝓛 at this δ
    repeats: int


def separated_mixture(
    L: int, K: int, alpha: float, delta: float, rng: np.random.Generator, *, separable: int | None = None
) -> SimulatedModel:
    """A mixture in which any two classes differ by δ in at least `separable` columns (all L are used when None)."""
    if K * alpha > 1 + 1e-9:
        raise DataError(f"{K} classes of weight at least {alpha} do not fit into 1; give a smaller alpha")
    weights = np.full(K, alpha)
    weights[0] = 1 - (K - 1) * alpha
    high = np.zeros((K, L), bool)
    informative = 0
    apart = np.zeros((K, K), np.intp)
    while informative < L and (separable is None or apart[~np.eye(K, dtype=bool)].min(initial=separable) < separable):
        high[rng.permutation(K)[: K // 2], informative] = True
        apart += high[:, None, informative] != high[None, :, informative]
        informative += 1
    if separable is not None and K > 1 and apart[~np.eye(K, dtype=bool)].min() < separable:
        raise DataError(
            f"{L} columns did not separate {K} classes in {separable} columns each; give more columns "
            f"(about {2 * separable} or a little more are enough)"
        )
    P = np.full((K, L), 0.5)
    P[:, :informative] += delta * (high[:, :informative] - 0.5)
    return SimulatedModel(weights, P)


def simulated_correctness(
    cluster: Clustering,
    n: int,
    L: int,
    K: int,
    alpha: float,
    delta: float,
    epsilon: float,
    *,
    rng: np.random.Generator,
    separable: int | None = None,
    repeats: int = 100,
) -> SimulatedAnswer:
    """How often `cluster` (table → labels) is ε-correct on n rows of such a mixture, a new one in every repeat."""
    correct, oracle, separation = 0, 0, 0
    most = ceil(1 / alpha - 1e-9)
    for _ in range(repeats):
        model = separated_mixture(L, K, alpha, delta, rng, separable=separable)
        table, truth = model.draw(n, rng)
        labels = np.asarray(cluster(table), np.intp)
        correct += len(np.unique(labels)) <= most and is_correct(labels, truth, epsilon)
        oracle += is_correct(model.oracle(table), truth, epsilon)
        separation += separable_columns(model.P, delta * (1 - 1e-9))  # ½ ± δ/2 differ by δ but for rounding
    return SimulatedAnswer(correct / repeats, oracle / repeats, separation / repeats, repeats)


@dataclass(frozen=True)
class ClusterParameters:
    """Weights (κ,) and frequencies (κ, L) with their lower and upper ends; NaN where a cluster shows no value."""

    weights: Floats
    weights_low: Floats
    weights_high: Floats
    frequencies: Floats
    low: Floats
    high: Floats


def parameters_of(
    table: Table, labels: NDArray[np.integer], *, level: float = 0.95, epsilon: float = 0.0
) -> ClusterParameters:
    """P and w of the clusters that `labels` (n_rows,) names 0, 1, …; rows count with their weights."""
    mine = np.asarray(labels)[:, None] == np.arange(int(np.max(labels)) + 1)
    member = table.each_weight()[:, None] * mine  # (n, κ)
    shown = member.T @ table.present.astype(np.float64)
    ones = member.T @ np.where(table.present, table.codes, 0).astype(np.float64)
    sizes = member.sum(axis=0)
    z = standard_errors_of(level)
    proportion = sizes / sizes.sum()
    seen = np.where(shown > 0, shown, np.nan)
    impurities, lost = epsilon * sizes, epsilon * (sizes.sum() - sizes)
    weights_low, weights_high = _moved(
        proportion,
        np.full_like(proportion, sizes.sum()),
        z,
        (sizes - impurities) / sizes.sum(),
        (sizes + lost) / sizes.sum(),
    )
    gone, others = np.minimum(impurities[:, None], ones), np.minimum(lost[:, None], shown.sum(axis=0) - shown)
    zeros_gone = np.minimum(impurities[:, None], shown - ones)
    least = (ones - gone) / np.maximum(seen - gone + others, 1e-300)
    most = (ones + others) / np.maximum(seen - zeros_gone + others, 1e-300)
    low, high = _moved(ones / seen, seen, z, least, most)
    return ClusterParameters(proportion, weights_low, weights_high, ones / seen, low, high)


def _moved(proportion: Floats, n: Floats, z: float, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval, its ends moved as far as the proportion itself may be off: between `least` and `most`."""
    low, high = wilson(proportion, n, z)
    return np.maximum(low - (proportion - least), 0.0), np.minimum(high + (most - proportion), 1.0)
