"""Every form of labels gives the same answer; every bad form gets one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from latentfit import DawidSkene, load
from latentfit.core.errors import DataError, DataWarning, NotIdentifiableError
from latentfit.core.names import LONGEST_NAME, encode, match
from latentfit.labels.data import from_long
from latentfit.labels.data.input import is_long, read_labels
from latentfit.labels.estimator import check_crowd
from latentfit.labels.init import METHODS
from latentfit.labels.moments import count_label_pairs, pair_memory
from latentfit.simulate import crowd

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
        fitted(np.where(np.isnan(matrix), -1, matrix).astype(int), abstain=[-1]),
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
def test_columns_are_known_by_their_aliases(names):
    renamed = LONG.to_pandas().rename(columns=names)
    assert is_long(renamed)
    assert np.array_equal(fitted(renamed).probabilities_, fitted(LONG).probabilities_)


def test_columns_of_unusual_names_can_be_named():
    renamed = LONG.to_pandas().rename(columns={"task": "a", "worker": "b", "label": "c"})
    columns = {"task": "a", "worker": "b", "label": "c"}
    assert np.array_equal(fitted(renamed, columns=columns).probabilities_, fitted(LONG).probabilities_)
    with pytest.raises(DataError, match=r"no column 'bb' for the worker; did you mean 'b'\?"):
        fitted(renamed, columns={**columns, "worker": "bb"})
    with pytest.raises(DataError, match="names the role 'annotator'; the roles are task, worker, label"):
        fitted(renamed, columns={"annotator": "b"})


def test_labels_are_returned_as_the_user_wrote_them():
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


def test_abstentions_and_missing_values_are_not_labels():
    rows = [("a", "x", "yes"), ("a", "y", ""), ("a", "z", "yes"), ("b", "x", "no"), ("b", "y", "no"), ("b", "z", None)]
    labels = read_labels(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert labels.n_labels == 4
    assert labels.class_names.tolist() == ["no", "yes"]
    skipped = read_labels(pd.DataFrame(rows, columns=["task", "worker", "label"]), abstain=("no",))
    assert skipped.class_names.tolist() == ["", "yes"]


def test_repeated_answers_all_count_with_one_warning():
    rows = [("a", "x", 0), ("a", "y", 0), ("a", "x", 1), ("b", "x", 1), ("b", "y", 1), ("b", "y", 0)]
    with pytest.warns(DataWarning, match=r"2 labels repeat a \(task, worker\) pair.*each counts as an answer"):
        labels = from_long(*zip(*rows, strict=True))
    assert labels.n_labels == 6
    assert labels.given.tolist() == [0, 1, 0, 1, 0, 1]
    assert labels.answer_of().tolist() == [0, 0, 1, 2, 3, 3]
    assert labels.once().workers.tolist() == [0, 1, 0, 1]


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_the_order_of_repeated_answers_changes_nothing():
    frame = LONG.to_pandas()
    frame = pd.concat([frame, frame.sample(frac=0.5, random_state=0).assign(label=lambda one: one["label"] % 2)])
    one, other = fitted(frame), fitted(frame.iloc[::-1])
    at = {task: row for row, task in enumerate(other.tasks_["task"])}
    order = [at[task] for task in one.tasks_["task"]]
    assert np.allclose(one.probabilities_, other.probabilities_[order], rtol=0, atol=1e-9)
    assert one.report_.verdict == other.report_.verdict


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_repeated_answers_enter_the_likelihood_as_dawid_and_skene_count_them():
    frame = LONG.to_pandas()
    model = fitted(pd.concat([frame, frame]), smoothing=0.0, method="majority-em")
    assert int(model.tasks_["n_labels"].sum()) == 2 * len(frame)
    codes = {name: at for at, name in enumerate(model.worker_names_.tolist())}
    task = frame["task"].iloc[0]
    own = frame[frame["task"] == task]
    joint = model.prior_.copy()
    for worker, label in zip(own["worker"], own["label"], strict=True):
        joint = joint * model.confusion_[codes[worker]][:, model.classes_.tolist().index(label)] ** 2
    expected = float(np.log(joint.sum()))
    with pytest.warns(DataWarning, match="repeat"):
        assert np.isclose(model.score(pd.concat([own, own])), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_repeated_answers_help_where_independent_and_are_reported_where_duplicated():
    rng = np.random.default_rng(0)
    truth, accuracy = rng.integers(0, 3, 400), rng.uniform(0.5, 0.7, 5)
    task, worker = (axis.ravel() for axis in np.indices((400, 5)))

    def answers():
        right = rng.random(len(task)) < accuracy[worker]
        said = np.where(right, truth[task], (truth[task] + rng.integers(1, 3, len(task))) % 3)
        return pd.DataFrame({"task": task, "worker": worker, "label": said})

    once = answers()
    model = DawidSkene().fit(pd.concat([once, *(answers() for _ in range(4))]))
    assert (model.labels_ != truth).mean() < 0.05  # one answer of each: 0.2
    assert abs(model.report_.quantities["self_agreement"] - model.report_.quantities["self_agreement_expected"]) < 0.03
    assert not any("one worker to one task" in reason for reason in model.report_.reasons)
    copied = DawidSkene().fit(pd.concat([once] * 5))
    assert copied.report_.verdict == "caution"
    assert any("Answers of one worker to one task agree in 100% of the pairs" in one for one in copied.report_.reasons)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_worker_who_repeats_himself_is_no_crowd():
    rows = [(task, "x", task % 2) for task in range(60) for _ in range(3)]
    rows += [(task, "y", task % 2) for task in range(60, 80)]
    model = DawidSkene().fit(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert model.report_.verdict == "not identifiable"


def test_mixed_types_are_names_like_in_a_file():
    codes, names = encode([1, "1", "b", None], "label")
    assert codes.tolist() == [0, 0, 1, -1]
    assert names.tolist() == ["1", "b"]
    assert match([1, 2], np.array(["1", "2"], object), "label").tolist() == [0, 1]


def test_floats_without_a_fraction_are_integers():
    codes, names = encode(np.array([1.0, np.nan, 3.0]), "label")
    assert codes.tolist() == [0, -1, 1]
    assert names.tolist() == [1, 3]
    assert encode([0.5, 1.5], "label")[1].tolist() == [0.5, 1.5]


def narrow_gaps():
    """One column of whole numbers, and two that pandas made decimals, since they have gaps."""
    return pd.DataFrame({"a": [0, 1, 1, -1], "b": [0, 1, np.nan, 0], "c": [0, -1, 1, np.nan]})


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_integers_and_floats_with_missing_values_are_the_same_labels(kind):
    wide = kind(narrow_gaps())
    model = fitted(wide, abstain=[-1])
    assert model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.predict(wide), model.labels_)
    assert np.array_equal(model.predict_proba(kind(narrow_gaps().astype(float))), model.probabilities_)
    assert np.array_equal(model.predict_proba(kind(narrow_gaps().astype("Int64"))), model.probabilities_)
    assert read_labels(kind(narrow_gaps() / 2), abstain=[-0.5]).class_names.tolist() == [0, 0.5]


def test_a_worker_without_labels_and_text_mixed_with_numbers_are_read():
    wide = pa.table({"a": [0, 1], "b": [0.0, 1.0], "idle": pa.nulls(2)})
    assert read_labels(wide).class_names.tolist() == [0, 1]
    mixed = pa.table({"a": [0, 1], "b": [None, 1.0], "c": ["x", "1"]})
    assert read_labels(mixed).class_names.tolist() == ["0", "1", "x"]


def test_large_integers_with_missing_values_keep_their_last_digit():
    large = [2**60, 2**60 + 1]
    assert read_labels(pa.table({"a": large, "b": large})).class_names.tolist() == large
    for other in ([large[1], None], [1.0, None]):
        found = read_labels(pa.table({"a": large, "b": other})).class_names.tolist()
        assert found == sorted({*map(str, large), *(str(int(value)) for value in other if value)})


def sentiment(n_tasks, n_workers=5, values=(-1, 0, 1)):
    """Labels of workers who are right in seven of eight cases (n_tasks, n_workers), and the truth."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, len(values), n_tasks)
    slips = rng.integers(1, len(values), (n_tasks, n_workers))
    said = np.where(rng.random((n_tasks, n_workers)) < 0.875, truth[:, None], (truth[:, None] + slips) % len(values))
    return np.array(values)[said], np.array(values)[truth]


