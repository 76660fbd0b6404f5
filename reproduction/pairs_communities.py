"""Community detection as a pair matrix of rank 2: Section 5.1's reduction, measured on both sides of the threshold.

Section 5.1 of Huang, Kakade, Kong & Valiant 2018 turns two topics with p, q = (1 ± C)/M into a graph of M nodes with
a = d(1 + C²) and b = d(1 − C²), d = N/M edges a node. Partial recovery needs (a − b)²/(a + b) = 2 d C⁴ above a
constant, which is 2 (Mossel, Neeman & Sly; Massoulié): the linear sample size of Theorem 2.1 cannot be bettered.
`linear`: overlap and ℓ1 error of B against d for growing M coincide. `beyond`: K blocks and uneven degrees at the same
signal-to-noise ratio.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit.communities.diagnostics import detection_ratio
from latentfit.communities.estimator import BlockModel
from latentfit.communities.init import hessian_vectors, k_means, unit_rows
from latentfit.communities.simulate import BlockGraph
from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.pairs.estimator import PairMatrix
from latentfit.simulate import block_graph
from reproduction.draw import draw_communities
from reproduction.table import Curves, Outcome, Row, Run, add_line, mean_row

Codes = NDArray[np.int64]

SEPARATION = 0.8
"""C_Δ: the threshold d C⁴ = 1 lies at d = 2.44."""
SIZES, QUICK_SIZES = (500, 2_000, 10_000, 50_000), (300, 900)
DEGREES, QUICK_DEGREES = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0), (2.0, 10.0)
REPEATS, LARGE = 5, 10_000
PAPER_UP_TO = 10_000
"""The paper's phases are run up to so many items: they only repeat the decomposition there."""
BEYOND = [(2, None), (5, None), (10, None), (2, 2.5), (5, 2.5), (10, 2.5)]
STRENGTHS = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
BEYOND_NODES, BEYOND_DEGREE = 3_000, 8.0
ROWS_JUDGED = 200
"""Rows of B on which ℓ1 errors of decompositions are measured; blocks are judged whole."""
OVERLAP, ERROR, DOUBTED = "overlap", "ℓ1 error of B", "doubted %"


def communities(run: Run) -> Outcome:
    """Section 5.1: overlap and error of B against edges a node."""
    sizes, degrees = (QUICK_SIZES, QUICK_DEGREES) if run.quick else (SIZES, DEGREES)
    columns: dict[str, list[object]] = {name: [] for name in ("M", "d", "method", "overlap", "error", "seconds")}
    rows: list[Row] = []
    for M in sizes:
        for d in degrees:
            found: dict[str, list[list[float]]] = {}
            for seed in run.seeds(REPEATS, 1)[: 2 if M > LARGE else None]:
                pieces = run.piece(f"communities M={M} d={d:g} [{seed}]", lambda: _draw(M, d, seed))  # noqa: B023
                for method, values in pieces.items():
                    found.setdefault(method, []).append(values)
            a, b = d * (1 + SEPARATION**2), d * (1 - SEPARATION**2)
            dataset = f"M = {M:,}, N/M = {d:g}, (a − b)²/2(a + b) = {detection_ratio(a, b):.2f}"
            for method, each in found.items():
                table = np.array(each)
                for at, measure in enumerate((OVERLAP, ERROR, DOUBTED)):
                    if not np.isnan(table[:, at]).any():
                        rows.append(mean_row(Row(dataset, method, measure=measure), table[:, at], table[:, 3]))
                means = table.mean(axis=0)
                add_line(columns, M, d, method, means[0], means[1], means[3])
            run.say(dataset)
    rows += _beyond(run)
    notes = [
        "overlap: (share of nodes right after the best match − 1/K) / (1 − 1/K); 0 is guessing",
        f"C = {SEPARATION}: below N/M = {1 / SEPARATION**4:.2f} no method does better than guessing; the paper prints "
        "no figures of its own",
        f"ℓ1 errors of decompositions are measured on {ROWS_JUDGED} rows of B",
    ]
    title = "Communities as pair counts: overlap and ℓ1 error against N/M, and K blocks across the threshold"
    return Outcome(title, rows, notes, Curves(dict(columns), draw_communities))


def _draw(M: int, d: float, seed: int) -> dict[str, list[float]]:
    """Overlap, ℓ1 error of B, doubted (0 or 100), seconds of every method on one graph."""
    C = SEPARATION**2
    made = block_graph(M, 2, d, affinity=np.array([[1 + C, 1 - C], [1 - C, 1 + C]]), random_state=seed)
    found = {"BlockModel": _blocks(made, 2), "Bethe Hessian": _bethe(made, 2)}
    found["scaled SVD (PairMatrix)"] = _pairs(made, "scaled-svd")
    found["reg + empirical Bayes (PairMatrix)"] = _pairs(made, "auto")
    if M <= PAPER_UP_TO:
        found["the paper's two phases (PairMatrix)"] = _pairs(made, "paper")
    return found


