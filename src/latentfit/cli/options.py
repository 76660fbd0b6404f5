"""Options that several commands have, and what they mean."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from latentfit.core.errors import DataError
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from latentfit.cli.console import Terminal

F = TypeVar("F", bound=Callable[..., Any])

TEXT_IN_MEMORY = 3
"""Bytes that a byte of text takes while it is read whole."""
UNZIPPED = 10
"""Bytes of text in a byte of gzip: tables repeat their words, and shrink to a tenth or so."""
CALLS = 4
"""Calls in a byte of a .bed, each of which takes a byte in memory."""
THREADS = click.IntRange(min=1)
HIDDEN = click.IntRange(min=1)
"""How many classes, clusters, topics … there are."""
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def options(*listed: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which the help lists them."""

    def add(command: F) -> F:
        for option in reversed(listed):
            command = option(command)
        return command

    return add


def output_options(default: str, *, report: bool = False, draws: bool = True) -> Callable[[F], F]:
    """--out, --format, --json, --seed, --quiet: every command that writes results has them; what fits, --no-report."""
    seed_help = "The one seed." if draws else "Accepted as everywhere, and not used: nothing is drawn."
    of_fits = (
        click.option("--no-checks", is_flag=True, expose_value=False, callback=_skip_checks,
                     help="Make no checks; the verdict says so."),
        click.option("--no-report", is_flag=True, help="Write no report.html."),
    )  # fmt: skip
    return options(
        click.option("--out", default=default, show_default=True, callback=writable,
                     help="Folder for the results; - for stdout."),
        click.option("--format", "format_", type=click.Choice(["csv", "parquet", "jsonl"]), default="csv",
                     show_default=True, help="Format of the result tables."),
        click.option("--json", "json_", is_flag=True, help="Print the summary as JSON on stdout."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=seed_help),
        click.option("--quiet", is_flag=True, help="No messages on stderr."),
        *(of_fits if report else ()),
    )  # fmt: skip


