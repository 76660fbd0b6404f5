"""What the clustering paper asks for, next to what is enough in simulation (docs/guide/clusters/theory.md).

    python benchmarks/cluster_theory.py [--repeats 200]

"Enough" is the smallest size on a grid at which at least 95 % of the repeats succeed (ζ = .05).
"""

# ruff: noqa: N803, N806 - the paper's letters
from __future__ import annotations

import argparse
from math import ceil, log

import harness  # noqa: F401 - puts the reproductions on the path
import numpy as np

from latentfit import LatentClass
from latentfit.clusters import theory as theorems
from latentfit.clusters.moments import total_correlation
from reproduction.clusters_theory import SimulatedModel, simulated_correctness

ZETA = 0.05
COLUMNS = (3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
ROWS = (10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 900, 1280, 1800, 2560)


def known_number(K):
    """The plug-in clustering: a fitted mixture with the right number of classes, rows to their likeliest one."""
    return lambda table: LatentClass(n_components=K, random_state=0).fit(table.codes).predict(table.codes)


def enough_columns(K, alpha, delta, epsilon, repeats):
    """Smallest L on the grid at which even the known truth gives an ε-correct clustering, at n = 1000."""
    for L in COLUMNS:
        found = simulated_correctness(
            lambda table: np.zeros(table.n_rows, int), 1000, L, K, alpha, delta, epsilon,
            rng=np.random.default_rng(L), repeats=repeats,
        )  # fmt: skip
        if found.oracle >= 1 - ZETA:
            return L
    raise SystemExit("the grid of columns is too short")


def enough_rows(K, L, alpha, delta, epsilon, repeats):
    for n in ROWS:
        if n < 2 / alpha:
            continue
        found = simulated_correctness(
            known_number(K), n, L, K, alpha, delta, epsilon, rng=np.random.default_rng(n), repeats=repeats
        )
        if found.correct >= 1 - ZETA:
            return n, found
    raise SystemExit("the grid of rows is too short")


def theorem_table(repeats):
    print("| K | α | δ | ε | d | 𝓛 asked | n asked | enough: L (𝓛) | enough: n | correct there |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for K, delta, epsilon in (
        (2, 0.9, 0.1), (2, 0.6, 0.1), (2, 0.4, 0.1), (3, 0.6, 0.1), (5, 0.6, 0.1), (5, 0.4, 0.1), (2, 0.6, 0.02),
    ):  # fmt: skip
        alpha = 1 / K
        asked = theorems.needed(alpha, delta, epsilon, ZETA)
        L = enough_columns(K, alpha, delta, epsilon, repeats)
        L = ceil(1.25 * L)  # a little room: at the very edge of what is possible no number of rows is enough
        n, found = enough_rows(K, L, alpha, delta, epsilon, repeats)
        print(
            f"| {K} | {alpha:.2g} | {delta} | {epsilon} | {asked['d']} | 10^{asked['log10_separable']:.1f} "
            f"| 10^{asked['log10_n']:.1f} | {L} ({found.separable:.0f}) | {n} | {found.correct:.3f} |",
            flush=True,
        )


def first_n(success, rows):
    return next((n for n in rows if success(n)), None)


def lemma_table(repeats):
    """K = 2, δ = .9, ε = .1: d = 6 and τ = .2, the smallest test the paper allows here."""
    K, delta, epsilon = 2, 0.9, 0.1
    d = ceil(theorems.sub_dimension(K, delta, epsilon))
    tau = theorems.threshold(K, epsilon)
    print(f"\nd = {d}, τ = {tau:.3f}\n\n| | n asked for a bound of .05 | enough |\n|---|---|---|")
    need = log(2 ** (d + 1) / ZETA) * 2 ** (d + 1) / tau**2
    impure = SimulatedModel(np.array([1 - epsilon, epsilon]), np.array([[0.05] * d, [0.95] * d]))
    pure = SimulatedModel(np.array([1.0]), np.full((1, d), 0.5))

    def share(model, n, above):
        rng = np.random.default_rng(n)
        values = np.array([total_correlation(model.draw(n, rng)[0], range(d)) for _ in range(repeats)])
        return float((values >= tau).mean() if above else (values <= tau).mean())

    rows = range(4, 400, 4)
    print(f"| Lemma 4.1, P(D ≤ τ) of an impure cluster | {need * d**4:.3g} "
          f"| {first_n(lambda n: share(impure, n, False) <= ZETA, rows)} |")  # fmt: skip
    print(f"| Lemma 4.2, P(D ≥ τ) of a pure cluster | {need * d**2:.3g} "
          f"| {first_n(lambda n: share(pure, n, True) <= ZETA, rows)} |")  # fmt: skip
    for K, alpha in ((2, 0.5), (5, 0.2)):

        def small(n, K=K, alpha=alpha):
            sizes = np.random.default_rng(n).multinomial(n, np.full(K, 1 / K), size=20_000)
            return (sizes.min(axis=1) < alpha * n / 2).mean() <= ZETA / 3

        asked = ceil(2 / alpha**2 * log(3 * K / ZETA))
        # sizes are whole, so small n pass and fail in turn: the n from which all pass
        enough = max((n for n in range(2, asked) if not small(n)), default=1) + 1
        print(f"| Lemma A.3, α = {alpha}, K = {K}, at most ζ/3 | {asked} | {enough} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    given = parser.parse_args()
    lemma_table(given.repeats)
    print()
    theorem_table(given.repeats)
