"""How often is the number of clusters right? Simulated mixtures, every rule on the same fits.

The paper has no experiment. The settings: K 1, 2, 3, 5, 8 × 20, 100, 300 columns × 200, 1000, 5000 rows (not
5000 × 300) × three separations × even and uneven sizes, and 110 of them again with a tenth of the cells missing
(`grid`, 350); small separations or one informative column in ten, half with 15 % missing (`hard`, 192); data of one
cluster (`pure`); a tenth of the columns copying another (`copies`), beside the same settings without copies.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.diagnostics.purity import any_flagged
from latentfit.clusters.select.criteria import choose_by_test
from latentfit.clusters.select.near_duplicates import Screened, screened_path
from latentfit.clusters.select.path import ClusterPath, cluster_path
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Table
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.simulate import BinaryRows, bernoulli_mixture
from reproduction.table import Outcome, Row, Run, mean_row

CLUSTERS = (1, 2, 3, 5, 8)
SIZES = tuple((L, n) for L, n in product((20, 100, 300), (200, 1_000, 5_000)) if (L, n) != (300, 5_000))
SEPARATIONS = (30.0, 16.0, 8.0)
RULES = ("statistical", "practical", "sabic", "aic3", "aic", "bic", "icl")
TRUE_K = "true K given"
EPSILON = 0.1
"""Share of strangers a pure cluster may hold."""
QUICK = 6
"""Settings of a quick run."""

Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Setting:
    """One simulated model; separation as in `latentfit.simulate.bernoulli_mixture`."""

    n_clusters: int
    n_columns: int
    n_rows: int
    separation: float
    even: bool = True
    missing: float = 0.0
    informative: float = 0.5
    identifiable: bool = False
    copies: int = 0

    def draw(self, seed: Any) -> BinaryRows:
        return bernoulli_mixture(
            self.n_rows,
            self.n_columns,
            self.n_clusters,
            separation=self.separation,
            informative=self.informative,
            identifiable=self.identifiable,
            even=self.even,
            missing=self.missing,
            copies=self.copies,
            random_state=seed,
        )


@dataclass(frozen=True)
class Judged:
    """One rule's answer on one table."""

    right: bool
    over: bool
    agreement: float  # adjusted Rand index
    pure: float  # share of the clusters found that are ε-pure
    seconds: float


def grid_settings() -> list[Setting]:
    """The 350."""
    whole = [Setting(K, L, n, D, even) for K, (L, n), D, even in product(CLUSTERS, SIZES, SEPARATIONS, (True, False))]
    gaps = [
        Setting(K, L, n, D, even=D != 16.0, missing=0.1)
        for K, (L, n), D in product(CLUSTERS, SIZES, SEPARATIONS)
        if (L, n) != (100, 5_000) or D == 30.0
    ]
    return whole + gaps


def hard_settings() -> list[Setting]:
    """The 192."""
    kinds = ((4.5, 0.5), (16.0, 0.1), (4.5, 0.1))
    return [
        Setting(K, L, n, D, missing=missing, informative=share)
        for K, (L, n), (D, share), missing in product(CLUSTERS[1:], SIZES, kinds, (0.0, 0.15))
    ]


