"""Where a crowd's race of starts stands, as its checkpoint keeps it.

Starts are made again when a fit goes on: they take a pass and give the same bits. Climbs that had ended are kept by
their parameters alone, because one pass gives their statistics again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.engine.memory import Sums
from tacit.engine.mixture import Mixture
from tacit.refine.em import Refined
from tacit.refine.starts import Entrant, Stood

if TYPE_CHECKING:
    from tacit.models.checkpoint import Checkpoint


def race_keeper(kept: Checkpoint) -> Callable[[Stood[Mixture, Sums]], None]:
    """What the race calls after every iteration."""

    def keep(at: Stood[Mixture, Sums]) -> None:
        ended = {name: {"n_iter": one.n_iter, "converged": one.converged} for name, one in at.done.items()}
        more: dict[str, np.ndarray[Any, Any]] = {}
        for name, one in at.done.items():
            more |= {f"{name} weights": one.params.weights, f"{name} table": one.params.table}
            more[f"{name} path"] = np.array(one.path)
        kept.keep(at.begun, {"running": at.name, "ended": ended}, more)

    return keep


def race_stood(kept: Checkpoint, entrants: Sequence[Entrant[Mixture, Sums]]) -> Stood[Mixture, Sums] | None:
    """Where the stopped race stood; None when there is nothing to go on from."""
    if kept.saved is None:
        return None
    saved, done = kept.saved, {}
    for entrant in entrants:
        facts = saved.decided["ended"].get(entrant.name)
        if facts is None:
            continue
        params = Mixture(saved.arrays[f"{entrant.name} weights"], saved.arrays[f"{entrant.name} table"], kept.first)
        sums = entrant.steps.expect(params)
        done[entrant.name] = Refined(
            params,
            sums,
            entrant.steps.objective(params, sums),
            entrant.steps.log_likelihood(sums),
            int(facts["n_iter"]),
            bool(facts["converged"]),
            saved.arrays[f"{entrant.name} path"].tolist(),
        )
    return Stood(saved.decided["running"], saved.begun, done)
