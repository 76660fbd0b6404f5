"""Latentfit: discrete latent variable models by the method of moments and EM.

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
    "DataError",
    "DataWarning",
    "DawidSkene",
    "FileFormatError",
    "IdentifiabilityWarning",
    "LatentClass",
    "LatentClassClassifier",
    "LatentClassImputer",
    "LatentfitError",
    "MixtureFractions",
    "ModelFileError",
    "NotIdentifiableError",
    "PairMatrix",
    "TopicModel",
    "__version__",
    "load",
    "scan",
]
_ERRORS = (
    "DataError",
    "DataWarning",
    "FileFormatError",
    "IdentifiabilityWarning",
    "LatentfitError",
    "ModelFileError",
    "NotIdentifiableError",
)
_FUNCTIONS = {"load": "latentfit.core.registry", "scan": "latentfit.io.scan"}
_MODULES = ("simulate", "testing")
"""Public modules, imported when first used, as all public names are: ``import latentfit`` stays light."""

if TYPE_CHECKING:
    from latentfit.admixture.estimator import Admixture
    from latentfit.clusters.estimator import BernoulliMixture
    from latentfit.communities.estimator import BlockModel
    from latentfit.core.errors import (
        DataError,
        DataWarning,
        FileFormatError,
        IdentifiabilityWarning,
        LatentfitError,
        ModelFileError,
        NotIdentifiableError,
    )
    from latentfit.core.registry import load
    from latentfit.factors.estimator import BinaryFactors
    from latentfit.fractions.estimator import MixtureFractions
    from latentfit.hmm.estimator import CategoricalHMM
    from latentfit.io.scan import scan
    from latentfit.labels.estimator.dawid_skene import DawidSkene
    from latentfit.pairs.estimator import PairMatrix
    from latentfit.tables.estimator.classifier import LatentClassClassifier
    from latentfit.tables.estimator.latent_class import LatentClass, LatentClassImputer
    from latentfit.topics.estimator import TopicModel


def __getattr__(name: str) -> Any:
    from latentfit.core.registry import ESTIMATORS, estimator_class

    if name in _MODULES:
        return import_module(f"latentfit.{name}")
    if name in ESTIMATORS:
        return estimator_class(name)
    if name in _ERRORS:
        return getattr(import_module("latentfit.core.errors"), name)
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'latentfit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