def copy_settings() -> list[Setting]:
    """A tenth of the columns copy another; 1000 and 5000 rows, where copies do harm."""
    return [
        Setting(K, L, n, D, even=even, copies=L // 10)
        for K, L, n, D, even in product((2, 3, 5), (20, 100), (1_000, 5_000), (30.0, 16.0), (True, False))
    ]


def pure_settings() -> list[Setting]:
    """One cluster, complete and with gaps."""
    return [Setting(1, L, n, 16.0, missing=missing) for (L, n), missing in product(SIZES, (0.0, 0.1))]


def grid(run: Run) -> Outcome:
    return _outcome(run, "grid", grid_settings())


def hard(run: Run) -> Outcome:
    """As drawn, and again where K can be told at all: of 20 columns one in ten is two, and often none."""
    settings = hard_settings()
    as_drawn = _outcome(run, "hard", settings)
    can_be_told = _outcome(run, "hard, identifiable", [replace(one, identifiable=True) for one in settings])
    return Outcome(as_drawn.title, as_drawn.rows + can_be_told.rows, as_drawn.notes + can_be_told.notes)


def pure(run: Run) -> Outcome:
    return _outcome(run, "pure", pure_settings(), full=13)


def copies(run: Run) -> Outcome:
    settings = copy_settings()
    with_them = _outcome(run, "near-copies", settings, full=2)
    without = _outcome(run, "the same without copies", [replace(one, copies=0) for one in settings], full=2)
    notes = with_them.notes + without.notes
    return Outcome(with_them.title, with_them.rows + without.rows, notes)


def _outcome(run: Run, name: str, settings: list[Setting], full: int = 1) -> Outcome:
    """Every rule on the same tables, `full` of each setting."""
    if run.quick:
        small = [one for one in settings if one.n_rows * one.n_columns <= 100_000]
        settings = small[:: -(-len(small) // QUICK)]
    found: dict[str, list[Judged]] = {}
    aside, planted, hit, columns = 0, 0, 0, 0
    for repeat, seed in enumerate(run.seeds(full)):
        for at, setting in enumerate(settings):
            data = setting.draw([seed, at])
            screened, judged = judge(data, setting.n_clusters)
            for rule, one in judged.items():
                found.setdefault(rule, []).append(one)
            pairs = {frozenset(pair) for pair in data.copied.items()}
            left_out = screened.copies + screened.dependent
            aside += len(left_out)
            hit += sum(frozenset((one.column, one.copies)) in pairs for one in left_out)
            planted += len(pairs)
            columns += setting.n_columns
        run.say(f"{name}: {len(settings)} settings, repeat {repeat + 1}")
    dataset = f"{name}, {len(settings)} settings"
    note = f"{dataset}: {aside} of {columns} columns depend on another, {hit} rightly; {planted} were planted"
    title = f"number of clusters, {run.times(full)} table(s) a setting"
    return Outcome(title, rows_of(dataset, found), [note])


def rows_of(dataset: str, found: dict[str, list[Judged]]) -> list[Row]:
    """Shares right and over-split, agreement and purity, rule by rule."""
    rows = []
    for measure in ("K right %", "over-split %", "ARI", "ε-pure clusters %"):
        for rule, judged in found.items():
            row = Row(dataset, rule, measure=measure)
            rows.append(mean_row(row, (_value(one, measure) for one in judged), (one.seconds for one in judged)))
    return rows


def _value(one: Judged, measure: str) -> float:
    return {
        "K right %": 100.0 * one.right,
        "over-split %": 100.0 * one.over,
        "ARI": one.agreement,
        "ε-pure clusters %": 100 * one.pure,
    }[measure]


def judge(data: BinaryRows, n_clusters: int, rules: Iterable[str] = RULES) -> tuple[Screened, dict[str, Judged]]:
    """What every rule makes of one table; all share one path, which also holds the fit with the true number.

    ``"purity"`` splits while the certificate flags a cluster; its tests are not in the seconds.
    """
    table = data.coded()
    begin = time.perf_counter()
    with one_blas_thread():
        screened = screened_path(table, lambda some, until: cluster_path(some, least=n_clusters, until=until))
        took = time.perf_counter() - begin
        path = screened.path
        shown = table.without(~screened.used_columns)
        chosen = {rule: _pure_number(shown, path) if rule == "purity" else path.numbers.chosen[rule] for rule in rules}
        out = {}
        for rule, number in (*chosen.items(), (TRUE_K, min(n_clusters, len(path.fits)))):
            own = rule in ("statistical", "practical", TRUE_K)  # the others are defined on fits to all columns
            labels = likeliest(shown, path.best(number) if own else path.at(number).mixture)
            out[rule] = judged_labels(data.clusters, labels, number, n_clusters, took)
    return screened, out


def _pure_number(table: Table, path: ClusterPath) -> int:
    return choose_by_test(path.fits, lambda fit: any_flagged(table, fit.mixture))


def likeliest(table: Table, mixture: Mixture) -> Ints:
    """The most probable cluster of each of the user's rows."""
    return np.asarray(table.expand(posterior_of(MemoryEngine(table, 1), mixture)[0]).argmax(axis=1))


def judged_labels(truth: NDArray[Any], labels: NDArray[Any], number: int, n_clusters: int, seconds: float) -> Judged:
    from sklearn.metrics import adjusted_rand_score

    both = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1))
    np.add.at(both, (labels, truth), 1)
    sizes = both.sum(axis=1)
    pure = both.max(axis=1)[sizes > 0] >= (1 - EPSILON) * sizes[sizes > 0]
    agreement = float(adjusted_rand_score(truth, labels))
    return Judged(number == n_clusters, number > n_clusters, agreement, float(pure.mean()), seconds)
