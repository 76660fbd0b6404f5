"""A column of any type → numbers; text that spells numbers is converted, since CSV decimals are read as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.names import are_words, decoded

MISSING_WORDS = ("na", "n/a", "#n/a", "nan", "null")
"""Words for missing values in other programs, in lower case; here only an empty cell is missing."""


def is_missing_word(word: Any) -> bool:
    """Whether a word means missing in another program; "none" in lower case is an answer."""
    return str(word).lower() in MISSING_WORDS or word == "None"


_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")


def as_numbers(
    array: Any, where: str, advice: str, before: int = 0, place: Callable[[int], str] | None = None
) -> Floats:
    """Floats with NaN for missing values; `where` names the column in errors about text that is not a number.

    Blank cells are missing, true and false are 1 and 0. `before` is the number of preceding rows; where rows are not
    counted like that, `place` describes the place of a cell.
    """
    array = decoded(array)
    if are_words(array.type):
        array = pc.utf8_trim_whitespace(array)
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    try:
        numbers = array.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not are_words(array.type):
            raise DataError(f"{where} holds {array.type}, not numbers; {advice}") from None
        listed = array.to_pylist()
        spelled = worth_of("nan" if word is None else word for word in listed)
        wrong = [
            at for at, word in enumerate(listed) if word is not None and np.isnan(spelled[at]) and word.lower() != "nan"
        ]
        if wrong:
            word = listed[wrong[0]]
            there = f" in row {before + wrong[0] + 1}" if place is None else place(wrong[0])
            raise DataError(f"{where} holds {word!r}{there}, no number; {_suggestion(word, advice)}") from None
        return spelled
    return np.asarray(pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False), np.float64)


def _suggestion(word: str, advice: str) -> str:
    if is_missing_word(word) or not any(character.isalnum() for character in word):
        return f"where nothing is known leave the cell empty, or give --missing {quote(word)} if it means that"
    if _THOUSANDS.fullmatch(word):
        return "write decimals with a point, and thousands without a comma"
    return "write decimals with a point" if _COMMA.fullmatch(word) else advice


def worth_of(words: Iterable[Any]) -> Floats:
    """The numbers that words spell; NaN where it is not a number."""
    return np.array([_worth(word) for word in words], np.float64)


def _worth(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")


def is_amount(setting: Any) -> bool:
    """Whether a setting is a finite number, zero or more."""
    return isinstance(setting, int | float | np.integer | np.floating) and bool(0 <= setting < np.inf)
