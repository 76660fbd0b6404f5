"""Do two columns that measure the same thing make classes? Fewer classes with direct dependence, compared by BIC.

Two items that repeat each other violate independence within classes. With enough classes nothing of it is left to be
seen in the residuals, since further classes absorb it. So the rival is a model with fewer classes in which the
two columns depend on each other inside every class: one joint column in place of the two.

Paper     Hagenaars 1988 (direct effects between indicators); Schwarz 1978 (BIC)
Needs     rows that show both columns or neither
Promises  as rows grow BIC picks the rival where it is true and the classes that it lacks are not
Differs   pairs are chosen by the largest residual of merged classes, and at most `SETTINGS.pairs` are joined

Symbols   here      shape      meaning
          joined    (A·B, F)   profile of the two columns of A and B categories together
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latentfit.core.em import EMResult, em
from latentfit.core.mixture.em import SMOOTHING, count_parameters, table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import Sums
from latentfit.tables.diagnostics.classes import merge_nearest
from latentfit.tables.diagnostics.pairs import (
    CellPairs,
    count_evidence,
    expected_pairs,
    residual_dependence,
    some_rows,
)


@dataclass(frozen=True)
class RivalSettings:
    """How far the search for the rival goes."""

    work: int = 1_000_000  # Rows · columns · classes of an iteration of EM, by which rows are chosen.
    sampled_rows: int = 2_000  # Rows that are looked at however wide the table is.
    max_iter: int = 40  # EM iterations of a fit: with SQUAREM enough to settle to a fraction of a nat.
    merges: int = 4  # Classes that the rival may have less.
    first_pairs: int = 2  # Pairs that are tried first at every number of classes.
    associated: int = 2  # Pairs most dependent without classes, which are tried too.
    pairs: int = 3  # Pairs of columns that are joined at most.
    cells: int = 40  # Categories of a joint column at most.
    least_rows: float = 0.5  # Proportion of the rows that must show both columns or neither.
    level: float = 1e-3  # Level of a residual, divided by the number of pairs.


SETTINGS = RivalSettings()


@dataclass(frozen=True)
class Rival:
    """The best model with direct dependence and no more classes: what it has, and its BIC less that of classes alone.

    Classes alone are those of the fit or fewer of them, whichever has the smaller BIC.
    """

    pairs: list[tuple[int, int]]
    n_classes: int
    bic_difference: float


@dataclass(frozen=True)
class ClassPath:
    """The classes of a fit, settled on some rows, and those left when the nearest two become one, again and again."""

    rows: Table
    mixtures: list[Mixture]  # the fit first
    bics: list[float]

    @property
    def best(self) -> float:
        """The smallest BIC: what another model has to be compared with."""
        return min(self.bics)


def class_path(table: Table, mixture: Mixture) -> ClassPath:
    """The path of a fit on rows chosen by hash."""
    rows = some_rows(table, max(SETTINGS.work // max(table.n_columns * mixture.n_classes, 1), SETTINGS.sampled_rows))
    settled = _settle(rows, mixture)
    mixtures, bics = [settled.params], [bic_of(rows, settled.log_likelihood, settled.params)]
    for _ in range(min(SETTINGS.merges, mixture.n_classes - 1)):
        settled = merge_nearest(rows, mixtures[-1], SETTINGS.max_iter)
        mixtures.append(settled.params)
        bics.append(bic_of(rows, settled.log_likelihood, settled.params))
    return ClassPath(rows, mixtures, bics)


def best_rival(path: ClassPath) -> Rival | None:
    """The rival of a fit of two classes or more; None where no pair of columns stands out."""
    rows, fitted = path.rows, path.mixtures[0]
    alone = Mixture(np.ones(1), (fitted.table @ fitted.weights)[:, None], fitted.column_offsets)
    evidence = count_evidence(rows, fitted.n_classes)
    associated = _largest_residuals(evidence, alone, rows.n_columns)[: SETTINGS.associated]
    best: Rival | None = None
    for fewer, bic in zip(path.mixtures, path.bics, strict=True):
        firsts = _largest_residuals(evidence, fewer, rows.n_columns)
        for first in [*firsts, *(pair for pair in associated if pair not in firsts)]:
            found = _join_pairs(path, fewer, bic, first)
            if found is not None and (best is None or found.bic_difference < best.bic_difference):
                best = found
    return best


def _join_pairs(path: ClassPath, fewer: Mixture, bic: float, first: tuple[int, int]) -> Rival | None:
    """Pairs of columns joined in a model with no more classes: the one given, then the largest residuals left.

    It ends with the first pair that does not lower the BIC, which is `bic` before, or not below that of classes alone.
    """
    rows, against = path.rows, path.best
    joined, mixture = rows, fewer
    singles = list(range(rows.n_columns))  # columns not joined yet; in the joined table they come first
    pairs: list[tuple[int, int]] = []
    best: Rival | None = None
    for _ in range(SETTINGS.pairs):
        left = [first]
        if pairs:
            left = _largest_residuals(count_evidence(joined, mixture.n_classes), mixture, len(singles))
        if not left:
            break
        at = left[0]
        both = joined.present[:, at[0]] == joined.present[:, at[1]]
        if joined.each_weight()[both].sum() < SETTINGS.least_rows * joined.total_weight:
            break
        if not both.all():  # the models are compared on the same rows
            rows, joined = rows.take(np.flatnonzero(both)), joined.take(np.flatnonzero(both))
            classes = _settle(rows, path.mixtures[int(np.argmin(path.bics))])
            against = bic_of(rows, classes.log_likelihood, classes.params)
            before = _settle(joined, mixture)
            bic = bic_of(joined, before.log_likelihood, before.params)
        pairs.append((singles.pop(at[1]), singles.pop(at[0]))[::-1])
        joined, mixture = join_columns(joined, mixture, *at)
        refined = _settle(joined, mixture)
        mixture = refined.params
        joined_bic = bic_of(joined, refined.log_likelihood, mixture)
        if joined_bic >= bic:
            break
        bic, best = joined_bic, Rival(list(pairs), mixture.n_classes, joined_bic - against)
        if best.bic_difference >= 0:  # classes explain the dependence as well
            break
    return best


def _settle(table: Table, mixture: Mixture) -> EMResult[Mixture, Sums]:
    steps = table_steps(table, mixture.n_classes, SMOOTHING, 1)
    return em(steps, mixture, max_iter=SETTINGS.max_iter, tol=1e-7, accelerate=True)


def bic_of(table: Table, log_likelihood: float, mixture: Mixture) -> float:
    """Schwarz's criterion, smaller is better."""
    n_free = count_parameters(mixture.column_offsets, mixture.n_classes)
    return -2 * log_likelihood + n_free * float(np.log(max(table.total_weight, 2.0)))


