"""The estimators: each reads top to bottom like the pipe. The registry leads from a model file's name to its class."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit import __version__
from tacit.errors import ModelFileError
from tacit.io.model_file import read_model

if TYPE_CHECKING:
    from tacit.models.admixture import Admixture
    from tacit.models.base import LatentModel
    from tacit.models.bernoulli_mixture import BernoulliMixture
    from tacit.models.binary_factors import BinaryFactors
    from tacit.models.block_model import BlockModel
    from tacit.models.categorical_hmm import CategoricalHMM
    from tacit.models.dawid_skene import DawidSkene
    from tacit.models.latent_class import LatentClass
    from tacit.models.latent_class_classifier import LatentClassClassifier
    from tacit.models.latent_class_imputer import LatentClassImputer
    from tacit.models.mixture_fractions import MixtureFractions
    from tacit.models.pair_matrix import PairMatrix
    from tacit.models.topic_model import TopicModel

REGISTRY = {
    "Admixture": "tacit.models.admixture",
    "BernoulliMixture": "tacit.models.bernoulli_mixture",
    "BinaryFactors": "tacit.models.binary_factors",
    "BlockModel": "tacit.models.block_model",
    "CategoricalHMM": "tacit.models.categorical_hmm",
    "DawidSkene": "tacit.models.dawid_skene",
    "LatentClass": "tacit.models.latent_class",
    "LatentClassClassifier": "tacit.models.latent_class_classifier",
    "LatentClassImputer": "tacit.models.latent_class_imputer",
    "MixtureFractions": "tacit.models.mixture_fractions",
    "PairMatrix": "tacit.models.pair_matrix",
    "TopicModel": "tacit.models.topic_model",
}
"""Estimators and their modules, imported when asked for: scikit-learn takes its time."""

__all__ = [
    "REGISTRY",
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
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in REGISTRY:
        raise AttributeError(f"module 'tacit.models' has no attribute {name!r}")
    return getattr(import_module(REGISTRY[name]), name)


def load(path: str | os.PathLike[str]) -> LatentModel:
    """Read a model file; damaged or foreign files raise `ModelFileError`.

    Examples
    --------
    >>> import tempfile
    >>> from tacit import LatentClass, load
    >>> model = LatentClass(2).fit([["grey", "rain"], ["blue", "sun"]] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.tacit")
    ...     again = load(f"{folder}/model.tacit")
    >>> type(again).__name__, bool((again.weights_ == model.weights_).all())
    ('LatentClass', True)
    """
    file = read_model(path)
    if file.name not in REGISTRY:
        raise ModelFileError(
            f"{os.fspath(path)} holds a {file.name!r} model, which tacit {__version__} does not know; "
            f"known are {', '.join(sorted(REGISTRY))}: update tacit"
        )
    model: LatentModel = __getattr__(file.name)._from_file(file, os.fspath(path))
    return model
