"""A path of fits with K = 1, 2, … clusters of binary rows, each the best of several initialisations.

A number of clusters is chosen by comparing fits, so one that is stuck does as much harm as a wrong rule. Every K is
started from the most gainful splits of the fit before it (`class_splits`), from many classes merged down (one chain
of merges serves all K) and from spectral clusters; short runs, the best goes on. When the path has ended it is walked
back and forth until it rests: merging two classes of K + 1 sometimes beats what K found, and splitting what K then has
sometimes beats K + 1. Log-likelihoods never fall along the path: where a fit is below the one before, that one goes on
with a class twice. At last every K gets a restricted fit, where some columns are noninformative (`noninformative.py`):
it stands beside the fit to all columns, and where its criterion is better the path goes on for it. Where rows of zeros
were never recorded (`truncated`) no column is noninformative: whether a row was recorded depends on all of them.

Fits are plain maximum likelihood: their log-likelihoods are compared with one another, and a prior's pull on each
would be compared too. A long table is walked on a sample of its rows, and every fit then sees all rows a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.em import BlankRows, TruncatedSteps, TruncatedSums, recorded_weights
from latentfit.clusters.select.criteria import PathNumbers, number_clusters, size_penalty, statistical_penalty
from latentfit.clusters.select.noninformative import RestrictedFit, RestrictedPath, fit_informative
from latentfit.clusters.select.splits import split_classes, with_split, with_twin
from latentfit.core.em import EMResult, Steps, em
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import entropy_of, plain_steps
from latentfit.core.mixture.init import MAX_CELLS, Sample, draw_sample, spectral_clusters, spread_rows
from latentfit.core.mixture.merge_init import MERGE_ROWS, merge_down, single_merges
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.multistart import Candidate, go_on, halve
from latentfit.core.progress import tried
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of

MAX_CLUSTERS = 24
"""Where a path ends at the latest, unless asked otherwise."""
ROWS_PER_CLUSTER = 8
"""A table of n rows is not cut into more than n / 8 clusters."""
BEYOND = 4
"""Fits looked at beyond the best of every criterion: 20 instead of 4 changed no answer in 108 simulated settings."""
STOPPERS = ("statistical", "aic3", "bic", "sabic", "icl")
"""Criteria that must have passed their best before a path stops; AIC often never does."""
PATH_ROWS = 20_000
"""Rows on which a path is walked."""
FULL_MAX_ITER = 10
"""Passes over all rows of a longer table, from the fit to its sample."""
SPARE_CLASSES = 6
"""Classes above the longest path that the chain of merges starts from."""
CHAIN_PASSES = 5
"""EM iterations of those many classes: merging needs their outlines only."""
N_SPLITS = 2
"""Splits of the fit before that are tried at each K."""
ROUNDS = (4, 8)
"""Iterations after which the better half of the initialisations stays."""
MAX_ITER = 300
"""Iterations of a fit on the sample at the most."""
BACK_MAX_ITER = 8
"""Passes by which a challenger must have overtaken, or come near, the fit that is there."""
NEAR_FRACTION = 0.25
"""A challenger that is below by less than this proportion of what a cluster must gain is still worth finishing."""
RISE = 0.1
"""Nats by which a fit must rise for its neighbours to look at it again."""
MAX_TURNS = 9
"""How often the path is walked back and forth at the most; on real tables it comes to rest before."""
N_MERGES = 2
"""Merges of the fit above that are tried at each K on the way back."""
MORE_DRAWS = 9
"""Spectral starts beyond the first, divided by K: where clusters are few starts are cheap, and all that follows stands
on them, dependent columns too."""

Found = EMResult[Mixture, Sums]


@dataclass(frozen=True)
class ClusterFit:
    """The best fit found with one number of clusters, in the order of the user's columns."""

    refined: Found
    init_name: str  # the initialisation that won
    entropy: float  # of the rows' memberships, in nats

    @property
    def mixture(self) -> Mixture:
        return self.refined.params

    @property
    def log_likelihood(self) -> float:
        return self.refined.log_likelihood


