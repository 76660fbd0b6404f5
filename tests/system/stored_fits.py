"""Fits of all families whose results are stored: `python tests/system/stored_fits.py` writes stored_fits.json again.

A change of the code that is not meant to change results must leave them within 1e-6. Data are drawn here, by NumPy's
frozen `RandomState`, so that neither a simulator of the package nor another version of NumPy can change them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import latentfit as package

STORED = Path(__file__).parent / "stored_fits.json"
FITS: dict[str, Callable[[], Any]] = {}


def stored(make: Callable[..., Any], **variants: dict[str, Any]) -> None:
    for variant, options in variants.items():
        FITS[f"{make.__name__} {variant}".replace("_", " ")] = lambda make=make, options=options: make(**options)


def votes(n_tasks: int, n_workers: int, K: int, accuracy: float, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.RandomState(seed)
    truth, skill = rng.randint(K, size=n_tasks), rng.uniform(accuracy - 0.2, accuracy + 0.15, n_workers)
    task, worker = np.nonzero(rng.rand(n_tasks, n_workers) < share)
    right = rng.rand(len(task)) < skill[worker]
    label = np.where(right, truth[task], (truth[task] + rng.randint(1, K, len(task))) % K)
    return pd.DataFrame({"task": task, "worker": [f"w{w}" for w in worker], "label": [f"c{x}" for x in label]})


def labels(K: int = 3, seed: int = 0, gold: int = 0, share: float = 0.4, **options: Any) -> Any:
    frame = votes(400, 12, K, 0.75, share, seed)
    known = {int(task): "c0" for task in frame["task"].unique()[:gold]}
    return package.DawidSkene(**options).fit(frame, gold=known or None)


stored(
    labels,
    default={},
    two_classes={"K": 2, "seed": 1},
    known_answers={"gold": 5, "seed": 2},
    majority_vote={"method": "majority-em", "seed": 3},
    sparse={"share": 0.2, "seed": 4},
    symmetric_nmf={"method": "symnmf", "seed": 5},
)


def table_rows(n: int, K: int, sizes: tuple[int, ...], seed: int, missing: float = 0.0) -> np.ndarray:
    rng = np.random.RandomState(seed)
    kind, columns = rng.randint(K, size=n), []
    for size in sizes:
        profile = rng.dirichlet(np.full(size, 0.5), K)
        columns.append((profile[kind].cumsum(axis=1) < rng.rand(n, 1)).sum(axis=1).clip(0, size - 1))
    rows = np.stack(columns, axis=1).astype(float)
    rows[rng.rand(*rows.shape) < missing] = np.nan
    return rows


def table(
    n: int = 600, K: int = 3, seed: int = 10, missing: float = 0.0, weighted: bool = False, **options: Any
) -> Any:
    rows = table_rows(n, K, (2, 3, 4, 2, 5, 3, 2), seed, missing)
    weight = np.random.RandomState(seed + 1).uniform(0.5, 2, n) if weighted else None
    return package.LatentClass(**options).fit(rows, sample_weight=weight)


stored(
    table,
    default={},
    given={"n_components": 3, "seed": 11},
    missing_values={"n_components": 3, "missing": 0.2, "seed": 12},
    weights={"n_components": 2, "weighted": True, "seed": 13},
    spa={"n_components": 3, "init": "spa", "seed": 14},
    maximum_likelihood={"n_components": 2, "smoothing": 0, "seed": 15},
)


def classifier(seed: int = 16) -> Any:
    rows = table_rows(500, 4, (2, 3, 4, 2, 3), seed, 0.1)
    return package.LatentClassClassifier().fit(rows[:, :-1], np.nan_to_num(rows[:, -1]).astype(int))


stored(classifier, default={})


def cluster(
    n: int = 500, K: int = 3, m: int = 12, missing: float = 0.0, seed: int = 20, frame: bool = False, **options: Any
) -> Any:
    rng = np.random.RandomState(seed)
    rows = (rng.rand(n, m) < rng.choice([0.1, 0.3, 0.8, 0.9], (K, m))[rng.randint(K, size=n)]).astype(float)
    rows[rng.rand(n, m) < missing] = np.nan
    data = pd.DataFrame(rows, columns=[f"q{j}" for j in range(m)]) if frame else rows
    return package.BernoulliMixture(**options).fit(data)


stored(
    cluster,
    default={},
    given={"n_components": 3, "seed": 21},
    missing_values={"missing": 0.1, "seed": 22},
    bic={"select": "bic", "seed": 23, "frame": True},
)


def switch_rows(n: int, d: int, m: int, noise: float, seed: int, missing: float = 0.0) -> np.ndarray:
    rng = np.random.RandomState(seed)
    on = (rng.rand(n, d) < rng.uniform(0.2, 0.6, d)).astype(float)
    rows = on @ rng.normal(size=(d, m)) + noise * rng.normal(size=(n, m))
    rows[rng.rand(n, m) < missing] = np.nan
    return rows


def factors(
    n: int = 1500, d: int = 4, m: int = 12, noise: float = 0.2, seed: int = 30, missing: float = 0.0, **options: Any
) -> Any:
    return package.BinaryFactors(**options).fit(switch_rows(n, d, m, noise, seed, missing))


stored(
    factors,
    default={},
    given={"n_components": 3, "d": 3, "seed": 31},
    missing_values={"n_components": 3, "d": 3, "missing": 0.1, "seed": 32},
    known_noise={"n_components": 3, "d": 3, "noise": 0.3, "seed": 33},
)


def genotypes(n: int = 80, m: int = 600, K: int = 3, seed: int = 40, missing: float = 0.0, **options: Any) -> Any:
    rng = np.random.RandomState(seed)
    ancestry, frequency = rng.dirichlet(np.full(K, 0.3), n), rng.beta(0.6, 0.6, (K, m)).clip(0.02, 0.98)
    calls = rng.binomial(2, ancestry @ frequency).astype(float)
    calls[rng.rand(n, m) < missing] = np.nan
    return package.Admixture(**options).fit(calls)


stored(
    genotypes,
    default={},
    given={"n_populations": 3, "seed": 41},
    missing_values={"n_populations": 3, "missing": 0.05, "seed": 42},
    two={"n_populations": 2, "K": 2, "seed": 43},
)


def fractions(n: int = 60, m: int = 150, K: int = 3, seed: int = 50, known: bool = False, **options: Any) -> Any:
    rng = np.random.RandomState(seed)
    profiles = rng.beta(0.5, 0.5, (K, m))
    values = (rng.dirichlet(np.ones(K), n) @ profiles + 0.01 * rng.normal(size=(n, m))).clip(0, 1)
    if known:
        options["reference"] = profiles.T
    return package.MixtureFractions(**options).fit(values)


stored(fractions, default={}, given={"n_components": 3, "seed": 51}, reference={"known": True, "seed": 52})


def pairs(n: int = 40, K: int = 2, total: int = 8000, seed: int = 60, **options: Any) -> Any:
    rng = np.random.RandomState(seed)
    items, weight = rng.dirichlet(np.full(n, 0.5), K), rng.dirichlet(np.full(K, 5.0))
    counts = rng.multinomial(total, ((items * weight[:, None]).T @ items).ravel()).reshape(n, n)
    return package.PairMatrix(**options).fit(sp.csr_array(counts))


stored(
    pairs,
    default={},
    three={"K": 3, "n_components": 3, "seed": 61},
    found={"n_components": None, "K": 3, "total": 20_000, "seed": 62},
)


def documents(n: int = 250, words: int = 120, K: int = 3, length: int = 60, seed: int = 70, **options: Any) -> Any:
    rng = np.random.RandomState(seed)
    topics, proportions = rng.dirichlet(np.full(words, 0.1), K), rng.dirichlet(np.full(K, 0.3), n)
    counts = np.stack([rng.multinomial(length, row) for row in proportions @ topics])
    return package.TopicModel(**options).fit(sp.csr_array(counts))


stored(
    documents,
    default={},
    given={"n_topics": 3, "seed": 71},
    two={"n_topics": 2, "K": 2, "seed": 72},
    short={"n_topics": 3, "length": 12, "n": 600, "seed": 73},
)


def chain(
    n: int = 20, length: int = 150, K: int = 3, symbols: int = 6, seed: int = 80, missing: float = 0.0, **options: Any
) -> Any:
    rng = np.random.RandomState(seed)
    moves = 0.85 * np.eye(K) + 0.15 * rng.dirichlet(np.ones(K), K)
    emissions, out = rng.dirichlet(np.full(symbols, 0.4), K), []
    for _ in range(n):
        state, sequence = rng.randint(K), []
        for _ in range(length):
            sequence.append("abcdefgh"[rng.choice(symbols, p=emissions[state])] if rng.rand() >= missing else None)
            state = rng.choice(K, p=moves[state] / moves[state].sum())
        out.append(sequence)
    return package.CategoricalHMM(**options).fit(out)


stored(
    chain,
    default={},
    given={"n_states": 3, "seed": 81},
    missing_values={"n_states": 2, "K": 2, "missing": 0.1, "seed": 82},
    one_long={"n_states": 2, "K": 2, "n": 1, "length": 2500, "seed": 83},
)


def graph(n: int = 150, K: int = 3, inside: float = 0.2, outside: float = 0.02, seed: int = 90, **options: Any) -> Any:
    rng = np.random.RandomState(seed)
    block = rng.randint(K, size=n)
    links = np.triu(rng.rand(n, n) < np.where(block[:, None] == block, inside, outside), 1)
    return package.BlockModel(**options).fit(sp.csr_array((links | links.T).astype(float)))


stored(
    graph,
    default={},
    given={"n_blocks": 3, "seed": 91},
    plain={"n_blocks": 2, "K": 2, "degree_corrected": False, "seed": 92},
    corrected={"n_blocks": 3, "degree_corrected": True, "seed": 93},
)


def numbers_of(model: Any) -> dict[str, Any]:
    """Every number that a fitted model shows, in a few figures per attribute: shape, sum, and a sum weighted by
    place."""
    out: dict[str, Any] = {}
    for name in sorted(vars(model)):
        if name.endswith("_") and not name.startswith("_") and name not in ("report_", "objective_path_", "n_iter_"):
            for place, array in enumerate(_arrays(vars(model)[name])):
                finite = np.where(np.isfinite(array), array, 0.0)
                weighted = float((finite.ravel() * np.cos(np.arange(finite.size))).sum())
                out[f"{name}{place}"] = [list(array.shape), float(finite.sum()), weighted, float(np.abs(finite).sum())]
    return out


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return [np.asarray(value, np.float64)]
    if isinstance(value, bool | str) or value is None:
        return []
    if isinstance(value, int | float | np.number):
        return [np.asarray(float(value))]
    if isinstance(value, list | tuple):
        return [array for item in value for array in _arrays(item)]
    return []


def result(name: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FITS[name]()
        return {"verdict": model.report_.verdict, "numbers": numbers_of(model)}


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: result(name) for name in FITS}, indent=0, sort_keys=True) + "\n")
    print(f"{len(FITS)} fits written to {STORED.name}")
