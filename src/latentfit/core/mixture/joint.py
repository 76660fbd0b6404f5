"""The joint distribution of a table's columns, as an object for queries: never formed, always exact under the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from latentfit.core.errors import DataError, nearest
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column

MAX_CELLS = 10_000_000  # Cells of the largest marginal that is formed: 80 MB.


@dataclass(frozen=True)
class JointPMF:
    """P(columns) = Σ_f weights[f] Π_n table. All queries cost classes × categories, for any number of columns.

    Parameters
    ----------
    mixture : Mixture
        Class weights and conditional tables.
    columns : tuple of Column
        Names and categories of the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from latentfit import LatentClass
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(frame).joint_
    >>> joint.prob({"rain": "yes"}, given={"sky": "grey"}) > 0.9
    True
    """

    mixture: Mixture
    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        names = ", ".join(str(column.name) for column in self.columns[:3]) + (", …" if len(self.columns) > 3 else "")
        return f"JointPMF({len(self.columns)} columns ({names}), {self.mixture.n_classes} classes)"

    def prob(self, event: Mapping[Any, Any], given: Mapping[Any, Any] | None = None) -> float:
        """P(event | given); both map columns to categories.

        Parameters
        ----------
        event : mapping of columns to categories
            What is asked for.
        given : mapping of columns to categories or None, default=None
            What is known; None: nothing.

        Returns
        -------
        float
        """
        known = self._codes(given or {})
        asked = self._codes(event)
        if any(known.get(n, code) != code for n, code in asked.items()):  # it contradicts what is given
            return 0.0
        rest = {n: code for n, code in asked.items() if n not in known}
        return float(self._class_posterior(known) @ np.exp(self._log_likelihood(rest)))

    def marginal(self, columns: Sequence[Any] | Any, given: Mapping[Any, Any] | None = None) -> Any:
        """Distribution of one or more columns: an array with one axis per column.

        Parameters
        ----------
        columns : str, int or sequence of them
            The columns.
        given : mapping of columns to categories or None, default=None
            What is known; None: nothing.

        Returns
        -------
        ndarray with one axis per column
            Probabilities in the order of each column's categories.
        """
        at = self._indices(columns)
        cells = math.prod(self.columns[n].size for n in at)
        if len(set(at)) < len(at):
            raise DataError(f"column {self._repeated(at)!r} is asked for twice; ask for it once")
        if cells > MAX_CELLS:
            raise DataError(
                f"the joint of these {len(at)} columns has {cells:.2g} cells, at most {MAX_CELLS:,} are formed; "
                "ask for fewer columns at once"
            )
        known = self._codes(given or {})
        probabilities = self._class_posterior(known)
        out = probabilities[(slice(None), *[None] * len(at))]
        for axis, n in enumerate(at):
            size = self.columns[n].size
            profile = self._profile(n) if n not in known else np.eye(size)[[known[n]] * len(probabilities)]
            shape = [1] * len(at)
            shape[axis] = size
            out = out * profile.reshape(len(probabilities), *shape)
        return out.sum(axis=0)

    def condition(self, given: Mapping[Any, Any]) -> JointPMF:
        """The joint of the other columns, given some.

        Parameters
        ----------
        given : mapping of columns to categories
            What is known.

        Returns
        -------
        JointPMF
        """
        known = self._codes(given)
        keep = [n for n in range(len(self.columns)) if n not in known]
        rows = [self._profile(n).T for n in keep]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
        table = np.concatenate(rows) if rows else np.empty((0, self.mixture.n_classes))
        return JointPMF(Mixture(self._class_posterior(known), table, offsets), tuple(self.columns[n] for n in keep))

    def expect(self, column: Any, given: Mapping[Any, Any] | None = None) -> float:
        """Expected value of a column whose categories are numbers: the MMSE prediction.

        Parameters
        ----------
        column : str or int
            A column of numbers.
        given : mapping of columns to categories or None, default=None
            What is known; None: nothing.

        Returns
        -------
        float
        """
        return float(self.marginal(column, given) @ self.values_of(column))

    def values_of(self, column: Any) -> Floats:
        """What a column's categories are worth; text is refused.

        Parameters
        ----------
        column : str or int
            A column of numbers.

        Returns
        -------
        values : ndarray of shape (n_categories,)
            The number of every category, or the mean of every interval.
        """
        values = self.columns[self.index(column)].values
        if values is None:
            raise DataError(f"column {column!r} holds text, which has no expectation; ask for its marginal")
        return values

    def entropy(self, columns: Sequence[Any] | Any, given: Mapping[Any, Any] | None = None) -> float:
        """Entropy in nats of the marginal of a few columns.

        Parameters
        ----------
        columns : str, int or sequence of them
            The columns.
        given : mapping of columns to categories or None, default=None
            What is known; None: nothing.

        Returns
        -------
        float
        """
        p = np.asarray(self.marginal(columns, given)).reshape(-1)
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    def mutual_information(
        self, left: Sequence[Any] | Any, right: Sequence[Any] | Any, given: Mapping[Any, Any] | None = None
    ) -> float:
        """Mutual information in nats of two columns, or of two sets of columns.

        Parameters
        ----------
        left, right : str, int or sequence of them
            The two sides.
        given : mapping of columns to categories or None, default=None
            What is known; None: nothing.

        Returns
        -------
        float
        """
        here, there = ([self.columns[n].name for n in self._indices(side)] for side in (left, right))
        both = self.entropy(list(dict.fromkeys([*here, *there])), given)
        return max(self.entropy(here, given) + self.entropy(there, given) - both, 0.0)

    def class_information(self) -> Floats:
        """Mutual information of each column and the class, in nats.

        Returns
        -------
        ndarray of shape (n_columns,)
        """
        weights = self.mixture.weights
        out = np.empty(len(self.columns))
        for n in range(len(self.columns)):
            profile = self._profile(n)
            ratio = np.log(np.maximum(profile, 1e-300) / np.maximum(weights @ profile, 1e-300))
            out[n] = max(float((weights[:, None] * profile * ratio).sum()), 0.0)
        return out

    def sample(self, n: int, random_state: int | None = None) -> pa.Table:
        """Rows drawn from the joint.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int or None, default=None
            Seed; None is 0.

        Returns
        -------
        pyarrow.Table of shape (n, n_columns)
        """
        rng = np.random.default_rng(0 if random_state is None else random_state)
        classes = rng.choice(self.mixture.n_classes, size=n, p=self.mixture.weights)
        out = {}
        for index, column in enumerate(self.columns):
            codes = self.mixture.draw_codes(index, classes, rng)
            out[str(column.name)] = pa.array(column.categories[codes].tolist())
        return pa.table(out)

    def index(self, name: Any) -> int:
        """Position of a column; an unknown name is refused with the nearest one.

        Parameters
        ----------
        name : str or int
            Name of a column.

        Returns
        -------
        n : int
            Index into `columns`.
        """
        at = self._places.get(name)
        if at is None:
            known = [str(column.name) for column in self.columns]
            raise DataError(f"there is no column {name!r}; {nearest(str(name), known, 'the columns are')}")
        return at

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {column.name: n for n, column in enumerate(self.columns)}

    def _indices(self, columns: Sequence[Any] | Any) -> list[int]:
        """Where one column stands, or each of any sequence of names; a tuple may itself be a name."""
        several = hasattr(columns, "__len__") and hasattr(columns, "__getitem__")  # pandas' and numpy's are no Sequence
        is_name = isinstance(columns, str | bytes) or (isinstance(columns, tuple) and columns in self._places)
        return [self.index(name) for name in (columns if several and not is_name else [columns])]

    def _repeated(self, at: list[int]) -> Any:
        return next(self.columns[n].name for n in at if at.count(n) > 1)

    def _profile(self, n: int) -> Floats:
        """(F, categories) of a column."""
        return np.asarray(self.mixture.table[self.mixture.column_offsets[n] : self.mixture.column_offsets[n + 1]].T)

    def _codes(self, event: Mapping[Any, Any]) -> dict[int, int]:
        """Columns and codes that an event fixes."""
        codes = {}
        for name, value in event.items():
            n = self.index(name)
            codes[n] = self.columns[n].code_of(value)
            if codes[n] < 0:
                known = self.columns[n].categories[:12].tolist()
                raise DataError(f"column {name!r} has no category {value!r}; its categories are {known}")
        return codes

    def _log_likelihood(self, codes: Mapping[int, int]) -> Floats:
        """log P(event | class) (F,): hundreds of columns would underflow without the logarithm."""
        rows = [self.mixture.column_offsets[n] + code for n, code in codes.items()]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.mixture.table[rows]).sum(axis=0))

    def _class_posterior(self, codes: Mapping[int, int]) -> Floats:
        """P(class | given) (F,)."""
        if not codes:
            return self.mixture.weights
        with np.errstate(divide="ignore"):
            log_joint = np.log(self.mixture.weights) + self._log_likelihood(codes)
        if not np.isfinite(log_joint.max()):
            names = ", ".join(f"{self.columns[n].name}={self.columns[n].categories[c]}" for n, c in codes.items())
            raise DataError(f"what is given ({names[:200]}) has probability zero under the model; give something else")
        joint = np.exp(log_joint - log_joint.max())
        return np.asarray(joint / joint.sum())
