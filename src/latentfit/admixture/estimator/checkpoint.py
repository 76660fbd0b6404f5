"""The checkpoint of a fit of ancestry: the number of populations, the start that won its race, where the climb stands.

A fit that goes on makes neither the search for a number nor the starts again: what they decided is in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latentfit.admixture.data.stored import AnyGenotypes
from latentfit.admixture.em.fit import AncestryPlace
from latentfit.admixture.em.steps import Ancestry
from latentfit.admixture.select import NumberPath
from latentfit.core.checkpoint import KeptFile
from latentfit.core.em import Begun
from latentfit.core.file_parts import plain
from latentfit.core.model_file import ModelFile


@dataclass(frozen=True)
class SavedAncestry:
    """Where a stopped fit stood, and what it had decided before."""

    place: AncestryPlace
    number: int
    path: NumberPath | None


class AncestryCheckpoint(KeptFile):
    """The file of one fit of ancestry."""

    @property
    def saved(self) -> SavedAncestry | None:
        return None if self.file is None else _saved(self.file)

    def keeping(self, number: int, path: NumberPath | None) -> Callable[[AncestryPlace], None]:
        """What the climb calls after every iteration."""

        def keep(place: AncestryPlace) -> None:
            if not self.due:
                return
            params = place.begun.params
            arrays = {
                "shares": np.ascontiguousarray(params.shares),
                "frequencies": np.ascontiguousarray(params.frequencies),
                "spectrum": place.spectrum,
                "path": np.array(place.begun.path),
            }
            cv = None if path is None else plain(vars(path))
            self.write(arrays, {"n_iter": place.begun.n_iter, "start": place.start, "number": number, "cv": cv})

        return keep


def genotypes_key(genotypes: AnyGenotypes) -> str:
    """Tells genotypes apart by their names and by how often each call stands at every SNP."""
    known = hashlib.sha256(repr((genotypes.samples.tolist(), genotypes.snps.tolist())).encode())
    known.update(genotypes.counts.tobytes())
    return known.hexdigest()


def _saved(file: ModelFile) -> SavedAncestry:
    arrays, facts = file.arrays, file.metadata
    params = Ancestry(arrays["shares"], arrays["frequencies"])
    begun = Begun(params, int(facts["n_iter"]), arrays["path"].tolist())
    path = None if facts["cv"] is None else NumberPath(**facts["cv"])
    return SavedAncestry(AncestryPlace(facts["start"], arrays["spectrum"], begun), int(facts["number"]), path)
