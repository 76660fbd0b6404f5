"""How many classes? The likelihood of hidden cells, or BIC, along a growing path."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.copies import sample_rows, single_rows
from tacit.data.sampling import scramble
from tacit.data.stored_table import AnyTable, StoredTable
from tacit.data.table import Table
from tacit.engine.memory import MemoryEngine, Sums, posterior_of
from tacit.engine.mixture import Mixture
from tacit.kernels import Floats
from tacit.progress import tried
from tacit.refine.em import Refined
from tacit.refine.tables import count_parameters

CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
"""Numbers of classes tried, until two in a row are worse."""
HIDDEN = 0.1
"""Share of the cells hidden from the fit."""
MOST_ROWS = 20_000
"""Rows on which the number is chosen."""

LOOSENESS = 10.0
"""How much earlier the compared fits stop: differences between numbers of classes dwarf the last steps of EM."""

FitAt = Callable[[AnyTable, int, float], tuple[str, Refined[Mixture, Sums]]]


@dataclass(frozen=True)
class Chosen:
    """The number, the curve behind it, and a sentence."""

    n_components: int
    curve: dict[str, Any]
    note: str


def choose_classes(table: AnyTable, fit_at: FitAt, criterion: str, seed: int) -> Chosen:
    """Walk the candidates while the criterion improves; hidden cells on a sample of rows, BIC on all of them."""
    shown: AnyTable = table
    hidden: Table | None = None
    if criterion == "heldout":
        shown, hidden = hide_cells(table, HIDDEN, seed)
    seen: list[int] = []
    values: list[float] = []
    since_best = 0
    for number in tried(CANDIDATES, "classes"):
        if number > max(table.total_weight / 2, 1):
            break
        _, refined = fit_at(shown, number, LOOSENESS)
        value = (
            cell_log_likelihood(shown, hidden, refined.params)
            if hidden is not None
            else bic(table, number, refined.log_likelihood)
        )
        seen.append(number)
        values.append(value)
        since_best = 0 if value >= max(values) else since_best + 1
        if since_best == 2:
            break
    best = seen[int(np.argmax(values))]
    name = "log-likelihood per hidden cell" if criterion == "heldout" else "−BIC/2"
    rows = f", on {MOST_ROWS:,} rows" if criterion == "heldout" and table.n_samples > MOST_ROWS else ""
    note = f"{best} classes chosen among {seen} by the {name}{rows}"
    return Chosen(best, {"criterion": name, "n_components": seen, "value": values}, note)


def bic(table: AnyTable, n_components: int, log_likelihood: float) -> float:
    """−BIC/2: larger is better."""
    free = count_parameters(table.first, n_components)
    return log_likelihood - 0.5 * float(np.log(max(table.total_weight, 2.0))) * free


def hide_cells(table: AnyTable, share: float, seed: int) -> tuple[Table, Table]:
    """At most `MOST_ROWS` rows with some observed cells hidden, and the same rows with only those.

    Cells are hidden row by row, not pattern by pattern: a pattern whose cell is hidden in all of its copies at once
    would hide what columns have in common. Which ones is a matter of hashes of rows and names, not of positions.
    """
    long = isinstance(table, Table) and (table.row_weight is None or table.single) and table.n_rows > MOST_ROWS
    if isinstance(table, StoredTable) or long:
        table = sample_rows(table, MOST_ROWS, seed)
    rows = single_rows(table, MOST_ROWS, seed)
    codes = table.codes[rows.pattern]
    names = np.array([zlib.crc32(str(column.name).encode()) for column in table.columns], np.uint64)
    word = scramble(rows.hashes[:, None] ^ scramble(names, seed + 3)[None, :], seed)
    hidden = (word < np.uint64(int(share * 2.0**64))) & (codes < np.diff(table.first))
    missing = codes.dtype.type(np.iinfo(codes.dtype).max)
    both = np.hstack([np.where(hidden, missing, codes), np.where(hidden, codes, missing)])
    patterns, at = np.unique(both, axis=0, return_inverse=True)
    weight = np.bincount(at.reshape(-1), rows.weight, minlength=len(patterns)).astype(np.float64)
    shown, only = (np.ascontiguousarray(part) for part in np.hsplit(patterns, 2))
    kept = replace(table, codes=shown, row_weight=weight, pattern_of=None, equal=None)
    return kept, replace(kept, codes=only)


def cell_log_likelihood(shown: AnyTable, hidden: Table, mixture: Mixture) -> float:
    """Mean log-probability of the hidden cells given the shown cells of their rows."""
    posterior, _ = posterior_of(MemoryEngine(shown, None), mixture)
    total, weight, each = 0.0, 0.0, hidden.each_weight()
    for n in range(shown.n_columns):
        rows = np.flatnonzero(hidden.present[:, n])
        if not len(rows):
            continue
        profile = mixture.table[mixture.first[n] + hidden.codes[rows, n].astype(np.intp)]
        chance: Floats = (posterior[rows] * profile).sum(axis=1)
        row_weight = each[rows]
        total += float(row_weight @ np.log(np.maximum(chance, 1e-300)))
        weight += float(row_weight.sum())
    return total / max(weight, 1.0)
