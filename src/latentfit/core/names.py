"""One column of any type → integer codes and the user's names for them.

Names keep their type (integers stay integers) and are sorted, so the order of rows never decides the order
of classes or workers. Missing values (null, NaN) get code -1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning
from latentfit.io.values import integers_if_canonical

Names = NDArray[Any]
KINDS: dict[str, Any] = {"O": object, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool}
"""Types of names by numpy's letters."""

LARGEST_EXACT = 2.0**53
"""Above it a float64 does not hold every integer, and sums of counts would be silently wrong."""
LONGEST_NAME = 10_000
"""Characters of the longest name kept: a longer one is a broken file (an unclosed quote), not a label."""


def to_arrow(values: Any, what: str) -> pa.Array:
    """Any one-dimensional column as one pyarrow array; strings, integers, floats or booleans."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    try:
        if isinstance(values, list | tuple):
            values = objects(values)  # pyarrow would import pandas to look at a list
        elif isinstance(values, np.ndarray) and values.dtype.kind == "U":
            values = values.astype(object)
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # Mixed types: 1 and "1" are the same name, as they would be in a CSV file.
        flat = [None if is_missing(v) else str(v) for v in values]
        return pa.array(flat, pa.string())
    except (TypeError, ValueError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"the {what} column holds no names ({error}); give strings or numbers") from error


def is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA: whether it equals itself is not known either
        return True


def missing_of(array: Any) -> NDArray[np.bool_]:
    """Which cells of an arrow column are missing."""
    missing = pc.is_null(array, nan_is_null=pa.types.is_floating(array.type))
    return np.asarray(missing.to_numpy(zero_copy_only=False), bool)


def single_cells(array: pa.Array, what: str) -> pa.Array:
    """A column of scalar cells: lists are refused, NaN becomes missing."""
    if pa.types.is_nested(array.type):
        raise DataError(f"the {what} column holds {array.type}; give one text or number per cell")
    if not pa.types.is_floating(array.type):
        return array
    if pa.types.is_float16(array.type):  # pyarrow knows little of halves, older ones not even how to make them whole
        array = pa.array(array.to_numpy(zero_copy_only=False).astype(np.float32), from_pandas=True)
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def encode(values: Any, what: str, *, sort: bool = True) -> tuple[NDArray[np.int32], Names]:
    """Codes (-1: missing) and names of a column; names sorted, or in order of appearance."""
    array = single_cells(to_arrow(values, what), what)
    if pa.types.is_floating(array.type) and array.null_count < len(array):
        whole = pc.all(pc.equal(pc.floor(array), array)).as_py() and pc.max(pc.abs(array)).as_py() <= LARGEST_EXACT
        array = array.cast(pa.int64()) if whole else array  # 1.0 beside missing values was an integer column
    ordered = isinstance(array.type, pa.DictionaryType) and array.type.ordered
    coded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    codes = dictionary_codes(coded, -1)
    names = _as_names(coded.dictionary, what)
    used = np.zeros(len(names), bool)
    used[codes[codes >= 0]] = True
    given = isinstance(array, pa.DictionaryArray) and not ordered  # its names stand in any order
    if used.all() and (ordered or not sort) and not given:
        return codes, names
    keep = np.flatnonzero(used)
    if sort and not ordered:
        keep = keep[np.argsort(names[keep], kind="stable")]
    elif given:
        first = np.empty(len(names) + 1, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        keep = keep[np.argsort(first[keep], kind="stable")]
    recode = np.full(len(names) + 1, -1, np.int32)  # the last entry serves code -1
    recode[keep] = np.arange(len(keep), dtype=np.int32)
    return recode[codes], names[keep]


def warn_similar_names(lists: Mapping[str, Names]) -> None:
    """Warn of two names in one list that differ only by case or by blanks at an end."""
    for where, names in lists.items():
        seen: dict[str, str] = {}
        for name in names.tolist() if names.dtype.kind == "O" else ():
            first = seen.setdefault(str(name).strip().casefold(), name)
            if first is not name:
                warnings.warn(
                    f"{where} {first!r} and {name!r}, which count as two; spell them alike if they are one",
                    DataWarning,
                    stacklevel=5,
                )
                return


def warn_row_names(column: str, name: str | int, why: str, stacklevel: int) -> None:
    """Warn of a `column` of row ids; `stacklevel` points at the user's line."""
    warnings.warn(
        f"{column} {name!r} {why}, so it identifies rows and cannot be a variable; leave it out "
        f"(--drop {quote(str(name))}), or give --id {quote(str(name))} on the command line",
        DataWarning,
        stacklevel=stacklevel,
    )


