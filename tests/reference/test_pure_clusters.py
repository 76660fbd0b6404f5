"""The scalable search for pure clusters against Algorithm 1 walked literally, on tiny tables.

By default 40 of the 200 cases run; TACIT_TINY_CASES=200 runs all, and `python -m tests.reference.test_pure_clusters`
prints every case in which the two differ.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from tacit.data.table import Column, Table, group_rows
from tacit.errors import DataError
from tacit.factor.pure_clusters import cluster_d_max, most_clusters, passes, pure_clusters, unit_rows
from tests.reference import pure_clusters_twin as twin
from tests.reference.test_total_correlation import binary_table

N_CASES = int(os.environ.get("TACIT_TINY_CASES", "40"))


def tiny_case(seed):
    """Rows of a mixture of one to four classes (a fifth with gaps), and d, τ, α as a user may set them."""
    rng = np.random.default_rng([5, seed])
    n, L, K = int(rng.integers(6, 11)), int(rng.integers(3, 7)), int(rng.integers(1, 5))
    P = rng.choice([0.05, 0.5, 0.95], size=(K, L)) if seed % 2 else rng.random((K, L))
    bits = (rng.random((n, L)) < P[rng.integers(K, size=n)]).astype(int)
    rows = [[None if seed % 5 == 0 and rng.random() < 0.1 else int(v) for v in row] for row in bits]
    d = int(rng.integers(2, min(L, 3) + 1))
    tau = float(rng.choice([0.02, 0.05, 0.1, 0.15, 0.2, 0.3]) * (d - 1))
    alpha = float(rng.choice([1 / 2, 1 / 3, 1 / 4]))
    return rows, d, tau, alpha


def compare(seed):
    """(agree, literal κ, found κ): agree means the same κ and, when there is one, a clustering that passes."""
    rows, d, tau, alpha = tiny_case(seed)
    kappa, _ = twin.algorithm_1(rows, d, tau, alpha)
    found = pure_clusters(binary_table(rows), d=d, tau=tau, alpha=alpha, rng=np.random.default_rng(0))
    sound = found.labels is None or twin.passes(rows, found.labels.tolist(), d, tau, alpha)
    assert sound, f"case {seed}: the clustering that was returned fails the literal test"
    return kappa == found.n_clusters, kappa, found.n_clusters


def test_same_number_as_the_literal_algorithm():
    results = [compare(seed) for seed in range(N_CASES)]
    assert sum(agree for agree, _, _ in results) >= 0.95 * N_CASES
    assert len({kappa for _, kappa, _ in results}) >= 4  # the cases are not all alike


if __name__ == "__main__":
    import sys
    import time

    begin = time.process_time()
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    outcomes = [compare(seed) for seed in range(total)]
    print("literal κ:", dict(sorted(Counter(str(kappa) for _, kappa, _ in outcomes).items())))
    print("agree:", sum(agree for agree, _, _ in outcomes), "of", total, f"in {time.process_time() - begin:.0f} s")
    for seed, (agree, kappa, other) in enumerate(outcomes):
        if not agree:
            print(f"case {seed}: literal {kappa}, search {other}", tiny_case(seed)[1:])