def _skip_checks(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    from latentfit.core.verdict import skipped_checks

    if given:
        context.with_resource(skipped_checks())


def writable(context: click.Context, parameter: click.Parameter, folder: str | None) -> str | None:
    """Refuse a folder that cannot be written now, not after an hour of fitting; it need not be there yet."""
    if folder is None or folder == "-":
        return folder
    option, place = parameter.opts[-1], Path(folder)
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is a file; name a folder with {option}")
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{place} may not be written by this user; name another folder with {option}")
    return folder


strict_option = click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'ok'.")
abstain_option = click.option(
    "--abstain", multiple=True, help="A label that means no answer (repeatable); '' if there is none, not even -1."
)
score_option = click.option(
    "--bins", type=click.IntRange(min=2), help="Cut labels that are scores into so many intervals."
)
control_option = click.option("--control", help="Which control of a Label Studio export to read.")


class Bytes(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A size such as 4GB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().upper()
        number = text.rstrip("KMGTB")
        try:
            size = int(float(number) * UNITS[text[len(number) :]])
        except (ValueError, KeyError, OverflowError):
            size = -1
        if size < 0:
            self.fail(f"{value!r} is not a size; write it like 500MB or 4GB", param, ctx)
        return size


class Intervals(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """How many intervals: a number, or one for each named column such as age=5,income=10."""

    name = "bins"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | dict[str, int]:
        named: dict[str, int] = {}
        try:
            if "=" not in str(value):
                number = int(value)
                if number >= 2:
                    return number
            for one in str(value).split(",") if "=" in str(value) else ():
                column, _, number_of = one.rpartition("=")
                named[column.strip()] = int(number_of)
        except ValueError:
            named = {}
        if not named or min(named.values()) < 2:
            self.fail(f"{value!r} says no intervals; give a number from 2 on, or columns: age=5,income=10", param, ctx)
        return named


_memory_option = click.option("--memory", type=Bytes(), help="Memory to count on, like 4GB; what is free by default.")
_threads_option = click.option(
    "--threads", type=THREADS, help="Threads; all cores by default. No result depends on it."
)
engine_options = options(
    click.option("--engine", default="auto", show_default=True, metavar="auto|memory|stream|dask[=ADDRESS]",
                 help="Where passes over the rows run; auto streams what would fill half of the memory."),
    _memory_option,
    click.option("--cache", metavar="DIR", callback=writable,
                 help="Keep the coded rows here: the next run need not read again."),
    _threads_option,
    click.option("--checkpoint", metavar="FILE", help="Keep the parameters here while fitting."),
    click.option("--resume", is_flag=True, help="Go on from the checkpoint, to the same result."),
)  # fmt: skip
"""--engine, --memory, --cache, --threads, --checkpoint, --resume: where and how the passes of a long fit run."""


weight_options = options(
    click.option("--weights", metavar="COLUMN", help="Column with the rows' weights."),
    click.option("--weight-type", type=click.Choice(["sampling", "frequency"]), default="sampling",
                 show_default=True,
                 help="Sampling weights leave the sample size alone; frequencies count equal rows."),
)  # fmt: skip
"""Which column holds the rows' weights, and what they are."""


reading_options = options(
    click.option("--engine", type=click.Choice(["auto", "memory", "stream"]), default="auto",
                 show_default=True, help="Read files whole (memory), or part by part, adding what they count."),
    _memory_option,
    _threads_option,
)  # fmt: skip
"""--engine, --memory, --threads of commands that count while reading and then fit in memory."""


@contextmanager
def settings() -> Iterator[None]:
    """Invalid settings are errors of the command line, raised before any data are read."""
    try:
        yield
    except DataError as error:
        raise click.UsageError(str(error)) from None


def checkpoint_settings(checkpoint: str | None, resume: bool) -> dict[str, Any]:
    """Arguments of `fit` for checkpoint and resume."""
    if resume and not checkpoint:
        raise click.UsageError("--resume needs --checkpoint FILE, the file that the stopped run was writing")
    return {"checkpoint": checkpoint, "resume": resume}


def are_streamed(paths: tuple[str, ...], engine: str, memory: int | None) -> bool:
    """Whether files are to be read part by part: asked for, more than one, or too large for half of the memory.

    Standard input and pipes, which can be read once only, are read whole; their rows may be streamed all the same.
    """
    from latentfit.engine.limits import free_memory
    from latentfit.io.remote import is_remote
    from latentfit.io.scan import is_several
    from latentfit.io.source import STDIN, is_pipe

    name = engine.partition("=")[0]
    if name not in ("auto", "memory", "stream", "dask"):
        raise click.UsageError(f"--engine {engine} does not exist; give auto, memory, stream, dask or dask=ADDRESS")
    if len(paths) > 1 or is_several(paths[0]):
        return True
    if name == "memory" or paths[0] == STDIN or is_pipe(paths[0]):
        return False
    if name in ("stream", "dask") or is_remote(paths[0]):
        return True
    return _in_memory(paths[0]) > (memory or free_memory()) / 2


def _in_memory(path: str) -> int:
    """Bytes that a file takes about while it is read whole, whatever it takes on the disk; 0 if it does not exist.

    A broken file counts as it is: its reader will say what is wrong.
    """
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    name = path.lower()
    if name.endswith(".bed"):
        return CALLS * size
    if name.endswith(".gz"):
        size *= UNZIPPED
    elif name.endswith(".parquet") and size:
        from latentfit.io.parquet_file import unpacked_size

        size = max(size, unpacked_size(path))
    return TEXT_IN_MEMORY * size


def note_unused_cache(cache: str | None, console: Terminal) -> None:
    """What is read whole is coded in memory, and nothing of it is kept."""
    if cache is not None:
        console.say(
            "note: --cache is not used, since the file is read whole; give --engine stream to keep its coded rows"
        )


def engine_of(engine: str, streamed: bool) -> str:
    """The engine of the estimator: files that are read in parts are streamed unless something else was asked for."""
    return "stream" if streamed and engine == "auto" else engine


# -----------------------------------------------------------------------------
# Names of columns: which role each plays in the data of a command, or of a saved model.

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
    return options(*(click.option(f"--{role}", metavar="COLUMN", help=ROLES[role]) for role in roles))


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


# -----------------------------------------------------------------------------
# How files are read, whatever the command: which columns, what means missing, in which encoding.

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
    def of_other_file(self) -> Reading:
        """The same for a file beside the data, whose columns are its own: answers, workers, references."""
        return replace(self, columns=None, drop=())

    def row_names(self, names: list[str], id_: str | None, console: Terminal | None) -> str | None:
        """The column that names the rows: the one that was named, or a first one that another program wrote along."""
        first = names[0] if names else "-"
        if id_ is not None or first.lower() not in ROW_NAMES or len(names) < 2 or first in (self.columns or ()):
            return id_
        if console is not None:
            called = "has no name and" if not first else f"is called {first!r} and"
            console.say(
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

    return options(
        click.option("--columns", multiple=True, callback=_listed, metavar="A,B,…",
                     help="Read these columns only (and those that other options name)."),
        click.option("--drop", multiple=True, callback=_listed, metavar="A,B,…", help="Leave these columns out."),
        click.option("--missing", multiple=True, callback=_listed, metavar="98,NA,…",
                     help="Values that mean: not known, in every column; empty cells always do."),
        click.option("--encoding", metavar="NAME", help="Encoding of text files; UTF-8 or, failing that, cp1252."),
    )(run)  # type: ignore[return-value]  # fmt: skip


max_iter_option = click.option(
    "--max-iter",
    type=click.IntRange(min=0),
    metavar="N",
    help="Most iterations of the fit; 0: the initialisation alone.",
)


def at_most(max_iter: int | None) -> dict[str, Any]:
    """The setting of an estimator, which has its own number where none was given."""
    return {} if max_iter is None else {"max_iter": max_iter}
