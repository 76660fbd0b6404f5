"""Checkpoints: the parameters of a long EM run are written to a file, so that the fit can be resumed.

The file is written atomically, in the format of a model file. It records the data, settings and version of its fit;
resuming with any other would change the result, so it is refused with the reason.
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
"""Seconds between two writes: a write costs milliseconds, an iteration over a long table seconds."""
SPARING = 10.0
"""Writing large parameters takes at most one part in so many of the time."""


class CheckpointFile:
    """The checkpoint file of one fit; `file` is the content that an interrupted fit left, None if there is none."""

    def __init__(self, path: str | os.PathLike[str], data: str, settings: dict[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        self.belongs = {"version": __version__, "settings": json.dumps(settings, sort_keys=True), "data": data}
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} of the checkpoint does not exist; create it first")
        existing = self._existing(resume) if self.path.exists() else None
        self.file = self._check_same_fit(existing) if resume and existing is not None else None
        self._written, self._took = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether the checkpoint is due, given its age and the time that a write takes."""
        return time.monotonic() - self._written >= max(EVERY, SPARING * self._took)

    def write(self, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Write the checkpoint."""
        begin = time.monotonic()
        write_model(self.path, NAME, arrays, {"belongs": self.belongs, **metadata})
        self._written = time.monotonic()
        self._took = self._written - begin

    def done(self) -> None:
        """Remove the checkpoint: the fit has ended."""
        self.path.unlink(missing_ok=True)

    def _existing(self, resume: bool) -> ModelFile:
        """The checkpoint in the file; any other file is refused, because it would be overwritten and removed."""
        try:
            file = read_model(self.path)
        except ModelFileError:
            if resume:
                raise
            raise DataError(f"{self.path} exists and is not a checkpoint; name another file, or remove it") from None
        if file.name != NAME:
            raise DataError(f"{self.path} holds a {file.name}, not a checkpoint; name another file")
        return file

    def _check_same_fit(self, file: ModelFile) -> ModelFile:
        recorded = file.metadata["belongs"]
        for what in ("version", "settings", "data"):
            if recorded.get(what) != self.belongs[what]:
                raise DataError(
                    f"{self.path} belongs to a fit of other {what} and cannot be resumed; fit without resuming, or "
                    "name another checkpoint"
                )
        return file
