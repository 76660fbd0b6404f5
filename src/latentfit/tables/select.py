"""How many classes? The likelihood of hidden cells, or BIC, along a growing path.

Every cell is hidden once: the observed cells of each row are dealt to five folds, by hashes of what the row says and
of the columns' names, never by the seed. At every number the classes of all cells initialise the EM run of each fold,
so that all folds stand near the same optimum. Two rules keep the number where the data show it:

- a number counts only if its log-likelihood exceeds that of every smaller one by more than classes gain by chance
  (`gain_by_chance`, which the verdict asks for too);
- of these the smallest within one standard error of the best is taken, the standard error being that of the paired
  differences between rows (the one-standard-error rule). From eight classes on, where the candidates leave
  numbers out and local optima move the curve by more than its standard error, within a hundredth of what the best
  number gains over one class is near enough.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters, gain_by_chance
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.progress import candidate_numbers
from latentfit.core.sampling import scramble
from latentfit.core.table.replicates import ReplicatedRows, sample_rows, single_rows
from latentfit.core.table.stored import AnyTable, StoredTable
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class SearchSettings:
    """Tuned numbers of the choice of the number of classes."""

    # Numbers of classes tried, until two in a row are worse.
    candidates: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
    folds: int = 5  # Folds that the cells of every row are dealt to.
    enough_cells: int = 20_000  # Hidden cells that are enough: of large tables not all folds are fitted.
    # Seed of the hashes that deal rows and cells: the number must not depend on the seed of the fit.
    fold_seed: int = 0
    errors: float = 1.0  # Standard errors that a smaller number may lie below the best.
    many: int = 8  # Classes from which on the candidates leave numbers out.
    # Part of the best's gain over one class that a smaller number may lie below it, if it is one of many.
    near_enough: float = 0.01


SEARCH = SearchSettings()

MAX_ROWS = 20_000  # Rows on which the number is chosen.

FitAt = Callable[[AnyTable, int], EMResult[Mixture, Any]]  # The best fit of a table at a number of classes.
Refit = Callable[[Table, Mixture], Mixture]  # EM on a table from a mixture.


@dataclass(frozen=True)
class Chosen:
    """The number, the curve behind it, and a sentence."""

    n_components: int
    curve: dict[str, Any]
    note: str


@dataclass(frozen=True)
class Fold:
    """A table with a fold's cells hidden, the same rows with only those, and which of them each single row is."""

    visible: Table
    hidden: Table
    at: NDArray[np.intp]


def choose_classes(table: AnyTable, fit_at: FitAt, refit: Refit, criterion: str) -> Chosen:
    """Walk the candidates while the criterion improves; hidden cells on a sample of rows, BIC on all of them."""
    if criterion == "bic":
        return _by_bic(table, fit_at)
    rows, few, folds = cell_folds(table)
    seen: list[int] = []
    scores: list[Floats] = []  # of every row, at every number
    records = Records(few)
    since_best = 0
    for number in candidate_numbers(SEARCH.candidates, "classes"):
        if number > max(table.total_weight / 2, 1):
            break
        full = fit_at(few, number)
        scores.append(np.sum([hidden_scores(fold, refit(fold.visible, full.params)) for fold in folds], axis=0))
        seen.append(number)
        shown = records.add(number, full.log_likelihood)
        totals = [float(rows.weight @ score) for score in scores]
        since_best = 0 if shown and totals[-1] >= max(totals) else since_best + 1
        if since_best == 2:
            break
    n_cells = max(sum(fold.hidden.n_cells for fold in folds), 1.0)
    errors = [standard_error(scores[_best(totals, records.shown)] - score, rows.weight) for score in scores]
    best = seen[smallest_within(seen, totals, errors, records.shown)]
    name = "log-likelihood per hidden cell"
    sampled = f", on {MAX_ROWS:,} rows" if table.n_samples > MAX_ROWS else ""
    note = (
        f"{_classes(best)} chosen among {seen} by the {name}{sampled}: the smallest number within one standard error "
        "of the best, of those that gain more than chance gives"
    )
    curve = {
        "criterion": name, "n_components": seen, "value": [total / n_cells for total in totals],
        "standard_error": [error / n_cells for error in errors], "shown": records.shown,
    }  # fmt: skip
    return Chosen(best, curve, note)


def _by_bic(table: AnyTable, fit_at: FitAt) -> Chosen:
    seen: list[int] = []
    values: list[float] = []
    since_best = 0
    for number in candidate_numbers(SEARCH.candidates, "classes"):
        if number > max(table.total_weight / 2, 1):
            break
        value = bic(table, number, fit_at(table, number).log_likelihood)
        seen.append(number)
        values.append(value)
        since_best = 0 if value >= max(values) else since_best + 1
        if since_best == 2:
            break
    best = seen[int(np.argmax(values))]
    note = f"{_classes(best)} chosen among {seen} by the −BIC/2"
    return Chosen(best, {"criterion": "−BIC/2", "n_components": seen, "value": values}, note)


