"""Answers cell by cell: gaps filled, a column predicted from the others. A cell that holds a value is never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.data.frames import ArrowFrame, as_frame, column, with_gaps
from tacit.data.names import gaps_of, is_gap
from tacit.data.table import Column
from tacit.engine.mixture import Mixture
from tacit.kernels import Floats


def column_beliefs(mixture: Mixture, posterior: Floats, n: int) -> Floats:
    """P(column n | what each row shows) (rows, categories)."""
    return np.asarray(posterior @ mixture.table[mixture.first[n] : mixture.first[n + 1]].T)


def fill_gaps(X: Any, columns: tuple[Column, ...], mixture: Mixture, posterior: Floats) -> Any:
    """X in its own kind of container, gaps of known columns filled by their most probable category.

    Values that the model has never seen stay as they are, and so do columns it does not know. In a column cut into
    intervals a gap gets the mean of the training values of its most probable interval.
    """
    frame = as_frame(X)
    if frame is None:
        return _fill_matrix(np.asarray(with_gaps(X)), columns, mixture, posterior)
    filled: dict[Any, Any] = {}
    for n, known in enumerate(columns):
        array = column(frame, known.name)
        gaps = gaps_of(array)
        if gaps.any():
            words = _best(known, column_beliefs(mixture, posterior[gaps], n))
            filled[known.name] = _filled(array, gaps, words)
    return _with_columns(X, frame, filled)


def gap_answers(X: Any, columns: tuple[Column, ...], mixture: Mixture, posterior: Floats) -> dict[str, Any]:
    """One entry per gap of a known column, column by column: row (from 0), column, value, probability."""
    frame, X = as_frame(X), with_gaps(X)
    rows, names, values, chances = [], [], [], []
    for n, known in enumerate(columns):
        gaps = gaps_of(column(frame, known.name)) if frame is not None else _matrix_gaps(np.asarray(X), known)
        beliefs = column_beliefs(mixture, posterior[gaps], n)
        rows.append(np.flatnonzero(gaps))
        names += [str(known.name)] * len(beliefs)
        values += [str(value) for value in _best(known, beliefs).tolist()]
        chances.append(beliefs.max(axis=1))
    return {
        "row": np.concatenate(rows), "column": np.array(names, object), "value": np.array(values, object),
        "probability": np.concatenate(chances),
    }  # fmt: skip


def _best(known: Column, beliefs: Floats) -> NDArray[Any]:
    words = known.categories if known.centres is None else known.centres
    return np.asarray(words[beliefs.argmax(axis=1)])


def _filled(array: Any, gaps: NDArray[np.bool_], words: NDArray[Any]) -> Any:
    """The arrow column with its gaps filled, in its own type where the words allow it."""
    if isinstance(array.type, pa.DictionaryType):
        whole = _filled(array.cast(array.type.value_type), gaps, words)
        return _as_dictionary(whole, array.dictionary, array.type)
    kind = array.type
    if pa.types.is_null(kind):
        return pa.array(words.tolist())
    values: list[Any] = words.tolist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = _spelled(words, pc.unique(array).to_pylist())
    elif pa.types.is_integer(kind) and words.dtype.kind == "f":
        values = [round(value) for value in values]
    elif words.dtype.kind == "O" and not _spells(values, kind):  # numbers met a model of words: all become words
        array, kind = _worded(array), pa.string()
    return pc.replace_with_mask(array, pa.array(gaps), pa.array(values).cast(kind))


def _spells(words: list[Any], kind: pa.DataType) -> bool:
    """Whether the words are dates or times as the model keeps them, which can be read again."""
    try:
        return bool(pa.types.is_temporal(kind) and pa.array(words).cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _worded(array: Any) -> Any:
    """Numbers as words; dates and times spelled as the model spells them."""
    if not pa.types.is_temporal(array.type):
        return array.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())


def _as_dictionary(array: Any, known: Any, kind: pa.DictionaryType) -> Any:
    """A column of categories again: its own in their order, then what the model knows beside them."""
    if array.type != kind.value_type:
        return array
    new = pc.unique(array).filter(pc.invert(pc.is_in(pc.unique(array), value_set=known)))
    words = pa.concat_arrays([known, new])
    return pa.DictionaryArray.from_arrays(pc.index_in(array, value_set=words), words, ordered=kind.ordered)


def _spelled(words: NDArray[Any], seen: Iterable[Any]) -> list[str]:
    """Categories as text; numbers as the column itself spells them, where it does (`1.50`)."""
    spelling: dict[float, str] = {}
    if words.dtype.kind in "iuf":
        for word in sorted(word for word in seen if isinstance(word, str)):
            with suppress(ValueError):
                spelling.setdefault(float(word), word)
    return [
        value
        if isinstance(value, str)
        else spelling.get(value, f"{value:g}" if isinstance(value, float) else str(value))
        for value in words.tolist()
    ]


def _with_columns(X: Any, frame: Any, filled: Mapping[Any, Any]) -> Any:
    """The caller's frame with some columns replaced; pandas keeps its index."""
    if isinstance(frame, ArrowFrame):
        table = frame.table
        for name, array in filled.items():
            table = table.set_column(table.column_names.index(name), name, array)
        return table
    if frame.implementation.is_pandas():
        changed = nw.to_native(frame).copy()
        for name, array in filled.items():
            series = array.to_pandas()
            series = series if series.dtype == "category" else _as_it_was(series, changed[name].dtype)
            changed[name] = series.set_axis(changed.index)
        return changed
    if not filled:
        return nw.to_native(frame)
    new = nw.from_arrow(pa.table(dict(filled)), backend=frame.implementation)
    for name, own in frame.schema.items():
        if name in filled and isinstance(own, nw.Enum) and set(new[name]) <= set(own.categories):
            new = new.with_columns(nw.col(name).cast(own))
    return nw.to_native(frame.with_columns(*(new[name] for name in filled)))


def _as_it_was(series: Any, own: Any) -> Any:
    """A pandas column in the type it had, where that holds all of its values; intervals went as they are written."""
    if own == "category":
        known = {str(one): one for one in own.categories}
        return series.map(known).astype(own) if set(series) <= set(known) else series
    with suppress(TypeError, ValueError):
        return series.astype(own)
    return series


def _matrix_gaps(matrix: NDArray[Any], known: Column) -> NDArray[np.bool_]:
    cells = matrix[:, int(known.name)]
    return np.isnan(cells) if cells.dtype.kind == "f" else np.array([is_gap(cell) for cell in cells], bool)


def _fill_matrix(matrix: NDArray[Any], columns: tuple[Column, ...], mixture: Mixture, posterior: Floats) -> Any:
    out = matrix.copy()
    for n, known in enumerate(columns):
        gaps = _matrix_gaps(matrix, known)
        if gaps.any():
            words = _best(known, column_beliefs(mixture, posterior[gaps], n))
            seen = set(matrix[~gaps, int(known.name)].tolist())
            text = any(isinstance(value, str) for value in seen)
            out[gaps, int(known.name)] = _spelled(words, seen) if text else words
    return out