def _draw_beyond(n: int, K: int, power: float | None, strength: float, seed: int) -> dict[str, list[float]]:
    made = block_graph(n, K, BEYOND_DEGREE, strength=strength, power=power, random_state=seed)
    return {"BlockModel": _blocks(made, K), "Bethe Hessian": _bethe(made, K)}


def _beyond(run: Run) -> list[Row]:
    rows = []
    n = 600 if run.quick else BEYOND_NODES
    for K, power in BEYOND[:2] if run.quick else BEYOND:
        for strength in (0.5, 3.0) if run.quick else STRENGTHS:
            found: dict[str, list[list[float]]] = {}
            for seed in run.seeds(REPEATS, 1):
                name = f"beyond K={K} {power} {strength:g} [{seed}]"
                pieces = run.piece(name, lambda: _draw_beyond(n, K, power, strength, seed))  # noqa: B023
                for method, values in pieces.items():
                    found.setdefault(method, []).append(values)
            law = "even degrees" if power is None else f"power law {power}"
            dataset = f"K = {K}, {law}, strength {strength:g}"
            for method, each in found.items():
                table = np.array(each)
                rows.append(mean_row(Row(dataset, method, measure=OVERLAP), table[:, 0], table[:, 3]))
                if method == "BlockModel":
                    rows.append(mean_row(Row(dataset, method, measure=DOUBTED), table[:, 2], table[:, 3]))
        run.say(f"K = {K}, {'even degrees' if power is None else 'power law'}")
    return rows


# ---------------------------------------------------------------- methods


def _timed(run: Callable[[], tuple[float, float, float]]) -> list[float]:
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = run()
    return [*values, time.process_time() - begin]


def _blocks(made: BlockGraph, K: int) -> list[float]:
    def fit() -> tuple[float, float, float]:
        model = BlockModel(K, n_jobs=1).fit(made.matrix)
        doubted = 100.0 * (model.report_.verdict != "ok")
        return overlap(made.blocks, model.labels_), block_error(made, model.labels_, model.connectivity_), doubted

    return _timed(fit)


def _bethe(made: BlockGraph, K: int) -> list[float]:
    def fit() -> tuple[float, float, float]:
        points = unit_rows(hessian_vectors(made.matrix, K))
        degrees = np.asarray(made.matrix.sum(axis=1), np.float64).reshape(-1)
        return overlap(made.blocks, k_means(points, degrees, K, np.random.default_rng(0))), np.nan, np.nan

    return _timed(fit)


def _pairs(made: BlockGraph, method: str) -> list[float]:
    def fit() -> tuple[float, float, float]:
        model = PairMatrix(2, method=method).fit(made.matrix)  # type: ignore[arg-type]
        labels = (model.separation_ > 0).astype(np.int64)
        some = np.linspace(0, len(labels) - 1, min(ROWS_JUDGED, len(labels))).astype(np.intp)
        sizes = np.bincount(made.blocks)
        truth = made.affinity[made.blocks[some]][:, made.blocks] / (sizes @ made.affinity @ sizes)
        error = float(np.abs(model.reconstruct().rows(some) - truth).sum() * len(labels) / len(some))
        return overlap(made.blocks, labels), error, np.nan

    return _timed(fit)


def overlap(truth: Codes, found: Codes) -> float:
    """Share of nodes right after the best match, beyond guessing."""
    K = int(truth.max()) + 1
    table = np.zeros((K, max(K, int(found.max()) + 1)))
    np.add.at(table, (truth, found), 1)
    right = table[np.arange(K), match_classes(table)].sum() / len(truth)
    return float((right - 1 / K) / (1 - 1 / K))


def block_error(made: BlockGraph, labels: Codes, connectivity: Floats) -> float:
    """‖B − B̂‖₁ of two matrices that are constant on blocks, both summing to one."""
    table = np.zeros((len(made.affinity), len(connectivity)))
    np.add.at(table, (made.blocks, labels), 1.0)
    size = table.reshape(-1)
    true, found = (index.reshape(-1) for index in np.indices(table.shape))
    B, B_hat = made.affinity[np.ix_(true, true)], connectivity[np.ix_(found, found)]
    both = np.outer(size, size)
    return float((both * np.abs(B / (both * B).sum() - B_hat / (both * B_hat).sum())).sum())
