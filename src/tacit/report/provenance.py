"""Where a result comes from: version, command, seed, input files by their SHA-256, seconds per stage."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from tacit import __version__
from tacit.report.page import Context

MOST_BYTES = 2**33
"""Files above this are not read a second time for their hash: at about 1 GB a second it would be noticed."""
_BLOCK = 2**22


def file_hashes(paths: Iterable[str | None]) -> dict[str, str]:
    """SHA-256 of every file by its path; what cannot be read twice says why it has none."""
    return {path: _hash(path) for path in paths if path}


def _hash(path: str) -> str:
    if path == "-":
        return "standard input, not hashed"
    if "://" in path:
        return "remote, not hashed"
    if not os.path.isfile(path):
        return "several files, not hashed"
    if os.path.getsize(path) > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**30} GB, not hashed"
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def provenance_of(context: Context) -> list[tuple[str, str]]:
    """The last part of every page, line by line."""
    lines = [("Tacit", str(context.summary.get("version", __version__)))]
    if context.command:
        lines.append(("Command", context.command))
    if context.seed is not None:
        lines.append(("Seed", str(context.seed)))
    lines += [(f"SHA-256 of {name}", digest) for name, digest in context.files.items()]
    if context.seconds:
        told = ", ".join(f"{stage} {value:.2f}" for stage, value in context.seconds.items())
        lines.append(("Seconds", f"{sum(context.seconds.values()):.2f} in all: {told}"))
    return lines
