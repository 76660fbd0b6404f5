"""Starts of tables: the order of rows, columns and categories does not matter, nor threads; EM never falls."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from latentfit import LatentClass
from latentfit.core.em import em
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.init import (
    draw_sample,
    merge_down,
    merged_inits,
    moment_inits,
    naive_spa,
    pair_frequencies,
    random_init,
    spa_init,
)
from latentfit.core.mixture.spa import factor_spa, naive_split, pair_log_likelihood
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.table.input import read_table


def made(seed: int, n_rows: int = 300, missing: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hidden = rng.integers(3, size=n_rows)
    words = np.array(list("pqrst"), object)
    columns = {}
    for n in range(6):
        profile = rng.dirichlet(np.full(2 + n % 4, 0.5), size=3).cumsum(axis=1)
        codes = np.minimum((profile[hidden] < rng.random(n_rows)[:, None]).sum(axis=1), 1 + n % 4)
        columns[f"c{n}"] = np.where(rng.random(n_rows) < missing, None, words[codes])
    return pd.DataFrame(columns)


def profile_of(model: LatentClass, column: str) -> pd.DataFrame:
    at = list(model.feature_names_in_).index(column)
    return pd.DataFrame(model.profiles_[at], columns=model.categories_[at]).sort_index(axis=1)


@pytest.mark.parametrize("init", ["auto", "spa", "spa-naive", "ctd", "random"])
def test_permuted_rows_columns_and_categories(init: str) -> None:
    frame = made(0)
    rng = np.random.default_rng(1)
    plain = LatentClass(3, init=init).fit(frame)
    mixed = frame.iloc[rng.permutation(len(frame))][list(rng.permutation(frame.columns))]
    mixed["c3"] = pd.Categorical(mixed["c3"], categories=list("tsrqp")[0:5], ordered=True)
    other = LatentClass(3, init=init).fit(mixed)
    assert np.allclose(plain.weights_, other.weights_, atol=1e-8)
    for column in frame.columns:
        left, right = profile_of(plain, column), profile_of(other, column)
        assert np.allclose(left, right[left.columns], atol=1e-8)


def test_neither_names_nor_order_of_columns_decide_the_naive_split(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, found = made(3), []

    def init(sample, counts, n_components, split, rng):  # type: ignore[no-untyped-def]
        found.append({str(column.name) for column, left in zip(sample.table.columns, split, strict=True) if left})

    monkeypatch.setattr("latentfit.core.mixture.init.spa_init", init)
    renamed = {f"c{n}": f"x{9 - n}" for n in range(6)}
    for one in (frame, frame[frame.columns[::-1]], frame.rename(columns=renamed)):
        sample = draw_sample(read_table(one), 1000, 0)
        naive_spa(sample, sample.pairs, 3, np.random.default_rng(0))
    assert found[0] == found[1]
    assert found[2] == {renamed[name] for name in found[0]}


def test_same_bits_for_one_and_two_threads() -> None:
    frame = made(2, 2_000)
    one, two = (LatentClass(4, n_jobs=jobs).fit(frame) for jobs in (1, 2))
    assert np.array_equal(one.weights_, two.weights_)
    assert all(np.array_equal(a, b) for a, b in zip(one.profiles_, two.profiles_, strict=True))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_accelerated_em_rises_at_every_step(seed: int, smoothing: float) -> None:
    table = read_table(made(seed))
    steps = table_steps(table, 4, smoothing, 1)
    init = random_init(table, 4, np.random.default_rng(seed))
    fast = em(steps, init, max_iter=1_000, tol=1e-8, accelerate=True)
    slow = em(steps, init, max_iter=1_000, tol=1e-8)
    for run in (fast, slow):
        assert np.diff(run.path).min() >= -1e-9 * abs(run.objective)
        again = steps.e_step(run.params)
        assert steps.objective(run.params, again) == pytest.approx(run.objective, rel=1e-12)
    short = em(steps, init, max_iter=3, tol=1e-8, accelerate=True)
    assert not short.converged
    assert short.n_iter == 3


def test_going_on_is_climbing_at_once() -> None:
    """An EM run cut in rounds of whole extrapolations ends where an uncut one ends."""
    table = read_table(made(3))
    steps = table_steps(table, 3, 1.0, 1)
    init = random_init(table, 3, np.random.default_rng(0))
    cut = successive_halving(
        [Candidate("one", steps, init)], rounds=(4, 4), max_iter=40, tol=0.0, accelerate=True
    ).refined
    whole = em(steps, init, max_iter=40, tol=0.0, accelerate=True)
    assert cut.n_iter == whole.n_iter == 40
    assert cut.path == whole.path


def test_halving_keeps_an_initialisation_as_good_as_its_best_member() -> None:
    table = read_table(made(4))
    sample = draw_sample(table, 20_000, 0)
    steps = table_steps(sample.table, 3, 1.0, 1)
    rng = np.random.default_rng(0)
    inits = [*moment_inits(sample, 3, rng), *merged_inits(sample, 3, rng, 1)]
    candidates = [Candidate(name, steps, init) for name, init in inits]
    kept = successive_halving(candidates, rounds=(4, 4, 8), max_iter=500, tol=1e-7, accelerate=True)
    assert set(kept.scores) == {candidate.name for candidate in candidates}
    best = max(em(steps, e.start, max_iter=500, tol=1e-7, accelerate=True).objective for e in candidates)
    assert (best - kept.refined.objective) / table.total_weight < 0.01


def test_quick_spa_is_near_the_exact_one_on_exact_moments() -> None:
    rng = np.random.default_rng(0)
    truth = random_init(read_table(made(5, missing=0.0)), 2, rng)
    counts = (truth.table * truth.weights) @ truth.table.T
    split = naive_split(6, 3)
    frequencies = pair_frequencies(counts, truth.column_offsets)
    exact, quick = (factor_spa(frequencies, truth.column_offsets, 2, split, exact=e) for e in (True, False))
    assert np.isfinite(pair_log_likelihood(counts, exact))
    assert np.allclose(exact.table, quick.table, atol=0.2)
    sample = draw_sample(read_table(made(5)), 20_000, 0)
    init = spa_init(sample, sample.pairs, 20, naive_split(6, 3), rng)  # more classes than the moments can give
    assert init.n_classes == 20
    assert (init.table > 0).all()


def test_merging_down_takes_the_cheapest_pair_each_time() -> None:
    """Against a literal twin: the likelihood of rows that know their class, tried for every pair."""
    rng = np.random.default_rng(0)
    offsets = np.array([0, 2, 5, 9], np.int32)
    weights = rng.integers(5, 40, size=6).astype(float)
    counts = np.concatenate([rng.dirichlet(np.ones(size), size=6).T * weights for size in np.diff(offsets)])

    def known(groups: list[list[int]]) -> float:
        total = 0.0
        for group in groups:
            n = weights[group].sum()
            total += n * np.log(n)
            for a, b in pairwise(offsets):
                cells = counts[a:b, group].sum(axis=1)
                total += (cells * np.log(cells / n)).sum()
        return total

    groups = [[g] for g in range(6)]
    while len(groups) > 3:
        options = [(i, j) for i in range(len(groups)) for j in range(i + 1, len(groups))]
        unions = {
            (i, j): [*(g for k, g in enumerate(groups) if k not in (i, j)), groups[i] + groups[j]] for i, j in options
        }
        groups = unions[max(options, key=lambda pair: known(unions[pair]))]
    merged, totals = merge_down(counts, weights, offsets, 3)
    expected = sorted(weights[group].sum() for group in groups)
    assert np.allclose(sorted(totals), expected)
    assert np.allclose(sorted(merged[0]), sorted(counts[0, group].sum() for group in groups))