@dataclass(frozen=True)
class ClusterPath:
    """Fits with K = 1, 2, … clusters and what the criteria say of them."""

    fits: tuple[ClusterFit, ...]  # to all columns
    restricted: tuple[RestrictedFit | None, ...]  # with noninformative columns, where there are any
    n_columns: int  # columns that vary: what one more cluster is penalised for
    n_rows: float  # with weights
    limit: int = MAX_CLUSTERS  # clusters at which the path ends at the latest

    def at(self, n_clusters: int) -> ClusterFit:
        return self.fits[n_clusters - 1]

    @property
    def whole_number(self) -> int:
        """The statistical number of the fits to all columns alone."""
        return _numbers([fit.refined for fit in self.fits], self.n_columns, self.n_rows).chosen["statistical"]

    def preferred(self, n_clusters: int) -> RestrictedFit | None:
        """The restricted fit, if there is one and the statistical criterion prefers it to the fit to all columns."""
        fit, restricted = self.at(n_clusters), self.restricted[n_clusters - 1]
        whole = fit.log_likelihood - (n_clusters - 1) * statistical_penalty(self.n_columns) - _size_penalty(fit.refined)
        return None if restricted is None or restricted.value <= whole else restricted

    def best(self, n_clusters: int) -> Mixture:
        """The preferred fit's clusters."""
        restricted = self.preferred(n_clusters)
        return self.at(n_clusters).mixture if restricted is None else restricted.mixture

    @cached_property
    def numbers(self) -> PathNumbers:
        """All criteria as columns, how many columns are informative in the preferred fit, and the number each
        chooses."""
        numbers = _numbers([fit.refined for fit in self.fits], self.n_columns, self.n_rows, self.restricted)
        restricted = [self.preferred(number) for number in range(2, len(self.fits) + 1)]
        informative = [0, *(self.n_columns if fit is None else int(fit.informative.sum()) for fit in restricted)]
        return PathNumbers({**numbers.columns, "speaking": informative}, numbers.chosen)


def cluster_path(
    table: Table,
    *,
    most: int | None = None,
    least: int = 1,
    tol: float = 1e-6,
    seed: int = 0,
    n_jobs: int | None = 1,
    until: Callable[[Mixture], bool] | None = None,
    screen_noninformative: bool = True,
    truncated: bool = False,
) -> ClusterPath:
    """Fit K = 1, 2, … until every criterion is `BEYOND` past its best, at the most `most` clusters.

    The path holds at least `least` fits where the rows allow it.
    `until` sees each fit that is the best so far by the statistical criterion, and may end the path there. Without
    `screen_noninformative` every column is informative. `truncated` rows are those with at least one 1
    (`clusters/em.py`).
    """
    check_binary(table)
    sample = draw_sample(table, PATH_ROWS, seed)
    varying = int(varying_columns(table).sum())
    last = most_clusters(table, most)
    screen_noninformative = screen_noninformative and not truncated
    blank, some_blank = (BlankRows.of(rows) if truncated else None for rows in (table, sample.table))
    walk = _Walk(sample, last, tol, seed, n_jobs, varying, some_blank)
    found: list[Found] = []  # on the sample
    whole: list[Found] = []  # on all rows, in the user's order: what the criteria see
    names: list[str] = []
    ended = False
    for number in tried(range(1, last + 1), "clusters"):
        if number > min(least, last) and _passed(whole, varying, table.total_weight):
            break
        name, refined = walk.step(found[-1] if found else None, number)
        found.append(refined)
        whole.append(_on_all_rows(refined, sample, table, tol, n_jobs, blank))
        names.append(name)
        if until is not None and _best_so_far(whole, varying, table.total_weight):
            ended = until(whole[-1].params)
            if ended:
                break
    reach = max(_numbers(whole, varying, table.total_weight).chosen[name] for name in STOPPERS) + 1
    for at in () if ended else walk.sweep(found, names, reach):  # fits beyond are no criterion's choice
        whole[at] = _on_all_rows(found[at], sample, table, tol, n_jobs, blank)
    restricted: list[RestrictedFit | None] = [None] if screen_noninformative and not ended else [None] * len(found)
    while screen_noninformative and not ended and len(restricted) < last:
        if len(restricted) == len(found):  # noninformative columns may ask for more clusters than the path has
            if _numbers(whole, varying, table.total_weight, restricted).chosen["statistical"] + BEYOND <= len(
                restricted
            ):
                break
            name, refined = walk.step(found[-1], len(found) + 1)
            found.append(refined)
            whole.append(_on_all_rows(refined, sample, table, tol, n_jobs, blank))
            names.append(name)
        restricted.append(
            _restricted_on_all_rows(walk.restricted.step(found[len(restricted)]), sample, table, tol, n_jobs)
        )
    fits = _rising(whole, names, table, tol, n_jobs, blank)
    kept = (ClusterFit(fit, name, _entropy(fit)) for fit, name in fits)
    return ClusterPath(tuple(kept), tuple(restricted), varying, table.total_weight, last)


def check_binary(table: Table) -> None:
    """Refuse a table with a column of other than two categories."""
    other = [column for column in table.columns if column.size != 2]
    if other:
        raise DataError(
            f"column {other[0].name!r} has {other[0].size} categories; clusters of binary rows need two in every column"
        )


def varying_columns(table: Table) -> NDArray[np.bool_]:
    """Columns (L,) in which both categories occur: only these can tell clusters apart."""
    return np.asarray((table.singles().reshape(-1, 2) > 0).all(axis=1))


