"""Columns that do not tell clusters apart: found, reported as such, and the penalty is that of the choice."""

from __future__ import annotations

from itertools import pairwise
from math import comb, log

import numpy as np
import pandas as pd
import pytest

import latentfit
import latentfit.clusters.estimator as clusters
import latentfit.core.table.table as tables
from latentfit import BernoulliMixture, load
from latentfit.clusters.select.criteria import size_penalty, statistical_penalty
from latentfit.clusters.select.noninformative import column_gains, fit_informative
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


def test_few_informative_columns_are_found_where_all_of_them_cannot_pay() -> None:
    right, right_whole, heard, false = 0, 0, [], []
    for seed in range(10):
        data = wide_rows(seed)
        path = cluster_path(data.coded())
        right += path.numbers.chosen["statistical"] == 3
        right_whole += path.whole_number == 3
        differs = np.ptp(data.frequencies, axis=0) > 0.3
        restricted = path.preferred(3)
        informative = np.ones(120, bool) if restricted is None else restricted.informative
        heard.append(informative[differs].mean())
        false.append(informative[np.ptp(data.frequencies, axis=0) == 0].mean())
    assert right >= right_whole + 2
    assert np.mean(heard) > 0.8
    assert np.mean(false) < 0.1


def test_a_pure_table_stays_one_cluster() -> None:
    found = [
        cluster_path(bernoulli_mixture(200, 150, 1, random_state=seed).coded()).numbers.chosen["statistical"]
        for seed in range(20)
    ]
    assert found.count(1) >= 19


def test_noninformative_columns_have_no_influence_and_the_log_likelihood_is_that_of_all_columns() -> None:
    table = wide_rows(0, missing=0.1).coded()
    restricted = cluster_path(table).restricted[2]
    assert restricted is not None
    noninformative = ~restricted.informative
    assert np.array_equal(noninformative, restricted.noninformative)  # every column varies here
    assert (restricted.mixture.table[1::2][noninformative] == restricted.mixture.table[1::2][noninformative, :1]).all()
    exact = plain_steps(table, 3).e_step(restricted.mixture).log_likelihood
    assert restricted.log_likelihood == pytest.approx(exact, rel=1e-9)
    all_, _ = posterior_of(MemoryEngine(table, 1), restricted.mixture)
    some = table.without(noninformative)
    part = Mixture(
        restricted.mixture.weights, restricted.mixture.table[np.repeat(restricted.informative, 2)], some.column_offsets
    )
    alone, _ = posterior_of(MemoryEngine(some, 1), part)
    assert np.allclose(all_, alone, atol=1e-10)


def test_the_penalty_is_that_of_the_columns_and_of_their_choice() -> None:
    path = cluster_path(wide_rows(0).coded(), least=4)
    paid, already_informative, L = 0.0, 0, path.n_columns
    for number, restricted in enumerate(path.restricted[1:], start=2):
        if restricted is None:
            continue
        s = int(restricted.informative.sum())
        assert s >= already_informative
        paid += log(comb(L - already_informative, s - already_informative)) + log(L)
        already_informative = s
        penalty = (number - 1) * statistical_penalty(s) + size_penalty(restricted.mixture.weights) + paid
        assert restricted.value == pytest.approx(restricted.log_likelihood - penalty, rel=1e-12)


