"""What a command leaves behind: result files, the summary, the page, and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import latentfit
from latentfit.cli.console import Terminal
from latentfit.core.verdict import summary_of

if TYPE_CHECKING:
    from latentfit.core.estimator import LatentModel
    from latentfit.core.verdict import FitReport
    from latentfit.io.write import FileFormat


NUMBERS = ("n_components_", "n_classes_", "n_populations_", "n_topics_")
"""What models call their number of hidden things."""


class Results:
    """Files of a command: written under a temporary name and renamed, or printed when the folder is ``-``."""

    def __init__(self, out: str, format_: str, console: Terminal, *, no_report: bool = False) -> None:
        self.console = console
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
        from latentfit.core.frames import build_frame

        self.batches(stem, [build_frame(columns, "pyarrow")], main=main)

    def batches(self, stem: str, tables: Iterable[Any], *, main: bool = False) -> None:
        """A result table that is one already, or comes in several."""
        from latentfit.io.write import write_batches

        if self.folder is None:
            if main:
                write_batches(iter(tables), "-", format=self.format)
            return
        path = self.path(f"{stem}.{self.format}")
        with self.console.doing(path.name):
            write_batches(iter(tables), path, format=self.format)

    def model(self, name: str, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        from latentfit.core.model_file import write_model

        if self.folder is not None:
            write_model(self.path("model.latent"), name, arrays, metadata)

    def summary(self, summary: dict[str, Any], json_: bool) -> None:
        from latentfit.io.write import atomic_path

        text = json.dumps(summary, indent=2, default=float)
        if self.folder is not None:
            with atomic_path(self.path("summary.json")) as temporary:
                Path(temporary).write_text(text + "\n", encoding="utf-8")
        if json_:
            print(json.dumps(summary, default=float), file=sys.stdout)

    def report(self, fitted: Any, summary: Mapping[str, Any], **data: Any) -> None:
        """report.html: the page of a fitted model; `data` is what its page can use besides, `input` the data as read.

        Comes after the summary: whatever happens here, the results are written.
        """
        if self.folder is None or not self.reports:
            return
        from latentfit.report.assemble import context_of, write_report
        from latentfit.report.assemble import page_of_model as page_of

        path = self.folder / "report.html"
        write_report(path, page_of(fitted, context_of(summary, data)))
        self.written.append(str(path))


def command_line() -> str:
    """What was typed, as a shell would take it again."""
    context = click.get_current_context(silent=True)
    given = context.find_root().obj if context is not None else None
    return shlex.join(["latentfit", *(sys.argv[1:] if given is None else given)])


def summarise(
    fitted: Any, report: FitReport, n_rows: int, n_components: int, *, seed: int, inputs: Iterable[str | None]
) -> dict[str, Any]:
    """The keys that every summary.json of a fit has; `inputs` are the files that were read."""
    from latentfit.io.source import file_hashes

    return {
        "command": command_line(),
        "version": latentfit.__version__,
        "n_rows": n_rows,
        "n_components": n_components,
        "log_likelihood": _either(fitted, "log_likelihood"),
        "converged": bool(_either(fitted, "converged")),
        "n_iter": int(_either(fitted, "n_iter")),
        "seconds": {stage: round(value, 6) for stage, value in report.seconds.items()},
        **summary_of(report),
        "notes": report.notes,
        "seed": seed,
        "files": file_hashes(inputs),
    }


def of_model(model: LatentModel, model_file: str, n_rows: int, stage: str, begin: float, **more: Any) -> dict[str, Any]:
    """The summary of a command that uses a saved model since `begin`: what the model tells of its fit, its verdict."""
    of_fit = summary_of(model.report_)
    of_fit["headline"] = f"In the fit of the model: {of_fit['headline']}"
    if of_fit["expected"] is not None:
        of_fit["expected"]["sentence"] = f"In the fit of the model, not in these data: {of_fit['expected']['sentence']}"
    return {
        "command": command_line(),
        "version": latentfit.__version__,
        "model": model_file,
        "n_rows": n_rows,
        **outcome_of(model),
        "seconds": {stage: round(time.perf_counter() - begin, 6)},
        **of_fit,
        **more,
    }


def outcome_of(model: LatentModel) -> dict[str, Any]:
    """What a saved model tells of its fit."""
    return {
        "n_components": next(getattr(model, name) for name in NUMBERS if hasattr(model, name)),
        "log_likelihood": model.log_likelihood_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
    }


def conclude(
    summary: dict[str, Any], facts: str, results: Results, *, json_: bool, strict: bool = False,
    show: Callable[[], None] | None = None, page: Callable[[], None] | None = None,
) -> int:  # fmt: skip
    """How every command ends: summary.json, `page`, one screen (facts, notes, verdict, `show`, files), exit code."""
    console = results.console
    results.summary(summary, json_)
    if page is not None:
        with console.doing("writing the report"):
            page()
    seconds = sum(summary.get("seconds", {}).values())
    console.say(facts + (f"; {seconds:.2f} s" if seconds else ""))
    for note in summary.get("notes", ()):
        console.say(f"note: {note}")
    if "verdict" in summary:
        console.say(f"verdict: {summary['verdict']}. {summary['headline']}")
    for reason in summary.get("reasons", ()):
        console.say(f"  - {reason}")
    if summary.get("expected"):
        console.say(f"expected: {summary['expected']['sentence']}")
    if show is not None and not console.quiet:
        show()
    if results.folder is not None:
        names = [os.path.relpath(path, results.folder) for path in results.written]
        console.say(f"wrote {', '.join(names)} into {results.folder}")
    return int(strict and summary.get("verdict", "ok") != "ok")


def _either(fitted: Any, name: str) -> Any:
    """A figure of a fitted object, or of an estimator, whose fitted names end in an underscore."""
    return getattr(fitted, name) if hasattr(fitted, name) else getattr(fitted, f"{name}_")
