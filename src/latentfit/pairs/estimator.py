"""A low-rank probability matrix behind sparse counts of pairs: marginals, separations, item embeddings."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from latentfit.core import model_file
from latentfit.core.counts import Counts, read_counts
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.estimator import FitHistory, LatentModel
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.kernels.pair_rows import pair_ratios
from latentfit.core.model_file import Array, Schema
from latentfit.core.names import Names, match
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.spectral import PairModel, ScaledSVD, pair_model, scaled_svd
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.pairs.diagnostics.rank_test import MOST_COMPONENTS, StructureTest, structure_test
from latentfit.pairs.diagnostics.verdict import PairEvidence, examine_pairs
from latentfit.pairs.em import cut_lifts, fit_pair_model, shrink_pairs
from latentfit.pairs.init import BIN_WIDTH, EPSILON, TAU, Factored, decompose, independent, pair_phases, rank_two
from latentfit.pairs.moments import Symmetry, examine_symmetry

Method = Literal["auto", "paper", "svd", "scaled-svd"]
PARTS = ("marginal", "separation", "column_marginal", "column_separation", "signs")
LEAST_LIFT = 1e-9
"""Least probability of a pair that was seen, in units of the two rarest items': where separations were cut an entry may
be zero, and the logarithm of what rounding leaves of it would be a matter of the machine."""


SCHEMA = Schema(
    {
        "signs": Array(("rank",), low=-1),
        "separation": Array(("M", "rank"), low=-np.inf),
        "column_separation": Array(("N", "rank"), low=-np.inf),
        "marginal": Array(("M",), sums_to_one=True),
        "column_marginal": Array(("N",), sums_to_one=True),
        "item_counts": Array(("M",)),
        "singular_values": Array(("rank",)),
    },
)
"""What the model file holds, beside the names of the items and the fit history."""
DICTIONARY = Schema({"dictionary": Array(("M", "K")), "mixing": Array(("K", "K"))})
"""What it holds where the components have a dictionary."""


class PairMatrix(LatentModel):
    r"""Recover a probability matrix of low rank from sparse counts of pairs.

    Pairs :math:`(i, j)` of items were counted — words next to words, symbols after symbols, products bought together —
    and some hidden causes make pairs likely: :math:`B = D_L W D_R^\top`, one column of D a cause. Far fewer counts than
    pairs suffice: a multiple of the number of items. What counts determine is the marginal :math:`\rho`, the separation
    :math:`\Delta` in :math:`B = \rho\rho^\top + \Delta\Delta^\top`, and B itself; use `TopicModel`, `CategoricalHMM` or
    `BlockModel` for what the causes mean.

    Parameters
    ----------
    n_components : int or None, default 2
        The rank K of B; 1 is independence. None takes the rank that a cross-fitted test supports (with
        ``method="paper"`` always 2).
    method : {"auto", "paper", "svd", "scaled-svd"}, default "auto"
        ``"auto"``: one regularised marginal-scaled SVD, then empirical Bayes (rank 2) or EM on pair counts (any other).
        ``"paper"``: Phases I and II of Huang, Kakade, Kong & Valiant 2018, rank 2 only. ``"svd"`` and
        ``"scaled-svd"``: the truncated SVDs of their Appendix E.
    symmetric : bool or "auto", default "auto"
        Whether B is symmetric: rows and columns name the same items, and order does not matter. ``"auto"`` tests the
        counts.
    epsilon, bin_width, tau : float
        The paper's constants: ε₀, width of bins, τ. For ``method="paper"`` only.
    split : bool, default False
        Whether the counts are split into independent batches, as in the paper. For ``method="paper"`` only.
    rounds : int, default 1
        Rounds of Phase II. For ``method="paper"`` only.
    smoothing : float or "auto", default "auto"
        Pseudo-counts per item, spread over the components, for K > 2; ``"auto"`` chooses them on held-out counts.
    columns : dict or None, default None
        Names of the columns of a frame of pairs, ``{"row": …, "column": …, "count": …}``.
    max_iter : int, default 200
        Largest number of EM iterations (at rank 2 of each EM run of a mixing distribution); 0 returns the
        initialisation.
    tol : float, default 1e-5
        EM has converged when an iteration gains less than `tol` nats per pair; 0 runs all of `max_iter`.
    random_state : int or None, default None
        Seed; None means 0.
    n_jobs : int or None, default None
        Number of threads; results do not depend on it.
    verbose : int, default 0
        1 logs the stages and EM iterations.
    engine : str, default "auto"
        Where passes over the data run.

    Attributes
    ----------
    marginal_, column_marginal_ : ndarray of shape (n_items,)
        Row and column sums of B.
    separation_, column_separation_ : ndarray of shape (n_items,) or (n_items, K - 1)
        Δ; one-dimensional at rank 2.
    signs_ : ndarray of shape (K - 1,)
        B = ρρᵀ + Σ sign Δ Δᵀ; −1 where items avoid items of their own kind.
    components_, column_components_ : ndarray of shape (K - 1, n_items)
        Embeddings Δ/ρ: B_ij = ρ_i ρ_j (1 + Σ_s sign_s x_si y_sj).
    singular_values_ : ndarray of shape (K - 1,)
        Of the scaled, centred counts.
    n_components_ : int
        The rank K.
    items_, column_items_ : ndarray of shape (n_items,)
        Names of rows and columns.
    item_counts_ : ndarray of shape (n_items,)
        Row sums of the counts.
    symmetric_ : bool
        Whether B was taken as symmetric.
    dictionary_ : ndarray of shape (n_items, K)
        D, for K > 2 with ``method="auto"``.
    mixing_ : ndarray of shape (K, K)
        W, for K > 2 with ``method="auto"``.
    item_table_ : frame
        Columns item, count, marginal, separation.
    selection_ : dict or None
        How the rank was chosen; None when it was given.
    n_iter_, converged_, objective_, objective_path_ : int, bool, float, list
        Of EM on the pair counts for K > 2. At rank 2 with ``method="auto"`` they describe the last EM run of the rows'
        mixing distribution only: items and mixing distributions are updated in turn, in two or three rounds, and
        convergence of B over the rounds is not claimed. Other methods run no EM: 0 iterations, converged.
    log_likelihood_ : float
        Log-likelihood of the counts, in nats.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons and diagnostics.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit import PairMatrix
    >>> from latentfit.simulate import pairs
    >>> world = pairs(200, 4000, "zipf", random_state=0)
    >>> model = PairMatrix().fit(world.counts)
    >>> B = model.reconstruct()
    >>> bool(np.abs(B.toarray() - world.rows(np.arange(200))).sum() < 0.25)
    True
    >>> PairMatrix(None).fit(world.counts).n_components_
    2
    """

    _model_name = "PairMatrix"
    _for_report = ("_counts", "_clock", "_test")

    def __init__(
        self,
        n_components: int | None = 2,
        *,
        method: Method = "auto",
        symmetric: bool | Literal["auto"] = "auto",
        epsilon: float = EPSILON,
        bin_width: float = BIN_WIDTH,
        tau: float = TAU,
        split: bool = False,
        rounds: int = 1,
        smoothing: float | Literal["auto"] = "auto",
        columns: dict[str, str] | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.symmetric = symmetric
        self.epsilon = epsilon
        self.bin_width = bin_width
        self.tau = tau
        self.split = split
        self.rounds = rounds
        self.smoothing = smoothing
        self.columns = columns
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate B from counts of pairs.

        Parameters
        ----------
        X : sparse matrix, array, frame, tuple of columns or list of pairs
            Counts of shape (n_items, n_column_items), a frame of pairs, or columns ``(i, j)`` or ``(i, j, count)``.
        y : None
            Not used.

        Returns
        -------
        self : PairMatrix
            The fitted model.
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                counts = self._read(X)
            with clock.stage("moments"):
                self.symmetric_, self._symmetry = self._settle_symmetry(counts)
            with clock.stage("number"):
                number = self._choose(counts)
            factored, em_result = self._factor(counts, number, clock)
            self._keep(counts, factored, em_result)
        self._clock = clock
        self._warn_limit()
        return self

    def _settle_symmetry(self, counts: Counts) -> tuple[bool, Symmetry | None]:
        """What the caller said, or what the counts say; the look is kept for the report."""
        if not counts.same_items:
            if self.symmetric not in ("auto", False):  # True, also as numpy spells it
                raise DataError(
                    f"symmetric=True needs the same row and column items, got {counts.shape[0]} row and "
                    f"{counts.shape[1]} column items that differ; give a square matrix, or set symmetric=False"
                )
            return False, None
        if self.symmetric != "auto":  # said, not asked: the report looks
            return bool(self.symmetric), None
        look = examine_symmetry(counts)
        return look.holds, look

    def _choose(self, counts: Counts) -> int:
        """The rank: as given, or what a test of every rank supports."""
        self._notes, self._test = list(counts.notes), None
        number = self.n_components
        if number is None:
            self._test = structure_test(counts, symmetric=self.symmetric_)
            number, why = (2, ", as method='paper' has them") if self.method == "paper" else (self._test.chosen, "")
            tried = ", ".join(f"{p:.2g}" for p in self._test.p_values)
            level = self._test.level
            some = "component" if number == 1 else "components"
            self._notes.append(f"{number} {some}{why}: p-values of rank 1, 2, … are {tried} (level {level})")
            if number == MOST_COMPONENTS:
                self._notes.append(f"no more than {MOST_COMPONENTS} components were looked for")
        if not 1 <= number <= min(counts.shape):
            raise NotIdentifiableError(
                f"n_components must be an int from 1 to {min(counts.shape)} for counts of {counts.shape[0]} × "
                f"{counts.shape[1]} items, got {number}"
            )
        if self.method == "paper" and number != 2:
            raise DataError(f"n_components must be 2 with method='paper', got {number}; use method='auto'")
        return number

    def _factor(self, counts: Counts, number: int, clock: StageClock) -> tuple[Factored, FitHistory | None]:
        """Initialise, refine: the factored matrix by the method asked for, and the EM run that led there, if any."""
        self.singular_values_ = np.zeros(number - 1)
        for name in ("dictionary_", "mixing_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if number == 1:
            rows, columns = counts.row_sums / counts.total, counts.column_sums / counts.total
            if self.symmetric_:
                rows = columns = (rows + columns) / 2
            return independent(rows, columns), None
        if self.method == "paper":
            return self._by_paper(counts, clock), None
        regularise = {"auto": 1.0, "svd": np.inf, "scaled-svd": 0.0}[self.method]
        with clock.stage("factor"):
            decomposed = scaled_svd(
                counts.matrix, number - 1, regularise=regularise, symmetric=self.symmetric_, centred=True,
                kernel_rows=(counts.rows, counts.columns), threads=resolve_jobs(self.n_jobs),
            )  # fmt: skip
            self.singular_values_ = np.abs(decomposed.values)
            start = pair_model(decomposed) if number > 2 else None
        if self.method != "auto":
            return cut_lifts(decomposed) if start is None else decompose(start), None
        with clock.stage("refine"):
            return self._by_shrinkage(counts, decomposed) if start is None else self._by_likelihood(counts, start)

    def _by_paper(self, counts: Counts, clock: StageClock) -> Factored:
        with clock.stage("factor"):
            phases = pair_phases(
                counts, symmetric=self.symmetric_, epsilon=self.epsilon, bin_width=self.bin_width, tau=self.tau,
                split=self.split, rounds=self.rounds, seed=self._seed(),
            )  # fmt: skip
        if self.rounds and not phases.anchored:
            self._notes.append("Phase II was not used: its anchor matrix is singular within the noise")
        return cut_lifts(phases)

    def _by_shrinkage(self, counts: Counts, decomposed: ScaledSVD) -> tuple[Factored, FitHistory]:
        threads = resolve_jobs(self.n_jobs)
        shrunk = shrink_pairs(counts, decomposed, max_iter=self.max_iter, tol=self.tol, threads=threads)
        marginals, lifts = (shrunk.marginal, shrunk.column_marginal), (shrunk.lift, shrunk.column_lift)
        return rank_two(marginals, lifts, shrunk.sign), shrunk.refined

    def _by_likelihood(self, counts: Counts, start: PairModel) -> tuple[Factored, FitHistory]:
        fitted, refined = fit_pair_model(
            counts, start, symmetric=self.symmetric_, smoothing=self.smoothing, max_iter=self.max_iter,
            tol=self.tol, threads=resolve_jobs(self.n_jobs), seed=self._seed(), callback=self._progress("EM"),
        )  # fmt: skip
        model = _heaviest_first(fitted)
        self.dictionary_, self.mixing_ = model.left, model.mixing
        return decompose(model), refined

    def _keep(self, counts: Counts, factored: Factored, em_result: FitHistory | None) -> None:
        self._forget()
        self._counts = counts
        self.items_, self.column_items_ = counts.row_names, counts.column_names
        self.n_features_in_ = counts.shape[1]
        self.item_counts_ = counts.row_sums
        self._publish(factored)
        left, right = np.ascontiguousarray(factored.left), np.ascontiguousarray(factored.right)
        threads = resolve_jobs(self.n_jobs)
        least = [float(part[part > 0].min()) for part in (factored.marginal, factored.column_marginal)]
        _, value = pair_ratios(counts.rows, left, right, floor=LEAST_LIFT * least[0] * least[1], threads=threads)
        if em_result is not None:
            self._keep_fit(em_result)
        self.log_likelihood_ = float(value.sum()) / (2 if counts.symmetric else 1)
        if em_result is None:
            self.n_iter_, self.converged_, self.objective_ = 0, True, self.log_likelihood_
            self.objective_path_ = np.array([self.objective_])
        self.selection_ = None
        if self._test is not None:
            self.selection_ = {"chosen": self.n_components_, "p_values": self._test.p_values}

    def _publish(self, factored: Factored) -> None:
        """Parameters under their public names."""
        self._factored, self.n_components_ = factored, factored.separation.shape[1] + 1
        flat = self.n_components_ == 2
        self.marginal_, self.column_marginal_ = factored.marginal, factored.column_marginal
        self.separation_ = factored.separation[:, 0] if flat else factored.separation
        self.column_separation_ = factored.column_separation[:, 0] if flat else factored.column_separation
        self.signs_ = factored.signs
        self.components_ = _embedding(factored.separation, factored.marginal)
        self.column_components_ = _embedding(factored.column_separation, factored.column_marginal)

    # ------------------------------------------------------------ results

    @cached_property
    def item_table_(self) -> Any:
        """One row per row item: item, count, marginal, separation (or separation_1, … when K > 2)."""
        check_is_fitted(self)
        parts = self._factored.separation.T
        names = ["separation"] if len(parts) == 1 else [f"separation_{s + 1}" for s in range(len(parts))]
        columns = {"item": self.items_, "count": self.item_counts_, "marginal": self.marginal_}
        return build_frame(columns | dict(zip(names, parts, strict=True)), self._backend)

    def _examine(self, notes: list[str]) -> Examination:
        evidence = PairEvidence(
            self._counts, self._factored, symmetric=self.symmetric_,
            symmetry=self._symmetry or (examine_symmetry(self._counts) if self.symmetric_ else None),
            converged=self.converged_, test=self._test, epsilon=self.epsilon, bin_width=self.bin_width,
            tau=self.tau, method=self.method, refit=self._refit,
        )  # fmt: skip
        return examine_pairs(evidence)

    def _refit(self, counts: Counts) -> Factored:
        """The same fit to other counts of the same items; this model stays as it is."""
        other = type(self)(**self.get_params())
        other.verbose, other.symmetric_, other._notes = 0, self.symmetric_, []
        return other._factor(counts, self.n_components_, StageClock(0))[0]

    # ---------------------------------------------------------------- use

    def reconstruct(self) -> ProbabilityMatrix:
        """The estimated B, computed on demand.

        Returns
        -------
        ProbabilityMatrix
            Nonnegative probabilities that sum to one, stored as factors.
        """
        check_is_fitted(self)
        return ProbabilityMatrix(self._factored, self.items_, self.column_items_)

    # -------------------------------------------------------------- input

    def _read(self, X: Any) -> Counts:
        square = None if self.symmetric == "auto" else bool(self.symmetric)
        counts = read_counts(X, columns=self.columns, square=square, what="the counts")
        self._backend = backend_of(X)
        return counts

    def _check_options(self) -> None:
        if self.method not in get_args(Method):
            raise DataError(f"method must be one of {', '.join(map(repr, get_args(Method)))}, got {self.method!r}")
        if self.symmetric not in (True, False, "auto"):
            raise DataError(f"symmetric must be True, False or 'auto', got {self.symmetric!r}")
        if not (0 < self.epsilon < 1 and self.bin_width > 1 and self.tau >= 0 and self.rounds >= 0):
            raise DataError(
                "0 < epsilon < 1, bin_width > 1, tau >= 0 and rounds >= 0 must hold, got "
                f"epsilon={self.epsilon}, bin_width={self.bin_width}, tau={self.tau}, rounds={self.rounds}"
            )
        if str(self.smoothing) != "auto" and not is_amount(self.smoothing):
            raise DataError(f"smoothing must be a number >= 0 or 'auto', got {self.smoothing!r}")

    # --------------------------------------------------------- model file

    # What the model file of a `PairMatrix` holds: the factors of B, the items' names, the fit history.

    def _state(self) -> tuple[model_file.Arrays, dict[str, Any]]:
        factored = self._factored
        arrays: model_file.Arrays = {name: getattr(factored, name) for name in PARTS}
        arrays |= {"singular_values": self.singular_values_, "item_counts": self.item_counts_}
        if self.symmetric_:
            arrays = {name: part for name, part in arrays.items() if not name.startswith("column_")}
        if hasattr(self, "dictionary_"):
            arrays |= {"dictionary": self.dictionary_, "mixing": self.mixing_}
        same = self.column_items_ is self.items_ or np.array_equal(self.items_, self.column_items_)
        metadata = {
            "items": model_file.plain_names(self.items_.tolist()),
            "column_items": None if same else model_file.plain_names(self.column_items_.tolist()),
            "symmetric": bool(self.symmetric_),
        }
        arrays = {name: np.ascontiguousarray(part) for name, part in arrays.items()}
        return model_file.with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: model_file.Arrays, metadata: dict[str, Any]) -> None:
        column_items = items = model_file.name_array(model_file.read_names(metadata, "items"), "items")
        if metadata["column_items"] is not None:
            column_items = model_file.name_array(model_file.read_names(metadata, "column_items"), "column_items")
        self.symmetric_ = model_file.typed(metadata, "symmetric", bool)
        parts = {name: arrays[name if not self.symmetric_ else name.removeprefix("column_")] for name in PARTS}
        SCHEMA.check(arrays | parts, metadata, M=len(items), N=len(column_items))
        if (np.abs(parts["signs"]) != 1).any():
            raise ValueError("signs are not signs")
        model_file.restore_fit_history(self, arrays, metadata, list(range(len(column_items))))
        self.items_, self.column_items_ = items, column_items
        self.singular_values_, self.item_counts_ = arrays["singular_values"], arrays["item_counts"]
        if "dictionary" in arrays:
            DICTIONARY.check(arrays, metadata, M=len(items), K=len(parts["signs"]) + 1)
            self.dictionary_, self.mixing_ = arrays["dictionary"], arrays["mixing"]
        self._publish(Factored(**parts))

    items_: NDArray[Any]
    column_items_: NDArray[Any]
    singular_values_: Floats
    symmetric_: bool
    _test: StructureTest | None


def _embedding(separation: Floats, marginal: Floats) -> Floats:
    """Δ/ρ, (K − 1, items); an item of probability zero lies at the origin."""
    safe = np.where(marginal > 0, marginal, 1.0)
    return np.ascontiguousarray(np.where(marginal > 0, separation.T / safe, 0.0))


def _heaviest_first(model: PairModel) -> PairModel:
    """Causes by their weight among rows; columns likewise when they are not the same causes."""
    rows = np.argsort(-model.mixing.sum(axis=1), kind="stable")
    columns = rows if model.symmetric else np.argsort(-model.mixing.sum(axis=0), kind="stable")
    left = np.ascontiguousarray(model.left[:, rows])
    right = left if model.symmetric else np.ascontiguousarray(model.right[:, columns])
    return PairModel(left, right, np.ascontiguousarray(model.mixing[np.ix_(rows, columns)]))


# -----------------------------------------------------------------------------
# `ProbabilityMatrix`, what `PairMatrix.reconstruct()` gives: a probability of every pair without the matrix itself.


class ProbabilityMatrix:
    """Probabilities B_ij of pairs (row item, column item), nonnegative, summing to one, kept as factors.

    Items are asked for by name. ``np.asarray(B)`` or `toarray` makes the whole matrix; nothing else does.

    Examples
    --------
    >>> from latentfit import PairMatrix
    >>> from latentfit.simulate import pairs
    >>> B = PairMatrix().fit(pairs(60, 3000, random_state=0).counts).reconstruct()
    >>> B.shape, round(float(B.toarray().sum()), 12)
    ((60, 60), 1.0)
    >>> bool(B.probability(0, 1) == B.block([0], [1])[0, 0])
    True
    """

    def __init__(self, factored: Factored, items: Names, column_items: Names) -> None:
        self._left, self._right = factored.left, factored.right
        self._factored = factored
        self.items, self.column_items = items, column_items

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._left), len(self._right)

    def __repr__(self) -> str:
        return f"ProbabilityMatrix({self.shape[0]} × {self.shape[1]} items, rank {self._left.shape[1]})"

    def block(self, items: Any, column_items: Any) -> Floats:
        """Probabilities of every pair of the named items.

        Parameters
        ----------
        items : array-like of shape (n,)
            Names of row items.
        column_items : array-like of shape (m,)
            Names of column items.

        Returns
        -------
        ndarray of shape (n, m)
        """
        rows, columns = self._places(items, self.items), self._places(column_items, self.column_items)
        return np.maximum(self._left[rows] @ self._right[columns].T, 0.0)

    def rows(self, items: Any) -> Floats:
        """Rows of B of the named items.

        Parameters
        ----------
        items : array-like of shape (n,)
            Names of row items.

        Returns
        -------
        ndarray of shape (n, n_column_items)
        """
        return np.maximum(self._left[self._places(items, self.items)] @ self._right.T, 0.0)

    def probability(self, item: Any, column_item: Any) -> Any:
        """Probability of one pair, or of several pairs.

        Parameters
        ----------
        item : name or array-like of shape (n,)
            Names of row items.
        column_item : name or array-like of shape (n,)
            Names of column items, as many; one name may be combined with a list.

        Returns
        -------
        float or ndarray of shape (n,)
        """
        if np.ndim(item) == 0 and np.ndim(column_item) == 0:
            return float(self.block([item], [column_item])[0, 0])
        rows, columns = self._places(item, self.items), self._places(column_item, self.column_items)
        if len(rows) != len(columns) and 1 not in (len(rows), len(columns)):
            raise DataError(f"item and column_item must have the same length, got {len(rows)} and {len(columns)}")
        return np.maximum(np.einsum("nk,nk->n", self._left[rows], self._right[columns]), 0.0)

    def conditional(self, items: Any) -> Floats:
        """P(column item | row item) of the named items; an item of probability zero gets P(column item).

        Parameters
        ----------
        items : array-like of shape (n,)
            Names of row items.

        Returns
        -------
        ndarray of shape (n, n_column_items)
            Rows sum to one.
        """
        rows = self.rows(items)
        sums = rows.sum(axis=1, keepdims=True)
        return np.where(sums > 0, rows / np.where(sums > 0, sums, 1.0), self._factored.column_marginal)

    def lift(self, items: Any, column_items: Any) -> Floats:
        """B_ij / (ρ_i ρ'_j), the ratio to independence; 1 where an item has probability zero.

        Parameters
        ----------
        items : array-like of shape (n,)
            Names of row items.
        column_items : array-like of shape (m,)
            Names of column items.

        Returns
        -------
        ndarray of shape (n, m)
        """
        rows, columns = self._places(items, self.items), self._places(column_items, self.column_items)
        independent = np.outer(self._factored.marginal[rows], self._factored.column_marginal[columns])
        return np.where(
            independent > 0, self.block(items, column_items) / np.where(independent > 0, independent, 1.0), 1.0
        )

    def toarray(self) -> Floats:
        """All of B as a dense array; 50,000 items take 20 GB.

        Returns
        -------
        ndarray of shape (n_items, n_column_items)
        """
        return np.maximum(self._left @ self._right.T, 0.0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.toarray() if dtype is None else self.toarray().astype(dtype)

    def _places(self, items: Any, names: Names) -> NDArray[np.intp]:
        asked = np.atleast_1d(np.asarray(items, object if _has_words(items) else None))
        if not len(asked):
            return np.empty(0, np.intp)
        places = match(asked, names, "item").astype(np.intp)
        if (places < 0).any():
            unknown = asked[int((places < 0).argmax())]
            raise DataError(f"items must be among the {len(names)} items of the fit, got {unknown!r}; see items_")
        return places


def _has_words(items: Any) -> bool:
    first = items if isinstance(items, str) else next(iter(items), None) if np.ndim(items) else items
    return isinstance(first, str)