def as_long(matrix):
    rows, columns = np.indices(matrix.shape)
    return pd.DataFrame({"task": rows.ravel(), "worker": columns.ravel(), "label": matrix.ravel()})


def test_minus_one_is_a_label_of_a_long_table():
    said, truth = sentiment(400)
    model = fitted(as_long(said))
    assert model.classes_.tolist() == [-1, 0, 1]
    assert (model.labels_ == truth).mean() > 0.9
    assert model.predict(as_long(said)).tolist() == model.labels_.tolist()
    wide = model.predict(pd.DataFrame(said, columns=range(5)))  # of the model's own labels, in a wide table too
    assert (wide == truth).mean() > 0.9


def test_minus_one_in_a_wide_table_of_codes_means_abstain_with_a_warning_by_default():
    said, truth = sentiment(400)
    number = int((said == -1).sum())
    with pytest.warns(DataWarning, match=f"-1 stands in {number} cells .* no answer, as in snorkel; give"):
        assert DawidSkene().fit(said).classes_.tolist() == [0, 1]
    assert fitted(said, abstain=[-1]).classes_.tolist() == [0, 1]
    model = fitted(said, abstain=[])
    assert model.classes_.tolist() == [-1, 0, 1]
    assert (model.labels_ == truth).mean() > 0.9


