"""Sampling weights change estimates, never the sample size; frequencies count equal rows; samples keep their scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import latentfit
import latentfit.core.table.table as table_module
import latentfit.tables.estimator.latent_class as latent_class
from latentfit import BernoulliMixture, LatentClass, LatentClassClassifier
from latentfit.core.errors import DataError
from latentfit.core.table.input import read_table
from latentfit.core.table.replicates import self_weighting
from latentfit.core.table.weights import scale_of

CONSTANTS = [1e-6, 1 / 7, 1000.0, 2e7, 1e300, 1e-300]


def answers(n_rows=400, seed=1, n_columns=6):
    rng = np.random.default_rng(seed)
    kind = (rng.random(n_rows) < 0.4).astype(int)
    probability = np.array([[0.85] * n_columns, [0.2] * n_columns])
    frame = pd.DataFrame((rng.random((n_rows, n_columns)) < probability[kind]).astype(int))
    return frame.rename(columns=lambda n: f"q{n}")


def uneven(n_rows=400, seed=2):
    return np.random.default_rng(seed).lognormal(0, 1, n_rows)


def kish(weight):
    return weight.sum() ** 2 / np.square(weight).sum()


# ------------------------------------------------------------------- scale


def test_sampling_weights_add_up_to_kishs_number_whatever_their_unit():
    frame, weight = answers(), uneven()
    for c in CONSTANTS:
        table = read_table(frame, sample_weight=c * weight)
        assert table.total_weight == pytest.approx(kish(weight), rel=1e-12)
        assert table.n_observations == 400
    table = read_table(frame, sample_weight=weight, group=False)
    np.testing.assert_allclose(table.row_weight, weight * weight.sum() / np.square(weight).sum(), rtol=1e-12)


def test_the_scale_depends_neither_on_blocks_nor_on_the_order_of_rows():
    weight = uneven(5000)
    whole = scale_of([weight], weight.max())
    order = np.random.default_rng(0).permutation(5000)
    assert scale_of([weight[order]], weight.max()) == whole
    assert scale_of(np.array_split(weight, 7), weight.max()) == whole


def test_weights_at_both_ends_of_the_floats_are_weights():
    frame = answers(60)
    weight = np.where(np.arange(60) < 30, 1e308, 1e-308)
    for engine in ("memory", "stream"):
        model = LatentClass(2, engine=engine).fit(frame, sample_weight=weight)
        assert model._table.total_weight == pytest.approx(30)
        assert np.isfinite(model.weights_).all()


# ------------------------------------------- a constant changes nothing


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("select", ["heldout", "bic"])
def test_latent_classes_of_multiplied_weights_are_the_same(select):
    frame, weight = answers(), uneven()
    first = LatentClass(select=select).fit(frame, sample_weight=weight)
    for c in CONSTANTS:
        other = LatentClass(select=select).fit(frame, sample_weight=c * weight)
        assert other.n_components_ == first.n_components_
        np.testing.assert_allclose(other.weights_, first.weights_, atol=1e-6)
        assert other.log_likelihood_ == pytest.approx(first.log_likelihood_, rel=1e-7)
        assert other.report_.verdict == first.report_.verdict
        assert other.report_.notes == first.report_.notes


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_evidence_of_multiplied_weights_is_the_same():
    frame, weight = answers(), uneven()
    models = [LatentClass(2).fit(frame, sample_weight=c * weight) for c in (1.0, *CONSTANTS)]
    indices = [model.fit_indices() for model in models]
    spread = [np.asarray(model.bootstrap(n_draws=20).weights["se"]) for model in models]
    tests = [model.ratio_test(n_draws=9).statistic for model in models]
    for at in range(1, len(models)):
        assert indices[at] == pytest.approx(indices[0], rel=1e-6)
        np.testing.assert_allclose(spread[at], spread[0], rtol=1e-4)
        assert tests[at] == pytest.approx(tests[0], rel=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_and_classifiers_of_multiplied_weights_are_the_same():
    frame, weight = answers(300, n_columns=9), uneven(300)
    label = np.where(frame["q0"] + frame["q1"] > 1, "yes", "no")
    clusters = [BernoulliMixture().fit(frame, sample_weight=c * weight) for c in (1.0, *CONSTANTS)]
    judges = [LatentClassClassifier(2).fit(frame.drop(columns="q0"), label, c * weight) for c in (1.0, *CONSTANTS)]
    for one, judge in zip(clusters[1:], judges[1:], strict=True):
        assert one.n_components_ == clusters[0].n_components_
        np.testing.assert_allclose(one.frequencies_, clusters[0].frequencies_, atol=1e-6)
        low, first = (np.asarray(model.intervals()["low"]) for model in (one, clusters[0]))
        np.testing.assert_allclose(low, first, atol=1e-6)
        assert one.report_.verdict == clusters[0].report_.verdict
        np.testing.assert_allclose(judge.weights_, judges[0].weights_, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equal_weights_are_no_weights(tmp_path):
    frame = answers(300)
    plain = LatentClass().fit(frame)
    frame.assign(w=1000.5).to_csv(tmp_path / "a.csv", index=False)
    for other in (
        LatentClass().fit(frame, sample_weight=np.full(300, 1000.5)),
        LatentClass(engine="stream").fit(frame, sample_weight=np.full(300, 1000.5)),
        LatentClass().fit(latentfit.scan(tmp_path / "a.csv"), sample_weight="w"),
    ):
        assert other._mixture.table.tobytes() == plain._mixture.table.tobytes()
        assert other.log_likelihood_ == plain.log_likelihood_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_engines_choose_the_same_number_of_weighted_rows_to_the_bit(tmp_path):
    frame, weight = answers(300, n_columns=8), np.round(uneven(300), 3)
    frame.assign(w=weight).to_csv(tmp_path / "a.csv", index=False)
    for make in (LatentClass, BernoulliMixture):
        first = make().fit(frame, sample_weight=weight)
        for other in (
            make(engine="stream").fit(frame, sample_weight=weight),
            make().fit(latentfit.scan(tmp_path / "a.csv"), sample_weight="w"),
        ):
            assert other._mixture.table.tobytes() == first._mixture.table.tobytes()
            assert other.report_.verdict == first.report_.verdict
            assert other.report_.notes == first.report_.notes


# --------------------------------------------------------------- sample size


def test_rows_of_weight_1000_are_no_more_rows():
    frame = answers()
    plain, heavy = LatentClass(2).fit(frame), LatentClass(2).fit(frame, sample_weight=np.full(400, 1000.0))
    one, other = (np.asarray(model.bootstrap(n_draws=30).weights["se"]) for model in (plain, heavy))
    np.testing.assert_array_equal(one, other)
    assert heavy.fit_indices() == plain.fit_indices()


def test_the_bootstrap_resamples_rows_with_their_weights():
    frame, weight = answers(), uneven()
    settings = {"smoothing": 0, "tol": 1e-9}
    model = LatentClass(2, **settings).fit(frame, sample_weight=weight)
    got = []
    for seed in range(60):
        rows = np.random.default_rng(seed).integers(0, 400, 400)
        again = LatentClass(2, **settings).fit(frame.iloc[rows], sample_weight=weight[rows])
        got.append(again.weights_[np.argmax([profile[1] for profile in again.profiles_[0]])])
    assert np.asarray(model.bootstrap(n_draws=100).weights["se"])[0] == pytest.approx(np.std(got, ddof=1), rel=0.35)


def test_one_class_stays_one_class_whatever_its_rows_weigh():
    rows = (np.random.default_rng(3).random((400, 15)) < 0.3).astype(int)
    assert BernoulliMixture().fit(rows, sample_weight=np.full(400, 20.1)).n_components_ == 1
    assert LatentClass(select="bic").fit(rows, sample_weight=7000 * uneven()).n_components_ == 1


@pytest.mark.parametrize("seed", range(6))
def test_heavy_rows_of_noise_are_no_cluster(seed):
    rng = np.random.default_rng(seed)
    rows = (rng.random((400, 15)) < rng.uniform(0.1, 0.6, 15)).astype(int)
    assert BernoulliMixture().fit(rows, sample_weight=7000 * rng.lognormal(0, 1, 400)).n_components_ == 1


def test_a_self_weighting_sample_has_kishs_number_of_rows_and_none_twice():
    frame, weight = answers(2000, n_columns=12), uneven(2000)
    table = read_table(frame, sample_weight=weight)
    drawn = self_weighting(table)
    assert drawn.total_weight == pytest.approx(kish(weight), rel=0.1)
    assert (drawn.row_weight <= np.bincount(read_table(frame).unique_index).max()).all()
    assert not drawn.sampling
    order = np.random.default_rng(1).permutation(2000)
    mixed = self_weighting(read_table(frame.iloc[order], sample_weight=3 * weight[order]))
    assert np.array_equal(mixed.codes, drawn.codes)
    assert np.array_equal(mixed.row_weight, drawn.row_weight)
    plain = read_table(frame)
    assert self_weighting(plain) is plain


def test_criteria_and_scores_take_weights():
    frame, weight = answers(), uneven()
    model = LatentClass(2).fit(frame, sample_weight=weight)
    indices = model.fit_indices()
    assert indices["n_rows"] == pytest.approx(kish(weight))
    assert model.bic(frame, weight) == pytest.approx(indices["bic"])
    assert model.aic(frame, sample_weight=1000 * weight) == pytest.approx(indices["aic"])
    assert model.score(frame, sample_weight=weight) == pytest.approx(indices["log_likelihood"] / indices["n_rows"])
    assert model.score(frame, sample_weight=weight) == pytest.approx(
        np.average(model.score_samples(frame), weights=weight)
    )
    counted = LatentClass(2, weight_type="frequency").fit(frame, sample_weight=np.full(400, 3))
    assert counted.bic(frame, np.full(400, 3)) == pytest.approx(counted.fit_indices()["bic"])
    assert counted.fit_indices()["n_rows"] == 1200


# -------------------------------------------------------------- frequencies


def test_frequencies_are_whole_numbers(tmp_path):
    frame = answers(30)
    with pytest.raises(DataError, match=r"row 4 has the weight 1\.5, and frequencies count rows; give whole numbers"):
        LatentClass(2, weight_type="frequency").fit(frame, sample_weight=[1, 2, 3, 1.5] + [1] * 26)
    frame.assign(w=[1, 2, 3, 1.5] + [1] * 26).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=r"row 4 has the weight 1\.5"):
        LatentClass(2, weight_type="frequency").fit(latentfit.scan(tmp_path / "a.csv"), sample_weight="w")
    for engine in ("memory", "stream"):
        with pytest.raises(DataError, match="the frequencies add up to 3e"):
            LatentClass(2, weight_type="frequency", engine=engine).fit(frame, sample_weight=np.full(30, 1e300))
    with pytest.raises(DataError, match="weight_type must be 'sampling' or 'frequency', got 'copies'"):
        LatentClass(2, weight_type="copies").fit(frame)


# ------------------------------------------------------------------- samples


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_sample_of_half_of_the_rows_is_no_table_of_pairs_of_equal_rows(monkeypatch):
    """Clusters of 2 · SAMPLED_ROWS rows and of one row more: whole scales were once taken for replicated rows."""
    monkeypatch.setattr(table_module, "ALWAYS_GROUP", 0)
    monkeypatch.setattr("latentfit.clusters.estimator.SAMPLED_ROWS", 1500)
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 3001)
    rows = (rng.random((3001, 24)) < rng.uniform(0.1, 0.9, (3, 24))[kind]).astype(int)
    fits = [BernoulliMixture(3).fit(rows[:n]) for n in (3000, 3001)]
    flagged = [np.asarray(model.purity_["flagged"]).tolist() for model in fits]
    assert flagged == [[False] * 3] * 2
    widths = [np.mean(np.asarray(m.intervals()["high"]) - np.asarray(m.intervals()["low"])) for m in fits]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)
    whole = BernoulliMixture(3)
    monkeypatch.setattr("latentfit.clusters.estimator.SAMPLED_ROWS", 10_000)
    whole.fit(rows)
    full = np.mean(np.asarray(whole.intervals()["high"]) - np.asarray(whole.intervals()["low"]))
    assert widths[1] == pytest.approx(full, rel=0.05)  # of a fit to 3,001 rows, whoever looks
    assert fits[1].report_.quantities["n_rows"] == pytest.approx(3001)


# --------------------------------------------------------------- partial_fit


def test_evidence_after_partial_fit_is_of_all_rows():
    frame = answers(4060)
    model = LatentClass(2).fit(frame[:4000])
    before = np.asarray(model.bootstrap(n_draws=20).weights["se"])
    model.partial_fit(frame[4000:])
    assert model.fit_indices()["n_rows"] == 4060
    assert model.report_.quantities["n_rows"] == 4060
    np.testing.assert_allclose(np.asarray(model.bootstrap(n_draws=20).weights["se"]), before, rtol=0.5)
    given = LatentClass(2).fit(frame[:4000]).partial_fit(frame[4000:])
    assert given.fit_indices(frame) == pytest.approx(model.fit_indices(), rel=1e-9)


def test_many_small_partial_fits_keep_all_rows_until_they_are_too_many(monkeypatch):
    frame = answers(900, n_columns=10)
    model = LatentClass(2).fit(frame[:300])
    for at in range(300, 900, 50):
        model.partial_fit(frame[at : at + 50])
    assert len(model._later) == 12  # not yet joined
    assert model.fit_indices() == pytest.approx(model.fit_indices(frame), rel=1e-9)
    monkeypatch.setattr(latent_class, "SEARCH", replace(latent_class.SEARCH, examined_rows=100))
    model.partial_fit(frame[:50])
    with pytest.raises(DataError, match="the rows from before partial_fit are not kept"):
        model.fit_indices()
    assert model.report_.quantities["n_rows"] == pytest.approx(950)


def test_weights_of_partial_fits_are_on_one_scale():
    frame, weight = answers(), 50 * uneven()
    model = LatentClass(2).fit(frame[:300], sample_weight=weight[:300])
    model.partial_fit(frame[300:], sample_weight=weight[300:])
    assert model.fit_indices()["n_rows"] == pytest.approx(kish(weight))
    assert model._sums.totals.sum() == pytest.approx(kish(weight))
    assert model.fit_indices() == pytest.approx(model.fit_indices(frame, weight), rel=1e-9)
    mixed = LatentClass(2).fit(frame[:300]).partial_fit(frame[300:], sample_weight=np.full(100, 5.0))
    assert mixed.fit_indices()["n_rows"] == pytest.approx(kish(np.repeat([1.0, 5.0], [300, 100])))


def test_a_model_from_a_file_says_that_earlier_rows_are_lacking(tmp_path):
    frame, weight = answers(), uneven()
    LatentClass(2).fit(frame[:300], sample_weight=weight[:300]).save(tmp_path / "m.latent")
    model = latentfit.load(tmp_path / "m.latent")
    model.partial_fit(frame[300:], sample_weight=weight[300:])
    assert model._sums.totals.sum() == pytest.approx(kish(weight))
    for ask in (model.fit_indices, model.bootstrap, model.ratio_test):
        with pytest.raises(DataError, match="the rows from before partial_fit are not kept; give all of them"):
            ask()
    assert model.report_.verdict == "caution"
    assert "No check has seen all of the" in model.report_.reasons[0]
    assert model.fit_indices(frame, weight)["n_rows"] == pytest.approx(kish(weight))
    model.save(tmp_path / "again.latent")
    assert latentfit.load(tmp_path / "again.latent")._scale == model._scale


def test_a_number_where_rows_stand_is_refused():
    model = LatentClass(2).fit(answers(60))
    with pytest.raises(DataError, match="found the number 50 where rows stand; name what it is: n_draws=50"):
        model.bootstrap(50)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [12, 17, 19, 21, 22, 0, 1, 2])
def test_a_few_rows_of_which_one_outweighs_all_have_an_answer(seed):
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(4, 14))
    rows = rng.integers(0, 2, (n_rows, int(rng.integers(2, 6))))
    weight = rng.lognormal(0, 60, n_rows)
    for model in (LatentClass(2), LatentClass(select="bic", smoothing=0), BernoulliMixture(), BernoulliMixture(2)):
        model.fit(rows, sample_weight=weight)
        assert np.isfinite([model.log_likelihood_, *model.weights_]).all()
        assert model.report_.verdict in ("ok", "caution", "not identifiable")