def match(values: Any, names: Names, what: str) -> NDArray[np.int32]:
    """Codes of a column under known names; -1 for missing and for values not among them."""
    codes, found = encode(values, what)
    known = {name: code for code, name in enumerate(names.tolist())}
    if len(found) and len(names) and isinstance(names[0], str) != isinstance(found[0], str):
        known = {str(name): code for name, code in known.items()}
        found = np.array([str(name) for name in found.tolist()], object)
    recode = np.array([*(known.get(name, -1) for name in found.tolist()), -1], np.int32)
    return recode[codes]


def from_names(values: Any) -> pa.Array:
    """A column of results as pyarrow holds it, built from its buffers: `pyarrow.array` would import pandas first."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    values = np.ascontiguousarray(values)
    if values.dtype.kind in "iuf":
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if values.dtype.kind == "O" and all(type(value) is str for value in values.tolist()):
        words = [value.encode() for value in values.tolist()]
        ends = np.concatenate([[0], np.cumsum([len(word) for word in words], dtype=np.int64)])
        if ends[-1] < 2**31:
            offsets = pa.py_buffer(ends.astype(np.int32))
            return pa.StringArray.from_buffers(len(words), offsets, pa.py_buffer(b"".join(words)))
    return pa.array(values)


def plain(name: Any) -> Any:
    """A name as Python writes it."""
    return name.item() if isinstance(name, np.generic) else name


def repeated(names: Iterable[Any]) -> Any:
    """The first repeated name, None if there is none."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def are_words(kind: Any) -> bool:
    """Whether a type is text; dictionaries of text are categories and not meant."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def decoded(array: Any) -> Any:
    """A column with its dictionary, if it has one, decoded."""
    return array.cast(array.type.value_type) if isinstance(array.type, pa.DictionaryType) else array


def objects(values: Iterable[Any]) -> Names:
    """An array with one place for each value, whatever the values are: numpy would stack lists of one length."""
    return np.array([*values, None], object)[:-1]


def interval_names(edges: NDArray[np.float64]) -> Names:
    """Names of the intervals between increasing edges."""
    inner = [f"{edge:g}" for edge in edges]
    if len(set(inner)) < len(inner):  # six digits do not tell the edges apart
        inner = [repr(float(edge)) for edge in edges]
    middle = [f"[{low}, {high})" for low, high in pairwise(inner)]
    return np.array([f"< {inner[0]}", *middle, f">= {inner[-1]}"], object)


def typed_names(kind: str, values: Iterable[Any]) -> Names:
    """Names again from a list and the letter of their type, as a file's header holds them."""
    return objects(values).astype(KINDS[kind])


def dictionary_codes(coded: Any, missing: int) -> NDArray[np.int32]:
    """Indices of a dictionary array, `missing` where there is none; pyarrow's own ways would import pandas."""
    codes = _numbers(coded.indices).astype(np.int32, copy=False)
    return np.where(_present(coded.indices), codes, np.int32(missing)) if coded.indices.null_count else codes


