"""Hidden switches with missing values: EM on the observed cells beside literal loops, and the rows drawn first."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

import latentfit
from latentfit import BinaryFactors
from latentfit.core.errors import DataError, DataWarning
from latentfit.factors.diagnostics.verdict import _fit_half
from latentfit.factors.em.missing import (
    ObservedSteps,
    draw_missing,
    most_likely_observed,
    posterior_observed,
    refine_observed,
    split_missing,
)
from latentfit.factors.em.steps import SwitchParams, SwitchSteps, initial_params
from latentfit.factors.init import fill_rows, fit_gaussian_rows
from latentfit.factors.select import observed_values
from latentfit.simulate import binary_factors

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def without(X, share, seed=0):
    """The rows with some of their cells missing."""
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def literal_posterior(row, params: SwitchParams):
    """P(h | observed cells) as a dict, and the log-likelihood of a row: loops over states and features."""
    logs = {}
    for code, bits in enumerate(product((0, 1), repeat=params.d)):
        h = bits[::-1]  # switch i is bit i of the code
        total = params.log_prior[code]
        for j, value in enumerate(row):
            if np.isnan(value):
                continue
            mean = sum(h[k] * params.W[k, j] for k in range(params.d))
            total -= (value - mean) ** 2 / (2 * params.sigma2) + np.log(2 * np.pi * params.sigma2) / 2
        logs[h] = total
    largest = max(logs.values())
    norm = largest + np.log(sum(np.exp(v - largest) for v in logs.values()))
    return {h: np.exp(v - norm) for h, v in logs.items()}, norm


@pytest.fixture
def case():
    data = binary_factors(60, m=5, d=3, sigma=0.4, random_state=3)
    rng = np.random.default_rng(1)
    params = initial_params(rng.normal(size=(3, 5)), np.array([0.3, 0.5, 0.6]), 0.3)
    values = without(data.X, 0.3)
    values[0] = np.nan  # a row that shows nothing
    return values, params


def test_posteriors_and_likelihoods_of_incomplete_rows_equal_literal_sums(case):
    values, params = case
    on, logs = posterior_observed(values, params)
    best = most_likely_observed(values, params)
    for i, row in enumerate(values):
        weights, norm = literal_posterior(row, params)
        assert logs[i] == pytest.approx(norm, abs=1e-10)
        assert on[i] == pytest.approx([sum(w for h, w in weights.items() if h[k]) for k in range(3)], abs=1e-10)
        assert tuple(best[i]) == max(weights, key=weights.get)
    assert logs[0] == pytest.approx(0.0, abs=1e-12)  # no cell, no information: the prior
    assert on[0] == pytest.approx([0.3, 0.5, 0.6], abs=1e-12)


def test_one_em_step_on_incomplete_rows_equals_the_literal_one(case):
    values, params = case
    x, observed = split_missing(values)
    steps = ObservedSteps(x, float((x**2).sum()), 5, "all", None, observed)
    new = steps.m_step(steps.e_step(params))
    posteriors = [literal_posterior(row, params)[0] for row in values]
    misfit, cells = 0.0, 0
    for j in range(5):
        A, b = np.zeros((3, 3)), np.zeros(3)
        for row, weights in zip(values, posteriors, strict=True):
            for h, w in weights.items():
                if not np.isnan(row[j]):
                    A += w * np.outer(h, h)
                    b += w * np.array(h) * row[j]
        expected = np.linalg.solve(A, b)
        assert new.W[:, j] == pytest.approx(expected, abs=1e-10)
        for row, weights in zip(values, posteriors, strict=True):
            if not np.isnan(row[j]):
                cells += 1
                misfit += sum(w * (row[j] - np.dot(h, expected)) ** 2 for h, w in weights.items())
    assert new.sigma2 == pytest.approx(misfit / cells, rel=1e-10)


def test_steps_on_complete_rows_equal_those_of_complete_data(case):
    _, params = case
    X = binary_factors(200, m=5, d=3, sigma=0.4, random_state=4).X
    complete = SwitchSteps(X, float((X**2).sum()), 5, "all")
    seen = ObservedSteps(X, float((X**2).sum()), 5, "all", None, np.ones_like(X))
    one, other = complete.e_step(params), seen.e_step(params)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-12)
    assert np.allclose(other.state_counts, one.state_counts, atol=1e-10)
    first, second = complete.m_step(one), seen.m_step(other)
    assert np.allclose(first.W, second.W, atol=1e-10)
    assert first.sigma2 == pytest.approx(second.sigma2, rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_no_em_step_on_incomplete_rows_lowers_the_objective(seed):
    X = without(binary_factors(300, m=6, d=3, sigma=0.3, random_state=seed).X, 0.3, seed)
    rng = np.random.default_rng(seed)
    fitted = refine_observed(X, initial_params(rng.normal(size=(3, 6)), np.full(3, 0.5), 1.0), max_iter=100, tol=0)
    gains = np.diff(fitted.path)
    assert len(gains) > 30
    assert (gains >= -1e-9 * np.abs(fitted.path[:-1])).all()


def test_drawn_cells_keep_the_covariance_of_gaussian_rows():
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(8, 2))
    X = rng.normal(size=(40_000, 2)) @ loadings.T + 0.5 * rng.normal(size=(40_000, 8)) + np.arange(8)
    values = without(X, 0.3)
    model = fit_gaussian_rows(values[:20_000], 2)
    assert model.sigma2 == pytest.approx(0.25, rel=0.05)
    filled = fill_rows(values, 2, seed=0)
    assert np.array_equal(filled[~np.isnan(values)], values[~np.isnan(values)])
    assert np.allclose(np.cov(filled.T), np.cov(X.T), atol=0.1)
    assert np.allclose(filled.mean(axis=0), np.arange(8), atol=0.05)


def test_draws_follow_rows_and_columns_to_another_order():
    X = without(binary_factors(300, m=6, d=2, sigma=0.3, random_state=0).X, 0.2)
    rows, columns = np.random.default_rng(1).permutation(300), np.random.default_rng(2).permutation(6)
    moved = X[rows][:, columns]
    assert np.allclose(fill_rows(X, 2, 0)[rows][:, columns], fill_rows(moved, 2, 0), atol=1e-8)
    params = initial_params(np.eye(2, 6), np.array([0.4, 0.6]), 0.1)
    there = SwitchParams(params.W[:, columns], params.log_prior, params.sigma2)
    assert np.allclose(draw_missing(X, params, 0)[rows][:, columns], draw_missing(moved, there, 0), atol=1e-12)


# ------------------------------------------------------------- estimator


@pytest.mark.parametrize(("share", "limit"), [(0.05, 1.2), (0.2, 1.6)])
def test_switches_are_recovered_from_incomplete_rows_nearly_as_from_complete_ones(share, limit):
    def error(model, data):
        return max(min(np.linalg.norm(w - v) for v in model.components_) for w in data.W)

    complete, missing = [], []
    for seed in range(6):
        data = binary_factors(1500, m=15, d=4, sigma=0.3, random_state=seed)
        complete.append(error(BinaryFactors(4).fit(data.X), data))
        missing.append(error(BinaryFactors(4).fit(without(data.X, share, seed)), data))
    assert np.median(missing) < limit * np.median(complete)


def test_number_of_switches_is_found_beside_missing_values():
    data = binary_factors(2000, m=10, d=3, sigma=0.1, random_state=0)
    model = BinaryFactors().fit(without(data.X, 0.2))
    assert model.n_components_ == 3
    assert model.noise_ == pytest.approx(0.1, rel=0.05)
    assert model.converged_
    assert model.report_.quantities["missing_share"] == pytest.approx(0.2, abs=0.01)
    agree = (model.predict(data.X) == BinaryFactors(3).fit(data.X).predict(data.X)).mean()
    assert agree > 0.99


def test_a_row_with_missing_values_is_answered_alike_alone_and_in_company():
    X = without(binary_factors(400, m=8, d=2, sigma=0.3, random_state=0).X, 0.2)
    model = BinaryFactors(2).fit(X)
    alone = np.concatenate([model.transform(X[i : i + 1]) for i in range(5)])
    assert np.allclose(model.transform(X)[:5], alone, rtol=1e-12, atol=1e-12)
    assert model.score_samples(X).sum() == pytest.approx(model.log_likelihood_, rel=1e-9)


def test_many_missing_values_make_the_verdict_caution():
    X = without(binary_factors(1000, m=10, d=3, sigma=0.1, random_state=0).X, 0.5)
    report = BinaryFactors(3).fit(X).report_
    assert report.verdict == "caution"
    assert "of the cells are missing, more than 30%" in report.reasons[0]


def test_columns_without_any_value_are_set_aside(tmp_path):
    X = without(binary_factors(500, m=6, d=2, sigma=0.1, random_state=0).X, 0.1)
    X[:, 2] = np.nan
    with pytest.warns(DataWarning, match=r"1 features hold no value \(2\)"):
        model = BinaryFactors(2).fit(X)
    assert (model.components_[:, 2] == 0).all()
    assert np.isnan(model.inverse_transform(model.transform(X))[:, 2]).all()
    model.save(tmp_path / "m.latent")
    again = latentfit.load(tmp_path / "m.latent")
    assert np.array_equal(again.transform(X), model.transform(X))
    assert np.isnan(again.inverse_transform(again.transform(X))[:, 2]).all()


def test_data_without_any_value_are_refused_as_such():
    with pytest.raises(DataError, match="none of the 4 features holds a value"):
        BinaryFactors().fit(np.full((20, 4), np.nan))


def test_files_with_missing_values_are_read_whole_with_the_engine_memory(tmp_path):
    X = without(binary_factors(400, m=6, d=2, sigma=0.1, random_state=0).X, 0.1)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame[:200].to_csv(tmp_path / "1.csv", index=False)
    frame[200:].to_csv(tmp_path / "2.csv", index=False)
    files = latentfit.scan(str(tmp_path / "*.csv"))
    with pytest.raises(DataError, match="give engine='memory'"):
        BinaryFactors(2).fit(files)
    fitted = BinaryFactors(2, engine="memory").fit(files)
    assert np.allclose(fitted.components_, BinaryFactors(2).fit(frame).components_, atol=1e-12)
    assert fitted.feature_names_in_.tolist() == list("abcdef")


def test_the_sign_of_nan_does_not_matter():
    X = without(binary_factors(200, m=8, d=3, sigma=0.7, random_state=0).X, 0.25)
    other = np.where(np.isnan(X), -np.float64("nan"), X)
    assert np.signbit(other[np.isnan(X)]).all() != np.signbit(X[np.isnan(X)]).all()
    assert np.array_equal(BinaryFactors(3).fit(X).components_, BinaryFactors(3).fit(other).components_)


@pytest.mark.parametrize("seed", range(3))
def test_fits_without_noise_converge(seed):
    X = without(binary_factors(600, m=10, d=4, sigma=0.0, random_state=seed).X, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BinaryFactors().fit(X).converged_


def test_several_completions_find_an_optimum_that_one_misses():
    rng = np.random.default_rng(4004)
    W, p = rng.normal(size=(6, 12)), rng.uniform(0.2, 0.45, 6)
    H = rng.random((3000, 6)) < p
    H[:, 1] |= H[:, 0] & (rng.random(3000) < 0.4)
    X = without(H @ W + 0.5 * rng.normal(size=(3000, 12)), 0.25, 1004)
    true = refine_observed(X, initial_params(W, H.mean(axis=0), 0.25))
    assert BinaryFactors(6).fit(X).objective_ > true.objective - 1


@pytest.mark.parametrize("options", [{"refine": None}, {"max_iter": 0}, {}])
def test_notes_give_the_share_of_missing_cells(options):
    X = without(binary_factors(300, m=6, d=2, sigma=0.2, random_state=0).X, 0.1)
    assert any("of the cells are missing" in note for note in BinaryFactors(2, **options).fit(X).report_.notes)


def test_incomplete_rows_are_refused_by_models_of_many_switches():
    data = binary_factors(400, m=18, d=15, sigma=0.05, random_state=0)
    model = BinaryFactors(15, max_iter=1, search="newton").fit(data.X)
    with pytest.raises(DataError, match="rows must be complete for a model of more than 14 switches"):
        model.transform(without(data.X, 0.1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"feature_noise": "unequal"}, "feature_noise must be 'equal' where values are missing, got 'unequal'"),
        ({"n_components": 15}, "n_components must be at most 14 where values are missing, got 15"),
        ({"engine": "stream"}, r"holds a missing value \(NaN\) in row .*; give engine='memory'"),
    ],
)
def test_what_missing_values_do_not_allow_is_refused_with_advice(options, said):
    X = without(binary_factors(300, m=18, d=3, sigma=0.1, random_state=0).X, 0.1)
    with pytest.raises(DataError, match=said):
        BinaryFactors(**options).fit(X)


def test_a_stopped_fit_of_incomplete_rows_resumes_with_the_same_bits(tmp_path, monkeypatch):
    import latentfit.factors.estimator as module

    monkeypatch.setattr(module, "COMPARED_ITERATIONS", 1)
    monkeypatch.setattr("latentfit.core.checkpoint.CheckpointFile.due", True)
    X = without(binary_factors(400, m=6, d=3, sigma=0.5, random_state=2).X, 0.2)
    whole = BinaryFactors(3, tol=1e-12).fit(X)
    original, calls = module.refine_observed, []

    def stopped(*args, callback=None, **kwargs):
        def stop(step):
            calls.append(step.n_iter)
            if len(calls) == 5:
                raise KeyboardInterrupt

        return original(*args, callback=stop if kwargs.get("on_iteration") else callback, **kwargs)

    monkeypatch.setattr(module, "refine_observed", stopped)
    with pytest.raises(KeyboardInterrupt):
        BinaryFactors(3, tol=1e-12).fit(X, checkpoint=tmp_path / "c")
    monkeypatch.setattr(module, "refine_observed", original)
    resumed = BinaryFactors(3, tol=1e-12).fit(X, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(resumed.components_, whole.components_)
    assert resumed.n_iter_ == whole.n_iter_
    assert not (tmp_path / "c").exists()


# --------------------------------------------------------------- verdict


def test_weights_of_features_never_observed_with_their_switch_are_named():
    rng = np.random.default_rng(0)
    W, H = rng.normal(size=(3, 10)), rng.random((1500, 3)) < [0.3, 0.4, 0.35]
    W[:, 0] = [6, 0, 0]  # feature 0 shows switch 0 plainly
    X = H @ W + 0.3 * rng.normal(size=(1500, 10))
    X[np.ix_(X[:, 0] > 3, [8, 9])] = np.nan
    model = BinaryFactors(3).fit(X)
    switch = int(np.abs(model.components_[:, 0]).argmax())
    assert model.report_.verdict == "caution"
    said = f"Switch {switch} is on, apart from the other switches, in about 0 of the rows that show features 8, 9,"
    assert any(said in reason for reason in model.report_.reasons)
    assert model.report_.quantities["fewest_cells"] < 1


def two_files(n, *, shared, seed=0):
    """Rows of two files: each shows its own five features, and the `shared` first ones."""
    rng = np.random.default_rng(seed)
    W = np.zeros((4, 10 + shared))
    W[:2, shared : shared + 5], W[2:, shared + 5 :] = rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    H = (rng.random((n, 5 if shared else 4)) < 0.35).astype(float)
    if shared:
        W = np.concatenate([W, np.where(np.arange(10 + shared) < shared, 2.0, 0.0)[None]])
    X = H @ W + 0.2 * rng.normal(size=(n, W.shape[1]))
    X[: n // 2, shared : shared + 5] = np.nan
    X[n // 2 :, shared + 5 :] = np.nan
    return X


def test_switches_of_features_without_common_rows_are_doubted():
    report = BinaryFactors(4).fit(two_files(800, shared=0)).report_
    assert report.verdict != "ok"
    assert any("The features form 2 groups" in reason for reason in report.reasons)
    assert report.quantities["fewest_rows_of_a_pair"] < 20


def test_switches_that_no_row_shows_together_are_doubted_beside_common_features():
    reasons = BinaryFactors(5).fit(two_files(800, shared=2)).report_.reasons
    assert not any("groups" in reason for reason in reasons)
    assert any("rows show both switch" in reason for reason in reasons)


def test_values_missing_at_random_leave_the_verdict():
    for seed in range(3):
        X = without(binary_factors(1500, m=15, d=4, sigma=0.2, random_state=seed).X, 0.2, seed)
        assert BinaryFactors().fit(X).report_.reasons == []


def test_rows_without_any_value_are_no_evidence():
    X = binary_factors(120, m=8, d=2, sigma=0.2, random_state=0).X
    longer = np.concatenate([X, np.full((40, 8), np.nan)])
    plain, empty = BinaryFactors(2).fit(X), BinaryFactors(2).fit(longer)
    assert np.array_equal(plain.components_, empty.components_)
    assert empty.report_.quantities["n_rows"] == 120
    assert "missing_share" not in empty.report_.quantities
    assert empty.transform(longer)[-1] == pytest.approx(empty.switch_probabilities_, abs=1e-12)
    some = without(longer, 0.1)
    assert BinaryFactors(2).fit(some).report_.quantities["n_rows"] == 120


def test_rows_on_counts_rows_that_can_show_the_switch():
    rng = np.random.default_rng(0)
    W = np.array([[2.0, 2, 2, 0, 0, 0, 0], [0, 0, 0, 1, 2, -2, 1]])
    H = rng.random((1000, 2)) < 0.4
    X = H @ W + 0.1 * rng.normal(size=(1000, 7))
    X[:700, :3] = np.nan  # only the last 300 rows show switch 0
    model = BinaryFactors(2).fit(X)
    first = int(np.abs(model.components_[:, 0]).argmax())
    assert model.report_.quantities["rows_on"][first] == pytest.approx(H[700:, 0].sum(), abs=2)
    assert model.report_.quantities["rows_on"][1 - first] == pytest.approx(H[:, 1].sum(), abs=2)


def test_posteriors_are_at_most_one():
    X = without(binary_factors(3000, m=12, d=6, sigma=0.2, random_state=0).X, 0.1)
    model = BinaryFactors(6, max_iter=5).fit(X)
    assert model.transform(X).max() <= 1


# ---------------------------------------------------------------- number


def test_eigenvalues_of_observed_cells_equal_sample_eigenvalues_on_complete_rows():
    X = binary_factors(500, m=8, d=3, sigma=0.5, random_state=0).X
    sample = np.linalg.eigvalsh(X.T @ X / len(X))[::-1]
    for rank in range(4):
        found = observed_values(X, rank, 0)
        assert found.n == pytest.approx(500)
        assert found.values[rank:] * found.sigma2 == pytest.approx(sample[rank:], rel=1e-4)


def weak_switches(seed, n=200):
    """Three dependent switches in as much noise, 28 % of the cells missing."""
    rng = np.random.default_rng(seed)
    W, H = rng.normal(size=(3, 10)), rng.random((n, 3)) < rng.uniform(0.2, 0.45, 3)
    H[:, 1] |= H[:, 0] & (rng.random(n) < 0.4)
    return without(H @ W + rng.normal(size=(n, 10)), 0.28, seed)


def test_missing_values_hide_few_of_the_weak_switches():
    found = [BinaryFactors(refine=None).fit(weak_switches(seed)).n_components_ for seed in range(40)]
    assert np.mean(np.array(found) == 3) > 0.55  # .45 where rows completed by a smaller model are counted
    assert max(found) <= 4


def test_a_half_of_the_rows_is_fitted_to_its_observed_cells():
    X = weak_switches(0)
    params = BinaryFactors(3).fit(X)._params
    W = _fit_half(X[:100], params, 0).W
    fitted = refine_observed(X[:100], SwitchParams(W, params.log_prior, params.sigma2), max_iter=0)
    resume_from = refine_observed(X[:100], params, max_iter=0)
    assert fitted.log_likelihood > resume_from.log_likelihood