@pytest.mark.parametrize("values", [(-1, 1), (-2, -1, 0), (-1.0, 0.5, 1.0)], ids=str)
def test_minus_one_is_a_label_of_a_wide_table_that_does_not_look_like_snorkels(values):
    said, truth = sentiment(200, values=values)
    model = fitted(said)
    assert model.classes_.tolist() == list(values)
    assert (model.labels_ == truth).mean() > 0.9


def test_the_model_file_of_labels_that_abstain_is_read_as_it_was_written(tmp_path):
    said, _ = sentiment(100)
    model = fitted(said, abstain=("", -1))
    model.save(tmp_path / "m.latent")
    loaded = load(tmp_path / "m.latent")
    assert list(loaded.abstain) == ["", -1]
    assert np.array_equal(loaded.predict_proba(said), model.probabilities_)


def wide_file(n_tasks=400):
    said, truth = sentiment(n_tasks, values=("neg", "neutral", "pos"))
    return pd.DataFrame(said, columns=[f"w{n}" for n in range(5)]), truth


@pytest.mark.parametrize("name", ["id", "row_key", ""])
def test_a_column_of_a_wide_table_with_another_value_in_every_row_is_the_task(name):
    wide, _ = wide_file()
    with_id = wide.copy()
    with_id.insert(0, name, [f"r{n:03}" for n in range(400)])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = DawidSkene().fit(with_id)
    notes = [str(one.message) for one in told if one.category is DataWarning]
    assert notes == ([] if name == "id" else [note for note in notes if "is taken as the task" in note])
    assert model.tasks_["task"].tolist() == with_id[name].tolist()
    assert model.classes_.tolist() == ["neg", "neutral", "pos"]
    assert len(model.workers_) == 5
    assert np.array_equal(model.probabilities_, fitted(wide).probabilities_)


def test_numbers_that_count_the_rows_are_no_worker_either():
    wide, _ = wide_file()
    with pytest.warns(DataWarning, match="every value of column 'n' is different, so it is taken as the task"):
        assert DawidSkene().fit(wide.assign(n=range(400))).classes_.tolist() == ["neg", "neutral", "pos"]


def test_the_task_of_a_wide_table_can_be_named_alone():
    wide, _ = wide_file()
    named = wide.assign(name=[f"r{n}" for n in range(400)])
    model = fitted(named, columns={"task": "name"})
    assert model.tasks_["task"].tolist() == named["name"].tolist()


def test_free_text_beside_an_id_is_left_out_or_refused():
    wide, _ = wide_file()
    text = wide.assign(id=range(400), text=[f"review number {n}" for n in range(400)])
    with pytest.warns(DataWarning, match=r"every value of column 'text' is different, .*left out; drop it \(--drop"):
        assert len(DawidSkene().fit(text).workers_) == 5
    text["text"] = [f"review number {n // 2}" for n in range(400)]
    with pytest.raises(DataError, match=r"column 'text' shares no value with another column.*--drop text"):
        fitted(text)


def test_unknown_names_of_long_columns_are_refused_with_the_options_that_help():
    said, _ = sentiment(100)
    long = as_long(said).rename(columns={"task": "thing", "worker": "who", "label": "points"})
    long["who"] = [f"p{n}" for n in long["who"]]
    with pytest.raises(DataError, match=r"is no worker of a wide table; .*--task, --worker, --label"):
        fitted(long)


@pytest.mark.parametrize(
    "names",
    [
        ("id", "model", "score"),
        ("HITId", "WorkerId", "Answer.sentiment"),
        ("INPUT:text", "ASSIGNMENT:worker_id", "OUTPUT:result"),
        ("_task_hash", "_annotator_id", "answer"),
        ("item", "judge", "verdict"),
        ("item_id", "rater", "rating"),
    ],
)
def test_columns_of_the_usual_platforms_are_known(names):
    said, truth = sentiment(100)
    long = as_long(said).rename(columns=dict(zip(("task", "worker", "label"), names, strict=True)))
    assert (fitted(long.assign(AssignmentStatus="Approved")).labels_ == truth).mean() > 0.9


