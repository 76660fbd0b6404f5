"""SHA-256 of input files, so that a result says what it was made of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

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
