"""The checkpoint of a fit of one mixture: what was decided before the climb that it keeps, and where that stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentfit.core.checkpoint import KeptFile
from latentfit.core.em import Begun
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.model_file import ModelFile
from latentfit.core.sampling import row_contents, scramble
from latentfit.core.table.stored import AnyTable


@dataclass(frozen=True)
class SavedMixture:
    """Where a stopped fit stood, and what it had decided before."""

    begun: Begun[Mixture]
    decided: dict[str, Any]


class TableCheckpoint(KeptFile):
    """The file of one fit of a mixture."""

    @property
    def saved(self) -> SavedMixture | None:
        return None if self.file is None else _saved(self.file)

    def keeping(self, decided: dict[str, Any]) -> Callable[[Begun[Mixture]], None]:
        """What the climb calls after every iteration."""

        def keep(at: Begun[Mixture]) -> None:
            if self.due:
                arrays = {"weights": at.params.weights, "table": at.params.table, "path": np.array(at.path)}
                arrays["first"] = at.params.first
                self.write(arrays, {"n_iter": at.n_iter, "decided": decided})

        return keep


def table_key(table: AnyTable) -> str:
    """Tells tables apart by their columns' words, how often each occurs, and which occur together in rows."""
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


def _saved(file: ModelFile) -> SavedMixture:
    params = Mixture(file.arrays["weights"], file.arrays["table"], file.arrays["first"])
    begun = Begun(params, int(file.metadata["n_iter"]), file.arrays["path"].tolist())
    return SavedMixture(begun, file.metadata["decided"])
