"""Stores one model per version with its predictions: every later version must load it and predict the same.

python tests/system/models/make.py      # adds what this version lacks; a stored file is never written again
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tacit
from tacit.simulate import binary_factors, block_graph, crowd, pairs, topic_documents

HERE = Path(__file__).parent


ANSWERS = {"probabilities": "predict_proba", "predicted": "predict", "transformed": "transform"}
"""What a model is asked, where it can be."""

Made = tuple[Any, pd.DataFrame, Any]  # a model, its data, and the labels it learns from (or None)


def labels() -> Made:
    made = crowd(n_tasks=40, n_workers=6, n_classes=3, labels_per_task=4, random_state=0)
    frame = made.labels.to_pandas().replace({"label": {0: "ant", 1: "bee", 2: "crow"}})
    return tacit.DawidSkene(), frame, None


def table() -> Made:
    """Every type of category, gaps, and a column that wants bins."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 120)

    def noisy(share: float) -> np.ndarray[Any, Any]:
        return np.where(rng.random(120) < share, hidden, 1 - hidden)

    frame = pd.DataFrame(
        {
            "word": np.array(["left", "right"])[noisy(0.9)],
            "grade": noisy(0.85) * 3 + 1,
            "share": noisy(0.8) * 0.25 + 0.5,
            "flag": noisy(0.9).astype(bool),
            "age": np.round(20 + 30 * hidden + 5 * rng.standard_normal(120), 2),
        }
    ).astype({"word": object})
    frame.loc[::7, "word"] = None
    frame.loc[::11, "age"] = np.nan
    return tacit.LatentClass(2, bins=6), frame, None


def imputer() -> Made:
    return tacit.LatentClassImputer(2, bins=6), table()[1], None


def classifier() -> Made:
    """The same table, its words the label; a gap there is a word too."""
    frame = table()[1]
    return tacit.LatentClassClassifier(2, bins=6), frame.drop(columns="word"), frame["word"].fillna("none")


def clusters() -> Made:
    """Yes and no in several spellings, gaps, and a column that nearly copies another."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], [180, 120])
    high = np.arange(10) % 2
    cells = (rng.random((300, 10)) < np.where(kind[:, None] == high, 0.85, 0.15)).astype(int)
    frame = pd.DataFrame({f"s{n}": cells[:, n] for n in range(7)}).astype(object)
    frame["word"] = np.array(["No", "yes"], object)[cells[:, 7]]
    frame["flag"] = cells[:, 8].astype(bool)
    frame["twice"] = cells[:, 9]
    frame["copy"] = np.where(rng.random(300) < 0.97, cells[:, 9], 1 - cells[:, 9])
    frame.loc[::7, "word"] = None
    frame.loc[::11, "s2"] = None
    return tacit.BernoulliMixture(), frame, None


def switches() -> Made:
    """Three switches, and a feature that never changes."""
    frame = pd.DataFrame(binary_factors(300, m=6, d=3, sigma=0.2, random_state=0).X, columns=[*"abcdef"]).round(4)
    frame["fixed"] = 2.0
    return tacit.BinaryFactors(3), frame, None


def mixtures() -> Made:
    """Values in [0, 1] with gaps, and a feature without any."""
    rng = np.random.default_rng(0)
    values = rng.dirichlet(np.full(3, 0.5), 15) @ rng.beta(0.5, 0.5, (3, 25)) + 0.02 * rng.normal(size=(15, 25))
    frame = pd.DataFrame(np.round(np.clip(values, 0, 1), 4), columns=[f"site{n}" for n in range(25)])
    frame.iloc[::4, ::3] = np.nan
    frame["lost"] = np.nan
    return tacit.MixtureFractions(3), frame, None


def genotypes() -> Made:
    """Allele counts with gaps, a SNP with one allele and one without calls."""
    rng = np.random.default_rng(0)
    counts = rng.binomial(2, rng.dirichlet([0.4, 0.4], 30) @ rng.uniform(0.05, 0.95, (2, 40))).astype(float)
    counts[rng.random(counts.shape) < 0.05] = np.nan
    frame = pd.DataFrame(counts, columns=[f"rs{n}" for n in range(40)])
    frame["same"], frame["lost"] = 2.0, np.nan
    return tacit.Admixture(2), frame, None


def communities() -> Made:
    """Edges with weights, a link of a node with itself and a node without edges."""
    at = block_graph(60, 2, 8.0, strength=4.0, random_state=0).matrix.tocoo()
    frame = pd.DataFrame({"source": [f"n{i}" for i in at.row], "target": [f"n{j}" for j in at.col]}).astype(object)
    frame["weight"] = 1.0 + (at.row + at.col) % 2
    frame.loc[len(frame)] = ["n0", "n0", 3.0]
    frame.loc[len(frame)] = ["alone", None, None]
    return tacit.BlockModel(2), frame, None


def sentences() -> Made:
    """Words of two states in short sequences, with gaps."""
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.random(400) < 0.15) % 2
    words = np.array(["ant", "bee", "cat", "dog"], object)[2 * state + rng.integers(0, 2, 400)]
    words[rng.random(400) < 0.05] = None
    return tacit.CategoricalHMM(2), pd.DataFrame({"sequence": np.repeat(np.arange(20), 20), "symbol": words}), None


def word_pairs() -> Made:
    """Pairs of words with their counts, one word that occurs on one side only."""
    counts = pairs(30, 600, "zipf", random_state=0).counts.tocoo()
    words = np.array([f"word{n:02d}" for n in range(30)], object)
    frame = pd.DataFrame({"word": words[counts.row], "context": words[counts.col], "count": counts.data})
    return tacit.PairMatrix(), frame[frame["context"] != "word07"], None


def documents() -> Made:
    """Words and counts of documents, and a word with accents."""
    cells = topic_documents(60, 25, 2, length=20, random_state=0).counts.tocoo()
    words = [f"wörd{n}" if n % 7 == 0 else f"word{n}" for n in cells.col.tolist()]
    frame = pd.DataFrame({"document": [f"d{n}" for n in cells.row.tolist()], "word": words, "count": cells.data})
    return tacit.TopicModel(2), frame, None


MODELS: dict[str, Callable[[], Made]] = {
    "Admixture": genotypes,
    "BernoulliMixture": clusters,
    "BinaryFactors": switches,
    "BlockModel": communities,
    "CategoricalHMM": sentences,
    "DawidSkene": labels,
    "LatentClass": table,
    "LatentClassClassifier": classifier,
    "LatentClassImputer": imputer,
    "MixtureFractions": mixtures,
    "PairMatrix": word_pairs,
    "TopicModel": documents,
}


def main() -> None:
    for name, make in MODELS.items():
        stem = HERE / f"{name}-{tacit.__version__}"
        if Path(f"{stem}.tacit").exists():
            continue
        model, frame, target = make()
        model.fit(frame, target).save(f"{stem}.tacit")
        rows = json.loads(frame.to_json(orient="columns"))
        expected: dict[str, Any] = {"labels": {column: list(cells.values()) for column, cells in rows.items()}}
        for what, method in ANSWERS.items():
            if hasattr(model, method):
                expected[what] = getattr(model, method)(frame).tolist()
        if hasattr(model, "reconstruct"):
            expected["reconstructed"] = np.asarray(model.reconstruct()).tolist()
        Path(f"{stem}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
