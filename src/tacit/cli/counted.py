"""Files whose rows or lines are counted while they are read: documents, sequences, edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.cli.options import are_streamed
from tacit.cli.talk import Talk
from tacit.io.read import read_columns
from tacit.io.scan import scan
from tacit.io.text_lines import is_text

if TYPE_CHECKING:
    from tacit.io.scan import Scan


@contextmanager
def counted_files(
    files: tuple[str, ...], engine: str, memory: int | None, talk: Talk, lines: bool | None = None
) -> Iterator[Scan | Any]:
    """What the files hold: the columns of a table that fits memory, else a scan with a bar; text is always scanned.

    `lines` says that they are text whatever they are called, as in `tacit.scan`.
    """
    text = lines or (lines is None and is_text(files[0]))
    if not text and not are_streamed(files, engine, memory):
        with talk.doing("reading"):
            yield read_columns(files[0])
        return
    found = scan(files, lines=lines)
    with talk.counting("counting", "rows", found.rows_about()) as told, talk.heeding_warnings():
        yield replace(found, told=told)
