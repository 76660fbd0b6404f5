"""The joint distribution of a table's columns, as an object to ask: never formed, always exact under the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.data.names import match
from tacit.data.table import Column
from tacit.engine.mixture import Floats, Mixture
from tacit.errors import DataError


@dataclass(frozen=True)
class JointPMF:
    """P(columns) = Σ_f weights[f] Π_n table. All queries cost classes × categories, for any number of columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from tacit import LatentClass
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 20, "rain": ["yes", "no"] * 20})
    >>> joint = LatentClass(2).fit(frame).joint_
    >>> joint.prob({"rain": "yes"}, given={"sky": "grey"}) > 0.9
    True
    """

    mixture: Mixture
    columns: tuple[Column, ...]

    def prob(self, event: Mapping[Any, Any], given: Mapping[Any, Any] | None = None) -> float:
        """P(event | given); both map columns to categories."""
        beliefs = self._beliefs(given or {})
        return float(beliefs @ self._likelihood(event))

    def marginal(self, columns: Sequence[Any] | Any, given: Mapping[Any, Any] | None = None) -> Any:
        """Distribution of one or more columns: an array with one axis per column."""
        names = list(columns) if isinstance(columns, list | tuple) else [columns]
        beliefs = self._beliefs(given or {})
        out = beliefs[(slice(None), *[None] * len(names))]
        for axis, name in enumerate(names):
            profile = self._profile(name)  # (F, categories)
            shape = [1] * len(names)
            shape[axis] = profile.shape[1]
            out = out * profile.reshape(len(beliefs), *shape)
        return out.sum(axis=0)

    def condition(self, given: Mapping[Any, Any]) -> JointPMF:
        """The joint of the other columns, given some."""
        at = [self._index(name) for name in given]
        keep = [n for n in range(len(self.columns)) if n not in at]
        first, rows = [0], []
        for n in keep:
            rows.append(self.mixture.table[self.mixture.first[n] : self.mixture.first[n + 1]])
            first.append(first[-1] + len(rows[-1]))
        table = np.concatenate(rows) if rows else np.empty((0, self.mixture.n_classes))
        mixture = Mixture(self._beliefs(given), table, np.array(first, np.int32))
        return JointPMF(mixture, tuple(self.columns[n] for n in keep))

    def expect(self, column: Any, given: Mapping[Any, Any] | None = None) -> float:
        """Expected value of a column whose categories are numbers: the MMSE prediction."""
        values = self.columns[self._index(column)].values
        if values is None:
            raise DataError(f"column {column!r} holds words, which have no expectation; ask for its marginal")
        return float(self.marginal(column, given) @ values)

    def entropy(self, columns: Sequence[Any] | Any, given: Mapping[Any, Any] | None = None) -> float:
        """Entropy in nats of the marginal of a few columns."""
        p = np.asarray(self.marginal(columns, given)).reshape(-1)
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    def mutual_information(self, left: Any, right: Any, given: Mapping[Any, Any] | None = None) -> float:
        """Nats that one column tells about another."""
        joint = self.entropy([left, right], given)
        return max(self.entropy(left, given) + self.entropy(right, given) - joint, 0.0)

    def sample(self, n: int, random_state: int | None = None) -> pa.Table:
        """Rows drawn from the joint."""
        rng = np.random.default_rng(0 if random_state is None else random_state)
        classes = rng.choice(self.mixture.n_classes, size=n, p=self.mixture.weights)
        out = {}
        for index, column in enumerate(self.columns):
            profile = self.mixture.table[self.mixture.first[index] : self.mixture.first[index + 1]]
            below = np.cumsum(profile, axis=0).T[classes]
            codes = np.minimum((rng.random(n)[:, None] > below).sum(axis=1), column.size - 1)
            out[str(column.name)] = pa.array(column.categories[codes].tolist())
        return pa.table(out)

    def _index(self, name: Any) -> int:
        for index, column in enumerate(self.columns):
            if column.name == name:
                return index
        raise DataError(f"there is no column {name!r}; the columns are {[c.name for c in self.columns[:12]]}")

    def _profile(self, name: Any) -> Floats:
        n = self._index(name)
        return np.asarray(self.mixture.table[self.mixture.first[n] : self.mixture.first[n + 1]].T)

    def _likelihood(self, event: Mapping[Any, Any]) -> Floats:
        """P(event | class) (F,)."""
        out = np.ones(self.mixture.n_classes)
        for name, value in event.items():
            column = self.columns[self._index(name)]
            code = int(match([value], column.categories, f"{name!r}")[0])
            if code < 0:
                known = column.categories[:12].tolist()
                raise DataError(f"column {name!r} has no category {value!r}; its categories are {known}")
            out = out * self._profile(name)[:, code]
        return out

    def _beliefs(self, given: Mapping[Any, Any]) -> Floats:
        """P(class | given) (F,)."""
        joint = self.mixture.weights * self._likelihood(given)
        total = joint.sum()
        return joint / total if total > 0 else np.full(len(joint), 1 / len(joint))
