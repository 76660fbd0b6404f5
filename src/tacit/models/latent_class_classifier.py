"""A classifier for categorical tables with gaps: latent classes of their own for every label."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tacit.data.frames import as_frame
from tacit.data.sampling import row_hashes
from tacit.data.table import Column, Table, group_rows
from tacit.data.table_input import read_table
from tacit.diagnose.report import Examiner, FitReport
from tacit.engine.blas import one_blas_thread
from tacit.engine.memory import MemoryEngine, Sums, posterior_of
from tacit.engine.mixture import Floats, Mixture
from tacit.errors import DataError
from tacit.models.base import LatentModel, seed_of
from tacit.models.clock import StageClock, make_report
from tacit.models.latent_class import LatentClass
from tacit.refine.em import Refined

CANDIDATES = (1, 2, 4, 8, 16, 32)
"""Latent classes per label that are tried."""
FOLDS = 3
"""Parts of the rows on which the number is judged, each fitted without."""

Fits = list[Refined[Mixture, Sums]]


class LatentClassClassifier(ClassifierMixin, LatentModel):
    r"""Predict a label from categorical columns, gaps allowed, through the joint distribution of all of them.

    Every label has latent classes of its own: :math:`P(x, y) = \sum_{f \in y} w_f \prod_n P_n[f, x_n]`, and the
    prediction is :math:`\arg\max_y P(x, y)` over the columns that were observed. It needs no imputation and gives
    probabilities; boosted trees are often the better classifier when nothing is missing.

    Parameters
    ----------
    n_components : int or None
        Latent classes per label; None chooses among 1 … 32 by the likelihood of labels of rows left out.
    smoothing : "auto" or float
        Pseudo-rows per class, shaped like the marginals of its label.
    bins : int or None
        Cut numeric columns with many values into so many intervals; None refuses them.

    Attributes
    ----------
    classes_ : the labels, in the user's words
    n_components_ : latent classes per label
    weights_ : (F,) weights of all latent classes
    owners_ : (F,) the label code each latent class belongs to

    Examples
    --------
    >>> import pandas as pd
    >>> from tacit import LatentClassClassifier
    >>> X = pd.DataFrame({"sky": ["grey", "blue"] * 20, "wind": ["s", "s", "n", "n"] * 10})
    >>> y = ["rain", "sun"] * 20
    >>> LatentClassClassifier().fit(X, y).predict(X)[:2].tolist()
    ['rain', 'sun']
    """

    _model_name = "LatentClassClassifier"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        smoothing: float | Literal["auto"] = "auto",
        bins: int | None = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.smoothing = smoothing
        self.bins = bins
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the joint distribution of columns and label."""
        self._check_engine()
        clock = StageClock()
        with one_blas_thread():
            with clock.stage("data"):
                table = self._read_both(X, y, sample_weight)
            self.selection_: dict[str, Any] | None = None
            number = self.n_components
            if number is None:
                with clock.stage("select"):
                    number, self.selection_ = self._choose(table)
            with clock.stage("refine"):
                fits = self._fit_labels(table, int(number))
        self._keep(table, fits)
        self.n_components_ = int(number)
        self._notes, self._clock = [f"{number} latent classes per label"], clock
        self._warn_limit(self.max_iter)
        return self

    def _read_both(self, X: Any, y: Any, sample_weight: Any) -> Table:
        """Columns and label in one table, the label last; equal rows grouped."""
        if y is None:
            raise DataError("requires y to be passed, but the target y is None; give one label per row")
        if as_frame(X) is not None:
            validate_data(self, X, skip_check_array=True)
            y = column_or_1d(y, warn=True)
        else:
            X, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        columns = read_table(X, bins=self.bins, sample_weight=sample_weight, group=False)
        if sample_weight is not None:
            codes = codes[np.asarray(sample_weight, np.float64).reshape(-1) > 0]
        if len(codes) != columns.n_rows:
            raise DataError(f"{columns.n_rows} rows but {len(codes)} labels; give one label per row")
        if len(self.classes_) > np.iinfo(columns.codes.dtype).max - 1:
            columns = replace(columns, codes=columns.codes.astype(np.uint16))
        label = codes.astype(columns.codes.dtype)[:, None]
        both = replace(
            columns,
            codes=np.ascontiguousarray(np.hstack([columns.codes, label])),
            columns=(*columns.columns, Column("label", self.classes_)),
        )
        return group_rows(both)

    def _fit_labels(self, table: Table, number: int) -> Fits:
        """One latent class model per label, on its rows."""
        model = LatentClass(
            smoothing=self.smoothing,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=seed_of(self.random_state),
            n_jobs=self.n_jobs,
        )
        fits: Fits = []
        for code in range(len(self.classes_)):
            rows = _without_label(table.take(table.codes[:, -1] == code))
            fits.append(model._fit_at(rows, max(min(number, rows.n_rows), 1))[1])
        return fits

    def _choose(self, table: Table) -> tuple[int, dict[str, Any]]:
        """The number of latent classes per label whose labels of left-out rows are likeliest."""
        fold = row_hashes(table, seed_of(self.random_state)) % np.uint64(FOLDS)
        values: list[float] = []
        for number in CANDIDATES:
            loss = weight = 0.0
            for part in range(FOLDS):
                inside, outside = table.take(fold != part), table.take(fold == part)
                if not outside.n_rows or len(np.unique(inside.codes[:, -1])) < len(self.classes_):
                    continue
                mixture, owners = _stack(self._fit_labels(inside, number), _label_weights(inside))
                belief = _label_beliefs(mixture, owners, _without_label(outside), len(self.classes_), self.n_jobs)
                chance = belief[np.arange(outside.n_rows), outside.codes[:, -1].astype(np.intp)]
                row_weight = np.ones(outside.n_rows) if outside.row_weight is None else outside.row_weight
                loss += float(row_weight @ np.log(np.maximum(chance, 1e-12)))
                weight += float(row_weight.sum())
            values.append(loss / weight if weight else 0.0)
            if len(values) > 2 and max(values[-2:]) < max(values[:-2]):
                break
        best = CANDIDATES[int(np.argmax(values))]
        tried = list(CANDIDATES[: len(values)])
        return best, {"criterion": "log-likelihood of left-out labels", "n_components": tried, "value": values}

    def _keep(self, table: Table, fits: Fits) -> None:
        self.__dict__.pop("report_", None)
        self._mixture, self.owners_ = _stack(fits, _label_weights(table))
        self._columns = table.columns[:-1]
        self.weights_ = self._mixture.weights
        self.n_iter_ = max(fit.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits)
        self.objective_ = float(sum(fit.objective for fit in fits))
        weights = _label_weights(table)
        labels = float(table.total_weight * (weights[weights > 0] @ np.log(weights[weights > 0])))
        self.log_likelihood_ = float(sum(fit.log_likelihood for fit in fits)) + labels

    # ------------------------------------------------------------ results

    @cached_property
    def report_(self) -> FitReport:
        """Verdict and reasons; made when asked for."""
        check_is_fitted(self)
        examiner = Examiner()
        if self.selection_ is not None:
            examiner.quantities["selection"] = self.selection_
        if len(self.classes_) < 2:
            examiner.doubt("caution", f"Every label is {self.classes_[0]!r}, so there is nothing to tell apart.")
        if not self.converged_:
            examiner.doubt("caution", "EM stopped before it stood still, so the figures may move; raise max_iter.")
        return make_report(examiner.conclude(), self._notes, self._clock)

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities (n, labels) of every label; a row's answer does not depend on its company."""
        check_is_fitted(self)
        if as_frame(X) is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        table = read_table(X, columns=self._columns, group=False)
        return _label_beliefs(self._mixture, self.owners_, table, len(self.classes_), self.n_jobs)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _without_label(table: Table) -> Table:
    return replace(table, codes=np.ascontiguousarray(table.codes[:, :-1]), columns=table.columns[:-1])


def _label_weights(table: Table) -> Floats:
    weight = np.ones(table.n_rows) if table.row_weight is None else table.row_weight
    size = table.columns[-1].size
    counts = np.bincount(table.codes[:, -1].astype(np.intp), weight, minlength=size)
    return np.asarray(counts / counts.sum(), np.float64)


def _stack(fits: Fits, label_weights: Floats) -> tuple[Mixture, NDArray[np.intp]]:
    """All labels' classes side by side, and which label each belongs to."""
    weights = [fit.params.weights * share for fit, share in zip(fits, label_weights, strict=True)]
    table = np.ascontiguousarray(np.hstack([fit.params.table for fit in fits]))
    owners = np.repeat(np.arange(len(fits)), [fit.params.n_classes for fit in fits])
    return Mixture(np.concatenate(weights), table, fits[0].params.first), owners


def _label_beliefs(
    mixture: Mixture, owners: NDArray[np.intp], table: Table, n_labels: int, n_jobs: int | None
) -> Floats:
    posterior, _ = posterior_of(MemoryEngine(table, n_jobs), mixture)
    return np.asarray(posterior @ np.eye(n_labels)[owners])
