"""What social scientists ask of latent classes: fit indices, the number of classes compared, standard errors, tests.

Each method works on the rows of the fit, or on rows given anew (a model from a file keeps none).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from latentfit.core.em import EMResult
from latentfit.core.errors import DataError
from latentfit.core.frames import build_frame
from latentfit.core.mixture.bootstrap import RatioTest, bootstrap_mixture, compare, fit_indices, ratio_test
from latentfit.core.mixture.model import TableModel
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.stored import AnyTable, StoredTable
from latentfit.core.table.table import Table, group_rows, joined_rows
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import Sums


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals as frames of the caller's kind.

    `weights` (class, weight, se, low, high); `profiles` (class, column, category, probability, se, low, high).
    """

    weights: Any
    profiles: Any
    level: float
    n_draws: int


class TableEvidence(TableModel):
    """The methods, for an estimator that holds a mixture, its columns and perhaps its rows."""

    init: Any

    @abstractmethod
    def _fit_at(self, table: Table, n_components: int) -> tuple[str, EMResult[Mixture, Sums], Any]:
        """The name of the initialisation, the fit at a number of classes, and how often it was reached."""

    def fit_indices(self, X: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Log-likelihood, parameters, AIC, AIC3, BIC, SABIC, CAIC (smaller is better) and entropy R².

        They are those of the fitted parameters: with `smoothing` above 0 the likelihood lies a little below its
        maximum, which the criteria are defined at; fit with ``smoothing=0`` to compare them with other programs.
        `n_rows` is the sample size: rows, or with sampling weights Kish's effective number, to which the
        log-likelihood is scaled too.

        Parameters
        ----------
        X : frame, array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None uses those of the fit while they are in memory.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        dict
            The indices by name.
        """
        with one_blas_thread():
            return asdict(fit_indices(self._rows(X, sample_weight), self._mixture, n_jobs=self.n_jobs))

    def compare(self, X: Any, numbers: Iterable[int] = range(1, 11), sample_weight: Any = None) -> Any:
        """Fit every number of classes and lay their indices side by side, one row each; this model stays as it is.

        A fitted model given as `init` has one number of classes only: the fits then start as with ``init="auto"``.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows to fit.
        numbers : iterable of int, default=range(1, 11)
            Numbers of classes.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        the caller's kind of frame
            One row per number of classes.

        >>> import numpy as np
        >>> from latentfit import LatentClass
        >>> rows = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> LatentClass().compare(rows, [1, 2])["n_components"].to_pylist()
        [1, 2]
        """
        model = clone(self)
        if isinstance(self.init, TableModel):
            model.init = "auto"
        with one_blas_thread():
            table = _in_memory(model._read_rows(X, sample_weight))
            most = table.n_observations
            wanted = [int(number) for number in numbers if 1 <= number <= most]
            columns = compare(table, wanted, lambda rows, number: model._fit_at(rows, number)[1].params)
        return build_frame(columns, model._backend)

    def bootstrap(
        self, X: Any = None, sample_weight: Any = None, *, n_draws: int = 100, level: float = 0.95
    ) -> Intervals:
        """Standard errors and intervals of weights and profiles from resampled rows, classes matched to the fit's.

        Rows with sampling weights are resampled like others and keep their weights.

        Parameters
        ----------
        X : frame, array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None uses those of the fit while they are in memory.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.
        n_draws : int, default=100
            Number of resampled fits.
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        Intervals
            Standard errors and intervals of weights and profiles.
        """
        with one_blas_thread():
            found = bootstrap_mixture(
                self._rows(X, sample_weight), self._mixture, n_draws=n_draws, level=level,
                smoothing=self._pseudo_rows(), random_state=self._seed(), n_jobs=self.n_jobs,
            )  # fmt: skip
        F, sizes = self._mixture.n_classes, [column.size for column in self._columns]
        weights = {
            "class": np.arange(F), "weight": self._mixture.weights, "se": found.weights_se,
            "low": found.weights_low, "high": found.weights_high,
        }  # fmt: skip
        names = np.repeat(np.array([str(column.name) for column in self._columns], object), sizes)
        categories = np.array(
            [str(category) for column in self._columns for category in column.categories.tolist()], object
        )
        profiles = {"class": np.repeat(np.arange(F), len(categories)), "column": np.tile(names, F)}
        profiles |= {"category": np.tile(categories, F), "probability": self._mixture.table.T.reshape(-1)}
        for name, values in (("se", found.table_se), ("low", found.table_low), ("high", found.table_high)):
            profiles[name] = values.T.reshape(-1)
        return Intervals(
            build_frame(weights, self._backend), build_frame(profiles, self._backend), found.level, found.n_draws
        )

    def ratio_test(
        self, X: Any = None, sample_weight: Any = None, *, n_draws: int = 99, alpha: float = 0.05
    ) -> RatioTest:
        """Bootstrap likelihood-ratio test: is one class more needed? A small `p_value` says yes.

        With sampling weights the ratio is one of pseudo-likelihoods, and so are the simulated ones: their rows have the
        weights of the data. That holds where weights do not depend on the answers; else it is an approximation.

        Parameters
        ----------
        X : frame, array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None uses those of the fit while they are in memory.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.
        n_draws : int, default=99
            Number of simulated tables.
        alpha : float, default=0.05
            Level of the test.

        Returns
        -------
        RatioTest
            The statistic, its p-value and the simulated statistics.
        """
        with one_blas_thread():
            return ratio_test(
                self._rows(X, sample_weight), self._mixture, n_draws=n_draws, alpha=alpha,
                smoothing=self._pseudo_rows(), random_state=self._seed(), n_jobs=self.n_jobs,
            )  # fmt: skip

    def _rows(self, X: Any, sample_weight: Any) -> Table:
        check_is_fitted(self)
        if isinstance(X, int | float | np.number):
            raise DataError(f"found the number {X!r} where rows stand; name what it is: n_draws={X!r}")
        if X is not None:
            return group_rows(self._read_new(X, sample_weight))
        table = self._rows_seen() if hasattr(self, "_table") else None
        if table is None and hasattr(self, "_table"):
            raise DataError("the rows from before partial_fit are not kept; give all of them: X=…")
        if table is None:
            raise DataError("a model from a file keeps no rows; give them: X=…")
        return _in_memory(table)

    def _rows_seen(self) -> Any:
        """The rows of the fit and all that joined them; None where they are not kept."""
        if self._later:
            self._table, self._later = joined_rows([self._table, *self._later]), []
        return self._table


def _in_memory(table: AnyTable) -> Table:
    if isinstance(table, StoredTable):
        raise rows_needed("fit_indices, compare, bootstrap and ratio_test", "engine='memory'")
    return table


def rows_needed(who: str, give: str) -> DataError:
    """The sentence for rows in a file, where they are needed in memory."""
    return DataError(f"{who} need the rows in memory; give {give}")
