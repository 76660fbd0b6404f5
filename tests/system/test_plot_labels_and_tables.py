"""Pictures of crowds and of latent classes show what the models say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import DawidSkene, LatentClass, load
from latentfit.core.errors import DataError
from latentfit.labels.diagnostics.structure import co_annotation
from latentfit.labels.plot import plot_co_labels, plot_confidence, plot_confusion, plot_workers
from latentfit.simulate import crowd
from latentfit.tables.plot import plot_classes, plot_information, plot_selection

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


@pytest.fixture(scope="module")
def model():
    return DawidSkene().fit(crowd(80, 9, 3, labels_per_task=5, random_state=1).labels)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 300)
    codes = np.where(rng.random((300, 4)) < 0.85, hidden[:, None], rng.integers(0, 3, (300, 4)))
    frame = pd.DataFrame({f"q{n}": np.array(["yes", "no", "other"])[codes[:, n]] for n in range(4)})
    frame["coin"] = rng.integers(0, 2, 300)
    return LatentClass().fit(frame)


def test_crowd(model, tmp_path):
    bars = plot_confidence(model, bins=10).patches
    assert sum(bar.get_height() for bar in bars) == 80
    ax = plot_workers(model)
    shown = [text.get_text() for text in ax.get_yticklabels()]
    order = np.argsort(model._fitted.quality.accuracy, kind="stable")
    assert shown == [str(model.worker_names_[m]) for m in order]
    worker = model.worker_names_[2]
    drawn = plot_confusion(model, worker)
    np.testing.assert_array_equal(drawn.images[0].get_array(), model.confusion_[2])
    assert plot_confusion(model, worker, ax=drawn) is drawn
    with pytest.raises(DataError, match="must be one of the model's workers"):
        plot_confusion(model, "nobody")
    model.save(tmp_path / "m.latent")
    with pytest.raises(DataError, match="keeps no tasks"):
        plot_confidence(load(tmp_path / "m.latent"))
    with pytest.raises(DataError, match="keeps no labels"):
        plot_co_labels(load(tmp_path / "m.latent"))


def test_co_annotation_counts_common_tasks(model):
    frame = crowd(80, 9, 3, labels_per_task=5, random_state=1).labels
    rows = pd.DataFrame({name: np.asarray(frame[name]) for name in ("task", "worker", "label")})
    done = rows.groupby("worker")["task"].apply(set)
    pairs = co_annotation(model._fitted.evidence.data, 5)
    names = model.worker_names_[pairs.workers]
    for i in range(5):
        for j in range(5):
            if i != j:
                assert pairs.common[i, j] == len(done[names[i]] & done[names[j]])
    image = plot_co_labels(model).images[0].get_array()
    assert np.isnan(np.asarray(image.filled(np.nan)).diagonal()).all()


def test_unreachable_pairs_stand_out():
    """Two crowds without a common task: no pair across is reached."""
    rows = [(f"t{part}{n}", f"w{part}{m}", (n + m * part) % 2) for part in (0, 1) for n in range(12) for m in range(4)]
    model = DawidSkene().fit(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    pairs = co_annotation(model._fitted.evidence.data, 8)
    across = np.array([[str(a)[1] != str(b)[1] for b in model.worker_names_[pairs.workers]]
                       for a in model.worker_names_[pairs.workers]])  # fmt: skip
    np.testing.assert_array_equal(pairs.reached[across], False)
    assert pairs.common[across].sum() == 0
    assert len(plot_co_labels(model).collections[0].get_offsets()) == across.sum()


def test_classes(classes):
    ax = plot_classes(classes, most=6)
    table = classes.joint_.mixture.table
    drawn = np.asarray(ax.images[0].get_array())
    for text, row in zip(ax.get_yticklabels(), drawn, strict=True):
        column, _, word = text.get_text().partition(" = ")
        n = [str(one.name) for one in classes._columns].index(column)
        at = [str(value) for value in classes._columns[n].categories.tolist()].index(word)
        np.testing.assert_array_equal(row, table[classes.joint_.mixture.column_offsets[n] + at])
    bars = plot_information(classes)
    names = [text.get_text() for text in bars.get_yticklabels()]
    assert names[-1] == "coin"
    widths = [bar.get_width() for bar in bars.patches]
    assert widths == sorted(widths, reverse=True)
    line = plot_selection(classes).lines[0]
    np.testing.assert_allclose(line.get_ydata(), classes.selection_["value"])


def test_given_number_has_no_curve(classes):
    fixed = LatentClass(2).fit(pd.DataFrame({"a": ["x", "y"] * 20, "b": ["x", "y"] * 20, "c": ["x", "y"] * 20}))
    with pytest.raises(DataError, match="was given"):
        plot_selection(fixed)
    with pytest.raises(DataError, match="must be a fitted LatentClass"):
        plot_information(DawidSkene())
    with pytest.raises(DataError, match="must be a fitted DawidSkene"):
        plot_workers(LatentClass())
