"""The classifier's verdict: labels that follow are trusted, noise is not; weights count rows; real tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import LatentClassClassifier
from latentfit.core.errors import DataError
from latentfit.core.table.table import Column, Table
from latentfit.tables.data import fold_weights
from latentfit.tables.diagnostics.classifier import examine_classifier
from reproduction.table import find_data


def reported(rng, n=200, proportion=0.85, n_labels=2):
    """Labels, and five columns that repeat them with a proportion of noise."""
    label = rng.integers(0, n_labels, n)
    codes = np.where(rng.random((n, 5)) < proportion, label[:, None], rng.integers(0, n_labels, (n, 5)))
    words = np.array([f"w{n}" for n in range(n_labels)], object)
    return pd.DataFrame(words[codes], columns=list("abcde")), np.array([f"l{n}" for n in label])


@pytest.mark.parametrize("number", [None, 2])
def test_labels_that_follow_are_trusted(number):
    X, y = reported(np.random.default_rng(0))
    report = LatentClassClassifier(number).fit(X, y).report_
    figures = report.quantities["left_out"]
    assert (report.verdict, report.reasons) == ("ok", [])
    assert figures["n_rows"] == 200
    assert figures["accuracy"] > 0.9 > 0.6 > figures["frequent_accuracy"]
    assert figures["gain"] > 5 * figures["gain_error"]
    assert any("of rows left out" in note for note in report.notes)


def test_noise_is_not_trusted():
    """Labels without a cause get a caution; labels with one do not: 20 seeds each."""
    rng = np.random.default_rng(1)
    cautions = {0.2: 0, 0.85: 0}
    for _ in range(20):
        for proportion, n_labels in ((0.2, 2), (0.85, 2)):
            X, y = reported(rng, 150, proportion, n_labels)
            y = rng.permutation(y) if proportion == 0.2 else y
            report = LatentClassClassifier(n_components=1).fit(X, y).report_
            cautions[proportion] += any("no more than chance" in reason for reason in report.reasons)
    assert cautions[0.2] >= 19
    assert cautions[0.85] == 0


def test_few_rows_and_one_label_are_reported():
    rng = np.random.default_rng(2)
    X, y = reported(rng)
    y = y.astype(object)
    y[:3] = "rare"
    report = LatentClassClassifier(1).fit(X, y).report_
    assert "1 of 3 labels have fewer than 10 rows" in report.reasons[0]
    assert "'rare' (3)" in report.reasons[0]
    report = LatentClassClassifier(1).fit(X, np.repeat("x", 200)).report_
    assert report.reasons == [
        "Every label is 'x', so there is nothing to tell apart; bring rows with other labels (2 are needed)."
    ]
    report = LatentClassClassifier().fit(X[:2], np.array(["x", "y"])).report_
    assert any("too few rows to leave some out" in reason for reason in report.reasons)


def test_overconfidence_is_reported():
    """Fifty copies of one column count as fifty witnesses, so the probabilities are too sure."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 300)
    column = np.where(rng.random(300) < 0.7, label, 1 - label)
    report = LatentClassClassifier(1).fit(pd.DataFrame({f"c{n}": column for n in range(50)}), label).report_
    assert any("its probabilities are too sure" in reason for reason in report.reasons)


def test_a_frequent_unique_row_is_known_in_every_fold():
    """Two unique rows, each sixty rows: leaving rows out leaves no unique row out."""
    X, y = pd.DataFrame({"sky": ["grey", "blue"] * 60}), np.array(["rain", "sun"] * 60)
    report = LatentClassClassifier().fit(X, y).report_
    assert report.quantities["left_out"]["accuracy"] == 1
    assert report.verdict == "ok"


def test_folds_deal_all_weight_and_know_no_order():
    rng = np.random.default_rng(4)
    codes = np.unique(rng.integers(0, 4, (60, 4)).astype(np.uint8), axis=0)
    columns = tuple(Column(name, np.arange(4)) for name in "abcd")
    weight = rng.choice([0.25, 1.0, 2.0, 3.5, 7.0], len(codes))
    folds = fold_weights(Table(codes, columns, weight), 3, 0)
    np.testing.assert_allclose(folds.sum(axis=0), weight)
    order = rng.permutation(len(codes))
    assert np.array_equal(fold_weights(Table(codes[order], columns, weight[order]), 3, 0), folds[:, order])


