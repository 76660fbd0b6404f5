"""Names of a column that comes batch by batch → codes, the list of names growing while reading.

A code is a name's place in the order of appearance. What the names are (words, whole numbers, an order of their own)
is decided when all have been seen, by the rules for a column in memory (`names.encode`), so a column in pieces has the
names of the whole column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.names import Names, dictionary_codes, encode, from_names, objects, single_cells, to_arrow
from latentfit.io.integers import integers_if_canonical

Codes = NDArray[np.int32]


@dataclass
class GrowingNames:
    """Names seen so far; `text` came from a format without types, where whole numbers spell themselves."""

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
