"""Clusters of yes/no rows: order, threads and weights do what they should, every rule runs, files keep everything."""

from __future__ import annotations

import pickle
from typing import get_args

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentfit
from latentfit import BernoulliMixture
from latentfit.clusters import estimator as module
from latentfit.clusters.estimator import Select
from latentfit.core.errors import DataError, DataWarning, IdentifiabilityWarning
from latentfit.simulate import bernoulli_mixture

RULES = get_args(Select)


def world(n=220, columns=12, clusters=2, *, missing=0.1, copies=0, seed=0):
    """Binary rows as a frame with missing values."""
    made = bernoulli_mixture(
        n, columns, clusters, separation=40, informative=0.9, missing=missing, copies=copies, copy_probability=0.95,
        random_state=seed,
    )  # fmt: skip
    cells = np.where(made.rows < 0, np.nan, made.rows)
    return pd.DataFrame(cells, columns=[f"s{n:02d}" for n in range(columns)])


def as_dict(frame):
    """Columns of any kind of frame; what is not a number is None."""
    columns = frame.to_pydict() if isinstance(frame, pa.Table) else frame.to_dict("list")
    return {name: [None if v != v else v for v in values] for name, values in columns.items()}


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_columns_does_not_matter(seed):
    frame = world(copies=1 if seed == 1 else 0, seed=seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(frame)), rng.permutation(frame.shape[1])
    one, two = BernoulliMixture().fit(frame), BernoulliMixture().fit(frame.iloc[rows, columns])
    assert one.n_components_ == two.n_components_
    assert (one.labels_[rows] == two.labels_).all()
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-8)
    np.testing.assert_allclose(one.frequencies_[:, columns], two.frequencies_, atol=1e-8)
    assert set(one.copies_["column"]) == set(two.copies_["column"])
    np.testing.assert_allclose(one.path_.to_numpy(float), two.path_.to_numpy(float), rtol=1e-8, atol=1e-6)
    assert one.purity_["flagged"].tolist() == two.purity_["flagged"].tolist()
    np.testing.assert_allclose(one.purity_["impurity"], two.purity_["impurity"], atol=1e-6)


def test_threads_do_not_change_a_bit():
    frame = world(clusters=3, seed=3)
    models = [BernoulliMixture(n_jobs=n).fit(frame) for n in (1, 2, 4)]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].frequencies_, other.frequencies_)
        np.testing.assert_array_equal(models[0].weights_, other.weights_)
        assert models[0].log_likelihood_ == other.log_likelihood_
        assert as_dict(models[0].path_) == as_dict(other.path_)
        assert as_dict(models[0].purity_) == as_dict(other.purity_)


def test_a_seed_gives_the_same_bits_twice():
    frame = world(seed=4)
    one, two = (BernoulliMixture(random_state=7).fit(frame) for _ in range(2))
    np.testing.assert_array_equal(one.frequencies_, two.frequencies_)
    assert as_dict(one.purity_) == as_dict(two.purity_)


@pytest.mark.parametrize("number", [None, 3])
def test_a_frequency_of_w_equals_w_replicated_rows(number):
    frame = world(150, seed=5)
    times = np.random.default_rng(0).integers(1, 4, len(frame))
    weighted = BernoulliMixture(number, weight_type="frequency").fit(frame, sample_weight=times)
    copied = BernoulliMixture(number).fit(frame.loc[np.repeat(frame.index, times)])
    assert weighted.n_components_ == copied.n_components_
    assert (np.repeat(weighted.labels_, times) == copied.labels_).all()
    np.testing.assert_allclose(weighted.frequencies_, copied.frequencies_, atol=1e-8)
    np.testing.assert_allclose(weighted.weights_, copied.weights_, atol=1e-8)
    assert weighted.log_likelihood_ == pytest.approx(copied.log_likelihood_, rel=1e-10)


def test_rows_without_weight_are_absent_and_still_get_a_cluster():
    frame = world(seed=6)
    weight = np.ones(len(frame))
    weight[::5] = 0
    reported, absent = BernoulliMixture().fit(frame, sample_weight=weight), BernoulliMixture().fit(frame[weight > 0])
    np.testing.assert_allclose(reported.frequencies_, absent.frequencies_, atol=1e-10)
    assert len(reported.labels_) == len(frame)
    assert (reported.labels_ == absent.predict(frame)).all()
    assert (BernoulliMixture().fit_predict(frame, sample_weight=weight) == reported.labels_).all()


def test_the_number_may_be_given():
    frame = world(seed=7)
    for number in (1, 2, 5):
        model = BernoulliMixture(number).fit(frame)
        assert model.n_components_ == number
        assert model.frequencies_.shape == (number, 12)
        assert model.weights_.sum() == pytest.approx(1)
        assert (np.diff(model.weights_) <= 0).all()
        assert model.selection_ is None
        assert len(model.path_) >= number
    assert (BernoulliMixture(1).fit(frame).labels_ == 0).all()
    for wrong in (0, -1, len(frame) + 1):
        with pytest.raises(DataError, match=rf"n_components={wrong} clusters were asked of 220 rows; give a number"):
            BernoulliMixture(wrong).fit(frame)
    with pytest.raises(DataError, match="max_components=0 clusters"):
        BernoulliMixture(max_components=0).fit(frame)


def test_fewer_different_rows_than_clusters_are_reported():
    frame = pd.DataFrame({"a": [0, 1, 1] * 10, "b": [0, 0, 1] * 10, "c": [1, 0, 1] * 10})
    with pytest.warns(DataWarning, match="5 clusters were asked of 3 different rows, which make 3 at the most"):
        model = BernoulliMixture(5).fit(frame)
    assert model.n_components_ == 3


