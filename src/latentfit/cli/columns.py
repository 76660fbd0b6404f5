"""Names of columns: which role each plays in the data of a command, or of a saved model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from latentfit.core.registry import ESTIMATORS

F = TypeVar("F", bound=Callable[..., Any])

ROLES = {
    "id": "Column that names the rows of a table.",
    "task": "Column that holds the task.",
    "worker": "Column that holds the worker.",
    "label": "Column that holds the label.",
    "document": "Column that holds the document.",
    "word": "Column that holds the word.",
    "count": "Column that holds the count.",
    "sequence": "Column that says which sequence a row belongs to.",
    "symbol": "Column that holds the symbols.",
    "time": "Column with the time of every row, by which the steps of a sequence are sorted.",
    "source": "Column with one end of every edge.",
    "target": "Column with the other end.",
    "weight": "Column with weights; only their ratios matter.",
}
"""What a column can be to some command, as its help says it."""


def column_options(*roles: str) -> Callable[[F], F]:
    """--task, --word …: names of the columns when they are unusual."""

    def add(command: F) -> F:
        for role in reversed(roles):
            command = click.option(f"--{role}", metavar="COLUMN", help=ROLES[role])(command)
        return command

    return add


def chosen_columns(**roles: str | None) -> dict[str, str]:
    """The columns that were named, by the roles they play; a column may have no name, and then '' names it."""
    return {role: name for role, name in roles.items() if name is not None}


def columns_of_model(kind: str, model_file: str, roles: dict[str, str | None]) -> dict[str, str]:
    """The columns that were named, when the data of this `kind` of model have them; else a sentence."""
    from latentfit.core.errors import DataError

    chosen, there = chosen_columns(**roles), ESTIMATORS[kind].roles
    for role in chosen:
        if role not in there:
            has = ", ".join(f"--{one}" for one in there) or "nothing: its columns keep their names"
            raise DataError(
                f"{model_file} holds a {kind}, whose data have no {role}; leave --{role} out (what can be named: {has})"
            )
    return chosen
