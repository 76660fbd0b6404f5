"""Sequences of symbols: codes in one array, where each sequence begins, and the names of both.

Accepted: one sequence of symbols (an array, a list of words, a text, whose characters are its symbols); a list of
sequences; one long array with ``lengths=`` or with ``groups=``, an id for every observation; a frame with a column of
symbols and, unless it is one sequence, a column that says which sequence a row belongs to (sequence, user, session, a
name that ends in "id" …); a `latentfit.scan` of such files, or of texts with one sequence per line, of which only
codes are held. Rows are in order of time, unless a column tells the time: then the steps of a sequence are sorted by
it, and those of the same time keep the order of their rows.

Rules: symbols are any words or numbers and keep their type; a missing symbol (null, NaN) is an observation that
was not made: time passes and nothing is seen. Rows of one sequence need not stand together. Symbols are ordered by
name, sequences as they first appear. An empty sequence is kept.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning
from latentfit.core.frames import Columns, Roles, as_frame, columns_by_role, find_roles, unused_columns
from latentfit.core.kernels.hmm import MISSING, Chains
from latentfit.core.names import GrowingNames, Names, are_words, decoded, encode, match, missing_of, to_arrow
from latentfit.core.numbers import worth_of
from latentfit.io.scan import Scan
from latentfit.io.text_lines import fasta_pieces, is_fasta

ALIASES = {
    "sequence": (
        "sequence", "sequence_id", "seq", "series", "sentence", "session", "session_id", "user", "user_id", "userid",
        "customer", "customer_id", "client", "client_id", "visitor", "visitor_id", "patient", "patient_id", "subject",
        "subject_id", "student", "student_id", "device", "device_id", "case", "case_id", "group", "id",
    ),
    "symbol": (
        "symbol", "observation", "token", "word", "letter", "event", "event_type", "event_name", "action", "activity",
        "value",
    ),
    "time": (
        "timestamp", "datetime", "date_time", "time", "date", "ts", "event_time", "created_at", "position", "step",
        "time_step", "timestep", "t",
    ),
}  # fmt: skip
DECIMALS, MANY_DECIMALS = 10, 5.0
"""So many different decimal numbers, each met fewer times than this on average, are measurements and no symbols."""

DUPLICATE_STEPS, DUPLICATED = 10, 0.2
"""Least length of a sequence that counts as a duplicate, and the proportion of duplicated steps that matters."""

FEW_DIFFERENT, ROOM = 5, 100.0
"""Fewer different sequences than this, where the symbols leave room for so many, are few however often they recur."""

Clock = tuple[str, NDArray[Any]]
"""The name of a column of times, and numbers that sort like them, one per row."""
Apart = tuple[Any, Any, list[int] | None, Clock | None, tuple[str, ...]]
"""Symbols, ids, lengths and times of an input, and notes on how it was read."""


@dataclass(frozen=True)
class Sequences:
    """Sequence s is ``codes[offsets[s]:offsets[s + 1]]``; code −1 is a missing value."""

    codes: NDArray[np.int32]  # (N,)
    offsets: NDArray[np.int64]  # (S + 1,)
    symbols: Names  # (M,)
    names: Names  # (S,)
    rows: NDArray[np.int64] | None = None  # (N,) the input's row of every observation, None where they are in order
    notes: tuple[str, ...] = ()  # what was understood of the input, for the report

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_symbols(self) -> int:
        return len(self.symbols)

    @property
    def n_steps(self) -> int:
        """Places in time, missing values among them."""
        return len(self.codes)

    @cached_property
    def n_observed(self) -> int:
        return int((self.codes >= 0).sum())

    @cached_property
    def chains(self) -> Chains:
        """As the kernels take them."""
        return Chains(self.codes, self.offsets, self.n_symbols)

    def counts(self) -> NDArray[np.int64]:
        """How often each symbol occurs (M,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=self.n_symbols)

    def sequence_of(self) -> NDArray[np.int64]:
        """The sequence of every step."""
        return np.repeat(np.arange(self.n_sequences), np.diff(self.offsets))

    def positions(self) -> NDArray[np.int64]:
        """The place of every step in its sequence, from 1."""
        return np.arange(1, self.n_steps + 1) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    def within(self, distance: int) -> NDArray[np.int64]:
        """Steps t such that t and t + distance are of one sequence."""
        last = np.repeat(self.offsets[1:], np.diff(self.offsets))
        return np.flatnonzero(np.arange(self.n_steps) + distance < last)

    def pairs(self, distance: int = 1) -> sp.csr_array:
        """Counts (M, M) of symbol i followed by symbol j, `distance` steps later; pairs with a missing value are not
        counted."""
        at = self.within(distance)
        first, second = self.codes[at], self.codes[at + distance]
        seen = (first >= 0) & (second >= 0)
        size = self.n_symbols
        flat = first[seen].astype(np.int64) * size + second[seen]
        if size * size <= max(4 * len(flat), 10**6):  # a small alphabet is counted into its table
            return sp.csr_array(np.bincount(flat, minlength=size * size).reshape(size, size))
        cells, counts = np.unique(flat, return_counts=True)
        starts = np.searchsorted(cells // size, np.arange(size + 1))
        return sp.csr_array((counts, (cells % size).astype(np.int32), starts.astype(np.int32)), shape=(size, size))

    def slices(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Sequences:
        """Stretches of the codes as sequences of their own, without names; none may cross a sequence's end."""
        lengths = ends - begins
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        return replace(self, codes=self.codes[at], offsets=offsets, names=np.arange(1, len(begins) + 1), rows=None)

    def in_input_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of every step, in the order of the input's rows."""
        if self.rows is None:
            return values
        out = np.empty_like(values)
        out[self.rows] = values
        return out


def read_sequences(
    data: Any,
    *,
    lengths: Any = None,
    groups: Any = None,
    columns: Columns = None,
    symbols: Names | None = None,
    what: str = "X",
) -> Sequences:
    """Sequences of any accepted kind; with `symbols` (those of a fit) all others are read as missing, with a
    warning."""
    if isinstance(data, Sequences):
        sequences = data
    elif isinstance(data, Scan):
        if lengths is not None or groups is not None:
            raise DataError(f"{what} are files, which say where sequences begin; leave lengths= and groups= out")
        sequences = _from_lines(data) if data.text else _from_scan(data, columns, what)
    else:
        data = list(data) if isinstance(data, Iterator) else data
        values, ids, of_lists, clock, notes = _take_apart(data, columns, what)
        if sum(given is not None for given in (lengths, groups, ids if ids is not None else of_lists)) > 1:
            raise DataError(
                f"{what} says in two ways where sequences begin; give lengths=, groups=, a list of sequences or a "
                "column of sequences, one of them"
            )
        sequences = _assemble(
            values, lengths if lengths is not None else of_lists, groups if ids is None else ids, what
        )
        sequences = replace(sequences, notes=notes)
        if clock is not None:
            if lengths is not None:
                raise DataError(
                    f"{what} has the column {clock[0]!r}, by which steps are sorted, and lengths= counts rows; give "
                    "the sequence of every row in a column, or leave the time out"
                )
            sequences = _in_time(sequences, clock[1], clock[0])
    return sequences if symbols is None else _under(sequences, symbols, what)


def _take_apart(data: Any, columns: Columns, what: str) -> Apart:
    """Symbols of all steps; ids of their sequences, lengths of a list's sequences, the time of every step, or None."""
    if isinstance(data, str):
        return list(data), None, None, None, ()
    frame = as_frame(data)
    if frame is not None:
        values, ids, clock, notes = _from_frame(frame, columns, what)
        return values, ids, None, clock, notes
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data, None, None, None, ()
    if isinstance(data, list | tuple) and any(_is_sequence(one) for one in data):
        stray = next((place for place, one in enumerate(data) if not _is_sequence(one)), None)
        if stray is not None:
            raise DataError(
                f"{what} mixes sequences with single symbols ({data[stray]!r} at place {stray + 1}); "
                "give a list of lists, or one list of symbols"
            )
        parts = [_flat(one, what) for one in data]
        sizes = [len(part) for part in parts]
        if all(isinstance(part, np.ndarray) and part.dtype.kind in "iufb" for part in parts):
            return np.concatenate(parts), None, sizes, None, ()
        return list(itertools.chain.from_iterable(_listed(part) for part in parts)), None, sizes, None, ()
    if isinstance(data, list | tuple):
        return list(data), None, None, None, ()
    if sp.issparse(data):
        raise DataError(f"{what} is a sparse matrix, and sequences have one symbol per step; give their symbols")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise DataError(f"{what} holds no sequence of symbols ({error}); give a list of symbols") from error
    return _flat(array, what), None, None, None, ()


def _is_sequence(one: Any) -> bool:
    return isinstance(one, list | tuple | pa.Array | pa.ChunkedArray) or (isinstance(one, np.ndarray) and one.ndim > 0)


def _listed(part: Any) -> list[Any]:
    return list(part.to_pylist() if isinstance(part, pa.Array | pa.ChunkedArray) else part)


def _flat(one: Any, what: str) -> Any:
    if not isinstance(one, np.ndarray):
        return one
    if one.ndim == 2 and one.shape[1] == 1:  # as hmmlearn takes it
        return one[:, 0]
    if one.ndim != 1:
        raise DataError(
            f"{what} holds an array of shape {one.shape}, and a sequence is one symbol after another; give a list of "
            "sequences, or one column with lengths="
        )
    return one


def _roles(names: list[str], columns: Columns, what: str) -> Roles:
    """Which column holds the symbols, and which the sequences and the time, if any does."""
    roles = find_roles(names, ALIASES, columns)
    if roles["sequence"] is None:
        free = [name for name in names if name not in roles.values()]
        ids = [name for name in free if name.strip().lower().endswith(("_id", " id"))]
        roles["sequence"] = ids[0] if len(ids) == 1 else None
    if roles["symbol"] is None:
        left = [name for name in names if name not in roles.values()]
        if len(left) != 1 and len(names) == 1:  # one column, whatever it is called
            return roles | {"symbol": names[0], "sequence": None, "time": None}
        if len(left) != 1:
            raise DataError(
                f"no column for the symbol among {names[:12]} of {what}; call it symbol, or name it with "
                "columns={'symbol': '…'} (--symbol on the command line)"
            )
        roles["symbol"] = left[0]
    others = [name for name in names if name not in roles.values()]
    if roles["sequence"] is None and others:
        warnings.warn(
            f"{what} was read as one sequence, since no column is called sequence; if {others[0]!r} says which one a "
            f"row belongs to, give columns={{'sequence': {others[0]!r}}} (--sequence on the command line)",
            DataWarning,
            stacklevel=5,
        )
    return roles


def _unused(names: list[str], roles: Roles) -> tuple[str, ...]:
    """A note about columns that play no role; where all rows are one sequence a warning named them already."""
    advice = "" if roles["time"] else "; if one tells the order of the steps, name it as their time (--time)"
    return unused_columns(names, roles, advice) if roles["sequence"] is not None else ()


def _from_frame(frame: Any, columns: Columns, what: str) -> tuple[Any, Any, Clock | None, tuple[str, ...]]:
    names = [str(name) for name in frame.columns]
    roles = _roles(names, columns, what)
    parts = columns_by_role(frame, roles)
    clock = None
    if (name := roles["time"]) is not None:
        clock = name, _times(parts["time"], _kind_of_time(parts["time"], name, what), name, what)
    return parts["symbol"], parts.get("sequence"), clock, _unused(names, roles)


def _kind_of_time(array: Any, name: str, what: str) -> pa.DataType:
    """What a column of times is read as: numbers as they are, text as numbers or as dates of ISO 8601."""
    kind = decoded(array).type
    if not are_words(kind):
        return pa.float64() if pa.types.is_integer(kind) or pa.types.is_floating(kind) else kind
    words = pc.drop_null(decoded(array))[:1]
    if not len(words):
        raise _no_time(name, what, "", 1)
    for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")):
        if _reads_as(words, kind):
            return kind
    raise _no_time(name, what, str(words[0]), 0)


def _no_time(name: str, what: str, word: str, row: int) -> DataError:
    where = f" in row {row}" if row else ""
    return DataError(
        f"column {name!r} of {what} holds {word!r}{where}, which is neither a number nor a date that can be sorted; "
        "write dates like 2024-03-31 17:05, or sort the rows and leave the column out"
    )


def _times(array: Any, kind: pa.DataType, name: str, what: str, before: int = 0) -> NDArray[Any]:
    """Numbers that sort like the times (N,); every row must have one."""
    plain = decoded(array)
    missing = missing_of(plain)
    if missing.any():
        raise _no_time(name, what, "", before + int(missing.argmax()) + 1)
    try:
        times = plain.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        wrong = next(at for at, word in enumerate(plain) if not _reads_as(word, kind))
        raise _no_time(name, what, str(plain[wrong]), before + wrong + 1) from None
    if not pa.types.is_floating(times.type):
        times = times.cast(pa.int32() if times.type.bit_width == 32 else pa.int64())
    return np.asarray(times.to_numpy(zero_copy_only=False))


def _reads_as(cells: pa.Array | pa.Scalar, kind: pa.DataType) -> bool:
    try:
        cells.cast(kind)
        return True
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _in_time(sequences: Sequences, times: NDArray[Any], name: str) -> Sequences:
    """The steps of every sequence by the time of their rows; those of one time keep their order."""
    rows = np.arange(sequences.n_steps) if sequences.rows is None else sequences.rows
    order = np.lexsort((times[rows], sequences.sequence_of()))  # stable
    if (order == np.arange(len(order))).all():
        return sequences
    note = f"the steps of a sequence were sorted by the column {name!r}"
    return replace(
        sequences, codes=np.ascontiguousarray(sequences.codes[order]), rows=rows[order], notes=(*sequences.notes, note)
    )


def _from_scan(scan: Scan, columns: Columns, what: str) -> Sequences:
    """Files with one symbol per row: symbols and sequences coded with names that grow, the codes put end to end."""
    roles = _roles(scan.first_names(), columns, what)
    symbols, ids = GrowingNames("symbol", scan.untyped), GrowingNames("sequence", scan.untyped)
    codes: list[NDArray[np.int32]] = []
    owners: list[NDArray[np.int32]] = []
    times: list[NDArray[Any]] = []
    kind, behind, clock = None, 0, roles["time"] or ""
    for part in scan.columns_by_role(roles):
        codes.append(symbols.code(part["symbol"]))
        if "sequence" in part:
            owners.append(ids.code(part["sequence"]))
        if "time" in part:
            kind = _kind_of_time(part["time"], clock, what) if kind is None else kind
            times.append(_times(part["time"], kind, clock, what, behind))
        behind += len(codes[-1])
    recode, names = symbols.settled()
    flat = recode[np.concatenate(codes)]
    if owners:
        sequences = _by_group(flat, names, np.concatenate(owners), ids.settled(sort=False), what)
    else:
        sequences = Sequences(flat, np.array([0, len(flat)], np.int64), names, np.array([1]))
    sequences = replace(sequences, notes=_unused(scan.first_names(), roles))
    return _in_time(sequences, np.concatenate(times), clock) if times else sequences


def duplicated_proportion(data: Sequences) -> float:
    """Proportion of the steps in exact duplicates of an earlier sequence; short ones recur by chance and do not
    count."""
    repeated = _duplicates(data)
    return float(np.diff(data.offsets)[repeated].sum()) / max(data.n_steps, 1)


def without_duplicates(data: Sequences) -> Sequences:
    """One of each sequence where duplicates are more than a few: they say nothing new about other sequences."""
    if duplicated_proportion(data) < DUPLICATED:
        return data
    unique = ~_duplicates(data)
    return data.slices(data.offsets[:-1][unique], data.offsets[1:][unique])


def _duplicates(data: Sequences) -> NDArray[np.bool_]:
    """Which sequences (S,) of `DUPLICATE_STEPS` or more are the same as one before them, step by step."""
    lengths = np.diff(data.offsets)
    seen: set[bytes] = set()
    repeated = np.zeros(len(lengths), bool)
    for at in np.flatnonzero(lengths >= DUPLICATE_STEPS).tolist():
        content = data.codes[data.offsets[at] : data.offsets[at + 1]].tobytes()
        repeated[at] = content in seen
        seen.add(content)
    return repeated


def few_different(data: Sequences) -> int:
    """How many different sequences of two steps or more there are, if they are few by far; 0 where they are not.

    Short sequences over few symbols recur by chance, so the symbols must leave room for more: the exponential of their
    entropy, to the power of the steps.
    """
    lengths = np.diff(data.offsets)
    seen: set[bytes] = set()
    longest = 0
    for at in np.flatnonzero(lengths >= 2).tolist():
        seen.add(data.codes[data.offsets[at] : data.offsets[at + 1]].tobytes())
        longest = max(longest, int(lengths[at]))
        if len(seen) >= FEW_DIFFERENT:
            return 0
    if len(seen) == int((lengths >= 2).sum()):  # nothing recurs
        return 0
    frequencies = data.counts() / max(data.n_observed, 1)
    entropy = -float((frequencies[frequencies > 0] * np.log(frequencies[frequencies > 0])).sum())
    return len(seen) if longest * entropy > np.log(ROOM) else 0


def looks_measured(data: Sequences) -> bool:
    """Whether the symbols are decimal numbers, so many and each so seldom that they must be measurements."""
    if data.n_symbols < DECIMALS or data.n_observed >= MANY_DECIMALS * data.n_symbols:
        return False
    values = worth_of(data.symbols.tolist())
    return bool(np.isfinite(values).all() and (values != np.round(values)).mean() > 0.5)


def _from_lines(scan: Scan) -> Sequences:
    """One sequence per line: words between blanks."""
    return lines_to_sequences((lines for _, lines in scan.lines()), what=scan.paths[0])


def _assemble(values: Any, lengths: Any, groups: Any, what: str) -> Sequences:
    codes, symbols = encode(values, "symbol") if len(values) else (np.empty(0, np.int32), np.empty(0, object))
    codes = np.ascontiguousarray(codes, np.int32)
    if not len(codes):
        raise DataError(f"{what} holds no observation; give at least one symbol")
    if groups is not None:
        ids, names = encode(to_arrow(groups, "sequence"), "sequence", sort=False)
        return _by_group(codes, symbols, ids, (np.arange(len(names) + 1, dtype=np.int32), names), what)
    if lengths is None:
        return Sequences(codes, np.array([0, len(codes)], np.int64), symbols, np.array([1]))
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise DataError(
            "lengths must be a list of whole numbers, zero or more; give the number of observations of every sequence"
        )
    if int(sizes.sum()) != len(codes):
        raise DataError(
            f"lengths must sum to the {len(codes)} observations of {what}, got {int(sizes.sum())}; give the length of "
            "every sequence"
        )
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    return Sequences(codes, offsets, symbols, np.arange(1, len(sizes) + 1))


def _by_group(
    codes: NDArray[np.int32],
    symbols: Names,
    ids: NDArray[np.int32],
    settled: tuple[NDArray[np.int32], Names],
    what: str,
) -> Sequences:
    """Steps of one sequence put together; `settled` says which of its names an id stands for."""
    recode, names = settled
    if len(ids) != len(codes):
        raise DataError(f"groups must have one id per observation of {what}, {len(codes)}, got {len(ids)}")
    if (ids < 0).any():
        at = int((ids < 0).argmax())
        raise DataError(f"{what}, row {at + 1}: the sequence id is missing; give every row an id")
    ids = recode[ids]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=len(names)))]).astype(np.int64)
    if (np.diff(ids) >= 0).all():
        return Sequences(codes, offsets, symbols, names)
    rows = np.argsort(ids, kind="stable")
    return Sequences(np.ascontiguousarray(codes[rows]), offsets, symbols, names, rows)


