"""What all commands share: their common options, talk on stderr, results into files, the summary."""

from __future__ import annotations

import glob
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import tacit

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.diagnose.report import FitReport
    from tacit.io.write import FileFormat

F = TypeVar("F", bound=Callable[..., Any])

TEXT_IN_MEMORY = 3
"""Bytes that a byte of a file takes while it is read whole."""
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def output_options(default: str) -> Callable[[F], F]:
    """--out, --format, --json, --seed, --quiet: every command that writes results has them."""

    def add(command: F) -> F:
        for option in reversed(
            [
                click.option("--out", default=default, show_default=True, help="Folder for the results; - for stdout."),
                click.option("--format", "format_", type=click.Choice(["csv", "parquet", "jsonl"]), default="csv"),
                click.option("--json", "json_", is_flag=True, help="Print the summary as JSON on stdout."),
                click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The one seed."),
                click.option("--quiet", is_flag=True, help="No talk on stderr."),
            ]
        ):
            command = option(command)
        return command

    return add


def column_options(command: F) -> F:
    """--task, --worker, --label: names of the columns when they are unusual."""
    for role in ("label", "worker", "task"):
        command = click.option(f"--{role}", metavar="COLUMN", help=f"Column that holds the {role}.")(command)
    return command


def chosen_columns(task: str | None, worker: str | None, label: str | None) -> dict[str, str]:
    return {role: name for role, name in (("task", task), ("worker", worker), ("label", label)) if name}


class Bytes(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A size such as 4GB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().upper()
        number = text.rstrip("KMGTB")
        try:
            return int(float(number) * UNITS[text[len(number) :]])
        except (ValueError, KeyError):
            self.fail(f"{value!r} is not a size; write it like 500MB or 4GB", param, ctx)


def engine_options(command: F) -> F:
    """--engine, --memory, --cache, --threads: where and how the passes of a long fit run."""
    for option in reversed(
        [
            click.option("--engine", default="auto", show_default=True, metavar="auto|memory|stream|dask[=ADDRESS]",
                         help="Where passes over the rows run; auto streams what would fill half of the memory."),
            click.option("--memory", type=Bytes(), help="Memory to count on, like 4GB; what is free by default."),
            click.option("--cache", metavar="DIR", help="Keep the coded rows here: the next run need not read again."),
            click.option("--threads", type=int, help="Threads; all cores by default. No result depends on it."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def reading_options(command: F) -> F:
    """--engine, --memory, --threads of commands that count while reading and then fit in memory."""
    for option in reversed(
        [
            click.option("--engine", type=click.Choice(["auto", "memory", "stream"]), default="auto",
                         show_default=True, help="Read files whole (memory), or part by part, adding what they count."),
            click.option("--memory", type=Bytes(), help="Memory to count on, like 4GB; what is free by default."),
            click.option("--threads", type=int, help="Threads; all cores by default. No result depends on it."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def is_long(paths: tuple[str, ...], engine: str, memory: int | None) -> bool:
    """Whether files are to be read part by part: asked for, more than one, or too large for half of the memory."""
    from tacit.engine.free_memory import free_memory

    if engine.partition("=")[0] not in ("auto", "memory", "stream", "dask"):
        raise click.UsageError(f"--engine {engine} is not there; give auto, memory, stream, dask or dask=ADDRESS")
    if engine != "auto":
        return engine != "memory"
    if any("://" in path for path in paths):
        return True
    plain = [path for path in paths if os.path.isfile(path)]
    if len(paths) > 1 or (paths[0] != "-" and not plain and (os.path.isdir(paths[0]) or glob.has_magic(paths[0]))):
        return True
    return sum(TEXT_IN_MEMORY * os.path.getsize(path) for path in plain) > (memory or free_memory()) / 2


class Talk:
    """Everything said to a person: on stderr, nothing when quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def say(self, text: str = "") -> None:
        if not self.quiet:
            self.console.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        if self.quiet:
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """A spinner while something long runs, on terminals only."""
        if self.quiet or not self.console.is_terminal:
            yield
            return
        with self.console.status(what):
            yield

    @contextmanager
    def counting(self, what: str) -> Iterator[Callable[[int], None]]:
        """A spinner that tells how many rows are behind and how fast they go by."""
        if self.quiet or not self.console.is_terminal:
            yield lambda rows: None
            return
        begin = time.monotonic()
        with self.console.status(what) as status:

            def tell(rows: int) -> None:
                rate = rows / max(time.monotonic() - begin, 1e-9)
                status.update(f"{what}: {rows:,} rows, {rate:,.0f} a second")

            yield tell

    @contextmanager
    def heeding_warnings(self) -> Iterator[None]:
        """Warnings become one line of talk each instead of a line of source code."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.say(f"note: {text}")


class Results:
    """Files of a command: written under a temporary name and renamed, or printed when the folder is ``-``."""

    def __init__(self, out: str, format_: str) -> None:
        self.folder = None if out == "-" else Path(out)
        self.format: FileFormat = format_  # type: ignore[assignment]
        self.written: list[str] = []
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def table(self, stem: str, columns: Mapping[str, Any], *, main: bool = False) -> None:
        """A result table; on stdout only the main one is printed."""
        from tacit.data.frames import build_frame

        self.batches(stem, iter([build_frame(columns, "pyarrow")]), main=main)

    def batches(self, stem: str, tables: Iterator[Any], *, main: bool = False) -> None:
        """A result table that comes in batches."""
        from tacit.io.write import write_batches

        if self.folder is None:
            if main:
                write_batches(tables, "-", format=self.format)
            return
        path = self.folder / f"{stem}.{self.format}"
        write_batches(tables, path, format=self.format)
        self.written.append(str(path))

    def model(self, name: str, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        from tacit.io.model_file import write_model

        if self.folder is not None:
            path = self.folder / "model.tacit"
            write_model(path, name, arrays, metadata)
            self.written.append(str(path))

    def summary(self, summary: dict[str, Any], json_: bool) -> None:
        from tacit.io.write import atomic_path

        text = json.dumps(summary, indent=2, default=float)
        if self.folder is not None:
            path = self.folder / "summary.json"
            with atomic_path(path) as temporary:
                Path(temporary).write_text(text + "\n", encoding="utf-8")
            self.written.append(str(path))
        if json_:
            print(json.dumps(summary, default=float), file=sys.stdout)


def summarise(command: str, fitted: Any, report: FitReport, n_rows: int, n_components: int) -> dict[str, Any]:
    """The keys that every summary.json has."""
    return {
        "command": command,
        "version": tacit.__version__,
        "n_rows": n_rows,
        "n_components": n_components,
        "log_likelihood": _either(fitted, "log_likelihood"),
        "converged": bool(_either(fitted, "converged")),
        "n_iter": int(_either(fitted, "n_iter")),
        "seconds": {stage: round(value, 6) for stage, value in report.seconds.items()},
        "verdict": report.verdict,
        "reasons": report.reasons,
    }


def _either(fitted: Any, name: str) -> Any:
    """A figure of a fitted object, or of an estimator, whose fitted names end in an underscore."""
    return getattr(fitted, name) if hasattr(fitted, name) else getattr(fitted, f"{name}_")