def test_fewer_different_rows_than_clusters_take_one_walk(monkeypatch):
    """The path ends at the rows there are; to walk it again would end there again."""
    walk, walked = module.cluster_path, []
    monkeypatch.setattr(module, "cluster_path", lambda *args, **how: walked.append(1) or walk(*args, **how))
    with pytest.warns(DataWarning, match="5 clusters were asked of 2"):
        model = BernoulliMixture(5).fit(np.tile([[0, 0, 1], [1, 1, 0]], (20, 1)))
    assert (model.n_components_, len(walked)) == (2, 1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::latentfit.core.errors.IdentifiabilityWarning")
def test_every_rule_runs(rule):
    model = BernoulliMixture(select=rule, max_components=6).fit(world(missing=0.0, seed=8))
    assert 1 <= model.n_components_ <= 6
    assert model.selection_["select"] == rule
    if rule not in ("purity", "blrt"):
        assert model.n_components_ == model.selection_["practical" if rule == "auto" else rule]
    if rule != "aic":  # which splits pure clusters by design
        assert model.n_components_ == 2
    assert any(f"chosen by {rule}" in note for note in model.report_.notes)


def test_a_rule_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="select must be one of auto, statistical"):
        BernoulliMixture(select="best").fit(world())
    with pytest.raises(DataError, match="engine of BernoulliMixture must be one of"):
        BernoulliMixture(engine="spark").fit(world())


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_predict_on_the_training_rows_is_labels(missing):
    frame = world(clusters=3, missing=missing, seed=9)
    model = BernoulliMixture().fit(frame)
    assert (model.predict(frame) == model.labels_).all()
    probabilities = model.predict_proba(frame)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    alone = np.concatenate([model.predict_proba(frame.iloc[[n]]) for n in range(20)])
    np.testing.assert_allclose(alone, probabilities[:20], rtol=1e-12)  # a row's answer does not depend on its company
    assert model.score_samples(frame).sum() == pytest.approx(model.log_likelihood_, rel=1e-9)


def test_frames_come_back_as_they_came():
    frame = world(missing=0.0, seed=10)
    model = BernoulliMixture(2)
    assert isinstance(model.fit(frame).purity_, pd.DataFrame)
    assert isinstance(model.fit(pl.from_pandas(frame)).path_, pl.DataFrame)
    assert isinstance(model.fit(pa.Table.from_pandas(frame)).copies_, pa.Table)
    assert isinstance(model.fit(frame.to_numpy()).intervals(), pa.Table)
    intervals = model.fit(frame).intervals(level=0.9)
    assert intervals.columns.tolist() == ["cluster", "column", "probability", "low", "high"]
    assert (intervals["low"] <= intervals["probability"]).all()
    assert (intervals["probability"] <= intervals["high"]).all()
    wide = model.intervals(level=0.99)
    assert (wide["high"] - wide["low"] >= intervals["high"] - intervals["low"]).all()


def test_far_apart_numbers_are_reported():
    """Two kinds far apart, each with four faint kinds inside: the evidence asks for all, the first step is all."""
    rng = np.random.default_rng(0)
    kind = rng.integers(8, size=8000)
    often = np.full((8, 42), 0.4)
    often[:4, :30], often[4:, :30] = 0.05, 0.95
    for faint in range(4):
        often[[faint, faint + 4], 30 + 3 * faint : 33 + 3 * faint] = 0.9
    cells = (rng.random((8000, 42)) < often[kind]).astype(int)
    model = BernoulliMixture(max_components=8)
    with pytest.warns(
        IdentifiabilityWarning, match="the evidence asks for .* more than 2 apart; path_ has all numbers"
    ):
        model.fit(cells)
    assert model.report_.verdict == "caution"


@pytest.mark.parametrize("copies", [0, 2])
def test_files_and_pickles_keep_everything(copies, tmp_path):
    frame = world(1_000, 16, copies=copies, seed=11)
    model = BernoulliMixture().fit(frame)
    assert len(model.copies_) == copies
    model.save(tmp_path / "m.latent")
    loaded, pickled = latentfit.load(tmp_path / "m.latent"), pickle.loads(pickle.dumps(model))
    loaded.save(tmp_path / "again.latent")
    for other in (loaded, pickled, latentfit.load(tmp_path / "again.latent")):
        np.testing.assert_array_equal(other.predict_proba(frame), model.predict_proba(frame))
        np.testing.assert_array_equal(other.frequencies_, model.frequencies_)
        np.testing.assert_array_equal(other.weights_, model.weights_)
        for name in ("purity_", "path_", "copies_"):
            assert as_dict(getattr(other, name)) == as_dict(getattr(model, name))
        assert (other.report_.verdict, other.report_.reasons) == (model.report_.verdict, model.report_.reasons)
        assert other.report_.notes == model.report_.notes
        assert other.selection_ == model.selection_
        with pytest.raises(DataError, match="keeps no rows, which intervals need; fit it again"):
            other.intervals()
    assert loaded.fit(frame).intervals() is not None  # a loaded model can be fitted anew
    assert as_dict(loaded.purity_) == as_dict(model.purity_)


def test_verbose_talks_on_stderr(capsys):
    BernoulliMixture(2, verbose=1).fit(world(80, seed=12))
    said = capsys.readouterr()
    assert said.out == ""
    assert "how many clusters: 2 clusters" in said.err