def test_replicates_of_a_unique_row_are_left_out_one_by_one():
    """Each of the 900 rows of a unique row has a fold of its own: counts spread as chance has it, not evenly."""
    codes = np.array([[a, b, c] for a in range(8) for b in range(8) for c in range(8)], np.uint8)
    columns = tuple(Column(name, np.arange(8)) for name in "abc")
    folds = fold_weights(Table(codes, columns, np.full(len(codes), 900.0)), 3, 0)
    assert np.array_equal(folds, np.round(folds))
    assert folds.std(axis=1) == pytest.approx(np.sqrt(900 * 1 / 3 * 2 / 3), rel=0.15)
    assert folds.mean(axis=1) == pytest.approx(300, abs=3)


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_follow_from_nothing_are_not_predicted(seed):
    """Few columns, many equal rows: what is chance in the rows seen must not return in those left out."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(2000, 1))
    X = pd.DataFrame(rng.random((2000, 5)) < 0.25 + 0.5 * kind).astype(int).add_prefix("q")
    model = LatentClassClassifier().fit(X, rng.integers(2, size=2000))
    assert model.report_.verdict == "caution"
    assert any("no more than chance" in reason for reason in model.report_.reasons)
    assert model.n_components_ <= 2


def test_frequencies_are_replicated_rows_and_zero_is_absent():
    rng = np.random.default_rng(5)
    X, y = reported(rng, 80)
    weight = rng.integers(0, 4, 80)
    rows = np.repeat(np.arange(80), weight)
    one = LatentClassClassifier(weight_type="frequency").fit(X, y, sample_weight=weight)
    other = LatentClassClassifier().fit(X.iloc[rows], y[rows])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)
    assert one.selection_ == other.selection_
    assert one.report_.reasons == other.report_.reasons


def test_order_of_rows_and_columns_does_not_matter():
    rng = np.random.default_rng(6)
    X, y = reported(rng, 120, 0.7)
    rows, columns = rng.permutation(120), rng.permutation(5)
    one = LatentClassClassifier(n_jobs=1).fit(X, y)
    other = LatentClassClassifier(n_jobs=1).fit(X.iloc[rows, columns], y[rows])
    assert one.n_components_ == other.n_components_
    np.testing.assert_allclose(other.predict_proba(X.iloc[:, columns]), one.predict_proba(X), atol=1e-8)


BAD = {
    "1 of 4 labels are missing, the first in row 2": ["a", None, "b", "b"],
    "1 of 4 labels are missing, the first in row 4": [1.0, 2.0, 1.0, np.nan],
    "neither all text, all numbers nor all true or false": [b"a", b"b", b"a", b"b"],
    "all numbers nor all true or false; give one type": [1, "b", 1, "b"],
    "4 rows but 3 labels": ["a", "b", "a"],
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_labels_get_one_sentence(sentence):
    y = BAD[sentence]
    with pytest.raises(DataError, match=sentence):
        LatentClassClassifier(1).fit(pd.DataFrame({"c": list("xyxy")}), np.array(y, object))


def test_more_than_255_labels_keep_their_missing_values():
    """Codes widen to sixteen bits; a missing value must stay a missing value."""
    X = pd.DataFrame({"c": [f"w{n % 7}" for n in range(600)], "d": [None, "x", "y"] * 200})
    model = LatentClassClassifier(1).fit(X, np.arange(600) % 300)
    assert model.predict_proba(X).shape == (600, 300)
    assert [column.size for column in model._columns] == [7, 2]


BARS = {"car": 0.92, "mushroom": 0.994}


@pytest.mark.parametrize("name", sorted(BARS))
def test_untouched_on_real_tables(name):
    """Half of the rows to learn from, the other half predicted; the mean of three seeds."""
    folder = find_data()
    if folder is None or not (folder / "tables" / f"{name}.csv").exists():
        pytest.skip(f"the table {name} is not here: set LATENTFIT_DATA to the folder that holds tables/{name}.csv")
    frame = pd.read_csv(folder / "tables" / f"{name}.csv", dtype=str)
    label = frame.pop("class").to_numpy()
    right = []
    for seed in range(3):
        train, test = np.array_split(np.random.default_rng(seed).permutation(len(frame)), 2)
        model = LatentClassClassifier().fit(frame.iloc[train], label[train])
        right.append(np.mean(model.predict(frame.iloc[test]) == label[test]))
    assert np.mean(right) >= BARS[name]
    assert model.report_.verdict == "ok"
    assert abs(model.report_.quantities["left_out"]["accuracy"] - np.mean(right)) < 0.05


def test_a_category_never_observed_does_not_rule_a_label_out():
    """With smoothing a label's first meeting with a category is a surprise, not a proof; without it is one."""
    X = pd.DataFrame({"a": ["x"] * 20 + ["y"] * 20, "b": ["u", "v"] * 20, "c": ["p"] * 20 + ["q"] * 20})
    y = np.repeat(["l", "r"], 20)
    strange = pd.DataFrame({"a": ["x"], "b": ["u"], "c": ["q"]})
    membership = LatentClassClassifier(1).fit(X, y).predict_proba(strange)[0]
    np.testing.assert_allclose(membership, [0.5, 0.5], atol=1e-6)
    alone = LatentClassClassifier(1).fit(X, y)._mixture
    plain = LatentClassClassifier(1, smoothing=0).fit(X, y)._mixture
    assert alone.table.min() > 0.01
    assert plain.table.min() < 1e-9


