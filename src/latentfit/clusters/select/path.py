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
from latentfit.core.mixture.init import (
    MAX_CELLS,
    MERGE_ROWS,
    Sample,
    draw_sample,
    merge_down,
    single_merges,
    spectral_clusters,
    spread_rows,
)
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.multistart import Candidate, continue_em, successive_halving
from latentfit.core.progress import candidate_numbers
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of


@dataclass(frozen=True)
class PathSettings:
    """Constants of the search for the fits with K = 1, 2, … clusters, each with its reason."""

    max_clusters: int = 24  # where a path ends at the latest, unless asked otherwise
    rows_per_cluster: int = 8  # a table of n rows is not cut into more than n / 8 clusters
    beyond: int = 4  # fits looked at past the best of every criterion: 20 changed no answer in 108 simulated settings
    # criteria that must be past their best before a path ends; AIC often never is
    criteria: tuple[str, ...] = ("statistical", "aic3", "bic", "sabic", "icl")
    sample_rows: int = 20_000  # rows on which the path is searched
    full_max_iter: int = 10  # EM iterations over all rows of a longer table, from the fit to its sample
    spare_classes: int = 6  # classes above the longest path that the chain of merges starts from
    chain_iter: int = 5  # EM iterations of those many classes: merging needs their outlines only
    n_splits: int = 2  # splits of the fit before that are candidates at each K
    n_merges: int = 2  # merges of the fit above that are candidates at each K on the way back
    rounds: tuple[int, ...] = (4, 8)  # EM iterations after which the better half of the candidates stays
    max_iter: int = 300  # EM iterations of a fit to the sample
    challenge_iter: int = 8  # EM iterations by which a challenger must have come near the fit that is there
    near_fraction: float = 0.25  # of what a cluster must gain: a challenger below by less is still worth finishing
    rise: float = 0.1  # nats by which a fit must rise for its neighbours to be challenged again
    max_turns: int = 9  # how often the path is walked back and forth; real tables converge before
    # spectral initialisations beyond the first, divided by K: few clusters make them cheap, and all that follows rests
    # on them, dependent columns too
    spectral_draws: int = 9


SETTINGS = PathSettings()

Fit = EMResult[Mixture, Sums]


