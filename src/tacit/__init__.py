"""Tacit: hidden discrete causes from the co-occurrences they leave behind."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")
