"""Rows of a table file for the table commands: their ids, their weights, and the columns a saved model knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from latentfit import BernoulliMixture, LatentClass, LatentClassClassifier
from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import AS_IT_IS, Reading, are_streamed, note_unused_cache
from latentfit.cli.results import Results
from latentfit.core.errors import DataError
from latentfit.core.frames import build_frame, find_column
from latentfit.core.kernels import BLOCK_ROWS
from latentfit.core.names import decoded
from latentfit.core.registry import load
from latentfit.core.table.stored import read_weights
from latentfit.io.read import read_columns
from latentfit.io.scan import join_batches, scan
from latentfit.io.text_lines import is_text

if TYPE_CHECKING:
    from latentfit.cli.console import Terminal
    from latentfit.cli.predict import PredictRequest
    from latentfit.core.estimator import LatentModel
    from latentfit.core.mixture.model import TableModel
    from latentfit.factors.estimator import BinaryFactors
    from latentfit.io.scan import Scan

TableRows = BernoulliMixture | LatentClass | LatentClassClassifier


@dataclass(frozen=True)
class Rows:
    """The whole file, the columns that are data, what the rows are called, and how many each stands for (None: one)."""

    all: Any
    data: Any
    id_name: str
    ids: Any
    weight: Any = None


def read_rows(
    path: str, id_: str | None, weights: str | None = None, reading: Reading = AS_IT_IS, console: Terminal | None = None
) -> Rows:
    """A table file, its ids and weights taken apart."""
    whole = read_columns(path, **reading.rules(id_, weights))
    rows = named_rows(whole, reading.row_names(whole.column_names, id_, console), weights)
    return rows if weights is None else replace(rows, weight=read_weights(rows.all[weights], weights))


def named_rows(whole: Any, id_: str | None, weights: str | None, first: int = 1) -> Rows:
    """Columns without their id column and that of their weights; rows without ids are counted from `first`."""
    data = whole.select(data_columns(whole.column_names, id_, weights))
    given = None if id_ is None else decoded(whole[id_].combine_chunks())
    ids = np.arange(first, first + whole.num_rows) if given is None else given
    taken = not id_ or id_ in ("class", "cluster", "switch", "on", "value", "probability")
    return Rows(whole, data, "row" if taken else str(id_), ids)


def data_columns(names: list[str], id_: str | None, weights: str | None) -> list[str]:
    """Columns but those of ids and weights, which must be there when they are named."""
    for name, role in ((id_, "row ids"), (weights, "weights")):
        if name is not None:
            find_column(names, role, (), name)
    return [name for name in names if name not in (id_, weights)]


def load_table_model(path: str) -> LatentClass:
    """A saved latent class model."""
    return table_model(load(path), path)


def table_model(model: LatentModel, path: str) -> LatentClass:
    """The model of a file, if it is one of a table."""
    if not isinstance(model, LatentClass):
        raise DataError(
            f"{path} holds a {type(model).__name__}, not a table's model; use one that latentfit table wrote"
        )
    return model


def under(model: LatentModel, whole: Any, may_lack: Collection[str] | None = None) -> Any:
    """The file's columns that a model was fitted on, in its order; those that it `may_lack` are missing then."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("the model was fitted on a matrix without column names; fit it on a file or a frame")
    columns = {}
    for name in map(str, names):
        if name in whole.column_names:
            columns[name] = whole[name]
        elif may_lack is not None and name in may_lack:
            columns[name] = pa.nulls(whole.num_rows, pa.string())
        else:
            advice = "add it" if may_lack is None else "add it, missing values allowed"
            there = ", ".join(whole.column_names[:12])
            raise DataError(f"the file has no column {name!r}, which the model knows; {advice} (the file has {there})")
    return pa.table(columns)


def under_table(model: TableRows, whole: Any, target: str | None = None) -> Any:
    """The same of a table model; what was set aside in the fit is not needed, nor is what is to be predicted."""
    known = {column.name for column in model._columns}
    names = map(str, getattr(model, "feature_names_in_", ()))
    return under(model, whole, {name for name in names if name not in known or name == target})


