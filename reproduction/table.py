"""What every reproduction is made of: rows "paper next to ours", where the data is, and printing.

A row that cannot be run (no data, no code, not defined) stays in the table with the paper's figure and says
why; it is never an error and never left out in silence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from latentfit import __version__
from latentfit.io.write import write_columns
from reproduction import draw

DATA_VARIABLE = "LATENTFIT_DATA"


@dataclass(frozen=True)
class Row:
    """One method on one data set."""

    dataset: str
    method: str
    variant: str = ""
    measure: str = "error %"
    paper: float | None = None
    ours: float | None = None
    spread: float | None = None  # standard deviation over the repeats
    paper_seconds: float | None = None
    seconds: float | None = None
    repeats: int = 0
    note: str = ""


@dataclass(frozen=True)
class Curves:
    """The numbers of a figure, and the function of `reproduce.draw` that draws them: it may need matplotlib."""

    columns: draw.Columns
    draw: Callable[[draw.Columns, Path], None]


@dataclass(frozen=True)
class Outcome:
    """A finished table or figure."""

    title: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    curves: Curves | None = None


class Progress:
    """Pieces of long runs that are done: one line of JSON each, so that an interrupted run goes on where it was.

    A line cut off by the interruption is no piece, and neither is one that another version of the project wrote.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: dict[str, Any] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8")
            if not text.endswith("\n"):  # a line cut off must not swallow the next
                path.write_text(text + "\n", encoding="utf-8")
            for line in text.splitlines():
                with suppress(ValueError, KeyError):
                    piece = json.loads(line)
                    if piece["version"] == __version__:
                        self._done[piece["name"]] = piece["value"]

    def piece(self, name: str, make: Callable[[], Any], holds: Callable[[Any], bool] = lambda value: True) -> Any:
        """What `make` gave for this name before, if that still holds, or gives now."""
        if name not in self._done or not holds(self._done[name]):
            self._done[name] = make()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                line = {"name": name, "version": __version__, "value": self._done[name]}
                file.write(json.dumps(line) + "\n")
        return self._done[name]


@dataclass(frozen=True)
class Run:
    """How much to run: `quick` is what CI can afford, `repeats` overrides both."""

    repeats: int | None = None
    quick: bool = False
    seed: int = 0
    data: Path | None = None
    say: Callable[[str], None] = lambda text: None
    progress: Progress | None = None

    def piece(self, name: str, make: Callable[[], Any], holds: Callable[[Any], bool] = lambda value: True) -> Any:
        """`make()`, what JSON can hold, done once: a run that was interrupted finds it again.

        A quick run's pieces are its own: some of them are smaller under the same name.
        """
        full_name = f"{name} seed={self.seed}" + (" quick" if self.quick else "")
        return make() if self.progress is None else self.progress.piece(full_name, make, holds)

    def outcome(self, key: str, experiment: Experiment) -> Outcome:
        """All of a key as one piece: a finished one is found again, unless data that its rows lacked is there now."""
        made: list[Outcome] = []

        def make() -> Any:
            made.append(experiment(self))
            curves = made[0].curves
            figure = curves and [curves.columns, curves.draw.__name__]
            return [made[0].title, [astuple(row) for row in made[0].rows], made[0].notes, figure]

        def holds(value: Any) -> bool:
            return all(self.find(name) is None for name in lacked(Row(*values) for values in value[1]))

        title, rows, notes, figure = self.piece(f"{key} repeats={self.repeats}", make, holds)
        if made:
            return made[0]
        if self.progress is not None:
            self.say(f"{key} stands in {self.progress.path}: to run it again, delete that file")
        curves = figure and Curves(figure[0], getattr(draw, figure[1]))
        return Outcome(title, [Row(*values) for values in rows], notes, curves)

    def times(self, full: int, quick: int = 1) -> int:
        """Repeats of something random."""
        return self.repeats or (quick if self.quick else full)

    def seeds(self, full: int, quick: int = 1) -> list[int]:
        """One seed per repeat, all made of the one seed."""
        root = np.random.SeedSequence(self.seed)
        return [int(child.generate_state(1)[0]) for child in root.spawn(self.times(full, quick))]

    def find(self, name: str) -> Path | None:
        """A file or folder of the data, or None when it is not there."""
        if self.data is None:
            return None
        path = self.data / name
        return path if path.exists() else None


