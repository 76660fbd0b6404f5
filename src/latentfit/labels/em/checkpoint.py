"""Where a crowd's race of starts stands, as its checkpoint keeps it.

Starts are made again when a fit goes on: they take a pass and give the same bits. Climbs that had ended are kept by
their parameters alone, because one pass gives their statistics again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.checkpoint import KeptFile
from latentfit.core.em import Begun, Refined
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Entrant, Stood
from latentfit.engine.memory import Sums
from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.data.sampling import task_hashes


def labels_key(data: CodedLabels) -> str:
    """Tells labels apart by what `identity` knows, and by which of them stand in one task."""
    return f"{data.identity()} {int(task_hashes(data, 0).sum()):x}"  # the sum wraps around, exactly


def race_keeper(kept: KeptFile) -> Callable[[Stood[Mixture, Sums]], None]:
    """What the race calls after every iteration."""

    def keep(at: Stood[Mixture, Sums]) -> None:
        if not kept.due:
            return
        arrays: dict[str, NDArray[Any]] = {}
        facts: dict[str, Any] = {"running": at.name, "n_iter": {at.name: at.begun.n_iter}, "ended": {}}
        climbs = {at.name: (at.begun.params, at.begun.path)}
        for name, one in at.done.items():
            climbs[name] = one.params, one.path
            facts["n_iter"][name], facts["ended"][name] = one.n_iter, one.converged
        for name, (params, path) in climbs.items():
            arrays |= {f"{name} weights": params.weights, f"{name} table": params.table}
            arrays |= {f"{name} first": params.first, f"{name} path": np.array(path)}
        kept.write(arrays, facts)

    return keep


def race_stood(kept: KeptFile, entrants: Sequence[Entrant[Mixture, Sums]]) -> Stood[Mixture, Sums] | None:
    """Where the stopped race stood; None when there is nothing to go on from."""
    if kept.file is None:
        return None
    facts, done = kept.file.metadata, {}
    begun = {name: _begun(kept.file.arrays, name, int(n_iter)) for name, n_iter in facts["n_iter"].items()}
    for entrant in entrants:
        if entrant.name in facts["ended"]:
            at, converged = begun[entrant.name], bool(facts["ended"][entrant.name])
            sums = entrant.steps.expect(at.params)
            value, likelihood = entrant.steps.objective(at.params, sums), entrant.steps.log_likelihood(sums)
            done[entrant.name] = Refined(at.params, sums, value, likelihood, at.n_iter, converged, at.path)
    return Stood(facts["running"], begun[facts["running"]], done)


def _begun(arrays: dict[str, NDArray[Any]], name: str, n_iter: int) -> Begun[Mixture]:
    weights, table, first, path = (arrays[f"{name} {part}"] for part in ("weights", "table", "first", "path"))
    return Begun(Mixture(weights, table, first), n_iter, path.tolist())