def read_table_input(
    model: TableRows, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    rows = read_rows(path, columns.get("id"), reading=reading, console=console)
    return {"input": under_table(model, rows.all), "ids": rows.ids}


def predict_rows(model: TableRows, request: PredictRequest) -> int:
    """The class or label of every row, or the most probable value of one column given the others."""
    target, console = request.target, request.console
    if isinstance(model, LatentClass) and target is not None:
        model.joint_.index(target)
    with console.doing("reading"):
        rows = read_rows(request.data_file, request.columns.get("id"), reading=request.reading, console=console)
    names = getattr(model, "classes_", None)  # hidden classes have numbers for names
    with console.doing("predicting"):
        data = under_table(model, rows.all, target)
        if isinstance(model, LatentClass) and target is not None:
            values, probability = model.predict_column(data, target)
        else:
            posterior = model.predict_proba(data)
            best, probability = posterior.argmax(axis=1), posterior.max(axis=1)
            values = best if names is None else names[best]
    request.results.table(
        "predictions", {rows.id_name: rows.ids, "value": values, "probability": probability}, main=True
    )
    what = target or ("their class" if names is None else "their label")
    return request.conclude(data.num_rows, f"{number_of(data.num_rows, 'rows')}: {what} predicted", target=target)


# -----------------------------------------------------------------------------
# Files whose rows or lines are counted while they are read: documents, sequences, edges.


@contextmanager
def counted_files(
    files: tuple[str, ...], engine: str, memory: int | None, console: Terminal, reading: Reading,
    aliases: Mapping[str, Sequence[str]], lines: bool | None = None, also: Iterable[str] = (),
) -> Iterator[Scan | Any]:  # fmt: skip
    """What the files hold: the columns of a table that fits memory, else a scan with a bar; text is always scanned.

    `aliases` are the names of columns by their roles, `also` columns that were named. `lines` says that they are text
    whatever they are called, as in `latentfit.scan`.
    """
    text = lines or (lines is None and is_text(files[0]))
    if not text and not are_streamed(files, engine, memory):
        with console.doing("reading"):
            yield read_columns(files[0], **reading.rules(*also, aliases=aliases))
        return
    found = scan(files, lines=lines, **reading.rules(*also))
    with console.counting("counting", "rows", found.rows_about()) as callback, console.warnings_as_notes():
        yield replace(found, callback=callback)


# -----------------------------------------------------------------------------
# Rows of tables: fitted in memory or, too long for it, part by part; every row's answer is written.
#
# Long files are read once more for that: an answer is written while its row goes by.

Answer = Callable[[Any], dict[str, Any]]
"""Columns of results from columns of data."""


@dataclass(frozen=True)
class RowFiles:
    """Files of rows as a command names them: which columns are no data, where codes stay, are they read in parts."""

    paths: tuple[str, ...]
    id_: str | None
    weights: str | None
    cache: str | None
    streamed: bool
    reading: Reading = AS_IT_IS


def fit_rows(
    model: TableModel | BinaryFactors, files: RowFiles, stem: str, answer: Answer, results: Results,
    checkpointing: dict[str, Any], *, in_blocks: bool = False,
) -> Rows | None:  # fmt: skip
    """Fit the rows and write what `answer` says of each of them; the rows, or None where they were too long for memory.

    Answers of long files are made in blocks of one size where their last bits could depend on their neighbours.
    """
    console = results.console
    if files.streamed:
        with console.warnings_as_notes():
            whole = scan(files.paths, **files.reading.rules(files.id_, files.weights))
            names = whole.first_names()
        files = replace(files, id_=files.reading.row_names(names, files.id_, console))
        columns = data_columns(names, files.id_, files.weights)
        weight: dict[str, Any] = {} if files.weights is None else {"sample_weight": files.weights}
        with console.counting("coding", "rows", whole.rows_about()) as callback, console.warnings_as_notes():
            model.fit(
                replace(whole, columns=tuple(columns), cache=files.cache, callback=callback), **weight, **checkpointing
            )
        results.batches(stem, _answers(whole, files, answer, results, f"writing {stem}", in_blocks), main=True)
        return None
    note_unused_cache(files.cache, console)
    with console.doing("reading"):
        rows = read_rows(files.paths[0], files.id_, files.weights, files.reading, console)
    with console.doing("fitting"):
        weight = {} if rows.weight is None else {"sample_weight": rows.weight}
        model.fit(rows.data, **weight, **checkpointing)
        found = answer(rows.data)
    results.table(stem, named_answers(rows, found), main=True)
    return rows


def _answers(
    whole: Scan, files: RowFiles, answer: Answer, results: Results, what: str, in_blocks: bool
) -> Iterator[Any]:
    """A result table batch by batch: the rows' ids, and what `answer` says of their columns."""
    behind = 0
    as_text = (in_blocks or results.format == "parquet") and _ids_differ(whole, files.id_)
    batches = (_with_text(one, files.id_) for one in whole.batches()) if as_text else whole.batches()
    with results.console.counting(what, "rows", whole.rows_about()) as report:
        for batch in _blocks(batches) if in_blocks else (pa.Table.from_batches([one]) for one in batches):
            rows = named_rows(batch, files.id_, files.weights, first=behind + 1)
            behind += batch.num_rows
            report(behind)
            yield build_frame(named_answers(rows, answer(rows.data)), "pyarrow")


def named_answers(rows: Rows, found: dict[str, Any]) -> dict[str, Any]:
    """What was found with the rows' ids before it; a row may have several lines, one after another."""
    lines = len(next(iter(found.values())))
    n_rows = rows.data.num_rows
    if lines == n_rows:
        return {rows.id_name: rows.ids, **found}
    ids = np.asarray(rows.ids.to_pylist() if hasattr(rows.ids, "to_pylist") else rows.ids)
    ids = ids if ids.dtype.kind in "iuf" else ids.astype(object)
    return {rows.id_name: np.repeat(ids, lines // max(n_rows, 1)), **found}


def _ids_differ(whole: Scan, id_: str | None) -> bool:
    """Whether the files' ids are of types that only text can hold together, such as numbers here and words there.

    A block and a Parquet file have one type a column, and the last file's is needed when the first is written.
    """
    if id_ is None or len(whole.paths) == 1:
        return False
    alone = (replace(whole, paths=(path,), columns=(id_,)).batches(coded=False) for path in whole.paths)
    first = [one for one in (next(batches, None) for batches in alone) if one is not None]
    try:
        pa.unify_schemas([one.schema for one in first], promote_options="permissive")
    except pa.ArrowException:
        return True
    return False


def _with_text(batch: Any, name: str | None) -> Any:
    """A batch with one column as text."""
    names = batch.schema.names
    text = decoded(batch.column(names.index(name))).cast(pa.string())
    columns = [text if one == name else batch.column(at) for at, one in enumerate(names)]
    return pa.RecordBatch.from_arrays(columns, names)


def _blocks(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows in blocks of one size, the last one shorter."""
    waiting: list[Any] = []
    held = 0
    for batch in batches:
        while held + batch.num_rows >= BLOCK_ROWS:
            yield join_batches([*waiting, batch.slice(0, BLOCK_ROWS - held)])
            batch, waiting, held = batch.slice(BLOCK_ROWS - held), [], 0
        if batch.num_rows:
            waiting.append(batch)
            held += batch.num_rows
    if waiting:
        yield join_batches(waiting)
