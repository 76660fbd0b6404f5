"""Table I of Ibrahim & Fu 2021: five columns of ten categories, five classes, half of the cells hidden.

The columns of the factors are drawn, as the paper does it; from which distribution it does not say, nor for the class
weights: both are uniform on the simplex here. F of the rows of H are moved to within ε of the corners, so that the
paper's ε-separability holds for the split it uses; columns are scaled to sum to one again.
"""

from __future__ import annotations

import time

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.init import random_init
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.table.table import Column, Table, group_rows
from latentfit.engine.limits import one_blas_thread
from reproduction.joint_methods import climb, factor_error, latent_class, relative_error, start_of_em, starts
from reproduction.joint_paper import SIZES, TABLE1
from reproduction.table import Outcome, Row, Run, mean_row

REPEATS = 20
N_COLUMNS, N_CATEGORIES, N_CLASSES, N_LEFT = 5, 10, 5, 3
OBSERVED = 0.5
EPSILON = 0.1
"""How near to a corner of the simplex each class has a row of H."""
TACIT = "LatentClass"
TRUTH_EM = "EM from the truth"
ROWS = (*TABLE1["MRE"], TRUTH_EM, TACIT)
MAX_ITER, TOL = 1_000, 1e-8


def table1(run: Run) -> Outcome:
    """Table I: errors of factors and of the joint distribution for 10³ to 10⁶ rows."""
    sizes = SIZES[1:2] if run.quick else SIZES
    rows: list[Row] = []
    notes: list[str] = [f"S = {size:,} is left out of a quick run" for size in SIZES if size not in sizes]
    for size in sizes:
        run.say(f"S = {size:,}")
        made = _column(run, size)
        rows += made
        notes += _distance_notes(made)
    return Outcome(f"N = 5, F = 5, I = 10, p = 0.5, M = 3, {run.times(REPEATS)} trials", rows, notes)


def _column(run: Run, size: int) -> list[Row]:
    """All methods on the same trials of S rows."""
    place = SIZES.index(size)
    values: dict[tuple[str, str, str], list[float]] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    for trial, seed in enumerate(run.seeds(REPEATS)):
        rng = np.random.default_rng([seed, place])
        truth = draw_truth(rng)
        table = draw_table(truth, size, rng)
        for method, variant, found, took in solutions(table, truth, seed):
            seconds.setdefault((method, variant), []).append(took)
            values.setdefault((method, variant, "MSE"), []).append(factor_error(found, truth))
            values.setdefault((method, variant, "MRE"), []).append(relative_error(found, truth))
        run.say(f"S = {size:,}: trial {trial + 1}")
    rows = []
    for measure in ("MSE", "MRE"):
        for (method, variant), took_all in seconds.items():
            printed = TABLE1[measure].get(method)
            row = Row(f"S = {size:,}", method, variant, measure, printed[place] if printed else None)
            rows.append(mean_row(row, values[method, variant, measure], took_all))
    return rows


def solutions(table: Table, truth: Mixture, seed: int) -> list[tuple[str, str, Mixture, float]]:
    """What every method finds on one table, and its seconds; a start is made once and shared by its EM row."""
    out = []
    with one_blas_thread():
        for (method, variant), start in {**starts(N_LEFT), ("RAND", ""): random_init}.items():
            begin = time.perf_counter()
            found = start(table, N_CLASSES, np.random.default_rng(seed))
            if method != "RAND":  # a random guess alone is no row of the paper
                out.append((method, variant, found, time.perf_counter() - begin))
            refined = climb(table, start_of_em(found, table), max_iter=MAX_ITER, tol=TOL)
            out.append((f"{method}-EM", variant, refined, time.perf_counter() - begin))
        begin = time.perf_counter()
        out.append((TRUTH_EM, "", climb(table, truth, max_iter=MAX_ITER, tol=TOL), time.perf_counter() - begin))
        begin = time.perf_counter()
        out.append((TACIT, "untouched", latent_class(table, N_CLASSES, seed), time.perf_counter() - begin))
    return sorted(out, key=lambda one: ROWS.index(one[0]))


def draw_truth(rng: np.random.Generator) -> Mixture:
    """A model with drawn columns whose H is ε-separable: for every class f some normalised row is within ε of e_f."""
    offsets = np.arange(0, N_COLUMNS * N_CATEGORIES + 1, N_CATEGORIES, dtype=np.int32)
    weights = rng.dirichlet(np.ones(N_CLASSES))
    columns = rng.dirichlet(np.ones(N_CATEGORIES), size=(N_COLUMNS, N_CLASSES))
    table = np.ascontiguousarray(columns.transpose(0, 2, 1)).reshape(-1, N_CLASSES)
    anchors = rng.choice(np.arange(offsets[N_LEFT], offsets[-1]), N_CLASSES, replace=False)
    length = table[anchors].sum(axis=1)
    corner = np.eye(N_CLASSES)
    table[anchors] = length[:, None] * ((1 - EPSILON) * corner + EPSILON * table[anchors])
    for _ in range(100):
        table = normalise_tables(table, offsets)
        far = distance_to_corners(table, weights, anchors) > EPSILON
        if not far.any():
            break
        off = np.where(corner > 0, 1.0, 0.8)
        table[anchors[far]] *= off[far]
    return Mixture(weights, table, offsets)


def distance_to_corners(table: Floats, weights: Floats, anchors: Floats) -> Floats:
    """‖H̄(l_f, ·) − e_f‖ of the anchor rows of H = D(λ)[A_{M+1}; …], rows normalised."""
    rows = table[anchors] * weights
    return np.asarray(np.linalg.norm(rows / rows.sum(axis=1, keepdims=True) - np.eye(len(weights)), axis=1))


def draw_table(truth: Mixture, n_rows: int, rng: np.random.Generator) -> Table:
    """Rows of the model, each cell hidden with probability one half; equal rows grouped."""
    classes = rng.choice(truth.n_classes, size=n_rows, p=truth.weights)
    codes = np.empty((n_rows, truth.n_columns), np.uint8)
    for n in range(truth.n_columns):
        codes[:, n] = truth.draw_codes(n, classes, rng)
    codes[rng.random(codes.shape) > OBSERVED] = np.iinfo(np.uint8).max
    columns = tuple(Column(n, np.arange(N_CATEGORIES)) for n in range(truth.n_columns))
    return group_rows(Table(codes, columns))


def _distance_notes(rows: list[Row]) -> list[str]:
    """How far CNMF-SPA-EM is from EM started at the truth."""
    found = {(row.method, row.variant): row.ours for row in rows if row.measure == "MRE"}
    best = found[TRUTH_EM, ""]
    notes = []
    for (method, variant), value in found.items():
        if method == "CNMF-SPA-EM" and value is not None and best:
            gap = 100 * (value / best - 1)
            notes.append(f"{rows[0].dataset}: MRE of {method} ({variant}) lies {gap:+.1f} % from EM from the truth")
    return notes
