"""Files whose rows or lines are counted while they are read: documents, sequences, edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from latentfit.cli.console import Talk
from latentfit.cli.options import are_streamed
from latentfit.cli.reading import Reading
from latentfit.io.read import read_columns
from latentfit.io.scan import scan
from latentfit.io.text_lines import is_text

if TYPE_CHECKING:
    from latentfit.io.scan import Scan


@contextmanager
def counted_files(
    files: tuple[str, ...], engine: str, memory: int | None, talk: Talk, reading: Reading,
    aliases: Mapping[str, Sequence[str]], lines: bool | None = None, also: Iterable[str] = (),
) -> Iterator[Scan | Any]:  # fmt: skip
    """What the files hold: the columns of a table that fits memory, else a scan with a bar; text is always scanned.

    `aliases` are the names of columns by their roles, `also` columns that were named. `lines` says that they are text
    whatever they are called, as in `latentfit.scan`.
    """
    text = lines or (lines is None and is_text(files[0]))
    if not text and not are_streamed(files, engine, memory):
        with talk.doing("reading"):
            yield read_columns(files[0], **reading.rules(*also, aliases=aliases))
        return
    found = scan(files, lines=lines, **reading.rules(*also))
    with talk.counting("counting", "rows", found.rows_about()) as told, talk.heeding_warnings():
        yield replace(found, told=told)
