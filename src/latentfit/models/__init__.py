"""The estimators: each reads top to bottom like the pipe. The registry leads from a model file's name to its class."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from latentfit import __version__
from latentfit.errors import ModelFileError
from latentfit.io.model_file import read_model

if TYPE_CHECKING:
    from latentfit.models.admixture import Admixture
    from latentfit.models.base import LatentModel
    from latentfit.models.bernoulli_mixture import BernoulliMixture
    from latentfit.models.binary_factors import BinaryFactors
    from latentfit.models.block_model import BlockModel
    from latentfit.models.categorical_hmm import CategoricalHMM
    from latentfit.models.dawid_skene import DawidSkene
    from latentfit.models.latent_class import LatentClass
    from latentfit.models.latent_class_classifier import LatentClassClassifier
    from latentfit.models.latent_class_imputer import LatentClassImputer
    from latentfit.models.mixture_fractions import MixtureFractions
    from latentfit.models.pair_matrix import PairMatrix
    from latentfit.models.topic_model import TopicModel

REGISTRY = {
    "Admixture": "latentfit.models.admixture",
    "BernoulliMixture": "latentfit.models.bernoulli_mixture",
    "BinaryFactors": "latentfit.models.binary_factors",
    "BlockModel": "latentfit.models.block_model",
    "CategoricalHMM": "latentfit.models.categorical_hmm",
    "DawidSkene": "latentfit.models.dawid_skene",
    "LatentClass": "latentfit.models.latent_class",
    "LatentClassClassifier": "latentfit.models.latent_class_classifier",
    "LatentClassImputer": "latentfit.models.latent_class_imputer",
    "MixtureFractions": "latentfit.models.mixture_fractions",
    "PairMatrix": "latentfit.models.pair_matrix",
    "TopicModel": "latentfit.models.topic_model",
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
        raise AttributeError(f"module 'latentfit.models' has no attribute {name!r}")
    return getattr(import_module(REGISTRY[name]), name)


def load(path: str | os.PathLike[str]) -> LatentModel:
    """Read a model file; damaged or foreign files raise `ModelFileError`.

    Examples
    --------
    >>> import tempfile
    >>> from latentfit import LatentClass, load
    >>> model = LatentClass(2).fit([["grey", "rain"], ["blue", "sun"]] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.latent")
    ...     again = load(f"{folder}/model.latent")
    >>> type(again).__name__, bool((again.weights_ == model.weights_).all())
    ('LatentClass', True)
    """
    file = read_model(path)
    if file.name not in REGISTRY:
        raise ModelFileError(
            f"{os.fspath(path)} holds a {file.name!r} model, which latentfit {__version__} does not know; "
            f"known are {', '.join(sorted(REGISTRY))}: update latentfit"
        )
    model: LatentModel = __getattr__(file.name)._from_file(file, os.fspath(path))
    return model
