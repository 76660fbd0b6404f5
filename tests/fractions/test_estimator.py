"""`MixtureFractions` as a user meets it: names, gaps, orders, references, sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from latentfit import MixtureFractions, load
from latentfit.core.errors import DataError, DataWarning, ModelFileError, NotIdentifiableError
from latentfit.core.matrix import read_named_matrix
from latentfit.core.model_file import read_model, write_model


def mixed(seed=0, n=12, m=40, K=3, missing=0.0):
    rng = np.random.default_rng(seed)
    W, H = rng.dirichlet(np.full(K, 0.5), n), rng.beta(0.5, 0.5, (K, m))
    X = np.clip(W @ H + 0.02 * rng.normal(size=(n, m)), 0, 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X, W, H


def frames(seed=0, missing=0.0):
    X, W, H = mixed(seed, missing=missing)
    features, samples = [f"cg{n}" for n in range(X.shape[1])], [f"blood {n}" for n in range(len(X))]
    values = pd.DataFrame(X, columns=features, index=samples)
    reference = pd.DataFrame(H.T, columns=["B", "T", "NK"])
    reference.insert(0, "cpg", features)
    return values, reference, W


@given(st.integers(0, 500), st.floats(0, 0.3), st.booleans())
@settings(max_examples=15)
def test_training_data_transformed_are_the_fitted_values_alone_or_together(seed, missing, known):
    X, _, H = mixed(seed, missing=missing)
    model = MixtureFractions(reference=H.T) if known else MixtureFractions(3, n_init=2, max_iter=20, tol=1e-3)
    model.fit(X)
    assert np.array_equal(model.transform(X), model.fractions_)
    assert np.array_equal(model.transform(X[5:6])[0], model.fractions_[5])
    np.testing.assert_allclose(model.fractions_.sum(axis=1), 1, atol=1e-12)
    assert (model.fractions_ >= 0).all()
    assert ((model.profiles_ >= 0) & (model.profiles_ <= 1)).all()


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("constraint", ["sum_to_one", "sum_at_most_one", "nonnegative"])
def test_every_constraint_gives_its_own_least_squares(constraint, missing, tmp_path):
    X, _, H = mixed(3, missing=missing)
    X = np.clip(X * np.linspace(0.6, 1.3, len(X))[:, None], 0, 1)
    model = MixtureFractions(reference=H.T, constraint=constraint).fit(X)
    for x, found in zip(X, model.fractions_, strict=True):
        seen = ~np.isnan(x)
        if constraint == "nonnegative":
            expected = nnls(H[:, seen].T, x[seen])[0]
        else:  # a heavy row holds the sum; a part of zeros takes what may be lacking
            parts = H[:, seen].T
            if constraint == "sum_at_most_one":
                parts = np.column_stack([parts, np.zeros(seen.sum())])
            heavy = np.vstack([parts, np.full(parts.shape[1], 1e4)])
            expected = nnls(heavy, np.append(x[seen], 1e4))[0][:3]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.array_equal(model.transform(X), model.fractions_)
    model.save(tmp_path / "model.latent")
    assert np.array_equal(load(tmp_path / "model.latent").transform(X), model.fractions_)
    assert model.report_.quantities["constraint"] == constraint
    assert model.report_.quantities["mean_sum"] == pytest.approx(model.fractions_.sum(axis=1).mean())
    told = any("fractions of a sample are at least zero and" in note for note in model.report_.notes)
    assert told == (constraint != "sum_to_one")


def test_a_reference_that_lacks_a_part_is_better_met_by_a_sum_of_at_most_one():
    errors = {"sum_to_one": [], "sum_at_most_one": [], "nonnegative": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        W, H = 0.7 * rng.dirichlet(np.ones(3), 30), rng.beta(0.5, 0.5, (4, 200))
        X = np.clip(W @ H[:3] + 0.3 * H[3] + 0.02 * rng.normal(size=(30, 200)), 0, 1)
        for constraint, found in errors.items():
            fitted = MixtureFractions(reference=H[:3].T, constraint=constraint).fit(X)
            found.append(np.abs(fitted.fractions_ - W).mean())
    assert np.mean(errors["sum_to_one"]) == pytest.approx(0.1)  # the three share out what is not theirs
    assert np.mean(errors["sum_at_most_one"]) < 0.095
    assert np.mean(errors["nonnegative"]) < 0.095


@given(st.integers(0, 100))
@settings(max_examples=6)
def test_permuting_samples_and_features_permutes_the_answer(seed):
    X, _, _ = mixed(seed, missing=0.05)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(X.shape[0]), rng.permutation(X.shape[1])
    one = MixtureFractions(3, n_init=3).fit(X)
    two = MixtureFractions(3, n_init=3).fit(X[np.ix_(rows, columns)])
    np.testing.assert_allclose(two.fractions_, one.fractions_[rows], atol=1e-8)
    np.testing.assert_allclose(two.profiles_, one.profiles_[:, columns], atol=1e-8)


def test_the_number_chosen_follows_a_permutation():
    X, _, _ = mixed(4, n=16)
    one = MixtureFractions(n_init=2).fit(X)
    two = MixtureFractions(n_init=2).fit(X[::-1, ::-1])
    assert one.n_components_ == two.n_components_ == 3
    assert one.selection_["errors"] == pytest.approx(two.selection_["errors"], rel=1e-12)
    assert "3 parts predict left-out cells best" in str(one.report_)


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_a_feature_without_values_changes_nothing_else():
    X, _, _ = mixed(1, missing=0.1)
    wide = np.insert(X, 7, np.nan, axis=1)
    one, two = (MixtureFractions(3, n_init=2).fit(each) for each in (X, wide))
    np.testing.assert_allclose(one.fractions_, two.fractions_, atol=1e-12)
    assert 7 not in two.features_
    assert np.array_equal(two.transform(wide), two.fractions_)
    with pytest.warns(DataWarning, match="1 features hold no value, 7 first, and were set aside"):
        MixtureFractions(3, n_init=1).fit(wide)


def test_a_sample_without_values_gets_the_mean():
    X, _, H = mixed(2)
    X[4] = np.nan
    for model in (MixtureFractions(reference=H.T), MixtureFractions(3, n_init=2)):
        model.fit(X)
        assert np.array_equal(model.fractions_[4], model.weights_)
        assert np.array_equal(model.transform(X), model.fractions_)
        assert "1 samples have no value at all" in " ".join(model.report_.reasons)
    np.testing.assert_allclose(model.weights_, np.delete(model.fractions_, 4, axis=0).mean(axis=0), atol=1e-12)


def test_names_of_every_frame_are_kept():
    values, reference, W = frames()
    named = values.reset_index(names="sample")
    given = [values, pl.from_pandas(named), pa.Table.from_pandas(named, preserve_index=False)]
    kinds = [pd.DataFrame, pl.DataFrame, pa.Table]
    for data, kind in zip(given, kinds, strict=True):
        model = MixtureFractions(reference=reference).fit(data)
        assert model.samples_.tolist() == values.index.tolist()
        assert model.parts_.tolist() == ["B", "T", "NK"]
        assert list(model.get_feature_names_out()) == ["B", "T", "NK"]
        assert np.abs(model.fractions_ - W).mean() < 0.02
        assert isinstance(model.fraction_table_, kind)
        table = model.fraction_table_
        assert list(getattr(table, "column_names", getattr(table, "columns", None))) == ["sample", "part", "fraction"]
        assert isinstance(model.profile_table_, kind)


def test_features_are_matched_by_name():
    values, reference, _ = frames()
    whole = MixtureFractions(reference=reference).fit(values)
    shuffled = reference.sample(frac=1, random_state=0)
    assert np.allclose(MixtureFractions(reference=shuffled).fit(values).fractions_, whole.fractions_, atol=1e-12)
    indexed = MixtureFractions(reference=shuffled.set_index("cpg")).fit(values)
    assert np.allclose(indexed.fractions_, whole.fractions_, atol=1e-12)
    fewer = MixtureFractions(reference=reference.iloc[:25]).fit(values)
    assert fewer.features_ == tuple(reference["cpg"][:25])
    assert "25 of 40 features are in the reference" in str(fewer.report_)
    hole = reference.copy()
    hole.loc[3, "T"] = np.nan
    assert len(MixtureFractions(reference=hole).fit(values).features_) == 39
    assert np.allclose(whole.transform(values[values.columns[::-1]]), whole.fractions_, atol=1e-12)
    assert np.allclose(whole.transform(values.to_numpy()), whole.fractions_, atol=1e-12)


def test_profiles_serve_as_a_reference():
    values, _, _ = frames()
    blind = MixtureFractions(3, n_init=2).fit(values)
    again = MixtureFractions(reference=blind.profile_table_).fit(values)
    np.testing.assert_allclose(again.fractions_, blind.fractions_, atol=1e-12)


def test_verdicts_of_fractions():
    values, reference, _ = frames()
    assert MixtureFractions(reference=reference).fit(values).report_.verdict == "ok"
    twin = reference.assign(copy=reference["B"])
    report = MixtureFractions(reference=twin).fit(values).report_
    assert report.verdict == "not identifiable"
    assert "its nearest is 'copy'" in report.reasons[0] or "its nearest is 'B'" in report.reasons[0]
    strange = MixtureFractions(reference=reference.assign(B=1 - reference["B"], T=0.5)).fit(values).report_
    assert any("leaves ±" in reason for reason in strange.reasons)
    rng = np.random.default_rng(0)
    dull = np.clip(rng.dirichlet(np.full(3, 20.0), 12) @ rng.uniform(0.2, 0.8, (3, 40)), 0, 1)
    report = MixtureFractions(3, n_init=2).fit(dull).report_
    assert report.verdict != "ok"
    assert any("Other profiles explain the values as well" in reason for reason in report.reasons)


REFUSED = [
    (lambda X, H: MixtureFractions().fit(100 * X), "divide percents by 100"),
    (lambda X, H: MixtureFractions().fit(np.where(X[0, 0] == X, np.inf, X)), "infinite number in column 0, row 1"),
    (lambda X, H: MixtureFractions().fit(np.full((3, 4), np.nan)), "every cell is missing"),
    (lambda X, H: MixtureFractions().fit(X[0]), "give a frame or a matrix"),
    (lambda X, H: MixtureFractions().fit([["a", "b"], ["c", "d"]]), "must hold numbers only"),
    (
        lambda X, H: MixtureFractions(init="best").fit(X),
        "init must be 'auto', 'random' or 'tensor' and n_init >= 1, got 'best'",
    ),
    (lambda X, H: MixtureFractions(n_init=0).fit(X), "n_init >= 1, got 'auto' and 0"),
    (lambda X, H: MixtureFractions(2, reference=H.T).fit(X), "parts of the reference (3), got 2; give one of"),
    (lambda X, H: MixtureFractions(reference=H).fit(X), "X has 40 features and the reference 3"),
    (lambda X, H: MixtureFractions(reference=H.T).fit(X).transform(X[:, 1:]), "X has 39 features, the model"),
    (lambda X, H: MixtureFractions(reference=2 * H.T).fit(X), "the reference holds"),
    (lambda X, H: MixtureFractions(engine="dask").fit(X), "engine of MixtureFractions must be one of"),
]


@pytest.mark.parametrize(("act", "sentence"), REFUSED, ids=[sentence[:25] for _, sentence in REFUSED])
def test_what_is_refused_and_how(act, sentence):
    X, _, H = mixed()
    with pytest.raises(DataError) as caught:
        act(X, H)
    assert sentence in str(caught.value)


def test_more_parts_than_samples_or_names_that_do_not_meet():
    X, _, _ = mixed()
    with pytest.raises(NotIdentifiableError, match="an int from 1 to 12 for 12 samples and 40 features, got 13"):
        MixtureFractions(13).fit(X)
    values, reference, _ = frames()
    with pytest.raises(DataError, match="no feature of X is in the reference"):
        MixtureFractions(reference=reference.assign(cpg=[f"rs{n}" for n in range(40)])).fit(values)
    model = MixtureFractions(reference=reference).fit(values)
    with pytest.raises(DataError, match="X lacks 1 of the 40 features of the fit, 'cg3' first"):
        model.transform(values.drop(columns="cg3"))
    with pytest.raises(DataError, match="text in column 'note', and only one column may name the rows"):
        read_named_matrix(values.assign(sample=values.index, note="x").reset_index(drop=True))
    with pytest.raises(DataError, match="the row 'a' twice"):
        read_named_matrix(values.set_axis(["a"] * len(values)))
    with pytest.raises(DataError, match="has no column 'id' that could name its rows"):
        read_named_matrix(values, name_column="id")
    with pytest.raises(DataError, match="no name in row 2 of column 'sample'"):
        read_named_matrix(pa.table({"sample": ["a", None], "x": [0.1, 0.2]}))
    with pytest.raises(DataError, match="no column of numbers beside 'sample'"):
        read_named_matrix(pa.table({"sample": ["a", "b"]}))


def test_numbers_spelled_as_text_and_booleans_are_numbers():
    matrix = read_named_matrix(pa.table({"id": ["a", "b"], "x": ["0.25", None], "y": [True, False], "z": [0, 1]}))
    assert matrix.row_names == ("a", "b")
    np.testing.assert_array_equal(matrix.values, [[0.25, 1, 0], [np.nan, 0, 1]])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tensor_initialisation_is_one_like_the_others():
    X, _, _ = mixed(3, n=14, m=120)
    model = MixtureFractions(3, init="tensor", n_init=1).fit(X)
    assert any("the best of 1 initialisations was tensor" in note for note in model.report_.notes)
    plain = MixtureFractions(3, init="random", n_init=3).fit(X)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-3)
    rough = MixtureFractions(3, init="tensor", n_init=1, max_iter=0).fit(X)
    assert rough.n_iter_ == 0
    assert rough.log_likelihood_ < model.log_likelihood_


def test_the_smallest_data_can_be_fitted():
    one = MixtureFractions().fit([[0.2, 0.4, 0.9]])
    assert one.fractions_.tolist() == [[1.0]]
    np.testing.assert_allclose(one.profiles_, [[0.2, 0.4, 0.9]], atol=1e-9)
    pure = MixtureFractions(2, n_init=2).fit([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    np.testing.assert_allclose(pure.fractions_ @ pure.profiles_, [[0, 1, 0], [1, 0, 1]], atol=1e-5)
    known = MixtureFractions(reference=[[0.0], [1.0]]).fit([[0.3, 0.8]])
    assert known.fractions_.tolist() == [[1.0]]
    assert known.report_.verdict in ("ok", "caution")
    constant = MixtureFractions().fit(np.full((5, 4), 0.5))
    assert constant.n_components_ == 1


def test_a_fit_that_reaches_max_iter_warns():
    from sklearn.exceptions import ConvergenceWarning

    X, _, _ = mixed()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = MixtureFractions(3, max_iter=2, n_init=1).fit(X)
    assert not model.converged_
    assert any("raise max_iter" in reason for reason in model.report_.reasons)


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    values, reference, _ = frames()
    path = tmp_path / "model.latent"
    model = MixtureFractions(reference=reference).fit(values)
    model.save(path)
    again = load(path)
    assert np.array_equal(again.transform(values), model.fractions_)
    assert again.profile_table_.num_rows == 40
    with pytest.raises(DataError, match="which a model file does not store"):
        _ = again.fraction_table_
    file = read_model(path)
    damage = [
        ({"profiles": file.arrays["profiles"] + 1}, {}),
        ({"profiles": file.arrays["profiles"][:2]}, {}),
        ({"weights": file.arrays["weights"] * 2}, {}),
        ({}, {"parts": ["B", "B", "T"]}),
        ({}, {"parts": ["B", 1.5, "T"]}),
        ({}, {"features": list(range(1, 41))}),
        ({}, {"noise": -1.0}),
        ({}, {"known": 1}),
    ]
    for arrays, metadata in damage:
        write_model(path, "MixtureFractions", file.arrays | arrays, file.metadata | metadata)
        with pytest.raises(ModelFileError, match="inconsistent MixtureFractions model"):
            load(path)


def test_an_impossible_constraint_raises_an_error():
    X, _, H = mixed()
    with pytest.raises(DataError, match=r"constraint must be one of 'sum_to_one'.*, got 'free'"):
        MixtureFractions(reference=H.T, constraint="free").fit(X)
    with pytest.raises(DataError, match="constraint must be 'sum_to_one' without a reference"):
        MixtureFractions(3, constraint="nonnegative").fit(X)


def four_parts(seed, n=60, m=300, alpha=0.5):
    rng = np.random.default_rng(seed)
    profiles, proportions = rng.beta(0.5, 0.5, (4, m)), rng.dirichlet(np.full(4, alpha), n)
    return rng, profiles, proportions


@pytest.mark.parametrize("seed", range(3))
def test_too_few_parts_are_not_trusted(seed):
    rng, profiles, proportions = four_parts(seed)
    values = np.clip(proportions @ profiles + 0.02 * rng.normal(size=(60, 300)), 0, 1)
    for K in (1, 2, 3):
        report = MixtureFractions(K).fit(values).report_
        assert report.verdict != "ok"
        assert any("ask for more parts" in reason for reason in report.reasons)
    assert MixtureFractions(4).fit(values).report_.verdict == "ok"


@pytest.mark.parametrize("lacking", [0.08, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_a_reference_that_lacks_a_little_is_not_trusted(seed, lacking):
    rng, profiles, _ = four_parts(seed)
    proportions = np.column_stack([(1 - lacking) * rng.dirichlet(np.ones(3), 60), np.full(60, lacking)])
    values = np.clip(proportions @ profiles + 0.02 * rng.normal(size=(60, 300)), 0, 1)
    report = MixtureFractions(reference=profiles[:3].T).fit(values).report_
    assert report.quantities["noise"] < 0.1
    assert any("lies in one direction" in reason for reason in report.reasons)
    assert MixtureFractions(reference=profiles.T).fit(values).report_.verdict == "ok"
    assert MixtureFractions(reference=profiles.T).fit(proportions @ profiles).report_.verdict == "ok"  # no noise at all
    assert MixtureFractions(reference=profiles[:3].T).fit(values[:1]).report_.verdict == "ok"  # one cannot tell
