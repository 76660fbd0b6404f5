"""Columns that do not tell clusters apart: found, silent in the answer, charged for as chosen."""

from __future__ import annotations

from itertools import pairwise
from math import comb, log

import numpy as np
import pytest

from tacit import BernoulliMixture, load
from tacit.engine.memory import MemoryEngine, posterior_of
from tacit.engine.mixture import Mixture
from tacit.refine.choose_clusters import statistical_charge
from tacit.refine.cluster_path import cluster_path
from tacit.refine.em import em
from tacit.refine.silent_columns import column_gains, fit_speaking, silent_columns
from tacit.refine.table_prior import plain_steps, table_steps
from tacit.simulate import bernoulli_mixture

WIDE = {"n_columns": 120, "n_clusters": 3, "separation": 16.0, "informative": 0.1}


def wide_rows(seed: int, missing: float = 0.0):
    return bernoulli_mixture(200, **WIDE, missing=missing, random_state=seed)


def test_few_speaking_columns_are_found_where_all_of_them_cannot_pay() -> None:
    right, right_whole, heard, false = 0, 0, [], []
    for seed in range(10):
        data = wide_rows(seed)
        path = cluster_path(data.coded())
        right += path.numbers.chosen["statistical"] == 3
        right_whole += path.whole_number == 3
        differs = np.ptp(data.frequencies, axis=0) > 0.3
        speaking = ~silent_columns(path.best(3))
        heard.append(speaking[differs].mean())
        false.append(speaking[np.ptp(data.frequencies, axis=0) == 0].mean())
    assert right >= right_whole + 2
    assert np.mean(heard) > 0.8
    assert np.mean(false) < 0.1


def test_a_pure_table_stays_one_cluster() -> None:
    found = [
        cluster_path(bernoulli_mixture(200, 150, 1, random_state=seed).coded()).numbers.chosen["statistical"]
        for seed in range(20)
    ]
    assert found.count(1) >= 19


def test_silent_columns_have_no_say_and_the_log_likelihood_is_that_of_all_columns() -> None:
    table = wide_rows(0, missing=0.1).coded()
    quiet = cluster_path(table).quiet[2]
    assert quiet is not None
    silent = ~quiet.speaking
    assert np.array_equal(silent, silent_columns(quiet.mixture))
    exact = plain_steps(table, 3).expect(quiet.mixture).log_likelihood
    assert quiet.log_likelihood == pytest.approx(exact, rel=1e-9)
    all_, _ = posterior_of(MemoryEngine(table, 1), quiet.mixture)
    some = table.without(silent)
    part = Mixture(quiet.mixture.weights, quiet.mixture.table[np.repeat(quiet.speaking, 2)], some.first)
    alone, _ = posterior_of(MemoryEngine(some, 1), part)
    assert np.allclose(all_, alone, atol=1e-10)


def test_the_charge_is_that_of_the_columns_and_of_their_choice() -> None:
    path = cluster_path(wide_rows(0).coded(), least=4)
    paid, spoke, L = 0.0, 0, path.n_columns
    for number, quiet in enumerate(path.quiet[1:], start=2):
        if quiet is None:
            continue
        s = int(quiet.speaking.sum())
        assert s >= spoke
        paid += log(comb(L - spoke, s - spoke)) + log(L)
        spoke = s
        charge = (number - 1) * statistical_charge(s) + paid
        assert quiet.value == pytest.approx(quiet.log_likelihood - charge, rel=1e-12)


def test_gains_are_the_information_between_column_and_cluster() -> None:
    cells = np.random.default_rng(0).uniform(1, 9, size=(6, 3))
    joint = cells.reshape(3, 2, 3)
    n = joint.sum(axis=(1, 2))[:, None, None]
    p = joint / n
    information = (p * np.log(p / (p.sum(axis=1, keepdims=True) * p.sum(axis=2, keepdims=True)))).sum(axis=(1, 2))
    assert np.allclose(column_gains(cells), n[:, 0, 0] * information, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_tied_steps_climb_and_end_where_the_speaking_columns_alone_do(smoothing: float) -> None:
    table = wide_rows(1, missing=0.1).coded()
    rng = np.random.default_rng(0)
    speaking = np.arange(table.n_columns) < 30
    ones = rng.uniform(0.2, 0.8, size=(table.n_columns, 3))
    cells = np.stack([1 - ones, ones], axis=1).reshape(-1, 3)
    start = Mixture(np.full(3, 1 / 3), cells, table.first)
    tied = table_steps(table, 3, smoothing, 1, tied=np.repeat(~speaking, 2))
    whole = em(tied, start, max_iter=60, tol=0.0, accelerate=True)
    for before, after in pairwise(whole.path):
        assert after >= before - 1e-9 * abs(before)
    assert silent_columns(whole.params)[~speaking].all()
    if smoothing == 0.0:
        part = fit_speaking(table, start, speaking, 0.0, max_iter=2000, tol=1e-12, n_jobs=1)
        far = em(tied, start, max_iter=2000, tol=1e-12, accelerate=True)
        assert part.log_likelihood == pytest.approx(far.log_likelihood, rel=1e-6)


def test_the_estimator_names_its_silent_columns_and_keeps_them_in_its_file(tmp_path) -> None:
    data = wide_rows(2)
    rows = np.where(data.rows < 0, np.nan, data.rows)
    model = BernoulliMixture(3).fit(rows)
    silent = [int(name) for name in model.silent_]
    assert 60 < len(silent) < 120
    assert model.n_parameters() == 2 + 3 * (120 - len(silent)) + len(silent)
    assert (model.frequencies_[:, silent] == model.frequencies_[:1, silent]).all()
    changed = rows.copy()
    changed[:, silent] = 1 - changed[:, silent]
    assert np.allclose(model.predict_proba(changed), model.predict_proba(rows), atol=1e-9)
    assert any("do not (silent_)" in note for note in model.report_.notes)
    model.save(tmp_path / "m.tacit")
    assert load(tmp_path / "m.tacit").silent_ == model.silent_


def test_other_rules_keep_the_fit_to_all_columns() -> None:
    rows = wide_rows(3).rows
    model = BernoulliMixture(select="bic").fit(rows)
    assert not model.silent_
