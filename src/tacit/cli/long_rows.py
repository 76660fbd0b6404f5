"""Files too long for memory: fitted part by part, then read once more while every row's answer is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tacit.cli.common import Talk
from tacit.cli.rows import Rows, named_rows
from tacit.data.frames import build_frame, find_column
from tacit.io.scan import scan
from tacit.kernels import BLOCK_ROWS

if TYPE_CHECKING:
    from tacit.io.scan import Scan
    from tacit.models.binary_factors import BinaryFactors
    from tacit.models.table_model import TableModel


def fit_files(
    files: tuple[str, ...], id_: str | None, weights: str | None, cache: str | None, model: TableModel | BinaryFactors,
    talk: Talk, **options: Any,
) -> Scan:  # fmt: skip
    """Fit the files' columns other than the ids, rows with their weights; the files, to be read once more."""
    whole = scan(files)
    names = whole.first_names()
    for name, role in ((id_, "row ids"), (weights, "weights")):
        if name is not None:
            find_column(names, role, (), name)
    with talk.counting("coding", "rows", whole.rows_about()) as told, talk.heeding_warnings():
        columns = [name for name in names if name not in (id_, weights)]
        data = scan(files, columns=columns, cache=cache, told=told)
        options |= {} if weights is None else {"sample_weight": weights}
        model.fit(data, **options)
    return whole


def answers(
    whole: Scan, id_: str | None, weights: str | None, answer: Callable[[Any], dict[str, Any]], talk: Talk, what: str,
    *, in_blocks: bool = False,
) -> Iterator[Any]:  # fmt: skip
    """A result table batch by batch: the rows' ids, and what `answer` says of their columns.

    Batches are as the files give them, or blocks of rows where an answer's last bits could depend on its neighbours.
    """
    behind = 0
    with talk.counting(what, "rows", whole.rows_about()) as tell:
        for batch in _blocks(whole) if in_blocks else (pa.Table.from_batches([one]) for one in whole.batches()):
            leave_out = [] if weights is None else [weights]
            rows = named_rows(batch, id_, leave_out, first=behind + 1)
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


def _blocks(whole: Scan) -> Iterator[Any]:
    """The files' rows in blocks of one size, the last one shorter."""
    waiting: list[Any] = []
    held = 0
    for batch in whole.batches():
        while held + batch.num_rows >= BLOCK_ROWS:
            yield _joined([*waiting, batch.slice(0, BLOCK_ROWS - held)])
            batch, waiting, held = batch.slice(BLOCK_ROWS - held), [], 0
        if batch.num_rows:
            waiting.append(batch)
            held += batch.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> Any:
    """Batches as one table, whose dictionaries are one."""
    tables = [pa.Table.from_batches([one]) for one in batches]
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries()
