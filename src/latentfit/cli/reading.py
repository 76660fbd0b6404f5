"""How files are read, whatever the command: which columns, what means missing, in which encoding."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from latentfit.cli.console import Talk

F = TypeVar("F", bound=Callable[..., Any])

ROW_NAMES = ("", "rownames", "row.names", "unnamed: 0")
"""What R and pandas call the first column when they write row names along, in small letters."""

OBSERVED = ("label", "count", "symbol", "weight")
"""Roles of columns that hold what was observed; all others name something."""


@dataclass(frozen=True)
class Reading:
    """What --columns, --drop, --missing and --encoding say; None or empty where they were not given."""

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    encoding: str | None = None

    def rules(self, *also: str | None, aliases: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
        """Arguments of `read_columns` and `scan`.

        `also` are columns that other options name: they are read too, and nothing in them means missing, nor in those
        that by one of the `aliases` of a role name rows.
        """
        named = [name for name in also if name is not None]
        columns = None if self.columns is None else tuple(dict.fromkeys([*self.columns, *named]))
        ids = [name for role, names in (aliases or {}).items() if role not in OBSERVED for name in names]
        known = (*ROW_NAMES, *(name.strip().lower() for name in named), *ids)
        rules = {"columns": columns, "drop": self.drop, "missing": self.missing, "encoding": self.encoding}
        return rules | {"names": tuple(dict.fromkeys(known))}

    @property
    def beside(self) -> Reading:
        """The same for a file beside the data, whose columns are its own: answers, workers, references."""
        return replace(self, columns=None, drop=())

    def row_names(self, names: list[str], id_: str | None, talk: Talk | None) -> str | None:
        """The column that names the rows: the one that was named, or a first one that another program wrote along."""
        first = names[0] if names else "-"
        if id_ is not None or first.lower() not in ROW_NAMES or len(names) < 2 or first in (self.columns or ()):
            return id_
        if talk is not None:
            called = "has no name and" if not first else f"is called {first!r} and"
            talk.say(
                f"note: the first column {called} is taken for the names of the rows; give --id COLUMN if another "
                "column names them"
            )
        return first


AS_IT_IS = Reading()
"""A file with all its columns, empty cells alone missing."""


def _listed(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Values between commas, the option given once or several times; quotes protect a comma."""
    return tuple(value.strip() for row in csv.reader(given, skipinitialspace=True) for value in row or [""])


def table_options(command: F) -> F:
    """--columns, --drop, --missing, --encoding of every command that reads tables, given on as one `reading`."""

    @wraps(command)
    def run(
        *args: Any, columns: tuple[str, ...], drop: tuple[str, ...], missing: tuple[str, ...], encoding: str | None,
        **more: Any,
    ) -> Any:  # fmt: skip
        return command(*args, reading=Reading(columns or None, drop, missing, encoding), **more)

    for option in reversed(
        [
            click.option("--columns", multiple=True, callback=_listed, metavar="A,B,…",
                         help="Read these columns only (and those that other options name)."),
            click.option("--drop", multiple=True, callback=_listed, metavar="A,B,…", help="Leave these columns out."),
            click.option("--missing", multiple=True, callback=_listed, metavar="98,NA,…",
                         help="Values that mean: not known, in every column; empty cells always do."),
            click.option("--encoding", metavar="NAME", help="Encoding of text files; UTF-8 or, failing that, cp1252."),
        ]
    ):  # fmt: skip
        run = option(run)
    return run  # type: ignore[return-value]


max_iter_option = click.option(
    "--max-iter", type=click.IntRange(min=0), metavar="N", help="Most iterations of the fit; 0: the start alone."
)


def at_most(max_iter: int | None) -> dict[str, Any]:
    """The setting of an estimator, which has its own number where none was given."""
    return {} if max_iter is None else {"max_iter": max_iter}