def _largest_residuals(evidence: CellPairs, mixture: Mixture, n_single: int) -> list[tuple[int, int]]:
    """Pairs of the first columns that depend on each other inside the classes, most first."""
    N = len(evidence.columns)
    if N < 2:
        return []
    level = SETTINGS.level / max(N * (N - 1) / 2, 1)
    values = residual_dependence(evidence.counts, expected_pairs(evidence, mixture), evidence.column_offsets, level)
    sizes = np.diff(evidence.column_offsets)
    single = evidence.columns < n_single
    values = np.triu(np.where(np.outer(single, single) & (np.outer(sizes, sizes) <= SETTINGS.cells), values, 0.0))
    order = np.argsort(-values, axis=None, kind="stable")[: SETTINGS.first_pairs]
    found = [np.unravel_index(at, values.shape) for at in order if values.flat[at] > 0]
    return [(int(evidence.columns[left]), int(evidence.columns[right])) for left, right in found]


def join_columns(table: Table, mixture: Mixture, left: int, right: int) -> tuple[Table, Mixture]:
    """Two columns that rows show together become one, the last; the mixture has them independent still."""
    others = [n for n in range(table.n_columns) if n not in (left, right)]
    missing, size = np.iinfo(table.codes.dtype).max, table.columns[right].size
    pair = table.codes[:, left].astype(np.intp) * size + table.codes[:, right]
    last = np.where(table.present[:, left], pair, missing).astype(table.codes.dtype)
    codes = np.ascontiguousarray(np.column_stack([table.codes[:, others], last]))
    column = Column("joined", np.arange(table.columns[left].size * size))
    joined = replace(table, codes=codes, columns=(*(table.columns[n] for n in others), column))
    profiles = mixture.profiles()
    product = (profiles[left][:, :, None] * profiles[right][:, None, :]).reshape(mixture.n_classes, -1)
    cells = np.concatenate([*(profiles[n].T for n in others), product.T])
    return joined, Mixture(mixture.weights, np.ascontiguousarray(cells), joined.column_offsets)