def test_several_answers_of_a_platform_are_refused_with_the_option_that_helps():
    said, _ = sentiment(30)
    long = as_long(said).rename(columns={"task": "HITId", "worker": "WorkerId", "label": "Answer.a"})
    with pytest.raises(DataError, match=r"Answer.a, Answer.b could all be the label column; .*--label Answer.a"):
        fitted(long.assign(**{"Answer.b": 0}))


def scores(n_tasks=60):
    """Scores with two digits of six judges, around a truth."""
    rng = np.random.default_rng(0)
    truth = rng.random((n_tasks, 1))
    return np.round(np.clip(truth + rng.normal(0, 0.05, (n_tasks, 6)), 0, 1), 2), truth[:, 0]


@pytest.mark.parametrize("spelled", [False, True])
def test_scores_are_refused_as_classes_and_cut_when_asked(spelled, tmp_path):
    said, truth = scores()
    long = as_long(said)
    long["label"] = long["label"].map("{:.2f}".format) if spelled else long["label"]
    with pytest.raises(DataError, match=r"different values from 0 to 1, .* look like scores, not classes; give bins=5"):
        fitted(long)
    model = fitted(long, bins=4)
    assert model.classes_.tolist() == ["< 0.25", "[0.25, 0.5)", "[0.5, 0.75)", ">= 0.75"]
    assert model.bin_edges_ == (0.25, 0.5, 0.75)
    assert (model.labels_ == model.classes_[np.minimum(truth * 4, 3).astype(int)]).mean() > 0.8
    model.save(tmp_path / "m.latent")
    loaded = load(tmp_path / "m.latent")
    assert loaded.bin_edges_ == model.bin_edges_
    some = long[long["task"] < 7]
    assert loaded.predict(some).tolist() == model.labels_[:7].tolist()
    edges = fitted(long, bins=[0.25, 0.5, 0.75])
    assert np.array_equal(edges.probabilities_, model.probabilities_)
    with pytest.raises(DataError, match=r"increasing finite numbers, got \[0.5, 0.1\]"):
        fitted(long, bins=[0.5, 0.1])
    known = DawidSkene(bins=4).fit(long, gold={0: 0.99})
    assert known.labels_[0] == ">= 0.75"


def test_few_scores_stay_classes_and_many_whole_numbers_get_a_note():
    said, _ = scores()
    assert len(fitted(as_long(np.round(said * 4) + 1)).classes_) == 5
    assert len(fitted(as_long(np.round(said * 8) / 2)).classes_) == 9
    with pytest.warns(DataWarning, match="different whole numbers from 0 to 100, .*if they are scores, give bins=5"):
        check_crowd(read_labels(as_long(np.round(said * 100).astype(int))))


def test_a_label_that_looks_like_a_missing_value_warns():
    said, _ = wide_file(40)
    with pytest.warns(DataWarning, match="'None' looks like a missing value but counts as a label"):
        DawidSkene().fit(said.replace("neutral", "None"))
    assert "none" in fitted(said.replace("neutral", "none")).classes_


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
    (frame(task=range(3000), worker=["x", "y"] * 1500, label=range(3000)), DataError, "at most 1,000 are allowed"),
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
        ({"method": "magic"}, "got 'magic'; the methods are auto, majority"),
        ({"smoothing": -1}, "smoothing must be 'auto' or a number >= 0, got -1"),
        ({"engine": "spark"}, "engine of DawidSkene must be one of"),
        ({"n_classes": 5}, "n_classes must be None or the number of different labels, 3, got 5"),
        ({"n_jobs": 0}, "n_jobs must be a nonzero int or None, got 0"),
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
    torn = pd.DataFrame({"task": [3, 0, 3], "label": [0, 1, 2]})
    for labels in (LONG, LONG.to_pandas()):
        with pytest.raises(DataError, match="the gold answers give task 3 two labels, 0 and 2; keep the right one"):
            DawidSkene().fit(labels, gold=torn)
    with pytest.raises(DataError, match="the gold answers give task 3 two labels, 0 and 2; keep the right one"):
        DawidSkene(engine="stream").fit(LONG, gold=torn)
    same = pd.DataFrame({"task": [3, 0, 3], "label": [0, 1, 0]})
    DawidSkene().fit(LONG, gold=same)