Experiment = Callable[[Run], Outcome]


def find_data() -> Path | None:
    """The folder of data sets: $LATENTFIT_DATA, or ``../shared/data`` of the working folder or the repository."""
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named) if Path(named).is_dir() else None
    repository = Path(__file__).resolve().parents[3]
    for base in (Path.cwd(), repository):
        folder = base.parent / "shared" / "data"
        if folder.is_dir():
            return folder
    return None


def absent(name: str) -> str:
    """The note of a row whose data is missing."""
    return f"skipped: no {name}"


def lacked(rows: Iterable[Row]) -> list[str]:
    """The data whose absence rows have noted; a program that is missing is no data."""
    return [row.note.removeprefix(absent("")) for row in rows if row.note.startswith(absent(""))]


def mean_row(row: Row, values: Iterable[float], seconds: Iterable[float]) -> Row:
    """`row` with the mean, spread and time of its repeats."""
    got, took = np.array(list(values)), np.array(list(seconds))
    spread = float(got.std(ddof=1)) if len(got) > 1 else None
    return replace(row, ours=float(got.mean()), spread=spread, seconds=float(took.mean()), repeats=len(got))


def add_line(columns: dict[str, list[object]], *values: object) -> None:
    """One more line of a figure's numbers, a value a column."""
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def render(key: str, outcome: Outcome) -> str:
    """The table as text, one block per data set and measure, and its notes."""
    lines = [f"{key}  {outcome.title}"]
    for dataset, measure in dict.fromkeys((row.dataset, row.measure) for row in outcome.rows):
        rows = [row for row in outcome.rows if (row.dataset, row.measure) == (dataset, measure)]
        small = not measure.endswith("%")
        head = ["method", "variant", "paper", "ours", "±", "paper s", "ours s", "repeats", "note"]
        cells = [head] + [
            [
                row.method,
                row.variant,
                _number(row.paper, small),
                _number(row.ours, small),
                _number(row.spread, small),
                _number(row.paper_seconds),
                _number(row.seconds),
                str(row.repeats or "–"),
                row.note,
            ]
            for row in rows
        ]
        lines += ["", f"{dataset}: {measure}", *_aligned(cells)]
    lines += ["", *(f"note: {note}" for note in outcome.notes)] if outcome.notes else []
    return "\n".join(lines)


def _number(value: float | None, small: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if small else f"{value:.2f}"


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    left = (0, 1, len(widths) - 1)
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def results_table(outcomes: dict[str, Outcome]) -> pa.Table:
    """All rows of all keys as one table, with the column `key` first."""
    pairs = [(key, row) for key, outcome in outcomes.items() for row in outcome.rows]
    kinds = {str: pa.string(), int: pa.int64()}
    columns = {"key": pa.array([key for key, _ in pairs], pa.string())}
    for field_ in fields(Row):
        kind = kinds.get(type(getattr(Row("", ""), field_.name)), pa.float64())
        columns[field_.name] = pa.array([getattr(row, field_.name) for _, row in pairs], kind)
    return pa.table(columns)


def figure_names(keys: Sequence[str]) -> dict[str, str]:
    """What the files of each key's figure are called: two papers in one folder may both have a figure 2."""
    several = len({key.partition(":")[0] for key in keys}) > 1
    return {key: key.replace(":", "_") if several else key.partition(":")[2] for key in keys}


def write_rows(outcomes: dict[str, Outcome], folder: Path) -> Path:
    """results.csv: the rows of all keys."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.csv"
    write_columns(results_table(outcomes), path, format="csv")
    return path


def write_curves(curves: Curves, stem: Path) -> tuple[list[Path], list[str]]:
    """The numbers of a figure and its picture; the files written, and what could not be."""
    numbers, picture = stem.with_suffix(".csv"), stem.with_suffix(".png")
    write_columns(pa.table(dict(curves.columns)), numbers, format="csv")
    try:
        curves.draw(curves.columns, picture)
    except ModuleNotFoundError as error:
        return [numbers], [f"{picture.name} skipped: {error.name} is not installed (the extra `plot` has it)"]
    return [numbers, picture], []
