"""Columns that do not tell clusters apart: found, silent in the answer, charged for as chosen."""

from __future__ import annotations

from itertools import pairwise
from math import comb, log

import numpy as np
import pandas as pd
import pytest

import latentfit
import latentfit.clusters.estimator.bernoulli_mixture as clusters
import latentfit.core.table.table as tables
from latentfit import BernoulliMixture, load
from latentfit.clusters.select.criteria import size_charge, statistical_charge
from latentfit.clusters.select.noninformative import column_gains, fit_speaking
from latentfit.clusters.select.path import cluster_path
from latentfit.core import checkpoint
from latentfit.core.em import em
from latentfit.core.mixture.em import plain_steps, table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.simulate import bernoulli_mixture
from tests.fits import stopping

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
        quiet = path.preferred(3)
        speaking = np.ones(120, bool) if quiet is None else quiet.speaking
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
    assert np.array_equal(silent, quiet.silent)  # every column varies here
    assert (quiet.mixture.table[1::2][silent] == quiet.mixture.table[1::2][silent, :1]).all()
    exact = plain_steps(table, 3).e_step(quiet.mixture).log_likelihood
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
        charge = (number - 1) * statistical_charge(s) + size_charge(quiet.mixture.weights) + paid
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
    at_one = whole.params.table[1::2]
    assert (at_one[~speaking] == at_one[~speaking, :1]).all()
    assert (at_one[speaking] != at_one[speaking, :1]).any(axis=1).all()
    if smoothing == 0.0:
        part = fit_speaking(table, start, speaking, max_iter=2000, tol=1e-12, n_jobs=1)[1]
        far = em(tied, start, max_iter=2000, tol=1e-12, accelerate=True)
        assert part == pytest.approx(far.log_likelihood, rel=1e-6)


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
    model.save(tmp_path / "m.latent")
    assert load(tmp_path / "m.latent").silent_ == model.silent_


def test_other_rules_keep_the_fit_to_all_columns() -> None:
    rows = bernoulli_mixture(400, 60, 2, separation=40.0, informative=0.2, random_state=3).rows
    model = BernoulliMixture(select="bic").fit(rows)
    assert model.n_components_ > 1
    assert not model.silent_
    assert BernoulliMixture(select="statistical").fit(rows).silent_


@pytest.fixture
def looked_at(monkeypatch) -> int:
    """Small tables are treated as long ones: equal rows stay apart, and the path looks at some rows."""
    monkeypatch.setattr(tables, "ALWAYS_GROUP", 0)
    monkeypatch.setattr(tables, "GROUP_AT", 0.0)
    monkeypatch.setattr(clusters, "SHOWN_ROWS", 1_000)
    return 1_000


def test_a_long_pure_table_of_which_some_rows_are_looked_at_stays_one_cluster(looked_at) -> None:
    found = []
    for seed in range(5):
        model = BernoulliMixture(max_components=3).fit(bernoulli_mixture(8_000, 60, 1, random_state=seed).rows)
        assert model._table.n_rows == looked_at
        assert model._stands_for * model._table.total_weight == pytest.approx(8_000)  # each stands for eight
        found.append(model._numbers.chosen["statistical"])
    assert found.count(1) >= 4


@pytest.mark.parametrize("select", ["statistical", "bic"])
@pytest.mark.usefixtures("looked_at")
def test_a_column_that_never_varies_in_the_rows_looked_at_is_free_in_the_fit(select) -> None:
    data = bernoulli_mixture(8_000, 40, 2, separation=60.0, random_state=0)
    rare = np.zeros(8_000, np.int8)
    rare[np.flatnonzero(data.clusters == 1)[:6]] = 1
    model = BernoulliMixture(select=select).fit(np.column_stack([data.rows, rare]))
    assert model.n_components_ == 2
    assert 40 not in model.silent_
    assert model.frequencies_[:, 40].max() > 100 * model.frequencies_[:, 40].min()


def test_a_silent_column_has_one_interval_and_the_others_are_as_without_it() -> None:
    data = wide_rows(2)
    model = BernoulliMixture(3).fit(data.rows)
    K, L = model.frequencies_.shape
    low, high = (np.asarray(model.intervals()[name]).reshape(K, L) for name in ("low", "high"))
    silent = np.isin(np.arange(L), model.silent_)
    assert (low[:, silent] == low[:1, silent]).all()
    share = data.rows[:, silent].mean(axis=0)
    half = (high - low)[0, silent] / 2
    assert np.allclose(half, 1.96 * np.sqrt(share * (1 - share) / 200), rtol=0.1, atol=0.005)
    alone = BernoulliMixture(3).fit(data.rows[:, ~silent])
    if not alone.silent_:
        part = np.asarray(alone.intervals()["high"]).reshape(K, -1)
        assert np.abs(part - high[:, ~silent]).max() < 0.05


def test_columns_in_another_order_are_silent_by_the_same_names() -> None:
    rows = wide_rows(2).rows
    order = np.random.default_rng(0).permutation(120)
    names = np.array([f"q{n:03d}" for n in range(120)])
    one = BernoulliMixture(3).fit(pd.DataFrame(rows, columns=names))
    two = BernoulliMixture(3).fit(pd.DataFrame(rows[:, order], columns=names[order]))
    assert one.silent_
    assert set(one.silent_) == set(two.silent_)


def test_a_stopped_fit_goes_on_with_the_same_silent_columns(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "SPARING", 0.0)
    rows, settings = wide_rows(2).rows, {"tol": 0.0, "max_iter": 20}
    path = tmp_path / "kept.latent"
    with pytest.raises(KeyboardInterrupt):
        stopping(BernoulliMixture, lambda step: step.n_iter >= 7)(3, **settings).fit(rows, checkpoint=path)
    assert path.exists()
    again = BernoulliMixture(3, **settings).fit(rows, checkpoint=path, resume=True)
    whole = BernoulliMixture(3, **settings).fit(rows)
    assert whole.silent_
    assert again.silent_ == whole.silent_
    assert again._mixture.table.tobytes() == whole._mixture.table.tobytes()


@pytest.mark.usefixtures("looked_at")
def test_a_stream_keeps_the_same_columns_silent(tmp_path) -> None:
    data = wide_rows(2)
    frame = pd.DataFrame(data.rows, columns=[f"q{n:03d}" for n in range(120)])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    models = [
        BernoulliMixture(3, engine=engine).fit(latentfit.scan(tmp_path / "rows.csv")) for engine in ("memory", "stream")
    ]
    assert models[0].silent_
    assert models[0].silent_ == models[1].silent_
    assert models[0]._mixture.table.tobytes() == models[1]._mixture.table.tobytes()
