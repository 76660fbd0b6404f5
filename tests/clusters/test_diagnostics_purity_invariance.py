"""What must not move the certificate: the order of rows, columns and classes, codes, copies against weights, missing
values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latentfit.clusters.diagnostics import purity
from latentfit.clusters.diagnostics.intervals import frequency_intervals
from latentfit.clusters.diagnostics.purity import any_flagged, purity_certificates
from latentfit.core.em import em
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows
from tests.clusters.simulated_mixtures import bernoulli_world


@pytest.fixture(scope="module", params=[0.0, 0.15])
def fitted(request):
    """Three classes seen as two, so that one cluster is flagged."""
    world = bernoulli_world(3, 3, 12, 400, separation=30, missing=request.param)
    codes = np.ascontiguousarray(world.table.codes[world.table.unique_index])
    table = Table(codes, world.table.columns)
    init = Mixture(
        np.array([0.55, 0.45]), np.ascontiguousarray(world.mixture.table[:, :2]), world.mixture.column_offsets
    )
    return table, em(table_steps(table, 2, 1.0, 1), init, max_iter=200, tol=1e-8).params


def same(left, right, order=None):
    order = np.arange(len(left.p_value)) if order is None else order
    for name in ("statistic", "z", "null_quantile", "p_value", "impurity", "certified"):
        np.testing.assert_allclose(getattr(left, name)[order], getattr(right, name), rtol=1e-6, atol=1e-8, err_msg=name)
    assert left.flagged[order].tolist() == right.flagged.tolist()
    assert [left.suspect_pair[k] for k in order] == list(right.suspect_pair)
    assert [left.suspect_columns[k] for k in order] == list(right.suspect_columns)


def certify(table, mixture, **options):
    return purity_certificates(table, mixture, smoothing=1.0, **options)


def test_the_order_of_rows_and_grouping_do_not_matter(fitted):
    table, mixture = fitted
    found = certify(table, mixture)
    assert found.flagged.any()
    assert not found.flagged.all()
    order = np.random.default_rng(0).permutation(table.n_rows)
    same(found, certify(table.take(order), mixture))
    same(found, certify(group_rows(table), mixture))


def test_the_quick_question_has_the_answer_of_the_certificates(fitted):
    table, two = fitted
    third = Mixture(
        np.append(0.8 * two.weights, 0.2), np.column_stack([two.table, two.table.mean(axis=1)]), two.column_offsets
    )
    three = em(table_steps(table, 3, 1.0, 1), third, max_iter=200, tol=1e-8).params
    answers = [
        (any_flagged(table, one, seed=seed), certify(table, one, seed=seed)) for one in (two, three) for seed in (0, 7)
    ]
    assert [quick for quick, _ in answers] == [bool(whole.flagged.any()) for _, whole in answers]
    assert {quick for quick, _ in answers} == {True, False}


def test_the_order_and_coding_of_columns_do_not_matter(fitted):
    table, mixture = fitted
    order = np.random.default_rng(1).permutation(table.n_columns)
    cells = (2 * order[:, None] + np.arange(2)).ravel()
    moved = replace(table, codes=table.codes[:, order].copy(), columns=tuple(table.columns[n] for n in order))
    same(certify(table, mixture), certify(moved, replace(mixture, table=mixture.table[cells])))
    flipped = table.codes.copy()
    flipped[:, 0] = np.where(flipped[:, 0] == 255, 255, 1 - flipped[:, 0])
    first = replace(table.columns[0], categories=table.columns[0].categories[::-1])
    cells = np.concatenate([[1, 0], np.arange(2, 2 * table.n_columns)])
    other = replace(table, codes=flipped, columns=(first, *table.columns[1:]))
    same(certify(table, mixture), certify(other, replace(mixture, table=mixture.table[cells])))


def test_the_order_of_classes_does_not_matter(fitted):
    table, mixture = fitted
    order = np.array([1, 0])
    same(certify(table, mixture), certify(table, mixture.permuted(order)), order)
    left, right = frequency_intervals(table, mixture), frequency_intervals(table, mixture.permuted(order))
    np.testing.assert_allclose(left.low[order], right.low, rtol=1e-8)
    np.testing.assert_allclose(left.weights_high[order], right.weights_high, rtol=1e-8)


def test_a_row_of_weight_w_is_w_rows(fitted):
    table, mixture = fitted
    weight = np.random.default_rng(2).integers(0, 4, table.n_rows)
    copied = table.take(np.repeat(np.arange(table.n_rows), weight))
    weighted = replace(table, row_weight=weight.astype(float))
    same(certify(weighted, mixture), certify(copied, mixture))
    left, right = frequency_intervals(weighted, mixture), frequency_intervals(copied, mixture)
    np.testing.assert_allclose(left.rows, right.rows, rtol=1e-8)


def test_real_weights_are_relative(fitted):
    table, mixture = fitted
    weight = np.random.default_rng(3).gamma(3.0, size=table.n_rows)
    left = purity_certificates(replace(table, row_weight=weight), mixture, smoothing=0.0)
    right = purity_certificates(replace(table, row_weight=7.3 * weight), mixture, smoothing=0.0)
    same(left, right)
    low = [frequency_intervals(replace(table, row_weight=c * weight), mixture).low for c in (1.0, 7.3)]
    np.testing.assert_allclose(low[0], low[1], rtol=1e-8)


def test_a_column_that_says_nothing_changes_nothing(fitted):
    table, mixture = fitted
    noninformative = Column("silent", np.array([0, 1]))
    codes = np.column_stack([np.full(table.n_rows, 255, np.uint8), table.codes])
    wider = replace(table, codes=codes, columns=(noninformative, *table.columns))
    offsets = np.arange(0, 2 * wider.n_columns + 1, 2, dtype=np.int32)
    reported = Mixture(mixture.weights, np.vstack([np.full((2, 2), 0.5), mixture.table]), offsets)
    same(certify(table, mixture), certify(wider, reported))


def test_samples_and_wide_tables_are_bounded(fitted, monkeypatch):
    table, mixture = fitted
    monkeypatch.setattr(purity, "SETTINGS", replace(purity.SETTINGS, sampled_rows=300, max_columns=8))
    found = certify(table, mixture)
    assert found.flagged.any()
    assert np.isfinite(found.impurity).all()
    assert purity.tested_rows(20) == purity.SETTINGS.max_rows
    assert purity.tested_rows(10_000) == purity.SETTINGS.min_rows


def test_tiny_and_constant_clusters_are_not_certified():
    world = bernoulli_world(0, 2, 6, 12)
    found = certify(world.table, world.mixture)
    small = np.isnan(found.z).all(axis=1)
    assert small.any()
    assert np.isnan(found.certified[small]).all()
    assert (found.p_value[small] == 1).all()
    constant = Table(np.zeros((50, 3), np.uint8), tuple(Column(j, np.array([0, 1])) for j in range(3)))
    flat = Mixture(np.ones(1), np.tile([[0.99], [0.01]], (3, 1)), np.arange(0, 7, 2, dtype=np.int32))
    assert not certify(constant, flat).flagged.any()


def test_a_certificate_has_a_column_for_each_statistic_of_each_cluster(fitted):
    columns = certify(*fitted).columns()
    assert list(columns)[:4] == ["cluster", "pair", "pair_z", "pair_null_quantile"]
    assert {len(column) for column in columns.values()} == {2}
