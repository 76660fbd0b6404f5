"""What latent classes and clusters do alike: a fitted mixture over a table's columns, its answers and its file."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from latentfit.core.checkpoint import CheckpointFile
from latentfit.core.em import EMResult, SolverState
from latentfit.core.errors import DataError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters, permuted, pseudo_rows
from latentfit.core.mixture.init import marginal_table
from latentfit.core.mixture.joint import JointPMF
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.model_file import (
    Array,
    Arrays,
    Schema,
    describe_column,
    read_columns,
    read_mixture,
    restore_fit_history,
    with_fit_history,
)
from latentfit.core.sampling import row_contents, scramble
from latentfit.core.table.input import LearnColumn
from latentfit.core.table.stored import AnyTable, StoredTable, batches_with_weights, code_frame, code_scan
from latentfit.core.table.table import Column, Table, packed_alike, with_weights
from latentfit.core.table.weights import NO_WEIGHT, WeightScale, WeightType, check_type, check_weights, unweighted
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.io.scan import Scan

# Rows that initialisations use: the same ones on every engine, chosen by what they say. More of them save passes over
# all rows, which is where a long fit spends its time (docs/guide/scale.md).
SAMPLE_ROWS = 50_000
# Nats in all below which an iteration counts as standing still, also in a long table, where `tol` a cell is many.
SETTLED = 0.1
# Nats that the last quarter of the iterations may gain in all when EM has converged; `tol` per cell if it is less.
TAIL_GAIN = 0.003

# What scikit-learn may ask of arrays of categories: any values, missing values among them.
CELLS: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}


# The statistics of the fit, in its model file with the mixture.
SCHEMA = Schema({"totals": Array(("F",)), "table_sums": Array(("C", "F")), "marginals": Array(("C",))})


class TableModel(LatentModel):
    """Base of the estimators whose parameters are one `Mixture`. A subclass reads its input and fits."""

    _engines = ("auto", "memory", "stream", "dask")
    _takes = ("allow_nan", "categorical", "string")
    _for_report = ("_table", "_later", "_stored", "_clock")

    smoothing: float | Literal["auto"]
    weight_type: WeightType
    _table: Any  # what EM walked: a `Table`, or a `StoredTable`
    _scale: WeightScale  # of the weights of all rows seen
    _later: list[Table]  # rows that joined those of `_table`

    # ---------------------------------------------------------------- fit

    @abstractmethod
    def _read(self, X: Any, sample_weight: Any, *, reset: bool = True) -> Table:
        """The coded table; with ``reset=False`` under the columns of the fit."""

    @abstractmethod
    def _learner(self) -> LearnColumn:
        """How a column is learned from its categories, for rows that are coded apart from them."""

    def _read_rows(self, X: Any, sample_weight: Any) -> AnyTable:
        """What EM walks: a table in memory, or its codes in a file (`latentfit.scan`, or engine="stream")."""
        self._stored: StoredTable | None = None
        if not isinstance(X, Scan) and self.engine in ("auto", "memory"):
            return self._read(X, sample_weight)
        if isinstance(X, Scan):
            weight = _weight_column(sample_weight)
            self._backend, stored = "pyarrow", code_scan(X, self._learner(), weight, self.weight_type)
            self._name_features(stored.names)
        else:
            self._backend = backend_of(X)
            X = self._validated(X, reset=True, **CELLS)
            stored = code_frame(X, self._learner(), sample_weight, self.weight_type)
        rows, self._stored = stored.fitted_on, stored
        if self.engine == "memory" and isinstance(rows, StoredTable):
            codes = np.concatenate([part.codes for part in rows.blocks()])
            weights = rows.weights(0, rows.n_rows)
            return Table(codes, rows.columns, weights, single=rows.weighted, scale=rows.scale)
        return rows

    def _read_new(self, X: Any, sample_weight: Any) -> Table:
        """Rows under the columns of the fit; those of files batch by batch, so that only their codes are held."""
        if not isinstance(X, Scan):
            return self._read(X, sample_weight, reset=False)
        parts, weights, behind = [], [], 0
        for rows, weight in batches_with_weights(X, _weight_column(sample_weight)):
            if weight is not None:
                counts = check_weights(weight, self.weight_type, behind) > 0
                behind += len(weight)
                if not counts.any():
                    continue
                rows = rows.filter(pa.array(counts))
                weights.append(weight[counts])
            parts.append(self._read(rows, None, reset=False))
        if not parts:
            raise DataError(NO_WEIGHT)
        table = Table(np.concatenate([part.codes for part in parts]), self._columns)
        return with_weights(table, np.concatenate(weights), self.weight_type) if weights else table

    def _check_options(self) -> None:
        check_type(self.weight_type)
        self._pseudo_rows()  # which refuses what is no number of them

    def _pseudo_rows(self) -> float:
        return pseudo_rows(self.smoothing)

    def _keep(self, table: AnyTable, refined: EMResult[Mixture, Sums]) -> None:
        """Hold the fit, heaviest class first."""
        self._forget()
        ordered = permuted(refined, np.argsort(-refined.params.weights, kind="stable"))
        self._sums, self._table, self._marginals = ordered.sums, table, marginal_table(table)
        self._scale, self._later = table.weight_scale, []
        self._publish(ordered.params, table.columns)
        self._keep_fit(ordered)

    def _publish(self, mixture: Mixture, columns: tuple[Column, ...]) -> None:
        """Parameters under their public names."""
        self._mixture, self._columns = mixture, columns
        self.n_components_ = self._n_features_out = mixture.n_classes
        self.weights_, self.profiles_ = mixture.weights, mixture.profiles()
        self.categories_ = [column.categories for column in columns]

    # ------------------------------------------------------------ results

    @property
    def joint_(self) -> JointPMF:
        """The joint distribution of the columns, for queries."""
        check_is_fitted(self)
        return JointPMF(self._mixture, self._columns)

    def n_parameters(self) -> int:
        """Free parameters: class weights and, per column, categories − 1 for each class.

        Returns
        -------
        n : int
            Number of free parameters.
        """
        check_is_fitted(self)
        return count_parameters(self._mixture.column_offsets, self.n_components_)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's criterion on data X (smaller is better).

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        return -2 * self._scored(X, sample_weight)[0] + 2 * self.n_parameters()

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Schwarz's criterion on data X (smaller is better); sampling weights count as Kish's number of rows.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        log_likelihood, n_rows = self._scored(X, sample_weight)
        return -2 * log_likelihood + float(np.log(n_rows)) * self.n_parameters()

    # ---------------------------------------------------------------- use

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities of rows, missing values allowed; a row's result does not depend on the other rows.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        return self._posterior(X)[0]

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The most probable class of every row.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of every row, in nats.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._posterior(X)[1]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row in nats, rows counted by their weight.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.
        y : object, default=None
            Ignored.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        log_likelihood, n_rows = self._scored(X, sample_weight)
        return log_likelihood / n_rows

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """Rows drawn from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int or None, default=None
            Seed; None is 0.

        Returns
        -------
        frame of shape (n, n_columns)
        """
        drawn = self.joint_.sample(n, random_state)
        return build_frame(dict(zip(drawn.column_names, drawn.columns, strict=True)), self._backend)

    def _scored(self, X: Any, sample_weight: Any) -> tuple[float, float]:
        """Log-likelihood of rows, and how many they count as."""
        if sample_weight is None:
            scores = self.score_samples(X)
            return float(scores.sum()), float(len(scores))
        check_is_fitted(self)
        table = packed_alike(self._read_new(X, sample_weight))
        return float(self._posterior_of(table)[1] @ table.each_weight()), table.total_weight

    def _posterior(self, X: Any) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        return self._posterior_of(packed_alike(self._read_new(X, None)))

    def _posterior_of(self, table: Table) -> tuple[Floats, Floats]:
        """Posterior (n, F) and log-likelihood (n,) of coded rows."""
        return posterior_of(MemoryEngine(table, self.n_jobs), self._mixture)

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {
            "weights": self._mixture.weights,
            "table": self._mixture.table,
            "totals": self._sums.totals,
            "table_sums": self._sums.table,
            "marginals": self._marginals,
        }
        columns = [describe_column(column) for column in self._columns]
        return with_fit_history(self, arrays, {"columns": columns, "weight_scale": list(astuple(self._scale))})

    def _restore(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        columns = read_columns(metadata["columns"])
        mixture = read_mixture(arrays, columns)
        n_cells, n_classes = mixture.table.shape
        SCHEMA.check(arrays, metadata, F=n_classes, C=n_cells)
        restore_fit_history(self, arrays, metadata, [column.name for column in columns])
        self._marginals = arrays["marginals"]
        self._sums = Sums(self.log_likelihood_, arrays["totals"], arrays["table_sums"])
        self._scale = _read_scale(metadata, float(arrays["totals"].sum()))
        self._publish(mixture, columns)


def weight_notes(table: AnyTable) -> list[str]:
    """What a report says of weights that do not count rows."""
    if table.scale is None:
        return []
    n_rows, effective = table.scale.n_rows, table.scale.effective
    return [
        f"sampling weights: {n_rows:,} rows count as {effective:,.0f} (Kish's effective number); weights that count "
        "equal rows need weight_type='frequency'"
    ]


def _weight_column(sample_weight: Any) -> str | None:
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise DataError("row weights of files are a column of theirs; give its name as sample_weight")
    return sample_weight


def _read_scale(metadata: dict[str, Any], total: float) -> WeightScale:
    """How the weights of all rows seen are spread; files of 0.1.0 counted their sum as rows."""
    if "weight_scale" not in metadata:
        return unweighted(max(total, 1.0))
    largest, sums, squares, n_rows = metadata["weight_scale"]
    scale = WeightScale(float(largest), float(sums), float(squares), int(n_rows))
    if not (np.isfinite(astuple(scale)).all() and min(astuple(scale)) > 0):
        raise ValueError(f"weight_scale is {metadata['weight_scale']}")
    return scale


# -----------------------------------------------------------------------------
# The checkpoint of a fit of one mixture: what was decided before the EM run that it keeps, and where that stands.


@dataclass(frozen=True)
class SavedMixture:
    """Solver state of a stopped fit, and what was decided before its EM run."""

    resume_from: SolverState[Mixture]
    decided: dict[str, Any]


class TableCheckpoint(CheckpointFile):
    """The file of one fit of a mixture."""

    @property
    def saved(self) -> SavedMixture | None:
        if self.file is None:
            return None
        arrays, metadata = self.file.arrays, self.file.metadata
        params = Mixture(arrays["weights"], arrays["table"], arrays["first"])
        return SavedMixture(SolverState(params, int(metadata["n_iter"]), arrays["path"].tolist()), metadata["decided"])

    def writer(self, decided: dict[str, Any]) -> Callable[[SolverState[Mixture]], None]:
        """What the EM run calls after every iteration."""

        def write(at: SolverState[Mixture]) -> None:
            if self.due:
                arrays = {"weights": at.params.weights, "table": at.params.table, "path": np.array(at.path)}
                arrays["first"] = at.params.column_offsets
                self.write(arrays, {"n_iter": at.n_iter, "decided": decided})

        return write


def table_key(table: AnyTable) -> str:
    """Tells tables apart by their columns' categories, how often each occurs, and which occur together in rows."""
    known = hashlib.sha256(np.asarray([table.n_rows, table.total_weight, *table.singles()], np.float64).tobytes())
    for column in table.columns:
        known.update(f"\0{column.name}\0{column.categories.tolist()}".encode())
    known.update(f"\0{_rows_sum(table)}".encode())
    return known.hexdigest()


def _rows_sum(table: AnyTable) -> int:
    """The sum of all rows' hashes, each of its cells and its weight: it needs one pass, and no engine changes it."""
    total = 0
    for block in table.blocks():
        weights = scramble(block.each_weight().view(np.uint64), 1)
        total += int(scramble(row_contents(block, 0) ^ weights, 0).sum())  # a block's sum wraps around, exactly
    return total