@dataclass(frozen=True)
class ClusterFit:
    """The best fit found with one number of clusters, in the order of the user's columns."""

    refined: Fit
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
    limit: int = SETTINGS.max_clusters  # clusters at which the path ends at the latest

    def at(self, n_clusters: int) -> ClusterFit:
        return self.fits[n_clusters - 1]

    @property
    def whole_number(self) -> int:
        """The statistical number of the fits to all columns alone."""
        return _numbers([fit.refined for fit in self.fits], self.n_columns, self.n_rows).chosen["statistical"]

    def preferred(self, n_clusters: int) -> RestrictedFit | None:
        """The restricted fit, if there is one and the statistical criterion prefers it to the fit to all columns."""
        fit, restricted = self.at(n_clusters), self.restricted[n_clusters - 1]
        penalty = (n_clusters - 1) * statistical_penalty(self.n_columns) + _size_penalty(fit.refined)
        return None if restricted is None or restricted.value <= fit.log_likelihood - penalty else restricted

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
        return PathNumbers({**numbers.columns, "informative": informative}, numbers.chosen)


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
    """Fit K = 1, 2, … until every criterion is well past its best, at the most `most` clusters.

    The path holds at least `least` fits where the rows allow it.
    `until` sees each fit that is the best so far by the statistical criterion, and may end the path there. Without
    `screen_noninformative` every column is informative. `truncated` rows are those with at least one 1
    (`clusters/em.py`).
    """
    check_binary(table)
    last = most_clusters(table, most)
    search = _Search(table, draw_sample(table, SETTINGS.sample_rows, seed), last, tol, seed, n_jobs, truncated)
    restricted: list[RestrictedFit | None] = [None]
    ended = False
    for number in candidate_numbers(range(1, last + 1), "clusters"):
        if number > min(least, last) and _passed(search.fits, search.n_varying, table.total_weight):
            break
        search.add()
        if until is not None and _best_so_far(search.fits, search.n_varying, table.total_weight):
            ended = until(search.fits[-1].params)
            if ended:
                break
    if not ended:
        search.sweep(max(search.numbers().chosen[name] for name in SETTINGS.criteria) + 1)  # no criterion looks beyond
    if ended or truncated or not screen_noninformative:
        restricted *= len(search.fits)
    else:
        while len(restricted) < last:
            if len(restricted) == len(search.fits):  # noninformative columns may ask for more clusters than there are
                if search.numbers(restricted).chosen["statistical"] + SETTINGS.beyond <= len(restricted):
                    break
                search.add()
            restricted.append(search.restricted_fit(len(restricted)))
    fits = tuple(ClusterFit(fit, name, _entropy(fit)) for fit, name in search.rising())
    return ClusterPath(fits, tuple(restricted), search.n_varying, table.total_weight, last)


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
    """Where the path ends at the latest: `most`, or 24 and one per eight rows."""
    if most is None:
        most = min(SETTINGS.max_clusters, int(table.total_weight // SETTINGS.rows_per_cluster))
    return max(min(most, table.n_rows), 1)


class _Search:
    """The fits of one path so far, to the sample and to all rows, and what all of its steps share."""

    def __init__(
        self, table: Table, sample: Sample, last: int, tol: float, seed: int, n_jobs: int | None, truncated: bool
    ) -> None:
        self.table, self.sample, self.rows, self.last = table, sample, sample.table, last
        self.tol, self.n_jobs = tol, n_jobs
        self.all_blank, self.blank = (BlankRows.of(rows) if truncated else None for rows in (table, sample.table))
        self.n_varying = int(varying_columns(table).sum())
        self.near = SETTINGS.near_fraction * statistical_penalty(self.n_varying)
        self.rng = np.random.default_rng(seed)
        self.restricted = RestrictedPath(
            self.rows, varying_columns(self.rows), max_iter=SETTINGS.max_iter, tol=tol, n_jobs=n_jobs, rng=self.rng
        )
        self.sample_fits: list[Fit] = []
        self.fits: list[Fit] = []  # to all rows, in the user's order: what the criteria see
        self.names: list[str] = []  # the initialisation that won

    def add(self) -> None:
        """The fit with one cluster more."""
        name, fit = self.step(self.sample_fits[-1] if self.sample_fits else None, len(self.fits) + 1)
        self.sample_fits.append(fit)
        self.fits.append(self._on_all_rows(fit))
        self.names.append(name)

    def numbers(self, restricted: Sequence[RestrictedFit | None] = ()) -> PathNumbers:
        return _numbers(self.fits, self.n_varying, self.table.total_weight, restricted)

    def step(self, before: Fit | None, number: int) -> tuple[str, Fit]:
        """The best fit with `number` clusters, given the one with a cluster less."""
        steps = _steps(self.rows, number, self.n_jobs, self.blank)
        if before is None:  # its maximum is in one step, unless rows are missing
            alone = Mixture(np.ones(1), self.sample.view.marginals[:, None], self.rows.column_offsets)
            most = 2 if self.blank is None else SETTINGS.max_iter
            return "one cluster", em(steps, alone, max_iter=most, tol=max(self.tol, 1e-12), accelerate=most > 2)
        candidates = [Candidate(name, steps, init) for name, init in self._initialisations(before, number)]
        best = successive_halving(
            candidates, rounds=SETTINGS.rounds, max_iter=SETTINGS.max_iter, tol=self.tol, accelerate=True
        )
        return best.name, best.refined

    def _initialisations(self, before: Fit, number: int) -> Iterator[tuple[str, Mixture]]:
        yield from self._split(before)
        if number in self._chain:
            yield "merged", self._chain[number]
        if int(self.rows.column_offsets[-1]) <= MAX_CELLS:
            for draw in range(1 + SETTINGS.spectral_draws // number):
                yield f"spectral {draw + 1}", spectral_clusters(self.sample.view, number, self.rng)

    @cached_property
    def _chain(self) -> dict[int, Mixture]:
        """Initialisations for every K from one fit with many classes, merged down a pair at a time."""
        rows = self.rows if self.rows.n_rows <= MERGE_ROWS else self.rows.take(np.arange(MERGE_ROWS))
        many = min(self.last + SETTINGS.spare_classes, rows.n_rows)
        steps = plain_steps(rows, many, self.n_jobs)
        sums = em(steps, spread_rows(self.sample.view, many, self.rng), max_iter=SETTINGS.chain_iter, tol=0.0).sums
        counts, weights = sums.table + self.sample.view.marginals[:, None], sums.totals + 1.0
        chain = {}
        for number in range(min(self.last, many), 1, -1):
            counts, weights = merge_down(counts, weights, rows.column_offsets, number)
            chain[number] = _from_counts(counts, weights, rows)
        return chain

    def sweep(self, last: int) -> None:
        """Walk back and forth among the first `last` fits, each challenged by the neighbour it comes from.

        Back, two classes of the fit above are merged; forth, a class of the fit below is split. Only neighbours of a
        fit that has risen are challenged again, so that the search ends.
        """
        n_fits = len(self.sample_fits)
        risen = set(range(n_fits))
        ever: set[int] = set()
        for turn in range(SETTINGS.max_turns):
            back = turn % 2 == 0
            changed, risen = risen, set()
            for at in range(min(last, n_fits - 1) - 1, 0, -1) if back else range(2, min(last, n_fits)):
                if (at + 1 if back else at - 1) in changed | risen and self._challenge(at, back):
                    risen.add(at)
            ever |= risen
            if not risen:
                break
        for at in sorted(ever):
            self.fits[at] = self._on_all_rows(self.sample_fits[at])

    def _challenge(self, at: int, back: bool) -> bool:
        """Initialise the fit at `at` by its neighbour above, merged, or below, split; whether it has risen by that."""
        steps, fits = _steps(self.rows, at + 1, self.n_jobs, self.blank), self.sample_fits
        before = fits[at].log_likelihood
        for name, init in self._merged(fits[at + 1]) if back else self._split(fits[at - 1]):
            challenger = em(steps, init, max_iter=SETTINGS.challenge_iter, tol=self.tol, accelerate=True)
            if challenger.log_likelihood > fits[at].log_likelihood - self.near:
                challenger = continue_em(steps, challenger, SETTINGS.max_iter, tol=self.tol, accelerate=True)
            if challenger.log_likelihood > fits[at].log_likelihood:
                fits[at], self.names[at] = challenger, name
        return fits[at].log_likelihood > before + SETTINGS.rise

    def _split(self, before: Fit) -> Iterator[tuple[str, Mixture]]:
        posterior, _ = posterior_of(MemoryEngine(self.rows, self.n_jobs), before.params)
        for rank, split in enumerate(split_classes(self.rows, before.params, posterior, self.rng)[: SETTINGS.n_splits]):
            yield f"split {rank + 1}", with_split(before.params, split)

    def _merged(self, upper: Fit) -> Iterator[tuple[str, Mixture]]:
        sums = upper.sums
        for counts, weights in single_merges(
            sums.table + 1e-9, sums.totals + 1e-9, self.rows.column_offsets, SETTINGS.n_merges
        ):
            yield "merged back", _from_counts(counts, weights, self.rows)

    def _on_all_rows(self, fit: Fit) -> Fit:
        """A fit to the sample in the order of the user's table, and a few EM iterations over its rows if it has
        more."""
        given = self.sample.mixture_as_given(fit.params, self.table.column_offsets)
        if self.sample.whole:
            return replace(fit, params=given, sums=replace(fit.sums, table=self.sample.as_given(fit.sums.table)))
        more = self._few_iterations(given)
        return replace(more, n_iter=fit.n_iter + more.n_iter)

    def restricted_fit(self, at: int) -> RestrictedFit | None:
        """The same of the restricted fit beside the fit at `at`; the informative columns stay."""
        fit = self.restricted.step(self.sample_fits[at])
        if fit is None:
            return None
        given, log_likelihood = self.sample.mixture_as_given(fit.mixture, self.table.column_offsets), fit.log_likelihood
        informative, noninformative = (
            self.sample.as_given(np.repeat(mask, 2))[::2] for mask in (fit.informative, fit.noninformative)
        )
        if not self.sample.whole:
            given, log_likelihood = fit_informative(
                self.table, given, informative, max_iter=SETTINGS.full_max_iter, tol=self.tol, n_jobs=self.n_jobs
            )
        return RestrictedFit(given, log_likelihood, informative, noninformative, fit.choices)

    def rising(self) -> list[tuple[Fit, str]]:
        """The fits and their initialisations, any below its predecessor replaced by that one with a class twice."""
        out = [(self.fits[0], self.names[0])]
        for fit, name in zip(self.fits[1:], self.names[1:], strict=True):
            if fit.log_likelihood < out[-1][0].log_likelihood:
                fit, name = self._few_iterations(with_twin(out[-1][0].params)), "a class twice"
            out.append((fit, name))
        return out

    def _few_iterations(self, init: Mixture) -> Fit:
        """A few EM iterations over all rows."""
        steps = _steps(self.table, init.n_classes, self.n_jobs, self.all_blank)
        return em(steps, init, max_iter=SETTINGS.full_max_iter, tol=self.tol, accelerate=True)


def _steps(table: Table, n_classes: int, n_jobs: int | None, blank: BlankRows | None) -> Steps[Mixture, Sums]:
    """EM steps of plain maximum likelihood; with `blank`, of rows that have at least one 1."""
    plain = plain_steps(table, n_classes, n_jobs)
    return plain if blank is None else TruncatedSteps(plain, blank)


def _entropy(fit: Fit) -> float:
    return fit.sums.entropy if isinstance(fit.sums, TruncatedSums) else entropy_of(fit.params, fit.sums)


def _size_penalty(fit: Fit) -> float:
    truncated = isinstance(fit.sums, TruncatedSums)
    return size_penalty(recorded_weights(fit.params) if truncated else fit.params.weights)


def _from_counts(counts: Floats, weights: Floats, rows: Table) -> Mixture:
    return Mixture(weights / weights.sum(), normalise_tables(counts, rows.column_offsets), rows.column_offsets)


def _numbers(
    fits: Sequence[Fit], n_columns: int, n_rows: float, restricted: Sequence[RestrictedFit | None] = ()
) -> PathNumbers:
    log_likelihood = np.array([one.log_likelihood for one in fits])
    entropy = np.array([_entropy(one) for one in fits])
    value = np.array([-np.inf if one is None else one.value for one in restricted]) if restricted else None
    sizes = np.array([_size_penalty(one) for one in fits])
    return number_clusters(log_likelihood, entropy, n_columns, n_rows, value, sizes)


def _best_so_far(fits: list[Fit], n_columns: int, n_rows: float) -> bool:
    """The last fit is the best by the statistical criterion."""
    return _numbers(fits, n_columns, n_rows).chosen["statistical"] == len(fits)


def _passed(fits: list[Fit], n_columns: int, n_rows: float) -> bool:
    """Every criterion is well past its best."""
    if not fits:
        return False
    chosen = _numbers(fits, n_columns, n_rows).chosen
    return len(fits) >= max(chosen[name] for name in SETTINGS.criteria) + SETTINGS.beyond
