"""scikit-learn's checks and our own on every estimator; every public name is there and documented."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tacit
import tacit.models
from tacit.models import REGISTRY, DawidSkene
from tacit.simulate import crowd
from tacit.testing import CHECKS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DATA = {"DawidSkene": lambda: crowd(80, 9, 3, labels_per_task=5, random_state=1).labels}


@parametrize_with_checks([DawidSkene()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_own_contract(name, check):
    check(getattr(tacit.models, name)(), DATA[name]())


def test_public_names_are_exported_and_documented():
    for name in tacit.__all__:
        value = getattr(tacit, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{name} has no docstring"
    assert set(tacit.__all__) <= set(dir(tacit))
    with pytest.raises(AttributeError, match="has no attribute 'Dawid'"):
        _ = tacit.Dawid


def test_import_is_light():
    """`import tacit` pulls in none of the heavy dependencies."""
    code = "import tacit, sys; print([m for m in ('numpy', 'sklearn', 'pyarrow', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def modules_with_examples():
    for module in pkgutil.walk_packages(tacit.__path__, "tacit."):
        if not any(part in module.name for part in (".cli", ".reproduce", ".libkernels")):
            yield module.name


@pytest.mark.parametrize("name", ["tacit", *modules_with_examples()])
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=options).failed == 0
