"""Can the clusters of yes/no rows be trusted? The verdict, with the numbers behind it.

Every check is named; docs/guide/clusters.md ("The verdict") lists them with their limits and reasons. They ask whether
the columns determine so many clusters, whether the evidence asks for this number, whether the clusters are pure and
come back when the rows are halved, and whether something else made them: a continuous trait, missing answers, repeated
rows, columns that depend on one another, rows of zeros that were never recorded.

Paper     Allman, Matias & Rhodes 2009 (generic identifiability); Hennig 2007 (stability); those of `alternatives`
Needs     fitted clusters, their purity certificates and path
Promises  what the certificates promise (`clusters/diagnostics/purity.py`)
Differs   so many columns are proven to be enough for almost all parameters; fewer give a caution, not an error

Symbols   here      shape     meaning
          table     (n, L)    without columns set aside
          mixture             the fitted clusters
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.diagnostics.alternatives import (
    SETTINGS as ALTERNATIVES,
)
from latentfit.clusters.diagnostics.alternatives import (
    best_trait,
    jacobian_rank,
    missing_by_cluster,
    mixture_bic,
    n_free,
    repeated_rows,
    restricted_to,
)
from latentfit.clusters.diagnostics.independence import together
from latentfit.clusters.diagnostics.purity import PurityTable
from latentfit.clusters.diagnostics.stability import better_optimum, compare_halves, rows_to_refit
from latentfit.clusters.em import BlankRows, TruncatedSteps, recorded_weights, unseen_fraction
from latentfit.clusters.select.criteria import FAR_APART, PathNumbers, size_penalty, statistical_penalty
from latentfit.clusters.select.path import varying_columns
from latentfit.clusters.theory import has_room, least_columns, separable_delta
from latentfit.core.em import em
from latentfit.core.mixture.em import plain_steps
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.table.replicates import self_weighting
from latentfit.core.table.table import Table
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport, standard_errors_of
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine


@dataclass(frozen=True)
class CheckSettings:
    """Limits of the checks, each with its reason."""

    min_rows: float = 30.0  # of a cluster: with fewer a frequency of one half is known to no better than ± 18 points
    impure: float = 0.2  # proportion of a cluster's rows that may belong elsewhere before it is reported
    # level of the purity tests of all clusters together: one sound table in a hundred is called impure
    purity_level: float = 0.01
    many_aside: float = 0.1  # proportion of the columns that may be near-duplicates before it is reported
    dependent: float = 0.25  # correlation inside clusters that matters, however many rows there are to see it
    min_two_ones: float = 10.0  # rows with two 1s that tell the number of unrecorded rows of zeros, to about a third
    min_zeros: float = 10.0  # rows of zeros expected before their absence is reported: chance once in 22,000 tables
    one_class_iter: int = 200  # EM iterations of the fit with one cluster to which rows of zeros are unknown
    dissolved: float = 0.5  # Jaccard index below which Hennig (2007) calls a cluster dissolved
    optimum: float = 1.0  # nats by which another optimum may lie higher before it is reported
    missing_level: float = 1e-3  # level at which values are said to be missing by cluster
    repeated: float = 0.5  # rows with an equal among those that should have none; clusters that fit badly make a third
    coverage: float = 0.8  # of the interval of the expected misclassification


SETTINGS = CheckSettings()

ABOUT_THE_NUMBER = (
    "structure", "evidence_for_number", "numbers_agree", "search_limit", "purity", "stability", "continuous_trait"
)  # fmt: skip
"""Checks that reject the number of clusters itself when they fail: it is then no finding."""


def rejects_number(report: FitReport) -> bool:
    """Whether a failed check rejects the number of clusters, which headlines must not announce as found then."""
    return any(check.name in ABOUT_THE_NUMBER and not check.passed for check in report.checks)


@dataclass(frozen=True)
class Screening:
    """What was decided before the fit: pairs are (column, the one it depends on, correlation)."""

    duplicates: tuple[tuple[str, str, float], ...] = ()
    dependent: tuple[tuple[str, str, float], ...] = ()  # correlation inside clusters; the number knows the first not
    both: tuple[tuple[str, str, float], ...] = ()  # the same, and both took part in choosing the number
    reached: int = 0  # the limit of the path, where the number that was chosen is it; else 0
    limit: int = 0  # the limit of the path; 0: unknown, or the rows allowed no more


@dataclass(frozen=True)
class Refitting:
    """What refits and rival models need to know of the fit."""

    noninformative: NDArray[np.bool_]  # (L,) of the table's columns: those with one frequency in all clusters
    on_path: NDArray[np.bool_]  # (L,) columns that took part in choosing the number
    smoothing: float
    chosen: bool  # the number was chosen, on rows that count alike
    seed: int = 0
    n_jobs: int | None = 1


def examine_clusters(
    table: Table, mixture: Mixture, numbers: PathNumbers, purity: PurityTable, *, n_varying: int, converged: bool,
    n_rows: float | None = None, screening: Screening = Screening(), truncated: bool = False,
    refitting: Refitting | None = None,
) -> Examination:  # fmt: skip
    """Diagnose clusters fitted to `n_rows` rows: the table's, unless it is a sample.

    `table` and `mixture` come without columns set aside; `truncated` as in the fit. Without `refitting` nothing is
    fitted anew: stability, rival models and missing values are not looked at.
    """
    examiner = Examiner()
    n_rows = table.total_weight if n_rows is None else n_rows
    K, rows = mixture.n_classes, (recorded_weights(mixture) if truncated else mixture.weights) * n_rows
    frequencies = mixture.table[1::2].T
    examiner.quantities |= {
        "n_rows": n_rows,
        "n_columns": table.n_columns,
        "n_varying_columns": n_varying,
        "columns_needed": least_columns(K),
        "rows_per_cluster": rows.tolist(),
        "chosen": dict(numbers.chosen),
        "largest_gap_of_nearest_clusters": separable_delta(frequencies, 1) if K > 1 else None,
        "flagged_clusters": np.flatnonzero(purity.flagged).tolist(),
        "impurity": np.asarray(purity.impurity).tolist(),
        "near_duplicates": [list(pair) for pair in screening.duplicates],
        "local_dependence": [list(pair) for pair in screening.dependent + screening.both],
        "limit_reached": screening.reached > 0,
    }
    examiner.check_size(n_rows, "rows")
    _examine_structure(examiner, numbers, K, table.n_columns)
    if K > 1:
        _examine_columns(examiner, mixture, n_varying, refitting)
        smallest = int(np.argmin(rows))
        examiner.check(
            "cluster_size", "Rows of the smallest cluster", rows[smallest] >= SETTINGS.min_rows,
            f"Cluster {smallest} rests on about {rows[smallest]:.0f} rows, fewer than {SETTINGS.min_rows:.0f}, so its "
            "frequencies are hardly known; ask for fewer clusters (n_components, --components) or bring more rows.",
            value=rows[smallest], limit=SETTINGS.min_rows,
        )  # fmt: skip
        _examine_number(examiner, numbers, K, screening)
    _examine_limit(examiner, screening)
    _examine_purity(examiner, purity, screening)
    _examine_screening(examiner, screening, table.n_columns + len(screening.duplicates))
    if truncated:
        _examine_unseen(examiner, table, n_rows)
    else:
        _examine_zeros(examiner, table, mixture)
    if refitting is not None and not truncated:
        with one_blas_thread():
            _examine_alternatives(examiner, table, mixture, numbers, refitting)
            if K > 1:
                _examine_stability(examiner, table, mixture, refitting)
    examiner.check_converged(converged)
    examiner.expected = expected_misclassification(purity)
    return examiner.conclude()


def expected_misclassification(purity: PurityTable) -> Expectation:
    """The proportion of rows that the model expects in a wrong cluster, each judged by a fit that has not seen it."""
    value, error = purity.misplaced
    if not np.isfinite(value):  # a table of certificates that was not made from rows
        impurity = np.asarray(purity.impurity, np.float64)
        value, error = float(np.nanmean(impurity)) if np.isfinite(impurity).any() else 0.0, 0.0
    if len(purity.impurity) == 1:
        return Expectation(
            "misclassification", 0.0, 0.0, 0.0, SETTINGS.coverage, "There is one cluster, so no row can be misplaced."
        )
    reach = standard_errors_of(SETTINGS.coverage) * error
    low, high = max(value - reach, 0.0), min(value + reach, 1.0)
    return Expectation(
        "misclassification", value, low, high, SETTINGS.coverage,
        f"If the clusters are as fitted, {value:.1%} of the rows are expected in a wrong one "
        f"({SETTINGS.coverage:.0%} interval {low:.1%} to {high:.1%}).",
    )  # fmt: skip


def _examine_structure(examiner: Examiner, numbers: PathNumbers, K: int, n_columns: int) -> None:
    """Nothing found is a caution: it may be that there is nothing, or that rows or columns are too few to show it."""
    steps = numbers.columns.get("step", [])
    step, needed = (float(steps[1]) if len(steps) > 1 else None), statistical_penalty(n_columns)
    gained = "" if step is None else f" (a second one gains {step:.1f} nats, and {needed:.1f} are needed)"
    examiner.check(
        "structure", "More than one cluster", K > 1,
        f"One cluster explains the rows, so no structure was found{gained}: either there is none, or it does not show "
        "in so few rows and columns; bring more of them, or look at path_ (path.csv).",
        value=step if K == 1 else K, limit=needed if K == 1 else 2,
    )  # fmt: skip


def _examine_columns(examiner: Examiner, mixture: Mixture, n_varying: int, refitting: Refitting | None) -> None:
    """Do so many columns determine so many clusters?"""
    K, enough = mixture.n_classes, least_columns(mixture.n_classes)
    determined = examiner.check(
        "columns_needed", "Columns that can tell so many clusters apart", has_room(n_varying, K),
        f"{n_varying} columns vary, too few to tell {K} clusters apart ({enough} are enough), so other clusters fit "
        "the rows as well; add columns or ask for fewer clusters (n_components, --components).",
        value=n_varying, limit=enough, level="not identifiable",
    )  # fmt: skip
    if not determined:
        return
    examiner.check(
        "columns_enough", "Columns from which on the clusters are unique", n_varying >= enough,
        f"{n_varying} columns vary, and only from {enough} on {K} clusters are known to have one answer; add columns "
        "or ask for fewer clusters (n_components, --components).",
        value=n_varying, limit=enough,
    )  # fmt: skip
    used = np.ones(mixture.n_columns, bool) if refitting is None else ~refitting.noninformative
    if 2 ** int(used.sum()) > ALTERNATIVES.rank_cells:
        return
    rank, free = jacobian_rank(mixture.weights, mixture.table[1::2].T[:, used]), n_free(int(used.sum()), K)
    examiner.check(
        "jacobian_rank", "Rank of the model's Jacobian at the fit", rank >= free,
        f"The Jacobian of the model has rank {rank} at this fit and {free} free parameters, so other clusters fit the "
        "rows equally well; ask for fewer clusters (n_components, --components) or add columns.",
        value=rank, limit=free,
    )  # fmt: skip


def _examine_number(examiner: Examiner, numbers: PathNumbers, K: int, screening: Screening) -> None:
    """Is this the number that the evidence asks for?"""
    asked = numbers.chosen["statistical"]
    examiner.check(
        "evidence_for_number", "No more clusters than the evidence shows", asked >= K,
        f"The evidence shows {asked} clusters, and {K} were fitted: the others gain no more than chance does; ask for "
        f"fewer clusters (n_components={asked}, --components {asked}).",
        value=K, limit=asked,
    )  # fmt: skip
    examiner.check(
        "numbers_agree", "No many more clusters that the evidence asks for", asked - K <= FAR_APART,
        f"The evidence asks for {numbers.asked_for(screening.limit)} clusters, more than {FAR_APART} beyond the {K} "
        "fitted: clusters of this table are not quite pure, and no number is right; compare with "
        "select='statistical' (--select statistical).",
        value=asked - K, limit=FAR_APART,
    )  # fmt: skip


def _examine_limit(examiner: Examiner, screening: Screening) -> None:
    """Did the search end where it had to?"""
    examiner.check(
        "search_limit", "Number of clusters below the search limit", not screening.reached,
        f"The search limit ({screening.reached}) was reached, so there may be more clusters; raise max_components "
        "(--max-components).",
        value=screening.reached or None, limit=screening.limit or None,
    )  # fmt: skip


def _examine_screening(examiner: Examiner, screening: Screening, n_columns: int) -> None:
    """Columns that were set aside, or left out of the choice of the number."""
    aside, most = len(screening.duplicates), max(SETTINGS.many_aside * n_columns, 1)
    examiner.check(
        "near_duplicates", "Few columns set aside as near-duplicates", aside <= most,
        f"{aside} of {n_columns} columns were set aside as near-duplicates of others (more than {most:g}), and the "
        "clusters rest on the rest; look at copies_ (copies.csv), or give screen=False (--no-screen).",
        value=aside, limit=most,
    )  # fmt: skip
    pairs = [*screening.dependent, *screening.both]
    reason = ""
    if screening.dependent:
        column, source, correlation = screening.dependent[0]
        more = f" (and {len(pairs) - 1} more pairs in local_dependence_)" if len(pairs) > 1 else ""
        reason = (
            f"{column!r} and {source!r} depend on each other inside the clusters (correlation {correlation:.2f}, limit "
            f"{SETTINGS.dependent}){more}, which clusters do not explain, so the number was chosen without {column!r}; "
            f"leave one of them out (--drop), or give screen=False (--no-screen) to count both."
        )
    elif screening.both:
        column, source, correlation = screening.both[0]
        reason = (
            f"Two clusters differ in {column!r} and {source!r} alone, or nearly so (correlation {correlation:.2f}, "
            f"limit {SETTINGS.dependent}): they may be one cluster in which these two depend on each other; leave one "
            "of them out (--drop), add columns, or ask for fewer clusters (n_components, --components)."
        )
    largest = max((abs(pair[2]) for pair in pairs), default=0.0)
    examiner.check(
        "local_dependence", "No pair of columns that depends on each other inside the clusters", not pairs, reason,
        value=largest, limit=SETTINGS.dependent,
    )  # fmt: skip


def _examine_alternatives(
    examiner: Examiner, table: Table, mixture: Mixture, numbers: PathNumbers, refitting: Refitting
) -> None:
    """A continuous trait, values missing by cluster, rows written twice."""
    if mixture.n_classes > 1:
        _examine_trait(examiner, table, mixture, numbers, refitting)
    missing = missing_by_cluster(table, mixture, refitting.seed)
    if missing is not None:
        name = table.columns[missing.column].name
        examiner.check(
            "missing_at_random", "Missing values that observed answers explain",
            missing.p_value >= SETTINGS.missing_level,
            f"Where values are missing depends on the cluster beyond what observed answers explain (p = "
            f"{missing.p_value:.1g}, limit {SETTINGS.missing_level:g}; most in column {name!r}), so they may not be "
            "missing at random, and frequencies and clusters are then biased; code 'missing' as an answer of its own "
            "(a 0/1 column that says so), or leave such columns out (--drop).",
            value=missing.n_columns, limit=SETTINGS.missing_level, p_value=missing.p_value,
        )  # fmt: skip
    repeated = repeated_rows(table, mixture)
    if repeated is not None:
        proportion, number = repeated
        examiner.check(
            "repeated_rows", "No rows that repeat others", proportion <= SETTINGS.repeated,
            f"{proportion:.0%} of the {number} rows that should be the only ones of their kind have an equal row "
            f"(limit {SETTINGS.repeated:.0%}): rows seem to be repeated, and clusters are then made of them; "
            "remove repeated rows from the file.",
            value=proportion, limit=SETTINGS.repeated,
        )  # fmt: skip


def _examine_trait(
    examiner: Examiner, table: Table, mixture: Mixture, numbers: PathNumbers, refitting: Refitting
) -> None:
    """Do one or two normal traits explain the rows better than any number of clusters on the path?"""
    on_path = refitting.on_path
    rows = (self_weighting(table) if refitting.chosen else table).without(~on_path)
    noninformative = refitting.noninformative[on_path]
    trait = best_trait(rows, noninformative, most=2 if refitting.chosen else 1, n_jobs=refitting.n_jobs)
    if trait is None:
        return
    K, informative = mixture.n_classes, int((~noninformative).sum())
    n_parameters = n_free(informative, K) + len(noninformative) - informative
    clusters = mixture_bic(rows, restricted_to(mixture, on_path), n_parameters, refitting.n_jobs)
    if refitting.chosen:
        clusters = min([clusters, *numbers.columns.get("bic", [])])
    bic, n_traits = trait
    examiner.quantities |= {"bic_of_trait": bic, "bic_of_clusters": clusters, "traits": n_traits}
    traits, explain = ("One continuous trait", "explains") if n_traits == 1 else ("Two continuous traits", "explain")
    than = "any number of clusters" if refitting.chosen else f"these {K} clusters"
    more = "" if refitting.chosen else ", or ask for more clusters (n_components, --components)"
    examiner.check(
        "continuous_trait", "Clusters rather than a continuous trait", clusters <= bic,
        f"{traits} (an item-response model) {explain} the rows better than {than}: BIC is lower by "
        f"{clusters - bic:.0f} (limit 0). The clusters are then slices of a scale, not kinds of rows; read them as "
        f"levels, or use a score or a factor model{more}.",
        value=clusters - bic, limit=0,
    )  # fmt: skip


def _examine_stability(examiner: Examiner, table: Table, mixture: Mixture, refitting: Refitting) -> None:
    """Do the clusters come back in halves of the rows, and from other initialisations?"""
    used = ~refitting.noninformative
    if used.sum() < 2:
        return
    rows = rows_to_refit(table.without(~used), mixture.n_classes, refitting.seed)
    fitted, how = restricted_to(mixture, used), {"smoothing": refitting.smoothing, "seed": refitting.seed}
    halves = compare_halves(rows, fitted, limit=SETTINGS.dissolved, n_jobs=refitting.n_jobs, **how)  # type: ignore[arg-type]
    if halves is not None:
        worst = int(np.argmin(halves.jaccard))
        examiner.quantities |= {"stability": halves.jaccard.tolist(), "stability_rows": halves.n_rows}
        examiner.check(
            "stability", "Clusters that come back in both halves of the rows",
            halves.jaccard[worst] >= SETTINGS.dissolved,
            f"Cluster {worst} does not come back when halves of the rows are fitted by themselves (Jaccard index "
            f"{halves.jaccard[worst]:.2f}, limit {SETTINGS.dissolved}), so it depends on which rows were drawn; ask "
            "for fewer clusters (n_components, --components) or bring more rows.",
            value=halves.jaccard[worst], limit=SETTINGS.dissolved,
        )  # fmt: skip
    higher = better_optimum(rows, fitted, n_jobs=refitting.n_jobs, **how)  # type: ignore[arg-type]
    examiner.check(
        "local_optimum", "No better optimum from other initialisations", higher <= SETTINGS.optimum,
        f"EM from other initialisations ends {higher:.1f} nats above this fit (limit {SETTINGS.optimum:g}), which is a "
        "local optimum; fit with another random_state (--seed), or ask for fewer clusters (n_components, "
        "--components).",
        value=higher, limit=SETTINGS.optimum,
    )  # fmt: skip


def _examine_zeros(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """No row is all 0, and that such rows were never recorded explains the table better than its clusters do."""
    blank = ~(table.codes == 1).any(axis=1)
    alone = Mixture(np.ones(1), normalise_tables(table.singles()[:, None], table.column_offsets), table.column_offsets)
    expected = table.total_weight * _zero_probability(alone)
    suspicious = False
    if not (table.present[blank].all(axis=1)).any() and expected > SETTINGS.min_zeros:
        steps = TruncatedSteps(plain_steps(table, 1), BlankRows.of(table))
        one = em(steps, alone, max_iter=SETTINGS.one_class_iter, tol=1e-7, accelerate=True)
        penalty = (mixture.n_classes - 1) * statistical_penalty(int(varying_columns(table).sum()))
        penalty += size_penalty(mixture.weights)
        examiner.quantities["zero_rows_expected"] = expected
        by_clusters = table.total_weight * _zero_probability(mixture)
        fitted = MemoryEngine(table, 1).sums(mixture).log_likelihood
        suspicious = by_clusters > SETTINGS.min_zeros or one.log_likelihood > fitted - penalty
    examiner.check(
        "rows_of_zeros", "Rows of zeros where some are expected", not suspicious,
        f"No row is all 0, and independent columns would give {expected:.0f} such rows (limit "
        f"{SETTINGS.min_zeros:.0f}): if they were not recorded, columns seem to avoid one another and clusters are "
        "invented; fit with truncated=True (--truncated).",
        value=expected if suspicious else None, limit=SETTINGS.min_zeros if suspicious else None,
    )  # fmt: skip


def _examine_unseen(examiner: Examiner, table: Table, n_rows: float) -> None:
    """Rows with two 1s tell how many rows were never recorded: m of them to about one part in √m."""
    twice = float(table.each_weight() @ ((table.codes == 1).sum(axis=1) >= 2)) * n_rows / table.total_weight
    examiner.quantities["rows_with_two_ones"] = twice
    examiner.check(
        "rows_with_two_ones", "Rows with two 1s, which tell how many rows were not recorded",
        twice >= SETTINGS.min_two_ones,
        f"{twice:.0f} of {n_rows:.0f} rows have two 1s or more (limit {SETTINGS.min_two_ones:.0f}), and they alone "
        "tell how many rows of zeros were never recorded: weights_, frequencies_ and n_unseen_ may be far off; give "
        "truncated=False (leave out --truncated) or add columns.",
        value=twice, limit=SETTINGS.min_two_ones,
    )  # fmt: skip


def _zero_probability(mixture: Mixture) -> float:
    proportion = unseen_fraction(mixture)
    return proportion / (1 + proportion)


def _examine_purity(examiner: Examiner, purity: PurityTable, screening: Screening) -> None:
    """Are columns independent inside the clusters, and are rows sure of theirs?"""
    known = [{column, source} for column, source, _ in screening.dependent + screening.both]
    p_values = np.asarray(purity.p_value, np.float64)
    lone = together(p_values.tolist()) if len(p_values) else 1.0
    said = [k for k in range(len(p_values)) if {str(name) for name in purity.suspect_pair[k]} in known]
    flagged = [k for k in np.argsort(p_values, kind="stable").tolist() if purity.flagged[k] and k not in said]
    p_value = together([float(p_values[flagged[0]])] * len(p_values)) if flagged else max(lone, SETTINGS.purity_level)
    worst = flagged[0] if flagged else 0
    pair = " and ".join(repr(name) for name in purity.suspect_pair[worst])
    named = f" (look at {pair})" if pair else ""
    examiner.check(
        "purity", "Columns independent inside every cluster", p_value >= SETTINGS.purity_level,
        f"The columns of cluster {worst} depend on one another{named}: it is not pure (p = {p_value:.1g} over all "
        f"clusters, limit {SETTINGS.purity_level:g}); ask for more clusters (n_components, --components).",
        value=len(flagged), limit=0, p_value=p_value,
    )  # fmt: skip
    impurity, certified = (np.asarray(of, np.float64) for of in (purity.impurity, purity.certified))
    # as far below the stated impurity as the certified one is above it: overlap that is more than chance
    least = np.nan_to_num(np.where(np.isnan(certified), impurity, np.maximum(2 * impurity - certified, 0.0)))
    most = int(np.argmax(least))
    examiner.check(
        "overlap", "Rows that belong to another cluster, at least, in the worst cluster",
        least[most] <= SETTINGS.impure,
        f"About {impurity[most]:.0%} of the rows in cluster {most} may belong to another one (at least "
        f"{least[most]:.0%}, limit {SETTINGS.impure:.0%}): the clusters overlap, and rows near their borders cannot be "
        "told apart; use the probabilities of the rows (predict_proba, clusters.csv), or ask for fewer clusters "
        "(n_components, --components).",
        value=float(least[most]), limit=SETTINGS.impure,
    )  # fmt: skip
