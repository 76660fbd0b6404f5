"""Every form of labels gives the same answer; every bad form gets one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from tacit import DawidSkene, load
from tacit.data.label_input import is_long, read_labels
from tacit.data.labels import from_long
from tacit.data.names import LONGEST_NAME, encode, match
from tacit.errors import DataError, DataWarning, NotIdentifiableError
from tacit.models.label_methods import METHODS
from tacit.moments.pairs import count_label_pairs, pair_memory
from tacit.simulate import crowd

LONG = crowd(60, 7, 3, labels_per_task=4, random_state=0).labels


def fitted(data, **kwargs):
    return DawidSkene(**kwargs).fit(data)


def test_long_frames_of_every_kind_give_the_same_answer_in_the_callers_kind():
    arrow = fitted(LONG)
    for frame, kind in ((LONG.to_pandas(), pd.DataFrame), (pl.from_arrow(LONG), pl.DataFrame), (LONG, pa.Table)):
        model = fitted(frame)
        assert np.array_equal(model.probabilities_, arrow.probabilities_)
        assert isinstance(model.tasks_, kind)
        assert isinstance(model.workers_, kind)
    assert list(fitted(LONG.to_pandas()).tasks_) == ["task", "label", "probability", "n_labels", "margin"]
    workers = ["worker", "n_labels", "accuracy", "accuracy_low", "accuracy_high", "flag"]
    assert list(fitted(LONG.to_pandas()).workers_) == workers


def test_wide_forms_give_the_same_answer_as_long():
    long = LONG.to_pandas()
    wide = long.pivot(index="task", columns="worker", values="label")
    matrix = wide.to_numpy()
    models = [
        fitted(long),
        fitted(matrix),
        fitted(np.where(np.isnan(matrix), -1, matrix).astype(int)),
        fitted(wide.rename(columns=lambda name: f"w{name}")),
        fitted(wide.rename(columns=lambda name: f"w{name}").reset_index()),
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.probabilities_, models[0].probabilities_, atol=1e-12)
    stored = sp.csr_array((long["label"] + 1, (long["task"], long["worker"])))
    np.testing.assert_allclose(fitted(stored).probabilities_, models[0].probabilities_, atol=1e-12)
    assert fitted(stored).classes_.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "names", [{"task": "item", "worker": "annotator"}, {"worker": "Judge", "label": "Answer"}, {"worker": "rater"}]
)
def test_aliases(names):
    renamed = LONG.to_pandas().rename(columns=names)
    assert is_long(renamed)
    assert np.array_equal(fitted(renamed).probabilities_, fitted(LONG).probabilities_)


def test_columns_can_be_named():
    renamed = LONG.to_pandas().rename(columns={"task": "a", "worker": "b", "label": "c"})
    columns = {"task": "a", "worker": "b", "label": "c"}
    assert np.array_equal(fitted(renamed, columns=columns).probabilities_, fitted(LONG).probabilities_)
    with pytest.raises(DataError, match=r"no column 'bb' for the worker; did you mean 'b'\?"):
        fitted(renamed, columns={**columns, "worker": "bb"})
    with pytest.raises(DataError, match="names the role 'annotator'; the roles are task, worker, label"):
        fitted(renamed, columns={"annotator": "b"})


def test_labels_come_back_in_the_users_words():
    rows = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog"), ("t2", "bob", "dog"), ("t2", "cy", "dog")]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    model = fitted(frame)
    assert model.classes_.tolist() == ["cat", "dog"]
    assert model.tasks_["task"].tolist() == ["t1", "t2"]
    assert model.labels_.tolist() == ["cat", "dog"]
    ints = fitted(frame.assign(label=[3, 3, 10, 10, 10]))
    assert ints.classes_.tolist() == [3, 10]
    bools = fitted(frame.assign(label=[True, True, False, False, False]))
    assert bools.labels_.tolist() == [True, False]


def test_user_order_of_categories_is_kept():
    frame = LONG.to_pandas()
    words = pd.Categorical(frame["label"].map({0: "low", 1: "mid", 2: "high"}), ["low", "mid", "high"], ordered=True)
    assert fitted(frame.assign(label=words)).classes_.tolist() == ["low", "mid", "high"]


def test_abstentions_and_gaps_are_not_labels():
    rows = [("a", "x", "yes"), ("a", "y", ""), ("a", "z", "yes"), ("b", "x", "no"), ("b", "y", "no"), ("b", "z", None)]
    labels = read_labels(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert labels.n_labels == 4
    assert labels.class_names.tolist() == ["no", "yes"]
    skipped = read_labels(pd.DataFrame(rows, columns=["task", "worker", "label"]), abstain=("no",))
    assert skipped.class_names.tolist() == ["", "yes"]


def test_repeated_rows_the_last_wins_with_one_warning():
    rows = [("a", "x", 0), ("a", "y", 0), ("a", "x", 1), ("b", "x", 1), ("b", "y", 1), ("b", "y", 0)]
    with pytest.warns(DataWarning, match=r"2 labels repeat a \(task, worker\) pair.*the last one wins"):
        labels = from_long(*zip(*rows, strict=True))
    assert labels.n_labels == 4
    assert labels.given.tolist() == [1, 0, 1, 0]


def test_mixed_types_are_names_like_in_a_file():
    codes, names = encode([1, "1", "b", None], "label")
    assert codes.tolist() == [0, 0, 1, -1]
    assert names.tolist() == ["1", "b"]
    assert match([1, 2], np.array(["1", "2"], object), "label").tolist() == [0, 1]


def test_floats_that_are_whole_are_integers():
    codes, names = encode(np.array([1.0, np.nan, 3.0]), "label")
    assert codes.tolist() == [0, -1, 1]
    assert names.tolist() == [1, 3]
    assert encode([0.5, 1.5], "label")[1].tolist() == [0.5, 1.5]


def narrow_gaps():
    """One column of whole numbers, and two that pandas made decimals, since they have gaps."""
    return pd.DataFrame({"a": [0, 1, 1, -1], "b": [0, 1, np.nan, 0], "c": [0, -1, 1, np.nan]})


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_whole_numbers_beside_numbers_with_gaps_are_the_same_labels(kind):
    wide = kind(narrow_gaps())
    model = fitted(wide)
    assert model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.predict(wide), model.labels_)
    assert np.array_equal(model.predict_proba(kind(narrow_gaps().astype(float))), model.probabilities_)
    assert np.array_equal(model.predict_proba(kind(narrow_gaps().astype("Int64"))), model.probabilities_)
    assert read_labels(kind(narrow_gaps() / 2), abstain=[-0.5]).class_names.tolist() == [0, 0.5]


def test_a_worker_without_labels_and_words_beside_numbers():
    wide = pa.table({"a": [0, 1], "b": [0.0, 1.0], "idle": pa.nulls(2)})
    assert read_labels(wide).class_names.tolist() == [0, 1]
    mixed = pa.table({"a": [0, 1], "b": [None, 1.0], "c": ["x", "1"]})
    assert read_labels(mixed).class_names.tolist() == ["0", "1", "x"]


def test_large_numbers_beside_gaps_keep_their_last_digit():
    large = [2**60, 2**60 + 1]
    assert read_labels(pa.table({"a": large, "b": large})).class_names.tolist() == large
    for other in ([large[1], None], [1.0, None]):
        found = read_labels(pa.table({"a": large, "b": other})).class_names.tolist()
        assert found == sorted({*map(str, large), *(str(int(value)) for value in other if value)})


def frame(**columns):
    return pd.DataFrame(columns)


BAD = [
    (frame(task=["a"], worker=["x"]), DataError, r"no column for the label among \['task', 'worker'\]; name it with"),
    (frame(task=[], worker=[], label=[]), DataError, "the frame has no rows"),
    (frame(task=["a", "b"], worker=["x", "x"], label=[0, 1]), NotIdentifiableError, "come from 1 worker, 'x'"),
    (frame(task=["a", "b"], worker=["x", "y"], label=["", None]), DataError, "none of the 2 tasks has a label"),
    (frame(task=["a", None], worker=["x", "y"], label=[0, 1]), DataError, "row 2 has no task"),
    (frame(task=["a", "b"], worker=["x", None], label=[0, 1]), DataError, "row 2 has no worker"),
    (np.zeros((3, 3, 3)), ValueError, "Found array with dim 3"),
    (frame(task=range(3000), worker=["x", "y"] * 1500, label=range(3000)), DataError, "at most 1,000 can be classes"),
    (
        frame(task=["a", "b"], worker=["x", "y"], label=["k", "l" * (LONGEST_NAME + 1)]),
        DataError,
        "a name of 10,001 characters",
    ),
    (frame(task=["a", "a"], w1=[0, 1], w2=[0, 1]), DataError, "column 'task' repeats a task in a wide frame"),
    (frame(task=["a", None, "b"], w1=[0, 1, 0], w2=[0, 1, 0]), DataError, "row 2 has no task; every label needs one"),
    (frame(w1=[0, 1], w2=[0, 1]).set_axis(["a", None]), DataError, "row 2 has no task; every label needs one"),
    (frame(w1=[0, 1], w2=[0, 1]).set_axis(["1", 1]), DataError, "the index repeats a task in a wide frame"),
]


@pytest.mark.parametrize(("data", "error", "sentence"), BAD, ids=lambda value: str(value)[:30])
def test_bad_data_gets_one_clear_sentence(data, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        fitted(data)
    assert "\n" not in str(caught.value) or error is ValueError


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"method": "magic"}, "there is no method 'magic'; the methods are auto, majority"),
        ({"smoothing": -1}, "smoothing=-1 is no count of pseudo-labels"),
        ({"engine": "spark"}, "engine='spark' is not there"),
        ({"n_classes": 5}, "n_classes=5 was asked for, but 3 different labels occur"),
        ({"n_jobs": 0}, "n_jobs is 0; give the number of threads"),
        ({"method": "robust", "memory": 10}, "the list of worker pairs may take .* GB are allowed"),
    ],
)
def test_bad_parameters_get_one_clear_sentence(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted(LONG, **parameters)


def test_bad_gold_gets_one_clear_sentence():
    with pytest.raises(DataError, match="the gold answers name task 999, which has no label"):
        DawidSkene().fit(LONG, gold={999: 0})
    with pytest.raises(DataError, match="gold answers need the columns task and label"):
        DawidSkene().fit(LONG, gold=pd.DataFrame({"x": [1]}))
    with pytest.raises(DataError, match="gold holds 2 answers without task names"):
        DawidSkene().fit(LONG, gold=[0, 1])


def test_gold_may_name_a_class_that_no_worker_gave():
    model = DawidSkene().fit(LONG, gold={0: 7})
    assert model.classes_.tolist() == [0, 1, 2, 7]
    assert model.labels_[model.tasks_["task"].to_pylist().index(0)] == 7


def test_new_tasks_strangers_and_unknown_labels():
    model = fitted(LONG.to_pandas())
    known = pd.DataFrame({"task": ["n1"] * 3, "worker": [0, 1, 2], "label": [1, 1, 1]})
    stranger = known.assign(worker=["who", "is", "this"])
    odd = known.assign(label=[9, 9, 9])
    assert model.predict(known).tolist() == [1]
    assert model.predict(stranger).tolist() == [1]
    cooled = model.prior_**model.confidence_
    np.testing.assert_allclose(model.predict_proba(odd)[0], cooled / cooled.sum())
    assert np.isfinite(model.score(known))


def test_one_class_is_answered_with_caution():
    rows = [(t, w, "only") for t in range(5) for w in range(3)]
    model = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert set(model.labels_) == {"only"}
    assert model.report_.verdict != "trusted"
    np.testing.assert_allclose(model.probabilities_, 1.0)


def test_pair_list_says_its_memory():
    labels = read_labels(LONG)
    with pytest.raises(DataError, match=r"use method='auto', which needs no pair list, or raise the memory limit"):
        count_label_pairs(labels, memory=1)


PAIRED = {"robust", "robust-uniform", "robust-paper", "designated", "symnmf", "multispa", "cnmf"}
PAIRED |= {"tensor", "eigenratio"}


@pytest.mark.parametrize("method", sorted(METHODS))
def test_methods_that_list_worker_pairs_heed_their_memory(method):
    rows = np.random.default_rng(3).integers(0, 2, (40, 5))
    model = DawidSkene(method=method, memory=pair_memory(read_labels(rows)) - 1, max_iter=2, tol=0)
    if method not in PAIRED:
        assert model.fit(rows).n_iter_ <= 2
        return
    with pytest.raises(DataError, match=r"list of worker pairs .* use method='auto', which needs no pair list"):
        model.fit(rows)
    model.set_params(memory=None).fit(rows)


def wide_votes() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(7).integers(0, 2, (40, 4)), columns=["ann", "bob", "cy", "dee"])


def test_a_wide_table_knows_its_columns_after_a_file(tmp_path):
    model = DawidSkene().fit(wide_votes())
    model.save(tmp_path / "m.tacit")
    again = load(tmp_path / "m.tacit")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn would say that names were given and not known
        assert np.array_equal(again.predict(wide_votes()), model.labels_)
    with pytest.raises(ValueError, match="same order"):
        again.predict(wide_votes()[["dee", "cy", "bob", "ann"]])


def test_long_labels_after_a_wide_table_have_no_features():
    wide = wide_votes()
    long = wide.rename_axis("task").reset_index().melt("task", var_name="worker", value_name="label")
    model = DawidSkene().fit(wide).fit(long)
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "feature_names_in_")
    assert model.selection_ is None


def test_numbers_too_large_for_whole_ones_stay_apart():
    """As whole numbers of 64 bits they would all be the least of them."""
    codes, names = encode([1e20, 2e20, 1e20], "label")
    assert codes.tolist() == [0, 1, 0]
    assert names.tolist() == [1e20, 2e20]
    halves = pa.array(np.array([0, 1.5, np.nan], np.float16))
    assert encode(halves, "label")[1].tolist() == [0, 1.5]


def test_known_answers_come_with_labels_when_they_are_coded():
    labels = read_labels(np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0]]))
    with pytest.raises(DataError, match="coded already hold their known answers; give gold when"):
        DawidSkene().fit(labels, gold={0: 1})
