"""What all commands share: their common options, talk on stderr, results into files, the summary."""

from __future__ import annotations

import glob
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import tacit
from tacit.progress import is_watched, stage, watched_by

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.diagnose.report import FitReport
    from tacit.io.scan import Scan
    from tacit.io.write import FileFormat

F = TypeVar("F", bound=Callable[..., Any])

TEXT_IN_MEMORY = 3
"""Bytes that a byte of a file takes while it is read whole."""
THREADS = click.IntRange(min=1)
LONGEST_CELL = 200
"""Characters of a cell that the screen shows; the files hold the rest."""
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def output_options(default: str, *, report: bool = False) -> Callable[[F], F]:
    """--out, --format, --json, --seed, --quiet: every command that writes results has them; what fits, --no-report."""

    def add(command: F) -> F:
        if report:
            command = click.option("--no-report", is_flag=True, help="Write no report.html.")(command)
        for option in reversed(
            [
                click.option("--out", default=default, show_default=True, callback=_writable,
                             help="Folder for the results; - for stdout."),
                click.option("--format", "format_", type=click.Choice(["csv", "parquet", "jsonl"]), default="csv",
                             show_default=True, help="Format of the result tables."),
                click.option("--json", "json_", is_flag=True, help="Print the summary as JSON on stdout."),
                click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The one seed."),
                click.option("--quiet", is_flag=True, help="No talk on stderr."),
            ]
        ):  # fmt: skip
            command = option(command)
        return command

    return add


def _writable(context: click.Context, parameter: click.Parameter, out: str) -> str:
    """Refuse a folder that cannot be written now, not after an hour of fitting."""
    place = Path(out)
    if out != "-" and place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{out} is a file; name a folder for the results with --out")
    while out != "-" and not place.exists():
        place = place.parent
    if out != "-" and not os.access(place, os.W_OK):
        raise PermissionError(f"{place} may not be written by this user; name another folder with --out")
    return out


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
            size = int(float(number) * UNITS[text[len(number) :]])
        except (ValueError, KeyError, OverflowError):
            size = -1
        if size < 0:
            self.fail(f"{value!r} is not a size; write it like 500MB or 4GB", param, ctx)
        return size


