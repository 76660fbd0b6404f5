"""Model files of table models whose parts do not fit together are refused with one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import latentfit
from latentfit.core.errors import ModelFileError
from latentfit.core.model_file import read_model, write_model

STORED = Path(__file__).parents[1] / "system" / "models"
TABLES = ("BernoulliMixture", "LatentClass", "LatentClassClassifier", "LatentClassImputer")


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


def huge(categories):
    return [2**70 + number for number, _ in enumerate(categories)]


ARRAYS = {
    "negative": ("weights", lambda a: changed(a, 0, -a[0])),
    "does not sum": ("weights", lambda a: a * 0.9),
    "column does not sum": ("table", lambda a: changed(a, 0, a[0] * 0.5)),
    "row missing": ("table", lambda a: a[:-1].copy()),
    "class missing": ("table", lambda a: a[:, :-1].copy()),
    "whole numbers": ("table", lambda a: np.ones(a.shape, np.int64)),
    "flat": ("table", lambda a: a.reshape(-1)),
    "no weights": ("weights", lambda a: a[:0]),
    "path of nothing": ("objective_path", lambda a: a[:0]),
}

METADATA = {
    "no columns": ("columns", lambda c: []),
    "a column twice": ("columns", lambda c: [c[0], *c[:-1]]),
    "columns are words": ("columns", lambda c: [one["name"] for one in c]),
    "columns is a number": ("columns", lambda c: 7),
    "another kind": ("columns", lambda c: [{**c[0], "kind": "decimal"}, *c[1:]]),
    "an unknown kind": ("columns", lambda c: [{**c[0], "kind": "date"}, *c[1:]]),
    "a category twice": (
        "columns",
        lambda c: [{**c[0], "categories": c[0]["categories"][:1] * len(c[0]["categories"])}, *c[1:]],
    ),
    "a huge category": (
        "columns",
        lambda c: [{**c[0], "kind": "integer", "categories": huge(c[0]["categories"])}, *c[1:]],
    ),
    "categories gone": ("columns", lambda c: [{**c[0], "categories": []}, *c[1:]]),
    "a name of another type": ("columns", lambda c: [{**c[0], "name": [1]}, *c[1:]]),
    "a name the input lacks": ("columns", lambda c: [{**c[0], "name": "elsewhere"}, *c[1:]]),
    "edges that fall": ("columns", lambda c: [*c[:-1], {**c[-1], "edges": c[-1]["edges"][::-1]}]),
    "an edge too many": ("columns", lambda c: [*c[:-1], {**c[-1], "edges": [*c[-1]["edges"], 1e9]}]),
    "centres gone": ("columns", lambda c: [*c[:-1], {k: v for k, v in c[-1].items() if k != "centres"}]),
    "iterations in words": ("n_iter", lambda n: "three"),
    "negative iterations": ("n_iter", lambda n: -1),
    "converged perhaps": ("converged", lambda n: 1),
    "likelihood in words": ("log_likelihood", lambda n: "high"),
    "no objective": ("objective", lambda n: None),
    "features too few": ("n_features_in", lambda n: n - 1),
    "feature names of numbers": ("feature_names_in", lambda names: list(range(len(names)))),
    "no verdict": ("verdict", lambda n: "fine"),
    "a verdict in a list": ("verdict", lambda n: ["ok"]),
    "reasons of numbers": ("reasons", lambda n: [1]),
    "notes in one word": ("notes", lambda n: "none"),
    "selection in words": ("selection", lambda n: "by hand"),
    "parameters in a list": ("parameters", lambda n: [1]),
}

CLASSIFIER_ARRAYS = {
    "an owner too high": ("owners", lambda a: changed(a, -1, a.max() + 1)),
    "an owner below zero": ("owners", lambda a: changed(a, 0, -1)),
    "owners out of order": ("owners", lambda a: a[::-1].copy()),
    "a label without classes": ("owners", lambda a: np.where(a == 1, 0, a)),
    "owners of too few": ("owners", lambda a: a[:-1].copy()),
    "owners in fractions": ("owners", lambda a: a.astype(np.float64)),
}
CLASSIFIER_METADATA = {
    "a label too many": ("labels", lambda c: {**c, "categories": [*c["categories"], "new"]}),
    "a label twice": ("labels", lambda c: {**c, "categories": c["categories"][:1] * len(c["categories"])}),
    "labels of numbers": ("labels", lambda c: {**c, "categories": list(range(len(c["categories"])))}),
    "fewer classes than there are": ("classes_per_label", lambda n: n - 1),
    "evidence in words": ("evidence", lambda n: "strong"),
}
LATENT_CLASS_ARRAYS = {
    "totals negative": ("totals", lambda a: -a),
    "sums of another shape": ("table_sums", lambda a: a[:-1].copy()),
}
CLUSTER_ARRAYS = LATENT_CLASS_ARRAYS | {
    "a frequency above one": ("frequencies", lambda a: changed(a, (0, -1), 1.5)),
    "another frequency": ("frequencies", lambda a: changed(a, (0, 0), a[0, 0] / 2)),
    "frequencies of too few": ("frequencies", lambda a: a[:, :-1].copy()),
}
CLUSTER_METADATA = {
    "three categories": ("columns", lambda c: [{**c[0], "categories": [0, 1, 2]}, *c[1:]]),
    "a name too few": ("names", lambda n: n[:-1]),
    "names in another order": ("names", lambda n: n[::-1]),
    "names of lists": ("names", lambda n: [[name] for name in n]),
    "nothing set aside": ("aside", lambda n: []),
    "set aside from behind": ("aside", lambda n: [-1]),
    "set aside far away": ("aside", lambda n: [1000]),
    "set aside by name": ("aside", lambda n: ["s0"]),
    "no copies": ("copies", lambda c: []),
    "a copy of nothing": ("copies", lambda c: [[c[0][0], 1000, *c[0][2:]]]),
    "a copy without its source": ("copies", lambda c: [c[0][:1]]),
    "a copy in words": ("copies", lambda c: [[*c[0][:2], "strong", c[0][3]]]),
    "copies in words": ("copies", lambda c: "none"),
    "a path without steps": ("path", lambda p: {name: values for name, values in p.items() if name != "step"}),
    "a ragged path": ("path", lambda p: p | {"bic": p["bic"][:-1]}),
    "a path in words": ("path", lambda p: p | {"bic": ["low" for _ in p["bic"]]}),
    "a path that does not count": ("path", lambda p: p | {"n_components": p["n_components"][::-1]}),
    "a path of nothing": ("path", lambda p: {name: [] for name in p}),
    "a path in a list": ("path", lambda p: [p]),
    "chosen by nobody": ("chosen", lambda c: {}),
    "chosen off the path": ("chosen", lambda c: c | {"practical": 1000}),
    "chosen in words": ("chosen", lambda c: c | {"bic": "two"}),
    "purity without flags": ("purity", lambda p: {name: v for name, v in p.items() if name != "flagged"}),
    "purity of too few": ("purity", lambda p: p | {"impurity": p["impurity"][:-1]}),
    "purity in words": ("purity", lambda p: p | {"impurity": ["low" for _ in p["impurity"]]}),
    "flags in words": ("purity", lambda p: p | {"flagged": ["no" for _ in p["flagged"]]}),
    "suspects in numbers": ("purity", lambda p: p | {"suspect_pair": [0 for _ in p["flagged"]]}),
}
ARRAYS_OF = {"BernoulliMixture": CLUSTER_ARRAYS, "LatentClassClassifier": CLASSIFIER_ARRAYS}
METADATA_OF = {"BernoulliMixture": CLUSTER_METADATA, "LatentClassClassifier": CLASSIFIER_METADATA}
INTERVALS = ("edges that fall", "an edge too many", "centres gone")
"""Cases about columns cut into intervals, which yes/no tables have none of."""


def cases():
    for name in TABLES:
        for label, (key, change) in {**ARRAYS, **ARRAYS_OF.get(name, LATENT_CLASS_ARRAYS)}.items():
            yield pytest.param(name, "arrays", key, change, id=f"{name}: {label}")
        for label, (key, change) in {**METADATA, **METADATA_OF.get(name, {})}.items():
            if name != "BernoulliMixture" or label not in INTERVALS:
                yield pytest.param(name, "metadata", key, change, id=f"{name}: {label}")


@pytest.mark.parametrize(("name", "part", "key", "change"), list(cases()))
def test_inconsistent_files_are_refused(name, part, key, change, tmp_path):
    file = read_model(STORED / f"{name}-0.1.0.tacit")
    arrays, metadata = dict(file.arrays), dict(file.metadata)
    changed_part = arrays if part == "arrays" else metadata
    changed_part[key] = change(changed_part[key])
    path = tmp_path / "m.latent"
    write_model(path, name, arrays, metadata)
    with pytest.raises(ModelFileError, match=f"holds an inconsistent {name} model .*; fit it again") as caught:
        latentfit.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_files_that_lack_a_part_are_refused(name, tmp_path):
    file = read_model(STORED / f"{name}-0.1.0.tacit")
    path = tmp_path / "m.latent"
    for key in file.arrays:
        write_model(path, name, {k: v for k, v in file.arrays.items() if k != key}, file.metadata)
        with pytest.raises(ModelFileError):
            latentfit.load(path)
    needless = {"parameters", "provenance", "version", "format"}
    for key in set(file.metadata) - needless:
        write_model(path, name, file.arrays, {k: v for k, v in file.metadata.items() if k != key})
        with pytest.raises(ModelFileError):
            latentfit.load(path)
