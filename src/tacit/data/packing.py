"""Neighbouring columns packed into one code: fewer lookups for every row, the same sums.

Eight yes/no columns are one code of 256 states, two columns of ten categories with gaps one of 121. A pass over the
rows then reads one row of a wider table for all of them; what the states stand for (`spread`) turns a log-table of
cells into one of states before the pass, and sums of states into sums of cells after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[Any]

MOST_STATES = (256, 128, 64, 32, 16, 8, 4)
"""Limits of states per code that are considered; 256 fill a byte."""
STATE_COST = 6
"""What a state of one packed column costs beside a lookup: spreading its logarithm before a pass and its sum after."""


@dataclass(frozen=True)
class Packing:
    """How neighbouring columns share a code: which, how many states each has, and what the states stand for.

    `first` (groups + 1,) is the first state of every group, `spread` (states, C) the cells that a state stands for.
    """

    sizes: NDArray[np.intp]
    states: NDArray[np.intp]  # sizes, and one more where a column has gaps
    groups: tuple[slice, ...]
    first: NDArray[np.int32]
    spread: sp.csr_array

    @cached_property
    def gathered(self) -> sp.csr_array:
        """The transpose of `spread`, row by row."""
        return self.spread.T.tocsr()

    @property
    def dtype(self) -> Any:
        return np.uint8 if int(np.diff(self.first).max()) <= 256 else np.uint16

    def pack(self, codes: Codes) -> Codes:
        """Codes of columns (rows, N) → codes of groups."""
        packed = np.empty((len(codes), len(self.groups)), self.dtype)
        for g, group in enumerate(self.groups):
            mixed = np.zeros(len(codes), np.uint16)
            for n in range(group.start, group.stop):
                mixed = mixed * np.uint16(self.states[n]) + np.minimum(codes[:, n], np.uint16(self.sizes[n]))
            packed[:, g] = mixed
        return packed

    def unpack(self, packed: Codes, dtype: Any) -> Codes:
        """Codes of groups → codes of columns, the largest value for a gap."""
        out = np.empty((len(packed), len(self.sizes)), dtype)
        for g, group in enumerate(self.groups):
            left = packed[:, g]
            for n in reversed(range(group.start, group.stop)):
                left, code = np.divmod(left, left.dtype.type(self.states[n])) if n > group.start else (left, left)
                out[:, n] = np.where(code < self.sizes[n], code, np.iinfo(dtype).max)
        return out


def plan_groups(n_rows: int, states: NDArray[np.intp]) -> list[slice]:
    """Runs of neighbouring columns to pack, for the least work of a pass: a matter of sizes alone."""
    singles = [slice(n, n + 1) for n in range(len(states))]
    best, least = singles, float(n_rows * len(states))
    for most in MOST_STATES:
        groups = _runs(states, most)
        packed = sum((group.stop - group.start) * int(states[group].prod()) for group in groups)
        work = float(n_rows * len(groups) + STATE_COST * packed)
        if work < least:
            best, least = groups, work
    return best


def _runs(states: NDArray[np.intp], most: int) -> list[slice]:
    groups: list[slice] = []
    begin, product = 0, 1
    for n, size in enumerate(states.tolist()):
        if n > begin and product * size > most:
            groups.append(slice(begin, n))
            begin, product = n, 1
        product *= size
    return [*groups, slice(begin, len(states))]


def has_gaps(codes: Codes, sizes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which columns of dense codes have a gap."""
    return np.array([bool((codes[:, n] >= size).any()) for n, size in enumerate(sizes)], bool)


def plan_packing(n_rows: int, first: NDArray[np.int32], gaps: NDArray[np.bool_]) -> Packing | None:
    """How to pack columns of so many rows, or None when packing saves nothing."""
    sizes = np.diff(first).astype(np.intp)
    states = sizes + gaps  # a gap is one state more, and stands for no cell
    groups = plan_groups(n_rows, states)
    if len(groups) == len(sizes):
        return None
    totals = [int(states[group].prod()) for group in groups]
    at, cell = [], []
    begin = 0
    for group, total in zip(groups, totals, strict=True):
        left = np.arange(total)
        for n in reversed(range(group.start, group.stop)):
            left, code = np.divmod(left, states[n])
            seen = np.flatnonzero(code < sizes[n])
            at.append(begin + seen)
            cell.append(first[n] + code[seen])
        begin += total
    rows, columns = np.concatenate(at), np.concatenate(cell)
    spread = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(begin, int(first[-1])))
    return Packing(sizes, states, tuple(groups), np.concatenate([[0], np.cumsum(totals)]).astype(np.int32), spread)
