"""What independent users found wrong with clusters: each test failed before it was mended."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from latentfit import BernoulliMixture, load
from latentfit.core.errors import DataError

CHEATING = {"0000": 207, "0001": 46, "0010": 7, "0011": 5, "0100": 13, "0101": 4, "0110": 1, "0111": 2,
            "1000": 10, "1001": 3, "1010": 1, "1011": 2, "1100": 11, "1101": 4, "1110": 1, "1111": 2}  # fmt: skip
"""Four questions about cheating to 319 students (Dayton 1998), in the order LIEEXAM, LIEPAPER, FRAUD, COPYEXAM."""


def one_class(seed, n=3_000, columns=15, probability=0.1):
    """Independent columns; rows of zeros are dropped, as registers and baskets do."""
    rows = np.random.default_rng(seed).random((3 * n, columns)) < probability
    return rows[rows.any(axis=1)][:n].astype(int)


def survey():
    rows = np.array([[int(cell) for cell in row] for row in CHEATING])
    return pd.DataFrame(np.repeat(rows, list(CHEATING.values()), axis=0), columns=["EXAM", "PAPER", "FRAUD", "COPY"])


def mostly_noise():
    """Ten columns tell two clusters apart, two hundred say nothing."""
    rng = np.random.default_rng(1)
    kind = rng.integers(2, size=500)
    rows = rng.random((500, 10)) < np.where(kind, 0.85, 0.15)[:, None]
    return np.column_stack([rows, rng.random((500, 200)) < 0.5]).astype(int)


def eight_clusters(n=1_600, seed=0):
    rng = np.random.default_rng(seed)
    often = rng.choice([0.05, 0.95], size=(8, 30))
    return (rng.random((n, 30)) < often[rng.integers(8, size=n)]).astype(int)


# ------------------------------------------------------- columns set aside


@pytest.mark.parametrize("seed", range(4))
def test_no_column_of_one_class_is_set_aside_when_rows_of_zeros_were_dropped(seed):
    model = BernoulliMixture(random_state=seed, n_jobs=1).fit(one_class(seed))
    assert len(model.copies_) == len(model.local_dependence_) == 0
    assert model.report_.verdict == "caution"  # the rows as they are do look like many clusters
    assert any("fit with truncated=True" in reason for reason in model.report_.reasons)


def test_two_questions_that_correlate_by_less_than_half_are_both_in_the_model():
    rows = survey()
    model = BernoulliMixture(n_jobs=1).fit(rows)
    assert len(model.copies_) == 0
    assert model.n_components_ == 2
    given = BernoulliMixture(2, n_jobs=1).fit(rows)
    assert len(given.local_dependence_) == 0  # nothing to choose
    assert np.abs(model.weights_ - given.weights_).max() < 0.02
    assert model.log_likelihood_ == pytest.approx(given.log_likelihood_, abs=0.1)
    for column, source, correlation in model.local_dependence_.itertuples(index=False):
        assert 0.25 < abs(correlation) < 0.8
        assert model.report_.verdict == "caution"
        assert any(f"differ in {column!r} and {source!r} alone" in reason for reason in model.report_.reasons)


def test_a_column_that_depends_on_another_is_in_the_model_and_makes_no_cluster(tmp_path):
    rng = np.random.default_rng(5)
    kind = rng.integers(2, size=2_000)
    rows = (rng.random((2_000, 16)) < np.where(kind, 0.75, 0.25)[:, None]).astype(int)
    rows[:, 15] = np.where(rng.random(2_000) < 0.6, rows[:, 14], rows[:, 15])
    frame = pd.DataFrame(rows, columns=[f"c{n:02d}" for n in range(16)])
    model = BernoulliMixture(n_jobs=1).fit(frame)
    assert model.n_components_ == 2
    assert len(model.copies_) == 0
    (pair,) = model.local_dependence_.itertuples(index=False)
    assert set(pair[:2]) == {"c14", "c15"}
    assert model.frequencies_.shape == (2, 16)
    assert len(model.profiles_) == 16
    np.testing.assert_allclose(np.sort(model.frequencies_[:, 15]), [0.25, 0.75], atol=0.05)
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    assert model.selection_["statistical"] == 2
    model.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.local_dependence_["column"].to_pylist() == [pair[0]]
    as_it_is = BernoulliMixture(screen=False, n_jobs=1).fit(frame)
    assert as_it_is.selection_["statistical"] > 2


def test_many_near_duplicates_are_a_reason_for_caution():
    rng = np.random.default_rng(0)
    rows = (rng.random((600, 10)) < 0.4).astype(int)
    rows = np.column_stack([rows, rows[:, :4]])
    model = BernoulliMixture(n_jobs=1).fit(rows)
    assert model.n_components_ == 1
    assert len(model.copies_) == 4
    assert model.report_.verdict == "caution"
    assert any("4 of 14 columns were set aside" in reason for reason in model.report_.reasons)
    assert model.report_.quantities["near_duplicates"]


def test_the_screen_can_be_turned_off_also_for_a_given_number():
    rows = mostly_noise()
    rows = np.column_stack([rows, rows[:, 0]])
    on, off = (BernoulliMixture(2, screen=screen, n_jobs=1).fit(rows) for screen in (True, False))
    assert len(on.copies_) == 1
    assert len(on.noninformative_) > 0
    assert len(off.copies_) == len(off.noninformative_) == 0
    assert len(off.profiles_) == 211
    with pytest.raises(DataError, match="screen must be a bool, got 'no'; give True or False"):
        BernoulliMixture(screen="no").fit(rows)


@pytest.mark.parametrize("seed", range(4))
def test_two_strong_columns_and_a_weak_one_are_no_duplicates(seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=2_000)
    often = np.array([[0.05, 0.05, 0.3], [0.95, 0.95, 0.7]])
    model = BernoulliMixture(random_state=seed, n_jobs=1).fit((rng.random((2_000, 3)) < often[kind]).astype(int))
    assert model.n_components_ == 2
    assert len(model.copies_) == 0


def test_noninformative_columns_are_kept_as_such_and_not_found_again_by_equal_numbers(tmp_path):
    model = BernoulliMixture(n_jobs=1).fit(mostly_noise())
    noninformative = model.noninformative_
    assert len(noninformative) > 100
    model.save(tmp_path / "m.latent")
    assert load(tmp_path / "m.latent").noninformative_ == noninformative
    model.frequencies_ = model.frequencies_ + np.array([[0.0], [1e-15]])
    assert model.noninformative_ == noninformative


# ------------------------------------------------------------- the ceiling


def test_a_path_that_ends_at_its_limit_is_reported():
    rows = eight_clusters()
    model = BernoulliMixture(max_components=4, n_jobs=1).fit(rows)
    assert model.n_components_ == 4
    assert model.report_.verdict == "caution"
    assert any("search limit (4) was reached" in reason and "max_comp" in reason for reason in model.report_.reasons)
    assert model.report_.quantities["limit_reached"]
    assert any("max_components=4" in note for note in model.report_.notes)
    free = BernoulliMixture(n_jobs=1).fit(rows)
    assert free.n_components_ == 8
    assert not free.report_.quantities["limit_reached"]
    given = BernoulliMixture(4, n_jobs=1).fit(rows)
    assert not given.report_.quantities["limit_reached"]  # the user's own number


# ----------------------------------------------------------- one class alone


def test_one_class_of_fifty_columns_is_not_split():
    """A few rows that are alike by chance had a cluster of their own in a tenth of such tables."""
    split = 0
    for seed in range(12):
        rng = np.random.default_rng([2, 50, 2_000, seed])
        rows = (rng.random((2_000, 50)) < 0.5).astype(int)
        split += BernoulliMixture(random_state=seed, n_jobs=1).fit(rows).n_components_ > 1
    assert split <= 1  # before: 4 of these 12


# ---------------------------------------------------------- sparse matrices


@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array"])
def test_a_sparse_matrix_is_read_as_the_full_one(form):
    rows = eight_clusters(400)
    sparse = getattr(sp, form)(rows)
    full, same = (BernoulliMixture(3, n_jobs=1).fit(data) for data in (rows, sparse))
    np.testing.assert_array_equal(full.labels_, same.labels_)
    np.testing.assert_array_equal(full.frequencies_, same.frequencies_)
    np.testing.assert_array_equal(full.predict_proba(rows), same.predict_proba(sparse))


def test_a_stored_nan_is_missing_and_a_stored_zero_is_zero():
    rows = eight_clusters(200).astype(float)
    rows[3, 4] = np.nan
    sparse = sp.csr_array(rows)
    sparse.data[7] = 0.0
    full = sparse.toarray()
    for engine in ("memory", "stream"):
        one, two = (BernoulliMixture(2, n_jobs=1, engine=engine).fit(data) for data in (full, sparse))
        np.testing.assert_array_equal(one.frequencies_, two.frequencies_)
    with pytest.raises(DataError, match="cannot be cut by binarize=; give X > threshold"):
        BernoulliMixture(2, binarize=0.0).fit(sparse)


def test_a_sparse_matrix_of_other_numbers_is_refused():
    with pytest.raises(DataError, match="holds 3"):
        BernoulliMixture(2).fit(sp.csr_array(np.array([[0, 3], [1, 0], [0, 1]])))


def test_a_sparse_matrix_that_memory_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr("latentfit.clusters.estimator.free_memory", lambda: 1_000)
    with pytest.raises(DataError, match="too much for the free memory; leave out rare columns"):
        BernoulliMixture(2).fit(sp.csr_array(np.eye(100)))


@pytest.mark.parametrize("n_copies", [1, 2, 4])
@pytest.mark.parametrize("n_columns", [6, 10, 20])
def test_equal_columns_are_set_aside_however_many(n_columns, n_copies):
    """Three equal columns or more explain one another, so none stood out, and their two values became clusters."""
    rng = np.random.default_rng(n_columns)
    kind = rng.integers(3, size=1000)
    often = rng.choice([0.15, 0.85], (3, n_columns))
    table = pd.DataFrame((rng.random((1000, n_columns)) < often[kind]).astype(int)).add_prefix("v")
    copies = {f"w{n}": (1 - table["v0"] if n == 1 else table["v0"]) for n in range(n_copies)}
    alone, both = BernoulliMixture().fit(table), BernoulliMixture().fit(table.assign(**copies))
    assert sorted(both.copies_["column"]) == sorted(copies)
    assert set(both.copies_["copies"]) == {"v0"}
    assert both.n_components_ == alone.n_components_
    assert sorted(BernoulliMixture(3).fit(table.assign(**copies)).copies_["column"]) == sorted(copies)


def test_columns_that_are_equal_because_they_are_the_clusters_stay():
    """Four kinds of rows that never stray: eight columns, two of them different, and four clusters."""
    kind = np.arange(400) % 4
    table = pd.DataFrame({f"q{n}": (kind >> n % 2) & 1 for n in range(8)})
    model = BernoulliMixture().fit(table)
    assert len(model.copies_) == 0
    assert model.n_components_ == 4


def test_rare_columns_that_are_equal_by_chance_stay():
    rng = np.random.default_rng(0)
    table = pd.DataFrame((rng.random((500, 12)) < 0.4).astype(int)).add_prefix("v")
    rare = np.zeros(500, int)
    rare[[3, 70, 200]] = 1
    assert len(BernoulliMixture().fit(table.assign(x=rare, y=rare, z=rare)).copies_) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_truncated_fit_ends_at_its_maximum(seed):
    """A slow EM run: EM that stopped at small steps ended 1 to 2 nats below, with half of the rows of zeros."""
    rng = np.random.default_rng(seed)
    rare = rng.random((40_000, 1)) < 0.9
    rows = (rng.random((40_000, 8)) < np.where(rare, 0.01, 0.5)).astype(int)
    rows = rows[rows.any(axis=1)]
    model = BernoulliMixture(2, truncated=True, smoothing=0).fit(rows)
    further = BernoulliMixture(2, truncated=True, smoothing=0, tol=1e-12, max_iter=5_000).fit(rows)
    assert model.converged_
    assert model.log_likelihood_ == pytest.approx(further.log_likelihood_, abs=0.03)
    assert model.n_unseen_ == pytest.approx(further.n_unseen_, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_the_last_fit_ends_at_its_maximum(seed):
    """Two clusters: three of four columns are not identified, and a likelihood without a peak has no place to end."""
    model = BernoulliMixture(2, smoothing=0, screen=False, random_state=seed).fit(survey())
    further = BernoulliMixture(2, smoothing=0, screen=False, random_state=seed, tol=1e-12).fit(survey())
    assert model.log_likelihood_ == pytest.approx(further.log_likelihood_, abs=0.003)


def test_rows_with_a_single_one_do_not_tell_how_many_were_not_recorded():
    """Categories that exclude one another: the likelihood rises as ever more rows are said to be missing."""
    rows = np.eye(5)[np.random.default_rng(0).integers(5, size=300)]
    report = BernoulliMixture(truncated=True).fit(rows).report_
    assert report.verdict == "caution"
    assert any("rows have two 1s or more" in reason for reason in report.reasons)
    some = one_class(0)
    quantities = BernoulliMixture(truncated=True).fit(some).report_.quantities
    assert quantities["rows_with_two_ones"] == (some.sum(axis=1) > 1).sum()


@pytest.mark.parametrize("pair", [("f", "m"), ("F", "M"), (1, 2), ("female", "male")])
def test_two_values_of_a_survey_are_read_whatever_they_spell(pair):
    rng = np.random.default_rng(0)
    rows = rng.random((300, 6)) < np.where(rng.random((300, 1)) < 0.5, 0.15, 0.85)
    with pytest.warns(UserWarning, match="the later one in order counts as yes"):
        model = BernoulliMixture(2).fit(pd.DataFrame(np.where(rows, pair[1], pair[0]), dtype=object))
    expected = BernoulliMixture(2).fit(rows.astype(int))
    np.testing.assert_allclose(model.frequencies_, expected.frequencies_, atol=0.01)


def test_columns_that_are_refused_get_advice_that_fits():
    """The codes 1 and 2: --missing 2 would have emptied every column, --missing j every yes."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.integers(1, 3, (60, 4))).add_prefix("q")
    with pytest.raises(DataError, match=r"'q4' holds 2 alone, .*; leave the column out \(--drop q4\)") as found:
        BernoulliMixture(2).fit(rows.assign(q4=2))
    assert "--missing" not in str(found.value)
    with pytest.raises(DataError, match="holds 'j' in row 1 beside 'n', which means no; recode the two as 0/1"):
        BernoulliMixture(2).fit(rows.assign(q4=["j", "n"] * 30))
    with pytest.warns(UserWarning, match="counts as yes"):
        model = BernoulliMixture(2).fit(rows)
    with pytest.raises(DataError, match="the model knows 1 and 2 there; write its cells as when the model was fitted"):
        model.predict(rows - 1)


def test_text_that_spells_numbers_is_ordered_by_value():
    """As a file is: '10' was no beside '2' in a frame of text, and yes in a file."""
    rows = np.random.default_rng(0).random((100, 3)) < 0.3
    with pytest.warns(UserWarning, match=r"counts as yes \('x0': '10', 'x1': '10', 'x2': '10'\)"):
        model = BernoulliMixture(1).fit(pd.DataFrame(np.where(rows, "10", "2")).add_prefix("x"))
    np.testing.assert_allclose(model.frequencies_[0], rows.mean(axis=0), atol=0.02)
    assert (model.predict(pd.DataFrame(np.where(rows, 10, 2)).add_prefix("x")) == 0).all()
