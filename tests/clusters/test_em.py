"""Rows of which those that are all 0 were never recorded: the likelihood by brute force, EM, answers and files."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from latentfit import BernoulliMixture, load
from latentfit.clusters.em import BlankRows, TruncatedSteps, completed, recorded_weights, unseen_fraction
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.em import plain_steps
from latentfit.core.mixture.model import TableCheckpoint
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table


def table_of(rows, weight=None):
    codes = np.where(np.isnan(rows), 255, rows).astype(np.uint8)
    return Table(codes, tuple(Column(n, np.array([0, 1])) for n in range(codes.shape[1])), weight)


def mixture_of(at_one, weights):
    """`at_one` (K, L)."""
    at_one = np.asarray(at_one, float).T
    stacked = np.empty((2 * len(at_one), at_one.shape[1]))
    stacked[1::2], stacked[0::2] = at_one, 1 - at_one
    return Mixture(np.asarray(weights, float), stacked, np.arange(0, len(stacked) + 1, 2, dtype=np.int32))


def by_enumeration(rows, weights, at_one):
    """log P(what a row shows | its complete row is not all 0) and the posterior, over all complete rows."""
    K, L = at_one.shape
    cells = np.array([cell for cell in product((0, 1), repeat=L) if any(cell)])
    joint = weights * np.stack(
        [np.prod(np.where(cells == 1, at_one[k], 1 - at_one[k]), axis=1) for k in range(K)], axis=1
    )
    out, posterior = [], []
    for row in rows:
        fits = (np.isnan(row) | (cells == row)).all(axis=1)
        out.append(np.log(joint[fits].sum() / joint.sum()))
        posterior.append(joint[fits].sum(axis=0) / joint[fits].sum())
    return np.array(out), np.array(posterior)


def draw(seed, n=400, missing=0.15, at_one=((0.6, 0.5, 0.1, 0.1, 0.3), (0.05, 0.1, 0.4, 0.5, 0.1)), weights=(0.4, 0.6)):
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(weights), p=weights, size=n)
    rows = (rng.random((n, len(at_one[0]))) < np.array(at_one)[kind]).astype(float)
    rows = rows[rows.any(axis=1)]
    missing_mask = rng.random(rows.shape) < missing
    return np.where(missing_mask, np.nan, rows)


def steps_of(table, K):
    return TruncatedSteps(plain_steps(table, K), BlankRows.of(table))


@pytest.mark.parametrize("K", [1, 2, 3])
def test_the_likelihood_is_that_of_all_complete_rows_with_a_one(K):
    rng = np.random.default_rng(K)
    rows = draw(0)
    assert (np.isnan(rows) | (rows == 0)).all(axis=1).sum() > 5  # rows of zeros and missing values alone are among them
    at_one, weights = rng.uniform(0.05, 0.7, (K, 5)), rng.dirichlet(np.ones(K))
    weight = rng.integers(1, 4, len(rows)).astype(float)
    table = table_of(rows, weight)
    want, posterior = by_enumeration(rows, weights, at_one)
    sums = steps_of(table, K).e_step(mixture_of(at_one, weights))
    assert sums.log_likelihood == pytest.approx(float(weight @ want), rel=1e-12)
    assert sums.entropy == pytest.approx(-float(weight @ (posterior * np.log(posterior)).sum(axis=1)), abs=1e-8)
    unseen = weight.sum() * unseen_fraction(mixture_of(at_one, weights))
    assert sums.totals.sum() == pytest.approx(weight.sum() + unseen)


@pytest.mark.parametrize(("K", "missing"), [(1, 0.0), (1, 0.2), (2, 0.0), (2, 0.2)])
def test_em_ends_where_brute_force_does_and_never_falls(K, missing):
    rows, times = np.unique(draw(1, n=250, missing=missing), axis=0, return_counts=True)
    table = table_of(rows, times.astype(float))
    rng = np.random.default_rng(0)
    found = max(
        (
            em(steps_of(table, K), mixture_of(rng.uniform(0.1, 0.6, (K, 5)), np.full(K, 1 / K)), max_iter=20_000,
               tol=1e-12, accelerate=True)
            for _ in range(4)
        ),
        key=lambda one: one.log_likelihood,
    )  # fmt: skip
    assert found.converged
    assert (np.diff(found.path) > -1e-9 * abs(found.path[0])).all()

    def loss(x):
        weights = np.exp(np.append(x[: K - 1], 0.0))
        return -by_enumeration(rows, weights / weights.sum(), 1 / (1 + np.exp(-x[K - 1 :].reshape(K, 5))))[0] @ times

    here = np.log(found.params.weights)
    p = np.clip(found.params.table[1::2].T, 1e-6, 1 - 1e-6)
    init = np.concatenate([(here - here[-1])[:-1], np.log(p / (1 - p)).ravel()])
    by_force = minimize(loss, init, method="L-BFGS-B", options={"maxiter": 60})
    assert -by_force.fun <= found.log_likelihood + 1e-3
    elsewhere = minimize(loss, rng.normal(0, 1, len(init)) - 1, method="L-BFGS-B", options={"maxiter": 150})
    assert -elsewhere.fun <= found.log_likelihood + 1e-3


def test_an_m_step_of_plain_em_never_falls_without_leaps():
    table = table_of(draw(3, missing=0.3))
    path = em(steps_of(table, 2), mixture_of(np.random.default_rng(1).uniform(0.1, 0.9, (2, 5)), [0.5, 0.5]),
              max_iter=200, tol=0.0).path  # fmt: skip
    assert (np.diff(path) > -1e-9).all()


@pytest.mark.parametrize(("columns", "probability"), [(15, 0.1), (20, 0.05)])
def test_one_class_without_its_rows_of_zeros_is_one_cluster_with_its_frequencies(columns, probability):
    for seed in range(4):
        rng = np.random.default_rng([7, seed])
        rows = (rng.random((9_000, columns)) < probability).astype(int)
        rows = rows[rows.any(axis=1)][:3_000]
        model = BernoulliMixture(truncated=True, random_state=seed, n_jobs=1).fit(rows)
        assert model.n_components_ == 1
        assert [check.name for check in model.report_.checks if not check.passed] == ["structure"]
        assert np.abs(model.frequencies_ - probability).max() < 0.03
        gone = (1 - probability) ** columns
        assert model.n_unseen_ == pytest.approx(3_000 * gone / (1 - gone), rel=0.1)
        assert np.abs(rows.mean(axis=0) - model.frequencies_[0]).min() > 0.2 * probability  # the columns' means are not


def test_three_clusters_without_rows_of_zeros_are_three():
    rng = np.random.default_rng(2)
    often = np.full((3, 18), 0.04)
    often[0, :6] = often[1, 6:12] = often[2, 12:] = 0.45
    kind = rng.integers(3, size=4_000)
    rows = (rng.random((4_000, 18)) < often[kind]).astype(int)
    there = rows.any(axis=1)
    model = BernoulliMixture(truncated=True, n_jobs=1).fit(rows[there])
    assert model.n_components_ == 3
    np.testing.assert_allclose(model.weights_, 1 / 3, atol=0.04)
    assert model.n_unseen_ == pytest.approx((~there).sum(), rel=0.35)
    best = np.abs(model.frequencies_[:, None] - often).max(axis=2).min(axis=0)
    assert best.max() < 0.08


def test_answers_on_rows_are_those_of_the_conditional_distribution(tmp_path):
    rows = draw(4, n=900)
    model = BernoulliMixture(2, truncated=True, n_jobs=1).fit(rows)
    want, posterior = by_enumeration(rows, model.weights_, model.frequencies_)
    np.testing.assert_allclose(model.score_samples(rows), want, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(rows), posterior, atol=1e-9)
    np.testing.assert_array_equal(model.labels_, posterior.argmax(axis=1))
    assert model.log_likelihood_ == pytest.approx(want.sum())
    assert model.score_samples(np.zeros((1, 5)))[0] == -np.inf
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 5))).sum(), 1)
    drawn = np.asarray(model.sample(3_000, random_state=1)).astype(float)
    assert len(drawn) == 3_000
    assert drawn.any(axis=1).all()
    model.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
    assert again.truncated is True
    assert again.n_unseen_ == model.n_unseen_
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_weights_are_replicated_rows_and_engines_agree():
    rows = draw(5, n=300)
    number = np.random.default_rng(0).integers(1, 3, len(rows))
    options = {"truncated": True, "n_jobs": 1}
    copied = BernoulliMixture(2, **options).fit(np.repeat(rows, number, axis=0))
    streamed = BernoulliMixture(2, engine="stream", **options).fit(np.repeat(rows, number, axis=0))
    np.testing.assert_array_equal(copied.frequencies_, streamed.frequencies_)
    np.testing.assert_array_equal(copied.labels_, streamed.labels_)


def test_rows_of_zeros_are_refused_where_they_cannot_be():
    rows = np.vstack([draw(6, missing=0.0), np.zeros((1, 5))])
    with pytest.raises(DataError, match="the table has such rows; leave them out, or fit with truncated=False"):
        BernoulliMixture(truncated=True).fit(rows)
    with pytest.raises(DataError, match="select='blrt' draws rows of zeros"):
        BernoulliMixture(truncated=True, select="blrt").fit(rows)
    rows[-1, 0] = np.nan  # which may be the 1
    assert BernoulliMixture(truncated=True, max_components=2, n_jobs=1).fit(rows).n_components_ <= 2


def test_tests_look_at_the_rows_that_were_never_recorded_too():
    table = table_of(draw(7, missing=0.0, n=500))
    mixture = mixture_of([[0.2, 0.3, 0.1, 0.4, 0.2], [0.6, 0.5, 0.4, 0.5, 0.3]], [0.5, 0.5])
    proportion = unseen_fraction(mixture)
    zero = 0.5 * (0.8 * 0.7 * 0.9 * 0.6 * 0.8) + 0.5 * (0.4 * 0.5 * 0.6 * 0.5 * 0.7)
    assert proportion == pytest.approx(zero / (1 - zero))
    more = completed(table, mixture)
    assert more.total_weight - table.total_weight == round(proportion * table.total_weight)
    np.testing.assert_allclose(
        recorded_weights(mixture),
        np.array([0.5 - 0.5 * (0.8 * 0.7 * 0.9 * 0.6 * 0.8), 0.5 - 0.5 * (0.4 * 0.5 * 0.6 * 0.5 * 0.7)]) / (1 - zero),
    )


def test_intervals_know_that_the_number_of_unseen_rows_is_estimated():
    inside, narrow = [], []
    for seed in range(25):
        rng = np.random.default_rng([11, seed])
        rows = (rng.random((800, 8)) < 0.1).astype(int)
        model = BernoulliMixture(1, truncated=True, n_jobs=1).fit(rows[rows.any(axis=1)])
        found = model.intervals()
        low, high = (np.asarray(found[name]) for name in ("low", "high"))
        inside.append(((low <= 0.1) & (high >= 0.1)).mean())
        narrow.append((high - low).mean())
    assert 0.88 < np.mean(inside) < 0.99
    assert np.mean(narrow) > 2 * 1.96 * np.sqrt(0.1 * 0.9 / 800)  # wider than with all 800 rows recorded


def test_the_order_of_rows_and_columns_does_not_matter():
    rows = draw(8, n=500)
    rng = np.random.default_rng(1)
    row_order, column_order = rng.permutation(len(rows)), rng.permutation(5)
    names = np.array([f"c{n}" for n in range(5)])
    one = BernoulliMixture(2, truncated=True, n_jobs=1).fit(pd.DataFrame(rows, columns=names))
    other = pd.DataFrame(rows[row_order][:, column_order], columns=names[column_order])
    two = BernoulliMixture(2, truncated=True, n_jobs=1).fit(other)
    np.testing.assert_allclose(one.frequencies_[:, column_order], two.frequencies_, atol=1e-8)
    np.testing.assert_array_equal(one.labels_[row_order], two.labels_)
    threads = BernoulliMixture(2, truncated=True, n_jobs=2).fit(pd.DataFrame(rows, columns=names))
    np.testing.assert_array_equal(one.frequencies_, threads.frequencies_)


def test_a_stopped_fit_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    rows, settings = draw(9, n=400), {"truncated": True, "n_jobs": 1, "tol": 1e-12, "smoothing": 5.0}
    whole = BernoulliMixture(2, **settings).fit(rows)
    assert whole.n_iter_ > 3
    write = TableCheckpoint.write

    def stop(self, *rest):
        write(self, *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr("latentfit.core.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("latentfit.core.checkpoint.SPARING", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(TableCheckpoint, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            BernoulliMixture(2, **settings).fit(rows, checkpoint=tmp_path / "k")
    kept = BernoulliMixture(2, **settings).fit(rows, checkpoint=tmp_path / "k", resume=True)
    np.testing.assert_array_equal(whole.frequencies_, kept.frequencies_)
    assert kept.n_unseen_ == whole.n_unseen_


def test_weighted_scores_are_of_the_conditional_distribution_too():
    rows = draw(3)
    rows = rows[~((rows == 0) | np.isnan(rows)).all(axis=1)]
    model = BernoulliMixture(2, truncated=True, weight_type="frequency").fit(rows)
    counts = np.ones(len(rows))
    assert model.score(rows, sample_weight=counts) == pytest.approx(model.score(rows))
    assert model.bic(rows, sample_weight=counts) == pytest.approx(model.bic(rows))
