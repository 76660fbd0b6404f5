"""Files too long for memory: fitted part by part, then read once more while every row's answer is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tacit.cli.common import Talk
from tacit.cli.rows import named_rows
from tacit.data.frames import build_frame, find_column
from tacit.io.scan import scan

if TYPE_CHECKING:
    from tacit.io.scan import Scan
    from tacit.models.table_model import TableModel


def fit_files(
    files: tuple[str, ...], id_: str | None, weights: str | None, cache: str | None, model: TableModel, talk: Talk,
    **options: Any,
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
        model.fit(data, sample_weight=weights, **options)
    return whole


def answers(
    whole: Scan, id_: str | None, weights: str | None, answer: Callable[[Any], dict[str, Any]], talk: Talk, what: str
) -> Iterator[Any]:
    """A result table batch by batch: the rows' ids, and what `answer` says of their columns."""
    behind = 0
    with talk.counting(what, "rows", whole.rows_about()) as tell:
        for batch in whole.batches():
            leave_out = [] if weights is None else [weights]
            rows = named_rows(pa.Table.from_batches([batch]), id_, leave_out, first=behind + 1)
            behind += batch.num_rows
            tell(behind)
            yield build_frame({rows.id_name: rows.ids, **answer(rows.data)}, "pyarrow")
