"""Latentfit: hidden discrete causes from the co-occurrences they leave behind.

>>> import latentfit
>>> model = latentfit.DawidSkene()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Admixture",
    "BernoulliMixture",
    "BinaryFactors",
    "BlockModel",
    "CategoricalHMM",
    "DawidSkene",
    "LatentClass",
    "LatentClassClassifier",
    "LatentClassImputer",
    "MixtureFractions",
    "PairMatrix",
    "TopicModel",
    "__version__",
    "load",
    "scan",
]
_WHERE = {**dict.fromkeys(__all__, "latentfit.models"), "scan": "latentfit.io.scan"}
"""Public names and their homes: imported when first used, so that ``import latentfit`` stays light."""
_MODULES = ("datasets", "diagnose", "errors", "plan", "plot", "query", "simulate", "testing")
"""Public modules, likewise."""

if TYPE_CHECKING:
    from latentfit.io.scan import scan
    from latentfit.models import (
        Admixture,
        BernoulliMixture,
        BinaryFactors,
        BlockModel,
        CategoricalHMM,
        DawidSkene,
        LatentClass,
        LatentClassClassifier,
        LatentClassImputer,
        MixtureFractions,
        PairMatrix,
        TopicModel,
        load,
    )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"latentfit.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'latentfit' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
