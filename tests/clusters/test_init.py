"""The scalable search for pure clusters against Algorithm 1 walked literally, on tiny tables.

By default 25 of the 200 cases run; LATENTFIT_TINY_CASES=200 runs all, and `python -m
tests.clusters.test_init` prints every case in which the two differ.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from latentfit.clusters.init import cluster_d_max, most_clusters, passes, pure_clusters, unit_rows
from latentfit.core.errors import DataError
from latentfit.core.table.table import Column, Table, group_rows
from tests.clusters import reference as twin
from tests.clusters.test_moments import binary_table

N_CASES = int(os.environ.get("LATENTFIT_TINY_CASES", "25"))


def tiny_case(seed):
    """Rows of a mixture of one to four classes (a fifth with missing values), and d, τ, α as a user may set them."""
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


@pytest.mark.slow
def test_same_number_as_the_literal_algorithm():
    results = [compare(seed) for seed in range(N_CASES)]
    assert sum(agree for agree, _, _ in results) >= 0.95 * N_CASES
    assert len({kappa for _, kappa, _ in results}) >= 4  # the cases are not all alike


def search(rows, **settings):
    table = rows if isinstance(rows, Table) else binary_table(rows)
    return pure_clusters(table, **{"d": 2, "tau": 0.05, "alpha": 0.5, "rng": np.random.default_rng(0)} | settings)


COPIES = [[0, 0, 0]] * 4 + [[1, 1, 1]] * 4


def test_by_hand():
    found = search(COPIES)
    assert found.n_clusters == 2
    assert found.labels.tolist() == [0] * 4 + [1] * 4
    assert found.d_max.tolist() == [0, 0]
    assert found.exact
    # three pairs of columns, D = log 2 each
    assert found.excess == pytest.approx((3 * (np.log(2) - 0.05), 0), abs=1e-6)
    assert search(COPIES, tau=0.7).n_clusters == 1  # log 2 is allowed
    assert search([[0, 0], [0, 1], [1, 0], [1, 1]]).n_clusters == 1
    assert search(COPIES, d=1, tau=0).n_clusters == 1  # one column depends on nothing


def test_alpha_bounds_number_and_sizes():
    assert [most_clusters(alpha) for alpha in (1, 0.5, 0.4, 1 / 3, 0.1)] == [1, 2, 3, 3, 10]
    null = search(COPIES, alpha=1.0)  # the paper's loop would not even run; here one cluster is tried
    assert null.labels is None
    assert null.n_clusters is None
    assert null.d_max is None
    assert not null.exact
    lone = [[0, 0, 0]] * 7 + [[1, 1, 1]]  # the last row alone is below αn/2 = 2
    assert search(lone).labels is None
    assert search(lone, alpha=0.25).n_clusters == 2


def test_grouped_rows_and_weights_are_rows():
    table = group_rows(binary_table(COPIES + COPIES[::-1]))
    assert table.n_rows == 2
    found = search(table)
    assert found.n_clusters == 2
    assert found.labels.tolist() == [0] * 4 + [1] * 8 + [0] * 4  # in the order the rows came in
    weighted = binary_table([[0, 0, 0], [1, 1, 1]], [4, 4])
    assert unit_rows(weighted)[1].tolist() == [0] * 4 + [1] * 4
    assert search(weighted).labels.tolist() == [0] * 4 + [1] * 4
    fractions = binary_table([[0, 0, 0], [1, 1, 1]], [1.5, 2.5])
    assert search(fractions).labels.tolist() == [0, 1]


def test_missing_values_are_left_out_of_their_subsets():
    rows = [[0, 0, None], [0, None, 0], [None, 0, 0], [0, 0, 0], [1, 1, None], [1, None, 1], [None, 1, 1], [1, 1, 1]]
    found = search(rows)
    assert found.n_clusters == 2
    assert twin.passes(rows, found.labels.tolist(), 2, 0.05, 0.5)


def test_more_subsets_than_are_watched():
    """Fifteen columns have 105 pairs: only outstanding ones are watched, and the answer passes the full test."""
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1], 60)
    codes = (rng.random((120, 15)) < np.array([0.1, 0.9])[truth][:, None]).astype(np.uint8)
    table = Table(codes, tuple(Column(n, np.array([0, 1])) for n in range(15)))
    for d, tau in ((2, 0.12), (3, 0.25)):
        found = search(table, d=d, tau=tau)
        assert found.n_clusters == 2
        assert found.exact
        d_max, _ = cluster_d_max(table, found.labels, d)
        np.testing.assert_allclose(found.d_max, d_max, atol=1e-12)
        assert passes(table, found.labels, d_max, tau, 0.5)
        assert (found.labels == truth).mean() > 0.95 or (found.labels != truth).mean() > 0.95


def test_same_seed_same_answer():
    rows, d, tau, alpha = tiny_case(7)
    first, second = (search(rows, d=d, tau=tau, alpha=alpha) for _ in range(2))
    assert first.excess == second.excess
    np.testing.assert_array_equal(first.labels, second.labels)


def test_refusals():
    with pytest.raises(DataError, match="alpha is 0"):
        search(COPIES, alpha=0)
    with pytest.raises(DataError, match="d is 4 and the table has 3 columns"):
        search(COPIES, d=4)
    with pytest.raises(DataError, match="no rows"):
        search(binary_table(COPIES).take(np.zeros(8, bool)))


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