def most_clusters(table: Table, most: int | None) -> int:
    """Where the path ends at the latest: `most`, or `MAX_CLUSTERS` and one per `ROWS_PER_CLUSTER` rows."""
    allowed = min(MAX_CLUSTERS, int(table.total_weight // ROWS_PER_CLUSTER)) if most is None else most
    return max(min(allowed, table.n_rows), 1)


class _Walk:
    """What all steps of one path share: the sample, its chain of merges, the limits."""

    def __init__(
        self, sample: Sample, last: int, tol: float, seed: int, n_jobs: int | None, varying: int,
        blank: BlankRows | None,
    ) -> None:  # fmt: skip
        self.sample, self.rows, self.last = sample, sample.table, last
        self.tol, self.n_jobs, self.blank = tol, n_jobs, blank
        self.near = NEAR_FRACTION * statistical_penalty(varying)
        self.rng = np.random.default_rng(seed)
        self.restricted = RestrictedPath(
            self.rows, varying_columns(self.rows), max_iter=MAX_ITER, tol=tol, n_jobs=n_jobs, rng=self.rng
        )

    def step(self, before: Found | None, number: int) -> tuple[str, Found]:
        """The best fit with `number` clusters, given the one with a cluster less."""
        steps = _steps(self.rows, number, self.n_jobs, self.blank)
        if before is None:  # its maximum is in one step, unless rows are missing
            alone = Mixture(np.ones(1), self.sample.view.marginals[:, None], self.rows.column_offsets)
            passes = 2 if self.blank is None else MAX_ITER
            return "one cluster", em(steps, alone, max_iter=passes, tol=max(self.tol, 1e-12), accelerate=passes > 2)
        candidates = [Candidate(name, steps, init) for name, init in self._initialisations(before, number)]
        raced = halve(candidates, rounds=ROUNDS, max_iter=MAX_ITER, tol=self.tol, accelerate=True)
        return raced.name, raced.refined

    def _initialisations(self, before: Found, number: int) -> Iterator[tuple[str, Mixture]]:
        yield from self._split(before)
        if number in self._chain:
            yield "merged", self._chain[number]
        if int(self.rows.column_offsets[-1]) <= MAX_CELLS:
            for draw in range(1 + MORE_DRAWS // number):
                yield f"spectral {draw + 1}", spectral_clusters(self.sample.view, number, self.rng)

    @cached_property
    def _chain(self) -> dict[int, Mixture]:
        """Initialisations for every K from one fit with many classes, merged down a pair at a time."""
        rows = self.rows if self.rows.n_rows <= MERGE_ROWS else self.rows.take(np.arange(MERGE_ROWS))
        many = min(self.last + SPARE_CLASSES, rows.n_rows)
        steps = plain_steps(rows, many, self.n_jobs)
        sums = em(steps, spread_rows(self.sample.view, many, self.rng), max_iter=CHAIN_PASSES, tol=0.0).sums
        counts, weights = sums.table + self.sample.view.marginals[:, None], sums.totals + 1.0
        chain = {}
        for number in range(min(self.last, many), 1, -1):
            counts, weights = merge_down(counts, weights, rows.column_offsets, number)
            chain[number] = _from_counts(counts, weights, rows)
        return chain

    def sweep(self, found: list[Found], names: list[str], last: int) -> list[int]:
        """Walk back and forth among the first `last` fits, each challenged by the neighbour it comes from; what rose.

        Back, two classes of the fit above are merged; forth, a class of the fit below is split. Only what has risen is
        news to its neighbours, so the walk comes to rest.
        """
        risen = set(range(len(found)))
        ever: set[int] = set()
        for turn in range(MAX_TURNS):
            back = turn % 2 == 0
            news, risen = risen, set()
            for at in range(min(last, len(found) - 1) - 1, 0, -1) if back else range(2, min(last, len(found))):
                if (at + 1 if back else at - 1) in news | risen and self._challenge(found, names, at, back):
                    risen.add(at)
            ever |= risen
            if not risen:
                break
        return sorted(ever)

    def _challenge(self, found: list[Found], names: list[str], at: int, back: bool) -> bool:
        """Start the fit at `at` from its neighbour above, merged, or below, split; true when it has risen by that."""
        steps = _steps(self.rows, at + 1, self.n_jobs, self.blank)
        held = found[at].log_likelihood
        inits = self._merged(found[at + 1]) if back else self._split(found[at - 1])
        for name, init in inits:
            tried = em(steps, init, max_iter=BACK_MAX_ITER, tol=self.tol, accelerate=True)
            if tried.log_likelihood > found[at].log_likelihood - self.near:
                tried = go_on(steps, tried, MAX_ITER, tol=self.tol, accelerate=True)
            if tried.log_likelihood > found[at].log_likelihood:
                found[at], names[at] = tried, name
        return found[at].log_likelihood > held + RISE

    def _split(self, before: Found) -> Iterator[tuple[str, Mixture]]:
        posterior, _ = posterior_of(MemoryEngine(self.rows, self.n_jobs), before.params)
        for rank, split in enumerate(split_classes(self.rows, before.params, posterior, self.rng)[:N_SPLITS]):
            yield f"split {rank + 1}", with_split(before.params, split)

    def _merged(self, upper: Found) -> Iterator[tuple[str, Mixture]]:
        sums = upper.sums
        for counts, weights in single_merges(sums.table + 1e-9, sums.totals + 1e-9, self.rows.column_offsets, N_MERGES):
            yield "merged back", _from_counts(counts, weights, self.rows)


def _steps(table: Table, n_classes: int, n_jobs: int | None, blank: BlankRows | None) -> Steps[Mixture, Sums]:
    """EM steps of plain maximum likelihood; with `blank`, of rows that have at least one 1."""
    plain = plain_steps(table, n_classes, n_jobs)
    return plain if blank is None else TruncatedSteps(plain, blank)


def _entropy(fit: Found) -> float:
    return fit.sums.entropy if isinstance(fit.sums, TruncatedSums) else entropy_of(fit.params, fit.sums)


def _size_penalty(fit: Found) -> float:
    truncated = isinstance(fit.sums, TruncatedSums)
    return size_penalty(recorded_weights(fit.params) if truncated else fit.params.weights)


def _from_counts(counts: Floats, weights: Floats, rows: Table) -> Mixture:
    return Mixture(weights / weights.sum(), normalise_tables(counts, rows.column_offsets), rows.column_offsets)


def _numbers(
    found: Sequence[Found], n_columns: int, n_rows: float, restricted: Sequence[RestrictedFit | None] = ()
) -> PathNumbers:
    log_likelihood = np.array([one.log_likelihood for one in found])
    entropy = np.array([_entropy(one) for one in found])
    value = np.array([-np.inf if one is None else one.value for one in restricted]) if restricted else None
    sizes = np.array([_size_penalty(one) for one in found])
    return number_clusters(log_likelihood, entropy, n_columns, n_rows, value, sizes)


def _best_so_far(found: list[Found], n_columns: int, n_rows: float) -> bool:
    """The last fit is the best by the statistical criterion."""
    return _numbers(found, n_columns, n_rows).chosen["statistical"] == len(found)


def _passed(found: list[Found], n_columns: int, n_rows: float) -> bool:
    """Every criterion has its best well behind."""
    if not found:
        return False
    chosen = _numbers(found, n_columns, n_rows).chosen
    return len(found) >= max(chosen[name] for name in STOPPERS) + BEYOND


def _on_all_rows(
    refined: Found, sample: Sample, table: Table, tol: float, n_jobs: int | None, blank: BlankRows | None
) -> Found:
    """A fit to the sample in the order of the user's table, and a few passes over its rows when it has more."""
    given = sample.mixture_as_given(refined.params, table.column_offsets)
    if sample.whole:
        return replace(refined, params=given, sums=replace(refined.sums, table=sample.as_given(refined.sums.table)))
    steps = _steps(table, given.n_classes, n_jobs, blank)
    more = em(steps, given, max_iter=FULL_MAX_ITER, tol=tol, accelerate=True)
    return replace(more, n_iter=refined.n_iter + more.n_iter)


def _restricted_on_all_rows(
    fit: RestrictedFit | None, sample: Sample, table: Table, tol: float, n_jobs: int | None
) -> RestrictedFit | None:
    """The same of a restricted fit; the informative columns stay."""
    if fit is None:
        return None
    given = sample.mixture_as_given(fit.mixture, table.column_offsets)
    informative, noninformative = (
        sample.as_given(np.repeat(mask, 2))[::2] for mask in (fit.informative, fit.noninformative)
    )
    log_likelihood = fit.log_likelihood
    if not sample.whole:
        given, log_likelihood = fit_informative(
            table, given, informative, max_iter=FULL_MAX_ITER, tol=tol, n_jobs=n_jobs
        )
    return replace(
        fit, mixture=given, log_likelihood=log_likelihood, informative=informative, noninformative=noninformative
    )


def _rising(
    fits: list[Found], names: list[str], table: Table, tol: float, n_jobs: int | None, blank: BlankRows | None = None
) -> list[tuple[Found, str]]:
    """The fits and their starts, any that is below its predecessor replaced by that one with a class twice."""
    out = [(fits[0], names[0])]
    for fit, name in zip(fits[1:], names[1:], strict=True):
        if fit.log_likelihood < out[-1][0].log_likelihood:
            steps = _steps(table, fit.params.n_classes, n_jobs, blank)
            fit = em(steps, with_twin(out[-1][0].params), max_iter=FULL_MAX_ITER, tol=tol, accelerate=True)
            name = "a class twice"
        out.append((fit, name))
    return out
