"""What latent classes and clusters do alike: a fitted mixture over a table's columns, its answers and its file."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from latentfit.core.em import Refined
from latentfit.core.errors import DataError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters, permuted
from latentfit.core.mixture.joint import JointPMF
from latentfit.core.mixture.model_file import restore_table, table_state
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.prior import pseudo_rows
from latentfit.core.mixture.row_init import marginal_table
from latentfit.core.table.input import LearnColumn
from latentfit.core.table.stored import AnyTable, StoredTable, batches_with_weights, code_frame, code_scan
from latentfit.core.table.table import Column, Table, packed_alike, with_weights
from latentfit.core.table.weights import NO_WEIGHT, WeightScale, WeightType, check_type, check_weights
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.io.scan import Scan

SAMPLE_ROWS = 50_000
"""Rows that starts look at: the same ones on every engine, chosen by what they say. More of them save passes over all
rows, which is where a long fit spends its time (docs/scale.md)."""
SETTLED = 0.1
"""Nats in all below which an iteration counts as standing still, also in a long table, where `tol` a cell is many."""
TAIL_GAIN = 0.003
"""Nats that the last quarter of the iterations may gain in all when EM has converged; `tol` per cell if it is less."""

CELLS: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}
"""What scikit-learn may ask of arrays of categories: any values, gaps among them."""


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
        """How a column is learned from its words, for rows that are coded apart from them."""

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

    def _keep(self, table: AnyTable, refined: Refined[Mixture, Sums]) -> None:
        """Hold the fit, heaviest class first."""
        self._forget()
        kept = permuted(refined, np.argsort(-refined.params.weights, kind="stable"))
        self._sums, self._table, self._marginals = kept.sums, table, marginal_table(table)
        self._scale, self._later = table.weight_scale, []
        self._publish(kept.params, table.columns)
        self._keep_climb(kept)

    def _publish(self, mixture: Mixture, columns: tuple[Column, ...]) -> None:
        """Parameters under their public names."""
        self._mixture, self._columns = mixture, columns
        self.n_components_ = self._n_features_out = mixture.n_classes
        self.weights_, self.profiles_ = mixture.weights, mixture.profiles()
        self.categories_ = [column.categories for column in columns]

    # ------------------------------------------------------------ results

    @property
    def joint_(self) -> JointPMF:
        """The joint distribution, to be asked."""
        check_is_fitted(self)
        return JointPMF(self._mixture, self._columns)

    def n_parameters(self) -> int:
        """Free parameters: class weights and, per column, categories − 1 for each class."""
        check_is_fitted(self)
        return count_parameters(self._mixture.first, self.n_components_)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's criterion on data X (smaller is better)."""
        return -2 * self._scored(X, sample_weight)[0] + 2 * self.n_parameters()

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Schwarz's criterion on data X (smaller is better); sampling weights count as Kish's number of rows."""
        log_likelihood, n_rows = self._scored(X, sample_weight)
        return -2 * log_likelihood + float(np.log(n_rows)) * self.n_parameters()

    # ---------------------------------------------------------------- use

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, F) of rows, gaps allowed; a row's answer does not depend on its company."""
        return self._posterior(X)[0]

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The most probable class of every row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood (n,) of every row, in nats."""
        return self._posterior(X)[1]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood of a row, in nats, rows by their weight."""
        log_likelihood, n_rows = self._scored(X, sample_weight)
        return log_likelihood / n_rows

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """Rows drawn from the model."""
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

    _state = table_state
    _restore = restore_table


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