def _under(sequences: Sequences, symbols: Names, what: str) -> Sequences:
    """The same sequences under the symbols of a fit; what it has not seen is read as missing."""
    if sequences.symbols is symbols:
        return sequences
    recode = np.append(match(sequences.symbols, symbols, "symbol"), np.int32(MISSING))
    codes = recode[sequences.codes].astype(np.int32)
    unseen = int(((codes < 0) & (sequences.codes >= 0)).sum())
    if unseen:
        unseen_symbols = sequences.symbols[recode[:-1] < 0]
        shown = ", ".join(repr(one) for one in unseen_symbols[:3].tolist())
        warnings.warn(
            f"{unseen} observations of {what} are symbols that the fit has not seen ({shown}"
            f"{', …' if len(unseen_symbols) > 3 else ''}) and were read as missing",
            DataWarning,
            stacklevel=4,
        )
    return replace(sequences, codes=codes, symbols=symbols)


def lines_to_sequences(
    batches: Iterable[Sequence[str]],
    *,
    letters: bool = False,
    missing_symbols: Sequence[str] = (),
    what: str = "the file",
) -> Sequences:
    """One sequence per line, lines in batches: words between blanks, or with `letters` every character.

    `missing_symbols` mark missing values; blank lines are skipped. Text that begins as FASTA does has a sequence per
    record.
    """
    batches = iter(batches)
    start = next(batches, ())
    batches = itertools.chain([start], batches)
    if is_fasta(start):
        return _from_fasta(batches, missing_symbols, what)
    symbols, missing = GrowingNames("symbol"), set(missing_symbols)
    codes: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    lengths: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    for lines in batches:
        parts = [list(line) if letters else line.split() for line in lines if line.strip()]
        flat = [None if one in missing else one for one in itertools.chain.from_iterable(parts)]
        if flat:
            codes.append(symbols.code(flat))
            lengths.append(np.array([len(part) for part in parts], np.int64))
    offsets = np.cumsum(np.concatenate(lengths))
    if len(offsets) == 1:
        raise DataError(f"{what} holds no line with anything in it; give one sequence per line")
    recode, names = symbols.settled()
    if not letters and len(offsets) - 1 == offsets[-1] and any(len(str(name)) > 1 for name in names.tolist()):
        warnings.warn(
            f"every line of {what} is one word, so every sequence has one step; give --letters if the letters of the "
            "words are the symbols",
            DataWarning,
            stacklevel=4,
        )
    return Sequences(recode[np.concatenate(codes)], offsets, names, np.arange(1, len(offsets)))


def _from_fasta(batches: Iterable[Sequence[str]], missing_symbols: Sequence[str], what: str) -> Sequences:
    """A sequence per record under its name, a symbol per letter."""
    warnings.warn(
        f"{what} begins with > and is read as FASTA: a sequence per record, a symbol per letter",
        DataWarning,
        stacklevel=5,
    )
    symbols, missing = GrowingNames("symbol"), set(missing_symbols)
    codes: list[NDArray[np.int32]] = []
    names: list[str] = []
    lengths: list[int] = []
    for name, letters in fasta_pieces(batches):
        if name is not None:
            names.append(name)
            lengths.append(0)
        else:
            codes.append(symbols.code([None if one in missing else one for one in letters]))
            lengths[-1] += len(letters)
    recode, known = symbols.settled()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    alone = len(set(names)) == len(names) and "" not in names
    called = np.array(names, object) if alone else np.arange(1, len(names) + 1)
    return Sequences(recode[np.concatenate(codes)], offsets, known, called)