def _numbers(array: pa.Array) -> NDArray[Any]:
    """The numbers of an array as they lie in memory; `to_numpy` would import pandas on the way."""
    letter = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    dtype = np.dtype(f"{letter}{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1], dtype, count=array.offset + len(array))[array.offset :]


def _present(array: pa.Array) -> NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


def _as_names(dictionary: pa.Array, what: str) -> Names:
    kind = dictionary.type
    if are_words(kind):
        longest = pc.max(pc.utf8_length(dictionary)).as_py() or 0
        if longest > LONGEST_NAME:
            raise long_name(what, longest)
        return np.array(dictionary.to_pylist(), object)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(dictionary)
    if pa.types.is_boolean(kind):
        return np.array(dictionary.to_pylist(), bool)
    if pa.types.is_null(kind):
        return np.empty(0, object)
    return np.array([str(value) for value in dictionary.to_pylist()], object)


def long_name(what: str, longest: int) -> DataError:
    """The error for a name that is too long."""
    return DataError(
        f"the {what} column holds a name of {longest:,} characters, at most {LONGEST_NAME:,} make sense; "
        "look for an unclosed quote in the file"
    )


# -----------------------------------------------------------------------------
# Names of a column that comes batch by batch → codes, the list of names growing while reading.
#
# A code is a name's place in the order of appearance. What the names are (words, whole numbers, an order of their own)
# is decided when all have been seen, by the rules for a column in memory (`names.encode`), so a column in pieces has
# the names of the whole column.

Codes = NDArray[np.int32]


@dataclass
class GrowingNames:
    """Names seen so far; `text` says that they come from a format without types, where integers are text."""

    what: str
    text: bool = False
    place: dict[Any, int] = field(default_factory=dict)
    order: Any = None  # the dictionary that every batch had, if it has an order of its own; False: they differ

    def code(self, values: Any) -> Codes:
        """Codes of one batch, -1 for what is missing."""
        return self.count(values)[0]

    def count(self, values: Any, *, in_order: bool = True) -> tuple[Codes, Codes, NDArray[np.int64]]:
        """Codes of one batch, the names among them, and how often each occurs.

        Without `in_order` new names of a batch may get their codes in another order than they appear.
        """
        coded = as_dictionary(values, self.what)
        if self.order is not False:
            self._see_order(coded)
        size = len(coded.dictionary)
        codes = dictionary_codes(coded, size)
        seen = np.bincount(codes, minlength=size + 1)
        there = np.flatnonzero(seen[:size])
        if in_order and len(there) > 1:  # a file's dictionary may list names in another order than they appear
            first = np.empty(size + 1, np.int64)
            first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
            there = there[np.argsort(first[there], kind="stable")]
        whole = len(there) == size and not in_order
        words = (coded.dictionary if whole else coded.dictionary.take(from_names(there))).to_pylist()
        place = self.place
        ours = np.array([-1 if word is None else place.setdefault(word, len(place)) for word in words], np.int32)
        recode = np.full(size + 1, -1, np.int32)
        recode[there] = ours
        named = ours >= 0
        return recode[codes], ours[named], seen[there[named]]

    def words(self) -> Any:
        """All names as one typed array, in the order of appearance."""
        listed: list[Any] = list(self.place)
        kinds = {type(word) for word in listed}
        if kinds == {int, float}:
            listed = [float(word) for word in listed]
        elif len(kinds) > 1:
            listed = [str(word) for word in listed]  # 1 and "1" are the same name, as in a CSV file
        if self.order not in (None, False):
            indices = pc.index_in(pa.array(listed, self.order.type), self.order)
            return pa.DictionaryArray.from_arrays(indices, self.order, ordered=True)
        array = from_names(objects(listed)) if kinds == {str} else pa.array(listed)
        if self.text and len(array):
            return integers_if_canonical(pa.chunked_array([array])).combine_chunks()
        return array

    def settled(self, *, sort: bool = True) -> tuple[Codes, Names]:
        """Our codes → codes among the names (the last entry serves -1), and the names: sorted, or as they appeared."""
        codes, names = encode(self.words(), self.what, sort=sort)
        return np.append(codes, np.int32(-1)), names

    def _see_order(self, coded: Any) -> None:
        if not coded.type.ordered:
            self.order = False
        elif self.order is None:
            self.order = coded.dictionary
        elif not self.order.equals(coded.dictionary):
            self.order = False


def as_dictionary(values: Any, what: str) -> Any:
    """A column as a dictionary array; a number that is none is missing."""
    array = single_cells(to_arrow(values, what), what)
    return array if isinstance(array.type, pa.DictionaryType) else array.dictionary_encode()
