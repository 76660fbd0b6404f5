"""Files that pages speak of and do not make themselves: small, drawn from known models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from latentfit import simulate


def votes(folder: Path) -> None:
    crowd = simulate.crowd(150, 12, 3, labels_per_task=5, random_state=0)
    frame = crowd.labels.to_pandas()
    frame.to_csv(folder / "votes.csv", index=False)
    frame.head(20).to_csv(folder / "new_votes.csv", index=False)


def survey(folder: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 300)
    words = {"job": ("teacher", "clerk"), "income": ("high", "low"), "town": ("yes", "no"), "car": ("one", "none")}
    same = {name: rng.random(300) < 0.85 for name in words}
    frame = pd.DataFrame({name: np.where(same[name] == (kind == 0), *pair) for name, pair in words.items()})
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame.insert(0, "person", np.arange(300))
    frame.to_csv(folder / "survey.csv", index=False)


def symptoms(folder: Path) -> None:
    rows = simulate.bernoulli_mixture(300, 10, 3, separation=30, random_state=0).rows
    frame = pd.DataFrame(rows, columns=[f"symptom {n}" for n in range(10)])
    frame.insert(0, "patient", np.arange(300))
    frame.to_csv(folder / "symptoms.csv", index=False)
    frame.head(5).to_csv(folder / "new_patients.csv", index=False)


def yes_no(folder: Path) -> None:
    symptoms(folder)
    rows = simulate.bernoulli_mixture(400, 12, 4, separation=40, random_state=1).rows
    frame = pd.DataFrame(rows, columns=[f"question {n}" for n in range(12)])
    frame.assign(w=1.0).to_csv(folder / "survey.csv", index=False)
    (frame * 3).to_csv(folder / "counts.csv", index=False)
    frame[frame.any(axis=1)].to_csv(folder / "baskets.csv", index=False)
    pd.read_csv(folder / "new_patients.csv").to_csv(folder / "new.csv", index=False)


def readings(folder: Path) -> None:
    rows = simulate.binary_factors(400, m=12, d=3, sigma=0.1, random_state=0).X
    pd.DataFrame(rows).rename_axis("sample").to_csv(folder / "readings.csv")


def genotypes(folder: Path) -> None:
    from bed_reader import to_bed

    calls = simulate.admixture(110, 3, 600, alpha=0.2, random_state=0).genotypes
    pd.DataFrame(calls).rename_axis("sample").to_csv(folder / "genotypes.csv")
    to_bed(folder / "panel.bed", calls.astype(float))


def methylation(folder: Path) -> None:
    rng = np.random.default_rng(0)
    cells = pd.DataFrame(rng.beta(0.5, 0.5, (200, 3)), columns=["B", "T", "Mono"]).rename_axis("site")
    cells.index = pd.Index([f"cg{n}" for n in range(200)], name="site")
    blood = np.clip(cells.to_numpy() @ rng.dirichlet([1, 1, 1], 8).T + rng.normal(0, 0.02, (200, 8)), 0, 1)
    frame = pd.DataFrame(blood, index=cells.index, columns=[f"patient {n}" for n in range(8)])
    for name in ("methylation", "blood", "new"):
        frame.to_csv(folder / f"{name}.csv")
    cells.to_csv(folder / "cells.csv")


def pairs(folder: Path) -> None:
    counts = simulate.pairs(40, 2000, random_state=0).counts.tocoo()
    items = np.array(["tea", "milk", *(f"item {n}" for n in range(38))])
    frame = pd.DataFrame({"word": items[counts.row], "context": items[counts.col], "count": counts.data})
    frame.to_csv(folder / "pairs.csv", index=False)


def history(folder: Path) -> None:
    (folder / "history").mkdir()
    rng = np.random.default_rng(0)
    for part in range(2):
        kind = rng.integers(0, 2, (300, 1))
        frame = pd.DataFrame((rng.random((300, 6)) < 0.2 + 0.6 * kind).astype(int), columns=list("abcdef"))
        frame.to_parquet(folder / "history" / f"{part}.parquet")


def corpus(folder: Path) -> None:
    (folder / "corpus").mkdir()
    rng = np.random.default_rng(0)
    for part in range(2):
        document, word = rng.integers(0, 30, 600), rng.integers(0, 6, 600)
        words = np.array(list("abcdefuvwxyz"), object)[word + 6 * (document % 2)]
        frame = pd.DataFrame({"document": document + 30 * part, "word": words, "count": 1})
        frame.to_parquet(folder / "corpus" / f"{part}.parquet")


def every(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for maker in makers:
            maker(folder)

    return make


FILES: dict[str, Callable[[Path], None]] = {
    "README.md": every(votes, survey, symptoms, readings, genotypes, methylation, pairs),
    "guide/clusters.md": yes_no,
    "guide/fractions.md": methylation,
    "guide/labels/plan.md": votes,
    "guide/report.md": votes,
    "guide/scale.md": every(history, corpus),
}
