"""A long fit keeps its parameters in a file after every few passes, so that it can go on after a stop.

The file is written as a model file is: whole or not at all. It says which data, settings and version it belongs to;
a fit that goes on from another's parameters would end with other bits, so it is refused with the reason.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from latentfit import __version__
from latentfit.core.errors import DataError, ModelFileError
from latentfit.core.model_file import ModelFile, read_model, write_model

NAME = "Checkpoint"
EVERY = 5.0
"""Seconds between two writes: a write costs milliseconds, a pass over a long table seconds."""
SPARING = 10.0
"""Where parameters are large, writing them takes a tenth of the time at most."""


class KeptFile:
    """The file of one fit: whose it is, when it was written last; `file` is what a stopped fit left."""

    def __init__(self, path: str | os.PathLike[str], data: str, settings: dict[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        self.belongs = {"version": __version__, "settings": json.dumps(settings, sort_keys=True), "data": data}
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder for {self.path}; create {self.path.parent} first")
        found = self._found(resume) if self.path.exists() else None
        self.file = self._own(found) if resume and found is not None else None
        self._written, self._took = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether the last time is long enough ago, also beside the time that writing takes."""
        return time.monotonic() - self._written >= max(EVERY, SPARING * self._took)

    def write(self, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        begin = time.monotonic()
        write_model(self.path, NAME, arrays, {"belongs": self.belongs, **metadata})
        self._written = time.monotonic()
        self._took = self._written - begin

    def done(self) -> None:
        """The fit has ended: nothing is left to go on from."""
        self.path.unlink(missing_ok=True)

    def _found(self, resume: bool) -> ModelFile:
        """The checkpoint that lies there; any other file is refused, for it would be written over, and be removed."""
        try:
            file = read_model(self.path)
        except ModelFileError:
            if resume:
                raise
            raise DataError(f"{self.path} is there and is no checkpoint; name another file, or remove it") from None
        if file.name != NAME:
            raise DataError(f"{self.path} holds a {file.name}, not a checkpoint; name another file")
        return file

    def _own(self, file: ModelFile) -> ModelFile:
        theirs = file.metadata["belongs"]
        for what in ("version", "settings", "data"):
            if theirs.get(what) != self.belongs[what]:
                raise DataError(
                    f"{self.path} belongs to a fit of other {what}, and going on would mix the two; start again "
                    "without resuming, or name another checkpoint"
                )
        return file
