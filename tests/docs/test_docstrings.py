"""Docstrings of all public classes, methods and functions follow numpydoc: summary, parameters, returns, attributes."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import latentfit
from latentfit.core.registry import ESTIMATORS, FAMILIES, estimator_class
from tests.docs.test_reference import public_names, thing_of

CODES = (
    "GL08",  # no docstring
    "SS01",  # no summary
    "SS03",  # summary without a period
    "PR01",  # parameters not documented
    "PR02",  # documented, but not in the signature
    "PR03",  # wrong order
    "PR04",  # no type
    "PR07",  # no description
    "RT01",  # no Returns section
    "YD01",  # no Yields section
)
"""What numpydoc's validator must not find; its other codes are matters of style (capital letters, blank lines)."""
OF_SCIKIT_LEARN = {"n_features_in_", "feature_names_in_"}
"""Attributes that scikit-learn sets and documents."""


@cache
def public_objects() -> dict[str, Any]:
    """Public classes and functions by name (of modules `theory` the functions), and the methods of these classes."""
    names = {*public_names(), "latentfit.testing.check_model"}
    modules = [f"latentfit.{family.name}.theory" for family in FAMILIES if find_spec(f"latentfit.{family.name}.theory")]
    for module in modules:
        defined = vars(importlib.import_module(module)).items()
        names |= {
            f"{module}.{name}"
            for name, thing in defined
            if inspect.isfunction(thing) and thing.__module__ == module and not name.startswith("_")
        }
    found = {}
    for name in sorted(names):
        thing = thing_of(name)
        place = f"{thing.__module__}.{thing.__qualname__}"
        found[place] = thing
        if inspect.isclass(thing) and thing.__module__ != "latentfit.core.errors":
            found |= dict(methods_of(thing))
    return found


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods of a class, inherited ones under the class of this package that defines them."""
    for owner in kind.__mro__:
        if owner.__module__.startswith("latentfit"):
            for name, member in vars(owner).items():
                function = getattr(member, "__func__", member)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield f"{owner.__module__}.{owner.__qualname__}.{name}", function


@pytest.mark.parametrize("name", sorted(public_objects()))
def test_the_docstring_of_a_public_name_is_complete(name):
    thing, codes = public_objects()[name], set(CODES)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        codes -= {"PR01"}  # a message, as every exception
    elif inspect.isclass(thing) and (is_dataclass(thing) or issubclass(thing, tuple)):
        codes -= {"PR01"}  # fields are parameters and attributes at once: either section will do
        fields = set(getattr(thing, "_fields", ())) or {field.name for field in thing.__dataclass_fields__.values()}
        missing = {field for field in fields if not field.startswith("_")} - documented(
            thing, "Attributes", "Parameters"
        )
        assert not missing, f"{name}: fields {sorted(missing)} not documented"
    errors = [f"{code} {text}" for code, text in validate(name)["errors"] if code in codes]
    assert not errors, f"{name}: " + "; ".join(errors)


def documented(thing: Any, *sections: str) -> set[str]:
    """Names that sections of a docstring hold; one entry may name several."""
    parsed = NumpyDocString(inspect.cleandoc(thing.__doc__ or ""))
    return {name.strip() for section in sections for entry in parsed[section] for name in entry.name.split(",")}


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_the_fitted_attributes_of_an_estimator_are_documented(name):
    kind = estimator_class(name)
    missing = fitted_attributes(kind) - documented(kind, "Attributes") - OF_SCIKIT_LEARN
    assert not missing, f"{name}: {', '.join(sorted(missing))} not in the section Attributes"


def fitted_attributes(kind: type) -> set[str]:
    """Attributes ending in "_" that the classes of this package set or compute."""
    found = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("latentfit"):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(owner)))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef) and any("property" in ast.unparse(d) for d in node.decorator_list):
                found.add(node.name)
    return {name for name in found if re.fullmatch(r"[a-z]\w*[a-z]_", name)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize(
    "name", sorted(name for name in latentfit.__all__ if inspect.isclass(getattr(latentfit, name)))
)
def test_a_public_class_has_examples(name):
    assert ">>>" in (getattr(latentfit, name).__doc__ or ""), f"{name} has no example"
