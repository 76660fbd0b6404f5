"""Names of columns, words, items and nodes come back from a model file as they were, in their own type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import BernoulliMixture, BlockModel, DawidSkene, LatentClass, PairMatrix, TopicModel, load
from latentfit.core.errors import DataError, ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def again(model, tmp_path):
    model.save(tmp_path / "m.latent")
    return load(tmp_path / "m.latent")


def answers(names):
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize("kind", [LatentClass, BernoulliMixture])
def test_columns_named_by_decimals(kind, tmp_path):
    frame = answers([0.2, 0.5, 1.2, 1.5])  # whole numbers would not tell them apart
    model = kind(2, max_iter=5, tol=0).fit(frame)
    assert np.array_equal(again(model, tmp_path).predict_proba(frame), model.predict_proba(frame))


def test_columns_named_by_tuples_are_refused_before_anything_is_written(tmp_path):
    frame = answers(pd.MultiIndex.from_product([["a", "b"], [1, 2]]))
    model = LatentClass(2, max_iter=5, tol=0).fit(frame)
    with pytest.raises(DataError, match=r"not \('a', 1\); rename it"):
        model.save(tmp_path / "m.latent")
    assert not list(tmp_path.iterdir())


NAMES = {"decimals": [0.5, 0.75, 1.5], "yes and no": [True, False], "numbers": [3, 5, 8], "words": ["a", "b", "c"]}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("kind", ["words", "items", "nodes", "classes"])
def test_names_keep_their_type(kind, names, tmp_path):
    rng = np.random.default_rng(1)
    left, right = (np.array(names)[rng.integers(0, len(names), 60)] for _ in range(2))
    if kind == "words":
        data = pd.DataFrame({"document": np.arange(60) % 7, "word": left})
        model = TopicModel(1, max_iter=2, tol=0).fit(data)
    elif kind == "items":
        model = PairMatrix(1).fit(pd.DataFrame({"row": left, "column": right}))
    elif kind == "nodes":
        model = BlockModel(1, max_iter=2, tol=0).fit(pd.DataFrame({"source": left, "target": right}))
    else:
        data = pd.DataFrame({"task": np.arange(60) % 9, "worker": np.arange(60) % 7, "label": left})
        model = DawidSkene(max_iter=2, tol=0).fit(data)
    told = {"words": "words_", "items": "items_", "nodes": "nodes_", "classes": "classes_"}[kind]
    before, after = getattr(model, told), getattr(again(model, tmp_path), told)
    assert after.dtype == before.dtype
    assert after.tolist() == before.tolist() == sorted(names)


@pytest.mark.parametrize(
    ("part", "key", "change"),
    [
        ("metadata", "workers", lambda names: [names[0], *names[:-1]]),
        ("metadata", "classes", lambda names: [1, *names[1:]]),
        ("arrays", "weights", lambda array: -array),
        ("arrays", "table", lambda array: array.astype(np.int64)),
        ("arrays", "n_labels", lambda array: array[:-1]),
        ("arrays", "n_labels", lambda array: -array),
        ("arrays", "weights", lambda array: array / 2),
        ("arrays", "table", lambda array: array + 0.1),
        ("arrays", "pooled", lambda array: array.T * 2),
        ("arrays", "objective_path", lambda array: array[:0]),
        ("metadata", "flags", lambda flags: flags[1:]),
        ("metadata", "confidence", lambda beta: 0.0),
        ("metadata", "n_iter", lambda n_iter: -1),
        ("metadata", "n_iter", lambda n_iter: "many"),
        ("metadata", "converged", lambda converged: 1),
        ("metadata", "votes", lambda votes: "no"),
        ("metadata", "log_likelihood", lambda value: None),
        ("metadata", "verdict", lambda verdict: "splendid"),
        ("metadata", "reasons", lambda reasons: "all of them"),
        ("metadata", "quantities", lambda quantities: []),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_inconsistent_crowds_are_refused(part, key, change, tmp_path):
    from latentfit.core.model_file import read_model, write_model

    votes = pd.DataFrame({"task": np.arange(60) % 9, "worker": np.arange(60) % 7, "label": ["a", "b", "c"] * 20})
    DawidSkene(max_iter=2, tol=0).fit(votes).save(tmp_path / "m.latent")
    file = read_model(tmp_path / "m.latent")
    parts = {"arrays": dict(file.arrays), "metadata": dict(file.metadata)}
    parts[part][key] = change(parts[part][key])
    write_model(tmp_path / "m.latent", file.name, parts["arrays"], parts["metadata"])
    with pytest.raises(ModelFileError, match="inconsistent DawidSkene"):
        load(tmp_path / "m.latent")