class Records:
    """Which numbers of classes exceed all smaller ones by more than chance gives, as the path grows."""

    def __init__(self, table: Table) -> None:
        self.counts, self.column_offsets = table.singles(), table.column_offsets
        self.shown: list[bool] = []
        self._last, self._penalty, self._best = 1, 0.0, -np.inf

    def add(self, number: int, log_likelihood: float) -> bool:
        self._penalty += (number - self._last) * gain_by_chance(self.counts, self.column_offsets, number)
        value = log_likelihood - self._penalty
        self.shown.append(bool(value > self._best))
        self._last, self._best = number, max(self._best, value)
        return self.shown[-1]


def _best(totals: list[float], shown: list[bool]) -> int:
    return int(np.argmax(np.where(shown, totals, -np.inf)))


def smallest_within(numbers: list[int], totals: list[float], errors: list[float], shown: list[bool]) -> int:
    """The first of those shown that lies near enough below the best of them; see the module for the rule."""
    top = totals[_best(totals, shown)]
    gain = SEARCH.near_enough * (top - totals[0])
    allowed = [
        max(SEARCH.errors * error, gain if k >= SEARCH.many else 0.0) for k, error in zip(numbers, errors, strict=True)
    ]
    return next(k for k, total in enumerate(totals) if shown[k] and top - total <= allowed[k])


def standard_error(differences: Floats, weight: Floats) -> float:
    """Of a weighted sum of independent rows' differences."""
    mean = float(weight @ differences) / max(float(weight.sum()), 1e-300)
    return float(np.sqrt(np.square(weight * (differences - mean)).sum()))


def bic(table: AnyTable, n_components: int, log_likelihood: float) -> float:
    """−BIC/2: larger is better."""
    free = count_parameters(table.column_offsets, n_components)
    return log_likelihood - 0.5 * float(np.log(max(table.total_weight, 2.0))) * free


def cell_folds(table: AnyTable) -> tuple[ReplicatedRows, Table, list[Fold]]:
    """At most `MAX_ROWS` single rows, the same as a table, and the folds to fit: each cell is in one of `SEARCH.folds`.

    Cells are hidden row by row, not unique row by unique row: a unique row whose cell is hidden in all replicates at
    once would hide what columns have in common. Within a row cells are dealt in turn, so that folds hide equally
    many.
    """
    long = isinstance(table, Table) and (table.row_weight is None or table.single) and table.n_rows > MAX_ROWS
    if isinstance(table, StoredTable) or long or table.n_samples > MAX_ROWS:
        table = sample_rows(table, MAX_ROWS, SEARCH.fold_seed)
    rows = single_rows(table, MAX_ROWS, SEARCH.fold_seed)
    codes = table.codes[rows.unique_row]
    names = np.array([zlib.crc32(str(column.name).encode()) for column in table.columns], np.uint64)
    hashes = scramble(rows.hashes[:, None] ^ scramble(names, SEARCH.fold_seed + 3)[None, :], SEARCH.fold_seed)
    present = codes < np.diff(table.column_offsets)
    order = np.where(present, hashes, np.uint64(2**64 - 1)).argsort(axis=1, kind="stable")
    turn = (scramble(rows.hashes, SEARCH.fold_seed + 5) % np.uint64(SEARCH.folds)).astype(np.intp)
    fold = np.empty(codes.shape, np.intp)
    np.put_along_axis(fold, order, (np.arange(codes.shape[1])[None, :] + turn[:, None]) % SEARCH.folds, axis=1)
    fold[~present] = -1
    number = int(np.clip(np.ceil(SEARCH.enough_cells * SEARCH.folds / max(present.sum(), 1)), 1, SEARCH.folds))
    return rows, table, [_hidden(table, rows, codes, fold == k) for k in range(number)]


def _hidden(table: Table, rows: ReplicatedRows, codes: NDArray[Any], hidden: NDArray[np.bool_]) -> Fold:
    """Rows with some cells hidden, equal ones held once."""
    missing = codes.dtype.type(np.iinfo(codes.dtype).max)
    both = np.hstack([np.where(hidden, missing, codes), np.where(hidden, codes, missing)])
    unique_rows, at = np.unique(both, axis=0, return_inverse=True)
    at = at.reshape(-1)
    weight = np.bincount(at, rows.weight, minlength=len(unique_rows)).astype(np.float64)
    visible, only = (np.ascontiguousarray(part) for part in np.hsplit(unique_rows, 2))
    visible_table = replace(table, codes=visible, row_weight=weight, unique_index=None, equal=None)
    return Fold(visible_table, replace(visible_table, codes=only), at)


def hidden_scores(fold: Fold, mixture: Mixture) -> Floats:
    """Log-probability of the hidden cells given the shown cells of their rows, for every single row."""
    posterior, _ = posterior_of(MemoryEngine(fold.visible, None), mixture)
    scores = np.zeros(fold.visible.n_rows)
    for n in range(fold.visible.n_columns):
        rows = np.flatnonzero(fold.hidden.present[:, n])
        if len(rows):
            profile = mixture.table[mixture.column_offsets[n] + fold.hidden.codes[rows, n].astype(np.intp)]
            scores[rows] += np.log(np.maximum((posterior[rows] * profile).sum(axis=1), 1e-300))
    return np.asarray(scores[fold.at])


def _classes(number: int) -> str:
    return "1 class" if number == 1 else f"{number} classes"
