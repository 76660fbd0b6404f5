"""The estimators: each reads top to bottom like the pipe. `REGISTRY` maps a model file's name to its class."""

from __future__ import annotations

from tacit.models.base import load, register
from tacit.models.dawid_skene import DawidSkene
from tacit.models.latent_class import LatentClass
from tacit.models.latent_class_classifier import LatentClassClassifier

REGISTRY = register(DawidSkene, LatentClass)

__all__ = ["REGISTRY", "DawidSkene", "LatentClass", "LatentClassClassifier", "load"]
