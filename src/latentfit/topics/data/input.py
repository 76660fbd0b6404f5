"""Whatever holds documents → `Documents`.

Accepted: a document-term matrix (scipy.sparse or dense), `Counts`, a long frame (columns `document`, `word` and, if
each row is not one token, `count`), a wide frame (one row per document; pandas: its index names them), a frame with one
column of texts, a list of token lists, a list of texts (tokens between blanks), gensim's bags of words (lists of
(word id, count)), an iterator of any of these lists, a `latentfit.scan` of long files or of texts with a document per
line, whose counts are added batch by batch. `words` names the columns of a matrix or the ids of bags of words.

Long or wide: a long frame has two columns, or three with a count, or text in its column of words. A frame of more
columns of numbers is a matrix, whatever its words are; a few columns of numbers that may be either are refused.

Rules: counts of the same document and word are added; a missing count is no count, and a row without document or word
is left out (a `DataWarning` says how many); fractional counts are weights; negative and infinite ones are refused. A
document without words stays, and gets the mean proportions. Under known words (a fitted model) other words are left out
with a `DataWarning`: a model knows nothing of a word that it has never seen.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.counts import CellTally, Counts, sparse_sums
from latentfit.core.errors import DataError, DataWarning
from latentfit.core.frames import (
    MOST_COLUMNS,
    Columns,
    Roles,
    as_frame,
    column,
    columns_by_role,
    find_roles,
    reads_as_long,
)
from latentfit.core.matrix import read_named_matrix
from latentfit.core.names import LARGEST_EXACT, GrowingNames, Names, encode, match, objects, plain, repeated, to_arrow
from latentfit.core.numbers import as_numbers
from latentfit.io.scan import Scan
from latentfit.topics.data.documents import Documents

ALIASES = {
    "document": ("document", "doc", "document_id", "doc_id", "docid", "text", "title"),
    "word": ("word", "term", "token", "feature", "type", "word_id", "term_id", "token_id"),
    "count": ("count", "counts", "n", "frequency", "freq", "weight", "tf", "value"),
    "text": (),  # only where it is said: a frame of texts has no column of words
}
PROSE_WORDS, ALL_DIFFERENT, LOOKED_AT = 4.0, 0.9, 1000
"""Words per cell from which a column holds texts, the proportion of different ones that it then has, and cells looked
at."""
Owner = Callable[[int], tuple[Any, ...]]
"""The document and the word of a count, by its place among the counts."""


def read_documents(data: Any, *, columns: Columns = None, words: Names | None = None, named: Any = None) -> Documents:
    """Documents of any accepted kind; with `words` under those known ones, in their order.

    `named` are words for the columns of a matrix or the ids of bags of words: a sequence, a mapping (id → word, or
    word → id as a vectorizer's vocabulary_ is), gensim's Dictionary, or a fitted vectorizer.
    """
    documents = _read(data, columns, None if named is None else word_list(named))
    return documents if words is None else match_words(documents, words)


def word_list(named: Any) -> Names:
    """Words in the order of their ids."""
    if hasattr(named, "get_feature_names_out"):
        return objects(named.get_feature_names_out())
    if hasattr(named, "token2id"):  # gensim's Dictionary
        named = dict(named.token2id)
    if not isinstance(named, Mapping):
        if isinstance(named, str) or not hasattr(named, "__iter__"):
            raise DataError(f"words={named!r} names no columns; give one word per column, in order")
        return objects(named)
    by_id = {key if isinstance(key, int | np.integer) else value: key for key, value in named.items()}
    if all(isinstance(key, int | np.integer) for key in named):
        by_id = dict(named)
    ids = list(by_id)
    if not ids or not all(isinstance(one, int | np.integer) for one in ids) or sorted(ids) != list(range(len(ids))):
        raise DataError("words= is a mapping whose ids are not 0, 1, 2, …; give one word for every id")
    return objects(by_id[at] for at in range(len(ids)))


def is_bags(data: Any) -> bool:
    """Whether data are bags of words as gensim has them: for every document a list of (word id, count)."""
    if not isinstance(data, list) or not data or not all(isinstance(one, list | tuple) for one in data):
        return False
    return any(len(one) for one in data) and all(
        isinstance(cell, tuple) and len(cell) == 2 and isinstance(cell[0], int | np.integer)
        for one in data for cell in one
    )  # fmt: skip


def gathered(data: Any) -> Any:
    """An iterator, or an iterable that is neither array, frame nor sequence (gensim's corpora), as a list."""
    known = ("shape", "__array__", "columns", "__arrow_c_stream__", "__dataframe__", "to_list", "row_names", "matrix")
    if isinstance(data, list | tuple | str | dict | Scan) or any(hasattr(data, name) for name in known):
        return data
    return list(data) if hasattr(data, "__iter__") else data


def is_text(data: Any) -> bool:
    """Whether data are documents as texts or token lists, not numbers; some may be missing (None, NaN)."""
    if isinstance(data, list | tuple):
        return all(map(_is_document, data)) and any(not _is_missing(one) and len(one) for one in data)
    if isinstance(data, np.ndarray):
        return data.ndim == 1 and data.dtype.kind in "UO" and is_text(data.tolist())
    series = hasattr(data, "dtype") and not hasattr(data, "columns") and hasattr(data, "to_list")  # pandas, polars
    return series and is_text(data.to_list())


def _is_document(one: Any) -> bool:
    """Whether it is a text, tokens (a list, a set, an array of words), or missing."""
    if isinstance(one, str) or _is_missing(one):
        return True
    if isinstance(one, np.ndarray):
        one = one.tolist() if one.ndim == 1 and one.dtype.kind in "UO" else [0]
    return isinstance(one, list | tuple | Set) and all(isinstance(token, str) for token in one)


def _is_missing(one: Any) -> bool:
    return one is None or type(one).__name__ == "NAType" or (isinstance(one, float) and np.isnan(one))


def is_long(data: Any, columns: Columns = None) -> bool:
    """Whether data is a frame, or files, with one row per document and word."""
    if isinstance(data, Scan):
        return True
    frame = as_frame(data)
    return frame is not None and _is_long(frame, find_roles(frame.columns, ALIASES, columns), columns)


def is_named(data: Any, columns: Columns = None) -> bool:
    """Whether documents bring words of their own: texts, long frames and files, what was read already."""
    if is_text(data) or isinstance(data, Documents) or hasattr(data, "row_names") or is_long(data, columns):
        return True
    frame = as_frame(data)
    return frame is not None and _text_column(frame, find_roles(frame.columns, ALIASES, columns)) is not None


def _is_long(frame: Any, roles: Roles, columns: Columns) -> bool:
    """Whether a frame has one row per document and word; one that may be a matrix as well is refused."""
    if columns:
        return roles["text"] is None and roles["document"] is not None and roles["word"] is not None
    long = reads_as_long(frame, roles, "document", "word")
    if long and is_prose(column(frame, str(roles["document"]))):
        raise _unsaid_texts(frame.columns, str(roles["document"]))
    if long is None:
        raise DataError(
            f"the frame has the columns {[str(name) for name in frame.columns]}, all numbers, which may be one row per "
            'document and word or one row per document; name them in columns={"document": …, "word": …, "count": …}, '
            "or give a matrix and its words="
        )
    return long


def _text_column(frame: Any, roles: Roles) -> str | None:
    """The column of texts: as said, or the only column of the frame."""
    if roles["text"] is not None or len(frame.columns) != 1:
        return roles["text"]
    return str(frame.columns[0]) if is_text(column(frame, frame.columns[0]).to_pylist()) else None


def is_prose(cells: Any) -> bool:
    """Whether a column (an arrow array, or a list) holds texts: several words each, hardly one of them twice."""
    start = _texts_of(cells[:LOOKED_AT])
    if not start or len(set(start)) < ALL_DIFFERENT * len(start):
        return False
    if sum(len(text.split()) for text in start) < PROSE_WORDS * len(start):
        return False
    texts = start if len(cells) <= LOOKED_AT else _texts_of(cells)
    return len(set(texts)) >= ALL_DIFFERENT * len(texts)


def _texts_of(cells: Any) -> list[str]:
    listed = cells if isinstance(cells, list) else cells.to_pylist()
    return [cell for cell in listed if isinstance(cell, str)]


def _refuse_unsaid_texts(frame: Any) -> None:
    """Refuse a few columns with texts in one of them, which are no matrix of counts with names of its rows."""
    if len(frame.columns) > MOST_COLUMNS + 1:
        return
    cells = {str(name): column(frame, name) for name in frame.columns}
    texts = [name for name, held in cells.items() if is_prose(held)]
    if texts:  # of a title and a text the longer one
        longest = max(texts, key=lambda name: sum(map(len, _texts_of(cells[name][:LOOKED_AT]))))
        raise _unsaid_texts(frame.columns, longest)


def _unsaid_texts(names: Sequence[Any], texts: str) -> DataError:
    return DataError(
        f"column {texts!r} of {[str(name) for name in names][:8]} holds a text in every row; to read them as the "
        f"documents give columns={{'text': {texts!r}}} (--columns {texts} on the command line)"
    )


def match_words(documents: Documents, words: Names) -> Documents:
    """The same documents over known words; what is not known is left out with a warning."""
    if documents.words is words or (len(documents.words) == len(words) and bool((documents.words == words).all())):
        return documents
    place = match(documents.words, words, "word")
    cells = documents.matrix.tocoo()
    keep = place[cells.col] >= 0
    if not keep.all():
        unknown = documents.words[np.unique(cells.col[~keep])]
        warnings.warn(
            f"{len(unknown)} words were not in the fit, {unknown.tolist()[0]!r} first; their "
            f"{cells.data[~keep].sum():g} counts were left out",
            DataWarning,
            stacklevel=4,
        )
    shape = (documents.n_documents, len(words))
    known = sp.coo_array((cells.data[keep], (cells.row[keep], place[cells.col[keep]])), shape=shape)
    return Documents(_tidy(sp.csr_array(known)), documents.names, words)


def rename_words(documents: Documents, words: Sequence[str], what: str) -> Documents:
    """The same documents under names of words, one per column, in order."""
    if len(words) != documents.n_words:
        raise DataError(f"{what} names {len(words)} words, and the documents have {documents.n_words}; name each once")
    return _from_matrix(documents.matrix, documents.names, objects(words))


def _read(data: Any, columns: Columns, named: Names | None) -> Documents:
    if named is not None and is_named(data, columns):
        raise DataError("words= names the columns of a matrix, and these documents bring their own; leave it out")
    if isinstance(data, Documents):
        return data
    if isinstance(data, Scan):
        return _from_lines(data) if data.text else _from_scan(data, find_roles(data.first_names(), ALIASES, columns))
    if isinstance(data, Counts):
        return Documents(_tidy(data.matrix), data.row_names, data.column_names)
    if sp.issparse(data):
        return _from_matrix(_tidy(data), None, named)
    if is_text(data):
        return _from_texts(list(data))
    if is_bags(data):
        return _from_bags(data, named)
    frame = as_frame(data)
    if frame is None:
        return _from_array(data, named)
    roles = find_roles(frame.columns, ALIASES, columns)
    if _is_long(frame, roles, columns):
        return _from_long(frame, roles)
    texts = _text_column(frame, roles)
    if texts is not None:
        names_documents = bool(columns and "document" in columns)
        return _from_text_column(frame, texts, roles, names_documents)
    if columns:
        lacking = next(role for role, name in roles.items() if name is None)
        raise DataError(f"the frame has no column for the {lacking} among {list(frame.columns)}; name it in columns=")
    _refuse_unsaid_texts(frame)
    wide = read_named_matrix(data, what="the frame of the documents")
    names = None if wide.row_names is None else np.array(wide.row_names, object)
    kind = object if all(isinstance(name, str) for name in wide.column_names) else None
    words = np.array(wide.column_names, kind) if named is None else named
    return _from_matrix(sp.csr_array(wide.values), names, words)


def _from_text_column(frame: Any, texts: str, roles: Roles, names_documents: bool) -> Documents:
    """Texts of a column, a missing one without words, called by the column of documents or by their rows.

    A column of documents that nobody named may hold titles that occur twice: rows are numbered then.
    """
    parts = columns_by_role(frame, {"text": texts, "document": roles["document"]})
    documents = _from_texts(["" if text is None else str(text) for text in parts["text"].to_pylist()])
    if "document" not in parts or roles["document"] == texts:
        return documents
    names = parts["document"].to_pylist()
    if not names_documents and (None in names or len(set(names)) < len(names)):
        return documents
    return _from_matrix(documents.matrix, objects(names), documents.words)


def _from_bags(bags: list[Any], named: Names | None) -> Documents:
    """Bags of (word id, count): a column per id, named or not."""
    sizes = [len(bag) for bag in bags]
    ids = np.array([int(cell[0]) for bag in bags for cell in bag], np.int64)
    try:
        values = np.array([float(cell[1]) for bag in bags for cell in bag])
    except (TypeError, ValueError):
        raise DataError("the bags of words hold a count that is no number; give (word id, count) pairs") from None
    if ids.min() < 0:
        raise DataError(f"the bags of words hold the word id {ids.min()}; give ids of 0 or more")
    width = int(ids.max()) + 1
    if named is not None:
        if width > len(named):
            raise DataError(f"the bags hold the word id {width - 1}, and {len(named)} words have names; name every id")
        width = len(named)
    rows = np.repeat(np.arange(len(bags)), sizes)
    words = np.arange(width) if named is None else named
    _check_counts(values, lambda at: (int(rows[at]) + 1, words[ids[at]]))
    return _from_matrix(sparse_sums(rows, ids, values, (len(bags), width)), None, words)


def _from_array(data: Any, named: Names | None) -> Documents:
    try:
        values = np.asarray(data, np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "the documents hold something that is no number; give a matrix of counts, a frame with the columns "
            "document and word, a list of texts, or bags of words as lists of (word id, count)"
        ) from None
    if values.ndim != 2 or not values.size:
        raise DataError(f"the documents have shape {values.shape}; give a matrix (document, word) that is not empty")
    return _from_matrix(sp.csr_array(values), None, named)


def _from_texts(texts: list[Any]) -> Documents:
    lists = [[] if _is_missing(text) else text.split() if isinstance(text, str) else list(text) for text in texts]
    _warn(sum(map(_is_missing, texts)), "documents are missing, and have no words")
    tokens = [token for tokens in lists for token in tokens]
    if not tokens:
        raise DataError(f"the {len(texts)} documents hold no word; give at least one")
    codes, words = encode(tokens, "word")
    owner = np.repeat(np.arange(len(lists)), [len(tokens) for tokens in lists])
    ones = sp.coo_array((np.ones(len(owner)), (owner, codes)), shape=(len(lists), len(words)))
    return Documents(_tidy(sp.csr_array(ones)), np.arange(1, len(lists) + 1), words)


def _from_long(frame: Any, roles: Roles) -> Documents:
    if not len(frame):
        raise DataError("the frame of documents has no rows; give at least one")
    parts = columns_by_role(frame, roles)
    rows, documents = encode(parts["document"], "document", sort=False)
    cols, words = encode(parts["word"], "word")
    counts = np.ones(len(rows)) if "count" not in parts else _count_column(parts["count"])
    named = (rows >= 0) & (cols >= 0) & ~np.isnan(counts)
    _warn(int((~named).sum()), "rows lack a document, a word or a count, and were left out")
    if not named.any():
        raise DataError("no row of the frame has a document, a word and a count; give at least one")
    rows, cols, counts = rows[named], cols[named], counts[named]
    _check_counts(counts, lambda at: (documents[rows[at]], words[cols[at]]))
    return _from_matrix(sparse_sums(rows, cols, counts, (len(documents), len(words))), documents, words)


def _count_column(counts: Any, before: int = 0) -> NDArray[np.float64]:
    advice = "give how often each word occurs"
    return as_numbers(to_arrow(counts, "count"), "the column of counts", advice, before)


def _from_scan(scan: Scan, roles: Roles) -> Documents:
    """Long files: documents and words coded with names that grow, counts added batch by batch."""
    lacking = next((role for role in ("document", "word") if roles[role] is None), None)
    if lacking is not None:
        raise DataError(
            f"{scan.paths[0]} has the columns {scan.first_names()[:8]}, none for the {lacking}; give document, word "
            "and count, or say which they are with columns= (--document, --word and --count)"
        )
    rows, cols = GrowingNames("document", scan.untyped), GrowingNames("word", scan.untyped)
    tally, behind, without = CellTally(), 0, 0
    for part in scan.columns_by_role(roles):
        row, col = rows.code(part["document"]), cols.code(part["word"])
        counts = np.ones(len(row)) if "count" not in part else _count_column(part["count"], behind)
        named = (row >= 0) & (col >= 0) & ~np.isnan(counts)
        _check_counts(counts[named], _named_by((rows, row[named]), (cols, col[named])))
        tally.add(row[named], col[named], counts[named])
        behind, without = behind + len(row), without + int((~named).sum())
    _warn(without, "rows lack a document, a word or a count, and were left out")
    if len(rows.place) >= ALL_DIFFERENT * behind and is_prose(list(rows.place)):
        raise _unsaid_texts(scan.first_names(), str(roles["document"]))
    cells = tally.cells()
    if not len(cells[0]):
        raise DataError("no row of the files has a document, a word and a count; give at least one")
    (row_of, names), (col_of, known) = rows.settled(sort=False), cols.settled()
    matrix = sparse_sums(row_of[cells[0]], col_of[cells[1]], cells[2], (len(names), len(known)))
    return _from_matrix(matrix, names, known)


def _from_lines(scan: Scan) -> Documents:
    """A document per line, called by the number of its line in all files; of a folder a document per file."""
    if scan.folder:
        warnings.warn(
            f"each of the {len(scan.paths):,} files of the folder is a document, called by its name; name the files "
            "themselves (such as 'folder/*.txt') if every line is a document",
            DataWarning,
            stacklevel=5,
        )
    words, tally, n_lines = GrowingNames("word"), CellTally(), 0
    row_of = {path: row for row, path in enumerate(scan.paths)}
    for path, lines in scan.lines():
        lists = [line.split() for line in lines]
        rows = np.full(len(lists), row_of[path]) if scan.folder else np.arange(n_lines, n_lines + len(lists))
        if any(lists):
            tally.add(
                np.repeat(rows, [len(line) for line in lists]), words.code([word for line in lists for word in line])
            )
        n_lines += len(lists)
    if not words.place:
        where = f"the files of the folder hold no word, {scan.paths[0]} first; give at least one"
        raise DataError(where if scan.folder else f"{scan.paths[0]} holds no word; write one document per line")
    code, known = words.settled()
    rows, cols, sums = tally.cells()
    names = np.arange(1, n_lines + 1)
    if scan.folder:
        called = [os.path.basename(path) for path in scan.paths]
        names = objects(called if len(set(called)) == len(called) else scan.paths)
    return Documents(_tidy(sparse_sums(rows, code[cols], sums, (len(names), len(known)))), names, known)


def _from_matrix(matrix: sp.csr_array, names: Names | None, words: Names | None) -> Documents:
    n_documents, n_words = (int(size) for size in matrix.shape)
    names = np.arange(1, n_documents + 1) if names is None else names
    words = np.arange(n_words) if words is None else words
    if len(words) != n_words:
        raise DataError(f"words names {len(words)} words, and the documents have {n_words}; name each once")
    for given, kind in ((names, "document"), (words, "word")):
        if len(set(given.tolist())) < len(given):
            twice = repeated(given.tolist())
            raise DataError(f"the {kind} {twice!r} stands there twice; give every {kind} a name of its own")
    values = matrix.data.astype(np.float64)
    if np.isnan(values).any():
        _warn(int(np.isnan(values).sum()), "cells are missing, and were taken as no count")
        values = np.where(np.isnan(values), 0.0, values)
    _check_counts(
        values, lambda at: (names[np.searchsorted(matrix.indptr, at, side="right") - 1], words[matrix.indices[at]])
    )
    return Documents(_tidy(sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)), names, words)


def _check_counts(values: NDArray[Any], owner: Owner) -> None:
    """Refuse the first count that is none; asked before counts are added, for -1 and 3 are not 2."""
    bad = (values < 0) | (values > LARGEST_EXACT)
    if bad.any():
        at = int(bad.argmax())
        what = "Negative values in data passed as counts" if values[at] < 0 else "A count too large for any document"
        document, word = (plain(name) for name in owner(at))
        raise DataError(
            f"{what}: document {document!r} holds {values[at]:g} of the word {word!r}; "
            "give how often each word occurs, zero or more"
        )


def _named_by(*sides: tuple[GrowingNames, NDArray[np.int32]]) -> Owner:
    """Whose a count is, by codes under names that grow: settled only when somebody asks."""

    def owner(at: int) -> tuple[Any, ...]:
        settled = [(grown.settled(sort=False), codes[at]) for grown, codes in sides]
        return tuple(names[place[code]] for (place, names), code in settled)

    return owner


def _tidy(matrix: Any) -> sp.csr_array:
    """float64, duplicates added, no zeros, sorted; the caller's arrays stay as they are."""
    tidy = sp.csr_array(matrix, dtype=np.float64, copy=True)
    tidy.sum_duplicates()
    tidy.eliminate_zeros()
    tidy.sort_indices()
    return tidy


def _warn(number: int, rule: str) -> None:
    if number:
        warnings.warn(f"{number} {rule}", DataWarning, stacklevel=6)
