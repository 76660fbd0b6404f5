"""The estimators: each reads top to bottom like the pipe. `REGISTRY` maps a model file's name to its class."""

from __future__ import annotations

from tacit.models.base import load, register
from tacit.models.dawid_skene import DawidSkene

REGISTRY = register(DawidSkene)

__all__ = ["REGISTRY", "DawidSkene", "load"]
