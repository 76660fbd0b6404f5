"""Answers cell by cell: missing cells filled, a column predicted from the others. Observed cells are never changed.

A filled cell is the single best answer: the most probable category, or the expected value of a number. Best answers
are right most often, but a table of them has too little spread and too much association. For what is computed from
the filled table (proportions, correlations) draw the missing cells instead, several times (multiple imputation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.frames import ArrowFrame, as_frame, column, with_missing
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.names import is_missing, missing_of
from latentfit.core.table.table import Column


def column_posterior(mixture: Mixture, posterior: Floats, n: int) -> Floats:
    """P(column n | what each row shows) (rows, categories)."""
    return np.asarray(posterior @ mixture.table[mixture.column_offsets[n] : mixture.column_offsets[n + 1]].T)


Answers = Callable[[Column, int, NDArray[np.bool_]], NDArray[Any]]
# What fills the missing cells: values of column n (as the model knows it) for some rows.


def best_answers(mixture: Mixture, posterior: Floats) -> Answers:
    """The single best answer for every cell."""
    return lambda known, n, rows: best_values(known, column_posterior(mixture, posterior[rows], n))


def drawn_answers(mixture: Mixture, posterior: Floats, rng: np.random.Generator) -> Answers:
    """Draws from the posterior predictive: a class for each row, then its missing cells independently."""
    reached = posterior.cumsum(axis=1)
    classes = (rng.random(len(posterior))[:, None] * reached[:, -1:] >= reached).sum(axis=1)

    def draw(known: Column, n: int, rows: NDArray[np.bool_]) -> NDArray[Any]:
        values = known.categories if known.centres is None else known.centres
        return np.asarray(values[mixture.draw_codes(n, classes[rows], rng)])

    return draw


def best_values(known: Column, probabilities: Floats) -> NDArray[Any]:
    """The most probable category (rows,); of a number that was cut into intervals its expected value, which is
    least in mean squared error. Other numbers may be codes, whose mean means nothing."""
    if known.centres is not None:
        return np.asarray(probabilities @ known.centres)
    return np.asarray(known.categories[probabilities.argmax(axis=1)])


def impute_missing(X: Any, columns: tuple[Column, ...], answers: Answers) -> Any:
    """X in its own kind of container, missing cells of known columns filled.

    Values that the model has never seen stay as they are, and so do columns it does not know.
    """
    frame = as_frame(X)
    if frame is None:
        return _fill_matrix(np.asarray(with_missing(X)), columns, answers)
    filled: dict[Any, Any] = {}
    for n, known in enumerate(columns):
        array = column(frame, known.name)
        missing = missing_of(array)
        if missing.any():
            filled[known.name] = _filled(array, missing, answers(known, n, missing))
    return _with_columns(X, frame, filled)


def imputed_values(X: Any, columns: tuple[Column, ...], mixture: Mixture, posterior: Floats) -> dict[str, Any]:
    """One entry per missing value of a known column, column by column: row (from 0), column, value, probability.

    The probability is that of the category, or of the interval in which an expected value lies.
    """
    frame, X = as_frame(X), with_missing(X)
    rows, names, values, best_probability = [], [], [], []
    for n, known in enumerate(columns):
        missing = (
            missing_of(column(frame, known.name)) if frame is not None else _missing_in_matrix(np.asarray(X), known)
        )
        probabilities = column_posterior(mixture, posterior[missing], n)
        best = best_values(known, probabilities)
        rows.append(np.flatnonzero(missing))
        names += [str(known.name)] * len(probabilities)
        values += [str(value) if known.edges is None else f"{value:.6g}" for value in best.tolist()]
        at = probabilities.argmax(axis=1) if known.edges is None else np.searchsorted(known.edges, best, side="right")
        best_probability.append(probabilities[np.arange(len(best)), at])
    return {
        "row": np.concatenate(rows), "column": np.array(names, object), "value": np.array(values, object),
        "probability": np.concatenate(best_probability),
    }  # fmt: skip


def _filled(array: Any, missing: NDArray[np.bool_], imputed: NDArray[Any]) -> Any:
    """The arrow column with its missing values filled, in its own type where the categories allow it."""
    if isinstance(array.type, pa.DictionaryType):
        whole = _filled(array.cast(array.type.value_type), missing, imputed)
        return _as_dictionary(whole, array.dictionary, array.type)
    kind = array.type
    if pa.types.is_null(kind):
        return pa.array(imputed.tolist())
    values: list[Any] = imputed.tolist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = _spelled(imputed, pc.unique(array).to_pylist())
    elif pa.types.is_integer(kind) and imputed.dtype.kind == "f":
        values = [round(value) for value in values]
    elif imputed.dtype.kind == "O" and not _spells(values, kind):  # numbers under a model of text: all become text
        array, kind = _worded(array), pa.string()
    return pc.replace_with_mask(array, pa.array(missing), pa.array(values).cast(kind))


def _spells(imputed: list[Any], kind: pa.DataType) -> bool:
    """Whether the categories are dates or times as the model keeps them, which can be read again."""
    try:
        return bool(pa.types.is_temporal(kind) and pa.array(imputed).cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _worded(array: Any) -> Any:
    """Numbers as text; dates and times spelled as the model spells them."""
    if not pa.types.is_temporal(array.type):
        return array.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())


def _as_dictionary(array: Any, known: Any, kind: pa.DictionaryType) -> Any:
    """A column of categories again: its own in their order, then the other categories of the model."""
    if array.type != kind.value_type:
        return array
    new = pc.unique(array).filter(pc.invert(pc.is_in(pc.unique(array), value_set=known)))
    imputed = pa.concat_arrays([known, new])
    return pa.DictionaryArray.from_arrays(pc.index_in(array, value_set=imputed), imputed, ordered=kind.ordered)


def _spelled(imputed: NDArray[Any], seen: Iterable[Any]) -> list[str]:
    """Categories as text; numbers as the column itself spells them, where it does (`1.50`)."""
    spelling: dict[float, str] = {}
    if imputed.dtype.kind in "iuf":
        for text in sorted(text for text in seen if isinstance(text, str)):
            with suppress(ValueError):
                spelling.setdefault(float(text), text)
    return [
        value
        if isinstance(value, str)
        else spelling.get(value, f"{value:g}" if isinstance(value, float) else str(value))
        for value in imputed.tolist()
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


def _missing_in_matrix(matrix: NDArray[Any], known: Column) -> NDArray[np.bool_]:
    cells = matrix[:, int(known.name)]
    return np.isnan(cells) if cells.dtype.kind == "f" else np.array([is_missing(cell) for cell in cells], bool)


def _fill_matrix(matrix: NDArray[Any], columns: tuple[Column, ...], answers: Answers) -> Any:
    out = matrix.copy()
    for n, known in enumerate(columns):
        missing = _missing_in_matrix(matrix, known)
        if missing.any():
            imputed = answers(known, n, missing)
            seen = set(matrix[~missing, int(known.name)].tolist())
            text = any(isinstance(value, str) for value in seen)
            out[missing, int(known.name)] = _spelled(imputed, seen) if text else imputed
    return out
