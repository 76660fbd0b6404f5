"""Small inputs for every command that fits, with names that try to act: what a page must show and never run."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from latentfit.cli.main import main
from latentfit.simulate import binary_factors, block_graph, hidden_markov, topic_documents

HOSTILE = (
    "<script>window.hurt = 1</script>",
    "</script><script>window.hurt = 1</script>",
    '"><img src=x onerror="window.hurt = 1">',
    "=cmd()",
    "a.b[0]['c']",
    "line\u2028end\u2029",
    "__proto__",
    "image",
    "{{1+1}} ${window.hurt=1}",
    "&lt;b&gt;",
    "\u202egnp.elif",
    "javascript:window.hurt=1",
)
COMMANDS = (
    "labels", "plan", "table", "cluster", "factors", "admixture", "fractions", "topics", "hmm", "communities",
)  # fmt: skip


def name(number: int) -> str:
    """A name that tries something, different for every number."""
    return HOSTILE[number % len(HOSTILE)] + ("" if number < len(HOSTILE) else f" {number}")


def run(command: str, folder: Path, *more: str) -> Path:
    """The folder of results of a command on its small input."""
    out = folder / command
    arguments = INPUTS[command](folder)
    assert main([command, *map(str, arguments), "--out", str(out), "--quiet", *more]) == 0
    return out


def _write(path: Path, header: list[str], rows) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def _labels(folder: Path) -> list:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 60)
    rows = []
    for m in range(6):
        for n in rng.choice(60, 40, replace=False):
            said = truth[n] if rng.random() < 0.5 + 0.09 * m else rng.integers(0, 3)
            rows.append([name(n), name(m), name(said)])
    return [_write(folder / "votes.csv", ["task", "worker", "label"], rows)]


def _table(folder: Path) -> list:
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 2, 300)
    codes = np.where(rng.random((300, 5)) < 0.8, hidden[:, None], rng.integers(0, 3, (300, 5)))
    rows = [[name(5 + code) for code in row] for row in codes]
    return [_write(folder / "table.csv", [name(n) for n in range(5)], rows), "--components", "2", "--compare", "2"]


def _cluster(folder: Path) -> list:
    rng = np.random.default_rng(2)
    rates = np.where(np.arange(8) < 4, [[0.9], [0.1]], [[0.2], [0.8]])
    rows = (rng.random((200, 8)) < rates[rng.integers(0, 2, 200)]).astype(int)
    return [_write(folder / "binary.csv", [name(n) for n in range(8)], rows.tolist())]


def _factors(folder: Path) -> list:
    rows = binary_factors(600, m=6, d=2, sigma=0.15, random_state=1).X
    return [_write(folder / "numbers.csv", [name(n) for n in range(6)], rows.tolist()), "--components", "2"]


def _admixture(folder: Path) -> list:
    rng = np.random.default_rng(0)
    proportions = rng.dirichlet([0.2, 0.2], 40)
    counts = rng.binomial(2, proportions @ rng.uniform(0.05, 0.95, (2, 120)))
    rows = [[name(i), *row] for i, row in enumerate(counts.tolist())]
    header = ["sample", *(name(n) for n in range(120))]
    return [_write(folder / "genotypes.csv", header, rows), "--id", "sample", "--populations", "2"]


def _fractions(folder: Path) -> list:
    rng = np.random.default_rng(0)
    parts = rng.beta(0.5, 0.5, (3, 60))
    values = np.clip(rng.dirichlet(np.full(3, 0.5), 10) @ parts + 0.02 * rng.normal(size=(10, 60)), 0, 1)
    rows = [[name(n), *values[:, n].tolist()] for n in range(60)]
    given = [[name(n), *parts[:, n].tolist()] for n in range(60)]
    reference = _write(folder / "reference.csv", ["site", *(name(k) for k in range(3))], given)
    header = ["site", *(name(i) for i in range(10))]
    return [_write(folder / "values.csv", header, rows), "--reference", reference]


def _topics(folder: Path) -> list:
    counts = topic_documents(120, 40, 2, length=30, random_state=0).counts.tocoo()
    cells = zip(counts.row, counts.col, counts.data, strict=True)
    rows = [[name(d), name(w), int(n)] for d, w, n in cells]
    return [_write(folder / "documents.csv", ["document", "word", "count"], rows), "--topics", "2"]


def _hmm(folder: Path) -> list:
    made = hidden_markov(1500, n_states=2, n_symbols=8, n_sequences=15, overlap=0.1, random_state=2).sequences
    parts = np.split(made.codes, made.offsets[1:-1])
    rows = [[name(n), name(code)] for n, part in enumerate(parts) for code in part.tolist()]
    return [_write(folder / "visits.csv", ["sequence", "symbol"], rows), "--states", "2"]


def _communities(folder: Path) -> list:
    at = block_graph(90, 2, 10.0, strength=5.0, random_state=0).matrix.tocoo()
    rows = [[name(i), name(j)] for i, j in zip(at.row, at.col, strict=True) if i < j]
    return [_write(folder / "edges.csv", ["source", "target"], rows), "--blocks", "2"]


INPUTS = {
    "labels": _labels, "plan": _labels, "table": _table, "cluster": _cluster, "factors": _factors,
    "admixture": _admixture, "fractions": _fractions, "topics": _topics, "hmm": _hmm, "communities": _communities,
}  # fmt: skip
