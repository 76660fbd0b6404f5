"""Matrix Market text → a sparse matrix, every line checked.

scipy's reader is three to five times as fast and trusts the file: a damaged line can end the process. Here the header
is read by hand and the lines by pyarrow, which refuses what is not a number and names the row; indices are checked
before memory is allocated.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from latentfit.core.errors import FileFormatError, reason_of
from latentfit.io.source import BROKEN, Source, plain_name, probe

EMPTIEST = 1_000
"""Most rows or columns per entry: with more, the header is taken to be damaged."""
FIELDS = ("integer", "unsigned-integer", "real", "double", "pattern")
_SIZES = {"coordinate": 3, "array": 2}
_BLANKS = re.compile(rb" {2,}")


def is_matrix_market(path: str | os.PathLike[str]) -> bool:
    """Whether the extension is `.mtx` or `.mtx.gz`."""
    return plain_name(os.fspath(path)).removesuffix(".gz").endswith(".mtx")


def read_matrix_market(path: str | os.PathLike[str]) -> Any:
    """The sparse matrix of a file; for documents (document, word), as gensim's `MmCorpus` writes it."""
    name = os.fspath(path)
    probe(name)
    source = Source(name, "mtx", path=name, packed=plain_name(name).endswith(".gz"))
    try:
        data = b"".join(source.lines())
    except BROKEN as error:
        raise source.broken(error) from None
    return parse_matrix_market(data, name)


def parse_matrix_market(data: bytes, name: str) -> Any:
    """The matrix (float64) in `data`; repeated entries are added, as in scipy. `name` is for messages."""
    from scipy.sparse import coo_array

    layout, field, symmetric, sizes, body, line = _head(data, name)
    if layout == "array":
        values: Any = _numbers(body, ["value"], name, line)["value"]
        if len(values) != sizes[0] * sizes[1]:
            raise _count(name, sizes[0] * sizes[1], len(values))
        return coo_array(values.reshape(sizes[1], sizes[0]).T).tocsr()
    names = ["row", "column"] + ([] if field == "pattern" else ["value"])
    found = _numbers(body, names, name, line) if sizes[2] else {one: np.empty(0) for one in names}
    rows, columns = found["row"], found["column"]
    if len(rows) != sizes[2]:
        raise _count(name, sizes[2], len(rows))
    if max(sizes[:2]) > EMPTIEST * (len(rows) + EMPTIEST):
        raise FileFormatError(
            f"{name} has {len(rows):,} entries for {sizes[0]:,} rows and {sizes[1]:,} columns; its header is "
            "damaged: write it again"
        )
    for index, size, what in ((rows, sizes[0], "row"), (columns, sizes[1], "column")):
        outside = (index < 1) | (index > size) | (index != np.floor(index))
        if outside.any():
            at = int(outside.argmax())
            raise FileFormatError(
                f"{name}, line {line + at} (blank lines not counted): {what} {index[at]:g} is not among the {size:,} "
                "of its header; write it again"
            )
    left, right = (rows - 1).astype(np.int64), (columns - 1).astype(np.int64)
    values = found.get("value", np.ones(len(rows)))
    if symmetric:
        off = left != right
        left, right = np.concatenate([left, right[off]]), np.concatenate([right, left[off]])
        values = np.concatenate([values, values[off]])
    return coo_array((values, (left, right)), shape=(sizes[0], sizes[1])).tocsr()


def _head(data: bytes, name: str) -> tuple[str, str, bool, list[int], bytes, int]:
    """Layout, field, symmetry, sizes, the lines after them and the number of the first."""
    first, _, rest = data.partition(b"\n")
    words = first.decode("ascii", "replace").lower().split()
    known = (
        len(words) == 5
        and words[:2] == ["%%matrixmarket", "matrix"]
        and words[2] in _SIZES
        and words[3] in FIELDS
        and words[4] in ("general", "symmetric")
        and (words[2] == "coordinate" or (words[3] != "pattern" and words[4] == "general"))
    )
    if not known:
        raise FileFormatError(
            f"{name} cannot be read as Matrix Market: its first line is {' '.join(words)[:80]!r}; it should be like "
            "%%MatrixMarket matrix coordinate integer general"
        )
    number = 1
    while True:
        line, end, rest = rest.partition(b"\n")
        number += 1
        if line.strip() and not line.lstrip().startswith(b"%"):
            break
        if not end:
            raise FileFormatError(f"{name} ends before the line with its sizes; copy it again")
    sizes = line.split()
    if len(sizes) != _SIZES[words[2]] or not all(one.isdigit() and len(one) < 19 for one in sizes):
        raise FileFormatError(
            f"{name}, line {number}: the sizes should be {_SIZES[words[2]]} whole numbers; write it again"
        )
    return words[2], words[3], words[4] == "symmetric", [int(one) for one in sizes], rest, number + 1


def _numbers(body: bytes, names: list[str], name: str, line: int) -> dict[str, Any]:
    """Columns of numbers, each line as many as there are names."""
    plain = _BLANKS.sub(b" ", body.translate(bytes.maketrans(b"\t\r", b"  ")))
    plain = plain.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip()
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(plain),
            read_options=pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=max(len(plain) + 1, 64)),
            parse_options=pa_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[]),
        )
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise FileFormatError(
            f"{name} cannot be read as Matrix Market ({reason_of(error)}; its entries begin in line {line}); write it "
            "again"
        ) from None
    found = {one: table[one].to_numpy() for one in names}
    if not all(np.isfinite(values).all() for values in found.values()):
        raise FileFormatError(f"{name} holds a number that is not finite; write it again")
    return found


def _count(name: str, wanted: int, there: int) -> FileFormatError:
    what = "is truncated" if there < wanted else "is too long"
    return FileFormatError(f"{name} {what}: expected {wanted:,} entries, found {there:,}; copy it again")