def engine_options(command: F) -> F:
    """--engine, --memory, --cache, --threads: where and how the passes of a long fit run."""
    for option in reversed(
        [
            click.option("--engine", default="auto", show_default=True, metavar="auto|memory|stream|dask[=ADDRESS]",
                         help="Where passes over the rows run; auto streams what would fill half of the memory."),
            click.option("--memory", type=Bytes(), help="Memory to count on, like 4GB; what is free by default."),
            click.option("--cache", metavar="DIR", help="Keep the coded rows here: the next run need not read again."),
            click.option("--threads", type=THREADS, help="Threads; all cores by default. No result depends on it."),
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
            click.option("--threads", type=THREADS, help="Threads; all cores by default. No result depends on it."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def called(path: str) -> str:
    """A file as messages call it."""
    return "standard input" if path == "-" else path


@contextmanager
def counted_files(files: tuple[str, ...], talk: Talk, lines: bool | None = None) -> Iterator[Scan]:
    """Files to be counted while they are read, with a bar that knows about how many rows there are."""
    from tacit.io.scan import scan

    found = scan(files, lines=lines)
    with talk.counting("counting", "rows", found.rows_about()) as told:
        yield replace(found, told=told)


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
            table.add_row(*(Text(cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}…") for cell in row))
        self.console.print(table)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """While something long runs, a line with its progress, on terminals only; warnings become notes."""
        with self.counting(what), self.heeding_warnings():
            yield

    @contextmanager
    def counting(self, what: str, unit: str = "", total: int | None = None) -> Iterator[Callable[[int], None]]:
        """The same for work that can be counted: the function given takes how much is behind."""
        with ExitStack() as open_:
            if not self.quiet and not is_watched() and sys.stderr.isatty() and self.console.is_terminal:
                from tacit.cli.bars import Bars

                open_.enter_context(watched_by(open_.enter_context(Bars(self.console))))
            yield open_.enter_context(stage(what, total, unit)).at

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

    def __init__(self, out: str, format_: str, talk: Talk | None = None, *, no_report: bool = False) -> None:
        self.talk = talk or Talk(quiet=True)
        self.folder = None if out == "-" else Path(out)
        self.format: FileFormat = format_  # type: ignore[assignment]
        self.reports = not no_report
        self.written: list[str] = []

    def path(self, name: str) -> Path:
        """A file of the folder, which is made when the first one is written."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written.append(str(self.folder / name))
        return self.folder / name

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
        path = self.path(f"{stem}.{self.format}")
        with self.talk.doing(path.name):
            write_batches(tables, path, format=self.format)

    def model(self, name: str, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        from tacit.io.model_file import write_model

        if self.folder is not None:
            write_model(self.path("model.tacit"), name, arrays, metadata)

    def summary(self, summary: dict[str, Any], json_: bool) -> None:
        from tacit.io.write import atomic_path

        text = json.dumps(summary, indent=2, default=float)
        if self.folder is not None:
            with atomic_path(self.path("summary.json")) as temporary:
                Path(temporary).write_text(text + "\n", encoding="utf-8")
        if json_:
            print(json.dumps(summary, default=float), file=sys.stdout)

    def report(self, fitted: Any, summary: Mapping[str, Any], **data: Any) -> None:
        """report.html: the page of a fitted model; `data` is what its door can use besides, `input` the data as read.

        Comes after the summary: whatever happens here, the results are written.
        """
        if self.folder is None or not self.reports:
            return
        from tacit.report.doors import context_of, page_of
        from tacit.report.write import write_report

        path = self.folder / "report.html"
        write_report(path, page_of(fitted, context_of(summary, data)))
        self.written.append(str(path))


def command_line() -> str:
    """What was typed, as a shell would take it again."""
    context = click.get_current_context(silent=True)
    given = context.find_root().obj if context is not None else None
    return shlex.join(["tacit", *(sys.argv[1:] if given is None else given)])


def summarise(
    fitted: Any, report: FitReport, n_rows: int, n_components: int, *, seed: int, inputs: Iterable[str | None]
) -> dict[str, Any]:
    """The keys that every summary.json of a fit has; `inputs` are the files that were read."""
    from tacit.io.hashes import file_hashes

    return {
        "command": command_line(),
        "version": tacit.__version__,
        "n_rows": n_rows,
        "n_components": n_components,
        "log_likelihood": _either(fitted, "log_likelihood"),
        "converged": bool(_either(fitted, "converged")),
        "n_iter": int(_either(fitted, "n_iter")),
        "seconds": {stage: round(value, 6) for stage, value in report.seconds.items()},
        "verdict": report.verdict,
        "reasons": report.reasons,
        "notes": report.notes,
        "seed": seed,
        "files": file_hashes(inputs),
    }


def of_model(model_file: str, n_rows: int, **more: Any) -> dict[str, Any]:
    """The summary of a command that uses a saved model."""
    return {"command": command_line(), "version": tacit.__version__, "model": model_file, "n_rows": n_rows, **more}


def conclude(
    summary: dict[str, Any], facts: str, talk: Talk, results: Results, *, json_: bool, strict: bool = False,
    show: Callable[[], None] | None = None, page: Callable[[], None] | None = None,
) -> int:  # fmt: skip
    """How every command ends: summary.json, `page`, one screen (facts, notes, verdict, `show`, files), exit code."""
    results.summary(summary, json_)
    if page is not None:
        with talk.doing("writing the report"):
            page()
    seconds = sum(summary.get("seconds", {}).values())
    talk.say(facts + (f"; {seconds:.2f} s" if seconds else ""))
    for note in summary.get("notes", ()):
        talk.say(f"note: {note}")
    if "verdict" in summary:
        talk.say(f"verdict: {summary['verdict']}")
    for reason in summary.get("reasons", ()):
        talk.say(f"  - {reason}")
    if show is not None and not talk.quiet:
        show()
    if results.folder is not None:
        names = [os.path.relpath(path, results.folder) for path in results.written]
        talk.say(f"wrote {', '.join(names)} into {results.folder}")
    return int(strict and summary.get("verdict", "trusted") != "trusted")


def _either(fitted: Any, name: str) -> Any:
    """A figure of a fitted object, or of an estimator, whose fitted names end in an underscore."""
    return getattr(fitted, name) if hasattr(fitted, name) else getattr(fitted, f"{name}_")