@pytest.mark.parametrize("number", [1, 5])
def test_a_row_has_the_same_bits_alone_and_in_company(number):
    X, y = reported(np.random.default_rng(3), n_labels=3)
    X = X.mask(np.random.default_rng(4).random(X.shape) < 0.2)
    model = LatentClassClassifier(number).fit(X, y)
    together = model.predict_proba(X)
    for rows in (1, 3):
        apart = [model.predict_proba(X.iloc[begin : begin + rows]) for begin in range(0, len(X), rows)]
        np.testing.assert_array_equal(np.concatenate(apart), together)


def test_calls_may_be_better_than_probabilities():
    """Labels in groups that no column tells apart: the group is found, within it confidence is misplaced."""
    figures = {"gain": -0.2, "gain_error": 0.1, "accuracy": 0.12, "frequent_accuracy": 0.02, "accuracy_error": 0.01}
    figures |= {"claimed_accuracy": 0.12, "claim_error": 0.01, "n_rows": 100.0}
    found = examine_classifier(figures, ["a", "b"], np.array([50.0, 50.0]), converged=True)
    assert found.verdict == "caution"
    assert "use the labels, not the probabilities" in found.reasons[0]


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({}, []),
        ({"gain": 0.02}, ["labels_follow"]),  # two standard errors
        ({"claimed_accuracy": 0.85}, []),  # .03, and two standard errors
        ({"claimed_accuracy": 0.851}, ["calibrated_probabilities"]),
    ],
)
def test_checks_of_figures_on_both_sides_of_their_limits(changed, failed):
    figures = {"gain": 0.021, "gain_error": 0.01, "accuracy": 0.8, "frequent_accuracy": 0.5, "accuracy_error": 0.01}
    figures |= {"claimed_accuracy": 0.8, "claim_error": 0.01, "n_rows": 400.0} | changed
    found = examine_classifier(figures, ["a", "b"], np.array([10.0, 390.0]), converged=True)
    assert [check.name for check in found.checks if not check.passed] == failed
    assert found.expected.value == pytest.approx(0.2)
    assert found.expected.low < 0.2 < found.expected.high


def test_a_label_needs_ten_rows():
    for n, verdict in ((10.0, "ok"), (9.0, "caution")):
        figures = {"gain": 0.5, "gain_error": 0.01, "accuracy": 0.8, "frequent_accuracy": 0.5, "accuracy_error": 0.01}
        figures |= {"claimed_accuracy": 0.8, "claim_error": 0.01, "n_rows": 400.0}
        assert examine_classifier(figures, ["a", "b"], np.array([n, 390.0]), converged=True).verdict == verdict