def test_a_label_that_means_no_answer_may_be_spelled_as_a_decimal():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    votes = np.where(rng.random((60, 4)) < 0.9, truth[:, None], 1 - truth[:, None])
    votes = np.where(rng.random(votes.shape) < 0.2, -1, votes)
    words = np.array([[f"{value}.0" for value in row] for row in votes], object)  # as a file with gaps has them
    frame = pd.DataFrame(words, columns=list("abcd"))
    with pytest.warns(DataWarning, match=f"-1 stands in {(votes == -1).sum()} cells"):
        assert fitted(frame).classes_.tolist() == ["0.0", "1.0"]
    assert fitted(frame, abstain=[-1]).classes_.tolist() == ["0.0", "1.0"]
    assert fitted(frame, abstain=[]).classes_.tolist() == ["-1.0", "0.0", "1.0"]


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize(
    "spelling", [("0.0", "1.0", 0, 1), ("0", "1", 0.0, 1.0), ("0.0", "1.0", "0", "1"), ("0.5", "1", ".5", "1.0")]
)
def test_numbers_that_are_spelled_otherwise_are_the_same_label(spelling, engine):
    low, high, known_low, known_high = spelling
    pairs = [(task, w) for task in range(40) for w in range(4)]
    rows = [(f"t{task}", f"w{w}", high if (task + (w == task % 5)) % 2 else low) for task, w in pairs]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    gold = pd.DataFrame({"task": ["t4", "t6"], "label": [known_low, known_high]})
    model = DawidSkene(engine=engine).fit(frame, gold=gold)
    assert model.classes_.tolist() == [low, high]
    answer = dict(zip(model.tasks_["task"], model.labels_, strict=True))
    assert (answer["t4"], answer["t6"]) == (low, high)
    new = pd.DataFrame({"task": ["n"] * 3, "worker": ["w0", "w1", "w2"], "label": [known_high] * 3})
    assert model.predict(new).tolist() == [high]


def test_two_columns_that_can_be_the_label_are_asked_about():
    pairs = [(task, judge) for task in range(40) for judge in range(4)]
    rows = [(task, f"m{task % 3}", "ABCD"[task % 4], judge, (task + judge) % 5) for task, judge in pairs]
    judged = pd.DataFrame(rows, columns=["question", "model", "answer", "judge", "score"])
    with pytest.raises(DataError, match=r"answer, score could all be the label column; name one .* \(--label answer\)"):
        DawidSkene().fit(judged)
    assert fitted(judged, columns={"label": "score"}).classes_.tolist() == [0, 1, 2, 3, 4]
    named = judged.rename(columns={"answer": "label"})
    assert fitted(named).classes_.tolist() == ["A", "B", "C", "D"]


def test_numbers_of_tasks_are_no_worker_although_scores_share_a_few():
    rows = [(task, judge, 1 + (task + (judge == 3)) % 5) for task in range(100) for judge in range(1, 6)]
    frame = pd.DataFrame(rows, columns=["qid", "person", "grade"])
    with pytest.raises(DataError, match="column 'qid' shares only 5 of its 100 values with another column"):
        DawidSkene().fit(frame)


def test_gold_may_name_a_class_that_no_worker_gave():
    model = DawidSkene().fit(LONG, gold={0: 7})
    assert model.classes_.tolist() == [0, 1, 2, 7]
    assert model.labels_[model.tasks_["task"].to_pylist().index(0)] == 7


def test_prediction_handles_new_tasks_unseen_annotators_and_unknown_labels():
    model = fitted(LONG.to_pandas())
    known = pd.DataFrame({"task": ["n1"] * 3, "worker": [0, 1, 2], "label": [1, 1, 1]})
    stranger = known.assign(worker=["who", "is", "this"])
    odd = known.assign(label=[9, 9, 9])
    assert model.predict(known).tolist() == [1]
    assert model.predict(stranger).tolist() == [1]
    np.testing.assert_allclose(model.predict_proba(odd)[0], model.prior_)
    assert np.isfinite(model.score(known))


def test_one_class_is_answered_with_caution():
    rows = [(t, w, "only") for t in range(5) for w in range(3)]
    model = fitted(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    assert set(model.labels_) == {"only"}
    assert model.report_.verdict != "ok"
    np.testing.assert_allclose(model.probabilities_, 1.0)


def test_a_pair_list_beyond_the_memory_limit_is_refused_with_its_size():
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
    model.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
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
    with pytest.raises(DataError, match="gold cannot be added to coded `Labels`; give it when"):
        DawidSkene().fit(labels, gold={0: 1})


def test_a_dense_matrix_of_labels_that_lost_its_zeros_is_warned_of():
    dense = np.array([[0, 2, 1], [1, 1, -1], [2, 2, 0], [2, -1, 2], [1, 1, 1]] * 10)
    with pytest.warns(DataWarning, match="stores the label -1 and no 0"):
        DawidSkene(abstain=[-1]).fit(sp.csr_array(dense))
