"""Rows of tables: fitted in memory or, too long for it, part by part; every row's answer is written.

Long files are read once more for that: an answer is written while its row goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from latentfit.cli.options import tell_no_cache
from latentfit.cli.reading import AS_IT_IS, Reading
from latentfit.cli.results import Results
from latentfit.cli.rows import Rows, data_columns, named_rows, read_rows
from latentfit.core.frames import build_frame
from latentfit.core.kernels import BLOCK_ROWS
from latentfit.core.names import decoded
from latentfit.io.join import join_batches
from latentfit.io.scan import scan

if TYPE_CHECKING:
    from latentfit.core.mixture.model import TableModel
    from latentfit.factors.estimator.binary_factors import BinaryFactors
    from latentfit.io.scan import Scan

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
    keeping: dict[str, Any], *, in_blocks: bool = False,
) -> Rows | None:  # fmt: skip
    """Fit the rows and write what `answer` says of each of them; the rows, or None where they were too long for memory.

    Answers of long files are made in blocks of one size where their last bits could depend on their neighbours.
    """
    talk = results.talk
    if files.streamed:
        with talk.heeding_warnings():
            whole = scan(files.paths, **files.reading.rules(files.id_, files.weights))
            names = whole.first_names()
        files = replace(files, id_=files.reading.row_names(names, files.id_, talk))
        columns = data_columns(names, files.id_, files.weights)
        weight: dict[str, Any] = {} if files.weights is None else {"sample_weight": files.weights}
        with talk.counting("coding", "rows", whole.rows_about()) as told, talk.heeding_warnings():
            model.fit(replace(whole, columns=tuple(columns), cache=files.cache, told=told), **weight, **keeping)
        results.batches(stem, _answers(whole, files, answer, results, f"writing {stem}", in_blocks), main=True)
        return None
    tell_no_cache(files.cache, talk)
    with talk.doing("reading"):
        rows = read_rows(files.paths[0], files.id_, files.weights, files.reading, talk)
    with talk.doing("fitting"):
        weight = {} if rows.weight is None else {"sample_weight": rows.weight}
        model.fit(rows.data, **weight, **keeping)
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
    with results.talk.counting(what, "rows", whole.rows_about()) as tell:
        for batch in _blocks(batches) if in_blocks else (pa.Table.from_batches([one]) for one in batches):
            rows = named_rows(batch, files.id_, files.weights, first=behind + 1)
            behind += batch.num_rows
            tell(behind)
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
