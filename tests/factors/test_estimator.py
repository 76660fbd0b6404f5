"""Hidden switches whatever the data: monotone EM, equivariance, exactness without noise, clear errors."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import latentfit
from latentfit import BinaryFactors
from latentfit.core.em import em
from latentfit.core.errors import DataError, DataWarning, ModelFileError, NotIdentifiableError
from latentfit.core.matrix import read_matrix
from latentfit.core.model_file import read_model, write_model
from latentfit.core.tensor.binary import spectral_init
from latentfit.factors.em.least_squares import baseline, conventional
from latentfit.factors.em.steps import (
    SwitchParams,
    SwitchSteps,
    initial_params,
    most_likely,
    posterior,
    refine_switches,
)
from latentfit.factors.simulate import draw_switches, draw_weights
from latentfit.simulate import binary_factors


def matched(W, found):
    """`found` in the order of W, and the largest difference."""
    apart = ((W[:, None] - found[None]) ** 2).sum(axis=-1)
    order = linear_sum_assignment(apart)[1]
    return order, float(np.abs(W - found[order]).max())


# ------------------------------------------------------------- recovery


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_without_noise_weights_come_back_exactly(seed):
    d = 1 + seed % 8
    data = binary_factors(4000, m=d + 2 + seed % 5, d=d, sigma=0.0, random_state=seed)
    model = BinaryFactors().fit(data.X)
    assert model.n_components_ == d
    assert matched(data.W, model.components_)[1] < 1e-8
    assert model.noise_ == 0.0
    order = matched(data.W, model.components_)[0]
    assert np.array_equal(model.predict(data.X)[:, order], data.h)


@pytest.mark.parametrize("search", ["auto", "newton", "power"])
@pytest.mark.parametrize("refine", ["em", "wls", "als", None])
def test_every_option_fits(search, refine):
    data = binary_factors(3000, m=12, d=3, sigma=0.1, random_state=2)
    model = BinaryFactors(3, search=search, refine=refine).fit(data.X)
    assert model.components_.shape == (3, 12)
    assert np.isfinite(model.log_likelihood_)
    if search == "auto":
        assert matched(data.W, model.components_)[1] < 0.1


@pytest.mark.parametrize("filter_", ["ks", "rounding"])
@pytest.mark.parametrize("split", [False, True])
def test_filters_and_split_rows_find_the_weights(filter_, split):
    data = binary_factors(6000, m=15, d=4, sigma=0.1, random_state=1)
    start = spectral_init(data.X, 4, filter_=filter_, split=split, rng=0)
    assert matched(data.W, start.W)[1] < 0.3
    model = BinaryFactors(4, filter=filter_, split=split).fit(data.X)
    assert matched(data.W, model.components_)[1] < 0.05


def test_power_search_takes_single_clusters():
    rng = np.random.default_rng(0)
    W = draw_weights(5, 20, rng)
    X = np.eye(5)[rng.integers(0, 5, 8000)] @ W + 0.2 * rng.standard_normal((8000, 20))
    for search in ("power", "auto"):
        model = BinaryFactors(5, search=search).fit(X)
        assert matched(W, model.components_)[1] < 0.05
        assert (model.predict(X).sum(axis=1) == 1).mean() > 0.99


def test_independent_search_fits():
    rng = np.random.default_rng(1)
    W = draw_weights(6, 30, rng)
    h = (rng.random((20_000, 6)) < rng.uniform(0.1, 0.35, 6)).astype(float)
    model = BinaryFactors(6, search="independent").fit(h @ W + 0.2 * rng.standard_normal((20_000, 30)))
    assert matched(W, model.components_)[1] < 0.05
    assert model.report_.verdict == "ok"


def test_a_baseline_becomes_a_switch_of_its_own():
    rng = np.random.default_rng(3)
    h = draw_switches(6000, 4, rng).astype(float)
    h[:, 0] = 1
    W = draw_weights(4, 15, rng)
    model = BinaryFactors(4).fit(h @ W + 0.1 * rng.standard_normal((6000, 15)))
    assert model.switch_probabilities_[0] > 0.99
    assert (model.switch_probabilities_[1:] <= 0.5).all()
    assert matched(W, model.components_)[1] < 0.05  # the truth is off more often than on


def test_convention_keeps_the_likelihood():
    """h₀ + h₁ = 1 in all rows: turning it into a baseline changes words, not the distribution of rows."""
    P = np.full(8, 1e-12)
    P[[0b001, 0b010, 0b101, 0b110]] = [0.2, 0.3, 0.4, 0.1]
    rng = np.random.default_rng(0)
    params = SwitchParams(rng.standard_normal((3, 5)), np.log(P / P.sum()), 0.3)
    assert baseline(params).tolist() == [1, 1, 0]
    turned = conventional(params, 10**9)
    X = rng.standard_normal((50, 5))
    np.testing.assert_allclose(posterior(X, turned)[1], posterior(X, params)[1], atol=1e-6)
    assert conventional(turned, 10**9) is None


# ------------------------------------------------------------------- EM


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 2**20), st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_em_never_lowers_the_objective(d, seed, sigma):
    data = binary_factors(200, m=d + 3, d=d, sigma=sigma, random_state=seed)
    rng = np.random.default_rng(seed)
    start = initial_params(data.W + 0.5 * rng.standard_normal(data.W.shape), np.full(d, 0.4), sigma**2 + 0.1)
    for accelerate in (False, True):
        path = np.array(refine_switches(data.X, start, max_iter=30, tol=0.0, accelerate=accelerate).path)
        assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
def test_em_with_known_noise_holds_it_fixed_and_never_lowers_the_objective(sigma, accelerate):
    data = binary_factors(400, m=8, d=3, sigma=0.3, random_state=1)
    start = initial_params(data.W + 0.3, np.full(3, 0.4), 0.5)
    found = refine_switches(data.X, start, noise=sigma, max_iter=40, tol=0.0, accelerate=accelerate)
    assert found.params.sigma2 == pytest.approx(sigma**2, rel=1e-12)
    path = np.array(found.path)
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


@pytest.mark.parametrize("refine", ["em", "wls", "als", None])
def test_given_noise_is_held_fixed(refine):
    data = binary_factors(3000, m=12, d=3, sigma=0.1, random_state=2)
    models = {noise: BinaryFactors(3, refine=refine, noise=noise).fit(data.X) for noise in (None, 0.1, 0.3)}
    assert models[None].noise_ == pytest.approx(0.1, abs=0.02)
    assert models[0.1].noise_ == pytest.approx(0.1, rel=1e-12)
    assert models[0.3].noise_ == pytest.approx(0.3, rel=1e-12)
    if refine == "em":
        assert models[0.3].log_likelihood_ < models[0.1].log_likelihood_ <= models[None].log_likelihood_ + 1e-3
        assert models[0.1].report_.verdict == models[None].report_.verdict == "ok"


def test_the_number_of_switches_is_judged_by_the_noise_that_is_given():
    data = binary_factors(2000, m=12, d=3, sigma=0.2, random_state=3)
    assert BinaryFactors(noise=0.2).fit(data.X).n_components_ == 3
    assert BinaryFactors(noise=20.0).fit(data.X).n_components_ == 1


@pytest.mark.parametrize("radius", ["near2", "near3"])
def test_em_over_near_states_never_lowers_the_objective(radius):
    data = binary_factors(400, m=15, d=6, sigma=0.5, random_state=4)
    rng = np.random.default_rng(0)
    steps = SwitchSteps(data.X, float((data.X**2).sum()), 15, radius)
    start = initial_params(data.W + 0.4 * rng.standard_normal(data.W.shape), np.full(6, 0.4), 0.5)
    path = np.array(em(steps, start, max_iter=40, tol=0.0).path)
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


def test_many_switches_by_near_states():
    """Beyond the tables of the split form; the answer is still near the truth."""
    data = binary_factors(3000, m=40, d=17, sigma=0.05, random_state=0)
    start = initial_params(data.W, data.h.mean(axis=0), 0.01)
    refined = refine_switches(data.X, start, max_iter=4)
    assert matched(data.W, refined.params.W)[1] < 0.1
    assert (np.diff(refined.path) >= -1e-9 * abs(refined.path[0])).all()
    order = matched(data.W, refined.params.W)[0]
    assert (most_likely(data.X, refined.params)[:, order] == data.h).mean() > 0.999  # a search beyond 16 switches
    assert np.abs(posterior(data.X, refined.params)[0][:, order] - data.h).mean() < 1e-3


# ---------------------------------------------------------- equivariance


def test_permutations_permute_the_answer():
    data = binary_factors(1500, m=10, d=3, sigma=0.2, random_state=7)
    rng = np.random.default_rng(0)
    rows, features = rng.permutation(1500), rng.permutation(10)
    one = BinaryFactors(3).fit(data.X)
    two = BinaryFactors(3).fit(data.X[rows][:, features])
    np.testing.assert_allclose(two.components_, one.components_[:, features], atol=1e-6)
    np.testing.assert_allclose(two.transform(data.X[:, features]), one.transform(data.X), atol=1e-6)


def test_weights_scale_with_the_data():
    data = binary_factors(1500, m=10, d=3, sigma=0.2, random_state=7)
    one, two = BinaryFactors(3).fit(data.X), BinaryFactors(3).fit(1000 * data.X)
    np.testing.assert_allclose(two.components_, 1000 * one.components_, rtol=1e-5, atol=1e-3)
    assert two.noise_ == pytest.approx(1000 * one.noise_, rel=1e-6)


def test_a_row_alone_or_in_a_batch_gets_the_same_result():
    data = binary_factors(700, m=8, d=4, sigma=0.3, random_state=1)
    model = BinaryFactors(4).fit(data.X)
    together, hard = model.transform(data.X), model.predict(data.X)
    alone = np.concatenate([model.transform(data.X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(alone, together[:20], atol=1e-12)
    assert np.array_equal(np.concatenate([model.predict(data.X[i : i + 1]) for i in range(20)]), hard[:20])
    assert float(model.score_samples(data.X).sum()) == pytest.approx(model.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(together.mean(axis=0), model.switch_probabilities_, atol=0.01)  # the fitted values


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "words"])
def test_frames_of_every_kind(kind):
    X = binary_factors(400, m=6, d=2, sigma=0.1, random_state=0).X
    frame = pd.DataFrame(X, columns=[*"abcdef"])
    given_ = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pl.from_pandas(frame).to_arrow(),
        "words": frame.astype(str),
    }[kind]
    model = BinaryFactors(2).fit(given_)
    np.testing.assert_allclose(model.components_, BinaryFactors(2).fit(X).components_, atol=1e-9)
    assert model.feature_names_in_.tolist() == [*"abcdef"]
    drawn = model.sample(5, random_state=1)
    assert type(drawn).__module__.split(".")[0] == {"arrow": "pyarrow", "words": "pandas"}.get(kind, kind)
    assert model.get_feature_names_out().tolist() == ["binaryfactors0", "binaryfactors1"]


def test_rows_add_up_and_pickles_hold_no_rows():
    data = binary_factors(500, m=6, d=2, sigma=0.05, random_state=0)
    model = BinaryFactors(2).fit(data.X)
    assert np.abs(model.inverse_transform(model.predict(data.X)) - data.X).max() < 0.5
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "_matrix")
    assert again.report_.verdict == model.report_.verdict
    with pytest.raises(DataError, match=r"switches must have shape \(n_samples, 2\)"):
        model.inverse_transform(np.ones((3, 5)))


# ---------------------------------------------------------------- errors


def small():
    return binary_factors(60, m=5, d=2, sigma=0.1, random_state=0).X


def with_cell(X, value):
    X = X.copy()
    X[1, 2] = value
    return X


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda X: with_cell(X, np.nan), {"engine": "stream"}, "feature 2 holds a missing value .* in row 2, 1 such"),
        (lambda X: with_cell(X, np.inf), {}, "feature 2 holds inf in row 2, 1 such"),
        (lambda X: X * 0 + 3, {}, "all 5 features are the same in all 60 rows"),
        (lambda X: X[:1], {}, "1 sample"),
        (lambda X: X, {"n_components": 0}, "from 1 to 20"),
        (lambda X: X, {"n_components": 21}, "from 1 to 20"),
        (lambda X: X, {"search": "homotopy"}, "search must be one of auto, newton, power, independent"),
        (lambda X: X, {"filter": "best"}, "filter must be one of auto, ks, rounding, exact"),
        (lambda X: X, {"refine": "sgd"}, "refine must be one of em, wls, als or None"),
        (lambda X: X, {"noise": -1.0}, "noise must be a standard deviation >= 0 or None"),
        (lambda X: X, {"engine": "abacus"}, "must be one of"),
        (lambda X: pd.DataFrame({"a": ["x"] * 60, "b": X[:, 0]}), {}, "feature 'a' holds 'x' in row 1, no number"),
        (lambda X: pd.DataFrame(index=range(60)), {}, "no features|0 feature"),
    ],
)
def test_bad_input_gets_one_sentence(change, options, words):
    with pytest.raises(ValueError, match=words):
        BinaryFactors(**options).fit(change(small()))


def test_more_switches_than_features_or_rank():
    with pytest.raises(NotIdentifiableError, match="n_components must be at most 5 for 5 features that change, got 7"):
        BinaryFactors(7).fit(small())
    X = small()
    with pytest.raises(NotIdentifiableError, match="n_components must be at most 2 for data of rank 2, got 4"):
        BinaryFactors(4).fit(np.hstack([X[:, :2], X[:, :2] * 2, X[:, :1] + X[:, 1:2]]))


def test_constant_features_are_set_aside_with_a_warning():
    X = small()
    with pytest.warns(DataWarning, match="1 features never change \\(3\\)"):
        model = BinaryFactors(2).fit(np.insert(X, 3, 4.0, axis=1))
    assert (model.components_[:, 3] == 0).all()
    np.testing.assert_allclose(np.delete(model.components_, 3, axis=1), BinaryFactors(2).fit(X).components_)


def test_as_many_switches_as_features_and_fewer_rows_than_features():
    X = binary_factors(2000, m=3, d=3, sigma=0.05, random_state=1).X
    model = BinaryFactors(3).fit(X)
    assert model.report_.verdict != "ok"  # noise cannot be told apart from the switches
    wide = binary_factors(40, m=120, d=2, sigma=0.1, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert BinaryFactors().fit(wide.X).n_components_ == 2


def test_read_matrix_takes_lists():
    assert read_matrix([[1, 2], [3, 4]]).values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_simulation_refuses_nonsense():
    with pytest.raises(DataError, match="n, m and d must be at least 1"):
        binary_factors(10, m=0)


# ------------------------------------------------------------ model file


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("weights", lambda a: a[:, :-1].copy()),
        ("weights", lambda a: a.reshape(-1)),
        ("log_prior", lambda a: a[:-1].copy()),
        ("log_prior", lambda a: a + 0.5),
        ("objective_path", lambda a: a[:0]),
        ("names", lambda v: v[:-1]),
        ("names", lambda v: [v[0]] * len(v)),
        ("names", lambda v: [None] * len(v)),
        ("kept", lambda v: [-1, *v[1:]]),
        ("kept", lambda v: v[::-1]),
        ("sigma2", lambda v: -v),
        ("sigma2", lambda v: "small"),
        ("noise", lambda v: None),
        ("verdict", lambda v: "perhaps"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path, part, change):
    model = BinaryFactors(2).fit(small())
    model.save(tmp_path / "good.latent")
    file = read_model(tmp_path / "good.latent")
    arrays, metadata = dict(file.arrays), dict(file.metadata)
    holder = arrays if part in arrays else metadata
    holder[part] = change(holder[part])
    write_model(tmp_path / "bad.latent", file.name, arrays, metadata)
    with pytest.raises(ModelFileError, match="inconsistent BinaryFactors model"):
        latentfit.load(tmp_path / "bad.latent")


def test_the_warning_of_a_feature_that_counts_the_rows_points_at_the_line_of_the_fit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "row": np.arange(40)})
    with pytest.warns(DataWarning, match="feature 'row' counts the rows, so it identifies rows") as told:
        BinaryFactors(1).fit(rows)
    assert {one.filename for one in told if "counts the rows" in str(one.message)} == {__file__}


@pytest.mark.parametrize("noise", [None, 0.0])
def test_rows_without_noise_are_not_said_to_need_more_iterations(noise):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        switches = (rng.random((1_000, 4)) < [0.2, 0.35, 0.6, 0.3]).astype(float)
        weights = rng.normal(size=(4, 12))
        model = BinaryFactors(noise=noise).fit(switches @ weights)
        assert model.converged_
        assert model.report_.verdict == "ok"
        assert np.abs(model.components_[:, None] - weights).max(axis=2).min(axis=1).max() < 1e-5


def test_notes_do_not_say_that_switches_exclude_one_another_when_they_do_not():
    rng = np.random.default_rng(0)
    switches = rng.random((800, 3)) < 0.3
    model = BinaryFactors().fit(switches @ rng.normal(size=(3, 8)) + 0.1 * rng.normal(size=(800, 8)))
    assert (model.predict(switches @ model.components_).sum(axis=1) > 1).mean() > 0.1
    assert not any("at most one switch is on" in note for note in model.report_.notes)
