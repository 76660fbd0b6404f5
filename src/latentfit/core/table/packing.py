"""Neighbouring columns packed into one code: fewer lookups for every row, the same sums.

Eight yes/no columns are one code of 256 states, two columns of ten categories with gaps one of 121. A pass over the
rows then reads one row of a wider table for all of them; the kernel spreads the log-table of cells over the states
before the pass, and gathers sums of states into sums of cells after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import PackedColumns

Codes = NDArray[Any]

MOST_STATES = (256, 128, 64, 32, 16, 8, 4)
"""Limits of states per code that are considered; 256 fill a byte."""
PACKED_ROWS = 4_096
"""Rows packed together: walking a column of so few stays in the cache."""
STATE_COST = 6
"""What a state costs beside a lookup: making its row of the table before a pass and summing it away after."""


@dataclass(frozen=True)
class Packing:
    """How neighbouring columns share a code: which, and how many states each has.

    `first` (groups + 1,) is the first state of every group.
    """

    sizes: NDArray[np.intp]
    states: NDArray[np.intp]  # sizes, and one more where a column has gaps
    groups: tuple[slice, ...]
    first: NDArray[np.int32]

    @cached_property
    def columns(self) -> PackedColumns:
        """The same as the kernels read it."""
        ends = np.array([0, *(group.stop for group in self.groups)], np.int32)
        return PackedColumns(self.sizes.astype(np.int32), self.states.astype(np.int32), ends)

    @property
    def dtype(self) -> Any:
        return np.uint8 if int(np.diff(self.first).max()) <= 256 else np.uint16

    def pack(self, codes: Codes) -> Codes:
        """Codes of columns (rows, N) → codes of groups."""
        packed = np.empty((len(codes), len(self.groups)), self.dtype)
        for begin in range(0, len(codes), PACKED_ROWS):
            some = np.minimum(codes[begin : begin + PACKED_ROWS], self.sizes.astype(np.uint16)).T
            for g, group in enumerate(self.groups):
                mixed = some[group.start].astype(np.uint16)
                for n in range(group.start + 1, group.stop):
                    mixed = mixed * np.uint16(self.states[n]) + some[n]
                packed[begin : begin + PACKED_ROWS, g] = mixed
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
        work = float(n_rows * len(groups) + STATE_COST * sum(int(states[group].prod()) for group in groups))
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
    return np.asarray(codes.max(axis=0, initial=0) >= sizes)


def plan_packing(n_rows: int, first: NDArray[np.int32], gaps: NDArray[np.bool_]) -> Packing | None:
    """How to pack columns of so many rows, or None when packing saves nothing."""
    sizes = np.diff(first).astype(np.intp)
    states = sizes + gaps  # a gap is one state more, and stands for no cell
    groups = plan_groups(n_rows, states)
    if len(groups) == len(sizes):
        return None
    first = np.cumsum([0, *(states[group].prod() for group in groups)]).astype(np.int32)
    return Packing(sizes, states, tuple(groups), first)
