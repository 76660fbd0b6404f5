"""The checkpoint of a fit of hidden switches: where its climb stands, and the first climb's answer during the second.

A fit climbs once, and once more where one switch is a baseline (`factors/em/baseline.py`); each climb is one in the
plane of the start and one beyond it. What comes before (moments, the search, the race) is made again when a fit goes
on: it takes a few passes and gives the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentfit.core.checkpoint import KeptFile
from latentfit.core.em import Begun, Refined
from latentfit.core.model_file import ModelFile
from latentfit.core.tensor.whitened import Spectrum
from latentfit.factors.em.steps import SwitchParams, SwitchPlace, SwitchSums

Arrays = dict[str, Any]
Climbed = Refined[SwitchParams, SwitchSums]


@dataclass(frozen=True)
class SavedSwitches:
    """Where a stopped fit stood, and what its first climb had found if that was over."""

    place: SwitchPlace
    first: Climbed | None


class SwitchCheckpoint(KeptFile):
    """The file of one fit of switches."""

    @property
    def saved(self) -> SavedSwitches | None:
        return None if self.file is None else _saved(self.file)

    def keeping(self, first: Climbed | None = None) -> Callable[[SwitchPlace], None]:
        """What a climb calls after every iteration; `first` is the climb before it."""

        def keep(place: SwitchPlace) -> None:
            if not self.due:
                return
            begun, before = place.begun, place.before
            arrays = _arrays(begun.params, "") | {"path": np.array(begun.path)}
            facts: dict[str, Any] = {"n_iter": begun.n_iter, "before": None, "first": None}
            if before is not None:
                arrays["before_path"], facts["before"] = np.array(before[1]), before[0]
            if first is not None:
                arrays |= _arrays(first.params, "first_") | {"first_path": np.array(first.path)}
                facts["first"] = [first.n_iter, first.converged, first.log_likelihood, first.objective]
            self.write(arrays, facts)

        return keep


def matrix_key(seen: Spectrum, names: tuple[str | int, ...]) -> str:
    """Tells matrices apart by their features and their first two moments."""
    known = hashlib.sha256(repr((seen.n, names)).encode())
    known.update(seen.mean.tobytes())
    known.update(seen.values.tobytes())
    return known.hexdigest()


def _arrays(params: SwitchParams, prefix: str) -> Arrays:
    arrays = {"W": np.ascontiguousarray(params.W), "log_prior": params.log_prior, "sigma2": np.array([params.sigma2])}
    arrays |= {} if params.centres is None else {"centres": params.centres}
    return {prefix + name: array for name, array in arrays.items()}


def _params(arrays: Arrays, prefix: str) -> SwitchParams:
    sigma2 = float(arrays[prefix + "sigma2"][0])
    return SwitchParams(arrays[prefix + "W"], arrays[prefix + "log_prior"], sigma2, arrays.get(prefix + "centres"))


def _saved(file: ModelFile) -> SavedSwitches:
    arrays, facts = file.arrays, file.metadata
    begun = Begun(_params(arrays, ""), int(facts["n_iter"]), arrays["path"].tolist())
    before = None if facts["before"] is None else (int(facts["before"]), arrays["before_path"].tolist())
    first = None
    if facts["first"] is not None:
        n_iter, converged, log_likelihood, objective = facts["first"]
        params, path = _params(arrays, "first_"), arrays["first_path"].tolist()
        sums = SwitchSums(log_likelihood, np.empty(0), np.empty((0, 0)), None)  # nobody asks for them any more
        first = Refined(params, sums, objective, log_likelihood, n_iter, converged, path)
    return SavedSwitches(SwitchPlace(begun, before), first)
