"""`ProbabilityMatrix`, what `PairMatrix.reconstruct()` gives: a probability of every pair without the matrix itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.names import Names, match
from latentfit.pairs.init.factored import Factored


class ProbabilityMatrix:
    """Probabilities B_ij of pairs (row item, column item), nonnegative, summing to one, kept as factors.

    Items are asked for by name. ``np.asarray(B)`` or `toarray` makes the whole matrix; nothing else does.

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
        """Probabilities of every pair of the named items, (len(items), len(column_items))."""
        rows, columns = self._places(items, self.items), self._places(column_items, self.column_items)
        return np.maximum(self._left[rows] @ self._right[columns].T, 0.0)

    def rows(self, items: Any) -> Floats:
        """Whole rows of the named items, (len(items), number of column items)."""
        return np.maximum(self._left[self._places(items, self.items)] @ self._right.T, 0.0)

    def probability(self, item: Any, column_item: Any) -> Any:
        """Probability of one pair, or of pairs given as two lists of equal length; one item may meet a list."""
        if np.ndim(item) == 0 and np.ndim(column_item) == 0:
            return float(self.block([item], [column_item])[0, 0])
        rows, columns = self._places(item, self.items), self._places(column_item, self.column_items)
        if len(rows) != len(columns) and 1 not in (len(rows), len(columns)):
            raise DataError(f"{len(rows)} row and {len(columns)} column items make no pairs; give as many of both")
        return np.maximum(np.einsum("nk,nk->n", self._left[rows], self._right[columns]), 0.0)

    def conditional(self, items: Any) -> Floats:
        """P(column item | row item) of the named items, rows sum to one; an item of probability zero gets P(column)."""
        rows = self.rows(items)
        sums = rows.sum(axis=1, keepdims=True)
        return np.where(sums > 0, rows / np.where(sums > 0, sums, 1.0), self._factored.column_marginal)

    def lift(self, items: Any, column_items: Any) -> Floats:
        """B_ij / (ρ_i ρ'_j): how much more often than by chance; 1 where an item has no probability."""
        rows, columns = self._places(items, self.items), self._places(column_items, self.column_items)
        chance = np.outer(self._factored.marginal[rows], self._factored.column_marginal[columns])
        return np.where(chance > 0, self.block(items, column_items) / np.where(chance > 0, chance, 1.0), 1.0)

    def toarray(self) -> Floats:
        """The whole matrix; at 50,000 items it takes 20 GB."""
        return np.maximum(self._left @ self._right.T, 0.0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.toarray() if dtype is None else self.toarray().astype(dtype)

    def _places(self, items: Any, names: Names) -> NDArray[np.intp]:
        asked = np.atleast_1d(np.asarray(items, object if _has_words(items) else None))
        if not len(asked):
            return np.empty(0, np.intp)
        found = match(asked, names, "item").astype(np.intp)
        if (found < 0).any():
            unknown = asked[int((found < 0).argmax())]
            raise DataError(f"there is no item {unknown!r} among the {len(names)} items of the fit; look at items_")
        return found


def _has_words(items: Any) -> bool:
    first = items if isinstance(items, str) else next(iter(items), None) if np.ndim(items) else items
    return isinstance(first, str)