def test_gains_are_the_information_between_column_and_cluster() -> None:
    cells = np.random.default_rng(0).uniform(1, 9, size=(6, 3))
    joint = cells.reshape(3, 2, 3)
    n = joint.sum(axis=(1, 2))[:, None, None]
    p = joint / n
    information = (p * np.log(p / (p.sum(axis=1, keepdims=True) * p.sum(axis=2, keepdims=True)))).sum(axis=(1, 2))
    assert np.allclose(column_gains(cells), n[:, 0, 0] * information, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_tied_steps_raise_the_likelihood_and_end_where_the_informative_columns_alone_do(smoothing: float) -> None:
    table = wide_rows(1, missing=0.1).coded()
    rng = np.random.default_rng(0)
    informative = np.arange(table.n_columns) < 30
    ones = rng.uniform(0.2, 0.8, size=(table.n_columns, 3))
    cells = np.stack([1 - ones, ones], axis=1).reshape(-1, 3)
    init = Mixture(np.full(3, 1 / 3), cells, table.column_offsets)
    tied = table_steps(table, 3, smoothing, 1, tied=np.repeat(~informative, 2))
    whole = em(tied, init, max_iter=60, tol=0.0, accelerate=True)
    for before, after in pairwise(whole.path):
        assert after >= before - 1e-9 * abs(before)
    at_one = whole.params.table[1::2]
    assert (at_one[~informative] == at_one[~informative, :1]).all()
    assert (at_one[informative] != at_one[informative, :1]).any(axis=1).all()
    if smoothing == 0.0:
        part = fit_informative(table, init, informative, max_iter=2000, tol=1e-12, n_jobs=1)[1]
        far = em(tied, init, max_iter=2000, tol=1e-12, accelerate=True)
        assert part == pytest.approx(far.log_likelihood, rel=1e-6)


def test_the_estimator_names_its_noninformative_columns_and_keeps_them_in_its_file(tmp_path) -> None:
    data = wide_rows(2)
    rows = np.where(data.rows < 0, np.nan, data.rows)
    model = BernoulliMixture(3).fit(rows)
    noninformative = [int(name) for name in model.noninformative_]
    assert 60 < len(noninformative) < 120
    assert model.n_parameters() == 2 + 3 * (120 - len(noninformative)) + len(noninformative)
    assert (model.frequencies_[:, noninformative] == model.frequencies_[:1, noninformative]).all()
    changed = rows.copy()
    changed[:, noninformative] = 1 - changed[:, noninformative]
    assert np.allclose(model.predict_proba(changed), model.predict_proba(rows), atol=1e-9)
    assert any("do not (noninformative_)" in note for note in model.report_.notes)
    model.save(tmp_path / "m.latent")
    assert load(tmp_path / "m.latent").noninformative_ == model.noninformative_


def test_other_rules_keep_the_fit_to_all_columns() -> None:
    rows = bernoulli_mixture(400, 60, 2, separation=40.0, informative=0.2, random_state=3).rows
    model = BernoulliMixture(select="bic").fit(rows)
    assert model.n_components_ > 1
    assert not model.noninformative_
    assert BernoulliMixture(select="statistical").fit(rows).noninformative_


@pytest.fixture
def looked_at(monkeypatch) -> int:
    """Small tables are treated as long ones: equal rows stay apart, and the path looks at some rows."""
    monkeypatch.setattr(tables, "ALWAYS_GROUP", 0)
    monkeypatch.setattr(tables, "GROUP_AT", 0.0)
    monkeypatch.setattr(clusters, "SAMPLED_ROWS", 1_000)
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
    assert 40 not in model.noninformative_
    assert model.frequencies_[:, 40].max() > 100 * model.frequencies_[:, 40].min()


def test_a_noninformative_column_has_one_interval_and_the_others_are_as_without_it() -> None:
    data = wide_rows(2)
    model = BernoulliMixture(3).fit(data.rows)
    K, L = model.frequencies_.shape
    low, high = (np.asarray(model.intervals()[name]).reshape(K, L) for name in ("low", "high"))
    noninformative = np.isin(np.arange(L), model.noninformative_)
    assert (low[:, noninformative] == low[:1, noninformative]).all()
    proportion = data.rows[:, noninformative].mean(axis=0)
    half = (high - low)[0, noninformative] / 2
    assert np.allclose(half, 1.96 * np.sqrt(proportion * (1 - proportion) / 200), rtol=0.1, atol=0.005)
    alone = BernoulliMixture(3).fit(data.rows[:, ~noninformative])
    if not alone.noninformative_:
        part = np.asarray(alone.intervals()["high"]).reshape(K, -1)
        assert np.abs(part - high[:, ~noninformative]).max() < 0.05


def test_columns_in_another_order_are_noninformative_by_the_same_names() -> None:
    rows = wide_rows(2).rows
    order = np.random.default_rng(0).permutation(120)
    names = np.array([f"q{n:03d}" for n in range(120)])
    one = BernoulliMixture(3).fit(pd.DataFrame(rows, columns=names))
    two = BernoulliMixture(3).fit(pd.DataFrame(rows[:, order], columns=names[order]))
    assert one.noninformative_
    assert set(one.noninformative_) == set(two.noninformative_)


def test_a_stopped_fit_goes_on_with_the_same_noninformative_columns(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "SPARING", 0.0)
    rows, settings = wide_rows(2).rows, {"tol": 0.0, "max_iter": 20}
    path = tmp_path / "kept.latent"
    with pytest.raises(KeyboardInterrupt):
        stopping(BernoulliMixture, lambda step: step.n_iter >= 7)(3, **settings).fit(rows, checkpoint=path)
    assert path.exists()
    again = BernoulliMixture(3, **settings).fit(rows, checkpoint=path, resume=True)
    whole = BernoulliMixture(3, **settings).fit(rows)
    assert whole.noninformative_
    assert again.noninformative_ == whole.noninformative_
    assert again._mixture.table.tobytes() == whole._mixture.table.tobytes()


@pytest.mark.usefixtures("looked_at")
def test_a_stream_keeps_the_same_columns_noninformative(tmp_path) -> None:
    data = wide_rows(2)
    frame = pd.DataFrame(data.rows, columns=[f"q{n:03d}" for n in range(120)])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    models = [
        BernoulliMixture(3, engine=engine).fit(latentfit.scan(tmp_path / "rows.csv")) for engine in ("memory", "stream")
    ]
    assert models[0].noninformative_
    assert models[0].noninformative_ == models[1].noninformative_
    assert models[0]._mixture.table.tobytes() == models[1]._mixture.table.tobytes()
