"""Weights of rows: sampling weights change estimates, never the sample size; frequencies count equal rows.

Sampling weights are known up to a constant: rows of weight 1,000 say no more than rows of weight 1. They are brought to
one scale here, in one place: `w · Σw / Σw²`, so that they add up to Kish's effective number of rows (Σw)² / Σw²
(Kish 1965). Every log-likelihood, criterion, test, pseudo-row and verdict then counts that many rows; equal weights are
no weights at all. Sums are taken of whole numbers (units of 2⁻⁴⁶ of the largest weight), so that neither the order of
the rows nor the blocks they come in matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from latentfit.core.errors import DataError
from latentfit.core.kernels import BLOCK_ROWS, Floats

WeightType = Literal["sampling", "frequency"]
NO_WEIGHT = "all row weights are zero; at least one row must count"
UNITS = 2.0**46  # Units of the largest weight in which weights are added: a block of them fits an int64.
# The least scaled weight: a row far below the others moves nothing, but counts of it must not vanish in roundings.
LEAST = 1e-12
MAX_ROWS = 2.0**53  # Rows that frequencies may add up to: from there on not every count is a float.


@dataclass(frozen=True)
class WeightScale:
    """How the sampling weights of some rows are spread, in units of the largest one: what brings them to one scale."""

    largest: float
    total: float  # Σ w / largest
    squares: float  # Σ (w / largest)²
    n_rows: int

    @property
    def uneven(self) -> bool:
        """Whether weights differ: equal ones say nothing."""
        return not self.total == self.squares == self.n_rows

    @property
    def effective(self) -> float:
        """Kish's effective number of rows."""
        return self.total**2 / self.squares

    @property
    def exponent(self) -> int:
        """The power of two that is taken out of weights before they are added, lest sums overflow."""
        return exponent_of(self.largest)

    @property
    def factor(self) -> float:
        """What weights without that power of two are multiplied by."""
        return self.total / self.squares / float(np.ldexp(self.largest, -self.exponent))

    def scaled(self, weight: Floats) -> Floats:
        """Weights that add up to the effective number of rows."""
        return np.asarray(np.maximum(np.ldexp(weight, -self.exponent) * self.factor, LEAST))

    def joined(self, other: WeightScale) -> WeightScale:
        """The same of the rows of both."""
        largest = max(self.largest, other.largest)
        mine, theirs = self.largest / largest, other.largest / largest
        total = self.total * mine + other.total * theirs
        return WeightScale(
            largest, total, self.squares * mine**2 + other.squares * theirs**2, self.n_rows + other.n_rows
        )

    def against(self, other: WeightScale) -> float:
        """What rows scaled by `other` are multiplied by to be on this scale."""
        return (self.total / self.squares) / (other.total / other.squares) * (other.largest / self.largest)


def unweighted(n_rows: float) -> WeightScale:
    """The scale of rows that count once each."""
    return WeightScale(1.0, float(n_rows), float(n_rows), round(n_rows))


def scale_of(blocks: Iterable[Floats], largest: float) -> WeightScale:
    """The scale of positive weights that come in any blocks, the largest of them known."""
    exponent = exponent_of(largest)
    mantissa = float(np.ldexp(largest, -exponent))
    total = squares = n_rows = 0
    for block in blocks:
        for at in range(0, len(block), BLOCK_ROWS):
            proportion = np.ldexp(block[at : at + BLOCK_ROWS], -exponent) / mantissa
            total += int(np.rint(proportion * UNITS).astype(np.int64).sum())
            squares += int(np.rint(np.square(proportion) * UNITS).astype(np.int64).sum())
        n_rows += len(block)
    return WeightScale(largest, total / UNITS, squares / UNITS, n_rows)


def exponent_of(weight: float) -> int:
    """The power of two just above a weight."""
    return int(np.frexp(weight)[1])


def check_weight(sample_weight: Any, n_rows: int, weight_type: WeightType) -> Floats | None:
    """One number per row, none negative, some above 0; None when there are no weights."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError("the row weights are no numbers; give one number per row") from None
    if len(weight) != n_rows:
        raise DataError(
            f"sample_weight must have {n_rows} weights, one per row, got {len(weight)}; give one weight per row"
        )
    if not check_weights(weight, weight_type).any():
        raise DataError(NO_WEIGHT)
    if weight_type == "frequency":
        check_total(float(weight.sum()))
    return weight


def check_weights(weight: Floats, weight_type: WeightType, before: int = 0) -> Floats:
    """The weights again, if rows can have them; so many rows came `before` these."""
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(
            f"row {before + at + 1} has the weight {weight[at]:g}, which is negative or not finite; give 0 or more"
        )
    if weight_type == "frequency" and (broken := weight != np.round(weight)).any():
        at = int(broken.argmax())
        raise DataError(
            f"row {before + at + 1} has the weight {weight[at]:g}, and frequencies count rows; give whole numbers, or "
            "weight_type='sampling' (--weight-type sampling)"
        )
    return weight


def check_total(total: float) -> None:
    """Refuse frequencies that add up to more rows than can be counted."""
    if total > MAX_ROWS:
        raise DataError(
            f"the frequencies add up to {total:g} rows, more than can be counted; give weight_type='sampling' "
            "(--weight-type sampling) if they are no counts"
        )


def check_type(weight_type: Any) -> None:
    """Refuse an unknown kind of weights."""
    if weight_type not in get_args(WeightType):
        raise DataError(f"weight_type must be 'sampling' or 'frequency', got {weight_type!r}; give one of them")
